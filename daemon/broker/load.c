/* SPDX-License-Identifier: MIT */
/* Loads the sampler (bpf/sampler.bpf.c) into the kernel and controls it: the life of a sampler is
 *
 *    open    which programs, which sizes of maps
 *    load    the kernel's verifier: most of the time of an attach, so one is loaded ahead
 *    start   attaches what follows fork, exec and exit
 *            perf events run `sample` (perf.c)
 *    stop
 *    empty   (empty.h), then start again, for the same client
 *
 * Options that change what programs do are constants in .rodata: the verifier never sees code that a session does not
 * use, and they cannot change after the load. What changes while it runs are variables in .bss, written here through
 * shared memory. */
#include "base/clock.h"
#include "broker/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/thread.h"
#include "broker/attach_points.h"
#include "broker/coroutine.h"
#include "broker/empty.h"
#include "broker/kernel_types.h"
#include "broker/namespace.h"
#include "sampler.skel.h"

#define INSERT_US 20
#define INSERT_TRIES 50  /* polls, INSERT_US apart; normally the first one succeeds */
#define INSERT_MS 50     /* then one poll per millisecond, in which others are served */
/* The number of elements of the map `waits`, as bpf/offcpu.h has it; without wall mode the map keeps its smallest
 * size. */
#define WAIT_SLOTS 4096u
#define CPUS_MAX 8192
/* As in bpf/sampler.bpf.c: bits of the filter for pids, by pid % TARGET_BITS. */
#define TARGET_BITS 4096u

struct load_options load_options__of(uint32_t flags, bool verbose)
{
	return (struct load_options){
		.verbose = verbose,
		.follow_children = flags & BROKER_SUBPROCESSES,
		.native = (flags & BROKER_NATIVE_MASK) >> BROKER_NATIVE_SHIFT,
		.kernel = flags & BROKER_KERNEL,
		.wall = flags & BROKER_WALL,
		.gil = flags & BROKER_GIL,
		.host = flags & BROKER_HOST,
	};
}

struct sampler {
	struct sampler_bpf *skel;
	struct load_options options;
	uint32_t pools;
	uint64_t pool_bytes;
	pthread_t emptier; /* the thread that clears the maps, if recycled */
	bool recycled;
	int emptied;       /* set by that thread: 0, -errno; 1: not yet */
};

/* Below a warning (what the verifier refused, with its log) these are 3,800 lines a load, of libbpf's own business. */
static int print_warnings(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

void load__print(bool verbose)
{
	libbpf_set_print(verbose ? print_warnings : NULL);
}

/* Maps with one element per CPU. */
static const char *const per_cpu[] = {"scratch", "samples", "natives"};

static uint64_t ring_bytes(const struct load_options *options)
{
	return options->ring_bytes ? options->ring_bytes : BROKER_RING_BYTES;
}

int load__cpus(void)
{
	const char *more = getenv("CPROFD_CPUS");
	int cpus = libbpf_num_possible_cpus(), at_least = more ? atoi(more) : 0;

	return cpus > 0 && at_least > cpus && at_least <= CPUS_MAX ? at_least : cpus;
}

/* Sizes have to be set between open and load. A map that the options do not need keeps one element: it cannot be left
 * out, as programs refer to it. */
static int set_sizes(struct sampler_bpf *skel, const struct load_options *options, int cpus)
{
	static const uint32_t stacks[] = {
		[LOAD_STACKS_UNFINISHED] = 1, [LOAD_STACKS_NEVER] = 0, [LOAD_STACKS_ALWAYS] = 2};
	int err;

	if (cpus < 0)
		return cpus;
	for (size_t i = 0; i < sizeof(per_cpu) / sizeof(*per_cpu); i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(skel->obj, per_cpu[i]);

		if (!map)
			return -ENOENT;
		if (map == skel->maps.natives && !options->native)
			continue;
		err = bpf_map__set_max_entries(map, (uint32_t)cpus);
		if (err)
			return err;
	}
	skel->rodata->follow_children = options->follow_children;
	skel->rodata->native = options->native;
	skel->rodata->stack_copy = stacks[options->stacks];
	skel->rodata->kernel_stacks = options->kernel;
	skel->rodata->gil = options->gil || options->wall;
	skel->rodata->host = options->host;
	if (options->wall) {
		skel->rodata->wall = 1;
		err = bpf_map__set_max_entries(skel->maps.waits, WAIT_SLOTS);
		if (err)
			return err;
	}
	if (!options->follow_children) {
		err = bpf_map__set_max_entries(skel->maps.targets, 1);
		if (err)
			return err;
	}
	if (!options->native) {
		err = bpf_map__set_max_entries(skel->maps.processes, 1);
		if (err)
			return err;
	}
	return bpf_map__set_max_entries(skel->maps.ring, (uint32_t)ring_bytes(options));
}

uint64_t load__map_bytes(const struct bpf_map *map)
{
	const uint64_t n = bpf_map__max_entries(map), value = (bpf_map__value_size(map) + 7u) & ~7u, key = (bpf_map__key_size(map) + 7u) & ~7u;
	uint64_t buckets = 1;

	switch (bpf_map__type(map)) {
	case BPF_MAP_TYPE_RINGBUF:
		return n + 32768;
	case BPF_MAP_TYPE_HASH: /* struct htab_elem, struct bucket; the few spare elements per CPU do not matter */
		while (buckets < n)
			buckets *= 2;
		return n * (48 + key + value) + buckets * 16 + 4096;
	default:
		return n * value + 8192;
	}
}

uint64_t sampler__bytes(const struct load_options *options, int cpus)
{
	struct load_options of = *options;
	struct sampler_bpf *skel = sampler_bpf__open();
	struct bpf_map *map;
	uint64_t bytes = 0;

	if (skel && !set_sizes(skel, &of, cpus))
		bpf_object__for_each_map(map, skel->obj)
			bytes += load__map_bytes(map);
	sampler_bpf__destroy(skel);
	return bytes;
}

int load__hide_from_children(const struct bpf_object *object)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size;
	struct bpf_map *map;
	const void *data;

	bpf_object__for_each_map(map, object) {
		data = bpf_map__initial_value(map, &size);
		if (data && madvise((void *)data, (size + page - 1) & ~(page - 1), MADV_DONTFORK))
			return -errno;
	}
	return 0;
}

/* The errno alone is not enough: without BTF, libbpf fails in many ways. */
enum broker_error load__error(int err)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		return BROKER_ERROR_NO_BTF;
	switch (err) {
	case -EPERM:
		return BROKER_ERROR_NO_BPF;
	case -ENOMEM:
		return BROKER_ERROR_NO_MEMORY;
	case -EACCES:
	case -EINVAL:
	case -E2BIG:
		return BROKER_ERROR_VERIFIER;
	default:
		return BROKER_ERROR_INTERNAL;
	}
}

/* Uses the BTF in the file `types`; -1: vmlinux's BTF. on_map is for JIT code and new libraries: only native stacks
 * need it. The other programs that are switched on here are those of wall mode. */
static int open_and_load(const struct load_options *options, int types, struct sampler_bpf **ret)
{
	char path[64];
	LIBBPF_OPTS(bpf_object_open_opts, open, .btf_custom_path = types < 0 ? NULL : path);
	bool nested = namespace__own();
	struct sampler_bpf *skel;
	int err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", types);
	skel = sampler_bpf__open_opts(&open);
	err = skel ? 0 : -errno;
	if (!err && options->native == BROKER_NATIVE_FULL)
		err = bpf_program__set_autoload(skel->progs.on_map, true);
	if (!err && options->wall)
		err = bpf_program__set_autoload(skel->progs.on_switch, true) ?:
		      bpf_program__set_autoload(skel->progs.on_waking, true) ?:
		      bpf_program__set_autoload(skel->progs.each_first, true) ?:
		      bpf_program__set_autoload(skel->progs.each_last, true);
	if (!err)
		err = bpf_program__set_autoload(skel->progs.find_namespace, nested) ?: set_sizes(skel, options, load__cpus());
	if (!err) {
		skel->rodata->nested = nested;
		err = sampler_bpf__load(skel) ?: load__has(skel->rodata && skel->bss);
	}
	if (!err && nested)
		err = namespace__describe(bpf_program__fd(skel->progs.find_namespace));
	err = err ?: load__hide_from_children(skel->obj);
	if (err)
		sampler_bpf__destroy(skel);
	else
		*ret = skel;
	return err;
}

/* The small BTF for the programs (kernel_types.h); -1: it could not be made. */
static int open_types(void)
{
	struct sampler_bpf *skel = sampler_bpf__open();
	int fd = -1;

	if (!skel)
		return -1;
	if (kernel_types__open(bpf_object__btf(skel->obj), &fd))
		fd = -1;
	sampler_bpf__destroy(skel);
	attach_points__use();
	return fd;
}

/* If loading with the small BTF fails, all of it is done again with vmlinux's: slower, but libbpf knows more
 * kernels. */
int sampler__load(const struct load_options *options, struct sampler **ret,
		  enum broker_error *ret_error)
{
	struct sampler *sampler = calloc(1, sizeof(*sampler));
	_cleanup_close_ int types = -1;
	int err;

	*ret_error = BROKER_ERROR_OK;
	if (!sampler) {
		*ret_error = BROKER_ERROR_NO_MEMORY;
		return -ENOMEM;
	}
	sampler->options = *options;
	load__print(options->verbose);
	types = open_types();
	err = open_and_load(options, types, &sampler->skel);
	if (err && types >= 0)
		err = open_and_load(options, -1, &sampler->skel);
	if (err) {
		*ret_error = load__error(err);
		sampler__free(sampler);
		return err;
	}
	*ret = sampler;
	return 0;
}

/* Attaches all programs except `sample`, which is attached to each perf event. */
int sampler__start(struct sampler *sampler)
{
	struct sampler_bpf *skel = sampler->skel;
	struct {
		struct bpf_program *program;
		struct bpf_link **link;
		bool needed;
	} const all[] = {
		{skel->progs.on_fork, &skel->links.on_fork, true},
		{skel->progs.on_exec, &skel->links.on_exec, true},
		{skel->progs.on_exit, &skel->links.on_exit, true},
		{skel->progs.on_free, &skel->links.on_free, true},
		/* A kernel may lack this tracepoint: mappings are also polled. */
		{skel->progs.on_map, &skel->links.on_map, false},
		/* wall mode */
		{skel->progs.on_switch, &skel->links.on_switch, true},
		{skel->progs.on_waking, &skel->links.on_waking, true},
		{skel->progs.each_first, &skel->links.each_first, true},
		{skel->progs.each_last, &skel->links.each_last, true},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (*all[i].link || bpf_program__fd(all[i].program) < 0)
			continue;
		*all[i].link = attach_points__attach(all[i].program);
		if (!*all[i].link && all[i].needed)
			return -errno;
	}
	return 0;
}

bool sampler__fits(const struct sampler *sampler, const struct load_options *options)
{
	return ring_bytes(&sampler->options) == ring_bytes(options) &&
	       sampler->options.follow_children == options->follow_children &&
	       sampler->options.native == options->native &&
	       sampler->options.stacks == options->stacks &&
	       sampler->options.kernel == options->kernel && sampler->options.wall == options->wall &&
	       sampler->options.gil == options->gil && sampler->options.host == options->host;
}

struct sampler *sampler__free(struct sampler *sampler)
{
	if (!sampler)
		return NULL;
	if (sampler->recycled)
		pthread_join(sampler->emptier, NULL);
	if (sampler->skel)
		sampler_bpf__destroy(sampler->skel);
	free(sampler);
	return NULL;
}

/* --- using a sampler again --- */

/* A thread, as clearing takes some ms and waits for the kernel. Nobody else touches this sampler until `emptied` is
 * 0. */
static void *empty(void *context)
{
	struct sampler *sampler = context;

	__atomic_store_n(&sampler->emptied, empty__maps(sampler->skel->obj), __ATOMIC_RELEASE);
	return NULL;
}

void sampler__stop(struct sampler *sampler)
{
	sampler_bpf__detach(sampler->skel);
}

struct sampler *sampler__recycle(struct sampler *sampler)
{
	/* Clearing pools is what waits for programs that are still running (empty.c): without pools nothing
	 * would. In a PID namespace, some variables are set by find_namespace and must not be cleared. */
	if (!sampler->pools || sampler->skel->rodata->nested)
		return sampler__free(sampler);
	if (sampler->recycled)
		pthread_join(sampler->emptier, NULL);
	sampler->pools = 0;
	sampler->pool_bytes = 0;
	sampler->emptied = 1;
	sampler->recycled = !thread__start(&sampler->emptier, empty, sampler);
	return sampler->recycled ? sampler : sampler__free(sampler);
}

bool sampler__is_empty(const struct sampler *sampler, bool *ret_failed)
{
	int emptied = __atomic_load_n(&sampler->emptied, __ATOMIC_ACQUIRE);

	*ret_failed = emptied < 0;
	return !emptied;
}

int sampler__ring(const struct sampler *sampler)
{
	return bpf_map__fd(sampler->skel->maps.ring);
}

int sampler__images(const struct sampler *sampler)
{
	return bpf_map__fd(sampler->skel->maps.images);
}

int sampler__samples(const struct sampler *sampler)
{
	return bpf_map__fd(sampler->skel->maps.samples);
}

int sampler__processes(const struct sampler *sampler)
{
	return bpf_map__fd(sampler->skel->maps.processes);
}

int sampler__program(const struct sampler *sampler)
{
	return bpf_program__fd(sampler->skel->progs.sample);
}

/* After a map is inserted into a map of maps, the kernel waits until no program can still use the old entry: 12 ms.
 * Here the slot was empty, so a thread of its own does the waiting. The thread owns this struct and both
 * descriptors. */
struct insertion {
	int pools, pool;
	uint32_t number;
};

static void *insert(void *context)
{
	struct insertion *in = context;

	bpf_map_update_elem(in->pools, &in->number, &in->pool, BPF_ANY);
	close(in->pools);
	close(in->pool);
	free(in);
	return NULL;
}

static int insert_apart(int pools, uint32_t number, int pool)
{
	struct insertion *in = malloc(sizeof(*in));
	int err;

	if (!in)
		return -ENOMEM;
	*in = (struct insertion){
		.pools = fcntl(pools, F_DUPFD_CLOEXEC, 3), .pool = fcntl(pool, F_DUPFD_CLOEXEC, 3), .number = number};
	err = in->pools < 0 || in->pool < 0 ? -EMFILE : thread__start_detached(insert, in);
	if (err) {
		close(in->pools);
		close(in->pool);
		free(in);
	}
	return err;
}

/* Inserts the pool, and polls until a lookup finds it; programs can use it from then on. The first polls sleep, 1 ms
 * altogether: nearly always the insertion is there by then. Later ones let others run. If it still cannot be seen, it
 * is done (again) here, and waits. */
static int insert_pool(int pools, uint32_t number, int pool)
{
	uint32_t id;

	if (!insert_apart(pools, number, pool)) {
		for (int i = 0; i < INSERT_TRIES + INSERT_MS; i++) {
			if (!bpf_map_lookup_elem(pools, &number, &id))
				return 0;
			if (i < INSERT_TRIES)
				usleep(INSERT_US);
			else if (coroutine__wait(-1, 0, clock__now() + 1000000u) == -ECANCELED)
				return -ECANCELED;
		}
	}
	return bpf_map_update_elem(pools, &number, &pool, BPF_ANY) ? -errno : 0;
}

/* A pool is an array of pages that the engine maps: it writes unwind tables there without a system call for each
 * row. */
int sampler__add_pool(struct sampler *sampler, uint64_t bytes, uint32_t *ret_number, int *ret_fd)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	uint32_t number = sampler->pools;
	int fd, err;

	if (!sampler->options.native || number >= BROKER_POOLS_MAX || !bytes || bytes % 4096 ||
	    bytes > BROKER_POOLS_BYTES - sampler->pool_bytes)
		return -EDQUOT;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "cprofd_pool", 4, 4096, (uint32_t)(bytes / 4096), &options);
	if (fd < 0)
		return fd;
	err = insert_pool(bpf_map__fd(sampler->skel->maps.pools), number, fd);
	if (err) {
		close(fd);
		return err;
	}
	sampler->pools++;
	sampler->pool_bytes += bytes;
	*ret_number = number;
	*ret_fd = fd;
	return 0;
}

/* Runs an iterator once. Its output goes into the ring or into variables. */
static void each_task(const struct bpf_link *link)
{
	_cleanup_close_ int fd = bpf_iter_create(bpf_link__fd(link));
	char rows[64];

	while (fd >= 0 && read(fd, rows, sizeof(rows)) > 0)
		;
}

/* An iterator over one task: the program `note` runs on it in the kernel, and writes what it sees to bss->noted. So it
 * is the same code that compares it at each sample (bpf/authorised.h). */
int sampler__note(struct sampler *sampler, pid_t pid, struct target *ret)
{
	union bpf_iter_link_info of = {.task.tid = (uint32_t)pid};
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &of, .link_info_len = sizeof(of));
	struct sampler_bpf__bss *bss = sampler->skel->bss;
	struct bpf_link *link;

	memset(&bss->noted, 0, sizeof(bss->noted));
	bss->note_of = (uint32_t)pid;
	link = bpf_program__attach_iter(sampler->skel->progs.note, &options);
	if (!link)
		return -errno;
	each_task(link);
	bpf_link__destroy(link);
	memcpy(ret, (const void *)&bss->noted, sizeof(*ret));
	return ret->mm ? 0 : -ESRCH;
}

int sampler__publish(struct sampler *sampler, pid_t pid, const struct target *as)
{
	uint32_t key = (uint32_t)pid;

	return bpf_map_update_elem(bpf_map__fd(sampler->skel->maps.targets), &key, as, BPF_EXIST) ? -errno : 0;
}

void sampler__remove_target(struct sampler *sampler, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	bpf_map_delete_elem(bpf_map__fd(sampler->skel->maps.targets), &key);
}

/* Also fills the shortcuts by which the sampler recognises other processes quickly: the only target, or a bit per
 * pid. */
int sampler__add_target(struct sampler *sampler, pid_t pid, const struct target *as)
{
	uint32_t key = (uint32_t)pid;

	if (!sampler->skel->rodata->nested && !sampler->options.follow_children) {
		sampler->skel->bss->each_tick.only_target = pid;
		sampler->skel->bss->each_tick.any_target = as->state == TARGET_ANY ? pid : 0;
	}
	if (sampler->options.wall)
		__atomic_fetch_or(&sampler->skel->bss->target_bits[key % TARGET_BITS / 64], 1ull << key % 64, __ATOMIC_RELAXED);
	return bpf_map_update_elem(bpf_map__fd(sampler->skel->maps.targets), &key, as, BPF_ANY);
}

void sampler__set_rate(struct sampler *sampler, uint32_t rate)
{
	sampler->skel->bss->each_tick.clock_period = 1000000000u / rate;
	sampler__lower_rate(sampler, rate);
}

void sampler__lower_rate(struct sampler *sampler, uint32_t rate)
{
	__atomic_store_n(&sampler->skel->bss->each_tick.tick_period, 1000000000u / rate, __ATOMIC_RELAXED);
}

void sampler__watch_waits(struct sampler *sampler)
{
	if (sampler->options.wall)
		__atomic_store_n(&sampler->skel->bss->waits_since, clock__now(), __ATOMIC_RELEASE);
}

/* The time is set before the iterator runs: a thread that leaves its CPU in between is recorded by on_switch, one that
 * slept before by the iterator. */
uint64_t sampler__begin_waits(struct sampler *sampler)
{
	uint64_t now = clock__now();

	if (!sampler->options.wall)
		return now;
	__atomic_store_n(&sampler->skel->bss->waits_begin, now, __ATOMIC_RELEASE);
	each_task(sampler->skel->links.each_first);
	return now;
}

/* First nothing new is counted, then each thread's open wait is emitted. */
uint64_t sampler__end_waits(struct sampler *sampler)
{
	if (!sampler->options.wall)
		return 0;
	__atomic_store_n(&sampler->skel->bss->waits_over, 1, __ATOMIC_RELEASE);
	each_task(sampler->skel->links.each_last);
	return clock__now();
}

bool sampler__is_target(const struct sampler *sampler, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	struct target as;

	return !bpf_map_lookup_elem(bpf_map__fd(sampler->skel->maps.targets), &key, &as);
}

/* Where a key has gone meanwhile, the kernel begins again: hence "twice", and the bound. */
int sampler__targets(const struct sampler *sampler, pid_t **ret, uint32_t *ret_n)
{
	const struct bpf_map *map = sampler->skel->maps.targets;
	uint32_t key = 0, next, n = 0, capacity = 0;
	pid_t *pids = NULL;

	while (n < bpf_map__max_entries(map) && !bpf_map_get_next_key(bpf_map__fd(map), n ? &key : NULL, &next)) {
		int err = ARRAY_ADD(pids, n, capacity, (pid_t)next);

		if (err) {
			free(pids);
			return err;
		}
		key = next;
	}
	*ret = pids;
	*ret_n = n;
	return 0;
}

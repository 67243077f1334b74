/* SPDX-License-Identifier: MIT */
/* The sampler's walks against libunwind's, and against its own tables in user space: of each sample the registers
 * and a copy of the stack are recorded, and walked again.
 *
 *   oracle PID SAMPLES RATE SETTLE-SECS [LIMIT-SECS]
 *
 * Compared pc by pc, innermost first. A walk that was cut by name (a loss, the copy's end) must be equal as far
 * as it goes. Lines at the end, for tests/live/oracle.py: "NAME NUMBER". Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "broker/load.h"
#include "broker/perf.h"
#include "broker/process.h"
#include "broker/ring.h"
#include "collect/collect.h"
#include "dump/dump.h"
#include "modules/modules.h"
#include "target/process.h"

#define POOLS 32u
#define SHOWN 6u

static const char *const losses[] = {
#define LOSS_NAME(id, kind, name, sentence) [LOSS_##id] = name,
	CPROFD_LOSSES(LOSS_NAME)
};

static struct {
	struct modules_host host;
	struct modules *modules;
	struct modules_process *of;
	struct sampler *sampler;
	struct ring *ring;
	struct target_process process;
	struct dump_unwinder *unwinder;
	struct host_pool pools[POOLS];
	struct unwind_process list;
	struct unwind_walk walk;
	double settled, refreshed;
} own;

static struct counts {
	unsigned long samples, no_stack;
	unsigned long whole;          /* all three came to the thread's entry, and are equal */
	unsigned long frames, in_kernel, signals;
	unsigned long cut;            /* equal as far as the shorter one goes, which was cut by name */
	unsigned long differ, tables_differ, tables_whole;
	unsigned long by_bpf[LOSS_COUNT], by_libunwind[LOSS_COUNT];
} counts;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- what the engine's host does, in one process --- */

static int open_file(struct modules_host *host, int32_t pid, uint64_t start, uint64_t end)
{
	int fd = -1, err = process__open_file(pid, start, end, &fd);

	modules__file(own.modules, err ? err : fd);
	return 0;
}

static int add_pool(struct modules_host *host, uint64_t bytes)
{
	uint32_t number = 0;
	int fd = -1, err = sampler__add_pool(own.sampler, bytes, &number, &fd);
	void *memory = err ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);

	if (memory != MAP_FAILED && number < POOLS)
		own.pools[number] = (struct host_pool){.blocks = memory, .n = (uint32_t)(bytes / 4096)};
	modules__pool(own.modules, err ? err : fd, err ? 0 : bytes, number);
	return 0;
}

static int open_perf_map(struct modules_host *host, int32_t pid) { return -ENOENT; }

static int set_process(struct modules_host *host, const struct native_key *key, const struct unwind_process *process)
{
	int map = sampler__processes(own.sampler);

	if (process && key->tgid)
		own.list = *process;
	return process ? processes__put(map, own.ring, key, process) : processes__drop(map, own.ring, key);
}

/* --- one sample --- */

struct pcs {
	uint64_t at[RECORD_NATIVE_FRAMES_MAX];
	uint32_t n;
};

static bool take(void *context, const struct unwind_state *state)
{
	struct pcs *pcs = context;

	if (pcs->n == RECORD_NATIVE_FRAMES_MAX)
		return false;
	pcs->at[pcs->n++] = (state->regs[UNWIND_PC] & ~NATIVE_EXACT) | (state->exact ? NATIVE_EXACT : 0);
	return true;
}

static enum loss by_tables(const struct part_stack *stack, struct pcs *ret)
{
	struct unwind_walk *walk = &own.walk;

	ret->n = 0;
	walk->pools = own.pools;
	walk->n_pools = POOLS;
	memcpy(walk->state.regs, stack->regs, sizeof(stack->regs));
	walk->state.known = (1u << UNWIND_REGISTERS) - 1;
	walk->state.exact = 1;
	walk->stack = stack->bytes;
	walk->stack_at = stack->sp;
	walk->stack_size = stack->size;
	return walk__run(walk, own.list.list, own.list.salt, RECORD_NATIVE_FRAMES_MAX, take, ret);
}

static void show(const char *what, const struct part_native_frames *bpf, const uint64_t *other, uint32_t n, uint16_t loss)
{
	static unsigned shown;
	uint32_t i;

	if (shown++ >= SHOWN)
		return;
	printf("%s: bpf %u frames (%s), %u frames (%s)\n", what, bpf->n, losses[bpf->part.loss], n, losses[loss]);
	for (i = 0; i < bpf->n || i < n; i++)
		printf("  %3u %016llx %016llx%s\n", i, i < bpf->n ? (unsigned long long)bpf->pc[i] : 0,
		       i < n ? (unsigned long long)other[i] : 0,
		       i < bpf->n && i < n && bpf->pc[i] == other[i] ? "" : "  <--");
}

/* As far as both go. */
static bool agree(const struct part_native_frames *bpf, const uint64_t *other, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < bpf->n && i < n; i++)
		if (bpf->pc[i] != other[i])
			return false;
	return true;
}

static void compare(const struct sample *sample)
{
	const struct part_native_frames *bpf = sample->native;
	const struct part_stack *stack = sample->stack;
	static struct dump_native theirs;
	static struct pcs ours;
	struct dump_state state;
	bool bpf_whole, longer;
	enum loss loss;
	uint32_t i;

	if (!bpf || !stack) {
		counts.no_stack++;
		return;
	}
	counts.samples++;
	counts.in_kernel += sample->record->flags & SAMPLE_IN_KERNEL;
	counts.frames += bpf->n;
	for (i = 1; i < bpf->n; i++)
		counts.signals += bpf->pc[i] >> 63;
	bpf_whole = bpf->flags & NATIVE_WHOLE;
	state = (struct dump_state){.regs = (const uint64_t *)stack->regs,
				    .stack_at = stack->sp,
				    .stack = stack->bytes,
				    .stack_size = stack->size};
	dump_unwinder__walk(own.unwinder, &state, &theirs);
	loss = by_tables(stack, &ours);
	counts.by_bpf[bpf->part.loss]++;
	counts.by_libunwind[theirs.loss]++;
	if (bpf->part.loss == LOSS_NATIVE_MAPPING || bpf->part.loss == LOSS_NATIVE_PENDING)
		modules__wants(own.modules, own.of, bpf->pc[bpf->n - 1], bpf->part.loss, sample->record->header.time);
	/* Whose walk is longer than a whole one? */
	longer = (bpf_whole && theirs.n > bpf->n) || (!theirs.loss && bpf->n > theirs.n);
	if (!agree(bpf, theirs.pc, theirs.n) || longer) {
		counts.differ++;
		show("libunwind", bpf, theirs.pc, theirs.n, theirs.loss);
	} else if (bpf_whole && !theirs.loss) {
		counts.whole++;
	} else {
		counts.cut++;
	}
	longer = (bpf_whole && ours.n > bpf->n) || (!loss && bpf->n > ours.n);
	if (!agree(bpf, ours.at, ours.n) || longer) {
		counts.tables_differ++;
		show("tables in user space", bpf, ours.at, ours.n, (uint16_t)loss);
	} else {
		counts.tables_whole += bpf_whole && !loss;
	}
}

static int on_record(void *context, const void *data, size_t size)
{
	const struct record_header *header = data;
	struct sample sample;

	if (header->kind != RECORD_SAMPLE || now() <= own.settled || record__check(data, size))
		return 0;
	record__parse(data, &sample);
	compare(&sample);
	return 0;
}

/* Mappings come and go: an unwinder knows those of its beginning. */
static int refresh(void)
{
	int err;

	maps__free(&own.process.maps);
	err = maps__read(own.process.maps_fd, &own.process.maps);
	own.unwinder = dump_unwinder__free(own.unwinder);
	own.refreshed = now();
	return err ? err : dump_unwinder__new(&own.process.reader, &own.process.maps, &own.unwinder);
}

static void print_counts(void)
{
	uint32_t i;

	printf("samples %lu\nframes %lu\nin_kernel %lu\nsignals %lu\nno_stack %lu\n", counts.samples, counts.frames,
	       counts.in_kernel, counts.signals, counts.no_stack);
	printf("whole_equal %lu\ncut_equal %lu\ndiffer %lu\n", counts.whole, counts.cut, counts.differ);
	printf("tables_whole_equal %lu\ntables_differ %lu\n", counts.tables_whole, counts.tables_differ);
	for (i = 1; i < LOSS_COUNT; i++)
		if (counts.by_bpf[i] || counts.by_libunwind[i])
			printf("cut_%s %lu by the sampler, %lu by libunwind\n", losses[i], counts.by_bpf[i],
			       counts.by_libunwind[i]);
}

int main(int argc, char **argv)
{
	struct load_options load = {.native = BROKER_NATIVE_FULL, .stacks = LOAD_STACKS_ALWAYS};
	struct perf_options perf = {};
	struct perf_events events = {};
	struct process_fds fds = PROCESS_FDS_NONE;
	struct process_stat stat;
	enum broker_error error;
	struct image_key key;
	unsigned long wanted;
	double limit;
	pid_t pid;
	int err;

	if (argc < 5)
		return 2;
	pid = atoi(argv[1]);
	wanted = strtoul(argv[2], NULL, 10);
	perf.rate = (uint32_t)atoi(argv[3]);
	err = process__open(pid, &fds, &stat);
	if (!err)
		err = sampler__load(&load, &own.sampler, &error);
	if (!err)
		err = sampler__start(own.sampler);
	if (err)
		goto out;
	key = (struct image_key){stat.arg_start, stat.start_data};
	perf.program = sampler__program(own.sampler);
	sampler__set_rate(own.sampler, perf.rate);
	err = sampler__add_target(own.sampler, pid, &(struct target){.state = TARGET_ANY});
	if (!err)
		err = target_process__init(&own.process, pid, fds.mem, fds.maps, key);
	if (!err)
		err = refresh();
	if (!err)
		err = images__put(sampler__images(own.sampler), own.ring, &key, &(struct image){});
	if (!err)
		err = perf_events__open(&events, pid, &perf);
	if (!err)
		err = ring__new(sampler__ring(own.sampler), sampler__samples(own.sampler), on_record, NULL, &own.ring);
	own.host = (struct modules_host){open_file, add_pool, open_perf_map, set_process, NULL};
	if (!err)
		err = modules__new(&own.host, true, &own.modules);
	if (err)
		goto out;
	own.of = modules__open_process(own.modules, pid, &key, fds.mem, fds.maps, (uint64_t)(now() * 1e9));
	own.settled = now() + strtod(argv[4], NULL);
	limit = own.settled + (argc > 5 ? strtod(argv[5], NULL) : 300);
	err = perf_events__enable(&events);
	while (!err && counts.samples < wanted && now() < limit && !kill(pid, 0)) {
		usleep(4000);
		err = ring__drain(own.ring);
		modules__tick(own.modules, (uint64_t)(now() * 1e9));
		if (!err && now() > own.refreshed + 1)
			err = refresh();
	}
out:
	if (err)
		fprintf(stderr, "oracle: %s\n", strerror(-err));
	perf_events__close(&events);
	print_counts();
	modules__free(own.modules);
	dump_unwinder__free(own.unwinder);
	ring__free(own.ring);
	sampler__free(own.sampler);
	process__close(&fds);
	return err || !counts.samples;
}

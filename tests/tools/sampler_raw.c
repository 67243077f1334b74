/* SPDX-License-Identifier: MIT */
/* The sampler alone: raw records of a process, without engine or session.
 *
 *   sampler_raw PID RATE SECS OUTFILE   records, one after the other, to a file
 *   sampler_raw PID RATE SECS -         one line for each kind, to stdout
 *   options before PID: -s follow children; -r BYTES ring; -v what libbpf says; -n full|leaf;
 *     -w SECS that native stacks are not counted for at first; -c never|unfinished|always copies of stacks
 *
 * At the end the sums of the counters go to stderr. Needs root.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "broker/load.h"
#include "broker/perf.h"
#include "broker/process.h"
#include "broker/ring.h"
#include "collect/collect.h"
#include "cprofd/loss.h"
#include "cprofd/record.h"
#include "../modules_counts.h"
#include "target/process.h"

static const char *const loss_names[] = {
#define LOSS_NAME(id, kind, name, sentence) [LOSS_##id] = name,
	CPROFD_LOSSES(LOSS_NAME)
};

static FILE *out;
static struct {
	unsigned long records, bytes, frames, losses[LOSS_COUNT + 1];
} kinds[16];

/* Native stacks: what the broker and the engine do, in one process. */
static struct {
	struct modules_host host;
	struct modules *modules;
	struct sampler *sampler;
	struct ring *ring; /* the caller's */
	unsigned long user, user_whole, kernel, kernel_whole, losses[2][LOSS_COUNT], frames, from;
	double begin, settle;
} native;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int open_file(struct modules_host *host, int32_t pid, uint64_t start, uint64_t end)
{
	int fd = -1, err = process__open_file(pid, start, end, &fd);

	modules__file(native.modules, err ? err : fd);
	return 0;
}

static int add_pool(struct modules_host *host, uint64_t bytes)
{
	uint32_t number = 0;
	int fd = -1, err = sampler__add_pool(native.sampler, bytes, &number, &fd);

	modules__pool(native.modules, err ? err : fd, err ? 0 : bytes, number);
	return 0;
}

static int open_perf_map(struct modules_host *host, int32_t pid) { return -ENOENT; }

static int set_process(struct modules_host *host, const struct native_key *key,
		       const struct unwind_process *process)
{
	int map = sampler__processes(native.sampler);

	return process ? processes__put(map, native.ring, key, process) : processes__drop(map, native.ring, key);
}

/* Which walks came to the thread's entry; those of the first moments stand apart. */
static void look_at_native(const struct record_sample *sample, const struct part_native_frames *part)
{
	bool kernel = sample->flags & SAMPLE_IN_KERNEL, whole = part->flags & NATIVE_WHOLE;
	const struct record_task *task = &sample->header.task;
	uint64_t time = sample->header.time;
	struct modules_process *process = modules__process(native.modules, (int32_t)task->tgid, time);

	if (!whole && process && part->n)
		modules__wants(native.modules, process, part->pc[part->n - 1], part->part.loss, time);
	if (now_ms() - native.begin < native.settle)
		return;
	native.frames += part->n;
	*(kernel ? &native.kernel : &native.user) += 1;
	if (whole)
		*(kernel ? &native.kernel_whole : &native.user_whole) += 1;
	else
		native.losses[kernel][part->part.loss < LOSS_COUNT ? part->part.loss : 0]++;
}

static void print_native(void)
{
	uint32_t i, kernel;

	printf("native: %lu user samples, %.3f %% whole; %lu kernel samples, %.3f %% whole; %.1f frames each\n",
	       native.user, 100.0 * (double)native.user_whole / (double)(native.user ? native.user : 1),
	       native.kernel,
	       100.0 * (double)native.kernel_whole / (double)(native.kernel ? native.kernel : 1),
	       (double)native.frames / (double)(native.user + native.kernel ? native.user + native.kernel : 1));
	for (kernel = 0; kernel < 2; kernel++)
		for (i = 0; i < LOSS_COUNT; i++)
			if (native.losses[kernel][i])
				printf("  %s %s: %lu\n", kernel ? "kernel" : "user", loss_names[i],
				       native.losses[kernel][i]);
	printf("modules: %u, %u with tables, %u without; %llu bytes of tables, %llu found no room\n", native.modules->n_files,
	       modules__count(native.modules, MODULE_READY), modules__count(native.modules, MODULE_BARE),
	       (unsigned long long)native.modules->counts.table_bytes, (unsigned long long)native.modules->counts.no_room);
}

static int on_record(void *ctx, const void *data, size_t size)
{
	static struct record_room unfolded;
	const struct record_sample *sample;
	const struct record_header *header;
	struct sample parsed;
	const struct part_py_frames *part;
	unsigned kind;

	if (record__is_folded(data, size) && !record__unfold(data, size, &unfolded)) {
		data = unfolded.bytes;
		size = ((const struct record_header *)data)->size;
	}
	header = data;
	sample = data;
	part = (const void *)(sample + 1);
	kind = header->kind < 16 ? header->kind : 0;
	kinds[kind].records++;
	kinds[kind].bytes += size;
	if (kind == RECORD_SAMPLE && size >= sizeof(*sample)) {
		kinds[kind].losses[sample->loss < LOSS_COUNT ? sample->loss : LOSS_COUNT]++;
		if (size >= sizeof(*sample) + sizeof(*part))
			kinds[kind].frames += part->n;
		if (native.modules && record__check(data, size) == 0) {
			record__parse(sample, &parsed);
			if (parsed.native)
				look_at_native(sample, parsed.native);
		}
	}
	if (out && fwrite(data, 1, size, out) != size)
		return -EIO;
	return 0;
}

static void print_counts(const struct ring *ring)
{
	struct sampler_counts sum;
	uint32_t i;

	ring__counts(ring, &sum);
	fprintf(stderr, "ticks %llu samples %llu captures %llu bytes %llu\n",
		(unsigned long long)sum.ticks, (unsigned long long)sum.samples,
		(unsigned long long)sum.captures, (unsigned long long)sum.bytes);
	for (i = 0; i < LOSS_COUNT && i < sizeof(sum.losses) / sizeof(sum.losses[0]); i++)
		if (sum.losses[i])
			fprintf(stderr, "loss %s %llu\n", loss_names[i], (unsigned long long)sum.losses[i]);
}

static void print_kinds(void)
{
	static const char *const names[16] = {"other", "sample", "code", "fork", "exec", "exit", "clone",
					      "fault"};
	unsigned i, j;

	for (i = 0; i < 16; i++) {
		if (!kinds[i].records)
			continue;
		printf("%s: %lu records, %lu bytes, %lu frames\n", names[i] ? names[i] : "?",
		       kinds[i].records, kinds[i].bytes, kinds[i].frames);
		for (j = 1; j < LOSS_COUNT; j++)
			if (kinds[i].losses[j])
				printf("  %s: %lu\n", loss_names[j], kinds[i].losses[j]);
	}
}

static int usage(void)
{
	fprintf(stderr, "usage: sampler_raw [-s] [-v] [-r RING_BYTES] [-n full|leaf] [-w SECS] [-c never|unfinished|always] PID RATE SECS OUTFILE|-\n");
	return 2;
}

/* Fills the images map. A process that is no Python is sampled without Python frames. */
static int identify(struct sampler *sampler, pid_t pid, const struct process_fds *fds,
		    const struct process_stat *stat)
{
	struct image_key key = {.arg_start = stat->arg_start, .start_data = stat->start_data};
	struct target_process process;
	struct target_problem problem;
	struct image image;
	char version[32];
	int err;

	err = target_process__init(&process, pid, fds->mem, fds->maps, key);
	if (err)
		return err;
	err = target__identify(&process, &image, &key, version, &problem);
	if (err)
		fprintf(stderr, "%s: %s\n", target_problem__sentence(problem.kind), problem.detail);
	else
		fprintf(stderr, "Python %s, _PyRuntime 0x%llx\n", version,
			(unsigned long long)image.runtime);
	target_process__free(&process);
	return bpf_map_update_elem(sampler__images(sampler), &key, &image, BPF_ANY);
}

int main(int argc, char **argv)
{
	struct load_options load = {};
	struct perf_options perf = {};
	struct perf_events events = {};
	struct process_fds fds = PROCESS_FDS_NONE;
	struct process_stat stat;
	struct ring *ring = NULL;
	struct sampler *sampler = NULL;
	enum broker_error error;
	double begin, secs, end;
	int option, err;
	pid_t pid;

	while ((option = getopt(argc, argv, "+svr:n:w:c:")) != -1) {
		if (option == 's')
			load.follow_children = true;
		else if (option == 'v')
			load.verbose = true;
		else if (option == 'r')
			load.ring_bytes = strtoull(optarg, NULL, 0);
		else if (option == 'w')
			native.settle = strtod(optarg, NULL) * 1e3;
		else if (option == 'c')
			load.stacks = !strcmp(optarg, "always") ? LOAD_STACKS_ALWAYS :
				      !strcmp(optarg, "never")	? LOAD_STACKS_NEVER :
								  LOAD_STACKS_UNFINISHED;
		else if (option == 'n')
			load.native = !strcmp(optarg, "full") ? BROKER_NATIVE_FULL :
				      !strcmp(optarg, "leaf") ? BROKER_NATIVE_LEAF :
								BROKER_NATIVE_OFF;
		else
			return usage();
	}
	if (argc - optind != 4)
		return usage();
	pid = atoi(argv[optind]);
	perf.rate = (uint32_t)strtoul(argv[optind + 1], NULL, 10);
	secs = strtod(argv[optind + 2], NULL);
	if (!perf.rate)
		return usage();
	if (strcmp(argv[optind + 3], "-")) {
		out = fopen(argv[optind + 3], "w");
		if (!out) {
			perror(argv[optind + 3]);
			return 1;
		}
	}
	perf__raise_fd_limit();
	begin = now_ms();
	err = process__open(pid, &fds, &stat);
	if (err) {
		fprintf(stderr, "%s\n", broker_error__sentence(process__error(err)));
		return 1;
	}
	err = sampler__load(&load, &sampler, &error);
	if (!err)
		err = sampler__start(sampler);
	if (err) {
		fprintf(stderr, "%s: %s\n", broker_error__sentence(error), strerror(-err));
		return 1;
	}
	fprintf(stderr, "loaded after %.1f ms", now_ms() - begin);
	perf.follow_children = load.follow_children;
	perf.program = sampler__program(sampler);
	sampler__set_rate(sampler, perf.rate);
	err = sampler__add_target(sampler, pid, &(struct target){.state = TARGET_ANY});
	if (!err)
		err = perf_events__open(&events, pid, &perf);
	fprintf(stderr, ", attached after %.1f ms\n", now_ms() - begin);
	if (!err)
		err = identify(sampler, pid, &fds, &stat);
	if (!err)
		err = perf_events__enable(&events);
	if (!err)
		err = ring__new(sampler__ring(sampler), sampler__samples(sampler), on_record, NULL, &ring);
	if (err) {
		fprintf(stderr, "cannot attach: %s\n", strerror(-err));
		return 1;
	}
	if (!err && load.native == BROKER_NATIVE_FULL) {
		native.sampler = sampler;
		native.ring = ring;
		native.host = (struct modules_host){open_file, add_pool, open_perf_map, set_process, NULL};
		err = modules__new(&native.host, true, &native.modules);
		if (!err)
			modules__open_process(native.modules, pid,
					      &(struct image_key){stat.arg_start, stat.start_data},
					      fds.mem, fds.maps, (uint64_t)(now_ms() * 1e6));
	}
	native.begin = now_ms();
	fprintf(stderr, "%zu threads run after %.1f ms\n", perf_events__count(&events), now_ms() - begin);
	for (end = now_ms() + secs * 1e3; now_ms() < end && !err;) {
		usleep(20000);
		err = ring__drain(ring);
		if (native.modules)
			modules__tick(native.modules, (uint64_t)(now_ms() * 1e6));
	}
	perf_events__close(&events);
	ring__drain(ring);
	if (out)
		fclose(out);
	else
		print_kinds();
	print_counts(ring);
	if (native.modules)
		print_native();
	native.modules = modules__free(native.modules);
	ring__free(ring);
	sampler__free(sampler);
	process__close(&fds);
	return err ? 1 : 0;
}

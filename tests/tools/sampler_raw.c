/* The sampler alone: raw records of a process, without engine or session.
 *
 *   sampler_raw PID RATE SECS OUTFILE   records, one after the other, to a file
 *   sampler_raw PID RATE SECS -         one line for each kind, to stdout
 *   options before PID: -s follow children; -r BYTES ring; -v what libbpf says
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
#include "cprofd/loss.h"
#include "cprofd/record.h"
#include "target/process.h"

static const char *const loss_names[] = {
#define LOSS_NAME(id, kind, name, sentence) [LOSS_##id] = name,
	CPROFD_LOSSES(LOSS_NAME)
};

static FILE *out;
static struct {
	unsigned long records, bytes, frames, losses[LOSS_COUNT + 1];
} kinds[16];

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int on_record(void *ctx, const void *data, size_t size)
{
	const struct record_sample *sample = data;
	const struct record_header *header = data;
	const struct part_py_frames *part = (const void *)(sample + 1);
	unsigned kind = header->kind < 16 ? header->kind : 0;

	kinds[kind].records++;
	kinds[kind].bytes += size;
	if (kind == RECORD_SAMPLE && size >= sizeof(*sample)) {
		kinds[kind].losses[sample->loss < LOSS_COUNT ? sample->loss : LOSS_COUNT]++;
		if (size >= sizeof(*sample) + sizeof(*part))
			kinds[kind].frames += part->n;
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
	fprintf(stderr, "usage: sampler_raw [-s] [-v] [-r RING_BYTES] PID RATE SECS OUTFILE|-\n");
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

	while ((option = getopt(argc, argv, "+svr:")) != -1) {
		if (option == 's')
			load.follow_children = true;
		else if (option == 'v')
			load.verbose = true;
		else if (option == 'r')
			load.ring_bytes = strtoull(optarg, NULL, 0);
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
	if (err) {
		fprintf(stderr, "%s: %s\n", broker_error__sentence(error), strerror(-err));
		return 1;
	}
	fprintf(stderr, "loaded after %.1f ms", now_ms() - begin);
	perf.follow_children = load.follow_children;
	perf.program = sampler__program(sampler);
	err = sampler__add_target(sampler, pid);
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
	fprintf(stderr, "%zu threads run after %.1f ms\n", perf_events__count(&events), now_ms() - begin);
	for (end = now_ms() + secs * 1e3; now_ms() < end && !err;) {
		usleep(20000);
		err = ring__drain(ring);
	}
	perf_events__close(&events);
	ring__drain(ring);
	if (out)
		fclose(out);
	else
		print_kinds();
	print_counts(ring);
	ring__free(ring);
	sampler__free(sampler);
	process__close(&fds);
	return err ? 1 : 0;
}

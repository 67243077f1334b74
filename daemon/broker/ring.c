/* SPDX-License-Identifier: MIT */
/* The engine's side of what the sampler writes: the ring buffer of events (libbpf's reader) and one ring of samples
 * for each CPU, mapped shared. Each sample ring has one writer, a CPU's tick, and one reader, this: `head` is the
 * writer's, `tail` the reader's; both only grow, and their difference is what is there. The bytes are the kernel
 * side's, but sizes are checked before anything follows them (collect/record.c). */
#include "broker/ring.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"

struct ring {
	struct ring_buffer *buffer;
	struct sample_ring *samples; /* one per CPU, shared with the sampler */
	size_t samples_len;
	uint64_t *heads;             /* scratch of a drain */
	unsigned cpus;
	int (*record)(void *ctx, const void *data, size_t len);
	void *ctx;
	uint64_t begun; /* when the current drain began */
	bool ahead;     /* it has reached a record newer than that */
};

/* A target can write records as fast as they are read, by mapping and unmapping. So that a drain ends, it stops at
 * the first record that is newer than its begin. */
static int on_record(void *ctx, void *data, size_t len)
{
	const struct record_header *header = data;
	struct ring *ring = ctx;
	int err = ring->record(ring->ctx, data, len);

	ring->ahead = len >= sizeof(*header) && header->time > ring->begun;
	return err ? err : ring->ahead ? -ECANCELED : 0;
}

/* The map is an array of struct sample_ring, so that all CPUs' rings are one mapping. */
static int map_samples(struct ring *ring, int fd)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);
	void *samples;

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	if (info.value_size != sizeof(struct sample_ring))
		return -EINVAL;
	ring->samples_len = (size_t)info.max_entries * sizeof(struct sample_ring);
	samples = mmap(NULL, ring->samples_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (samples == MAP_FAILED)
		return -errno;
	ring->samples = samples;
	ring->heads = calloc(info.max_entries, sizeof(*ring->heads));
	if (!ring->heads)
		return -ENOMEM;
	ring->cpus = info.max_entries;
	return 0;
}

int ring__new(int ring_fd, int samples_fd, int (*record)(void *ctx, const void *data, size_t len),
	      void *ctx, struct ring **ret)
{
	struct ring *ring = malloc(sizeof(*ring));
	int err;

	if (!ring)
		return -ENOMEM;
	*ring = (struct ring){.record = record, .ctx = ctx};
	ring->buffer = ring_buffer__new(ring_fd, on_record, ring, NULL);
	err = ring->buffer ? map_samples(ring, samples_fd) : errno ? -errno : -ENOMEM;
	if (err) {
		ring__free(ring);
		return err;
	}
	*ret = ring;
	return 0;
}

struct ring *ring__free(struct ring *ring)
{
	if (!ring)
		return NULL;
	if (ring->samples)
		munmap(ring->samples, ring->samples_len);
	ring_buffer__free(ring->buffer);
	free(ring->heads);
	free(ring);
	return NULL;
}

/* Passes on what one CPU wrote up to `head`. The record is passed on where it lies. The sampler does not write there
 * before `tail` moves: hence the store behind the loop, with release. */
static int drain_cpu(struct ring *ring, struct sample_ring *cpu, uint64_t head)
{
	uint64_t tail = cpu->tail;
	int err = 0;

	while (!err && tail != head) {
		const struct record_header *header =
			(const void *)(cpu->data + tail % SAMPLE_RING_BYTES);
		uint32_t size = header->size;

		/* Corrupt: no sampler writes this. Pass it on, the record check refuses it. */
		if (size < sizeof(*header) || size > SAMPLE_RECORD_MAX || size > head - tail)
			size = (uint32_t)(head - tail);
		err = ring->record(ring->ctx, header, size);
		tail += size;
	}
	__atomic_store_n(&cpu->tail, tail, __ATOMIC_RELEASE);
	return err;
}

int ring__drain(struct ring *ring)
{
	int n, err = 0;

	/* The sampler writes a code object before the first sample that refers to it. Reading the heads of the
	 * sample rings first thus ensures that no sample is read before its code objects. */
	for (unsigned i = 0; i < ring->cpus; i++)
		ring->heads[i] = __atomic_load_n(&ring->samples[i].head, __ATOMIC_ACQUIRE);
	ring->begun = clock__now();
	ring->ahead = false;
	n = ring_buffer__consume(ring->buffer);
	if (n < 0 && !(n == -ECANCELED && ring->ahead))
		err = n;
	for (unsigned i = 0; i < ring->cpus && !err; i++)
		err = drain_cpu(ring, &ring->samples[i], ring->heads[i]);
	return err;
}

void ring__polled(struct ring *ring, uint64_t now)
{
	for (unsigned i = 0; i < ring->cpus; i++)
		__atomic_store_n(&ring->samples[i].polled, now, __ATOMIC_RELAXED);
}

/* Uses a free way or the one with this key; otherwise evicts a way chosen by the key, whose code object then yields no
 * values. The key is stored last: a tick on another CPU that finds it finds its slots, too. */
static void put_capture(struct locals_captures *captured_locals, const struct locals_capture *capture)
{
	struct locals_capture *set = &captured_locals->captured_locals[locals_capture_set(capture->key) * LOCALS_CAPTURE_WAYS];
	uint32_t way, bit = locals_capture_bit(capture->key);

	for (way = 0; way < LOCALS_CAPTURE_WAYS && set[way].key && set[way].key != capture->key; way++)
		;
	if (way == LOCALS_CAPTURE_WAYS)
		way = (uint32_t)(capture->key >> 60) % LOCALS_CAPTURE_WAYS;
	memcpy(set[way].slots, capture->slots, sizeof(capture->slots));
	set[way].copies = capture->copies;
	set[way].wakes = capture->wakes;
	__atomic_store_n(&set[way].key, capture->key, __ATOMIC_RELEASE);
	__atomic_store_n(&captured_locals->bits[bit / 64], captured_locals->bits[bit / 64] | 1ull << bit % 64, __ATOMIC_RELEASE);
	__atomic_store_n(&captured_locals->active, 1, __ATOMIC_RELEASE);
}

void ring__capture_locals(struct ring *ring, const struct locals_capture *capture)
{
	for (unsigned cpu = 0; cpu < ring->cpus; cpu++)
		put_capture(&ring->samples[cpu].captured_locals, capture);
}

/* In a free way, or in one of them by turns, if it is not there yet. A tick on another CPU that reads it meanwhile sees that
 * by `written`. */
static void put_path(struct locals_captures *captured_locals, const struct py_path *path)
{
	struct py_path *set = &captured_locals->paths[py_path_set(path->key) * PY_PATHS_WAYS], *to = NULL;
	uint32_t way, written;

	for (way = 0; way < PY_PATHS_WAYS; way++) {
		if (set[way].key == path->key && set[way].n == path->n && !memcmp(set[way].steps, path->steps, path->n * sizeof(*path->steps)))
			return;
		if (!to && !set[way].key)
			to = &set[way];
	}
	if (!to)
		to = &set[captured_locals->next_path++ % PY_PATHS_WAYS];
	written = to->written;
	__atomic_store_n(&to->written, written + 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->key, path->key, __ATOMIC_SEQ_CST);
	to->n = path->n;
	memcpy(to->steps, path->steps, sizeof(to->steps));
	__atomic_store_n(&to->written, written + 2, __ATOMIC_SEQ_CST);
}

void ring__put_path(struct ring *ring, const struct py_path *path)
{
	for (unsigned cpu = 0; cpu < ring->cpus; cpu++)
		put_path(&ring->samples[cpu].captured_locals, path);
}

void ring__resend_codes(struct ring *ring)
{
	for (unsigned cpu = 0; cpu < ring->cpus; cpu++)
		__atomic_add_fetch(&ring->samples[cpu].captured_locals.codes, 1, __ATOMIC_RELEASE);
}

/* The sampler caches what it found in the maps: a new generation number makes it search again. */
static int changed(struct ring *ring, int err)
{
	for (unsigned i = 0; ring && i < ring->cpus; i++)
		__atomic_add_fetch(&ring->samples[i].captured_locals.maps, 1, __ATOMIC_RELEASE);
	return err ? -errno : 0;
}

int images__put(int map_fd, struct ring *ring, const struct image_key *key, const struct image *image)
{
	return changed(ring, bpf_map_update_elem(map_fd, key, image, BPF_ANY));
}

int images__drop(int map_fd, struct ring *ring, const struct image_key *key)
{
	return changed(ring, bpf_map_delete_elem(map_fd, key));
}

int processes__put(int map_fd, struct ring *ring, const struct native_key *key, const struct unwind_process *process)
{
	return changed(ring, bpf_map_update_elem(map_fd, key, process, BPF_ANY));
}

int processes__drop(int map_fd, struct ring *ring, const struct native_key *key)
{
	return changed(ring, bpf_map_delete_elem(map_fd, key));
}

void ring__counts(const struct ring *ring, struct sampler_counts *ret)
{
	*ret = (struct sampler_counts){};
	for (unsigned i = 0; i < ring->cpus; i++) {
		const struct sampler_counts *one = &ring->samples[i].counts;

		ret->ticks += one->ticks;
		ret->samples += one->samples;
		ret->captures += one->captures;
		ret->bytes += one->bytes;
		for (size_t j = 0; j < sizeof(one->losses) / sizeof(one->losses[0]); j++)
			ret->losses[j] += one->losses[j];
	}
}

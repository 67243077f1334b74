#include "broker/ring.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>

struct ring {
	struct ring_buffer *buffer;
	int (*record)(void *ctx, const void *data, size_t len);
	void *ctx;
};

static int on_record(void *ctx, void *data, size_t len)
{
	struct ring *ring = ctx;

	return ring->record(ring->ctx, data, len);
}

int ring__new(int map_fd, int (*record)(void *ctx, const void *data, size_t len), void *ctx,
	      struct ring **ret)
{
	struct ring *ring = malloc(sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	*ring = (struct ring){.record = record, .ctx = ctx};
	ring->buffer = ring_buffer__new(map_fd, on_record, ring, NULL);
	if (!ring->buffer) {
		int err = errno ? -errno : -ENOMEM;

		free(ring);
		return err;
	}
	*ret = ring;
	return 0;
}

struct ring *ring__free(struct ring *ring)
{
	if (ring)
		ring_buffer__free(ring->buffer);
	free(ring);
	return NULL;
}

int ring__drain(struct ring *ring)
{
	int n = ring_buffer__consume(ring->buffer);

	return n < 0 ? n : 0;
}

int images__put(int map_fd, const struct image_key *key, const struct image *image)
{
	return bpf_map_update_elem(map_fd, key, image, BPF_ANY) ? -errno : 0;
}

int images__drop(int map_fd, const struct image_key *key)
{
	return bpf_map_delete_elem(map_fd, key) ? -errno : 0;
}

int counts__read(int map_fd, struct sampler_counts *ret)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	*ret = (struct sampler_counts){};
	if (bpf_obj_get_info_by_fd(map_fd, &info, &len))
		return -errno;
	if (info.value_size != sizeof(struct sampler_counts))
		return -EINVAL;
	for (__u32 cpu = 0; cpu < info.max_entries; cpu++) {
		struct sampler_counts one;

		if (bpf_map_lookup_elem(map_fd, &cpu, &one))
			return -errno;
		ret->ticks += one.ticks;
		ret->samples += one.samples;
		ret->captures += one.captures;
		ret->bytes += one.bytes;
		for (size_t i = 0; i < sizeof(one.losses) / sizeof(one.losses[0]); i++)
			ret->losses[i] += one.losses[i];
	}
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* Each kind of map is cleared in its own way: arrays are mapped and overwritten, keys of hash maps deleted one by
 * one, maps of maps emptied, rings read to their end. What is not known here cannot be used again (-ENOTSUP),
 * rather than leak one session into the next. */
#include "broker/empty.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/cleanup.h"

static int clear_array(const struct bpf_map *map)
{
	_cleanup_free_ void *zeros = calloc(1, bpf_map__value_size(map) + 7u);
	uint32_t i, n = bpf_map__max_entries(map);

	for (i = 0; zeros && i < n; i++)
		if (bpf_map_update_elem(bpf_map__fd(map), &i, zeros, BPF_ANY))
			return -errno;
	return zeros ? 0 : -ENOMEM;
}

/* Always the first key: after it was deleted, another one is the first. */
static int clear_hash(const struct bpf_map *map)
{
	_cleanup_free_ void *key = malloc(bpf_map__key_size(map));
	int fd = bpf_map__fd(map);

	if (!key)
		return -ENOMEM;
	while (!bpf_map_get_next_key(fd, NULL, key))
		if (bpf_map_delete_elem(fd, key))
			return -errno;
	return errno == ENOENT ? 0 : -errno;
}

/* Removes inner maps. The kernel waits until no program can still use a removed map, so afterwards no program runs
 * that began before. */
static int clear_maps(const struct bpf_map *map)
{
	uint32_t i, n = bpf_map__max_entries(map);

	for (i = 0; i < n; i++)
		if (bpf_map_delete_elem(bpf_map__fd(map), &i) && errno != ENOENT)
			return -errno;
	return 0;
}

/* Marks everything that was written as read. */
static int clear_ring(const struct bpf_map *map)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t *read = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0), *written;
	int err = read == MAP_FAILED ? -errno : 0;

	if (err)
		return err;
	written = mmap(NULL, page, PROT_READ, MAP_SHARED, bpf_map__fd(map), (off_t)page);
	if (written != MAP_FAILED) {
		__atomic_store_n(read, __atomic_load_n(written, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
		munmap(written, page);
	} else {
		err = -errno;
	}
	munmap(read, page);
	return err;
}

static int clear(const struct bpf_map *map)
{
	switch (bpf_map__type(map)) {
	case BPF_MAP_TYPE_ARRAY:
		if (bpf_map__map_flags(map) & BPF_F_RDONLY_PROG) /* constants */
			return 0;
		/* .data has values that the programs were loaded with: zeros would not be them. */
		if (bpf_map__is_internal(map) && !strstr(bpf_map__name(map), ".bss"))
			return -ENOTSUP;
		return clear_array(map);
	case BPF_MAP_TYPE_HASH:
		return clear_hash(map);
	case BPF_MAP_TYPE_ARRAY_OF_MAPS:
		return 0;
	case BPF_MAP_TYPE_RINGBUF:
		return clear_ring(map);
	default:
		return -ENOTSUP;
	}
}

/* Maps of maps first: that waits for programs that still run, and might write into what is cleared. */
int empty__maps(const struct bpf_object *object)
{
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map(map, object)
		if (!err && bpf_map__type(map) == BPF_MAP_TYPE_ARRAY_OF_MAPS)
			err = clear_maps(map);
	bpf_object__for_each_map(map, object)
		err = err ?: clear(map);
	return err;
}

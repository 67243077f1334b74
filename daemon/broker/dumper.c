/* SPDX-License-Identifier: MIT */
/* Loads bpf/dump.bpf.c for one process. Unlike a sampler, which may be loaded ahead and used again, it lives for
 * one dump: the process that the iterator is for is part of its link. */
#include "broker/dumper.h"

#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/cleanup.h"
#include "broker/load.h"
#include "broker/namespace.h"
#include "dump.skel.h"

struct dumper {
	struct dump_bpf *skel;
	struct bpf_link *link; /* of the iterator */
};

static int attach_iterator(struct dumper *dumper, int pidfd)
{
	/* With a pidfd the iterator goes over the threads of one process (kernel/bpf/task_iter.c). */
	union bpf_iter_link_info of = {.task.pid_fd = (uint32_t)pidfd};
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &of, .link_info_len = sizeof(of));

	dumper->link = bpf_program__attach_iter(dumper->skel->progs.each_thread, &options);
	return dumper->link ? 0 : -errno;
}

int dumper__load(pid_t pid, int pidfd, bool all, bool verbose, struct dumper **ret, enum broker_error *ret_error)
{
	struct dumper *dumper = calloc(1, sizeof(*dumper));
	int cpus = load__cpus(), err;
	bool nested = namespace__own();

	*ret_error = BROKER_ERROR_OK;
	if (!dumper || cpus < 0) {
		free(dumper);
		*ret_error = BROKER_ERROR_NO_MEMORY;
		return -ENOMEM;
	}
	load__print(verbose);
	dumper->skel = dump_bpf__open();
	err = dumper->skel ? bpf_map__set_max_entries(dumper->skel->maps.walks, (uint32_t)cpus) : -errno;
	err = err ?: bpf_program__set_autoload(dumper->skel->progs.find_namespace, nested);
	if (!err) {
		dumper->skel->rodata->target = (uint32_t)pid;
		dumper->skel->rodata->nested = nested;
		dumper->skel->bss->pinned.state = all ? TARGET_ANY : TARGET_CHECKED;
		err = dump_bpf__load(dumper->skel) ?: load__has(dumper->skel->rodata && dumper->skel->bss);
	}
	if (!err && nested)
		err = namespace__describe(bpf_program__fd(dumper->skel->progs.find_namespace));
	err = err ?: load__hide_from_children(dumper->skel->obj);
	err = err ?: attach_iterator(dumper, pidfd);
	if (err) {
		*ret_error = err == -ESRCH ? BROKER_ERROR_NO_PROCESS : load__error(err);
		dumper__free(dumper);
		return err;
	}
	*ret = dumper;
	return 0;
}

/* Opens the object only to read the sizes of its maps: nothing is loaded. */
uint64_t dumper__bytes(void)
{
	struct dump_bpf *skel = dump_bpf__open();
	int cpus = load__cpus();
	struct bpf_map *map;
	uint64_t bytes = 0;

	if (skel && cpus > 0 && !bpf_map__set_max_entries(skel->maps.walks, (uint32_t)cpus))
		bpf_object__for_each_map(map, skel->obj)
			bytes += load__map_bytes(map);
	dump_bpf__destroy(skel);
	return bytes;
}

void dumper__free(struct dumper *dumper)
{
	if (!dumper)
		return;
	bpf_link__destroy(dumper->link);
	dump_bpf__destroy(dumper->skel);
	free(dumper);
}

int dumper__pin(struct dumper *dumper)
{
	_cleanup_close_ int fd = bpf_iter_create(bpf_link__fd(dumper->link));
	const volatile struct target *pinned = &dumper->skel->bss->pinned;
	char row[256]; /* discarded */

	if (fd < 0)
		return fd;
	/* No thread is wanted yet, so the iterator touches no memory of the target, and this read cannot be made to
	 * block. */
	while (read(fd, row, sizeof(row)) > 0 && !pinned->start)
		;
	if (!pinned->start)
		return -ESRCH;
	/* It may be dumpable now and then, so asking whether the client may read it is not enough. */
	return pinned->state != TARGET_ANY && pinned->hides ? -EACCES : 0;
}

void dumper__fds(const struct dumper *dumper, int ret[BROKER_MAP_FDS])
{
	ret[0] = bpf_link__fd(dumper->link);
	ret[1] = bpf_map__fd(dumper->skel->maps.images);
	ret[2] = bpf_map__fd(dumper->skel->maps.slots);
	ret[3] = bpf_map__fd(dumper->skel->maps.wanted);
}

int dumper__program(const struct dumper *dumper)
{
	return bpf_program__fd(dumper->skel->progs.tick);
}

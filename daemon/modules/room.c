/* SPDX-License-Identifier: MIT */
/* Room for tables and lists, in pools: BPF arrays that the broker creates and that are mapped here, so that writing a
 * table needs no system call. Pool 0 holds lists, the others tables. What is not used any more is retired for RETIRE_NS
 * before its room is given to something else, as a tick in an interrupt may still be reading it. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "modules/internal.h"

/* One question at a time. Once the broker refused (a limit), it is not asked again. */
static void ask(struct modules *modules, uint64_t bytes)
{
	if (modules->pool_asked || modules->pool_refused || modules->n_pools == POOLS_MAX)
		return;
	modules->pool_asked = true;
	if (modules->host->add_pool(modules->host, bytes))
		modules->pool_asked = false;
}

void room__open(struct modules *modules)
{
	if (!modules->tables)
		return;
	if (!modules->n_pools)
		ask(modules, MODULES_LISTS_BYTES);
	if (modules->n_pools == 1) /* not one question after the other, when the first table is done */
		ask(modules, MODULES_POOL_BYTES);
}

/* Pools have to come in the order in which they were asked for: their numbers are positions in the sampler's map. */
void modules__pool(struct modules *modules, int fd, uint64_t bytes, uint32_t number)
{
	struct pool *pool = &modules->pools[modules->n_pools];
	void *memory;

	modules->pool_asked = false;
	if (fd < 0 || !bytes || number != modules->n_pools || number >= POOLS_MAX) {
		modules->pool_refused = true;
		if (fd >= 0)
			close(fd);
		return;
	}
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED ||
	    pool__init(&pool->room, memory, (uint32_t)(bytes / UNWIND_BLOCK))) {
		modules->pool_refused = true;
		if (memory != MAP_FAILED)
			munmap(memory, bytes);
		return;
	}
	pool->memory = memory;
	pool->bytes = bytes;
	modules->n_pools++;
	room__open(modules);
}

/* In the first pool that has room. Pool 0 is for lists alone. */
static void *allot(struct modules *modules, size_t size, uint16_t *ret_pool)
{
	void *at = NULL;

	for (uint32_t i = 1; i < modules->n_pools && !at; i++) {
		at = pool__allot(&modules->pools[i].room, size);
		*ret_pool = (uint16_t)i;
	}
	return at;
}

void *room__allot(struct modules *modules, size_t size, uint16_t *ret_pool)
{
	uint64_t bytes = (size + UNWIND_BLOCK - 1) & ~(uint64_t)(UNWIND_BLOCK - 1);
	void *at = allot(modules, size, ret_pool);

	/* The answer may be there at once: the first pool is for lists. */
	for (int round = 0; !at && round < 2 && !modules->pool_asked && !modules->pool_refused;
	     round++) {
		ask(modules, !modules->n_pools		  ? MODULES_LISTS_BYTES
			     : bytes < MODULES_POOL_BYTES ? MODULES_POOL_BYTES
							  : bytes);
		at = allot(modules, size, ret_pool);
	}
	return at;
}

/* The worker has found the table in the cache, and knows its size: it reads it directly into its place, without a copy
 * of its own. */
int room__give(struct modules *modules, struct job *job)
{
	int err;

	job->room = room__allot(modules, job->wanted, &job->pool);
	if (!job->room && modules->pool_asked)
		return -EAGAIN;
	if (!job->room) {
		modules->counts.no_room++;
		return 0;
	}
	err = worker__give(modules->worker, job);
	if (!err)
		return -EINPROGRESS;
	room__unused(modules, job);
	return 0;
}

void room__unused(struct modules *modules, struct job *job)
{
	if (job->room && job->table != job->room)
		room__retire(modules, job->pool, take_ptr(job->room), job->wanted, modules->now);
}

/* True without a place: there will never be room; the file has no table then, and it is counted. */
bool room__table(struct modules *modules, struct job *job, struct pool_table *ret)
{
	size_t size = table__size(job->table);
	void *at;

	if (job->table == job->room) { /* it is there */
		*ret = (struct pool_table){take_ptr(job->table), size, job->pool};
		modules->counts.table_bytes += size;
		return true;
	}
	at = room__allot(modules, size, &ret->pool);
	if (!at && modules->pool_asked)
		return false;
	if (!at) {
		modules->counts.no_room++;
		return true;
	}
	memcpy(at, job->table, size);
	ret->at = at;
	ret->size = size;
	modules->counts.table_bytes += size;
	return true;
}

void room__retire(struct modules *modules, uint16_t pool, void *at, size_t size, uint64_t now)
{
	struct retired *retired = malloc(sizeof(*retired));

	if (!retired)
		return; /* the room is lost, which is better than used too early */
	*retired = (struct retired){modules->retired, pool, at, size, now + RETIRE_NS};
	modules->retired = retired;
}

void room__sweep(struct modules *modules, uint64_t now)
{
	struct retired **at = &modules->retired;

	while (*at) {
		struct retired *retired = *at;

		if (retired->at > now) {
			at = &retired->next;
			continue;
		}
		pool__release(&modules->pools[retired->pool].room, retired->memory, retired->size);
		*at = retired->next;
		free(retired);
	}
	room__open(modules);
}

void room__free(struct modules *modules)
{
	while (modules->retired) {
		struct retired *next = modules->retired->next;

		free(modules->retired);
		modules->retired = next;
	}
	for (uint32_t i = 0; i < modules->n_pools; i++) {
		munmap(modules->pools[i].memory, modules->pools[i].bytes);
		pool__free(&modules->pools[i].room);
	}
}

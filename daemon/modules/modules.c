/* SPDX-License-Identifier: MIT */
/* Ties the parts together: modules__tick() is the one place where results of the workers become part of the tables
 * that others read. Files are in files.c, processes and their mappings in processes.c, the pools' room in room.c,
 * answers to "what is at pc" in find.c. */
#include "modules/modules.h"

#include <errno.h>
#include <sys/random.h>

#include "base/blocking.h"
#include "base/cleanup.h"
#include "modules/internal.h"

int modules__new(struct modules_host *host, bool tables, struct modules **ret)
{
	_cleanup_free_ struct modules *modules = calloc(1, sizeof(*modules));
	int err;

	if (!modules)
		return -ENOMEM;
	modules->host = host;
	modules->tables = tables;
	if (getrandom(&modules->salts, sizeof(modules->salts), GRND_NONBLOCK) < 0)
		modules->salts = (uint64_t)(uintptr_t)modules;
	err = worker__new(&modules->worker);
	if (!err)
		*ret = take_ptr(modules);
	return err;
}

/* Workers may be held by a file; what they read is there as long as they are. Runs in a thread of its own
 * (blocking__later()): a worker may hang in a read of a file, which no signal ends. Nobody waits for that, and the
 * files stay open until it is over. */
static void destroy(void *context)
{
	struct modules *modules = context;

	worker__free(modules->worker);
	while (modules->homeless) {
		struct job *next = modules->homeless->next;

		job__free(modules->homeless);
		modules->homeless = next;
	}
	files__free(modules);
	room__free(modules);
	free(modules);
}

struct modules *modules__free(struct modules *modules)
{
	if (!modules)
		return NULL;
	late__free(modules);
	processes__free(modules); /* says to its host that they are gone */
	tail__free(modules->tail);
	blocking__later(destroy, modules);
	return NULL;
}

void modules__cache(struct modules *modules, int directory)
{
	worker__cache(modules->worker, directory);
}

int modules__fd(const struct modules *modules)
{
	return worker__fd(modules->worker);
}

/* A job is done: its table gets a place, or waits for one (homeless). */
static void settle(struct modules *modules, struct job *job)
{
	int err = job->object ? objects__done(modules, job) : files__done(modules, job);

	if (err == -EINPROGRESS)
		return;
	if (err) {
		job->next = modules->homeless;
		modules->homeless = job;
		return;
	}
	worker__store(modules->worker, job);
}

void modules__done(struct modules *modules, struct job *job)
{
	modules->counts.cached += job->cached;
	settle(modules, job);
}

/* The order matters: room that was retired long enough ago is free again before tables that waited for room are placed;
 * then new results; then processes publish lists with them. */
void modules__tick(struct modules *modules, uint64_t now)
{
	struct job *job, *homeless = modules->homeless;

	modules->now = now;
	room__sweep(modules, now);
	modules->homeless = NULL;
	while ((job = homeless)) {
		homeless = job->next;
		settle(modules, job);
	}
	while ((job = worker__take(modules->worker)))
		modules__done(modules, job);
	files__tick(modules);
	processes__tick(modules, now);
	files__ask(modules);
}

/* SPDX-License-Identifier: MIT */
/* The bytecode around a Python frame's position, from the target's memory. A code object never changes but for what its
 * instructions were specialised into; that it is the one that was captured is proven by its key, after what was read. */
#include <errno.h>

#include "python/code.h"
#include "serve/engine.h"
#include "target/process.h"

#define NO_MODULES 1u /* of a tracee: they were not found */

static struct session *of(struct call_sites *call_sites)
{
	return (struct session *)((char *)call_sites - offsetof(struct session, call_sites));
}

/* Whose memory has a code object of `task`: its own, or, while that is not open or when it ended, that of who forked it.
 * Which object it is is proven by its key. */
static const struct tracee *reader_of(struct session *session, const struct record_task *task)
{
	const struct tracee *tracee = tracee__find(session, (int32_t)task->tgid) ?: tracee__forked_as(session, task);
	unsigned i;

	for (i = 0; tracee && tracee->mem < 0 && tracee->forked && i < GENERATIONS; i++)
		tracee = tracee__find(session, tracee->parent);
	return tracee;
}

static int ufunc(struct call_sites *self, const struct record_header *header, const char *owner, const char *attribute, char *ret, size_t size)
{
	struct tracee *tracee = tracee__find(of(self), (int32_t)header->task.tgid);
	struct memory_reader memory;
	struct values values;
	int err;

	if (!tracee || tracee->mem < 0 || !tracee->image.runtime || tracee->modules == NO_MODULES)
		return -ENOENT;
	memory = memory_reader__of(tracee->mem);
	values = (struct values){.memory = &memory.reader, .layout = &tracee->image.layout};
	if (!tracee->modules) {
		err = values__modules(&values, tracee->image.runtime, &tracee->modules);
		if (err) {
			tracee->modules = NO_MODULES;
			return err;
		}
	}
	values.memory = session_units__pages(tracee->session, tracee, header->time); /* most of its reads are beside each other */
	return values__ufunc(&values, tracee->modules, owner, attribute, ret, size);
}

/* What was read since the sample was taken is of the object that the sample met, if that is there still when its key is read, after that. */
static int read_site(struct call_sites *self, const struct record_header *header, uint64_t key, uint64_t code, uint32_t offset,
		     struct call_site *ret)
{
	const struct tracee *tracee = reader_of(of(self), &header->task);
	struct memory_reader now;
	struct values values;
	int err;

	*ret = (struct call_site){};
	if (!tracee || tracee->mem < 0 || !tracee->image.runtime || !code)
		return -ENOENT;
	now = memory_reader__of(tracee->mem);
	values = (struct values){.memory = session_units__pages(tracee->session, tracee, header->time), .layout = &tracee->image.layout};
	err = python_site__read(&values, code, offset, ret);
	if (!err && python_code__key(&now.reader, &tracee->image, &header->task, code) != key)
		err = -ENOENT;
	return err;
}

void call_sites__open(struct session *session)
{
	session->call_sites = (struct call_sites){read_site, ufunc};
}

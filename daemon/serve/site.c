/* SPDX-License-Identifier: MIT */
/* Reads the bytecode of a call site from the target's memory, for the profile: what does the Python code at this
 * instruction call? python/site.c decodes it.
 *
 * The sample named a code object and an offset; when it is read here, that object may have been freed and its memory
 * used again. A code object's bytes never change but for the specialisation of its instructions (PEP 659), so its key,
 * computed again from the target's memory AFTER the bytecode was read, proves that the bytes are those of the object
 * that was sampled. */
#include <errno.h>

#include "python/code.h"
#include "serve/engine.h"
#include "target/process.h"

#define NO_MODULES 1u /* of a tracee: they were not found */

static struct session *of(struct call_sites *call_sites)
{
	return (struct session *)((char *)call_sites - offsetof(struct session, call_sites));
}

/* Whose memory has the code objects of `task`? Its own; while that is not open, or after it ended, that of the process
 * that forked it, where they lie at the same addresses. The key proves that it is the same object. */
static const struct tracee *reader_of(struct session *session, const struct record_task *task)
{
	const struct tracee *tracee = tracee__find(session, (int32_t)task->tgid) ?: tracee__forked_as(session, task);

	for (unsigned i = 0; tracee && tracee->mem < 0 && tracee->forked && i < GENERATIONS; i++)
		tracee = tracee__find(session, tracee->parent);
	return tracee;
}

/* The name of the NumPy ufunc that is called by this attribute (struct call_sites, profile.h). sys.modules is searched
 * for once in each image. */
static int ufunc(struct call_sites *self, const struct record_header *header, const char *owner, const char *attribute, char *ret, size_t size)
{
	struct tracee *tracee = tracee__find(of(self), (int32_t)header->task.tgid);
	struct memory_reader memory;
	struct values values;

	if (!tracee || tracee->mem < 0 || !tracee->image.runtime || tracee->modules == NO_MODULES)
		return -ENOENT;
	memory = memory_reader__of(tracee->mem);
	values = (struct values){.memory = &memory.reader, .layout = &tracee->image.layout};
	if (!tracee->modules) {
		int err = values__modules(&values, tracee->image.runtime, &tracee->modules);

		if (err) {
			tracee->modules = NO_MODULES;
			return err;
		}
	}
	values.memory = session_units__pages(tracee->session, tracee, header->time); /* most of its reads are beside each other */
	return values__ufunc(&values, tracee->modules, owner, attribute, ret, size);
}

/* Reads the site first and the key second: if the key is that of the sample, the object was there all the time from the
 * sample to the read. */
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
	if (!err && !python_code__is(&now.reader, &tracee->image, &header->task, code, key))
		err = -ENOENT;
	return err;
}

void call_sites__open(struct session *session)
{
	session->call_sites = (struct call_sites){read_site, ufunc};
}

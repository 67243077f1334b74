/* SPDX-License-Identifier: MIT */
/* The bytecode around a Python frame's position, from the target's memory. A code object never changes but for what its
 * instructions were specialised into; that it is the one that was captured is proven by its key, after what was read. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "python/code.h"
#include "serve/engine.h"
#include "target/process.h"

#define NO_MODULES 1u /* of a tracee: they were not found */

int site__ufunc(struct tracee *tracee, const struct record_header *header, const char *owner, const char *attribute, char *ret, size_t size)
{
	struct memory_reader memory = memory_reader__of(tracee->mem);
	struct values values = {.memory = &memory.reader, .layout = &tracee->image.layout};
	int err;

	if (tracee->mem < 0 || !tracee->image.runtime || tracee->modules == NO_MODULES)
		return -ENOENT;
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
int site__read(const struct tracee *tracee, const struct record_header *header, uint64_t key, uint64_t code, uint32_t offset,
	       struct call_site *ret)
{
	struct memory_reader now = memory_reader__of(tracee->mem);
	struct values values = {.layout = &tracee->image.layout};
	int err;

	*ret = (struct call_site){};
	if (tracee->mem < 0 || !tracee->image.runtime || !code)
		return -ENOENT;
	values.memory = session_units__pages(tracee->session, tracee, header->time);
	err = python_site__read(&values, code, offset, ret);
	if (!err && python_code__key(&now.reader, &tracee->image, &header->task, code) != key)
		err = -ENOENT;
	return err;
}

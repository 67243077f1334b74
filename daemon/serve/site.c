/* SPDX-License-Identifier: MIT */
/* The bytecode around a Python frame's position, from the target's memory. A code object never changes but for what its
 * instructions were specialised into; that it is the one that was captured is proven by its key, after what was read. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cprofd/host.h"
static inline int py_seen(uint64_t key)
{
	return 1;
}
#define PY_SEEN
#include "classes/bytecode.h"
#include "cprofd/pywalk.h"
#include "name/text.h"
#include "serve/engine.h"
#include "target/process.h"
#include "units/values.h"
#include "weave/symbolizer.h"

#define CODE_MAX 65536u
#define NO_MODULES 1u /* of a tracee: they were not found */

/* Where its instructions are, and the tuple of its names, which no layout has: up to 3.10 it follows co_code and
 * co_consts, since then co_consts, the first member (Include/cpython/code.h). */
static int parts_of(const struct py_layout *l, uint64_t code, uint64_t *ret_bytes, uint32_t *ret_size, uint64_t *ret_names)
{
	uint64_t size = 0, bytes = 0;
	bool object = l->frames == PY_FRAMES_OBJECTS;

	if (object) {
		if (host_read(&bytes, 8, code + l->code_instructions) || host_read(&size, 8, bytes + l->var_size))
			return -ENOENT;
		bytes += l->bytes_data;
	} else {
		if (host_read(&size, 8, code + l->var_size))
			return -ENOENT;
		size *= 2;
		bytes = code + l->code_instructions;
	}
	if (!size || size > CODE_MAX)
		return -ENOENT;
	*ret_bytes = bytes;
	*ret_size = (uint32_t)size;
	return host_read(ret_names, 8, object ? code + l->code_instructions + 16 : code + l->var_size + 16) ? -ENOENT : 0;
}

/* Names of code are ASCII, nearly always. Head and text are read at once, if no page that is missing lies between. */
static bool read_name(const struct py_layout *l, uint64_t string, char ret[CALL_SITE_NAME])
{
	uint32_t head = l->unicode_ascii_data, state;
	char bytes[128 + CALL_SITE_NAME];
	uint64_t length;
	bool all;

	if (head > 128 || l->unicode_length > head - 8u || l->unicode_state > head - 4u)
		return false;
	all = !host_read(bytes, head + CALL_SITE_NAME, string);
	if (!all && host_read(bytes, head, string))
		return false;
	memcpy(&length, bytes + l->unicode_length, 8);
	memcpy(&state, bytes + l->unicode_state, 4);
	if (!(state >> l->state_ascii_shift & 1) || length >= CALL_SITE_NAME ||
	    (!all && host_read(bytes + head, length, string + head)))
		return false;
	memcpy(ret, bytes + head, length);
	ret[length] = '\0';
	return strlen(ret) == length;
}

static bool add_name(const struct py_layout *l, uint64_t names, uint64_t n, uint32_t i, struct call_site *ret)
{
	uint64_t string;

	if (i >= n || host_read(&string, 8, names + l->tuple_items + (uint64_t)i * 8) || !read_name(l, string, ret->names[ret->n]))
		return false;
	ret->n++;
	return true;
}

/* A method's descriptor (PyMethodDescrObject, Include/descrobject.h) points to its PyMethodDef. Whatever else the pointer leads to,
 * only the begin of a function that a table has is believed. */
static uint64_t function_of(const struct py_layout *l, uint64_t object)
{
	uint64_t method = 0, function = 0;

	if (host_read(&method, 8, object + l->var_size + 24) || host_read(&function, 8, method + 8))
		return 0;
	return function;
}

static uint64_t key_of(const struct tracee *tracee, const struct record_task *task, uint64_t code)
{
	static struct py_walk walk; /* of the loop's thread; as the sampler has it */

	walk.salt = py_mix(task->process_start, task->tgid | (uint64_t)task->exec << 32);
	walk.loss = 0;
	return py_code_prove(&walk, &tracee->image, code, 0);
}

static int read_site(const struct tracee *tracee, uint64_t code, uint32_t offset, struct call_site *ret)
{
	const struct py_layout *l = &tracee->image.layout;
	static uint8_t bytes[CODE_MAX];
	struct bytecode_site site;
	uint64_t at, names, n = 0, pointer;
	uint32_t size, i;

	if (parts_of(l, code, &at, &size, &names) || host_read(&n, 8, names + l->var_size))
		return -ENOENT;
	if (offset + 2 < size) /* no instruction behind it says anything of it */
		size = offset + 2;
	if (host_read(bytes, size, at))
		return -ENOENT;
	bytecode__site(l->version >> 8 & 0xff, bytes, size, offset, &site);
	ret->kind = site.kind;
	ret->exact = site.exact;
	ret->builtin = site.builtin;
	ret->inlines = l->frames != PY_FRAMES_OBJECTS;
	ret->callee = site.callee;
	if (site.pointer && site.pointer + 8 <= size) {
		memcpy(&pointer, bytes + site.pointer, 8);
		ret->function = function_of(l, pointer);
	}
	if (site.named && add_name(l, names, n, site.own, ret))
		ret->own = ret->n;
	if (site.owned && add_name(l, names, n, site.owner, ret))
		ret->owner = ret->n;
	ret->of_global = site.of_global;
	for (i = 0; i < site.n && ret->n < CALL_SITE_NAMES; i++)
		if (!(site.named && site.names[i] == site.own) && !(site.owned && site.names[i] == site.owner))
			add_name(l, names, n, site.names[i], ret);
	return 0;
}

int site__ufunc(struct tracee *tracee, const struct record_header *header, const char *owner, const char *attribute, char *ret, size_t size)
{
	struct memory_reader memory = memory_reader__of(tracee->mem);
	struct values values = {.memory = &memory.reader, .layout = &tracee->image.layout};
	uint64_t interpreter = 0;
	int err;

	if (tracee->mem < 0 || !tracee->image.runtime || tracee->modules == NO_MODULES)
		return -ENOENT;
	if (!tracee->modules) {
		err = memory.reader.read(&memory.reader, &interpreter, sizeof(interpreter),
					 tracee->image.runtime + tracee->image.layout.interpreters_head);
		err = err ?: values__modules(&values, interpreter, &tracee->modules);
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
	struct host_reader *before = host_reader_current;
	int err;

	*ret = (struct call_site){};
	if (tracee->mem < 0 || !tracee->image.runtime || !code)
		return -ENOENT;
	host_reader_current = session_units__pages(tracee->session, tracee, header->time);
	err = read_site(tracee, code, offset, ret);
	host_reader_current = &now.reader;
	if (!err && key_of(tracee, &header->task, code) != key)
		err = -ENOENT;
	host_reader_current = before;
	return err;
}

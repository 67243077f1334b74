/* SPDX-License-Identifier: MIT */
/* The symbolizer of a session: what is at an address of its processes, for the profile. modules say which file or JIT
 * object it is, a namer reads symbols and lines in a thread of its own, and the interpreter's own code is marked for
 * weaving. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/slots.h"
#include "serve/engine.h"
#include "serve/known_roles.h"
#include "serve/known_names.h"
#include "serve/namer.h"
#include "target/process.h"

/* Numbers of modules that are no files. */
#define MODULE_JIT (1ull << 61) /* + row in objects[] */
#define MODULE_TRAMPOLINES (MODULE_JIT + UINT32_MAX)
#define FUNCTION_NAMELESS (1ull << 63)
#define FUNCTION_SERIAL 48 /* bits of an address below it */
#define ADDRESS_KERNEL (1ull << 63)
#define GENERATIONS 8u /* of forks, up to a process that has its own mappings */

/* A file, or the vDSO. */
struct module_names {
	struct names *names; /* NULL: not asked for, or not open yet */
	const struct module *module;
	bool interpreter;
	bool switches; /* C stacks: greenlet's */
};

/* An object of a JIT compiler; numbers of objects are of the process that made them, and forked children
 * have them, too. */
struct object_names {
	uint64_t origin, heir; /* heir: who was seen with it last */
	uint64_t copied;      /* whose memory `names` are of; 0: nobody's yet */
	uint32_t object;
	bool no_lines;
	struct names *names; /* of its lines; NULL: not asked for */
	uint64_t seen;       /* tick at which its image was there; 0: not yet */
	bool certain;        /* ... and it was still the same object after that */
};

struct native_symbolizer {
	struct symbolizer symbolizer;
	struct session *session;
	struct namer *namer;
	struct watch watch;	      /* of the namer's questions */
	uint32_t token;		      /* of the question that the broker was asked */
	struct names *kernel;	      /* NULL: kernel stacks are not asked for */
	struct module_names *modules; /* by id */
	uint32_t n_modules;
	struct object_names *objects;
	uint32_t n_objects, objects_capacity;
	struct slots by_object;
	struct hash_seed seed;
	uint64_t ticks;
	struct known_roles roles;
	struct known_names known;
	struct symbol symbol;         /* of the last answer */
	struct buf display;
	char module_name[256], nameless[320];
};

static struct native_symbolizer *of(struct symbolizer *symbolizer)
{
	return (struct native_symbolizer *)((char *)symbolizer - offsetof(struct native_symbolizer, symbolizer));
}

/* A forked child that has mapped nothing of its own has what its parent had at the fork; also if it ended, or executed
 * another program, before its samples are handed on. */
struct modules_process *symbolizer__process(struct native_symbolizer *self, const struct record_task *task,
					    uint64_t time)
{
	struct modules *modules = self->session->modules;
	struct modules_process *process, *inherited = NULL;
	int32_t pid = (int32_t)task->tgid;
	const struct tracee *tracee;
	unsigned i;

	process = modules ? modules__process(modules, pid, time) : NULL;
	if (!modules || (process && !modules_process__is_later(process, time)))
		return process;
	tracee = tracee__forked_as(self->session, task);
	if (tracee && tracee->native_from)
		inherited = modules__numbered(modules, tracee->native_from);
	if (inherited)
		return inherited;
	tracee = tracee ?: tracee__find(self->session, pid);
	for (i = 0; tracee && !process && i < GENERATIONS; i++) {
		process = modules__process(modules, tracee->parent, time);
		tracee = tracee__find(self->session, tracee->parent);
	}
	return process;
}

/* --- files --- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* NULL: no memory. `names` in it is NULL while the file is not open. */
static struct module_names *names_of(struct native_symbolizer *self, const struct module *module, int32_t pid)
{
	struct module_names *grown, *found;
	struct module_bytes bytes;
	uint32_t n = self->n_modules;

	if (module->id >= n) {
		n = module->id + 64;
		grown = realloc(self->modules, n * sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + self->n_modules, 0, (n - self->n_modules) * sizeof(*grown));
		self->modules = grown;
		self->n_modules = n;
	}
	found = &self->modules[module->id];
	if (!found->module)
		found->switches = weave__switches(base_name(module->path));
	found->module = module;
	if (found->names || modules__bytes(self->session->modules, module, &bytes))
		return found;
	found->names = bytes.image ? namer__add_image(self->namer, bytes.image, bytes.size)
				   : namer__add_file(self->namer, bytes.fd, module->path, pid);
	return found;
}

/* The name as people know it, in self->display. */
static const char *display(struct native_symbolizer *self, const char *name, bool jit)
{
	buf__clear(&self->display);
	if (symbol__display(name, strlen(name), jit, &self->display) || buf__append(&self->display, "", 1))
		return "?";
	return self->display.data;
}

/* The interpreter's names, and those of what switches stacks, mean something: self->symbol has them. */
static bool is_plain(const struct module_names *names)
{
	return names->names && !names->interpreter && !names->switches;
}

/* Its name was read before: of the function at ret->start. */
static bool find_known(struct native_symbolizer *self, const struct module_names *names, uint64_t vaddr, struct code_location *ret)
{
	if (!is_plain(names) || names__start(names->names, vaddr, &ret->start))
		return false;
	ret->function = ret->start;
	ret->name = known_names__find(&self->known, namer__renewed(self->namer), names->module->id, ret->start);
	return ret->kept = ret->name;
}

/* 0, or why it has no name: -EAGAIN. */
static int name_file(struct native_symbolizer *self, const struct module_names *names, uint64_t vaddr, bool vaddr_known,
		     struct code_location *ret)
{
	const struct module *module = names->module;
	const struct callable *callable = NULL;
	const char *kept = NULL;
	int err = -ENOENT;

	snprintf(self->module_name, sizeof(self->module_name), "%s", base_name(module->path));
	ret->kind = !strcmp(module->path, "[vdso]") ? LOCATION_VDSO
		    : names->interpreter	    ? LOCATION_INTERPRETER
						    : LOCATION_LIBRARY;
	ret->module = module->id;
	ret->module_name = self->module_name;
	ret->vaddr = vaddr;
	ret->kept = false;
	if (vaddr_known && names->names)
		callable = names__callable(names->names, vaddr);
	ret->callable = callable;
	if (vaddr_known && find_known(self, names, vaddr, ret))
		return 0;
	self->symbol.size = 0;
	if (vaddr_known)
		err = names->names ? names__find(names->names, vaddr, &self->symbol) : modules__awaited(module);
	if (!err) {
		ret->start = self->symbol.start;
		ret->function = self->symbol.start;
		ret->name = display(self, self->symbol.name.data, false);
		if (is_plain(names))
			kept = known_names__keep(&self->known, namer__renewed(self->namer), module->id, ret->start, ret->name);
		ret->kept = kept;
		ret->name = kept ?: ret->name;
		return 0;
	}
	if (callable && callable->name && err == -ENOENT) { /* no symbol, but Python's own name */
		ret->start = callable->start;
		ret->function = callable->start | FUNCTION_NAMELESS;
		ret->name = callable->name;
		return err;
	}
	/* Call frame information tells functions that have no name. */
	ret->start = err == -ENOENT && self->symbol.size ? self->symbol.start : vaddr;
	ret->function = ret->start | FUNCTION_NAMELESS;
	snprintf(self->nameless, sizeof(self->nameless), "%s+0x%llx", self->module_name, (unsigned long long)ret->start);
	ret->name = self->nameless;
	return err;
}

/* What a function of the interpreter's is to a stack that is woven; `mark` is what its name says. */
static enum frame_role role_at(const struct modules_found *found, const struct module_names *names, enum frame_role role)
{
	const struct eval_ranges *eval;
	enum frame_role by_code = WEAVE_CODE;

	if (found->vaddr_known && names->names && !names__eval(names->names, &eval))
		by_code = eval_ranges__role(eval, found->vaddr);
	return by_code != WEAVE_CODE ? by_code : role;
}

/* All but the name, if it has one; of the interpreter's functions those whose names were read. */
static bool locate_file(struct native_symbolizer *self, const struct modules_found *found, const struct module_names *names,
			struct code_location *ret)
{
	enum frame_role role;

	*ret = (struct code_location){.module = found->module->id, .vaddr = found->vaddr, .kind = LOCATION_LIBRARY};
	if (!found->vaddr_known || !names->names || names->interpreter != found->interpreter || !strcmp(found->module->path, "[vdso]") ||
	    names__start(names->names, found->vaddr, &ret->start))
		return false;
	if (found->interpreter || names->switches) {
		if (!known_roles__find(&self->roles, found, ret->start, namer__renewed(self->namer), &role))
			return false;
		ret->role = role;
	}
	if (found->interpreter) {
		ret->kind = LOCATION_INTERPRETER;
		ret->role = role_at(found, names, role);
	}
	ret->function = ret->start;
	ret->callable = names__callable(names->names, found->vaddr);
	return true;
}

static void find_file(struct native_symbolizer *self, const struct modules_found *found, struct module_names *names,
		      struct code_location *ret)
{
	enum frame_role role;
	int err;

	names->interpreter |= found->interpreter;
	err = name_file(self, names, found->vaddr, found->vaddr_known, ret);
	ret->pending = err == -EAGAIN;
	if (!found->interpreter && !names->switches)
		return;
	role = (names->switches ? frame_role__of_switcher : frame_role__of)(err ? NULL : self->symbol.name.data);
	if (!err)
		known_roles__keep(&self->roles, found, ret->start, namer__renewed(self->namer), role);
	ret->role = found->interpreter ? role_at(found, names, role) : role;
}

/* --- JIT compilers --- */

static bool hash_object(const void *holder, uint32_t row, uint64_t *ret)
{
	const struct native_symbolizer *self = holder;

	*ret = hash__pair(&self->seed, self->objects[row].origin, self->objects[row].object);
	return true;
}

/* Its number, or UINT32_MAX: no memory. */
static uint32_t object_of(struct native_symbolizer *self, uint64_t origin, uint32_t object)
{
	const struct object_names fresh = {.origin = origin, .object = object};
	uint64_t hash = hash__pair(&self->seed, origin, object);
	uint32_t at, row;

	for (at = slots__first(&self->by_object, hash); slots__row(&self->by_object, at, &row);
	     at = slots__next(&self->by_object, at))
		if (self->objects[row].origin == origin && self->objects[row].object == object)
			return row;
	if (array__reserve((void **)&self->objects, sizeof(fresh), self->n_objects, &self->objects_capacity) ||
	    slots__reserve(&self->by_object, self->n_objects, hash_object, self))
		return UINT32_MAX;
	self->objects[self->n_objects] = fresh;
	slots__enter(&self->by_object, hash, self->n_objects);
	return self->n_objects++;
}

/* CPython -X perf: each function of Python has a copy of this one, which calls the eval loop, and whose name is the
 * function's. That has its own frame. */
static const char trampoline[] = "_Py_trampoline_func";

static int find_jit(struct native_symbolizer *self, const struct modules_process *process,
		    const struct modules_found *found, uint64_t address, struct code_location *ret)
{
	const struct jit_found *object = &found->object;
	uint32_t number;

	if (object->kind == JIT_KIND_PY_TRAMPOLINE) {
		*ret = (struct code_location){.kind = LOCATION_INTERPRETER, .module = MODULE_TRAMPOLINES, .module_name = "JIT", .name = trampoline};
		return 0;
	}
	number = object_of(self, object->origin, object->object);
	if (number == UINT32_MAX)
		return -ENOMEM;
	if (!self->objects[number].copied) {
		self->objects[number].heir = modules_process__id(process);
		self->objects[number].no_lines = false;
	}
	*ret = (struct code_location){.kind = LOCATION_JIT,
			      .lineless = self->objects[number].no_lines,
			      .module = MODULE_JIT + number,
			      .module_name = "JIT",
			      .vaddr = address,
			      .start = object->start,
			      .function = object->start | (uint64_t)object->serial << FUNCTION_SERIAL};
	if (object->name) {
		ret->name = display(self, object->name, true);
		return 0;
	}
	snprintf(self->nameless, sizeof(self->nameless), "JIT code at 0x%llx", (unsigned long long)object->start);
	ret->name = self->nameless;
	return 0;
}

/* Who made it may be gone, or have dropped it. */
static int image_of(const struct native_symbolizer *self, const struct object_names *object, uint64_t *ret_process,
		    struct jit_object *ret, int *ret_mem)
{
	const uint64_t makers[] = {object->origin, object->heir};
	int err = -ENOENT;
	unsigned i;

	for (i = 0; err && i < 2; i++) {
		*ret_process = object->copied ? object->copied : makers[i];
		err = modules__jit_object(self->session->modules, *ret_process, object->object, ret, ret_mem);
		if (!err && (!ret->has_lines || ret->source != JIT_SOURCE_GDB || ret->life.died_by ||
			     ret->origin != object->origin))
			err = -ENOENT;
	}
	return err;
}

/* The lines of an object are in its image, which the namer copies from the target's memory. What it copied is that
 * object's if the object is there after it: 0; -EAGAIN; -ENOENT: it has no lines, or is gone. */
static int object_lines(struct native_symbolizer *self, struct object_names *object)
{
	struct jit_object told;
	uint64_t process;
	int mem, err;

	if (object->certain || object->no_lines)
		return object->certain ? 0 : -ENOENT;
	err = image_of(self, object, &process, &told, &mem);
	if (!err && !object->names) {
		object->names = namer__add_object(self->namer, mem, told.image, told.image_size);
		object->copied = object->names ? process : 0;
		err = object->names ? -EAGAIN : -ENOMEM;
	} else if (!err) {
		err = names__ready(object->names);
		if (!err && !object->seen)
			object->seen = self->ticks;
		/* modules look at the lists between two ticks. */
		if (!err && object->seen == self->ticks)
			err = -EAGAIN;
		object->certain = !err;
	}
	object->no_lines = err && err != -EAGAIN;
	return err;
}

/* --- the kernel --- */

static int name_kernel(struct native_symbolizer *self, uint64_t address, struct code_location *ret)
{
	int err = self->kernel ? names__find(self->kernel, address, &self->symbol) : -ENOENT;

	*ret = (struct code_location){.module = LOCATION_MODULE_KERNEL, .module_name = "kernel", .kind = LOCATION_KERNEL, .lineless = true};
	if (err) { /* no address of the kernel leaves this process */
		ret->name = "[kernel]";
		return err;
	}
	if (*self->symbol.module.data) {
		snprintf(self->module_name, sizeof(self->module_name), "%s", self->symbol.module.data);
		ret->module_name = self->module_name;
	}
	ret->name = display(self, self->symbol.name.data, false);
	ret->vaddr = address;
	ret->start = ret->function = self->symbol.start;
	return 0;
}

static int find_kernel(struct native_symbolizer *self, uint64_t address, struct code_location *ret)
{
	int err = name_kernel(self, address, ret);

	ret->pending = err == -EAGAIN;
	if (ret->pending)
		ret->vaddr = ret->start = address; /* what name() is asked with */
	return err == -EAGAIN || err == -ENOENT ? 0 : err ? -EACCES : 0;
}

/* --- the interface --- */

/* All that is asked about its code is known by now, or never will be. */
static bool is_settled(const struct modules_found *found, struct names *names)
{
	const struct eval_ranges *eval;

	return !names || !found->vaddr_known ||
	       (names__settled(names) && !(found->interpreter && names__eval(names, &eval) == -EAGAIN));
}

/* All of a function without lines, as far as it is mapped there and is the same to Python. */
static void widen(struct names *names, const struct modules_found *found, uint64_t address, struct code_location *ret)
{
	uint64_t bias = address - found->vaddr, from, to;
	const struct eval_ranges *eval;

	if (!ret->lineless || !ret->stable || ret->pending || ret->kind == LOCATION_VDSO || !found->vaddr_known ||
	    !names__range(names, found->vaddr, &from, &to))
		return;
	if (found->interpreter && !names__eval(names, &eval))
		eval_ranges__range(eval, found->vaddr, &from, &to);
	from += bias;
	to += bias;
	/* Beyond an end of the address space: code that no function has. */
	if (from > address || to <= address)
		return;
	ret->from = from > found->start ? from : found->start;
	ret->to = to < found->end ? to : found->end;
}

static int search(struct symbolizer *symbolizer, const struct record_task *task, uint64_t address, uint64_t time, bool named,
		  struct code_location *ret)
{
	struct native_symbolizer *self = of(symbolizer);
	struct module_names *names, none = {};
	struct modules_process *process;
	struct modules_found found;
	int err;

	if (address & ADDRESS_KERNEL)
		return find_kernel(self, address, ret);
	process = symbolizer__process(self, task, time);
	if (!process)
		return -ENOENT;
	err = modules__find(self->session->modules, process, address, time, &found);
	if (err)
		return err;
	if (found.jit)
		return find_jit(self, process, &found, address, ret);
	if (!found.module)
		return -ENOENT;
	none.module = found.module;
	names = names_of(self, found.module, (int32_t)task->tgid) ?: &none;
	if (named || !locate_file(self, &found, names, ret)) {
		*ret = (struct code_location){};
		find_file(self, &found, names, ret);
	}
	ret->stable = found.stable && is_settled(&found, names->names);
	ret->lineless = names->names && names__lineless(names->names);
	if (!named && names->names)
		widen(names->names, &found, address, ret);
	return 0;
}

static int find(struct symbolizer *symbolizer, const struct record_task *task, uint64_t address, uint64_t time,
		struct code_location *ret)
{
	return search(symbolizer, task, address, time, true, ret);
}

static int locate(struct symbolizer *symbolizer, const struct record_task *task, uint64_t address, uint64_t time,
		  struct code_location *ret)
{
	return search(symbolizer, task, address, time, false, ret);
}

static int name(struct symbolizer *symbolizer, uint64_t module, uint64_t vaddr, struct code_location *ret)
{
	struct native_symbolizer *self = of(symbolizer);

	if (module == LOCATION_MODULE_KERNEL)
		return name_kernel(self, vaddr, ret);
	return module < self->n_modules && self->modules[module].module
		       ? name_file(self, names_of(self, self->modules[module].module, 0), vaddr, true, ret)
		       : -ENOENT;
}

static uint64_t changes(struct symbolizer *symbolizer, const struct record_task *task, uint64_t time)
{
	struct native_symbolizer *self = of(symbolizer);
	const struct modules *modules = self->session->modules;

	return (modules ? modules__changes(modules, symbolizer__process(self, task, time), time) : 0) +
	       namer__changes(self->namer) * 0x9e3779b97f4a7c15ull;
}

static uint64_t stable(struct symbolizer *symbolizer, const struct record_task *task, uint64_t time)
{
	struct native_symbolizer *self = of(symbolizer);

	return modules__stable(symbolizer__process(self, task, time), time) +
	       namer__renewed(self->namer) * 0x9e3779b97f4a7c15ull;
}

static int eval_known(struct symbolizer *symbolizer, const struct record_task *task, uint64_t time)
{
	struct native_symbolizer *self = of(symbolizer);
	struct modules_process *process = symbolizer__process(self, task, time);
	const struct module *module = process ? modules__interpreter(process) : NULL;
	struct module_names *names = module ? names_of(self, module, (int32_t)task->tgid) : NULL;
	const struct eval_ranges *eval;
	int err;

	if (!names)
		return process && !module && modules_process__is_new(process, engine__now()) ? -EAGAIN : 0;
	if (!names->names)
		return modules__awaited(module) == -EAGAIN ? -EAGAIN : 0;
	err = names__eval(names->names, &eval);
	return err == -EAGAIN ? err : !err;
}

static int line(struct symbolizer *symbolizer, uint64_t module, uint64_t vaddr, const char **ret_file, uint32_t *ret_line,
		uint32_t *ret_column)
{
	struct native_symbolizer *self = of(symbolizer);
	struct names *names = NULL;
	int err;

	if (module < self->n_modules)
		names = self->modules[module].names;
	if (module >= MODULE_JIT && module - MODULE_JIT < self->n_objects) {
		struct object_names *object = &self->objects[module - MODULE_JIT];

		err = object_lines(self, object);
		if (err)
			return err;
		names = object->names;
	}
	return names ? names__line(names, vaddr, ret_file, ret_line, ret_column) : -ENOENT;
}

static uint64_t lines_generation(struct symbolizer *symbolizer)
{
	return namer__lines_generation(of(symbolizer)->namer);
}

static int read_memory(struct symbolizer *symbolizer, const struct record_task *task, uint64_t address, void *dst, size_t size)
{
	const struct tracee *tracee = tracee__find(of(symbolizer)->session, (int32_t)task->tgid);

	if (!tracee || tracee->mem < 0 || !address)
		return -EFAULT;
	return process_memory__read(tracee->mem, dst, size, address);
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

static int site(struct symbolizer *symbolizer, const struct record_header *header, uint64_t key, uint64_t code, uint32_t offset,
		struct call_site *ret)
{
	const struct tracee *tracee = reader_of(of(symbolizer)->session, &header->task);

	return tracee ? site__read(tracee, header, key, code, offset, ret) : -ENOENT;
}

static int ufunc(struct symbolizer *symbolizer, const struct record_header *header, const char *owner, const char *attribute, char *ret,
		 size_t size)
{
	struct tracee *tracee = tracee__find(of(symbolizer)->session, (int32_t)header->task.tgid);

	return tracee ? site__ufunc(tracee, header, owner, attribute, ret, size) : -ENOENT;
}

static void new_epoch(struct symbolizer *symbolizer)
{
	known_names__new_epoch(&of(symbolizer)->known);
}

/* --- files that the namer asks for --- */

static void asked(struct engine *engine, struct watch *watch, uint32_t events)
{
	struct native_symbolizer *self = (struct native_symbolizer *)((char *)watch - offsetof(struct native_symbolizer, watch));
	struct broker_message message = {.token = engine__token(engine), .session = self->session->broker};
	const char *path;
	int err;

	if (!namer__question(self->namer, &message.pid, &path))
		return;
	message.kind = strcmp(path, NAMER_KALLSYMS) ? BROKER_OPEN_DEBUG : BROKER_OPEN_KALLSYMS;
	snprintf(message.debug_path, sizeof(message.debug_path), "%s", path);
	self->token = message.token;
	err = self->session->state <= SESSION_RUNNING ? engine__ask(engine, &message) : -ESRCH;
	if (err)
		namer__answer(self->namer, err);
}

bool symbolizer__answered(struct native_symbolizer *self, const struct broker_message *message, int fd)
{
	if (!self || message->token != self->token)
		return false;
	self->token = 0;
	namer__answer(self->namer, fd >= 0 ? fd : message->error_errno == ENODEV ? -ENODEV : -ENOENT);
	return true;
}

/* --- life --- */

void symbolizer__tick(struct native_symbolizer *self)
{
	if (!self)
		return;
	self->ticks++;
	namer__tick(self->namer);
}

bool symbolizer__reads(const struct native_symbolizer *self)
{
	return self && namer__reads(self->namer);
}

void symbolizer__hurry(struct native_symbolizer *self)
{
	if (self)
		namer__hurry(self->namer);
}

bool symbolizer__waits(const struct native_symbolizer *self)
{
	return self && namer__waits(self->namer);
}

int symbolizer__new(struct session *session, bool kernel, struct native_symbolizer **ret)
{
	struct native_symbolizer *self = calloc(1, sizeof(*self));
	int err = self ? namer__new(&self->namer) : -ENOMEM;

	if (!err)
		err = hash_seed__draw(&self->seed) ?: hash_seed__draw(&self->roles.seed) ?: hash_seed__draw(&self->known.seed);
	if (!err) {
		self->symbolizer = (struct symbolizer){find,	    name, changes,   eval_known, line,
					       read_memory, site, lines_generation, locate,	 stable, ufunc, new_epoch};
		self->session = session;
		self->watch = (struct watch){.fd = fcntl(namer__event(self->namer), F_DUPFD_CLOEXEC, 3),
					     .ready = asked};
		err = self->watch.fd < 0 ? -errno : engine__watch(session->engine, &self->watch, EPOLLIN);
	}
	if (!err && kernel)
		self->kernel = namer__add_kernel(self->namer);
	if (err)
		symbolizer__free(self);
	else
		*ret = self;
	return err;
}

struct symbolizer *symbolizer__of(struct native_symbolizer *self)
{
	return self ? &self->symbolizer : NULL;
}

struct native_symbolizer *symbolizer__free(struct native_symbolizer *self)
{
	if (!self)
		return NULL;
	if (self->session && self->watch.fd > 0)
		engine__unwatch(self->session->engine, &self->watch);
	namer__free(self->namer);
	free(self->modules);
	free(self->objects);
	free(self->by_object.slots);
	known_names__free(&self->known);
	symbol__free(&self->symbol);
	buf__free(&self->display);
	free(self);
	return NULL;
}

/* Places: what is at an address of a session's processes, for the profile. modules say which file or JIT
 * object it is, symbols its name, and the interpreter's own code is marked for weaving. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/engine.h"
#include "weave/eval_ranges.h"

/* Numbers of modules that are no files. */
#define MODULE_JIT (1ull << 32)
#define FUNCTION_NAMELESS (1ull << 63)
#define GENERATIONS 8u /* of forks, up to a process that has its own mappings */

struct module_names {
	struct eval_ranges eval;
	bool eval_sought;
};

struct native_places {
	struct places places;
	struct session *session;
	struct module_names *modules; /* by id */
	uint32_t n_modules;
	struct symbol symbol;         /* of the last answer */
	struct buf display;
	char module_name[256], nameless[320];
};

static struct native_places *of(struct places *places)
{
	return (struct native_places *)((char *)places - offsetof(struct native_places, places));
}

/* A forked child that has mapped nothing of its own is asked for by its parent. */
static struct modules_process *process_of(struct native_places *self, const struct record_task *task,
					  uint64_t time)
{
	struct modules_process *process;
	int32_t pid = (int32_t)task->tgid;
	const struct tracee *tracee;
	unsigned i;

	for (i = 0; i < GENERATIONS; i++) {
		process = modules__process(self->session->modules, pid, time);
		tracee = process ? NULL : tracee__find(self->session, pid);
		if (!tracee)
			return process;
		pid = tracee->parent;
	}
	return NULL;
}

static struct module_names *names_of(struct native_places *self, const struct module *module)
{
	struct module_names *grown;
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
	return &self->modules[module->id];
}

/* Once for each module that holds an interpreter: tens of ms. */
static const struct eval_ranges *eval_of(struct native_places *self, const struct module *module)
{
	struct module_names *names = names_of(self, module);
	struct symbol_file *symbols;
	struct unwind_file file;

	if (!names)
		return NULL;
	if (!names->eval_sought &&
	    !modules__symbols(self->session->modules, module, &symbols) &&
	    !modules__elf(self->session->modules, module, &file)) {
		names->eval_sought = true;
		eval_ranges__find(&file.source, symbols, &names->eval);
	}
	return names->eval.n ? &names->eval : NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The name as people know it, in self->display. */
static const char *display(struct native_places *self, const char *name, bool jit)
{
	buf__clear(&self->display);
	if (symbol__display(name, strlen(name), jit, &self->display) || buf__append(&self->display, "", 1))
		return "?";
	return self->display.data;
}

static void find_jit(struct native_places *self, const struct modules_found *found, uint64_t address,
		     struct place *ret)
{
	const struct jit_found *object = &found->object;

	ret->kind = PLACE_JIT;
	ret->module = (MODULE_JIT | object->object) + ((uint64_t)object->maker << 33);
	ret->module_name = "JIT";
	ret->vaddr = address;
	ret->start = object->start;
	ret->function = object->start;
	if (object->name) {
		ret->name = display(self, object->name, true);
		return;
	}
	snprintf(self->nameless, sizeof(self->nameless), "JIT code at 0x%llx", (unsigned long long)object->start);
	ret->name = self->nameless;
}

static void find_file(struct native_places *self, const struct modules_found *found, struct place *ret)
{
	const struct module *module = found->module;
	const struct eval_ranges *eval;
	enum weave_mark mark = WEAVE_CODE;
	struct symbol_file *symbols;

	snprintf(self->module_name, sizeof(self->module_name), "%s", base_name(module->path));
	ret->kind = !strcmp(module->path, "[vdso]") ? PLACE_VDSO
		    : found->interpreter	    ? PLACE_INTERPRETER
						    : PLACE_LIBRARY;
	ret->module = module->id;
	ret->module_name = self->module_name;
	ret->vaddr = found->vaddr;
	if (found->vaddr_known && !modules__symbols(self->session->modules, module, &symbols) &&
	    !symbol_file__find(symbols, found->vaddr, &self->symbol)) {
		ret->start = self->symbol.start;
		ret->function = self->symbol.start;
		if (found->interpreter)
			ret->mark = weave__mark(self->symbol.name.data);
		ret->name = display(self, self->symbol.name.data, false);
	} else {
		ret->start = found->vaddr;
		ret->function = found->vaddr | FUNCTION_NAMELESS;
		if (found->interpreter)
			ret->mark = weave__mark(NULL);
		snprintf(self->nameless, sizeof(self->nameless), "%s+0x%llx", self->module_name,
			 (unsigned long long)found->vaddr);
		ret->name = self->nameless;
	}
	if (found->interpreter && found->vaddr_known) {
		eval = eval_of(self, module);
		if (eval)
			mark = eval_ranges__mark(eval, found->vaddr);
		if (mark != WEAVE_CODE)
			ret->mark = mark;
	}
}

static int find(struct places *places, const struct record_task *task, uint64_t address, uint64_t time,
		struct place *ret)
{
	struct native_places *self = of(places);
	struct modules_process *process = process_of(self, task, time);
	struct modules_found found;
	int err;

	if (!process)
		return -ENOENT;
	err = modules__find(self->session->modules, process, address, time, &found);
	if (err)
		return err;
	if (found.jit)
		find_jit(self, &found, address, ret);
	else if (found.module)
		find_file(self, &found, ret);
	else
		return -ENOENT;
	return 0;
}

static uint64_t changes(struct places *places, const struct record_task *task, uint64_t time)
{
	struct native_places *self = of(places);

	return modules__changes(self->session->modules, process_of(self, task, time), time);
}

static bool eval_known(struct places *places, const struct record_task *task, uint64_t time)
{
	struct native_places *self = of(places);
	struct modules_process *process = process_of(self, task, time);
	const struct module *module = process ? modules__interpreter(process) : NULL;

	return module && eval_of(self, module);
}

int places__new(struct session *session, struct native_places **ret)
{
	struct native_places *self = calloc(1, sizeof(*self));

	if (!self)
		return -ENOMEM;
	self->places = (struct places){.find = find, .changes = changes, .eval_known = eval_known};
	self->session = session;
	*ret = self;
	return 0;
}

struct places *places__of(struct native_places *self)
{
	return self ? &self->places : NULL;
}

struct native_places *places__free(struct native_places *self)
{
	uint32_t i;

	if (!self)
		return NULL;
	for (i = 0; i < self->n_modules; i++)
		eval_ranges__free(&self->modules[i].eval);
	free(self->modules);
	symbol__free(&self->symbol);
	buf__free(&self->display);
	free(self);
	return NULL;
}

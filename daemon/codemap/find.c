/* SPDX-License-Identifier: MIT */
/* What is at an address of a process at a time? modules say which file or object of a JIT it is; its symbols, which
 * function; its tables, what Python calls that; and the interpreter's own code has a role in weaving. Then, at which
 * line is it? The way of a question:
 *
 *    search()  kernel?  -> find_kernel()
 *              modules__find()  -> JIT object  -> find_jit()
 *                               -> file        -> locate_file(), without its name; else find_file()
 *              widen()  the range of addresses with the same answer
 *    codemap__line()    -> find_line()  a row that the namer has answered; else it is asked
 *
 * Nothing here waits: a file whose symbols are not read yet gives "module+0xoffset" and `pending`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codemap/internal.h"

/* code_location.module of what is no file: above all ids of files, below LOCATION_MODULE_KERNEL.
 * code_location.function: a vaddr; the highest bit says that no symbol names it, and bits 48 up are the line of a
 * perf map. */
#define MODULE_JIT (1ull << 61) /* + the object's number */
#define MODULE_TRAMPOLINES (MODULE_JIT + UINT32_MAX)
#define FUNCTION_NAMELESS (1ull << 63)
#define FUNCTION_SERIAL 48 /* bits of an address below it */
#define ADDRESS_KERNEL (1ull << 63)

/* --- files --- */

struct module_names *files__names(struct codemap *self, const struct module *module, int32_t pid)
{
	struct module_names *grown, *found;
	struct module_bytes bytes;
	uint32_t n = self->n_files;

	if (module->id >= n) {
		n = module->id + 64;
		grown = realloc(self->files, n * sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + self->n_files, 0, (n - self->n_files) * sizeof(*grown));
		self->files = grown;
		self->n_files = n;
	}
	found = &self->files[module->id];
	if (!found->module)
		found->switches = weave__switches(basename(module->path));
	found->module = module;
	if (found->names || modules__bytes(self->modules, module, &bytes))
		return found;
	found->names = bytes.image ? namer__add_image(self->namer, bytes.image, bytes.size)
				   : namer__add_file(self->namer, bytes.fd, module->path, pid, module->id);
	return found;
}

/* The name as people know it, in self->display. */
static const char *display(struct codemap *self, const char *name, bool jit)
{
	buf__clear(&self->display);
	if (symbol__display(name, strlen(name), jit, &self->display) || buf__append(&self->display, "", 1))
		return "?";
	return self->display.data;
}

/* The symbol that has vaddr, and its name; -EAGAIN: its symbols are still being read. */
static int find_symbol(const struct names *names, uint64_t vaddr, struct symbol *ret)
{
	int err;
	const struct symbol_file *file = names__file(names, &err);

	return file ? symbol_file__find(file, vaddr, ret) : err;
}

/* Where it begins. */
static int find_start(const struct names *names, uint64_t vaddr, uint64_t *ret)
{
	int err;
	const struct symbol_file *file = names__file(names, &err);

	return file ? symbol_file__start(file, vaddr, ret) : err;
}

/* Which function that Python code can call has the code at vaddr? NULL: none, or it was not read yet. `within`: as
 * range__find(). */
static const struct callable *find_callable(struct names *names, uint64_t vaddr, struct range *within)
{
	const struct callables *callables = names__callables(names);

	return callables ? callables__at(callables, vaddr, within) : NULL;
}

/* The name of the function at `start`, if it was read before, in this session or an earlier one. Valid until the next
 * call. */
static const struct known_name *known_at(struct codemap *self, const struct module_names *names, uint64_t start)
{
	const struct known_name *known =
		known_names__find(&self->known, self->namer->renewed, names->module->id, start);

	if (known || names->switches)
		return known;
	self->kept = (struct known_name){.role = WEAVE_CODE,
					 .name = kept_names__find(&names->names->kept, start)};
	return self->kept.name ? &self->kept : NULL;
}

/* Sets ret->start and ret->function, if the address is in a symbol. Returns the function's name if it was read
 * before. */
static const struct known_name *find_known(struct codemap *self, const struct module_names *names, uint64_t vaddr,
					   struct code_location *ret)
{
	if (!names->names || find_start(names->names, vaddr, &ret->start))
		return NULL;
	ret->function = ret->start;
	return known_at(self, names, ret->start);
}

static enum frame_role role_of(const struct module_names *names, const char *symbol)
{
	return names->switches ? frame_role__of_switcher(symbol) : frame_role__of(symbol);
}

/* The name of the symbol that was found, self->symbol, is kept if there is room. */
static void name_symbol(struct codemap *self, const struct module_names *names, struct code_location *ret)
{
	const char *name = display(self, self->symbol.name.data, false), *kept;

	ret->start = ret->function = self->symbol.start;
	ret->role = (uint8_t)role_of(names, self->symbol.name.data);
	kept = known_names__keep(&self->known, self->namer->renewed,
				 &(struct known_name){.start = ret->start,
						      .module = names->module->id,
						      .role = ret->role,
						      .name = name});
	ret->kept = kept;
	ret->name = kept ?: name;
}

/* Names code without a symbol: by its callable, or as "module+0xoffset" of its function's begin if call frame
 * information has one. */
static void name_nameless(struct codemap *self, const struct callable *callable, int err, struct code_location *ret)
{
	if (callable && callable->name && err == -ENOENT) {
		ret->start = callable->start;
		ret->name = callable->name;
	} else {
		ret->start = err == -ENOENT && self->symbol.size ? self->symbol.start : ret->vaddr;
		snprintf(self->nameless, sizeof(self->nameless), "%s+0x%llx", self->module_name,
			 (unsigned long long)ret->start);
		ret->name = self->nameless;
	}
	ret->function = ret->start | FUNCTION_NAMELESS;
}

/* Fills in module, name and role of vaddr. 0, or why it has no name; -EAGAIN: its symbols are still being read. */
static int name_file(struct codemap *self, const struct module_names *names, uint64_t vaddr, bool vaddr_known,
		     struct code_location *ret)
{
	const struct module *module = names->module;
	const struct known_name *known;
	int err = -ENOENT;

	snprintf(self->module_name, sizeof(self->module_name), "%s", basename(module->path));
	ret->kind = !strcmp(module->path, "[vdso]") ? LOCATION_VDSO
		    : names->interpreter	    ? LOCATION_INTERPRETER
						    : LOCATION_LIBRARY;
	ret->module = module->id;
	ret->module_name = self->module_name;
	ret->vaddr = vaddr;
	ret->kept = false;
	ret->callable = NULL;
	if (vaddr_known && names->names)
		ret->callable = find_callable(names->names, vaddr, NULL);
	known = vaddr_known ? find_known(self, names, vaddr, ret) : NULL;
	if (known) {
		ret->name = known->name;
		ret->role = (uint8_t)known->role;
		ret->kept = true;
		return 0;
	}
	self->symbol.size = 0;
	if (vaddr_known)
		err = names->names ? find_symbol(names->names, vaddr, &self->symbol) : modules__awaited(module);
	if (!err) {
		name_symbol(self, names, ret);
		return 0;
	}
	name_nameless(self, ret->callable, err, ret);
	ret->role = (uint8_t)role_of(names, NULL);
	return err;
}

/* What a function is to a stack that is woven; `role` is what its name says. Names of other modules mean nothing. */
static enum frame_role role_at(const struct modules_found *found, const struct module_names *names,
			       enum frame_role role)
{
	const struct eval_ranges *eval;
	enum frame_role by_code = WEAVE_CODE;

	if (!found->interpreter)
		return names->switches ? role : WEAVE_CODE;
	if (found->vaddr_known && names->names && !names__eval(names->names, &eval))
		by_code = eval_ranges__role(eval, found->vaddr, NULL);
	return by_code != WEAVE_CODE ? by_code : role;
}

/* All but the name, if it has one; of the interpreter's functions those whose names were read. */
static bool locate_file(struct codemap *self, const struct modules_found *found, const struct module_names *names,
			struct code_location *ret)
{

	*ret = (struct code_location){.module = found->module->id,
				      .vaddr = found->vaddr,
				      .kind = found->interpreter ? LOCATION_INTERPRETER : LOCATION_LIBRARY};
	if (!found->vaddr_known || !names->names || names->interpreter != found->interpreter ||
	    !strcmp(found->module->path, "[vdso]") || find_start(names->names, found->vaddr, &ret->start))
		return false;
	if (found->interpreter || names->switches) {
		const struct known_name *known = known_at(self, names, ret->start);

		if (!known)
			return false;
		ret->role = (uint8_t)role_at(found, names, known->role);
	}
	ret->function = ret->start;
	ret->callable = find_callable(names->names, found->vaddr, NULL);
	return true;
}

static void find_file(struct codemap *self, const struct modules_found *found, struct module_names *names,
		      struct code_location *ret)
{
	*ret = (struct code_location){};
	names->interpreter |= found->interpreter;
	ret->pending = name_file(self, names, found->vaddr, found->vaddr_known, ret) == -EAGAIN;
	ret->role = (uint8_t)role_at(found, names, ret->role);
}

/* --- JIT compilers --- */

/* The number of an object; UINT32_MAX: no memory. */
static uint32_t number_of(struct codemap *self, uint64_t origin, uint32_t object)
{
	const uint64_t key[] = {origin, object};
	uint32_t number;

	if (intern__id(&self->object_numbers, key, sizeof(key), &number))
		return UINT32_MAX;
	if (number == self->n_objects && ARRAY_ADD(self->objects, self->n_objects, self->objects_capacity,
						   ((struct object_names){.origin = origin, .object = object})))
		return UINT32_MAX;
	return number;
}

/* CPython -X perf: each Python function has a copy of this native function, which calls the eval loop and bears the
 * Python function's name. All copies are shown as one function, since the Python frame is in the stack anyway. */
static const char trampoline[] = "_Py_trampoline_func";

static int find_jit(struct codemap *self, const struct modules_process *process, const struct modules_found *found,
		    uint64_t address, struct code_location *ret)
{
	const struct jit_found *object = &found->object;
	uint32_t number;

	if (object->kind == JIT_KIND_PY_TRAMPOLINE) {
		*ret = (struct code_location){.kind = LOCATION_INTERPRETER,
					      .module = MODULE_TRAMPOLINES,
					      .module_name = "JIT",
					      .name = trampoline};
		return 0;
	}
	number = number_of(self, object->origin, object->object);
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

/* --- the kernel --- */

static int name_kernel(struct codemap *self, uint64_t address, struct code_location *ret)
{
	int err = self->kernel ? find_symbol(self->kernel, address, &self->symbol) : -ENOENT;

	*ret = (struct code_location){
		.module = LOCATION_MODULE_KERNEL, .module_name = "kernel", .kind = LOCATION_KERNEL, .lineless = true};
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

static int find_kernel(struct codemap *self, uint64_t address, struct code_location *ret)
{
	int err = name_kernel(self, address, ret);

	ret->pending = err == -EAGAIN;
	if (ret->pending)
		ret->vaddr = ret->start = address; /* what codemap__name() will be called with */
	return err == -EAGAIN || err == -ENOENT ? 0 : err ? -EACCES : 0;
}

/* --- the question --- */

/* Is everything that questions about this code depend on known by now, or known to be missing? */
static bool is_settled(const struct modules_found *found, struct names *names)
{
	const struct eval_ranges *eval;

	return !names || !found->vaddr_known ||
	       (names->settled && !(found->interpreter && names__eval(names, &eval) == -EAGAIN));
}

/* Sets ret->from and ret->to: the function without lines, as far as it is mapped there and has the same callable and
 * role. */
static void widen(struct names *names, const struct modules_found *found, uint64_t address, struct code_location *ret)
{
	const uint64_t bias = address - found->vaddr;
	const struct symbol_file *file;
	const struct eval_ranges *eval;
	struct range range;
	int err;

	if (!ret->lineless || !ret->stable || ret->pending || ret->kind == LOCATION_VDSO || !found->vaddr_known ||
	    !(file = names__file(names, &err)) || !symbol_file__range(file, found->vaddr, &range.start, &range.end))
		return;
	find_callable(names, found->vaddr, &range);
	if (found->interpreter && !names__eval(names, &eval))
		eval_ranges__role(eval, found->vaddr, &range);
	range = (struct range){range.start + bias, range.end + bias};
	/* The range runs over an end of the address space: no function does. */
	if (range.start > address || range.end <= address)
		return;
	range__from(&range, found->start);
	range__to(&range, found->end);
	ret->from = range.start;
	ret->to = range.end;
}

static int search(struct codemap *self, const struct record_task *task, uint64_t address, uint64_t time, bool named,
		  struct code_location *ret)
{
	struct module_names *names, none = {};
	struct modules_process *process;
	struct modules_found found;
	int err;

	if (address & ADDRESS_KERNEL)
		return find_kernel(self, address, ret);
	process = modules__of_task(self->modules, task, time);
	if (!process)
		return -ENOENT;
	err = modules__find(self->modules, process, address, time, &found);
	if (err)
		return err;
	if (found.jit)
		return find_jit(self, process, &found, address, ret);
	if (!found.module)
		return -ENOENT;
	none.module = found.module;
	names = files__names(self, found.module, (int32_t)task->tgid) ?: &none;
	if (named || !locate_file(self, &found, names, ret))
		find_file(self, &found, names, ret);
	ret->stable = found.stable && is_settled(&found, names->names);
	ret->lineless = names->names && names->names->lineless;
	if (!named && names->names)
		widen(names->names, &found, address, ret);
	return 0;
}

int codemap__find(struct codemap *self, const struct record_task *task, uint64_t address, uint64_t time,
		  struct code_location *ret)
{
	return search(self, task, address, time, true, ret);
}

int codemap__locate(struct codemap *self, const struct record_task *task, uint64_t address, uint64_t time,
		    struct code_location *ret)
{
	return search(self, task, address, time, false, ret);
}

int codemap__name(struct codemap *self, uint64_t module, uint64_t vaddr, struct code_location *ret)
{
	if (module == LOCATION_MODULE_KERNEL)
		return name_kernel(self, vaddr, ret);
	return module < self->n_files && self->files[module].module
		       ? name_file(self, files__names(self, self->files[module].module, 0), vaddr, true, ret)
		       : -ENOENT;
}

/* --- lines: what the namer's thread answered is kept, one row for each address --- */

/* Dropping answers costs questions, not correctness: a row that is still wanted is asked for
 * again. */
void line_rows__free(struct namer *namer)
{
	free(namer->rows);
	free(namer->by_vaddr.slots);
	texts__free(&namer->texts);
	namer->rows = NULL;
	namer->by_vaddr = (struct slots){};
	namer->n_rows = namer->rows_capacity = 0;
}

static bool hash_row(const void *holder, uint32_t row, uint64_t *ret)
{
	const struct namer *namer = holder;

	*ret = hash__pair(&namer->seed, namer->rows[row].vaddr, namer->rows[row].names);
	return true;
}

static struct line_row *find_row(const struct namer *namer, const struct names *names, uint64_t vaddr)
{
	uint32_t row = SLOTS_FIND(&namer->by_vaddr, i, hash__pair(&namer->seed, vaddr, names->number),
				  namer->rows[i].vaddr == vaddr && namer->rows[i].names == names->number);

	return row == SLOTS_NONE ? NULL : &namer->rows[row];
}

static int add_row(struct namer *namer, const struct names *names, uint64_t vaddr)
{
	const struct line_row row = {.vaddr = vaddr, .names = names->number, .error = -EAGAIN};

	if (namer->n_rows >= NAMER_LINES_KEPT || namer->texts.strings.bytes >= NAMER_TEXT_MAX)
		line_rows__free(namer);
	return SLOTS_ADD(&namer->by_vaddr, hash_row, namer, namer->rows, namer->n_rows, namer->rows_capacity, row);
}

void line_rows__take(struct namer *namer, const struct names *names, const struct line_job *job)
{
	struct line_row *row = find_row(namer, names, job->vaddr);

	if (!row) /* rows were begun anew since */
		return;
	row->error = job->error == -EAGAIN ? -EIO : job->error;
	row->line = job->line;
	row->column = job->column;
	row->file = job->error ? NULL : texts__keep(&namer->texts, job->file);
	if (!row->error && !row->file)
		row->error = -ENOMEM;
}

/* The row is entered before the job is queued, with -EAGAIN: an address is asked for once, however often it is
 * sampled. */
static int find_line(struct names *names, uint64_t vaddr, const char **ret_file, uint32_t *ret_line,
		     uint32_t *ret_column)
{
	struct namer *namer = names->namer;
	const struct line_row *row;
	struct line_job *job;
	bool first;

	if (names->lineless)
		return -ENOENT;
	row = find_row(namer, names, vaddr);
	if (row && !row->error) {
		*ret_file = row->file;
		*ret_line = row->line;
		*ret_column = row->column;
	}
	if (row)
		return row->error;
	if (namer->waiting >= NAMER_LINES_WAITING)
		return -EAGAIN;
	job = calloc(1, sizeof(*job));
	if (!job || add_row(namer, names, vaddr)) {
		free(job);
		return -ENOENT;
	}
	job->vaddr = vaddr;
	namer->waiting++;
	pthread_mutex_lock(&namer->lock);
	first = !names->asked;
	job->next = names->asked;
	names->asked = job;
	if (first) /* else it knows, and may have to wait with this module's */
		namer__kick(namer);
	pthread_mutex_unlock(&namer->lock);
	return -EAGAIN;
}

/* Where is the image of an object? Who made it may be gone, or have dropped it: then a forked child's memory has the
 * same bytes (`heir`). */
static int image_of(const struct codemap *self, const struct object_names *object, uint64_t *ret_process,
		    struct jit_object *ret, int *ret_mem)
{
	const uint64_t makers[] = {object->origin, object->heir};
	int err = -ENOENT;

	for (unsigned i = 0; err && i < 2; i++) {
		*ret_process = object->copied ? object->copied : makers[i];
		err = modules__jit_object(self->modules, *ret_process, object->object, ret, ret_mem);
		if (!err && (!ret->has_lines || ret->source != JIT_SOURCE_GDB || ret->life.died_by ||
			     ret->origin != object->origin))
			err = -ENOENT;
	}
	return err;
}

/* The lines of an object are in the image that the JIT keeps in the target's memory. The namer copies that image while
 * the target runs, so it may have copied something else: the copy counts only if modules/ saw the object alive at a
 * poll after the copy (`certain`). 0: it is there; -EAGAIN; -ENOENT: it has no lines, or is gone. */
static int read_object(struct codemap *self, struct object_names *object)
{
	struct jit_object info;
	uint64_t process;
	int mem, err;

	if (object->certain || object->no_lines)
		return object->certain ? 0 : -ENOENT;
	err = image_of(self, object, &process, &info, &mem);
	if (!err && !object->names) {
		object->names = namer__add_object(self->namer, mem, info.image, info.image_size);
		object->copied = object->names ? process : 0;
		err = object->names ? -EAGAIN : -ENOMEM;
	} else if (!err) {
		names__file(object->names, &err);
		if (!err && !object->seen)
			object->seen = self->ticks;
		/* modules/ polls the lists between two ticks. */
		if (!err && object->seen == self->ticks)
			err = -EAGAIN;
		object->certain = !err;
	}
	object->no_lines = err && err != -EAGAIN;
	return err;
}

int codemap__line(struct codemap *self, uint64_t module, uint64_t vaddr, const char **ret_file, uint32_t *ret_line,
		  uint32_t *ret_column)
{
	struct names *names = NULL;

	if (module < self->n_files)
		names = self->files[module].names;
	if (module >= MODULE_JIT && module - MODULE_JIT < self->n_objects) {
		struct object_names *object = &self->objects[module - MODULE_JIT];
		int err = read_object(self, object);

		if (err)
			return err;
		names = object->names;
	}
	return names ? find_line(names, vaddr, ret_file, ret_line, ret_column) : -ENOENT;
}

/* SPDX-License-Identifier: MIT */
/* Unwind tables of code that a perf map or a jitdump names. A function of a jitdump that came with unwind information
 * has a table of its own, as an object of the GDB interface has. All others are followed by their instructions
 * (unwind/code.h).
 *
 * That is not done before a walk stops in one: Node writes 20,000 functions and runs 100. And it is done for a block of
 * 64 KB of addresses at once, as neighbours are likely to run, too (all of CPython's trampolines lie in one place):
 *
 *    walk stops at pc -> jit_tables__want() -> make(): the block as an ELF image -> worker -> jit_tables__done() */
#include <string.h>

#include "arch/arch.h"
#include "base/cleanup.h"
#include "base/array.h"
#include "base/search.h"
#include "elf/elf.h"
#include "modules/internal.h"

#define JIT_BLOCK (64ull << 10)
/* Functions that begin in one block. Others stay without a table. */
#define FUNCTIONS_MAX 8192u
/* Larger functions are not followed. */
#define FUNCTION_BYTES (1u << 20)
/* Blocks of one process, and blocks that are prepared before a walk stops there. */
#define JIT_BLOCKS_MAX 1024u
#define PREPARED_MAX 64u
/* A block's table is made again only after 10 times what the last one took: a JIT that adds functions all the time does
 * not keep a worker busy. */
#define SHARE 10u
/* Functions that are no further apart than this become one range of the list: between them lies padding. */
#define PADDING 16u

/* --- an ELF image --- */

enum { SECTION_TEXT = 1, SECTION_SYMBOLS, SECTION_NAMES, SECTION_FRAMES, SECTIONS };
static const char section_names[] = "\0.text\0.symtab\0.strtab\0.eh_frame";

/* What an ELF image is made of. */
struct picture {
	uint64_t address, size; /* of the code */
	const struct jit_function *functions;
	uint32_t n;
	const struct jit_unwind *unwind; /* NULL: none */
};

static uint64_t align8(uint64_t size)
{
	return (size + 7) & ~7ull;
}

/* The compiler of tables (unwind/) takes ELF files. So functions that a perf map or a jitdump names are written as one,
 * in memory, and no second way into unwind/ is needed: a relocatable object whose sections have the addresses where
 * they were loaded, as LLVM registers them.
 *
 *    ELF header | .text, read from the target | .eh_frame, if any | .symtab: the functions | .strtab | section headers
 *
 * *ret_code: where the caller puts the code. */
static char *draw(const struct picture *p, size_t *ret_size, char **ret_code)
{
	const size_t frames_size = p->unwind ? p->unwind->len : 0, code_at = sizeof(Elf64_Ehdr),
		     frames_at = code_at + align8(p->size), symbols_at = frames_at + align8(frames_size),
		     names_at = symbols_at + (p->n + 1ull) * sizeof(Elf64_Sym),
		     headers_at = names_at + align8(sizeof(section_names));
	const Elf64_Ehdr head = {.e_ident = ELF_IDENT,
				 .e_type = ET_REL,
				 .e_machine = ELF_MACHINE,
				 .e_version = EV_CURRENT,
				 .e_ehsize = sizeof(head),
				 .e_shoff = headers_at,
				 .e_shentsize = sizeof(Elf64_Shdr),
				 .e_shnum = SECTIONS,
				 .e_shstrndx = SECTION_NAMES};
	const Elf64_Shdr sections[SECTIONS] = {
		[SECTION_TEXT] = {.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				  .sh_addr = p->address, .sh_offset = code_at, .sh_size = p->size},
		[SECTION_SYMBOLS] = {.sh_name = 7, .sh_type = SHT_SYMTAB, .sh_offset = symbols_at, .sh_link = SECTION_NAMES,
				     .sh_size = (p->n + 1ull) * sizeof(Elf64_Sym), .sh_entsize = sizeof(Elf64_Sym), .sh_info = 1},
		[SECTION_NAMES] = {.sh_name = 15, .sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = sizeof(section_names)},
		[SECTION_FRAMES] = {.sh_name = 23, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_offset = frames_at,
				    .sh_addr = p->unwind ? p->unwind->address : 0, .sh_size = frames_size},
	};
	char *image = calloc(1, headers_at + sizeof(sections));

	if (!image)
		return NULL;
	memcpy(image, &head, sizeof(head));
	memcpy(image + names_at, section_names, sizeof(section_names));
	memcpy(image + headers_at, sections, sizeof(sections));
	if (frames_size)
		memcpy(image + frames_at, p->unwind->eh_frame, frames_size);
	for (uint32_t i = 0; i < p->n; i++) {
		const Elf64_Sym symbol = {.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = SECTION_TEXT,
					  .st_value = p->functions[i].start - p->address, .st_size = p->functions[i].size};

		memcpy(image + symbols_at + (i + 1) * sizeof(symbol), &symbol, sizeof(symbol));
	}
	*ret_size = headers_at + sizeof(sections);
	*ret_code = image + code_at;
	return image;
}

/* Reads what runs: what a jitdump holds may have been patched since. */
static int read_code(const struct modules_process *process, void *dst, uint64_t size, uint64_t address)
{
	struct host_reader *reader = (struct host_reader *)&process->mem.reader;

	return process->mem.fd < 0 ? -ENOENT : reader->read(reader, dst, size, address);
}

/* For an object with its own .eh_frame; only those of one range, which all of a jitdump are. */
int jit_tables__image(struct modules_process *process, const struct jit_object *object, void **ret, size_t *ret_size)
{
	struct jit_unwind unwind;
	struct jit_function function;
	struct picture picture = {.functions = &function, .n = 1, .unwind = &unwind};
	_cleanup_free_ char *image = NULL;
	char *code;

	if (object->n_ranges != 1 || jit__take_unwind(process->jit, object->id, &unwind))
		return -ENOENT;
	function.start = picture.address = object->ranges[0].start;
	function.size = picture.size = object->ranges[0].end - object->ranges[0].start;
	if (picture.size <= FUNCTION_BYTES)
		image = draw(&picture, ret_size, &code);
	free(unwind.eh_frame);
	if (!image || read_code(process, code, picture.size, picture.address))
		return -ENOENT;
	*ret = take_ptr(image);
	return 0;
}

/* --- blocks --- */

/* Linear: at most JIT_BLOCKS_MAX, and asked for only where a walk stopped. */
static struct jit_block *find(const struct modules_process *process, uint64_t pc)
{
	uint64_t start = pc & ~(JIT_BLOCK - 1);

	for (uint32_t i = 0; process->files && i < process->files->n_jit_blocks; i++)
		if (process->files->jit_blocks[i].start == start)
			return &process->files->jit_blocks[i];
	return NULL;
}

/* Binary search: the last function that begins at or before `start`; NULL: none. */
static const struct jit_function *holder(const struct jit_function *functions, uint32_t n, uint64_t start)
{
	uint32_t low = SEARCH(i, n, functions[i].start <= start);

	return low ? &functions[low - 1] : NULL;
}

static bool has(const struct jit_block *jit_block, uint64_t start)
{
	const struct jit_function *f = holder(jit_block->functions, jit_block->n, start);

	return f && f->start == start;
}

/* The function there, if it is one that is followed here. */
static bool function_at(const struct modules_process *process, uint64_t pc, uint64_t *ret_start)
{
	const struct jit_object *object;
	struct jit_found found;

	if (!process->jit || !process->files || jit__find(process->jit, pc, UINT64_MAX, &found) ||
	    found.source == JIT_SOURCE_GDB || !found.name || found.size > FUNCTION_BYTES)
		return false;
	object = jit__object(process->jit, found.object);
	*ret_start = found.start;
	return object && !object->had_unwind;
}

/* --- CPython's trampolines --- */

/* CPython writes its jitdump through a buffer of 4 KB, so the functions that were called last are not in it yet. All
 * trampolines of an arena are copies of one function, at equal distances (Python/perf_trampoline.c). So where the next
 * one would be, if the same bytes are there, there is one. It has no name, but a walk can go on. */
#define COPY UINT32_MAX /* serial of such */
#define ARENA (64u << 10)
#define COPY_BYTES_MIN 8u /* CPython 3.12's has 11 */
#define COPY_BYTES 64u

struct copies {
	uint64_t last, distance, size; /* the last one that is known before some place */
	uint64_t end;		       /* of what is mapped there */
	uint32_t object;
	char bytes[COPY_BYTES];
};

/* The last two known trampolines before pc give size, distance and bytes. */
static bool find_copies(const struct modules_process *process, uint64_t pc, struct copies *ret)
{
	const struct code *code = modules_process__code(process, pc, UINT64_MAX);
	_cleanup_free_ struct jit_function *functions = NULL;
	const struct jit_function *last;
	uint32_t n;

	if (!process->jit || !jit__has_trampolines(process->jit) || !code || code->file)
		return false;
	functions = calloc(FUNCTIONS_MAX, sizeof(*functions));
	n = functions ? jit__functions(process->jit, pc - code->start < ARENA ? code->start : pc - ARENA, pc, functions, FUNCTIONS_MAX) : 0;
	last = n ? &functions[n - 1] : NULL;
	if (n < 2 || last->kind != JIT_KIND_PY_TRAMPOLINE || last[-1].kind != JIT_KIND_PY_TRAMPOLINE ||
	    last->size != last[-1].size || last->size < COPY_BYTES_MIN || last->size > COPY_BYTES)
		return false;
	*ret = (struct copies){last->start, last->start - last[-1].start, last->size, code->end, last->object, {}};
	return !read_code(process, ret->bytes, ret->size, ret->last);
}

static bool is_copy(const struct modules_process *process, const struct copies *copies, uint64_t start)
{
	char bytes[COPY_BYTES];

	return !read_code(process, bytes, copies->size, start) && !memcmp(bytes, copies->bytes, copies->size);
}

/* A trampoline that no file names. */
static bool copy_at(const struct modules_process *process, uint64_t pc, uint64_t *ret_start)
{
	struct copies copies;

	if (!find_copies(process, pc, &copies))
		return false;
	*ret_start = pc - (pc - copies.last) % copies.distance;
	return pc - *ret_start < copies.size && is_copy(process, &copies, *ret_start);
}

/* Adds the copies behind the n known functions of a block, around pc. */
static uint32_t add_copies(const struct modules_process *process, uint64_t start, uint64_t pc, struct jit_function *functions,
			   uint32_t n)
{
	struct copies copies;
	uint64_t end, at;

	if (!find_copies(process, pc, &copies))
		return n;
	end = copies.end < start + JIT_BLOCK ? copies.end : start + JIT_BLOCK;
	for (at = copies.last + copies.distance; at < end && n < FUNCTIONS_MAX; at += copies.distance) {
		if (!is_copy(process, &copies, at))
			break;
		if (at >= start && (!n || at >= functions[n - 1].start + functions[n - 1].size))
			functions[n++] = (struct jit_function){at, copies.size, copies.object, COPY, JIT_KIND_PY_TRAMPOLINE};
	}
	return n;
}

int jit_tables__copy(const struct modules_process *process, uint64_t pc, struct jit_found *ret)
{
	struct jit_block *jit_block = find(process, pc);
	const struct jit_function *f = jit_block ? holder(jit_block->functions, jit_block->n, pc) : NULL;

	if (!f || f->serial != COPY || pc - f->start >= f->size)
		return -ENOENT;
	*ret = (struct jit_found){.start = f->start, .size = f->size, .source = JIT_SOURCE_JITDUMP, .kind = f->kind, .object = f->object};
	return 0;
}

/* --- what has a table --- */

static bool begins(const struct modules_process *process, uint64_t pc, uint64_t *ret_start)
{
	return function_at(process, pc, ret_start) || copy_at(process, pc, ret_start);
}

bool jit_tables__may_retry(const struct modules_process *process, uint64_t pc)
{
	const struct jit_block *jit_block;
	uint64_t start;

	if (!process->files || !begins(process, pc, &start))
		return false;
	jit_block = find(process, start);
	return !jit_block || !has(jit_block, start);
}

/* The functions of a block, without those that have unwind information of their own or are too large. NULL: none, or no
 * memory. */
static struct jit_function *collect(struct modules_process *process, uint64_t start, uint64_t pc, uint32_t *ret_n)
{
	_cleanup_free_ struct jit_function *functions = calloc(FUNCTIONS_MAX, sizeof(*functions));
	uint32_t i, n = 0, found;

	if (!functions)
		return NULL;
	found = jit__functions(process->jit, start, start + JIT_BLOCK, functions, FUNCTIONS_MAX);
	for (i = 0; i < found; i++) {
		const struct jit_object *object = jit__object(process->jit, functions[i].object);

		if (object && !object->had_unwind && functions[i].size <= FUNCTION_BYTES)
			functions[n++] = functions[i];
	}
	n = add_copies(process, start, pc, functions, n);
	*ret_n = n;
	return n ? realloc(take_ptr(functions), n * sizeof(*functions)) : NULL;
}

static int make(struct modules *modules, struct modules_process *process, struct jit_block *jit_block, uint64_t pc)
{
	struct picture picture = {};
	struct job *job;
	char *image, *code;
	size_t size;

	free(jit_block->next);
	jit_block->next = collect(process, jit_block->start, pc, &jit_block->n_next);
	if (!jit_block->next)
		return -ENOENT;
	picture.functions = jit_block->next;
	picture.n = jit_block->n_next;
	picture.address = picture.functions[0].start;
	picture.size = picture.functions[picture.n - 1].start + picture.functions[picture.n - 1].size - picture.address;
	image = draw(&picture, &size, &code);
	job = calloc(1, sizeof(*job));
	if (!image || !job) {
		free(image);
		free(job);
		return -ENOMEM;
	}
	/* All at once in one read; page by page only if that fails. */
	if (read_code(process, code, picture.size, picture.address))
		for (uint32_t i = 0; i < picture.n; i++) { /* some of its pages are gone: then so are its functions */
			char *to = code + (picture.functions[i].start - picture.address);

			if (read_code(process, to, picture.functions[i].size, picture.functions[i].start))
				memset(to, 0, picture.functions[i].size);
		}
	*job = (struct job){.fd = -1, .bytes = image, .size = size, .tables = true, .rank = JOB_WANTED,
			    .object = WORKER_JIT_BLOCK, .jit_block = jit_block->start, .pid = process->pid, .process = process->id};
	if (worker__give(modules->worker, job)) {
		job__free(job);
		return -ENOMEM;
	}
	jit_block->making = true;
	return 0;
}

void jit_tables__want(struct modules *modules, struct modules_process *process, uint64_t pc)
{
	struct jit_block *jit_block;
	uint64_t start;

	if (!modules->tables || process->closed || !process->files || !begins(process, pc, &start))
		return;
	jit_block = find(process, start);
	if (!jit_block) {
		struct jit_files *files = process->files;

		if (files->n_jit_blocks == JIT_BLOCKS_MAX ||
		    ARRAY_RESERVE(files->jit_blocks, files->n_jit_blocks, files->capacity))
			return;
		jit_block = &files->jit_blocks[files->n_jit_blocks++];
		*jit_block = (struct jit_block){.start = start & ~(JIT_BLOCK - 1)};
	}
	if (!jit_block->making && modules->now >= jit_block->due && !has(jit_block, start))
		make(modules, process, jit_block, pc);
}

void jit_tables__prepare(struct modules *modules, struct modules_process *process)
{
	_cleanup_free_ struct jit_function *functions = NULL;
	uint32_t i, k, n, tried = 0;

	if (!modules->tables || !jit__has_trampolines(process->jit))
		return;
	functions = calloc(FUNCTIONS_MAX, sizeof(*functions));
	for (i = 0; functions && i < process->n; i++) {
		const struct code *code = &process->code[i];

		if (code->file)
			continue;
		for (uint64_t at = code->start & ~(JIT_BLOCK - 1); at < code->end && tried < PREPARED_MAX; at += JIT_BLOCK, tried++) {
			n = jit__functions(process->jit, at, at + JIT_BLOCK, functions, FUNCTIONS_MAX);
			for (k = n; k > 0 && functions[k - 1].kind != JIT_KIND_PY_TRAMPOLINE; k--)
				;
			if (k) /* the last one: others were there before */
				jit_tables__want(modules, process, functions[k - 1].start);
		}
	}
}

static void retire(struct modules *modules, struct jit_block *jit_block, uint64_t now)
{
	if (!jit_block->table.at)
		return;
	room__retire(modules, jit_block->table.pool, jit_block->table.at, jit_block->table.size, now);
	modules->counts.table_bytes -= jit_block->table.size;
	jit_block->table = (struct pool_table){};
}

int jit_tables__done(struct modules *modules, struct modules_process *process, struct job *job)
{
	struct jit_block *jit_block = find(process, job->jit_block);
	struct pool_table table = {};

	if (!jit_block)
		return 0;
	if (job->table && !room__table(modules, job, &table))
		return -EAGAIN;
	retire(modules, jit_block, modules->now);
	jit_block->table = table;
	free(jit_block->functions);
	jit_block->functions = take_ptr(jit_block->next);
	jit_block->n = jit_block->n_next;
	jit_block->n_next = 0;
	jit_block->making = false;
	jit_block->due = modules->now + job->ns * SHARE;
	process->dirty = true;
	return 0;
}

/* --- code that was replaced --- */

/* Removes the functions that overlap the range. True: there were some. */
static bool leave_out(struct jit_function *functions, uint32_t *n, const struct range *range)
{
	uint32_t i, kept = 0, before = *n;

	for (i = 0; i < before; i++)
		if (functions[i].start >= range->end || range->start >= functions[i].start + functions[i].size)
			functions[kept++] = functions[i];
	*n = kept;
	return kept != before;
}

/* Code with a table was replaced at some time after `since`: walks from then on may have used the former's table. */
static void note(struct jit_files *files, const struct range *range, uint64_t since)
{
	if (files->n_changes == CHANGES_MAX)
		memmove(files->changes, files->changes + 1, --files->n_changes * sizeof(files->changes[0]));
	files->changes[files->n_changes++] = (struct change){.start = range->start, .end = range->end, .time = since};
}

void jit_tables__published(struct modules_process *process, uint64_t now)
{
	struct jit_files *files = process->files;

	for (uint32_t i = 0; files && i < files->n_changes; i++)
		if (!files->changes[i].known)
			files->changes[i].known = now;
}

void jit_tables__replaced(struct modules_process *process, uint64_t since)
{
	struct range ranges[JIT_REPLACED_MAX];
	struct jit_files *files = process->files;
	uint32_t n = jit__replaced(process->jit, &files->replaced, ranges), i, k;

	if (n == UINT32_MAX) {
		ranges[0] = (struct range){0, UINT64_MAX};
		n = 1;
	}
	for (k = 0; k < n; k++) {
		bool had = false;

		for (i = 0; i < files->n_jit_blocks; i++) {
			struct jit_block *jit_block = &files->jit_blocks[i];

			if (ranges[k].end <= jit_block->start || ranges[k].start >= jit_block->start + JIT_BLOCK + FUNCTION_BYTES)
				continue;
			had |= leave_out(jit_block->functions, &jit_block->n, &ranges[k]);
			leave_out(jit_block->next, &jit_block->n_next, &ranges[k]);
		}
		process->dirty |= had;
		if (had)
			note(files, &ranges[k], since);
	}
}

void jit_tables__free(struct modules *modules, struct modules_process *process, uint64_t now)
{
	struct jit_files *files = process->files;

	for (uint32_t i = 0; i < files->n_jit_blocks; i++) {
		retire(modules, &files->jit_blocks[i], now);
		free(files->jit_blocks[i].functions);
		free(files->jit_blocks[i].next);
	}
	free(files->jit_blocks);
	files->jit_blocks = NULL;
	files->n_jit_blocks = 0;
}

/* --- lists --- */

static bool was_there(const struct modules_process *process, const struct jit_function *function, uint64_t time)
{
	struct jit_found found;

	if (function->serial == COPY)
		return true;
	return !jit__find(process->jit, function->start, time, &found) && found.object == function->object &&
	       found.start == function->start;
}

uint32_t jit_tables__count(const struct modules_process *process)
{
	uint32_t n = 0, i;

	for (i = 0; process->files && i < process->files->n_jit_blocks; i++)
		n += process->files->jit_blocks[i].n;
	return n;
}

/* Neighbouring functions are merged into one range (PADDING): a list has few, large ranges. */
void jit_tables__put(struct modules *modules, const struct modules_process *process, uint64_t time, uint32_t module,
		     struct unwind_entry *to, uint32_t *n, uint32_t max)
{
	for (uint32_t i = 0; process->files && i < process->files->n_jit_blocks; i++) {
		const struct jit_block *jit_block = &process->files->jit_blocks[i];
		uint64_t start = 0, end = 0;

		for (uint32_t k = 0; jit_block->table.at && k <= jit_block->n && *n < max; k++) {
			const struct jit_function *f = k < jit_block->n ? &jit_block->functions[k] : NULL;

			if (f && time != UINT64_MAX && !was_there(process, f, time))
				continue;
			if (f && end && f->start - end < PADDING) {
				end = f->start + f->size;
				continue;
			}
			if (end) {
				unwind_entry__make(&to[*n], &modules->pools[jit_block->table.pool].room, jit_block->table.pool,
					     jit_block->table.at, 0, start, end);
				to[*n].range.module = module;
				*n += to[*n].range.size != 0;
			}
			start = f ? f->start : 0;
			end = f ? f->start + f->size : 0;
		}
	}
}

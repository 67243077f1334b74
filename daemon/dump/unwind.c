/* SPDX-License-Identifier: MIT */
/* Native frames by libunwind, over what was recorded: its accessors read the copy of the stack, and call frame
 * information from the target's memory.
 *
 * The target may run or be hostile. What it can do: expressions in call frame information that loop (READS_MAX),
 * stacks that lead back (LOSS_NATIVE_ORDER), tables that lie (wrong frames of its own). No file is opened, and
 * nothing is written.
 *
 * Reads go to the copy of the stack first, then to pages of the process (a direct-mapped cache of 128), and
 * to anonymous writable memory only if `live`. */
#include <libunwind.h>
#include <string.h>

#include "arch/arch.h"
#include "base/array.h"
#include "dump/dump.h"
#include "elf/elf.h"

/* Declared in no header of libunwind's, but exported for tools that unwind what they recorded. */
#define search_table UNW_OBJ(dwarf_search_unwind_table)
extern int search_table(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t *info, unw_proc_info_t *ret, int need,
			void *arg);

#define PAGE 4096u
#define PAGES 128u         /* kept while one stack is walked */
#define READS_MAX 1000000u /* of one walk: an expression of a hostile target's may go round for ever */
#define OBJECTS_MAX 4096u

/* A file (or the vDSO) where it is mapped: its table of functions. */
struct object {
	uint64_t base;     /* of the mapping that holds the ELF header */
	bool good;
	uint64_t entry;    /* where the program begins */
	unw_dyn_info_t info;
};

struct page {
	uint64_t address;
	bool there;
	uint8_t bytes[PAGE];
};

struct dump_unwinder {
	struct host_reader *memory;
	const struct maps *maps;
	unw_addr_space_t space;
	struct object *objects;
	uint32_t n_objects, objects_capacity;
	const struct dump_state *state; /* of the walk that goes on */
	uint32_t reads;
	struct page pages[PAGES];
};

/* --- memory --- */

static int read_memory(struct dump_unwinder *self, void *dst, size_t size, uint64_t address)
{
	return self->memory->read(self->memory, dst, size, address);
}

/* What is mapped of a file does not change, but the stack of a thread that runs does. (Call frame information of C++
 * refers to a personality routine by a word in the file's data, which is writable.) */
static bool may_read(const struct dump_unwinder *self, uint64_t address)
{
	const struct mapping *mapping = maps__find(self->maps, address);

	return mapping && (self->state->live || mapping->inode || !(mapping->flags & MAPPING_WRITE));
}

/* NULL: not mapped, or not to be read. A failure is cached as well. */
static const struct page *page_of(struct dump_unwinder *self, uint64_t address)
{
	struct page *page = &self->pages[(address / PAGE) % PAGES];

	address &= ~(uint64_t)(PAGE - 1);
	if (page->address != address) {
		page->address = address;
		page->there = may_read(self, address) && !read_memory(self, page->bytes, PAGE, address);
	}
	return page->there ? page : NULL;
}

/* The one place where libunwind's reads arrive. A word may lie across two pages. */
static int read_word(struct dump_unwinder *self, uint64_t address, unw_word_t *ret)
{
	const struct dump_state *state = self->state;
	uint64_t at = address - state->stack_at;
	uint8_t bytes[sizeof(*ret)];

	if (++self->reads > READS_MAX)
		return -UNW_EINVAL;
	if (state->stack_size >= sizeof(*ret) && at <= state->stack_size - sizeof(*ret)) {
		memcpy(ret, state->stack + at, sizeof(*ret));
		return 0;
	}
	for (size_t i = 0; i < sizeof(*ret); i++) {
		const struct page *page = page_of(self, address + i);

		if (!page)
			return -UNW_EINVAL;
		bytes[i] = page->bytes[(address + i) % PAGE];
	}
	memcpy(ret, bytes, sizeof(*ret));
	return 0;
}

/* --- objects: from .eh_frame_hdr to libunwind's description of a table --- */

/* The mapping with the ELF header of the file that `mapping` is of: the nearest below. */
static const struct mapping *header_of(const struct dump_unwinder *self, const struct mapping *mapping)
{
	const struct mapping *m = mapping;

	if (!m->inode)
		return m->path_len == 6 && !memcmp(m->path, "[vdso]", 6) ? m : NULL;
	for (; m >= self->maps->items; m--)
		if (m->inode == mapping->inode && m->major == mapping->major && m->minor == mapping->minor &&
		    !m->offset)
			return m;
	return NULL;
}

/* The one form that linkers write (LSB 5.0, "Exception Frame Header"): a table of pairs of 32 bits, relative to the
 * header, sorted. */
static bool describe(struct dump_unwinder *self, uint64_t header, uint64_t size, struct object *object)
{
	uint8_t bytes[12];
	uint32_t count;

	if (size < sizeof(bytes) || read_memory(self, bytes, sizeof(bytes), header) || bytes[0] != 1 ||
	    bytes[2] != 0x03 || bytes[3] != 0x3b)
		return false;
	memcpy(&count, bytes + 8, 4);
	if (!count || count > (size - sizeof(bytes)) / 8)
		return false;
	object->info = (unw_dyn_info_t){.format = UNW_INFO_FORMAT_REMOTE_TABLE};
	object->info.u.rti.segbase = header;
	object->info.u.rti.table_data = header + sizeof(bytes);
	object->info.u.rti.table_len = (unw_word_t)count * 8 / sizeof(unw_word_t);
	return true;
}

static bool read_segments(struct dump_unwinder *self, uint64_t base, const struct elf_image *image,
			  struct object *object)
{
	const Elf64_Phdr *frames = elf_image__segment(image, PT_GNU_EH_FRAME);
	uint64_t bias, start = UINT64_MAX, end = 0;

	if (!frames || elf_image__bias(image, base, &bias) ||
	    !describe(self, frames->p_vaddr + bias, frames->p_memsz, object))
		return false;
	for (uint32_t i = 0; i < image->n_segments; i++) {
		const Elf64_Phdr *p = &image->segments[i];

		if (p->p_type != PT_LOAD)
			continue;
		start = p->p_vaddr < start ? p->p_vaddr : start;
		end = p->p_vaddr + p->p_memsz > end ? p->p_vaddr + p->p_memsz : end;
	}
	object->entry = image->entry + bias;
	object->info.start_ip = start + bias;
	object->info.end_ip = end + bias;
	return true;
}

static bool read_object(struct dump_unwinder *self, uint64_t base, struct object *object)
{
	struct elf_image image;
	struct elf_bytes bytes;
	bool good;

	elf_bytes__init_target(&bytes, self->memory, base);
	good = !elf_image__open(&bytes, ELF_SEGMENTS, &image) &&
	       read_segments(self, base, &image, object);
	elf_image__free(&image);
	return good;
}

/* The unwind table of the file that pc lies in; read when it is first needed. NULL: pc is in no executable file, or
 * the file has no table. `objects` moves when it grows: use the result before the next call. */
static struct object *object_of(struct dump_unwinder *self, uint64_t pc)
{
	const struct mapping *mapping = maps__find(self->maps, pc);
	struct object *objects;

	mapping = mapping && mapping->flags & MAPPING_EXEC ? header_of(self, mapping) : NULL;
	if (!mapping)
		return NULL;
	for (uint32_t i = 0; i < self->n_objects; i++)
		if (self->objects[i].base == mapping->start)
			return self->objects[i].good ? &self->objects[i] : NULL;
	if (self->n_objects == OBJECTS_MAX)
		return NULL;
	if (ARRAY_RESERVE(self->objects, self->n_objects, self->objects_capacity))
		return NULL;
	objects = &self->objects[self->n_objects++];
	*objects = (struct object){.base = mapping->start};
	objects->good = read_object(self, mapping->start, objects);
	return objects->good ? objects : NULL;
}

/* --- what libunwind asks --- */

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *ret, int need, void *arg)
{
	struct object *object = object_of(arg, ip);
	int err = object ? search_table(space, ip, &object->info, ret, need, arg) : -UNW_ENOINFO;

	/* A system call may be a function's last instruction (rt_sigreturn is): in the kernel the pc lies behind it.
	 * Functions begin at multiples of 16, so a pc there is not behind one. */
	if (err && object && ip & 15)
		err = search_table(space, ip - 1, &object->info, ret, need, arg);
	return err;
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *arg)
{
}

/* Accessors that libunwind wants and that have no answer here: code registered at run time, writing, resuming,
 * names. */
static int no_dynamic(unw_addr_space_t space, unw_word_t *ret, void *arg)
{
	return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write, void *arg)
{
	return write ? -UNW_EINVAL : read_word(arg, address, value);
}

static int access_reg(unw_addr_space_t space, unw_regnum_t reg, unw_word_t *value, int write, void *arg)
{
	const struct dump_unwinder *self = arg;

	if (write || reg < 0 || reg >= (int)DUMP_REGISTERS)
		return -UNW_EBADREG;
	*value = self->state->regs[reg];
	return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t reg, unw_fpreg_t *value, int write, void *arg)
{
	return -UNW_EBADREG;
}

static int no_resume(unw_addr_space_t space, unw_cursor_t *cursor, void *arg)
{
	return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t space, unw_word_t address, char *name, size_t size, unw_word_t *offset, void *arg)
{
	return -UNW_ENOINFO;
}

static unw_accessors_t accessors = {
	.find_proc_info = find_proc_info,
	.put_unwind_info = put_unwind_info,
	.get_dyn_info_list_addr = no_dynamic,
	.access_mem = access_mem,
	.access_reg = access_reg,
	.access_fpreg = access_fpreg,
	.resume = no_resume,
	.get_proc_name = no_name,
};

/* --- the walk --- */

int dump_unwinder__new(struct host_reader *memory, const struct maps *maps, struct dump_unwinder **ret)
{
	struct dump_unwinder *self = calloc(1, sizeof(*self));

	if (!self)
		return -ENOMEM;
	self->memory = memory;
	self->maps = maps;
	self->space = unw_create_addr_space(&accessors, 0);
	if (!self->space) {
		free(self);
		return -ENOMEM;
	}
	unw_set_caching_policy(self->space, UNW_CACHE_NONE);
	*ret = self;
	return 0;
}

struct dump_unwinder *dump_unwinder__free(struct dump_unwinder *self)
{
	if (!self)
		return NULL;
	unw_destroy_addr_space(self->space);
	free(self->objects);
	free(self);
	return NULL;
}

#define ENTRY_BYTES 64u

/* Is there call frame information for pc? libunwind would go on without, by guesses. *ret_end: a program begins here
 * (musl's _start has none). */
static uint16_t why_not(struct dump_unwinder *self, uint64_t pc, bool *ret_end)
{
	const struct mapping *mapping = maps__find(self->maps, pc);
	const struct object *object = object_of(self, pc);
	unw_proc_info_t info;

	*ret_end = false;
	if (!mapping || !(mapping->flags & MAPPING_EXEC))
		return LOSS_NATIVE_MAPPING;
	if (!find_proc_info(self->space, pc, &info, 0, self))
		return LOSS_NONE;
	*ret_end = object && pc - object->entry < ENTRY_BYTES;
	return LOSS_NATIVE_NO_RULE;
}

/* Is it the code that a signal's handler returns to? At its first instruction, at the call, or behind that, in the
 * kernel. */
static bool returns_from_signal(struct dump_unwinder *self, uint64_t pc)
{
	static const uint8_t steps[] = MACHINE_SIGRETURN_STEPS;
	uint8_t code[MACHINE_SIGRETURN_BYTES];
	unw_word_t words[2];

	for (unsigned i = 0; i < sizeof(steps); i++) {
		if (read_word(self, pc - steps[i], &words[0]) || read_word(self, pc - steps[i] + 1, &words[1]))
			continue;
		memcpy(code, &words[0], sizeof(words[0]));
		memcpy(code + 1, &words[1], sizeof(words[1]));
		if (machine__sigreturn(code, sizeof(code)) == sizeof(code))
			return true;
	}
	return false;
}

void dump_unwinder__walk(struct dump_unwinder *self, const struct dump_state *state, struct dump_native *ret)
{
	unw_cursor_t cursor;
	unw_word_t pc, sp, last = 0;
	/* exact: this pc is where execution stood, not a return address. So it is of the first frame, and of one
	 * that a signal interrupted. */
	bool exact = true, signal, end;
	int more = 1;

	ret->n = 0;
	ret->loss = LOSS_NATIVE_TABLE;
	self->state = state;
	self->reads = 0;
	for (uint32_t i = 0; i < PAGES; i++)
		self->pages[i].address = 1; /* no page's */
	if (unw_init_remote(&cursor, self->space, self))
		return;
	for (;;) {
		if (unw_get_reg(&cursor, UNW_REG_IP, &pc) || unw_get_reg(&cursor, UNW_REG_SP, &sp))
			return;
		if (!pc) { /* where a thread begins the return address is undefined */
			ret->loss = ret->n ? LOSS_NONE : LOSS_NATIVE_MAPPING;
			return;
		}
		ret->pc[ret->n++] = pc | (exact ? NATIVE_EXACT : 0);
		ret->loss = why_not(self, exact ? pc : pc - 1, &end);
		if (end)
			ret->loss = LOSS_NONE;
		if (ret->loss || end)
			return;
		if (ret->n == DUMP_NATIVE_MAX) {
			ret->loss = LOSS_NATIVE_DEPTH;
			return;
		}
		signal = returns_from_signal(self, pc);
		/* A stack is walked upwards; only a signal comes from another one. */
		if (ret->n > 1 && !exact && sp <= last) {
			ret->loss = LOSS_NATIVE_ORDER;
			return;
		}
		last = sp;
		more = unw_step(&cursor);
		if (more < 0) {
			ret->loss = self->reads > READS_MAX ? LOSS_NATIVE_TABLE : LOSS_PAGE_FAULT;
			return;
		}
		if (!more) {
			ret->loss = LOSS_NONE;
			return;
		}
		exact = signal;
	}
}

/* SPDX-License-Identifier: MIT */
/* ELF files and their call frame information: whatever they say, a table that is made of it must
 * pass its own check. Half of the inputs are bytes of a file, half only of an .eh_frame in a good
 * file. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/unwind.h"

#define TEXT 0x1000u

struct sink {
	struct unwind_sink sink;
	void *memory;
};

static void *allot(struct unwind_sink *self, size_t size)
{
	struct sink *sink = (struct sink *)self;

	return sink->memory = size < (64u << 20) ? calloc(1, size) : NULL;
}

/* What was left for later, at two places. */
static void follow(const struct elf_bytes *source, const struct unwind_table *table, size_t size)
{
	uint64_t places[2] = {table->text + size % table->text_size, 0};
	struct sink sink = {.sink.allot = allot};
	struct unwind_table *more;

	places[1] = places[0] + size % 61 + 1;
	if (!table__follow(source, table, places, 2, size & 1, &sink.sink, &more) &&
	    table__check(more, table__size(more)))
		abort();
	free(sink.memory);
}

static void compile(const void *bytes, size_t size)
{
	struct sink sink = {.sink.allot = allot};
	struct elf_bytes memory;
	struct unwind_identity identity;
	struct unwind_table *table;

	elf_bytes__init_memory(&memory, bytes, size);
	table__identify(&memory, &identity);
	if (!table__compile(&memory, &sink.sink, &table)) {
		if (table__check(table, table__size(table)))
			abort();
		follow(&memory, table, size);
	}
	free(sink.memory);
}

/* A file whose .eh_frame (or .debug_frame) is `bytes`. */
static void wrap(const uint8_t *bytes, size_t size, bool debug)
{
	static const char names[] = "\0.eh_frame\0.debug_frame\0";
	struct file {
		Elf64_Ehdr header;
		Elf64_Phdr text;
		Elf64_Shdr sections[3];
		char names[sizeof(names)];
	} *file = calloc(1, sizeof(*file) + size);

	if (!file)
		return;
	memcpy(file->header.e_ident, ELFMAG "\2\1\1", 7);
	file->header.e_type = ET_DYN;
	file->header.e_machine = EM_X86_64;
	file->header.e_phoff = offsetof(struct file, text);
	file->header.e_phentsize = sizeof(file->text);
	file->header.e_phnum = 1;
	file->header.e_shoff = offsetof(struct file, sections);
	file->header.e_shentsize = sizeof(file->sections[0]);
	file->header.e_shnum = 3;
	file->header.e_shstrndx = 1;
	file->text = (Elf64_Phdr){
		.p_type = PT_LOAD, .p_flags = PF_X, .p_vaddr = TEXT, .p_memsz = 1 << 18};
	file->sections[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
					 .sh_offset = offsetof(struct file, names),
					 .sh_size = sizeof(names)};
	file->sections[2] = (Elf64_Shdr){.sh_name = debug ? 11 : 1,
					 .sh_type = SHT_PROGBITS,
					 .sh_offset = sizeof(*file),
					 .sh_size = size};
	memcpy(file->names, names, sizeof(names));
	memcpy(file + 1, bytes, size);
	compile(file, sizeof(*file) + size);
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0] & 1)
		compile(data + 1, size - 1);
	else
		wrap(data + 1, size - 1, data[0] & 2);
	return 0;
}

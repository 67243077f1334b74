/* SPDX-License-Identifier: MIT */
/* Finds the variable __jit_debug_descriptor in a module: the head of the list of its JIT's objects.
 *
 * Its symbol is global in Debian's libLLVM, but local in llvmlite's wheels and in jaxlib, so only in .symtab. Names are
 * compared only for symbols that could be it: variables of its size in writable data. libjax_common.so has 700,000
 * symbols and 74 MB of names; 2,271 of them are compared.
 *
 *    struct jit_descriptor { uint32_t version, action_flag;
 *                             struct jit_code_entry *relevant_entry, *first_entry; };
 *
 * Called by modules/ for each ELF file that a process maps, on a worker thread; the result is kept with the file. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/elf.h"
#include "jit/jit.h"

#define NAME "__jit_debug_descriptor"
#define DESCRIPTOR_SIZE 24u
#define SYMBOLS_PIECE 1024u              /* symbols per read: 24 KB, on the stack */
#define SYMBOLS_MAX (256u << 20)         /* bytes of one symbol table */
#define COMPARED_MAX 65536u              /* names; a hostile file could make each comparison a page read */

/* The file while it is searched. */
struct module {
	struct elf_image image;
	uint64_t relro, relro_end; /* read-only after relocation (vtables): not the descriptor */
};

/* Could this symbol be the descriptor, judged without its name? */
static bool may_be(const struct module *module, const Elf64_Sym *symbol)
{
	return symbol->st_size == DESCRIPTOR_SIZE && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT &&
	       symbol->st_shndx != SHN_UNDEF && symbol->st_shndx < module->image.n_sections &&
	       module->image.sections[symbol->st_shndx].sh_flags & SHF_WRITE &&
	       (symbol->st_value < module->relro || symbol->st_value >= module->relro_end);
}

/* Looks for the name in one symbol table, which is read in pieces. 0: *ret_value; -ENOENT; -EBADMSG. */
static int search(const struct module *module, const Elf64_Shdr *table, uint64_t *ret_value)
{
	const Elf64_Shdr *strings = &module->image.sections[table->sh_link];
	const struct elf_bytes *file = module->image.bytes;
	uint64_t n = table->sh_size / sizeof(Elf64_Sym), at, i, len;
	Elf64_Sym symbols[SYMBOLS_PIECE];
	char name[sizeof(NAME)];
	uint32_t compared = 0;

	if (table->sh_entsize != sizeof(*symbols) || table->sh_size > SYMBOLS_MAX)
		return -EBADMSG;
	for (at = 0; at < n; at += len) {
		len = n - at < SYMBOLS_PIECE ? n - at : SYMBOLS_PIECE;
		if (elf_bytes__read(file, table->sh_offset + at * sizeof(*symbols), symbols,
				    len * sizeof(*symbols)))
			return -EBADMSG;
		for (i = 0; i < len; i++) {
			if (!may_be(module, &symbols[i]) || symbols[i].st_name >= strings->sh_size ||
			    strings->sh_size - symbols[i].st_name < sizeof(NAME))
				continue;
			if (++compared > COMPARED_MAX)
				return -EBADMSG;
			if (elf_bytes__read(file, strings->sh_offset + symbols[i].st_name, name,
					    sizeof(name)))
				return -EBADMSG;
			if (memcmp(name, NAME, sizeof(NAME)))
				continue;
			*ret_value = symbols[i].st_value;
			return 0;
		}
	}
	return -ENOENT;
}

/* Only what could be loaded (ET_DYN, ET_EXEC). A file with section headers that cannot be read is damaged, not
 * stripped. */
static int open_module(struct module *module, const struct elf_bytes *file)
{
	const struct elf_image *image = &module->image;
	int err = elf_image__open(file, ELF_SEGMENTS | ELF_SECTIONS, &module->image);
	const Elf64_Phdr *relro;

	if (err)
		return err == -ENOMEM ? err : -EBADMSG;
	if ((image->type != ET_DYN && image->type != ET_EXEC) ||
	    (image->headers && !image->n_sections))
		return -EBADMSG;
	relro = elf_image__segment(image, PT_GNU_RELRO);
	if (relro) {
		module->relro = relro->p_vaddr;
		module->relro_end = relro->p_vaddr + relro->p_memsz;
	}
	return 0;
}

static void module__free(struct module *module)
{
	elf_image__free(&module->image);
}

int jit_descriptor__find(const struct elf_bytes *file, uint64_t bias, uint64_t *ret_address)
{
	static const uint32_t types[] = {SHT_DYNSYM, SHT_SYMTAB}; /* the small one first */
	_cleanup_(module__free) struct module module = {};
	bool stripped = true;
	uint64_t value;
	int err = open_module(&module, file);

	if (err)
		return err;
	for (uint32_t way = 0; way < 2; way++)
		for (uint32_t i = 0; i < module.image.n_sections; i++) {
			const Elf64_Shdr *table = &module.image.sections[i];

			if (table->sh_type != types[way])
				continue;
			if (table->sh_link >= module.image.n_sections)
				return -EBADMSG;
			stripped &= types[way] != SHT_SYMTAB;
			err = search(&module, table, &value);
			if (err == -ENOENT)
				break; /* there is one table of each type */
			if (!err)
				*ret_address = value + bias;
			return err;
		}
	return stripped ? -ENODATA : -ENOENT;
}

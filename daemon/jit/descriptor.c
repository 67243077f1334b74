/* Where a module keeps the list of its JIT's objects.
 *
 * The symbol is global in Debian's libLLVM; it is local, so only in .symtab, in
 * llvmlite's wheels and in jaxlib. Names are compared for the few symbols that can
 * be it: variables of its size, in data that is written to. libjax_common.so has
 * 700,000 symbols and 74 MB of names; 2,271 of them are compared. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "jit/jit.h"

#define NAME "__jit_debug_descriptor"
#define DESCRIPTOR_SIZE 24u
#define SECTIONS_MAX 65536u
#define SYMBOLS_PIECE 4096u              /* symbols a read: 96 KB */
#define SYMBOLS_MAX (256u << 20)         /* bytes of one table */
#define COMPARED_MAX 65536u
#define PHDRS_MAX 256u

struct module {
	struct host_reader *file;
	Elf64_Shdr *sections;
	uint32_t n;
	uint64_t relro, relro_end; /* not written to once it is relocated: vtables */
};

static int get(struct host_reader *file, void *dst, size_t size, uint64_t offset)
{
	if (offset + size < offset)
		return -EBADMSG;
	return file->read(file, dst, size, offset) ? -EBADMSG : 0;
}

static bool may_be(const struct module *module, const Elf64_Sym *symbol)
{
	return symbol->st_size == DESCRIPTOR_SIZE && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT &&
	       symbol->st_shndx != SHN_UNDEF && symbol->st_shndx < module->n &&
	       module->sections[symbol->st_shndx].sh_flags & SHF_WRITE &&
	       (symbol->st_value < module->relro || symbol->st_value >= module->relro_end);
}

/* 0: *ret_value; -ENOENT; -EBADMSG. The table is read in pieces. */
static int search(const struct module *module, const Elf64_Shdr *table, uint64_t *ret_value)
{
	const Elf64_Shdr *strings = &module->sections[table->sh_link];
	struct host_reader *file = module->file;
	uint64_t n = table->sh_size / sizeof(Elf64_Sym), at, i, len;
	_cleanup_free_ Elf64_Sym *symbols = NULL;
	char name[sizeof(NAME)];
	uint32_t compared = 0;

	if (table->sh_entsize != sizeof(*symbols) || table->sh_size > SYMBOLS_MAX)
		return -EBADMSG;
	symbols = malloc(SYMBOLS_PIECE * sizeof(*symbols));
	if (!symbols)
		return -ENOMEM;
	for (at = 0; at < n; at += len) {
		len = n - at < SYMBOLS_PIECE ? n - at : SYMBOLS_PIECE;
		if (get(file, symbols, len * sizeof(*symbols), table->sh_offset + at * sizeof(*symbols)))
			return -EBADMSG;
		for (i = 0; i < len; i++) {
			if (!may_be(module, &symbols[i]) || symbols[i].st_name >= strings->sh_size ||
			    strings->sh_size - symbols[i].st_name < sizeof(NAME))
				continue;
			if (++compared > COMPARED_MAX)
				return -EBADMSG;
			if (get(file, name, sizeof(name), strings->sh_offset + symbols[i].st_name))
				return -EBADMSG;
			if (memcmp(name, NAME, sizeof(NAME)))
				continue;
			*ret_value = symbols[i].st_value;
			return 0;
		}
	}
	return -ENOENT;
}

static int read_relro(struct module *module, const Elf64_Ehdr *header)
{
	Elf64_Phdr phdr;
	unsigned i;

	if (header->e_phentsize != sizeof(phdr) || header->e_phnum > PHDRS_MAX)
		return -EBADMSG;
	for (i = 0; i < header->e_phnum; i++) {
		if (get(module->file, &phdr, sizeof(phdr), header->e_phoff + i * sizeof(phdr)))
			return -EBADMSG;
		if (phdr.p_type != PT_GNU_RELRO)
			continue;
		module->relro = phdr.p_vaddr;
		module->relro_end = phdr.p_vaddr + phdr.p_memsz;
	}
	return 0;
}

static int read_sections(struct module *module)
{
	struct host_reader *file = module->file;
	Elf64_Ehdr header;
	Elf64_Shdr first;
	uint64_t n;

	if (get(file, &header, sizeof(header), 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    (header.e_type != ET_DYN && header.e_type != ET_EXEC) ||
	    read_relro(module, &header))
		return -EBADMSG;
	if (!header.e_shoff)
		return 0; /* all is stripped */
	if (header.e_shentsize != sizeof(first) || get(file, &first, sizeof(first), header.e_shoff))
		return -EBADMSG;
	n = header.e_shnum ? header.e_shnum : first.sh_size;
	if (n > SECTIONS_MAX)
		return -EBADMSG;
	module->sections = calloc(n + 1, sizeof(*module->sections));
	if (!module->sections)
		return -ENOMEM;
	if (get(file, module->sections, n * sizeof(*module->sections), header.e_shoff))
		return -EBADMSG;
	module->n = (uint32_t)n;
	return 0;
}

static void module__free(struct module *module)
{
	free(module->sections);
}

int jit_descriptor__find(struct host_reader *file, uint64_t bias, uint64_t *ret_address)
{
	static const uint32_t types[] = {SHT_DYNSYM, SHT_SYMTAB}; /* the small one first */
	_cleanup_(module__free) struct module module = {.file = file};
	bool stripped = true;
	uint32_t i, way;
	uint64_t value;
	int err;

	err = read_sections(&module);
	if (err)
		return err;
	for (way = 0; way < 2; way++)
		for (i = 0; i < module.n; i++) {
			const Elf64_Shdr *table = &module.sections[i];

			if (table->sh_type != types[way])
				continue;
			if (table->sh_link >= module.n)
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

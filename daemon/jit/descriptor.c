/* Where a module keeps the list of its JIT's objects.
 *
 * The symbol is global in Debian's libLLVM; it is local, so only in .symtab, in
 * llvmlite's wheels and in jaxlib. Names are compared for the few symbols that have
 * the descriptor's size and type: libjax_common.so's .symtab has 17 MB, but its
 * names have 74 MB, and are hardly touched. */
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
#define COMPARED_MAX 65536u              /* names: 18 are compared for libjax_common.so */

static int get(struct host_reader *file, void *dst, size_t size, uint64_t offset)
{
	if (offset + size < offset)
		return -EBADMSG;
	return file->read(file, dst, size, offset) ? -EBADMSG : 0;
}

static bool may_be(const Elf64_Sym *symbol)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	return (type == STT_OBJECT || type == STT_NOTYPE) && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_shndx != SHN_ABS && symbol->st_name && symbol->st_value &&
	       (symbol->st_size == DESCRIPTOR_SIZE || !symbol->st_size);
}

/* 0: *ret_value; -ENOENT; -EBADMSG. `file` is read in pieces. */
static int search(struct host_reader *file, const Elf64_Shdr *table, const Elf64_Shdr *strings,
		  uint64_t *ret_value)
{
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
			if (!may_be(&symbols[i]) || symbols[i].st_name >= strings->sh_size ||
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

/* The section headers; NULL: none that can be read. */
static Elf64_Shdr *read_sections(struct host_reader *file, uint32_t *ret_n)
{
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	Elf64_Ehdr header;
	Elf64_Shdr first;
	uint64_t n;

	if (get(file, &header, sizeof(header), 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    (header.e_type != ET_DYN && header.e_type != ET_EXEC) ||
	    header.e_shentsize != sizeof(first))
		return NULL;
	*ret_n = 0;
	if (!header.e_shoff)
		return calloc(1, sizeof(first));
	if (get(file, &first, sizeof(first), header.e_shoff))
		return NULL;
	n = header.e_shnum ? header.e_shnum : first.sh_size;
	if (n > SECTIONS_MAX)
		return NULL;
	sections = calloc(n + 1, sizeof(*sections));
	if (!sections || get(file, sections, n * sizeof(*sections), header.e_shoff))
		return NULL;
	*ret_n = (uint32_t)n;
	return take_ptr(sections);
}

int jit_descriptor__find(struct host_reader *file, uint64_t bias, uint64_t *ret_address)
{
	static const uint32_t types[] = {SHT_DYNSYM, SHT_SYMTAB}; /* the small one first */
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	bool stripped = true;
	uint32_t n, i, way;
	uint64_t value;
	int err;

	sections = read_sections(file, &n);
	if (!sections)
		return -EBADMSG;
	for (way = 0; way < 2; way++)
		for (i = 0; i < n; i++) {
			if (sections[i].sh_type != types[way])
				continue;
			if (sections[i].sh_link >= n)
				return -EBADMSG;
			stripped &= types[way] != SHT_SYMTAB;
			err = search(file, &sections[i], &sections[sections[i].sh_link], &value);
			if (err == -ENOENT)
				break; /* there is one table of each type */
			if (!err)
				*ret_address = value + bias;
			return err;
		}
	return stripped ? -ENODATA : -ENOENT;
}

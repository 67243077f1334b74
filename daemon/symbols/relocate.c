#include "symbols/relocate.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct object {
	uint8_t *bytes;
	size_t len;
	const uint8_t *sections; /* perhaps not aligned */
	uint32_t n;
	Elf64_Shdr names;
	uint32_t budget;
};

static bool inside(const struct object *object, uint64_t offset, uint64_t size)
{
	return offset <= object->len && size <= object->len - offset;
}

static Elf64_Shdr section(const struct object *object, uint32_t i)
{
	Elf64_Shdr s;

	memcpy(&s, object->sections + (size_t)i * sizeof(s), sizeof(s));
	return s;
}

static bool is_debug(const struct object *object, const Elf64_Shdr *s)
{
	static const char prefix[] = ".debug_";

	return s->sh_type != SHT_NOBITS && !(s->sh_flags & SHF_COMPRESSED) &&
	       s->sh_name < object->names.sh_size &&
	       object->names.sh_size - s->sh_name >= sizeof(prefix) - 1 &&
	       !memcmp(object->bytes + object->names.sh_offset + s->sh_name, prefix, sizeof(prefix) - 1) &&
	       inside(object, s->sh_offset, s->sh_size);
}

/* Where the symbol lies: in memory, or, of debug information, in its section. */
static bool value_of(const struct object *object, const Elf64_Shdr *table, uint32_t number, uint64_t *ret)
{
	Elf64_Sym symbol;
	Elf64_Shdr home;

	if (number >= table->sh_size / sizeof(symbol))
		return false;
	memcpy(&symbol, object->bytes + table->sh_offset + (size_t)number * sizeof(symbol), sizeof(symbol));
	if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= object->n)
		return false;
	home = section(object, symbol.st_shndx);
	*ret = symbol.st_value;
	if (home.sh_flags & SHF_ALLOC) {
		/* As symbols of JIT objects are: from the section, or addresses already. */
		if (symbol.st_value < home.sh_addr || symbol.st_value - home.sh_addr > home.sh_size)
			*ret += home.sh_addr;
	}
	return true;
}

static void apply(const struct object *object, const Elf64_Shdr *target, const Elf64_Rela *r, uint64_t value)
{
	uint8_t *at = object->bytes + target->sh_offset + r->r_offset;
	uint32_t type = ELF64_R_TYPE(r->r_info), narrow;
	uint64_t wide = value + (uint64_t)r->r_addend;

	if (r->r_offset > target->sh_size)
		return;
	if (type == R_X86_64_64 && target->sh_size - r->r_offset >= 8) {
		memcpy(at, &wide, 8);
	} else if ((type == R_X86_64_32 || type == R_X86_64_32S) && target->sh_size - r->r_offset >= 4) {
		narrow = (uint32_t)wide;
		memcpy(at, &narrow, 4);
	}
}

static void relocate(struct object *object, const Elf64_Shdr *relocations, const Elf64_Shdr *target,
		     const Elf64_Shdr *symbols)
{
	uint64_t n = relocations->sh_size / sizeof(Elf64_Rela), i, value;
	Elf64_Rela r;

	for (i = 0; i < n && object->budget; i++, object->budget--) {
		memcpy(&r, object->bytes + relocations->sh_offset + i * sizeof(r), sizeof(r));
		if (value_of(object, symbols, (uint32_t)ELF64_R_SYM(r.r_info), &value))
			apply(object, target, &r, value);
	}
}

static int open_object(struct object *object)
{
	Elf64_Ehdr head;

	if (object->len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, object->bytes, sizeof(head));
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_ident[EI_DATA] != ELFDATA2LSB)
		return -EBADMSG;
	if (head.e_type != ET_REL || head.e_machine != EM_X86_64)
		return 0;
	if (head.e_shentsize != sizeof(Elf64_Shdr) ||
	    !inside(object, head.e_shoff, (uint64_t)head.e_shnum * sizeof(Elf64_Shdr)) ||
	    head.e_shstrndx >= head.e_shnum)
		return -EBADMSG;
	object->sections = object->bytes + head.e_shoff;
	object->n = head.e_shnum;
	object->names = section(object, head.e_shstrndx);
	return inside(object, object->names.sh_offset, object->names.sh_size) ? 0 : -EBADMSG;
}

int elf_relocate_debug(uint8_t *image, size_t len)
{
	struct object object = {.bytes = image, .len = len, .budget = RELOCATE_MAX};
	int err = open_object(&object);
	uint32_t i;

	for (i = 1; !err && i < object.n; i++) {
		Elf64_Shdr s = section(&object, i), target, symbols;

		if (s.sh_type != SHT_RELA || !s.sh_info || s.sh_info >= object.n || s.sh_link >= object.n ||
		    !inside(&object, s.sh_offset, s.sh_size))
			continue;
		target = section(&object, s.sh_info);
		symbols = section(&object, s.sh_link);
		if (is_debug(&object, &target) && symbols.sh_type == SHT_SYMTAB &&
		    inside(&object, symbols.sh_offset, symbols.sh_size))
			relocate(&object, &s, &target, &symbols);
	}
	return err;
}

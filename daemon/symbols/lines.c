#include "symbols/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/slots.h"
#include "symbols/debug_file.h"

#define UNITS_MAX 200000u
#define UNIT_RANGES_MAX 100000u /* of one unit */
#define RANGES_MAX (4u << 20)
#define SCOPES_MAX 256u /* around one address */
#define DEPTH_MAX 300u
#define DIES_MAX 1000000u /* of one search */

struct unit_range {
	uint64_t start, end;
	Dwarf_Off die; /* of the unit */
	uint32_t unit;
	uint32_t split : 1; /* its functions are in another file */
	uint32_t kb : 31;   /* of the unit */
};

struct lines {
	const struct elf_image *image;
	const char *path;
	const struct symbol_opener *opener;
	Elf *elf, *alt_elf;
	Dwarf *dwarf, *alt;
	int alt_fd;
	struct unit_range *ranges; /* sorted by start */
	uint32_t n, capacity;
	uint32_t n_units;
	uint64_t touched; /* KB of units that were decoded */
	uint8_t *seen; /* by unit: it was decoded */
	struct source_line found[SYMBOL_INLINE_MAX + 1];
};

static int compare(const void *a, const void *b)
{
	const struct unit_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* How much libdw would read: it takes all the debug sections at once. */
static int weigh(const struct elf_image *image)
{
	const Elf64_Shdr *names = image->names ? &image->sections[image->names] : NULL;
	uint64_t total = 0;
	bool have = false;
	uint32_t i;

	for (i = 1; names && i < image->n_sections; i++) {
		const Elf64_Shdr *s = &image->sections[i];
		uint64_t size = s->sh_size;
		char name[16] = "";
		Elf64_Chdr packed;
		size_t got;

		if (s->sh_type != SHT_PROGBITS || s->sh_name >= names->sh_size ||
		    elf_bytes__read_some(image->bytes, names->sh_offset + s->sh_name, name,
					 sizeof(name) - 1, &got))
			continue;
		if (strncmp(name, ".debug_", 7) && strncmp(name, ".zdebug_", 8))
			continue;
		if (size > image->bytes->size)
			return -EBADMSG;
		if (s->sh_flags & SHF_COMPRESSED) {
			if (elf_bytes__read(image->bytes, s->sh_offset, &packed, sizeof(packed)))
				return -EBADMSG;
			size += packed.ch_size;
		} else if (name[1] == 'z') {
			size *= 16; /* the GNU form; it is of the time before 2015 */
		}
		have |= !strcmp(name, ".debug_line") || !strcmp(name, ".zdebug_line");
		if (size > SYMBOL_DEBUG_BYTES_MAX || (total += size) > SYMBOL_DEBUG_BYTES_MAX)
			return -EFBIG;
	}
	return have ? 0 : -ENOENT;
}

static void end(struct lines *lines)
{
	if (lines->dwarf)
		dwarf_end(lines->dwarf);
	if (lines->alt)
		dwarf_end(lines->alt);
	if (lines->elf)
		elf_end(lines->elf);
	if (lines->alt_elf)
		elf_end(lines->alt_elf);
	if (lines->alt_fd >= 0)
		close(lines->alt_fd);
	lines->dwarf = lines->alt = NULL;
	lines->elf = lines->alt_elf = NULL;
	lines->alt_fd = -1;
}

/* dwz moves what several debug files share to one of their own. */
static int open_alt(struct lines *lines)
{
	struct elf_bytes bytes;
	struct elf_image image;
	char path[DEBUG_PATH_MAX];
	const char *link;
	const void *id;
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(lines->dwarf, &link, &id);
	int err;

	if (len <= 0)
		return 0;
	if (!lines->opener || (size_t)len > SYMBOL_BUILD_ID_MAX)
		return -ENOENT;
	debug_file__build_id_path(id, (size_t)len, path);
	lines->alt_fd = lines->opener->open(lines->opener->context, path);
	if (lines->alt_fd < 0 && link[0] == '/' && strlen(link) < DEBUG_PATH_MAX)
		lines->alt_fd = lines->opener->open(lines->opener->context, link);
	if (lines->alt_fd < 0)
		return -ENOENT;
	err = elf_bytes__init_fd(&bytes, lines->alt_fd);
	if (!err)
		err = elf_image__open(&bytes, &image);
	if (err)
		return err;
	err = image.build_id_len == (size_t)len && !memcmp(image.build_id, id, (size_t)len)
		      ? weigh(&image)
		      : -EINVAL;
	elf_image__free(&image);
	if (err && err != -ENOENT) /* it may have no lines of its own */
		return err;
	lines->alt_elf = elf_begin(lines->alt_fd, ELF_C_READ, NULL);
	lines->alt = dwarf_begin_elf(lines->alt_elf, DWARF_C_READ, NULL);
	if (!lines->alt)
		return -EBADMSG;
	dwarf_setalt(lines->dwarf, lines->alt);
	return 0;
}

static int begin(struct lines *lines)
{
	const struct elf_bytes *bytes = lines->image->bytes;
	int err;

	elf_version(EV_CURRENT);
	/* ELF_C_READ: read, not mapped. */
	lines->elf = bytes->fd >= 0 ? elf_begin(bytes->fd, ELF_C_READ, NULL)
				    : elf_memory((char *)bytes->data, bytes->size);
	lines->dwarf = dwarf_begin_elf(lines->elf, DWARF_C_READ, NULL);
	err = lines->dwarf ? open_alt(lines) : -EBADMSG;
	if (err)
		end(lines);
	return err;
}

static int add_unit(struct lines *lines, Dwarf_Die *die, uint32_t unit, uint64_t size)
{
	Dwarf_Attribute attribute;
	bool split = dwarf_hasattr(die, DW_AT_dwo_name) || dwarf_hasattr(die, DW_AT_GNU_dwo_name);
	Dwarf_Addr base, from, to;
	ptrdiff_t at = 0;
	uint32_t i;
	int err;

	if (!dwarf_attr(die, DW_AT_stmt_list, &attribute))
		return 0;
	for (i = 0; i < UNIT_RANGES_MAX && (at = dwarf_ranges(die, at, &base, &from, &to)) > 0;
	     i++) {
		if (from >= to || lines->n >= RANGES_MAX)
			continue;
		err = array__reserve((void **)&lines->ranges, sizeof(*lines->ranges), lines->n,
				     &lines->capacity);
		if (err)
			return err;
		lines->ranges[lines->n++] =
			(struct unit_range){from, to, dwarf_dieoffset(die), unit, split, (uint32_t)(size >> 10) + 1};
	}
	return 0;
}

/* Not .debug_aranges: clang makes none. */
static int list_units(struct lines *lines)
{
	Dwarf_Off at = 0, next;
	size_t header;
	Dwarf_Die die;
	int err = 0;

	for (;
	     !err && lines->n_units < UNITS_MAX &&
	     !dwarf_next_unit(lines->dwarf, at, &next, &header, NULL, NULL, NULL, NULL, NULL, NULL);
	     at = next) {
		if (next <= at)
			break;
		if (dwarf_offdie(lines->dwarf, at + header, &die) &&
		    dwarf_tag(&die) != DW_TAG_partial_unit)
			err = add_unit(lines, &die, lines->n_units, next - at);
		lines->n_units++;
	}
	if (!err && !lines->n)
		return -ENOENT;
	if (!err)
		qsort(lines->ranges, lines->n, sizeof(*lines->ranges), compare);
	return err;
}

int lines__open(const struct elf_image *image, const char *path, const struct symbol_opener *opener,
		struct lines **ret)
{
	struct lines *lines;
	int err = weigh(image);

	if (err)
		return err;
	lines = calloc(1, sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	lines->image = image;
	lines->path = path;
	lines->opener = opener;
	lines->alt_fd = -1;
	err = begin(lines);
	if (!err)
		err = list_units(lines);
	if (!err && !(lines->seen = calloc(lines->n_units, 1)))
		err = -ENOMEM;
	if (err)
		lines__free(lines);
	else
		*ret = lines;
	return err;
}

struct lines *lines__free(struct lines *lines)
{
	if (lines) {
		end(lines);
		free(lines->ranges);
		free(lines->seen);
		free(lines);
	}
	return NULL;
}

static const struct unit_range *unit_of(const struct lines *lines, uint64_t vaddr)
{
	uint32_t low = 0, high = lines->n, back;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (lines->ranges[middle].start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	/* Ranges of units should not overlap; some neighbours are tried. */
	for (back = 0; low && back < 8; low--, back++)
		if (vaddr < lines->ranges[low - 1].end)
			return &lines->ranges[low - 1];
	return NULL;
}

static const char *function_name(Dwarf_Die *die)
{
	static const unsigned attributes[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name,
					      DW_AT_name};
	Dwarf_Attribute attribute;
	const char *name;
	size_t i;

	for (i = 0; i < sizeof(attributes) / sizeof(*attributes); i++)
		if (dwarf_attr_integrate(die, attributes[i], &attribute) &&
		    (name = dwarf_formstring(&attribute)) && *name)
			return name;
	return NULL;
}

/* Where the inlined function was called: the position in the function around it. */
static void call_site(Dwarf_Die *die, Dwarf_Files *files, struct source_line *ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (dwarf_attr(die, DW_AT_call_file, &attribute) && !dwarf_formudata(&attribute, &value) &&
	    files)
		ret->file = dwarf_filesrc(files, value, NULL, NULL);
	if (dwarf_attr(die, DW_AT_call_line, &attribute) && !dwarf_formudata(&attribute, &value))
		ret->line = (uint32_t)value;
	if (dwarf_attr(die, DW_AT_call_column, &attribute) && !dwarf_formudata(&attribute, &value))
		ret->column = (uint32_t)value;
}

/* The scopes that hold an address, outermost first. */
struct scopes {
	uint64_t vaddr;
	Dwarf_Die die[SCOPES_MAX];
	size_t n;
	uint32_t budget; /* DIEs that may still be looked at */
};

/* Not dwarf_getscopes(): it does not look into namespaces, which have no addresses
 * themselves, and there clang puts functions. */
static bool descend(struct scopes *scopes, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;

	if (depth >= DEPTH_MAX || dwarf_child(parent, &die))
		return false;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
		case DW_TAG_union_type:
			if (descend(scopes, &die, depth + 1))
				return true;
			break;
		case DW_TAG_subprogram:
		case DW_TAG_entry_point:
		case DW_TAG_inlined_subroutine:
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
		case DW_TAG_with_stmt:
			if (dwarf_haspc(&die, scopes->vaddr) <= 0)
				break;
			if (scopes->n < SCOPES_MAX)
				scopes->die[scopes->n++] = die;
			descend(scopes, &die, depth + 1);
			return true;
		}
	} while (scopes->budget && scopes->budget-- && !dwarf_siblingof(&die, &die));
	return false;
}

/* The chain of inlined functions, into lines->found. */
static size_t chain(struct lines *lines, Dwarf_Die *unit, uint64_t vaddr)
{
	struct scopes scopes = {.vaddr = vaddr, .budget = DIES_MAX};
	Dwarf_Files *files = NULL;
	size_t at = 0, i;

	descend(&scopes, unit, 0);
	if (!scopes.n)
		return 1;
	dwarf_getsrcfiles(unit, &files, NULL);
	for (i = scopes.n; i-- && at < SYMBOL_INLINE_MAX;) {
		int tag = dwarf_tag(&scopes.die[i]);

		if (tag == DW_TAG_subprogram || tag == DW_TAG_entry_point) {
			lines->found[at].function = function_name(&scopes.die[i]);
			break;
		}
		if (tag == DW_TAG_inlined_subroutine) {
			lines->found[at].function = function_name(&scopes.die[i]);
			call_site(&scopes.die[i], files, &lines->found[++at]);
		}
	}
	return at + 1;
}

int lines__find(struct lines *lines, uint64_t vaddr, const struct source_line **ret_lines,
		size_t *ret_n)
{
	const struct unit_range *range = unit_of(lines, vaddr);
	Dwarf_Line *line;
	Dwarf_Die unit;
	int number, err;

	*ret_n = 0;
	if (elf_bytes__stale(lines->image->bytes))
		return -ESTALE;
	if (!range)
		return -ENOENT;
	if (!lines->seen[range->unit]) {
		if (lines->touched >= LINES_KB_MAX || !lines->dwarf) {
			end(lines);
			memset(lines->seen, 0, lines->n_units);
			lines->touched = 0;
			err = begin(lines);
			if (err)
				return err;
		}
		lines->seen[range->unit] = 1;
		lines->touched += range->kb;
	}
	if (!dwarf_offdie(lines->dwarf, range->die, &unit))
		return -EBADMSG;
	memset(lines->found, 0, sizeof(lines->found));
	line = dwarf_getsrc_die(&unit, vaddr);
	if (line) {
		lines->found[0].file = dwarf_linesrc(line, NULL, NULL);
		if (!dwarf_lineno(line, &number) && number > 0)
			lines->found[0].line = (uint32_t)number;
		if (!dwarf_linecol(line, &number) && number > 0)
			lines->found[0].column = (uint32_t)number;
	}
	*ret_n = range->split ? 1 : chain(lines, &unit, vaddr);
	if (!line && !lines->found[0].function) {
		*ret_n = 0;
		return -ENOENT;
	}
	*ret_lines = lines->found;
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* Compiles the call frame information of a file into an unwind table (table__compile). .eh_frame and .debug_frame are
 * read from begin to end through one window of 256 KB. An entry of .eh_frame (LSB 5.0, 10.6.1):
 *
 *    uint32 length   (0xffffffff: a uint64 follows; 0: terminator)
 *    uint32 id       0: a CIE; else an FDE, whose CIE begins this many bytes before the id
 *    ...             cfi.c
 *
 * A CIE comes before its FDEs, so it is in `cies` when they need it. What has no entries is then followed by its code
 * (code_file.c). */
#include "unwind/builder.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

#define WINDOW (256u << 10) /* bytes; a longer entry is dropped (the longest seen: 41 KB) */
#define CIES_MAX 65536u	    /* of one section; a linker leaves a few (LLVM 14: 3) */
#define CIE_READ_MAX 4096u  /* bytes of a CIE that lies after its FDE */

/* A part of the section in memory. */
struct window {
	const struct elf_bytes *source;
	struct elf_section section;
	uint8_t *bytes;
	uint64_t at; /* offset in the section of bytes[0] */
	size_t len;
};

/* The CIEs of a section that were parsed, by offset. `last`: the one found last; nearly all FDEs have the same one as
 * the FDE before. */
struct cies {
	struct cfi_cie *items;
	uint32_t n, capacity;
	struct slots by_id;
	struct hash_seed seed;
	struct cfi_cie *last;
};

struct reading {
	struct cfi_section section;
	struct window window;
	struct cies cies;
	struct builder *builder;
};

/* `size` bytes at offset `at`, inside the section; NULL: they cannot be read. Valid until the next call. */
static const uint8_t *window__get(struct window *w, uint64_t at, size_t size)
{
	size_t len;

	if (at >= w->at && at - w->at <= w->len && size <= w->len - (size_t)(at - w->at))
		return w->bytes + (at - w->at);
	len = w->section.size - at < WINDOW ? (size_t)(w->section.size - at) : WINDOW;
	if (size > len || elf_bytes__read(w->source, w->section.offset + at, w->bytes, len)) {
		w->len = 0;
		return NULL;
	}
	w->at = at;
	w->len = len;
	return w->bytes;
}

static bool hash_cie(const void *holder, uint32_t i, uint64_t *ret)
{
	const struct cies *cies = holder;

	*ret = hash__pair(&cies->seed, cies->items[i].id, 0);
	return true;
}

static struct cfi_cie *cies__find(struct cies *cies, uint64_t id)
{
	uint32_t found = SLOTS_FIND(&cies->by_id, i, hash__pair(&cies->seed, id, 0), cies->items[i].id == id);

	return found == SLOTS_NONE ? NULL : &cies->items[found];
}

/* A new CIE, or the known one. Valid until the next one is added. */
static struct cfi_cie *cies__add(struct cies *cies, uint64_t id)
{
	struct cfi_cie *known = cies__find(cies, id);

	if (known)
		return known;
	if (cies->n >= CIES_MAX)
		return NULL;
	cies->last = NULL;
	return SLOTS_ADD(&cies->by_id, hash_cie, cies, cies->items, cies->n, cies->capacity, (struct cfi_cie){.id = id})
		       ? NULL : &cies->items[cies->n - 1];
}

struct entry {
	uint64_t at, length; /* offset in the section; bytes after the `head` */
	unsigned head, id_size;
	uint64_t id;
};

/* Reads length and id of the entry at e->at. 0, or -ENODATA at the section's end. */
static int read_head(const struct reading *r, const uint8_t *bytes, size_t len, struct entry *e)
{
	uint32_t word;

	if (len < 4)
		return -ENODATA;
	memcpy(&word, bytes, 4);
	e->length = word;
	e->head = 4;
	if (word == 0xffffffffu) {
		if (len < 12)
			return -ENODATA;
		memcpy(&e->length, bytes + 4, 8);
		e->head = 12;
	}
	/* In .eh_frame the id has always 4 bytes, even if the length has 8. */
	e->id_size = r->section.debug && e->head == 12 ? 8 : 4;
	e->id = 0;
	if (e->length < e->id_size || len < e->head + e->id_size)
		return 0; /* a terminator, or not an entry */
	memcpy(&e->id, bytes + e->head, e->id_size);
	return 0;
}

/* The id of a CIE is 0 in .eh_frame, and all ones in .debug_frame (DWARF 5, 7.24). */
static bool is_cie(const struct reading *r, const struct entry *e)
{
	if (!r->section.debug)
		return !e->id;
	return e->id == (e->id_size == 8 ? UINT64_MAX : UINT32_MAX);
}

/* What follows the id, as cfi.c takes it. */
static struct cfi_bytes body(const struct reading *r, const struct entry *e, const uint8_t *bytes)
{
	unsigned head = e->head + e->id_size;

	return (struct cfi_bytes){.at = bytes + head,
				  .end = bytes + e->head + e->length,
				  .address = r->window.section.address + e->at + head};
}

/* The CIE at `at`: known already, except in a .debug_frame of unusual order, where it is read here. */
static struct cfi_cie *find_cie(struct reading *r, uint64_t at)
{
	struct cies *cies = &r->cies;
	struct cfi_cie *cie;
	uint8_t bytes[CIE_READ_MAX];
	struct entry e = {.at = at};
	size_t len;

	if (cies->last && cies->last->id == at + 1)
		return cies->last;
	if (at >= r->window.section.size)
		return NULL;
	cie = cies__find(cies, at + 1);
	if (!cie) {
		len = r->window.section.size - at < sizeof(bytes) ? r->window.section.size - at
								  : sizeof(bytes);
		if (elf_bytes__read(r->window.source, r->window.section.offset + at, bytes, len) ||
		    read_head(r, bytes, len, &e) || e.length > len - e.head ||
		    e.length < e.id_size || !is_cie(r, &e))
			return NULL;
		cie = cies__add(cies, at + 1);
		if (!cie)
			return NULL;
		cie__parse(&r->section, body(r, &e, bytes), cie);
	}
	cies->last = cie;
	return cie;
}

/* A damaged entry is dropped and counted; the others are used. */
static int read_entry(struct reading *r, const struct entry *e, const uint8_t *bytes)
{
	struct cfi_bytes at = body(r, e, bytes);
	uint64_t start, size, where;
	struct cfi_cie *cie;

	if (is_cie(r, e)) {
		cie = cies__add(&r->cies, e->at + 1);
		if (cie)
			cie__parse(&r->section, at, cie);
		return 0;
	}
	/* .debug_frame names its CIE by offset; .eh_frame by the distance back from the id. */
	where = r->section.debug ? e->id : e->at + e->head - e->id;
	cie = find_cie(r, where);
	if (!cie || fde__parse(&r->section, cie, &at, &start, &size)) {
		r->builder->dropped++;
		return 0;
	}
	return builder__function(r->builder, &r->section, cie, at, start, size);
}

/* An entry that is longer than the section ends the reading: nothing behind it can be found. */
static int read_entries(struct reading *r)
{
	const struct elf_section *section = &r->window.section;
	struct builder *b = r->builder;
	struct entry e = {};
	int err = 0;

	while (!err && e.at + 4 <= section->size) {
		uint64_t left = section->size - e.at;
		const uint8_t *bytes = window__get(&r->window, e.at, left < 20 ? left : 20);

		if (!bytes)
			return -EIO;
		if (read_head(r, bytes, left < 20 ? left : 20, &e))
			break;
		if (e.length > left - e.head) {
			b->dropped++;
			break;
		}
		/* A terminator (length 0) ends one object file's entries; those of other objects may follow. */
		if (e.length > WINDOW - e.head) {
			b->dropped++;
		} else if (e.length >= e.id_size) {
			bytes = window__get(&r->window, e.at, e.head + e.length);
			if (!bytes)
				return -EIO;
			err = read_entry(r, &e, bytes);
		}
		e.at += e.head + e.length;
	}
	return err;
}

/* The window and the CIEs live as long as one section is read. */
static int read_section(struct builder *b, const struct elf_bytes *source,
			const struct elf_section *section, bool debug)
{
	_cleanup_free_ uint8_t *buffer = malloc(section->size < WINDOW ? section->size : WINDOW);
	struct reading r = {.section = {.elf = b->elf, .debug = debug},
			    .window = {.source = source, .section = *section, .bytes = buffer},
			    .builder = b};
	int err = buffer ? hash_seed__draw(&r.cies.seed) : -ENOMEM;

	err = err ?: read_entries(&r);
	free(r.cies.items);
	free(r.cies.by_id.slots);
	return err;
}

/* Who describes an address: .eh_frame; where it has no entry, .debug_frame; then the entry point; then what is
 * followed. All but the first are "weak" (first_weak). */
int table__compile(const struct elf_bytes *source, struct unwind_sink *sink,
		   struct unwind_table **ret)
{
	_cleanup_free_ struct builder *b = NULL;
	_cleanup_free_ void *relocated = NULL;
	const struct elf_bytes *frames = source;
	struct elf_bytes memory;
	struct elf_frames elf;
	int err = elf_frames__open(source, &elf);

	if (err)
		return err;
	/* Addresses are kept as 32 bits from the base. */
	if (elf.text_size > UINT32_MAX - (1u << 20))
		return -E2BIG;
	if (elf.relocations && elf.eh_frame.size) {
		err = elf_frames__relocate(source, &elf, &memory, &relocated);
		if (err)
			return err;
		frames = &memory;
	}
	b = malloc(sizeof(*b));
	if (!b)
		return -ENOMEM;
	err = builder__init(b, &elf);
	builder__expect(b, elf.eh_frame.size);
	if (!err && elf.eh_frame.size)
		err = read_section(b, frames, &elf.eh_frame, false);
	b->first_weak = b->n_functions;
	if (!err && elf.debug_frame.size)
		err = read_section(b, source, &elf.debug_frame, true);
	/* The entry point has no caller. Newer glibc says so in its entry; musl's _start and old ones do not. */
	if (!err && elf.entry)
		err = builder__range(b, elf.entry, 64, RULE_END);
	err = err ?: builder__follow(b, source, NULL, 0);
	if (!err)
		err = b->n_functions ? builder__finish(b, sink, ret) : -ENODATA;
	builder__free(b);
	return err;
}

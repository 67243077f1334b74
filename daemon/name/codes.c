/* SPDX-License-Identifier: MIT */
/* The registry of code objects: an array by serial number, two hash indices (by key, and by content), and an arena for
 * strings and line tables. File names are interned, as all code objects of a file have the same; qualified names hardly
 * repeat, so they are not. */
#include "name/codes.h"

#include "base/arena.h"
#include "base/hash.h"
#include "base/slots.h"
#include "collect/collect.h"
#include "base/texts.h"
#include "name/pieces.h"
#include "name/text.h"

/* `arena` has all names and line tables; it only grows, and codes__retain() copies what is kept into a new one.
 * by_key has all code objects. Equal file names are one pointer, by which are_equal() compares. */
struct codes {
	struct hash_seed seed;
	struct arena arena;
	struct code *codes;
	uint32_t n, capacity;
	struct slots by_key, by_content; /* by_content: complete code objects; of equal ones the first */
	struct texts files;
	size_t pieces_bytes;
	struct buf scratch;
};

static bool hash_key(const void *holder, uint32_t serial, uint64_t *ret)
{
	const struct codes *codes = holder;

	*ret = hash__pair(&codes->seed, codes->codes[serial].key, 0);
	return true;
}

int codes__new(struct codes **ret)
{
	struct codes *codes = calloc(1, sizeof(*codes));
	int err;

	if (!codes)
		return -ENOMEM;
	err = hash_seed__draw(&codes->seed);
	if (err) {
		free(codes);
		return err;
	}
	*ret = codes;
	return 0;
}

static void free_contents(struct codes *codes)
{
	for (uint32_t i = 0; i < codes->n; i++)
		free(codes->codes[i].pieces);
	free(codes->codes);
	free(codes->by_key.slots);
	free(codes->by_content.slots);
	texts__free(&codes->files);
	arena__free(&codes->arena);
	buf__free(&codes->scratch);
}

struct codes *codes__free(struct codes *codes)
{
	if (codes)
		free_contents(codes);
	free(codes);
	return NULL;
}

uint32_t codes__count(const struct codes *codes)
{
	return codes->n;
}

const struct code *codes__get(const struct codes *codes, uint32_t serial)
{
	return &codes->codes[serial];
}

size_t codes__bytes(const struct codes *codes)
{
	size_t slots = (size_t)codes->by_key.capacity + codes->by_content.capacity;

	return codes->arena.bytes + codes->pieces_bytes + texts__bytes(&codes->files) +
	       (size_t)codes->capacity * sizeof(*codes->codes) + slots * sizeof(uint32_t);
}

uint32_t codes__find(const struct codes *codes, uint64_t key)
{
	return SLOTS_FIND(&codes->by_key, serial, hash__pair(&codes->seed, key, 0), codes->codes[serial].key == key);
}

static int keep_text(struct codes *codes, const char *text, size_t len, const char **ret)
{
	char *copy = arena__take(&codes->arena, len + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, len);
	copy[len] = '\0';
	*ret = copy;
	return 0;
}

static int keep_file(struct codes *codes, const char *text, size_t len, const char **ret)
{
	uint32_t id = texts__id(&codes->files, text, len);

	if (id)
		*ret = texts__get(&codes->files, id);
	return id ? 0 : -ENOMEM;
}

/* The string as UTF-8 without NUL in codes->scratch. */
static int decode(struct codes *codes, const struct part_string *string)
{
	size_t bytes = part_string__bytes(string), i;
	struct buf *out = &codes->scratch;
	bool cut = bytes < (uint64_t)string->length * string->kind;
	int err;

	buf__clear(out);
	err = text__from_unicode(string->data, bytes, string->kind, string->ascii, out);
	if (!err && cut)
		err = buf__puts(out, "…");
	for (i = 0; !err && i < out->len; i++)
		if (!out->data[i])
			out->data[i] = '\x7f';	 /* NUL would end a C string; DEL is escaped in output, too */
	return err ? err : buf__reserve(out, 1); /* data is never NULL */
}

/* Both or none. Strings that could not be read come with a later record. */
static int take_names(struct codes *codes, struct code *code, const struct record_code *record)
{
	const struct record_part *name = record__part(record, PART_QUALNAME);
	const struct record_part *file = record__part(record, PART_FILE);
	const char *name_text, *file_text;
	int err;

	if (!name)
		name = record__part(record, PART_NAME);
	if (!name || !file || name->loss || file->loss)
		return 0;
	err = decode(codes, (const struct part_string *)name);
	if (err == -EBADMSG)
		return 0; /* not a valid str: the code object stays without a name */
	err = err ?: keep_text(codes, codes->scratch.data, codes->scratch.len, &name_text);
	if (err)
		return err;
	err = decode(codes, (const struct part_string *)file);
	if (err == -EBADMSG)
		return 0;
	err = err ?: keep_file(codes, codes->scratch.data, codes->scratch.len, &file_text);
	if (err)
		return err;
	code->name = name_text;
	code->file = file_text;
	code->named = true;
	/* _Py_InitCleanup of 3.12+ (Python/specialize.c): the frame between the call of a class and its __init__.
	 * Tracebacks do not show it. */
	code->shim = !strcmp(code->name, "__init__") && !strcmp(code->file, "__init__");
	return 0;
}

static void drop_pieces(struct codes *codes, struct code *code)
{
	if (code->pieces)
		codes->pieces_bytes -= sizeof(*code->pieces);
	free(code->pieces);
	code->pieces = NULL;
}

/* Takes a piece of the line table. The sampler sends at most RECORD_LINES_MAX bytes at once, so long tables come in
 * several records. */
static int take_piece(struct codes *codes, struct code *code, const struct part_bytes *piece)
{
	struct code_pieces *pieces;

	if (!code->lines && code->lines_total) {
		code->lines = (uint8_t *)arena__take(&codes->arena, code->lines_total);
		if (!code->lines)
			return -ENOMEM;
	}
	if (piece->length)
		memcpy(code->lines + piece->offset, piece->data, piece->length);
	if (piece->length == code->lines_total) {
		code->lines_whole = true;
		drop_pieces(codes, code);
		return 0;
	}
	if (!code->pieces) {
		code->pieces = calloc(1, sizeof(*code->pieces));
		if (!code->pieces)
			return -ENOMEM;
		codes->pieces_bytes += sizeof(*code->pieces);
	}
	pieces = code->pieces;
	pieces__add(pieces, piece->offset, piece->offset + piece->length);
	if (pieces__whole(pieces, code->lines_total)) {
		code->lines_whole = true;
		drop_pieces(codes, code);
	}
	return 0;
}

/* Parts whose offset and length do not fit were refused by record__check() (collect/record.c). */
static int take_lines(struct codes *codes, struct code *code, const struct record_code *record)
{
	const struct record_part *part = NULL;
	int err = 0;

	/* If the first record had 0, the table's length could not be read then. */
	if (!code->lines_total && record->lines_total) {
		code->lines_total = record->lines_total;
		code->lines_whole = false;
	}
	if (code->lines_total != record->lines_total || code->lines_total > CODES_LINES_MAX)
		return 0;
	while (!err && !code->lines_whole && (part = record__part_after(record, part, PART_LINES)))
		if (!part->loss)
			err = take_piece(codes, code, (const struct part_bytes *)part);
	return err;
}

/* Upper bound of the memory that this record adds. */
static size_t growth(const struct code *code, const struct record_code *record)
{
	size_t bytes = 0;

	if (!code || !code->named)
		bytes += 2 * ARENA_CHUNK;
	if ((!code || !code->lines) && record->lines_total <= CODES_LINES_MAX)
		bytes += record->lines_total;
	return bytes;
}

static int add_code(struct codes *codes, const struct code *code)
{
	return SLOTS_ADD(&codes->by_key, hash_key, codes, codes->codes, codes->n, codes->capacity, *code);
}

static int append(struct codes *codes, const struct record_code *record, uint32_t *ret_serial)
{
	const struct code code = {
		.key = record->key,
		.process_start = record->header.task.process_start,
		.address = record->address,
		.tgid = record->header.task.tgid,
		.name = "",
		.file = "",
		.first_line = record->first_line,
		.lines_total = record->lines_total,
		.code_size = record->code_size,
		.first = codes->n,
		.renewed = true,
	};

	*ret_serial = codes->n;
	return add_code(codes, &code);
}

/* Is the line table complete? Only a co_lnotab can be empty; any other table of 0 bytes could not be read. */
static bool lines_known(const struct code *code)
{
	return code->lines_whole && code->format &&
	       (code->lines_total || code->format == PY_LINES_LNOTAB);
}

/* --- equal code objects --- */

static bool is_whole(const struct code *code)
{
	return code->named && lines_known(code);
}

static bool hash_content(const void *holder, uint32_t serial, uint64_t *ret)
{
	const struct codes *codes = holder;
	const struct code *code = &codes->codes[serial];
	uint64_t name, lines;

	if (!is_whole(code) || code->first != serial)
		return false;
	name = hash__bytes(&codes->seed, code->name, strlen(code->name));
	lines = hash__bytes(&codes->seed, code->lines, code->lines ? code->lines_total : 0);
	*ret = hash__pair(&codes->seed, name ^ code->first_line, lines ^ (uintptr_t)code->file);
	return true;
}

/* Files are interned, so they are compared by pointer. */
static bool are_equal(const struct code *a, const struct code *b)
{
	return a->file == b->file && a->first_line == b->first_line && a->code_size == b->code_size &&
	       a->lines_total == b->lines_total && a->format == b->format && !strcmp(a->name, b->name) &&
	       (!a->lines || !memcmp(a->lines, b->lines, a->lines_total));
}

/* Sets `first` of a new complete code object: the first one that is equal. There are many equal ones: programs compile
 * the same text again, and forked children have copies of their parent's. */
static int find_first(struct codes *codes, uint32_t serial)
{
	uint32_t row;
	uint64_t hash;
	int err;

	codes->codes[serial].first = CODE_NONE; /* so that rehashing skips it: it has no slot yet */
	err = slots__reserve(&codes->by_content, codes->n, hash_content, codes);
	codes->codes[serial].first = serial;
	if (err || !hash_content(codes, serial, &hash))
		return err;
	row = SLOTS_FIND(&codes->by_content, i, hash, are_equal(&codes->codes[i], &codes->codes[serial]));
	if (row != SLOTS_NONE)
		codes->codes[serial].first = row;
	else
		slots__enter(&codes->by_content, hash, serial);
	return 0;
}

/* A record of a code object that is complete changes nothing. `entered` is read before the record is taken: whether
 * the code object has a slot in by_content already. */
int codes__add(struct codes *codes, const struct record_code *record, enum py_lines format,
	       uint32_t *ret_serial, bool *ret_changed)
{
	uint32_t serial = codes__find(codes, record->key);
	struct code *code = serial == CODE_NONE ? NULL : &codes->codes[serial];
	bool entered = code && is_whole(code);
	int err;

	*ret_changed = false;
	if (code)
		code->renewed = true;
	if (code && code->named && lines_known(code) &&
	    (code->lines_total || !record->lines_total)) {
		*ret_serial = serial;
		return 0;
	}
	if (codes__bytes(codes) + growth(code, record) > CODES_BYTES_MAX)
		return -ENOSPC;
	if (!code) {
		err = append(codes, record, &serial);
		if (err)
			return err;
		code = &codes->codes[serial];
	}
	*ret_serial = serial;
	*ret_changed = true;
	if (!code->format)
		code->format = (uint8_t)format;
	err = code->named ? 0 : take_names(codes, code, record);
	err = err ?: take_lines(codes, code, record);
	if (err || !is_whole(code))
		return err;
	if (!entered)
		return find_first(codes, serial);
	code->first = serial; /* it was complete and got more: it may have a slot already, so it gets no second one */
	return 0;
}

int codes__position(const struct codes *codes, uint32_t serial, int32_t offset,
		    struct position *ret)
{
	const struct code *code = &codes->codes[serial];

	*ret = (struct position){};
	if (offset >= 0 && !lines_known(code))
		return -EAGAIN;
	return lines__position(code->format, code->lines, code->lines ? code->lines_total : 0,
			       code->first_line, offset, ret);
}

void codes__renew(struct codes *codes)
{
	for (uint32_t i = 0; i < codes->n; i++)
		codes->codes[i].renewed = false;
}

/* Copies one code object, strings and line table included. */
static int copy(struct codes *to, const struct code *from)
{
	struct code code = *from;
	int err = 0;

	code.pieces = NULL;
	code.first = to->n;
	if (from->named)
		err = keep_text(to, from->name, strlen(from->name), &code.name)
			      ?: keep_file(to, from->file, strlen(from->file), &code.file);
	if (!err && from->lines) {
		code.lines = (uint8_t *)arena__take(&to->arena, from->lines_total);
		if (!code.lines)
			return -ENOMEM;
		memcpy(code.lines, from->lines, from->lines_total);
	}
	err = err ?: add_code(to, &code);
	return !err && is_whole(&code) ? find_first(to, code.first) : err;
}

/* Copies what is kept into a new registry, and only then frees the old one: on error nothing has changed. The sets
 * of pieces are moved last, since moving cannot fail. */
int codes__retain(struct codes *codes, const uint8_t *keep)
{
	struct codes fresh = {.seed = codes->seed};
	uint32_t i, kept = 0;
	int err = 0;

	for (i = 0; !err && i < codes->n; i++)
		if (keep[i / 8] & (1u << i % 8))
			err = copy(&fresh, &codes->codes[i]);
	if (err) {
		free_contents(&fresh);
		return err;
	}
	for (i = 0; i < codes->n; i++)
		if (keep[i / 8] & (1u << i % 8)) {
			fresh.codes[kept++].pieces = codes->codes[i].pieces;
			codes->codes[i].pieces = NULL;
			if (fresh.codes[kept - 1].pieces)
				fresh.pieces_bytes += sizeof(struct code_pieces);
		}
	free_contents(codes);
	*codes = fresh;
	return 0;
}

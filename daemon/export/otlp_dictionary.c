/* SPDX-License-Identifier: MIT */
/* ProfilesDictionary: what all profiles of a request refer to by index. An entry is encoded once more whenever it is asked
 * for, and found by its bytes; of frames, which are asked for most, the index is kept. */
#include <errno.h>

#include "base/limits.h"
#include "export/otlp.h"
#include "export/protobuf.h"

enum { MAPPING_FILE = 4, MAPPING_ATTRIBUTES };
enum { LOCATION_MAPPING = 1, LOCATION_LINE = 3, LOCATION_ATTRIBUTES };
enum { LINE_FUNCTION = 1, LINE_LINE, LINE_COLUMN };
enum { FUNCTION_NAME = 1, FUNCTION_SYSTEM_NAME, FUNCTION_FILE, FUNCTION_LINE };
enum { LINK_TRACE = 1, LINK_SPAN };
enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_VALUE };
enum { STACK_LOCATIONS = 1 };
/* Of AnyValue. */
enum { VALUE_TEXT = 1, VALUE_NUMBER = 3 };

static uint32_t put(struct dictionary *dictionary, enum dictionary_table table, const void *entry, size_t len)
{
	uint32_t id = 0;

	dictionary->err = dictionary->err ?: intern__id(&dictionary->tables[table], entry, len, &id);
	return dictionary->err ? 0 : id;
}

static uint32_t put_entry(struct dictionary *dictionary, enum dictionary_table table)
{
	return put(dictionary, table, dictionary->entry.data, dictionary->entry.len);
}

static void put_number(struct dictionary *dictionary, struct buf *out, uint32_t field, uint64_t value)
{
	dictionary->err = dictionary->err ?: protobuf__number(out, field, value);
}

static void put_bytes(struct dictionary *dictionary, struct buf *out, uint32_t field, const void *data, size_t len)
{
	dictionary->err = dictionary->err ?: protobuf__bytes(out, field, data, len);
}

void dictionary__begin(struct dictionary *dictionary)
{
	static const char none[16];
	struct buf *entry = &dictionary->entry;

	for (int table = 0; table < DICTIONARY_END; table++)
		intern__free(&dictionary->tables[table]);
	buf__clear(&dictionary->locations);
	buf__clear(entry);
	for (int table = DICTIONARY_MAPPING; table < DICTIONARY_END; table++)
		if (table != DICTIONARY_LINK)
			put(dictionary, table, "", 0);
	/* With ids of their full length, for readers that expect these. */
	put_bytes(dictionary, entry, LINK_TRACE, none, 16);
	put_bytes(dictionary, entry, LINK_SPAN, none, 8);
	put_entry(dictionary, DICTIONARY_LINK);
}

uint32_t dictionary__string(struct dictionary *dictionary, const char *text)
{
	return put(dictionary, DICTIONARY_STRING, text, strlen(text));
}

int dictionary__value(struct buf *out, uint32_t field, struct buf *scratch, const char *text, uint64_t number)
{
	int err;

	buf__clear(scratch);
	err = text ? protobuf__bytes(scratch, VALUE_TEXT, text, strlen(text))
		   : protobuf__varint(scratch, VALUE_NUMBER << 3 | PROTOBUF_VARINT) ?: protobuf__varint(scratch, number);
	return err ?: protobuf__bytes(out, field, scratch->data, scratch->len);
}

uint32_t dictionary__attribute(struct dictionary *dictionary, const char *key, const char *text, uint64_t number)
{
	struct buf *entry = &dictionary->entry;
	uint32_t string = dictionary__string(dictionary, key);

	buf__clear(entry);
	put_number(dictionary, entry, ATTRIBUTE_KEY, string);
	dictionary->err = dictionary->err ?: dictionary__value(entry, ATTRIBUTE_VALUE, &dictionary->part, text, number);
	return put_entry(dictionary, DICTIONARY_ATTRIBUTE);
}

/* Semantic conventions' profile.frame.type. Notes, such as "(GC)" and waits, have none. */
static const char *type_of(const struct model_frame *frame)
{
	static const char *const types[] = {
		[FUNCTION_PYTHON] = "cpython", [FUNCTION_NATIVE] = "native", [FUNCTION_KERNEL] = "kernel",
		[FUNCTION_JIT] = "native", [FUNCTION_CALL] = "native", [FUNCTION_INTERPRETER] = "native",
	};

	return frame->kind < sizeof(types) / sizeof(*types) ? types[frame->kind] : NULL;
}

static uint32_t put_function(struct dictionary *dictionary, const struct model_frame *frame)
{
	struct buf *entry = &dictionary->entry;
	uint32_t name = dictionary__string(dictionary, frame->name), file = dictionary__string(dictionary, frame->source);

	buf__clear(entry);
	put_number(dictionary, entry, FUNCTION_NAME, name);
	put_number(dictionary, entry, FUNCTION_SYSTEM_NAME, name);
	put_number(dictionary, entry, FUNCTION_FILE, file);
	put_number(dictionary, entry, FUNCTION_LINE, frame->first_line);
	return put_entry(dictionary, DICTIONARY_FUNCTION);
}

/* A list of one attribute; 0: none. */
static void put_attribute(struct dictionary *dictionary, uint32_t field, uint32_t attribute)
{
	buf__clear(&dictionary->part);
	if (!attribute)
		return;
	dictionary->err = dictionary->err ?: protobuf__varint(&dictionary->part, attribute);
	put_bytes(dictionary, &dictionary->entry, field, dictionary->part.data, dictionary->part.len);
}

static uint32_t put_mapping(struct dictionary *dictionary, const char *module, const char *build_id)
{
	uint32_t file = dictionary__string(dictionary, module);
	uint32_t id = *build_id ? dictionary__attribute(dictionary, "process.executable.build_id.gnu", build_id, 0) : 0;

	buf__clear(&dictionary->entry);
	put_number(dictionary, &dictionary->entry, MAPPING_FILE, file);
	put_attribute(dictionary, MAPPING_ATTRIBUTES, id);
	return put_entry(dictionary, DICTIONARY_MAPPING);
}

/* A recording has no addresses: a location is a line of a function. */
static uint32_t put_location(struct dictionary *dictionary, const struct model *model, const struct model_frame *frame)
{
	struct buf *entry = &dictionary->entry, *part = &dictionary->part;
	const char *type = type_of(frame);
	uint32_t function = put_function(dictionary, frame);
	uint32_t mapping = *frame->module ? put_mapping(dictionary, frame->module, model__build_id(model, frame->module)) : 0;
	uint32_t attribute = type ? dictionary__attribute(dictionary, "profile.frame.type", type, 0) : 0;

	buf__clear(entry);
	buf__clear(part);
	put_number(dictionary, part, LINE_FUNCTION, function);
	put_number(dictionary, part, LINE_LINE, frame->line);
	put_number(dictionary, part, LINE_COLUMN, frame->column);
	put_number(dictionary, entry, LOCATION_MAPPING, mapping);
	put_bytes(dictionary, entry, LOCATION_LINE, part->data, part->len);
	put_attribute(dictionary, LOCATION_ATTRIBUTES, attribute);
	return put_entry(dictionary, DICTIONARY_LOCATION);
}

static uint32_t location_of(struct dictionary *dictionary, const struct model *model, uint32_t id)
{
	uint32_t *known = buf__at(&dictionary->locations, sizeof(*known), id);
	struct model_frame frame;

	dictionary->err = dictionary->err ?: known ? 0 : -ENOMEM;
	if (dictionary->err || *known)
		return dictionary->err ? 0 : *known;
	frame = model__frame(model, id);
	*known = put_location(dictionary, model, &frame);
	return *known;
}

uint32_t dictionary__stack(struct dictionary *dictionary, const struct model *model, uint32_t stack)
{
	struct buf *path = &dictionary->path, *part = &dictionary->part, *entry = &dictionary->entry;

	dictionary->err = dictionary->err ?: model__path(model, stack, path) ?: limits__walk(LENGTH(*path, uint32_t));
	if (dictionary->err)
		return 0;
	/* First all locations, as these use the scratch, too. */
	for (uint32_t i = 0; i < LENGTH(*path, uint32_t); i++)
		ITEM(*path, uint32_t, i) = location_of(dictionary, model, ITEM(*path, uint32_t, i));
	buf__clear(part);
	buf__clear(entry);
	for (uint32_t i = 0; i < LENGTH(*path, uint32_t); i++)
		dictionary->err = dictionary->err ?: protobuf__varint(part, ITEM(*path, uint32_t, i));
	put_bytes(dictionary, entry, STACK_LOCATIONS, part->data, part->len);
	return put_entry(dictionary, DICTIONARY_STACK);
}

void dictionary__encode(struct dictionary *dictionary, struct buf *out)
{
	for (uint32_t table = DICTIONARY_MAPPING; table < DICTIONARY_END; table++)
		for (uint32_t i = 0; i < dictionary->tables[table].n && !dictionary->err; i++) {
			size_t len;
			const void *entry = intern__key(&dictionary->tables[table], i, &len);

			put_bytes(dictionary, out, table, entry, len);
		}
}

void dictionary__free(struct dictionary *dictionary)
{
	for (int table = 0; table < DICTIONARY_END; table++)
		intern__free(&dictionary->tables[table]);
	buf__free(&dictionary->locations);
	buf__free(&dictionary->entry);
	buf__free(&dictionary->part);
	buf__free(&dictionary->path);
}

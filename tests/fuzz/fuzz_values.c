/* SPDX-License-Identifier: MIT */
/* The bytes are a target's memory, from BASE on, again and again: whatever is read, it ends. The first two choose the
 * version and the object. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cprofd/pywalk.h"
#include "cprofd/py/object.h"
#include "cprofd/py/path.h"
#include "python/values.h"
#include "target/py_tables.h"

#define BASE 0x10000ull

struct memory {
	struct host_reader reader;
	const uint8_t *data;
	size_t size;
};

static int read_memory(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	const struct memory *memory = (const struct memory *)self;

	address -= BASE;
	if (address >= memory->size || size > memory->size - address)
		return -EFAULT;
	memcpy(dst, memory->data + address, size);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct source sources[] = {
		{.kind = SOURCE_VALUE, .n = 2, .steps = {{STEP_NAME, "f"}, {STEP_NAME, "__qualname__"}}},
		{.kind = SOURCE_VALUE, .n = 3, .steps = {{STEP_NAME, "a"}, {STEP_ITEMS, NULL}, {STEP_NAME, "name"}}},
		{.kind = SOURCE_VALUE, .n = 4, .steps = {{STEP_NAME, "a"}, {STEP_ITEMS, NULL}, {STEP_ITEMS, NULL}, {STEP_ITEMS, NULL}}},
		{.kind = SOURCE_VALUE, .n = 3, .steps = {{STEP_NAME, "p"}, {STEP_NAME, "__class__"}, {STEP_NAME, "__name__"}}},
		{.kind = SOURCE_VALUE, .n = 2, .steps = {{STEP_NAME, "f"}, {STEP_NAME, "__code__"}}},
		{.kind = SOURCE_VALUE, .n = 3, .steps = {{STEP_NAME, "k"}, {STEP_NAME, "f"}, {STEP_NAME, "name"}}},
	};
	static const struct source itself = {.kind = SOURCE_VALUE, .n = 1};
	struct memory memory = {.reader = {read_memory}, .data = data + 2, .size = size - 2};
	static struct part_object object;
	struct image image = {};
	struct py_layout layout;
	static struct class_memo classes;
	struct buf text = {}, again = {};
	struct py_path path;
	uint64_t found;
	uint32_t line;
	size_t i;
	int err, round, copied;

	if (size < 2)
		return 0;
	py_table__layout(&py_tables[data[0] % py_tables_n], &layout);
	layout.version = py_tables[data[0] % py_tables_n].first >> 8;
	image.layout = layout;
	host_reader_current = &memory.reader;
	copied = py_object(&image, BASE + data[1] * 8u, &object);
	if (copied < 0 || (size_t)copied > sizeof(object) || copied % 8 ||
	    (copied && (object.begin > object.end || object.end > (uint32_t)copied - OBJECT_FIXED || object.part.size != (uint32_t)copied)))
		abort();
	for (i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		struct values values = {.memory = &memory.reader, .layout = &layout};

		err = values__text(&values, BASE + data[1] * 8u, &sources[i], &text);
		/* Each item is one text more than the bound. */
		if (values.reads > VALUES_READS + 64 * VALUES_ITEMS_MAX || text.len > 4u * VALUES_TEXT_MAX * VALUES_ITEMS_MAX)
			abort();
		/* Nothing changed: what is remembered of classes gives the same. */
		memset(&classes, 0, sizeof(classes));
		values.classes = &classes;
		for (round = 0; round < 2 && !err; round++) {
			values.reads = 0;
			buf__clear(&again);
			if (values__text(&values, BASE + data[1] * 8u, &sources[i], &again) || again.len != text.len ||
				     (text.len && memcmp(again.data, text.data, text.len)))
				abort();
		}
		buf__clear(&text);
		buf__clear(&again);
		/* The tick's way leads to the object that was read. */
		values.reads = 0;
		err = values__text_and_path(&values, BASE + data[1] * 8u, &sources[i], &text, &path);
		found = !err && path.n ? py_path_run(&path, BASE + data[1] * 8u) : 0;
		values.reads = 0;
		if (found && (values__text(&values, found, &itself, &again) || again.len != text.len ||
			      (text.len && memcmp(again.data, text.data, text.len))))
			abort();
		buf__clear(&text);
		values.reads = 0;
		values__defined(&values, BASE + data[1] * 8u, &sources[i], &text, &line);
		buf__clear(&text);
	}
	buf__free(&text);
	buf__free(&again);
	return 0;
}

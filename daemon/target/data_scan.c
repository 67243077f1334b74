/* SPDX-License-Identifier: MIT */
/* Searches the data of a module for _PyRuntime and for type objects (data_scan.h). What is looked for:
 *
 *    "xdebugpy" 0x030d02f0 ...            _Py_DebugOffsets, at the beginning of _PyRuntime (3.13 and later)
 *    refcount, T, ..., -> "type" ...      an object at T whose type is itself: PyType_Type
 *    refcount, T, ..., -> "code" ...      then an object whose type is T: PyCode_Type
 *
 * Data that looks like this by chance, or on purpose, is possible. The layout that follows from it is checked
 * (py_layout.c), and a wrong type address only means that no code object is recognised. */
#include "target/version.h"

#include <string.h>

#define NAMES_MAX 16384u /* bound of names that are read; CPython has some 300 static types */

static uint64_t word(const struct data_area *area, size_t at)
{
	uint64_t value;

	memcpy(&value, area->bytes + at, sizeof(value));
	return value;
}

/* Without a version behind it, the cookie is some string constant. */
uint64_t data_scan__runtime(const struct data_area *area)
{
	uint64_t version;

	for (size_t at = 0; at + 24 <= area->len; at += 8) {
		if (memcmp(area->bytes + at, "xdebugpy", 8))
			continue;
		version = word(area, at + 8);
		if (version >> 24 == 3 && (version >> 16 & 0xff) >= 13)
			return area->address + at;
	}
	return 0;
}

/* Reads the name through the reader: it lies in read-only data, outside of the area. */
static int is_named(struct host_reader *reader, uint64_t address, const char *name)
{
	char text[32];
	size_t len = strlen(name) + 1;

	return len <= sizeof(text) && !reader->read(reader, text, len, address) &&
	       !memcmp(text, name, len);
}

/* The first object of type `type` with this name. */
static uint64_t named_of_type(const struct data_area *area, struct host_reader *reader,
			      uint64_t type, uint32_t type_offset, uint32_t name_offset,
			      const char *name)
{
	unsigned names = 0;

	for (size_t at = 0; at + name_offset + 8 <= area->len && names < NAMES_MAX; at += 8) {
		if (word(area, at + type_offset) != type)
			continue;
		names++;
		if (is_named(reader, word(area, at + name_offset), name))
			return area->address + at;
	}
	return 0;
}

uint64_t data_scan__type(const struct data_area *area, struct host_reader *reader,
			 uint32_t type_offset, uint32_t name_offset, const char *name)
{
	/* The offsets come from a layout that the target may have chosen. */
	if (type_offset >= 64 || name_offset >= 128 || type_offset % 8 || name_offset % 8 ||
	    name_offset <= type_offset)
		return 0;
	for (size_t at = 0; at + name_offset + 8 <= area->len; at += 8) {
		if (word(area, at + type_offset) != area->address + at)
			continue;
		if (is_named(reader, word(area, at + name_offset), "type"))
			return named_of_type(area, reader, area->address + at, type_offset, name_offset,
					     name);
	}
	return 0;
}

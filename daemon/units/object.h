/* SPDX-License-Identifier: MIT */
/* Objects of CPython: one file reads them, the other their attributes. Inside daemon/units/ only. Errors as values.h;
 * -EBADMSG: these bytes are no such object. */
#ifndef CPROFD_UNITS_OBJECT_H
#define CPROFD_UNITS_OBJECT_H

#include "units/values.h"

/* tp_flags (Include/object.h) */
#define TYPE_INLINE_VALUES (1u << 2)  /* 3.13+ */
#define TYPE_MANAGED_DICT (1u << 4)   /* 3.11+ */
#define TYPE_HEAP (1u << 9)
#define TYPE_LONG (1u << 24)
#define TYPE_LIST (1u << 25)
#define TYPE_TUPLE (1u << 26)
#define TYPE_TEXT (1u << 28)
#define TYPE_DICT (1u << 29)
#define TYPE_TYPE (1u << 31)

struct object_type {
	uint64_t address, flags, dict, mro, cached_keys, basic_size;
	uint32_t version;     /* tp_version_tag; 0: it has none that is valid */
	int64_t dict_offset;
	char name[128];       /* tp_name: cut; of a class that Python made it is not read: */
	uint64_t name_at;
};

int object__read(struct values *values, void *ret, size_t size, uint64_t address);
int object__word(struct values *values, uint64_t address, uint64_t *ret);
int object__type(struct values *values, uint64_t object, struct object_type *ret);
/* Is it a str that says this (ASCII)? */
bool object__is_text(struct values *values, uint64_t object, const char *text);

int dict__find(struct values *values, uint64_t dict, const char *name, uint64_t *ret);
/* Its values in the order in which they were put there, from *at on, which is 0 at first; -ENODATA: that was the last. */
int dict__next(struct values *values, uint64_t dict, uint32_t *at, uint64_t *ret);
int instance__find(struct values *values, uint64_t object, const struct object_type *type, const char *name,
		   uint64_t *ret);

#endif

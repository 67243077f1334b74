/* SPDX-License-Identifier: MIT */
/* Objects of CPython: types, str, tuple (object.c), dict and attributes (dict.c). Private to daemon/python/. Errors
 * as in values.h; -EBADMSG: the bytes are not such an object. */
#pragma once

#include "python/values.h"

/* tp_flags (Include/object.h), beside those of cprofd/pylayout.h */
#define TYPE_INLINE_VALUES (1u << 2)  /* 3.13+ */
#define TYPE_MANAGED_DICT (1u << 4)   /* 3.11+ */
#define TYPE_HEAP (1u << 9)
#define TYPE_LIST (1u << 25)
#define TYPE_TUPLE (1u << 26)
#define TYPE_DICT (1u << 29)
#define TYPE_TYPE (1u << 31)

/* What is needed of a PyTypeObject: addresses and numbers, in the target's terms. */
struct object_type {
	uint64_t address, flags, dict, mro, cached_keys, basic_size;
	uint32_t version;     /* tp_version_tag; 0: not valid */
	int64_t dict_offset;
	uint64_t name_at;     /* tp_name */
	char name[128];       /* truncated; not read for heap types */
};

/* A step of values->path: the word at `offset` from a register is loaded, or must be `value` but for `shift` bits. */
void path__load(struct values *values, uint32_t flags, int64_t offset, uint64_t word);
void path__check(struct values *values, uint32_t flags, int64_t offset, uint64_t value, uint32_t shift);
int object__read(struct values *values, void *ret, size_t size, uint64_t address);
int object__word(struct values *values, uint64_t address, uint64_t *ret);
int object__type(struct values *values, uint64_t object, struct object_type *ret);

/* A str. */
struct object_text {
	uint64_t length, data;   /* length in characters; address of the first */
	uint8_t kind;            /* bytes of a character: 1, 2, 4 */
	bool ascii;
};
int object__text(struct values *values, uint64_t object, struct object_text *ret);
/* Appends a str as UTF-8, at most VALUES_TEXT_MAX bytes of it. */
int object__put_text(struct values *values, uint64_t object, struct buf *ret);
/* Copies a str that is ASCII, shorter than `size`, and without NUL; -ENODATA: it is not. */
int object__ascii(struct values *values, uint64_t object, char *ret, size_t size);
/* Is it a str equal to this ASCII text of less than 256 bytes? False as well if it cannot be read. */
bool object__is_text(struct values *values, uint64_t object, const char *text);
/* The number of items of a tuple; one item. */
int object__items(struct values *values, uint64_t tuple, uint64_t *ret_n);
int object__item(struct values *values, uint64_t tuple, uint64_t i, uint64_t *ret);

/* The value of a key that is a str; -ENODATA: there is none. Compares strings one by one, at most 4,096 entries. */
int dict__find(struct values *values, uint64_t dict, const char *name, uint64_t *ret);
/* Iterates over a dict's values in insertion order; *at is 0 at first. -ENODATA: there are no more. */
int dict__next(struct values *values, uint64_t dict, uint32_t *at, uint64_t *ret);
/* An attribute in the instance's own dict or values, not in its class. -ENODATA: it has none. */
int instance__find(struct values *values, uint64_t object, const struct object_type *type, const char *name,
		   uint64_t *ret);

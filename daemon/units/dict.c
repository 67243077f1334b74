/* SPDX-License-Identifier: MIT */
/* Dictionaries and attributes, as CPython lays them out. Offsets are of Include/internal/pycore_dict.h and
 * Include/cpython/object.h, equal in 3.8 to 3.15 unless said; free-threaded builds differ and are refused. */
#include <errno.h>
#include <string.h>

#include "units/object.h"

#define ENTRIES_MAX 4096u

struct keys {
	uint64_t entries;   /* address of the first */
	uint32_t n, size;   /* bytes of an entry */
	bool hashed;        /* the key is the second word */
};

static int read_keys_old(struct values *values, uint64_t address, struct keys *ret)
{
	uint64_t head[5], width; /* dk_refcnt, dk_size, dk_lookup, dk_usable, dk_nentries */
	int err = object__read(values, head, sizeof(head), address);

	if (err)
		return err;
	width = head[1] <= 0xff ? 1 : head[1] <= 0xffff ? 2 : head[1] <= 0xffffffff ? 4 : 8;
	if (head[1] > 1u << 26 || head[4] > head[1])
		return -EBADMSG;
	*ret = (struct keys){address + 40 + head[1] * width, (uint32_t)head[4], 24, true};
	return 0;
}

/* 3.11+: dk_refcnt, then four bytes: log2 of size, log2 of the index's bytes, kind; dk_version; dk_usable; dk_nentries */
static int read_keys(struct values *values, uint64_t address, struct keys *ret)
{
	struct {
		uint64_t refcnt;
		uint8_t log2_size, log2_index, kind, pad;
		uint32_t version;
		uint64_t usable, n;
	} head;
	int err;

	if (values->layout->version < 0x030b00)
		return read_keys_old(values, address, ret);
	err = object__read(values, &head, sizeof(head), address);
	if (err)
		return err;
	if (head.log2_index > 30 || head.kind > 2 || head.n > 1u << 26)
		return -EBADMSG;
	*ret = (struct keys){address + 32 + (1ull << head.log2_index), (uint32_t)head.n, head.kind ? 16 : 24, !head.kind};
	return 0;
}

/* The number of the entry whose key is `name`, and its value's word. */
static int find_key(struct values *values, const struct keys *keys, const char *name, uint32_t *ret_number, uint64_t *ret_value)
{
	uint32_t i, n = keys->n < ENTRIES_MAX ? keys->n : ENTRIES_MAX;
	uint64_t entry[3];
	int err;

	for (i = 0; i < n; i++) {
		err = object__read(values, entry, keys->size, keys->entries + (uint64_t)i * keys->size);
		if (err)
			return err;
		if (!entry[keys->hashed] || !object__is_text(values, entry[keys->hashed], name))
			continue;
		*ret_number = i;
		*ret_value = entry[keys->hashed + 1];
		return 0;
	}
	return -ENODATA;
}

static int find_split(struct values *values, uint64_t keys_address, uint64_t first_value, const char *name, uint64_t *ret)
{
	struct keys keys;
	uint32_t number;
	uint64_t ignored;
	int err = read_keys(values, keys_address, &keys);

	if (!err)
		err = find_key(values, &keys, name, &number, &ignored);
	if (!err)
		err = object__word(values, first_value + (uint64_t)number * 8, ret);
	return err ? err : *ret ? 0 : -ENODATA;
}

int dict__find(struct values *values, uint64_t dict, const char *name, uint64_t *ret)
{
	uint64_t words[2]; /* ma_keys, ma_values */
	struct keys keys;
	uint32_t number;
	int err = object__read(values, words, sizeof(words), dict + 32);

	if (err)
		return err;
	if (words[1]) /* 3.13 has four bytes in front of the values, padded */
		return find_split(values, words[0], words[1] + (values->layout->version >= 0x030d00 ? 8 : 0), name, ret);
	err = read_keys(values, words[0], &keys);
	if (!err)
		err = find_key(values, &keys, name, &number, ret);
	return err ? err : *ret ? 0 : -ENODATA;
}

int dict__next(struct values *values, uint64_t dict, uint32_t *at, uint64_t *ret)
{
	uint64_t words[2], entry[3] = {}; /* ma_keys, ma_values */
	struct keys keys;
	int err = object__read(values, words, sizeof(words), dict + 32);

	if (!err)
		err = read_keys(values, words[0], &keys);
	if (!err && words[1]) /* an instance's: what it holds is beside the keys */
		return -ENOTSUP;
	for (; !err && *at < keys.n && *at < ENTRIES_MAX; ++*at) {
		err = object__read(values, entry, keys.size, keys.entries + (uint64_t)*at * keys.size);
		if (err || !entry[keys.hashed + 1])
			continue; /* nothing, or deleted */
		*ret = entry[keys.hashed + 1];
		++*at;
		return 0;
	}
	return err ? err : -ENODATA;
}

/* A dictionary or values that the class manages: words in front of the object (its collector's head is between). */
static int find_managed(struct values *values, uint64_t object, const struct object_type *type, const char *name,
			uint64_t *ret)
{
	uint32_t version = values->layout->version;
	uint64_t before[2]; /* 3.11: values, dictionary; later only the second */
	int err = object__read(values, before, sizeof(before), object - 32);

	if (err)
		return err;
	if (version < 0x030c00) {
		if (before[0])
			return find_split(values, type->cached_keys, before[0], name, ret);
	} else if (version < 0x030d00) {
		if (before[1] & 1) /* _PyDictOrValues_GetValues */
			return find_split(values, type->cached_keys, before[1] + 1, name, ret);
	} else if (!before[1] && type->flags & TYPE_INLINE_VALUES) {
		return find_split(values, type->cached_keys, object + type->basic_size + 8, name, ret);
	}
	return before[1] ? dict__find(values, before[1], name, ret) : -ENODATA;
}

int instance__find(struct values *values, uint64_t object, const struct object_type *type, const char *name, uint64_t *ret)
{
	uint64_t dict = 0;
	int err;

	if (values->layout->version >= 0x030b00 && type->flags & TYPE_MANAGED_DICT)
		return find_managed(values, object, type, name, ret);
	if (type->dict_offset <= 0 || type->dict_offset > 1 << 20)
		return -ENODATA;
	err = object__word(values, object + (uint64_t)type->dict_offset, &dict);
	return err ? err : dict ? dict__find(values, dict, name, ret) : -ENODATA;
}

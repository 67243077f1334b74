/* SPDX-License-Identifier: MIT */
/* Looks up keys in dicts and attributes in instances, in all layouts that CPython 3.8 to 3.15 have:
 *   combined dict  keys object with entries (hash, key, value)
 *   split dict     keys shared by a class's instances; values in an array of their own
 *   managed dict   3.11+: values or a dict in words in front of the object; 3.13+: values inside the object
 * Free-threaded builds differ and are refused. The search is linear over the entries: the hash of a str is randomised
 * by the target, and dicts of attributes are small.
 *
 * Sources: Objects/dictobject.c, Include/internal/pycore_dict.h of each version. Offsets come from the layout
 * (cprofd/pylayout.h).
 *
 * A dict may be resized while it is read. Then an entry is stale or torn: its key must still be
 * a str with the name that is searched for, and its value is checked as an object when it is used. */
#include <errno.h>
#include <string.h>

#include "python/object.h"

#define ENTRIES_MAX 4096u

/* What is needed of a PyDictKeysObject. */
struct keys {
	uint64_t entries;   /* address of the first entry */
	uint32_t n, size;   /* number of entries; bytes of one */
	bool hashed;        /* entries begin with a hash; the key is the second word */
};

#define KEYS_HEAD_MAX 64u

/* Up to 3.10: the head has the number of index slots, whose width (1, 2, 4, 8 bytes) follows from it; entries have
 * hashes. */
static int keys_old(const struct py_layout *l, const uint8_t *head, uint64_t n, struct keys *ret)
{
	uint64_t size, width;

	memcpy(&size, head + l->keys_size, sizeof(size));
	width = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8;
	if (size > 1u << 26 || n > size)
		return -EBADMSG;
	*ret = (struct keys){size * width, (uint32_t)n, 24, true};
	return 0;
}

/* Since 3.11 the head has log2 of the index's bytes. Kind 0: entries have hashes; else keys are all str, without
 * hashes. */
static int keys_new(const struct py_layout *l, const uint8_t *head, uint64_t n, struct keys *ret)
{
	uint8_t log2_index = head[l->keys_log2_index], kind = head[l->keys_kind];

	if (log2_index > 30 || kind > 2 || n > 1u << 26)
		return -EBADMSG;
	*ret = (struct keys){1ull << log2_index, (uint32_t)n, kind ? 16 : 24, !kind};
	return 0;
}

/* keys_size exists up to 3.10 only (dk_size); that decides between the two forms. */
static int read_keys(struct values *values, uint64_t address, struct keys *ret)
{
	const struct py_layout *l = values->layout;
	uint8_t head[KEYS_HEAD_MAX] = {};
	uint64_t n;
	int err;

	if (l->keys_index > sizeof(head) || l->keys_n + 8u > l->keys_index)
		return -ENOTSUP;
	err = object__read(values, head, l->keys_index, address);
	if (err)
		return err;
	memcpy(&n, head + l->keys_n, sizeof(n));
	err = l->keys_size != PY_ABSENT ? keys_old(l, head, n, ret) : keys_new(l, head, n, ret);
	ret->entries += address + l->keys_index;
	return err;
}

/* The entry with key `name`: its number, its key, and its value (which split dicts do not use). */
static int find_key(struct values *values, const struct keys *keys, const char *name, uint32_t *ret_number, uint64_t *ret_key, uint64_t *ret_value)
{
	uint32_t i, n = keys->n < ENTRIES_MAX ? keys->n : ENTRIES_MAX;
	uint64_t entry[3];

	for (i = 0; i < n; i++) {
		int err = object__read(values, entry, keys->size, keys->entries + (uint64_t)i * keys->size);

		if (err)
			return err;
		if (!entry[keys->hashed] || !object__is_text(values, entry[keys->hashed], name))
			continue;
		*ret_number = i;
		*ret_key = entry[keys->hashed];
		*ret_value = entry[keys->hashed + 1];
		return 0;
	}
	return -ENODATA;
}

/* Where the key of an entry is, from the keys on. */
static int64_t key_offset(const struct keys *keys, uint64_t keys_address, uint32_t number)
{
	return (int64_t)(keys->entries - keys_address + (uint64_t)number * keys->size + (keys->hashed ? 8 : 0));
}

/* A split dict: the key's number in the shared keys is the value's index in the array at `first_value`. Of the path's registers a is
 * at `first_value` - `from`, b at the keys. */
static int find_split(struct values *values, uint64_t keys_address, uint64_t first_value, uint64_t from, const char *name, uint64_t *ret)
{
	struct keys keys;
	uint32_t number;
	uint64_t key, ignored;
	int err = read_keys(values, keys_address, &keys);

	err = err ?: find_key(values, &keys, name, &number, &key, &ignored);
	err = err ?: object__word(values, first_value + (uint64_t)number * 8, ret);
	if (err)
		return err;
	path__check(values, PY_PATH_FROM_B, key_offset(&keys, keys_address, number), key, 0);
	path__load(values, 0, (int64_t)(from + (uint64_t)number * 8), 0);
	return *ret ? 0 : -ENODATA;
}

static int read_dict(struct values *values, uint64_t dict, uint64_t *ret_keys, uint64_t *ret_values)
{
	int err = object__word(values, dict + values->layout->dict_keys, ret_keys);

	return err ? err : object__word(values, dict + values->layout->dict_values, ret_values);
}

int dict__find(struct values *values, uint64_t dict, const char *name, uint64_t *ret)
{
	const struct py_layout *l = values->layout;
	uint64_t keys_at, values_at, key;
	struct keys keys;
	uint32_t number;
	int64_t offset;
	int err = read_dict(values, dict, &keys_at, &values_at);

	if (err)
		return err;
	if (values_at) {
		path__load(values, PY_PATH_TO_B, l->dict_keys, 0);
		path__load(values, 0, l->dict_values, 0);
		return find_split(values, keys_at, values_at + l->values_items, l->values_items, name, ret);
	}
	err = read_keys(values, keys_at, &keys);
	err = err ?: find_key(values, &keys, name, &number, &key, ret);
	if (err)
		return err;
	offset = key_offset(&keys, keys_at, number);
	path__check(values, 0, l->dict_values, 0, 0);
	path__load(values, 0, l->dict_keys, 0);
	path__check(values, 0, offset, key, 0);
	path__load(values, 0, offset + 8, 0);
	return *ret ? 0 : -ENODATA;
}

int dict__next(struct values *values, uint64_t dict, uint32_t *at, uint64_t *ret)
{
	uint64_t keys_at, values_at, entry[3] = {};
	struct keys keys;
	int err = read_dict(values, dict, &keys_at, &values_at);

	err = err ?: read_keys(values, keys_at, &keys);
	if (!err && values_at) /* a split dict, of an instance: order and values differ; not needed */
		return -ENOTSUP;
	for (; !err && *at < keys.n && *at < ENTRIES_MAX; ++*at) {
		err = object__read(values, entry, keys.size, keys.entries + (uint64_t)*at * keys.size);
		if (err || !entry[keys.hashed + 1])
			continue; /* an empty or deleted entry */
		*ret = entry[keys.hashed + 1];
		++*at;
		return 0;
	}
	return err ? err : -ENODATA;
}

/* A managed dict: words 3 and 4 in front of the object; the GC head (2 words) lies between. */
static int find_managed(struct values *values, uint64_t object, const struct object_type *type, const char *name,
			uint64_t *ret)
{
	uint32_t version = values->layout->version;
	uint64_t before[2]; /* 3.11: values, dictionary; later only the second */
	int err = object__read(values, before, sizeof(before), object - 32);

	if (err)
		return err;
	if (version < 0x030c00 && before[0]) {
		path__load(values, PY_PATH_FROM_B | PY_PATH_TO_B, values->layout->type_cached_keys, 0);
		path__load(values, 0, -32, 0);
		return find_split(values, type->cached_keys, before[0], 0, name, ret);
	}
	if (version >= 0x030c00 && version < 0x030d00 && before[1] & 1) { /* _PyDictOrValues_GetValues */
		path__load(values, PY_PATH_FROM_B | PY_PATH_TO_B, values->layout->type_cached_keys, 0);
		path__load(values, 0, -24, before[1]);
		return find_split(values, type->cached_keys, before[1] + 1, 1, name, ret);
	}
	if (version >= 0x030d00 && !before[1] && type->flags & TYPE_INLINE_VALUES) {
		const uint64_t inlined = type->basic_size + values->layout->values_items;

		path__check(values, 0, -24, 0, 0);
		path__load(values, PY_PATH_FROM_B | PY_PATH_TO_B, values->layout->type_cached_keys, 0);
		return find_split(values, type->cached_keys, object + inlined, inlined, name, ret);
	}
	path__load(values, 0, -24, 0);
	return before[1] ? dict__find(values, before[1], name, ret) : -ENODATA;
}

/* By tp_flags and tp_dictoffset: an instance has a managed dict, or a dict at an offset, or none (slots are class
 * attributes, object.c). Negative offsets, of variable-sized types, are not followed. */
int instance__find(struct values *values, uint64_t object, const struct object_type *type, const char *name, uint64_t *ret)
{
	uint64_t dict = 0;
	int err;

	if (values->layout->version >= 0x030b00 && type->flags & TYPE_MANAGED_DICT)
		return find_managed(values, object, type, name, ret);
	if (type->dict_offset <= 0 || type->dict_offset > 1 << 20)
		return -ENODATA;
	err = object__word(values, object + (uint64_t)type->dict_offset, &dict);
	path__load(values, 0, type->dict_offset, 0);
	return err ? err : dict ? dict__find(values, dict, name, ret) : -ENODATA;
}

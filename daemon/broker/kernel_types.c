/* SPDX-License-Identifier: MIT */
/* vmlinux's BTF is read once, as bytes, without libbpf's index of all types: names that the sampler's own BTF has are
 * hashed, and each type of the kernel is looked up among these. What is found is written as a small BTF that has only
 * these structures and members.
 *
 *    bytes of vmlinux --index_types()--> offset of each type --make_all()--> small BTF --write_file()--> memfd
 *
 * For example, of the sampler's `struct task_struct { int tgid; }` and the kernel's task_struct of 9,000 bytes and 250
 * members, this makes a task_struct of 9,000 bytes with `tgid` at the kernel's offset. CO-RE needs no more.
 *
 * The bytes are the kernel's own and are trusted as far as sizes; anything that is not known makes the whole thing
 * fail, and libbpf takes its usual way. */
#include "broker/kernel_types.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bpf/btf.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "broker/attach_points.h"

#define WANTED 512u /* slots of a hash table: a power of two, at least twice the number of structures in an object */
#define MEMBERS 64u /* copied per structure; libbpf fails on further ones, and the caller uses vmlinux's BTF */
#define DEPTH 8     /* nested structures that are followed */

/* vmlinux's BTF (Documentation/bpf/btf.rst). */
struct types {
	const struct btf_header *header;
	/* The section of strings; each name is an offset in it. */
	const char *strings;
	const uint8_t *first;  /* the section of types */
	uint32_t *at;          /* offset of each type from `first`, by id */
	uint32_t n;
	void *bytes;
	size_t size;
	bool mapped;
};

struct builder {
	struct types kernel;
	const struct btf *local;
	struct btf *made;
	struct {
		const char *name;      /* of a local structure; `length` excludes a suffix ___ */
		uint32_t length;
		bool done;
	} wanted[WANTED];
	int pointer;           /* id of `void *` in `made`; 0: not added yet */
};

/* CO-RE's convention: task_struct___old is another form of task_struct (libbpf: bpf_core_essential_name_len()). */
static uint32_t essential_length(const char *name)
{
	const char *end = strstr(name, "___");

	return (uint32_t)(end && end != name ? (size_t)(end - name) : strlen(name));
}

/* FNV-1a. Names of structures are no attacker's. */
static uint32_t hash_of(const char *name, uint32_t length)
{
	uint32_t h = 2166136261u, i;

	for (i = 0; i < length; i++)
		h = (h ^ (uint8_t)name[i]) * 16777619u;
	return h;
}

/* The slot of a name, or the free slot where it belongs (open addressing). */
static uint32_t slot_of(const struct builder *m, const char *name, uint32_t length)
{
	uint32_t i = hash_of(name, length) & (WANTED - 1);

	while (m->wanted[i].name && (m->wanted[i].length != length || memcmp(m->wanted[i].name, name, length)))
		i = (i + 1) & (WANTED - 1);
	return i;
}

/* --- the kernel's --- */

/* Since 6.16 the file can be mapped; on older kernels it is read. */
static int read_all(struct types *t)
{
	_cleanup_close_ int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
	struct stat stat;
	ssize_t n;

	if (fd < 0 || fstat(fd, &stat))
		return -errno;
	t->size = (size_t)stat.st_size;
	t->bytes = mmap(NULL, t->size, PROT_READ, MAP_PRIVATE, fd, 0);
	t->mapped = t->bytes != MAP_FAILED;
	if (t->mapped)
		return 0;
	t->bytes = malloc(t->size);
	if (!t->bytes)
		return -ENOMEM;
	n = file__read(fd, t->bytes, t->size);
	return n < 0 ? (int)n : (size_t)n < t->size ? -EIO : 0;
}

/* Size of a type's record in bytes; 0: unknown kind. The record is struct btf_type, and what its kind adds
 * (Documentation/bpf/btf.rst). A new kind of a later kernel is unknown, and so is everything behind it. */
static uint32_t size_of(const struct btf_type *type)
{
	uint32_t n = btf_vlen(type), size = sizeof(*type);

	switch (btf_kind(type)) {
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		return size;
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return size + 4;
	case BTF_KIND_ARRAY:
		return size + (uint32_t)sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return size + n * (uint32_t)sizeof(struct btf_member);
	case BTF_KIND_ENUM:
	case BTF_KIND_FUNC_PROTO:
		return size + n * 8;
	case BTF_KIND_DATASEC:
	case BTF_KIND_ENUM64:
		return size + n * 12;
	default:
		return 0;
	}
}

static const struct btf_type *type_at(const struct types *t, uint32_t id)
{
	return id && id < t->n ? (const struct btf_type *)(const void *)(t->first + t->at[id]) : NULL;
}

/* The section ends with a NUL: checked in index_types(). */
static const char *string_at(const struct types *t, uint32_t at)
{
	return at < t->header->str_len ? t->strings + at : "";
}

/* Offsets of all types: records have different sizes, so the i-th is only found by going through all. Type 0 is void,
 * and is not stored. */
static int index_types(struct types *t)
{
	const struct btf_header *header = t->bytes;
	uint32_t at = 0, size, room;

	t->header = header;
	if (t->size < sizeof(*header) || header->magic != BTF_MAGIC || header->hdr_len < sizeof(*header) ||
	    (uint64_t)header->hdr_len + header->type_off + header->type_len > t->size ||
	    (uint64_t)header->hdr_len + header->str_off + header->str_len > t->size || !header->str_len ||
	    (header->hdr_len | header->type_off) & 3)
		return -EINVAL;
	t->first = (const uint8_t *)t->bytes + header->hdr_len + header->type_off;
	t->strings = (const char *)t->bytes + header->hdr_len + header->str_off;
	if (t->strings[header->str_len - 1])
		return -EINVAL;
	room = header->type_len / (uint32_t)sizeof(struct btf_type) + 2;
	t->at = malloc(room * sizeof(*t->at));
	if (!t->at)
		return -ENOMEM;
	for (t->n = 1; at + sizeof(struct btf_type) <= header->type_len; at += size) {
		size = size_of((const struct btf_type *)(const void *)(t->first + at));
		if (!size || size > header->type_len - at)
			return -EINVAL;
		t->at[t->n++] = at;
	}
	return 0;
}

static void drop(struct types *t)
{
	if (t->mapped)
		munmap(t->bytes, t->size);
	else if (t->bytes != MAP_FAILED)
		free(t->bytes);
	free(t->at);
}

/* Follows typedefs and qualifiers; 32 steps bound a cycle. */
static const struct btf_type *plain(const struct types *t, uint32_t id)
{
	const struct btf_type *type = type_at(t, id);

	for (int i = 0; type && i < 32; i++) {
		if (!btf_is_mod(type) && !btf_is_typedef(type))
			return type;
		type = type_at(t, type->type);
	}
	return NULL;
}

static bool is_structure(const struct btf_type *type)
{
	return btf_kind(type) == BTF_KIND_STRUCT || btf_kind(type) == BTF_KIND_UNION;
}

/* Finds a member by name, also inside anonymous structures: returns its type's id, or 0. Bit fields are skipped: the
 * programs read none. `depth` bounds nested anonymous structures. */
static uint32_t find_member(const struct types *t, const struct btf_type *type, const char *name, int depth, uint32_t *ret_bits)
{
	const struct btf_member *member = btf_members(type);
	uint32_t i, id, bits;
	const struct btf_type *inner;

	for (i = 0; i < btf_vlen(type); i++, member++) {
		if (btf_kflag(type) && BTF_MEMBER_BITFIELD_SIZE(member->offset))
			continue;
		bits = btf_kflag(type) ? BTF_MEMBER_BIT_OFFSET(member->offset) : member->offset;
		if (member->name_off) {
			if (strcmp(string_at(t, member->name_off), name))
				continue;
			*ret_bits = bits;
			return member->type;
		}
		inner = depth ? plain(t, member->type) : NULL;
		id = inner && is_structure(inner) ? find_member(t, inner, name, depth - 1, ret_bits) : 0;
		if (id) {
			*ret_bits += bits;
			return id;
		}
	}
	return 0;
}

/* --- the small BTF --- */

struct field {
	const char *name;
	int type;
	uint32_t bits;
};

static int make_structure(struct builder *m, const struct btf_type *type, const struct btf_type *const *locals, uint32_t n, int depth);

static int make_pointer(struct builder *m)
{
	if (!m->pointer)
		m->pointer = btf__add_ptr(m->made, 0);
	return m->pointer;
}

/* Adds a type that has the kernel's size, and of structures the members of the local type. Returns its id, or
 * -errno. */
static int make_type(struct builder *m, uint32_t id, uint32_t local_id, int depth)
{
	const struct btf_type *type = plain(&m->kernel, id), *local;
	const struct btf_array *array;
	int index, element;

	if (!type || !depth)
		return -ENOENT;
	switch (btf_kind(type)) {
	case BTF_KIND_INT:
		return btf__add_int(m->made, "int", type->size, btf_int_encoding(type));
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
		return btf__add_int(m->made, "int", type->size, 0);
	case BTF_KIND_PTR:
		return make_pointer(m);
	case BTF_KIND_ARRAY:
		array = btf_array(type);
		local = btf__type_by_id(m->local, (uint32_t)btf__resolve_type(m->local, local_id));
		if (!local || !btf_is_array(local))
			return -ENOENT;
		index = btf__add_int(m->made, "int", 4, 0);
		element = make_type(m, array->type, btf_array(local)->type, depth - 1);
		return index < 0 || element < 0 ? -ENOENT : btf__add_array(m->made, index, element, array->nelems);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		local = btf__type_by_id(m->local, (uint32_t)btf__resolve_type(m->local, local_id));
		return local && is_structure(local) ? make_structure(m, type, &local, 1, depth - 1) : -ENOENT;
	default:
		return -ENOENT;
	}
}

/* Adds a structure with the members of all `locals`. Members that the kernel lacks are left out: CO-RE decides what
 * that means. */
static int make_structure(struct builder *m, const struct btf_type *type, const struct btf_type *const *locals, uint32_t n, int depth)
{
	struct field fields[MEMBERS];
	uint32_t n_fields = 0, i, k, id, bits;
	int made, err = 0;

	for (k = 0; k < n; k++) {
		const struct btf_member *member = btf_members(locals[k]);

		for (i = 0; i < btf_vlen(locals[k]) && n_fields < MEMBERS; i++, member++) {
			struct field *field = &fields[n_fields];

			field->name = btf__name_by_offset(m->local, member->name_off);
			id = field->name && *field->name ? find_member(&m->kernel, type, field->name, DEPTH, &bits) : 0;
			field->type = id ? make_type(m, id, member->type, depth) : -ENOENT;
			field->bits = bits;
			n_fields += field->type > 0;
		}
	}
	made = btf_kind(type) == BTF_KIND_UNION ?
		       btf__add_union(m->made, string_at(&m->kernel, type->name_off), type->size) :
		       btf__add_struct(m->made, string_at(&m->kernel, type->name_off), type->size);
	for (i = 0; i < n_fields && made > 0 && !err; i++)
		err = btf__add_field(m->made, fields[i].name, fields[i].type, fields[i].bits, 0);
	return err ? err : made;
}

/* Adds the kernel's structure `type`, with the members of all local structures of this name (task_struct,
 * task_struct___old). */
static int make_wanted(struct builder *m, const struct btf_type *type, const char *name, uint32_t length)
{
	const struct btf_type *locals[4];
	uint32_t n = 0, id;
	int made;

	for (id = 1; id < btf__type_cnt(m->local) && n < 4; id++) {
		const struct btf_type *local = btf__type_by_id(m->local, id);
		const char *own = btf_is_struct(local) ? btf__name_by_offset(m->local, local->name_off) : NULL;

		if (own && essential_length(own) == length && !memcmp(own, name, length))
			locals[n++] = local;
	}
	made = make_structure(m, type, locals, n, DEPTH);
	return made < 0 ? made : 0;
}

static int make_all(struct builder *m)
{
	const struct btf_type *type;
	uint32_t id, slot, length, n = 0;
	const char *name;
	int err;

	for (id = 1; id < btf__type_cnt(m->local) && n < WANTED / 2; id++) {
		type = btf__type_by_id(m->local, id);
		name = btf_is_struct(type) ? btf__name_by_offset(m->local, type->name_off) : NULL;
		if (!name || !*name)
			continue;
		length = essential_length(name);
		slot = slot_of(m, name, length);
		n += !m->wanted[slot].name;
		m->wanted[slot].name = name;
		m->wanted[slot].length = length;
	}
	for (id = 1; id < m->kernel.n; id++) {
		type = type_at(&m->kernel, id);
		if (btf_kind(type) == BTF_KIND_FUNC || btf_kind(type) == BTF_KIND_TYPEDEF)
			attach_points__found(btf_kind(type), string_at(&m->kernel, type->name_off), id);
		if (btf_kind(type) != BTF_KIND_STRUCT || !type->name_off)
			continue;
		name = string_at(&m->kernel, type->name_off);
		length = (uint32_t)strlen(name);
		slot = slot_of(m, name, length);
		if (!m->wanted[slot].name || m->wanted[slot].done)
			continue;
		m->wanted[slot].done = true;
		err = make_wanted(m, type, name, length);
		if (err)
			return err;
	}
	return 0;
}

static int write_file(const struct btf *made, int *ret_fd)
{
	_cleanup_close_ int fd = memfd_create("kernel_types", MFD_CLOEXEC);
	const void *bytes;
	uint32_t size;
	int err;

	if (fd < 0)
		return -errno;
	bytes = btf__raw_data(made, &size);
	err = bytes ? file__write(fd, bytes, size) : -ENOMEM;
	if (!err)
		*ret_fd = take_fd(&fd);
	return err;
}

int kernel_types__open(const struct btf *local, int *ret_fd)
{
	struct builder *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	m->kernel.bytes = MAP_FAILED;
	m->local = local;
	m->made = btf__new_empty();
	err = m->made ? read_all(&m->kernel) : -ENOMEM;
	err = err ?: index_types(&m->kernel);
	err = err ?: make_all(m);
	err = err ?: write_file(m->made, ret_fd);
	drop(&m->kernel);
	btf__free(m->made);
	free(m);
	return err;
}

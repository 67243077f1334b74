/* SPDX-License-Identifier: MIT */
/* Reads Python objects (object.h) and turns what a rule's source leads to into text (values.h). Example: the source
 * `self.func_id.func_qualname` begins at the captured local `self`; attribute() goes to func_id and to func_qualname;
 * the result, a str, becomes UTF-8. */
#include "python/object.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "name/text.h"

#define VALID_VERSION_TAG (1u << 19) /* tp_flags, up to 3.12; since 3.10 an invalid version is 0 anyway */
#define LONG_DIGIT_BITS 30u
#define TYPE_BYTES 512u /* begin of a type object, tp_version_tag included, in any version */
#define ITEMS_DEEP 3u /* nested containers that `*` follows */
#define TEXT_HEAD_MAX 64u /* bytes of a str's head; free-threaded builds have 56 */

/* All reads of target memory go through here: bounded in number, user addresses only. */
int object__read(struct values *values, void *ret, size_t size, uint64_t address)
{
	if (values->reads++ >= VALUES_READS)
		return -E2BIG;
	if ((int64_t)address <= 0 || address < 4096)
		return -EFAULT;
	return values->memory->read(values->memory, ret, size, address);
}

int object__word(struct values *values, uint64_t address, uint64_t *ret)
{
	return object__read(values, ret, sizeof(*ret), address);
}

/* --- the path that is being found, if somebody asks for it --- */

static void add_step(struct values *values, int64_t offset, struct py_path_step step)
{
	struct py_path *path = values->path;

	if (!path || path->n > PY_PATH_STEPS)
		return;
	step.offset = (int32_t)offset;
	if (path->n < PY_PATH_STEPS && offset == step.offset)
		path->steps[path->n++] = step;
	else
		path->n = UINT32_MAX;
}

void path__load(struct values *values, uint32_t flags, int64_t offset, uint64_t word)
{
	add_step(values, offset, (struct py_path_step){.flags = (uint8_t)flags, .tag = word & 7});
}

void path__check(struct values *values, uint32_t flags, int64_t offset, uint64_t value, uint32_t shift)
{
	add_step(values, offset, (struct py_path_step){.flags = (uint8_t)(flags | PY_PATH_CHECK), .value = value, .shift = (uint8_t)shift});
}

/* No loads lead there. */
static void path__none(struct values *values)
{
	if (values->path)
		values->path->n = UINT32_MAX;
}

static uint32_t path__length(const struct values *values)
{
	return values->path ? values->path->n : 0;
}

/* Drops the steps behind the first `n`, of a search that failed. */
static void path__cut(struct values *values, uint32_t n)
{
	if (values->path)
		values->path->n = n;
}

/* --- reading --- */

/* tp_name of a static type, a C string such as "numpy.ufunc"; mostly shorter than what is read. */
static int read_name(struct values *values, struct object_type *type)
{
	int err = object__read(values, type->name, sizeof(type->name) - 1, type->name_at);

	if (err == -EFAULT) /* a short name at the end of the last mapped page */
		err = object__read(values, type->name, 16, type->name_at);
	type->name[sizeof(type->name) - 1] = '\0';
	return err;
}

static uint64_t word_at(const uint8_t raw[TYPE_BYTES], uint16_t offset)
{
	uint64_t word = 0;

	if (offset <= TYPE_BYTES - sizeof(word))
		memcpy(&word, raw + offset, sizeof(word));
	return word;
}

int object__type(struct values *values, uint64_t object, struct object_type *ret)
{
	const struct py_layout *l = values->layout;
	uint64_t address = 0;
	uint8_t raw[TYPE_BYTES];
	int err = object__word(values, object + l->object_type, &address);

	if (l->type_version > TYPE_BYTES - 8)
		return -ENOTSUP;
	if (!err)
		/* tp_version_tag is the last member that is used below */
		err = object__read(values, raw, l->type_version + 8u, address);
	if (err)
		return err;
	*ret = (struct object_type){.address = address,
				    .flags = word_at(raw, l->type_flags),
				    .dict = word_at(raw, l->type_dict),
				    .mro = word_at(raw, l->type_mro),
				    .basic_size = word_at(raw, l->type_basic_size),
				    .dict_offset = (int64_t)word_at(raw, l->type_dict_offset),
				    .name_at = word_at(raw, l->type_name)};
	if (l->version >= 0x030d00 || ret->flags & VALID_VERSION_TAG)
		ret->version = (uint32_t)word_at(raw, l->type_version);
	if (ret->basic_size > 1u << 24)
		return -EBADMSG;
	/* Heap types (classes defined in Python) are recognised by their flags: their names are not needed here. */
	return ret->flags & TYPE_HEAP ? object__word(values, address + l->type_cached_keys, &ret->cached_keys) : read_name(values, ret);
}

/* --- text --- */

/* A layout could have members behind what is read at once (TEXT_HEAD_MAX): then nothing of a str is read. */
static bool is_head_whole(const struct py_layout *l)
{
	return l->unicode_ascii_data <= TEXT_HEAD_MAX && l->unicode_length + 8u <= l->unicode_ascii_data &&
	       l->unicode_state + 4u <= l->unicode_ascii_data;
}

int object__text(struct values *values, uint64_t object, struct object_text *ret)
{
	const struct py_layout *l = values->layout;
	uint8_t raw[TEXT_HEAD_MAX];
	uint32_t state;
	int err;

	if (!is_head_whole(l))
		return -ENOTSUP;
	err = object__read(values, raw, l->unicode_ascii_data, object);
	if (err)
		return err;
	memcpy(&ret->length, raw + l->unicode_length, 8);
	memcpy(&state, raw + l->unicode_state, 4);
	ret->kind = state >> l->state_kind_shift & 7;
	ret->ascii = state >> l->state_ascii_shift & 1;
	if (ret->kind != 1 && ret->kind != 2 && ret->kind != 4)
		return -EBADMSG;
	ret->data = object + (ret->ascii ? l->unicode_ascii_data : l->unicode_compact_data);
	/* A str of a subclass (Cython's EncodedString) is not compact: its characters are in a separate block. */
	return state >> l->state_compact_shift & 1 ? 0 : object__word(values, object + l->unicode_compact_data, &ret->data);
}

int object__ascii(struct values *values, uint64_t object, char *ret, size_t size)
{
	struct object_text text;
	int err = object__text(values, object, &text);

	if (err)
		return err;
	if (!text.ascii || text.length >= size)
		return -ENODATA;
	err = object__read(values, ret, text.length, text.data);
	ret[text.length] = '\0';
	return err ? err : strlen(ret) == text.length ? 0 : -ENODATA;
}

bool object__is_text(struct values *values, uint64_t object, const char *text)
{
	size_t len = strlen(text);
	struct object_text head;
	char data[256];

	return len < sizeof(data) && !object__text(values, object, &head) && head.ascii && head.length == len &&
	       !object__read(values, data, len, head.data) && !memcmp(data, text, len);
}

int object__put_text(struct values *values, uint64_t object, struct buf *ret)
{
	uint8_t data[VALUES_TEXT_MAX];
	struct object_text text;
	size_t size = 0;
	int err = object__text(values, object, &text);

	if (!err) {
		size = (text.length < VALUES_TEXT_MAX / text.kind ? text.length : VALUES_TEXT_MAX / text.kind) * text.kind;
		err = size ? object__read(values, data, size, text.data) : 0;
	}
	return err ? err : text__from_unicode(data, size, text.kind, text.ascii, ret);
}

/* --- tuples --- */

int object__items(struct values *values, uint64_t tuple, uint64_t *ret_n)
{
	return object__word(values, tuple + values->layout->var_size, ret_n);
}

int object__item(struct values *values, uint64_t tuple, uint64_t i, uint64_t *ret)
{
	return object__word(values, tuple + values->layout->tuple_items + i * 8, ret);
}

/* --- attributes --- */

static bool is(const struct object_type *type, const char *name)
{
	return !(type->flags & TYPE_HEAP) && !strcmp(type->name, name);
}

/* Looks `name` up in the dicts of the class and its bases, in method resolution order. */
static int class_find(struct values *values, const struct object_type *type, const char *name, uint64_t *ret)
{
	uint64_t size = 0, base, dict, i;
	int err = object__items(values, type->mro, &size), found = -ENODATA;

	for (i = 0; !err && i < size && i < 32; i++) {
		err = object__item(values, type->mro, i, &base);
		err = err ?: object__word(values, base + values->layout->type_dict, &dict);
		if (err || !dict)
			continue;
		err = dict__find(values, dict, name, ret);
		if (!err)
			return 0;
		found = err == -ENODATA ? found : err; /* skip a dict that cannot be read */
		err = 0;
	}
	return err ? err : found;
}

/* What an attribute of a class means for an instance: nothing, an object, an offset in the instance; or it is computed, whatever the
 * instance has (a data descriptor, __getattribute__): then there is nothing to read. */
enum class_kind { CLASS_NOTHING, CLASS_OBJECT, CLASS_MEMBER, CLASS_COMPUTED };

/* Of a descriptor that was written in Python: does it come before what the instance has? */
static int sets(struct values *values, const struct object_type *type, uint8_t *ret_kind)
{
	static const char *const names[] = {"__set__", "__delete__"};
	uint64_t ignored;
	int err = -ENODATA;

	for (uint32_t i = 0; err == -ENODATA && i < sizeof(names) / sizeof(*names); i++)
		err = class_find(values, type, names[i], &ignored);
	if (!err)
		*ret_kind = CLASS_COMPUTED;
	return err == -ENODATA ? 0 : err;
}

/* Has the class a way of its own to find attributes? That of `object`, `type` and other C types is a slot of theirs. */
static int finds_itself(struct values *values, const struct object_type *of, uint8_t *ret_kind)
{
	struct object_type type;
	uint64_t found;
	int err = class_find(values, of, "__getattribute__", &found);

	if (err == -ENODATA)
		return 0;
	err = err ?: object__type(values, found, &type);
	if (!err && !is(&type, "wrapper_descriptor"))
		*ret_kind = CLASS_COMPUTED;
	return err;
}

/* Resolves descriptors: a slot's member_descriptor has the offset of the value in the instance (PyMemberDef); a
 * property computes its value, so there is nothing to read. */
#define MEMBER_OBJECT 6u     /* Py_T_OBJECT */
#define MEMBER_OBJECT_EX 16u
static int through_descriptor(struct values *values, struct class_memo_row *ret)
{
	uint64_t member[3]; /* name, type, offset */
	struct object_type type;
	int err = object__type(values, ret->at, &type);

	if (err)
		return err;
	if (type.flags & TYPE_HEAP)
		return sets(values, &type, &ret->kind);
	ret->kind = CLASS_COMPUTED;
	if (!strcmp(type.name, "property") || !strcmp(type.name, "getset_descriptor"))
		return 0;
	ret->kind = CLASS_OBJECT;
	if (strcmp(type.name, "member_descriptor"))
		return 0;
	err = object__word(values, ret->at + values->layout->descriptor_member, &member[0]);
	err = err ?: object__read(values, member, sizeof(member), member[0]);
	ret->kind = CLASS_NOTHING;
	if (err || ((uint32_t)member[1] != MEMBER_OBJECT && (uint32_t)member[1] != MEMBER_OBJECT_EX) || member[2] > 1u << 20)
		return err;
	ret->kind = CLASS_MEMBER;
	ret->at = member[2];
	return 0;
}

/* Direct-mapped: one row for each hash. NULL: no cache, or the class has no valid version, so that a change would
 * not be noticed. */
static struct class_memo_row *memo_of(struct values *values, const struct class_memo_row *key)
{
	uint64_t hash = (key->type >> 4 ^ (uintptr_t)key->name ^ key->process) * 0x9e3779b97f4a7c15ull;

	return values->classes && key->version ? &values->classes->rows[hash >> 32 & (CLASS_MEMO_ROWS - 1)] : NULL;
}

static bool is_same(const struct class_memo_row *row, const struct class_memo_row *key)
{
	return row->version == key->version && row->type == key->type && row->name == key->name && row->process == key->process;
}

/* What the class or a base has. That there is nothing is cached as well. */
static int look_up(struct values *values, const struct object_type *type, const char *name, struct class_memo_row *ret)
{
	struct class_memo_row *known;
	struct py_path *path = values->path;
	int err;

	*ret = (struct class_memo_row){.process = values->process, .type = type->address, .name = name, .version = type->version};
	known = memo_of(values, ret);
	if (known && is_same(known, ret)) {
		*ret = *known;
		return 0;
	}
	values->path = NULL; /* of the instance, not of its class */
	ret->kind = CLASS_OBJECT;
	err = class_find(values, type, name, &ret->at);
	err = err ?: through_descriptor(values, ret);
	if (err == -ENODATA) {
		ret->kind = CLASS_NOTHING;
		err = 0;
	}
	if (!err && type->flags & TYPE_HEAP)
		err = finds_itself(values, type, &ret->kind);
	values->path = path;
	if (!err && known)
		*known = *ret;
	return err;
}

/* An attribute that the class or a base has. */
static int class_attribute(struct values *values, uint64_t object, const struct object_type *type, const struct class_memo_row *found, uint64_t *ret)
{
	int err;

	*ret = found->at;
	/* An instance may have an attribute of its own in place of its class's: that cannot be checked by loads. */
	if (found->kind != CLASS_MEMBER || !type->version) {
		path__none(values);
		return found->kind == CLASS_OBJECT ? 0 : found->kind == CLASS_MEMBER ? object__word(values, object + found->at, ret) : -ENODATA;
	}
	err = object__word(values, object + found->at, ret);
	path__check(values, PY_PATH_FROM_B, values->layout->type_version, type->version, 32);
	path__load(values, 0, (int64_t)found->at, 0);
	return err;
}

/* What a C type has at an offset of its own. */
static int member(struct values *values, uint64_t object, uint16_t offset, uint64_t *ret)
{
	path__load(values, 0, offset, 0);
	return object__word(values, object + offset, ret);
}

/* Attributes of code objects. Before 3.11 they have no qualified name, only its last part. */
static int code_attribute(struct values *values, uint64_t object, const char *name, uint64_t *ret)
{
	const struct py_layout *l = values->layout;

	if (!strcmp(name, "co_name") || (!strcmp(name, "co_qualname") && l->code_qualname == PY_ABSENT))
		return member(values, object, l->code_name, ret);
	if (!strcmp(name, "co_qualname"))
		return member(values, object, l->code_qualname, ret);
	return -ENODATA;
}

/* As Python's getattr(), but for what computes: data descriptors of the class, the instance, the class. A bound method stands for its
 * function. */
static int attribute(struct values *values, uint64_t object, const char *name, uint64_t *ret)
{
	const struct py_layout *l = values->layout;
	struct class_memo_row of_class;
	struct object_type type;
	uint32_t steps;
	int err = object__type(values, object, &type);

	if (err)
		return err;
	if (!strcmp(name, "__class__")) {
		*ret = type.address;
		path__none(values);
		return 0;
	}
	path__check(values, PY_PATH_TO_B, l->object_type, type.address, 0);
	if (is(&type, "method")) {
		path__none(values);
		err = object__word(values, object + l->method_function, &object);
		err = err ?: object__type(values, object, &type);
		if (err)
			return err;
	}
	if (is(&type, "function") && !strcmp(name, "__qualname__"))
		return member(values, object, l->function_qualname, ret);
	if (is(&type, "function") && !strcmp(name, "__name__"))
		return member(values, object, l->function_name, ret);
	if (is(&type, "function") && !strcmp(name, "__code__"))
		return member(values, object, l->function_code, ret);
	if (is(&type, "code"))
		return code_attribute(values, object, name, ret);
	err = look_up(values, &type, name, &of_class);
	if (err)
		return err;
	if (of_class.kind >= CLASS_MEMBER)
		return class_attribute(values, object, &type, &of_class, ret);
	steps = path__length(values);
	err = instance__find(values, object, &type, name, ret);
	if (err != -ENODATA)
		return err;
	path__cut(values, steps);
	return class_attribute(values, object, &type, &of_class, ret);
}

/* --- as text --- */

/* An int of at most two digits of 30 bits. The head is the signed number of digits; since 3.12 that number << 3, with
 * the sign in the lowest two bits (2: negative). */
static int put_number(struct values *values, uint64_t object, const struct object_type *type, struct buf *ret)
{
	uint32_t digits[2] = {};
	uint64_t head = 0, number;
	char text[24];
	int64_t count;
	bool negative;
	int err = object__word(values, object + values->layout->long_head, &head);

	if (err)
		return err;
	count = (int64_t)head;
	negative = count < 0;
	if (values->layout->version >= 0x030c00) {
		negative = (head & 3) == 2;
		count = (int64_t)(head >> 3);
	} else if (negative && count >= -2) {
		count = -count;
	}
	if (count < 0 || count > 2)
		return buf__puts(ret, "int");
	if (count)
		err = object__read(values, digits, (size_t)count * sizeof(digits[0]), object + values->layout->long_digits);
	if (err)
		return err;
	number = digits[0] | (uint64_t)digits[1] << LONG_DIGIT_BITS;
	if (!strcmp(type->name, "bool"))
		return buf__puts(ret, number ? "True" : "False");
	snprintf(text, sizeof(text), "%s%llu", negative ? "-" : "", (unsigned long long)number);
	return buf__puts(ret, text);
}

/* The text of an object: a str itself, an int as number, a function's or a class's name; any other object: the name of
 * its class. */
static int put_object(struct values *values, uint64_t object, struct buf *ret)
{
	struct object_type type;
	const char *name;
	uint64_t text;
	int err = object__type(values, object, &type);

	if (err)
		return err;
	if (type.flags & PY_TYPE_TEXT)
		return object__put_text(values, object, ret);
	if (is(&type, "NoneType"))
		return -ENODATA;
	if (type.flags & PY_TYPE_LONG && !(type.flags & TYPE_HEAP))
		return put_number(values, object, &type, ret);
	if (!attribute(values, object, "__qualname__", &text) && is(&type, "function"))
		return object__put_text(values, text, ret);
	if (type.flags & TYPE_TYPE) /* a class: its own name */
		err = object__word(values, object + values->layout->type_name, &type.name_at);
	if (!err && (type.flags & (TYPE_TYPE | TYPE_HEAP)))
		err = read_name(values, &type);
	if (err)
		return err;
	name = strrchr(type.name, '.');
	return buf__puts(ret, name ? name + 1 : type.name);
}

static int follow(struct values *values, uint64_t object, const struct source *source, uint32_t step, uint32_t deep,
		  struct buf *ret);

/* The step `*`: the texts of all items of a tuple, list or dict, joined by ", ". */
static int follow_items(struct values *values, uint64_t object, const struct source *source, uint32_t step,
			uint32_t deep, struct buf *ret)
{
	uint64_t n = 0, items, item, i;
	struct object_type type;
	uint32_t at = 0;
	int err = object__type(values, object, &type);

	if (err)
		return err;
	if (!(type.flags & (TYPE_TUPLE | TYPE_LIST | TYPE_DICT)) || deep >= ITEMS_DEEP)
		return -ENODATA;
	items = object + values->layout->tuple_items;
	if (type.flags & TYPE_DICT)
		n = UINT64_MAX;
	else
		err = object__items(values, object, &n);
	if (!err && type.flags & TYPE_LIST)
		err = object__word(values, object + values->layout->list_items, &items);
	for (i = 0; !err && i < n; i++) {
		err = type.flags & TYPE_DICT ? dict__next(values, object, &at, &item) : object__word(values, items + i * 8, &item);
		if (type.flags & TYPE_DICT && err == -ENODATA)
			return 0;
		if (!err && i)
			err = buf__puts(ret, ", ");
		if (i == VALUES_ITEMS_MAX || ret->len > VALUES_TEXT_MAX)
			return buf__puts(ret, "…");
		err = err ?: follow(values, item & ~7ull, source, step, deep + 1, ret);
		if (err == -ENODATA)
			err = buf__puts(ret, "?");
	}
	return err;
}

static bool is_class_name(struct values *values, uint64_t object, const char *name)
{
	struct object_type type;

	return (!strcmp(name, "__name__") || !strcmp(name, "__qualname__")) && !object__type(values, object, &type) &&
	       type.flags & TYPE_TYPE;
}

/* Follows attribute steps until the end of the source, or a `*`. */
static int walk(struct values *values, uint64_t *object, const struct source *source, uint32_t *step)
{
	int err = *object ? 0 : -ENODATA;

	for (; !err && *step < source->n && source->steps[*step].kind == STEP_NAME; ++*step) {
		if (is_class_name(values, *object, source->steps[*step].name))
			continue; /* the text of a class is its name anyway */
		err = attribute(values, *object, source->steps[*step].name, object);
		if (!err && !*object)
			err = -ENODATA;
	}
	return err;
}

static int follow(struct values *values, uint64_t object, const struct source *source, uint32_t step, uint32_t deep,
		  struct buf *ret)
{
	int err = walk(values, &object, source, &step);

	if (err)
		return err;
	if (step < source->n)
		path__none(values);
	values->path = NULL; /* it is whole: what follows is read of the object there */
	if (step < source->n)
		return follow_items(values, object, source, step + 1, deep, ret);
	return put_object(values, object, ret);
}

/* On error nothing stays appended. Step 0 of a source is the captured local itself. The lowest three bits of a word
 * may be tags (3.14+). */
int values__text(struct values *values, uint64_t address, const struct source *source, struct buf *ret)
{
	size_t before = ret->len;
	int err = values->layout->flags & PY_FREE_THREADED ? -ENOTSUP :
		  follow(values, address & ~7ull, source, 1, 0, ret);

	if (err)
		ret->len = before;
	return err;
}

int values__text_and_path(struct values *values, uint64_t address, const struct source *source, struct buf *ret, struct py_path *ret_path)
{
	int err;

	*ret_path = (struct py_path){};
	values->path = ret_path;
	err = values__text(values, address, source, ret);
	values->path = NULL;
	if (ret_path->n > PY_PATH_STEPS)
		ret_path->n = 0;
	return err;
}

int values__put_text(struct values *values, uint64_t address, struct buf *ret)
{
	return values->layout->flags & PY_FREE_THREADED ? -ENOTSUP : object__put_text(values, address, ret);
}

int values__defined(struct values *values, uint64_t address, const struct source *source, struct buf *ret_file,
		    uint32_t *ret_line)
{
	uint64_t code = address & ~7ull, file;
	struct object_type type;
	uint32_t step = 1;
	int err = values->layout->flags & PY_FREE_THREADED ? -ENOTSUP : walk(values, &code, source, &step);

	err = err ?: object__type(values, code, &type);
	if (err)
		return err;
	if (!is(&type, "code"))
		return -ENODATA;
	err = object__word(values, code + values->layout->code_filename, &file);
	err = err ?: object__read(values, ret_line, sizeof(*ret_line), code + values->layout->code_firstlineno);
	return err ? err : object__put_text(values, file, ret_file);
}

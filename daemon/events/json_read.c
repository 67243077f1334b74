/* SPDX-License-Identifier: MIT */
/* A recursive descent parser of one line (json_read.h). Nesting is limited to DEPTH_MAX, as a line may come
 * from anyone.
 *
 *     {"ev":"x","t":[1,2]}
 *     values:  0 object n=2, 7 values   1 "ev"   2 "x"   3 "t"   4 array n=2, 3 values   5: 1   6: 2
 *
 * Each value knows how many values it and its contents are, so the next one at the same level is found by one
 * addition. Indices, not pointers, while parsing: the array moves as it grows. */
#include "events/json_read.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/safe_text.h"

/* Lines of the protocol have three levels; each level is a small frame of the C stack. */
#define DEPTH_MAX 512u
#define MEMBERS_FEW 24u /* objects with so few members: duplicates are found by comparing all pairs */

/* Where it is in the text, and in how many arrays and objects. `values` is the reader's memory. */
struct parser {
	struct json_reader *reader;
	const char *at, *end;
	struct json_value *values;
	size_t n, capacity;
	unsigned depth;
};

static int read_value(struct parser *parser);

static struct json_value *value_at(const struct parser *parser, size_t index)
{
	return parser->values + index;
}

static int grow(struct parser *parser)
{
	struct buf *memory = &parser->reader->values;
	int err;

	memory->len = parser->n * sizeof(struct json_value);
	err = buf__reserve(memory, sizeof(struct json_value));
	parser->values = (struct json_value *)(void *)memory->data;
	parser->capacity = memory->capacity / sizeof(struct json_value);
	return err;
}

/* `ret` is valid until the next value is added. */
static inline int add(struct parser *parser, enum json_kind kind, struct json_value **ret)
{
	struct json_value *value;
	int err = parser->n == parser->capacity ? grow(parser) : 0;

	if (err)
		return err;
	value = value_at(parser, parser->n++);
	*value = (struct json_value){.kind = (uint8_t)kind, .values = 1};
	if (ret)
		*ret = value;
	return 0;
}

static inline void skip_space(struct parser *parser)
{
	while (parser->at < parser->end && (*parser->at == ' ' || *parser->at == '\t' || *parser->at == '\n' || *parser->at == '\r'))
		parser->at++;
}

static inline bool takes(struct parser *parser, char character)
{
	if (parser->at == parser->end || *parser->at != character)
		return false;
	parser->at++;
	return true;
}

/* --- strings: memory for all strings of the line was reserved, so pointers into it stay valid --- */

static bool read_hex(struct parser *parser, uint32_t *ret)
{
	uint32_t digit;

	*ret = 0;
	if (parser->end - parser->at < 4)
		return false;
	for (unsigned i = 0; i < 4; i++) {
		const char c = *parser->at++;

		if (c >= '0' && c <= '9')
			digit = (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			digit = (uint32_t)((c | 0x20) - 'a') + 10;
		else
			return false;
		*ret = *ret << 4 | digit;
	}
	return true;
}

/* RFC 3629: the first byte says how many follow; these have six bits each. */
static size_t put_utf8(char *to, uint32_t character)
{
	const unsigned more = character < 0x80 ? 0 : character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
	static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};

	to[0] = (char)(first[more] | character >> (6 * more));
	for (unsigned i = 1; i <= more; i++)
		to[i] = (char)(0x80 | (character >> (6 * (more - i)) & 0x3f));
	return more + 1;
}

/* After "\u". At least six bytes of text become at most four, so the output never outgrows the reserved memory. */
static bool read_unicode(struct parser *parser, char **to)
{
	uint32_t character, low;

	/* U+0000 would end the string early for all readers in C; a low surrogate alone is no character. */
	if (!read_hex(parser, &character) || !character || (character >= 0xdc00 && character <= 0xdfff))
		return false;
	if (character >= 0xd800 && character <= 0xdbff) {
		if (!takes(parser, '\\') || !takes(parser, 'u') || !read_hex(parser, &low) || low < 0xdc00 || low > 0xdfff)
			return false;
		character = 0x10000 + ((character & 0x3ff) << 10 | (low & 0x3ff));
	}
	*to += put_utf8(*to, character);
	return true;
}

static bool read_escape(struct parser *parser, char **to)
{
	static const char from[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char *found;
	char c;

	if (parser->at == parser->end)
		return false;
	c = *parser->at++;
	if (c == 'u')
		return read_unicode(parser, to);
	found = c ? strchr(from, c) : NULL;
	if (found)
		*(*to)++ = meant[found - from];
	return found;
}

/* After the opening quotation mark. */
static int read_string(struct parser *parser, struct json_value *value)
{
	struct buf *strings = &parser->reader->strings;
	/* No check for room: json_reader__read() reserved enough for all strings of the line. */
	char *begin = strings->data + strings->len, *to = begin;
	uint32_t character;
	size_t len;

	while (parser->at < parser->end) {
		unsigned char c;

		/* Most strings are one such run. */
		len = ascii__span(parser->at, (size_t)(parser->end - parser->at), true);
		memcpy(to, parser->at, len);
		to += len;
		parser->at += len;
		if (parser->at == parser->end)
			break;
		/* Other characters one by one: they must be valid UTF-8. */
		c = (unsigned char)*parser->at;
		if (c == '"') {
			parser->at++;
			*to++ = '\0';
			value->string = begin;
			value->safe = len == (size_t)(to - begin) - 1;
			strings->len += (size_t)(to - begin);
			return 0;
		}
		if (c == '\\') {
			parser->at++;
			if (!read_escape(parser, &to))
				return -EBADMSG;
		} else if (c < 0x80) {
			/* RFC 8259, section 7: control characters must be escaped. */
			if (c < 0x20)
				return -EBADMSG;
			*to++ = *parser->at++;
		} else {
			len = utf8__character(parser->at, (size_t)(parser->end - parser->at), &character);
			if (!len)
				return -EBADMSG;
			memcpy(to, parser->at, len);
			to += len;
			parser->at += len;
		}
	}
	return -EBADMSG;
}

/* --- numbers --- */

/* *ret: their value, if they are few enough for 64 bits. */
static inline bool read_digits(struct parser *parser, uint64_t *ret)
{
	const char *at = parser->at;
	uint64_t number = 0;
	unsigned digit;
	bool any;

	for (; at < parser->end && (digit = (unsigned char)*at - (unsigned)'0') <= 9; at++)
		number = number * 10 + digit;
	any = at > parser->at;
	parser->at = at;
	*ret = number;
	return any;
}

/* Fraction and exponent after the digits. *ret_real: there is one. */
static bool skip_fraction(struct parser *parser, bool *ret_real)
{
	uint64_t digits;

	*ret_real = false;
	if (takes(parser, '.')) {
		*ret_real = true;
		if (!read_digits(parser, &digits))
			return false;
	}
	if (takes(parser, 'e') || takes(parser, 'E')) {
		*ret_real = true;
		if (!takes(parser, '-'))
			takes(parser, '+');
		return read_digits(parser, &digits);
	}
	return true;
}

static inline int read_number(struct parser *parser, struct json_value *value)
{
	const bool negative = takes(parser, '-');
	const char *begin = parser->at;
	uint64_t number;
	bool real, fits;

	/* No leading zeros (RFC 8259, section 6). */
	if (!read_digits(parser, &number) || (*begin == '0' && parser->at > begin + 1))
		return -EBADMSG;
	/* The largest number of 19 digits is below 2^64, the smallest of 20 above 2^63. */
	fits = parser->at - begin <= 19;
	if (!skip_fraction(parser, &real))
		return -EBADMSG;
	if (real) {
		value->kind = JSON_OF_REAL;
		return 0;
	}
	/* -2^63 has a larger magnitude than 2^63 - 1. */
	if (!fits || number > (uint64_t)INT64_MAX + negative)
		return -EBADMSG;
	value->integer = (int64_t)(negative ? 0 - number : number);
	return 0;
}

/* --- arrays, objects --- */

/* White space before ']' and ',' was skipped by read_value(), so only that of an empty array is skipped here. */
static int read_array(struct parser *parser, uint32_t *ret_n)
{

	skip_space(parser);
	if (takes(parser, ']'))
		return 0;
	for (;;) {
		int err = read_value(parser);

		if (err)
			return err;
		++*ret_n;
		if (takes(parser, ']'))
			return 0;
		if (!takes(parser, ','))
			return -EBADMSG;
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Is the name among the n members that begin at `first`? */
static bool is_twice(const struct json_value *first, uint32_t n, const char *name)
{
	for (; n; n--, first = json_value__next(json_value__next(first)))
		if (!strcmp(first->string, name))
			return true;
	return false;
}

/* O(n log n): a hostile object of 100,000 members must not take n * n comparisons. */
static int look_for_twins(const struct json_value *object)
{
	_cleanup_free_ const char **names = NULL;
	const struct json_value *at = json_value__first(object);

	if (object->n <= MEMBERS_FEW) /* compared already, as each came */
		return 0;
	names = malloc(object->n * sizeof(*names));
	if (!names)
		return -ENOMEM;
	for (uint32_t i = 0; i < object->n; i++, at = json_value__next(json_value__next(at)))
		names[i] = at->string;
	qsort(names, object->n, sizeof(*names), by_name);
	for (uint32_t i = 1; i < object->n; i++)
		if (!strcmp(names[i - 1], names[i]))
			return -EBADMSG;
	return 0;
}

/* `first`: index of the object's first member. */
static int read_object(struct parser *parser, size_t first, uint32_t *ret_n)
{
	struct json_value *name;
	int err;

	skip_space(parser);
	if (takes(parser, '}'))
		return 0;
	for (;;) {
		skip_space(parser);
		if (!takes(parser, '"'))
			return -EBADMSG;
		err = add(parser, JSON_OF_STRING, &name) ?: read_string(parser, name);
		if (!err && *ret_n < MEMBERS_FEW && is_twice(value_at(parser, first), *ret_n, name->string))
			err = -EBADMSG;
		skip_space(parser);
		if (!err && !takes(parser, ':'))
			err = -EBADMSG;
		err = err ?: read_value(parser);
		if (err)
			return err;
		++*ret_n;
		if (takes(parser, '}'))
			return 0;
		if (!takes(parser, ','))
			return -EBADMSG;
	}
}

/* The value itself comes before its contents, and is completed when they were read. */
static int read_many(struct parser *parser, bool object)
{
	const size_t index = parser->n;
	struct json_value *value;
	uint32_t n = 0;
	int err = add(parser, object ? JSON_OF_OBJECT : JSON_OF_ARRAY, NULL);

	if (!err && ++parser->depth > DEPTH_MAX)
		err = -EBADMSG;
	err = err ?: object ? read_object(parser, index + 1, &n) : read_array(parser, &n);
	if (err)
		return err;
	parser->depth--;
	/* Looked up again: the array may have moved. */
	value = value_at(parser, index);
	value->values = (uint32_t)(parser->n - index);
	value->n = n;
	return object ? look_for_twins(value) : 0;
}

/* --- any value --- */

static int read_word(struct parser *parser, const char *word, enum json_kind kind)
{
	const size_t len = strlen(word);

	if ((size_t)(parser->end - parser->at) < len || memcmp(parser->at, word, len))
		return -EBADMSG;
	parser->at += len;
	return add(parser, kind, NULL);
}

/* Reads a value and the white space around it. */
static int read_value(struct parser *parser)
{
	struct json_value *value;
	int err;

	skip_space(parser);
	if (parser->at == parser->end)
		return -EBADMSG;
	switch (*parser->at) {
	case '{':
	case '[':
		err = read_many(parser, *parser->at++ == '{');
		break;
	case '"':
		parser->at++;
		err = add(parser, JSON_OF_STRING, &value) ?: read_string(parser, value);
		break;
	case 't':
		err = read_word(parser, "true", JSON_OF_TRUE);
		break;
	case 'f':
		err = read_word(parser, "false", JSON_OF_FALSE);
		break;
	case 'n':
		err = read_word(parser, "null", JSON_OF_NULL);
		break;
	default:
		err = add(parser, JSON_OF_INTEGER, &value) ?: read_number(parser, value);
	}
	skip_space(parser);
	return err;
}

int json_reader__read(struct json_reader *reader, const char *text, size_t len, const struct json_value **ret)
{
	struct parser parser = {.reader = reader, .at = text, .end = text + len};
	int err;

	buf__clear(&reader->strings);
	/* Values are counted in 32 bits. */
	if (len > UINT32_MAX / 2)
		return -EBADMSG;
	/* A string with its NUL is one byte shorter than its text with quotation marks: the line's length is enough. */
	err = buf__reserve(&reader->strings, len + 1);
	err = err ?: grow(&parser) ?: read_value(&parser);
	/* Nothing may follow the object. */
	if (!err && (parser.at != parser.end || value_at(&parser, 0)->kind != JSON_OF_OBJECT))
		err = -EBADMSG;
	if (!err)
		*ret = value_at(&parser, 0);
	return err;
}

void json_reader__free(struct json_reader *reader)
{
	buf__free(&reader->values);
	buf__free(&reader->strings);
}

const struct json_value *json_value__member(const struct json_value *of, const char *name)
{
	const struct json_value *at;
	uint32_t i;

	if (!json_value__is(of, JSON_OF_OBJECT))
		return NULL;
	/* Linear: events have twenty members at most, and the one that is looked for is mostly among the
	 * first. */
	for (i = 0, at = json_value__first(of); i < of->n; i++, at = json_value__next(json_value__next(at)))
		if (!strcmp(at->string, name))
			return at + 1;
	return NULL;
}

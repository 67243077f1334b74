/* SPDX-License-Identifier: MIT */
/* Numba mangles names of functions in the manner of the Itanium C++ ABI, with types and flags of its own in them
 * (numba/core/itanium_mangler.py, funcdesc.py). A name may come from any process: depth, parameters and lengths are
 * bounded, and what does not parse is no name of Numba's.
 *
 *    _ZN8__main__3fooB2v1B38c8t...E5ArrayIdLi1E1C7mutable7alignedE
 *      N ... E      nested name: "__main__", "foo", tags B"v1" and B"c8t..."
 *      5Array I..E  a template: float64, the number 1, "C", "mutable", "aligned"    ->  array(float64, 1d, C)
 *
 * A recursive descent: entity() reads the name, type() each argument. Errors are -ENOENT (no name of Numba's; the
 * caller tries C++) or -ENOMEM. */
#include "symbols/numba.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "symbols/numba_text.h"

/* Of nested templates, length of a text, and parameters of one template: beyond these it is no name that Numba
 * makes. */
#define DEPTH 32
#define NUMBA_TEXT_MAX 16384u
#define PARAMETERS_MAX 256u

static const char *const words[] = {
#define KIND_WORDS(id, text) [NUMBA_##id] = text,
	NUMBA_KINDS(KIND_WORDS)};

const char *numba_kind__words(enum numba_kind kind)
{
	return (unsigned)kind < NUMBA_KIND_COUNT ? words[kind] : "";
}

void numba_name__free(struct numba_name *name)
{
	buf__free(&name->function);
	buf__free(&name->signature);
}

/* What is still to be read. */
struct input {
	const char *at, *end;
	bool lossy;
};

static bool eat(struct input *in, char c)
{
	if (in->at == in->end || *in->at != c)
		return false;
	in->at++;
	return true;
}

/* "3foo": a length and as many bytes; "0": nothing, of a text with two dots. */
static int part(struct input *in, const char **ret, size_t *ret_len)
{
	size_t len = 0, digits = 0;

	if (eat(in, '0')) {
		*ret = in->at;
		*ret_len = 0;
		return 0;
	}
	while (in->at < in->end && *in->at >= '0' && *in->at <= '9' && digits < 6) {
		len = len * 10 + (size_t)(*in->at++ - '0');
		digits++;
	}
	if (!digits || !len || len > (size_t)(in->end - in->at))
		return -ENOENT;
	*ret = in->at;
	*ret_len = len;
	in->at += len;
	return 0;
}

/* numba.core.itanium_mangler.N2CODE */
static int basic(struct input *in, struct buf *out)
{
	static const struct {
		char code;
		const char *name;
	} codes[] = {{'v', "none"},   {'b', "bool"},  {'h', "uint8"},	{'a', "int8"},
		     {'t', "uint16"}, {'s', "int16"}, {'j', "uint32"},	{'i', "int32"},
		     {'y', "uint64"}, {'x', "int64"}, {'f', "float32"}, {'d', "float64"}};

	if (in->end - in->at >= 2 && !memcmp(in->at, "Dh", 2)) {
		in->at += 2;
		return buf__puts(out, "float16");
	}
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		if (eat(in, codes[i].code))
			return buf__puts(out, codes[i].name);
	return -ENOENT;
}

static int type(struct input *in, unsigned depth, struct buf *out);

/* The parameters of a template, each as text. */
struct parameters {
	struct buf text;
	size_t ends[PARAMETERS_MAX]; /* where each ends in the text */
	size_t n;
};

static const char *parameter(const struct parameters *p, size_t i, size_t *ret_len)
{
	size_t begin = i ? p->ends[i - 1] : 0;

	*ret_len = p->ends[i] - begin;
	return p->text.data + begin;
}

static bool is(const struct parameters *p, size_t i, const char *word)
{
	size_t len;
	const char *text = parameter(p, i, &len);

	return len == strlen(word) && !memcmp(text, word, len);
}

static int join(const struct parameters *p, struct buf *out)
{
	size_t i, len;
	int err = 0;

	for (i = 0; i < p->n && !err; i++) {
		const char *text = parameter(p, i, &len);

		err = buf__printf(out, "%s%.*s", i ? ", " : "", (int)len, text);
	}
	return err;
}

/* A template in the spelling of the type's str(): Array has five parameters (dtype, ndim, layout, mutability,
 * alignment) of which the last two become words in front, UniTuple two (dtype, count). Others are shown as Name<...>
 * and set `lossy`. */
static int spell(struct input *in, const char *name, size_t len, const struct parameters *p,
		 struct buf *out)
{
	size_t a, b, c;
	const char *x = p->n > 0 ? parameter(p, 0, &a) : NULL;
	const char *y = p->n > 1 ? parameter(p, 1, &b) : NULL;
	const char *z = p->n > 2 ? parameter(p, 2, &c) : NULL;
	int err;

	if (len == 5 && !memcmp(name, "Array", 5) && p->n == 5)
		return buf__printf(out, "%s%sarray(%.*s, %.*sd, %.*s)",
				   is(p, 4, "unaligned") ? "unaligned " : "",
				   is(p, 3, "readonly") ? "readonly " : "", (int)a, x, (int)b, y,
				   (int)c, z);
	if (len == 8 && !memcmp(name, "UniTuple", 8) && p->n == 2)
		return buf__printf(out, "UniTuple(%.*s x %.*s)", (int)a, x, (int)b, y);
	if (len == 5 && !memcmp(name, "Tuple", 5)) {
		err = buf__puts(out, "Tuple(");
		err = err ?: join(p, out);
		return err ? err : buf__puts(out, ")");
	}
	/* Record<7> has a number of that process; others lose what is not a parameter. */
	in->lossy = true;
	err = buf__printf(out, "%.*s<", (int)len, name);
	err = err ?: join(p, out);
	return err ? err : buf__puts(out, ">");
}

/* Each parameter is spelled at once; spell() then puts them in the order that Python shows. */
static int read_parameters(struct input *in, unsigned depth, struct parameters *p)
{
	int err;

	while (!eat(in, 'E')) {
		if (p->n == PARAMETERS_MAX)
			return -ENOENT;
		err = type(in, depth + 1, &p->text);
		if (err)
			return err;
		if (p->text.len > NUMBA_TEXT_MAX)
			return -ENOENT;
		p->ends[p->n++] = p->text.len;
	}
	return p->n ? 0 : -ENOENT;
}

/* "5ArrayI...E", "N1a1bE": a name of dotted parts, perhaps with parameters. */
static int named(struct input *in, unsigned depth, struct buf *out)
{
	_cleanup_(buf__free) struct buf text = {}, raw = {};
	struct parameters *p;
	bool nested = eat(in, 'N'), number = false;
	size_t parts = 0, len;
	const char *piece;
	int err;

	do {
		err = part(in, &piece, &len);
		if (!err && parts)
			err = buf__puts(&text, ".");
		if (!err && parts)
			err = buf__puts(&raw, ".");
		err = err ?: numba_text__type(piece, len, number, &text);
		err = err ?: buf__append(&raw, piece, len);
		if (err)
			return err;
		number = text.len && numba_text__ends_in_number(text.data, text.len);
		parts++;
	} while (nested && in->at < in->end && *in->at >= '0' && *in->at <= '9');
	/* An underscore and two digits were no escape, then. */
	if (text.len && !numba_text__balanced(text.data, text.len)) {
		struct buf swap = text;

		text = raw;
		raw = swap;
		in->lossy = true;
	}
	if (in->at < in->end && *in->at == 'I') {
		in->at++;
		p = calloc(1, sizeof(*p));
		if (!p)
			return -ENOMEM;
		err = read_parameters(in, depth, p);
		err = err ?: spell(in, text.data, text.len, p, out);
		buf__free(&p->text);
		free(p);
	} else {
		/* The empty tuple has no parameters: Numba prints "Tuple()". */
		err = buf__append(out, text.data, text.len);
		if (!err && text.len == 5 && !memcmp(text.data, "Tuple", 5))
			err = buf__puts(out, "()");
	}
	if (!err && nested && !eat(in, 'E'))
		err = -ENOENT;
	return err;
}

static int type(struct input *in, unsigned depth, struct buf *out)
{
	size_t begin = out->len;

	if (depth > DEPTH || in->at == in->end)
		return -ENOENT;
	if (*in->at == 'N' || (*in->at >= '0' && *in->at <= '9'))
		return named(in, depth, out);
	if (in->end - in->at > 2 && !memcmp(in->at, "Li", 2)) {
		in->at += 2;
		if (eat(in, '-'))
			buf__puts(out, "-");
		while (in->at < in->end && *in->at >= '0' && *in->at <= '9') {
			int err = buf__append(out, in->at++, 1);

			if (err)
				return err;
		}
		return out->len > begin && eat(in, 'E') ? 0 : -ENOENT;
	}
	return basic(in, out);
}

/* "B2v1B38c8t...": which compile it is, and its flags. */
static int tags(struct input *in, struct numba_name *ret, unsigned *ret_n)
{
	const char *text;
	size_t len, i;

	while (eat(in, 'B')) {
		if (part(in, &text, &len))
			return -ENOENT;
		if (!*ret_n) {
			if (len < 2 || text[0] != 'v' || len > 9)
				return -ENOENT;
			for (i = 1, ret->version = 0; i < len; i++) {
				if (text[i] < '0' || text[i] > '9')
					return -ENOENT;
				ret->version = ret->version * 10 + (uint32_t)(text[i] - '0');
			}
		}
		++*ret_n;
	}
	return 0;
}

/* Numba before 0.55 has no tags: "foo$1". Cuts it off `text`. */
static void old_version(const char *text, size_t *len, struct numba_name *ret)
{
	size_t n = *len, i;

	while (n && *len - n < 9 && text[n - 1] >= '0' && text[n - 1] <= '9')
		n--;
	/* "$" is "_24"; what follows is the number. */
	if (!n || text[n - 1] != '_' || *len - n < 3 || memcmp(text + n, "24", 2))
		return;
	ret->version = 0;
	for (i = n + 2; i < *len; i++)
		ret->version = ret->version * 10 + (uint32_t)(text[i] - '0');
	*len = n - 1;
}

/* The function's own name, in parts: "module", "outer", "_3clocals_3e", "inner". *ret_sure: it has both of Numba's
 * tags, so that it cannot be C++. */
static int entity(struct input *in, bool jit, struct numba_name *ret, bool *ret_sure)
{
	bool nested = eat(in, 'N');
	unsigned n_tags = 0, parts = 0;
	const char *text;
	size_t len;
	int err;

	do {
		err = part(in, &text, &len);
		if (err)
			return err;
		/* The wrapper that Python calls has a namespace in front. */
		if (nested && !parts && ret->kind == NUMBA_FUNCTION && len == 7 &&
		    !memcmp(text, "cpython", 7) && in->at < in->end && *in->at >= '0' &&
		    *in->at <= '9') {
			ret->kind = NUMBA_CPYTHON;
			continue;
		}
		/* The last part, and no tag behind it. */
		if (jit &&
		    (in->at == in->end || (*in->at != 'B' && (*in->at < '0' || *in->at > '9'))))
			old_version(text, &len, ret);
		err = parts ? buf__puts(&ret->function, ".") : 0;
		err = err ?: numba_text__identifier(text, len, &ret->function);
		if (err)
			return err;
		parts++;
	} while (nested && in->at < in->end && *in->at >= '0' && *in->at <= '9');
	err = tags(in, ret, &n_tags);
	*ret_sure = n_tags >= 2;
	if (!err && nested && !eat(in, 'E'))
		err = -ENOENT;
	return err;
}

/* The name, then the types of its arguments up to the end of the input. */
static int decode(struct input *in, bool jit, struct numba_name *ret)
{
	bool sure, first = true;
	int err = entity(in, jit, ret, &sure);

	if (!err && !sure && !jit)
		err = -ENOENT;
	while (!err && in->at < in->end) {
		if (!first)
			err = buf__puts(&ret->signature, ", ");
		first = false;
		err = err ?: type(in, 0, &ret->signature);
		if (!err && ret->signature.len > NUMBA_TEXT_MAX)
			err = -ENOENT;
	}
	ret->lossy = in->lossy;
	return err;
}

/* ".kernel.140369133874752_" in front of the loop that threads run in parallel: an
 * address of the compiler's process, and the loop's own name. */
static void skip_kernel(struct input *in, struct numba_name *ret)
{
	static const char prefix[] = ".kernel.", *const loops[] = {"___gufunc__.", "___ufunc__."};
	const char *at = in->at + sizeof(prefix) - 1;
	size_t i, len;

	if ((size_t)(in->end - in->at) < sizeof(prefix) ||
	    memcmp(in->at, prefix, sizeof(prefix) - 1))
		return;
	while (at < in->end && *at >= '0' && *at <= '9')
		at++;
	for (i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
		len = strlen(loops[i]);
		if ((size_t)(in->end - at) <= len || memcmp(at, loops[i], len))
			continue;
		in->at = at + len;
		ret->kind = NUMBA_KERNEL;
		return;
	}
}

int numba__decode(const char *name, size_t len, bool jit, struct numba_name *ret)
{
	static const struct {
		const char *prefix;
		enum numba_kind kind;
	} prefixes[] = {{"cfunc.", NUMBA_CFUNC},
			{"__gufunc__.", NUMBA_GUFUNC},
			{"__ufunc__.", NUMBA_UFUNC},
			{"finalize_", NUMBA_FINALIZER}};
	struct input in = {.at = name, .end = name + len};
	size_t i, n;
	int err;

	buf__clear(&ret->function);
	buf__clear(&ret->signature);
	ret->kind = NUMBA_FUNCTION;
	ret->version = 0;
	ret->lossy = false;
	for (i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		n = strlen(prefixes[i].prefix);
		if (len > n && !memcmp(name, prefixes[i].prefix, n)) {
			in.at += n;
			ret->kind = prefixes[i].kind;
			break;
		}
	}
	if (ret->kind == NUMBA_FUNCTION)
		skip_kernel(&in, ret);
	if (in.end - in.at < 4 || memcmp(in.at, "_Z", 2))
		return -ENOENT;
	in.at += 2;
	err = decode(&in, jit, ret);
	if (err) {
		buf__clear(&ret->function);
		buf__clear(&ret->signature);
	}
	return err;
}

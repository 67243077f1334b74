/* SPDX-License-Identifier: MIT */
/* libiberty's demanglers hand text out in pieces. A name can be made such that a
 * few hundred bytes expand to gigabytes: each substitution twice the one before. The
 * callback has no way to say "enough" but to jump out. The C++ one keeps all its
 * state on the stack (cp-demangle.c, CP_DYNAMIC_ARRAYS), so nothing is lost by that;
 * the Rust one allocates for punycode only, and is not jumped out of then. */
#include "symbols/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

/* Where the demangler's pieces go. */
struct sink {
	struct buf *out;
	size_t end; /* up to where `out` may grow */
	bool failed;
	bool may_jump;
	jmp_buf enough;
};

static void take(const char *text, size_t len, void *opaque)
{
	struct sink *sink = opaque;

	if (!sink->failed && sink->out->len + len <= sink->end &&
	    !buf__append(sink->out, text, len))
		return;
	sink->failed = true;
	if (sink->may_jump)
		longjmp(sink->enough, 1);
}

/* Which demangler is to be tried first. Both would accept a legacy Rust name, but C++'s would show the hash as a
 * part of it. */
static bool rust(const char *name)
{
	size_t len = strlen(name);
	const char *dot;

	if (!strncmp(name, "_R", 2))
		return true;
	/* The legacy mangling is C++'s with a hash for its last part: 17h + 16 digits. */
	dot = strchr(name, '.');
	if (dot)
		len = (size_t)(dot - name);
	return !strncmp(name, "_ZN", 3) && len > 24 && !strncmp(name + len - 20, "17h", 3) &&
	       name[len - 1] == 'E';
}

/* `done` is volatile as it changes between setjmp() and longjmp() (C17 7.13.2.1). Not whole is nothing: on failure
 * what was appended is taken back. */
static bool run(const char *name, size_t max, struct buf *ret, bool as_rust)
{
	size_t begin = ret->len;
	struct sink sink = {.out = ret, .end = begin + max};
	volatile int done = 0;

	/* "u" before a length: an identifier in punycode. */
	sink.may_jump = !as_rust || !strpbrk(name + 2, "u");
	if (!setjmp(sink.enough)) {
		if (as_rust)
			done = rust_demangle_callback(name, DMGL_PARAMS | DMGL_ANSI | DMGL_NO_OPTS,
						      take, &sink);
		else
			done = cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI, take,
							  &sink);
	}
	if (done && !sink.failed && ret->len > begin)
		return true;
	ret->len = begin;
	return false;
}

bool demangle__append(const char *name, size_t max, struct buf *ret)
{
	if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R') ||
	    strnlen(name, DEMANGLE_INPUT_MAX + 1) > DEMANGLE_INPUT_MAX)
		return false;
	if (rust(name) && run(name, max, ret, true))
		return true;
	return name[1] == 'Z' && run(name, max, ret, false);
}

static bool number(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] < '0' || text[i] > '9')
			return false;
	return len;
}

/* Cuts only if every part behind the first dot is a known word or a number behind one. Otherwise the dot belongs to
 * the name: Numba's ".kernel.1234", or "foo.txt" of objcopy. */
size_t demangle__stem(const char *name, size_t len)
{
	static const char *const words[] = {"cold",	 "part",     "isra",
					    "constprop", "lto_priv", "localalias",
					    "llvm",	 "unlikely", "hot"};
	const char *dot = memchr(name + !!len, '.', len - !!len);
	const char *at = dot;
	size_t i, word;

	while (at && at < name + len) {
		const char *next = memchr(at + 1, '.', (size_t)(name + len - at - 1));

		word = (size_t)((next ? next : name + len) - at - 1);
		for (i = 0; i < sizeof(words) / sizeof(*words); i++)
			if (word == strlen(words[i]) && !memcmp(at + 1, words[i], word))
				break;
		/* Numbers follow a word: ".part.0". */
		if (i == sizeof(words) / sizeof(*words) && (at == dot || !number(at + 1, word)))
			return len;
		at = next;
	}
	return dot ? (size_t)(dot - name) : len;
}

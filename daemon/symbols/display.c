/* SPDX-License-Identifier: MIT */
/* A symbol as people read it: whose mangling is it? In the order of the attempts:
 *
 *    _ZN8__main__3fooB2v1B38c8t...E5ArrayId...E   Numba     __main__.foo(array(float64, 1d, C))
 *    _ZN4llvm8PassInfo3runEv.cold                 C++       llvm::PassInfo::run() [clone .cold]
 *    _RNvCs1234_4core3fmt                         Rust      core::fmt
 *    PyEval_EvalFrameDefault                      as it is
 *
 * Numba comes first, since its names are valid C++ manglings, too. Called once for each function of a session (the
 * result is cached in codemap/known_names.c), on the thread of the caller. */
#include "symbols/symbols.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "symbols/demangle.h"
#include "symbols/numba.h"

static int show_numba(const char *name, size_t len, bool jit, struct buf *ret)
{
	_cleanup_(numba_name__free) struct numba_name decoded = {};
	int err = numba__decode(name, len, jit, &decoded);

	if (err)
		return err;
	if (decoded.function.len + decoded.signature.len > SYMBOL_DISPLAY_MAX)
		return -ENOENT;
	err = buf__append(ret, decoded.function.data, decoded.function.len);
	if (!err)
		err = buf__puts(ret, "(");
	if (!err)
		err = buf__append(ret, decoded.signature.data, decoded.signature.len);
	if (!err)
		err = buf__puts(ret, ")");
	if (!err && decoded.kind != NUMBA_FUNCTION)
		err = buf__printf(ret, " [%s]", numba_kind__words(decoded.kind));
	return err;
}

/* c++filt's form: each clone's suffix, with its numbers. */
static int show_clones(const char *suffix, size_t len, struct buf *ret)
{
	size_t begin = 0, at;
	int err = 0;

	for (at = 1; at <= len && !err; at++) {
		if (at < len && (suffix[at] != '.' ||
				 (at + 1 < len && suffix[at + 1] >= '0' && suffix[at + 1] <= '9')))
			continue;
		err = buf__printf(ret, " [clone %.*s]", (int)(at - begin), suffix + begin);
		begin = at;
	}
	return err;
}

/* Takes the name apart from its end: "@plt", then suffixes of clones, then the mangled stem. On error nothing stays
 * appended. */
int symbol__display(const char *name, size_t len, bool jit, struct buf *ret)
{
	_cleanup_free_ char *text = NULL;
	size_t stem, plt = 0, begin = ret->len;
	int err;

	if (len > 4 && !memcmp(name + len - 4, "@plt", 4))
		plt = 4;
	len -= plt;
	stem = demangle__stem(name, len);
	err = show_numba(name, stem, jit, ret);
	if (err == -ENOENT) {
		text = strndup(name, stem);
		if (!text)
			return -ENOMEM;
		err = demangle__append(text, SYMBOL_DISPLAY_MAX, ret)
			      ? 0
			      : buf__append(ret, name, stem);
	}
	if (!err)
		err = show_clones(name + stem, len - stem, ret);
	if (!err && plt)
		err = buf__puts(ret, "@plt");
	if (err)
		ret->len = begin;
	return err;
}

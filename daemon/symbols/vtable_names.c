/* SPDX-License-Identifier: MIT */
/* Names of virtual functions: a class, and the method of another one.
 *
 * The name of a class in its type information is its mangled type without "_Z": "N4llvm13LiveVariablesE", "*" in
 * front if it is local to its file. "_ZTI" + name demangles to "typeinfo for llvm::LiveVariables". Made only when a
 * sample needs the name. */
#include "symbols/vtable.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "symbols/demangle.h"
#include "symbols/vtable_words.h"

int vtable__class_name(const struct elf_image *image, uint32_t vaddr, char ret[VTABLE_NAME_MAX])
{
	uint64_t offset;
	int err;

	if (elf_image__offset(image, vaddr, 1, &offset))
		return -ENOENT;
	err = vtable__text(image->bytes, offset, ret, VTABLE_NAME_MAX);
	if (!err && *ret == '*')
		memmove(ret, ret + 1, strlen(ret));
	return err;
}

/* The last part of "ns::class<int>::method(int) const": what is behind the last "::" that no brackets hold. */
static const char *last_part(const char *text, bool before_parameters)
{
	static const char anonymous[] = "(anonymous namespace)";
	const char *part = text, *at;
	unsigned depth = 0;

	for (at = text; *at; at++) {
		if (!strncmp(at, anonymous, sizeof(anonymous) - 1)) {
			at += sizeof(anonymous) - 2;
			continue;
		}
		if ((at == part && !strncmp(at, "operator", 8)) || (*at == '(' && !depth && before_parameters))
			break;
		if (strchr("<({", *at))
			depth++;
		else if (strchr(">)}", *at))
			depth -= depth != 0;
		else if (!depth && at[0] == ':' && at[1] == ':')
			part = ++at + 1;
	}
	return part;
}

/* Class from one symbol, method and parameters from another. A destructor is named after its class, so its name is
 * made here: "Foo<int>" -> "~Foo()". */
int virtual_name__append(const struct symbol_table *table, uint32_t row, struct buf *ret)
{
	static const char type[] = "_ZTI", words[] = "typeinfo for ";
	struct virtual_name name = table->virtuals[row];
	_cleanup_(buf__free) struct buf class = {}, method = {};
	char mangled[VTABLE_NAME_MAX + sizeof(type)], *plain;
	const char *text, *last;
	int err;

	memcpy(mangled, type, sizeof(type) - 1);
	err = vtable__class_name(table->image, name.class, mangled + sizeof(type) - 1);
	if (err)
		return err;
	if (!demangle__append(mangled, SYMBOL_DISPLAY_MAX, &class) || class.len < sizeof(words) ||
	    memcmp(class.data, words, sizeof(words) - 1))
		return -ENOENT;
	err = vtable__text(table->bytes, table->strings + name.method, mangled, VTABLE_NAME_MAX);
	if (err)
		return err;
	if (!demangle__append(mangled, SYMBOL_DISPLAY_MAX, &method))
		return -ENOENT;
	err = buf__append(&class, "", 1) ?: buf__append(&method, "", 1);
	if (err)
		return err;
	plain = class.data + sizeof(words) - 1;
	text = last_part(method.data, true);
	err = buf__puts(ret, plain) ?: buf__puts(ret, "::");
	if (err || *text != '~')
		return err ?: buf__puts(ret, text);
	last = last_part(plain, false);
	return buf__printf(ret, "~%.*s()", (int)strcspn(last, "<"), last);
}

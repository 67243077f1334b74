/* SPDX-License-Identifier: MIT */
/* /proc/kallsyms -> a table. "ffffffff81000000 T _stext" and, for modules,
 * "ffffffffc0000000 t init\t[ext4]". It has no sizes. */
#pragma once

#include "symbols/table.h"

#define KALLSYMS_TEXT_MAX (64u << 20)
/* Beyond this a function without a successor does not go on: the longest of 6.18
 * have some 40 KB. */
#define KALLSYMS_EXTEND (64u << 10)

struct kallsyms;
int kallsyms__new(struct kallsyms **ret);
struct kallsyms *kallsyms__free(struct kallsyms *kallsyms); /* NULL */
/* Text in pieces, cut anywhere. -ENOMEM, -EFBIG. */
int kallsyms__feed(struct kallsyms *kallsyms, const char *text, size_t len);
/* So far all functions were at 0: the kernel hides where they are, and the rest will say the same. */
bool kallsyms__hidden(const struct kallsyms *kallsyms);
/* After the last piece: the table, whose names ("name" or "name\t[module]") are
 * in `ret_names`, which is to outlive it. -EACCES: all addresses were 0; -ENOENT: no text. */
int kallsyms__finish(struct kallsyms *kallsyms, struct elf_bytes *ret_names,
		     struct symbol_table *ret);

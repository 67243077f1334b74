/* SPDX-License-Identifier: MIT */
/* Names functions that XLA compiled, from XLA's optimised HLO text (`compiled.as_text()` in JAX, or XLA's dumps):
 * maps each function to an instruction's op_name, such as "jit(work)/tanh", and its source line. XLA names a
 * function after the instruction it was made from, or after a computation (a sort's comparison); a computation gets
 * the operation of the instruction that applies it. An instruction without op_name (a fusion of what XLA had split)
 * gets that of its computation. Private to readers of recordings.
 *
 * Names are unique only within a module: a name that several modules use for different operations is not translated.
 * Errors: -errno; -EBADMSG: no instruction in the text has an op_name. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hlo_op {
	const char *name; /* "jit(work)/tanh" */
	const char *file; /* "": not known */
	uint32_t line;    /* 0: not known */
};

struct hlo;
/* The text of one module, or of several, concatenated. */
int hlo__new(const char *text, size_t len, struct hlo **ret);
/* NULL: not known. Valid until the hlo is freed. */
const struct hlo_op *hlo__find(struct hlo *hlo, const char *function);
/* How many calls of hlo__find() found an operation. */
uint32_t hlo__found(const struct hlo *hlo);
void hlo__free(struct hlo *hlo);

/* SPDX-License-Identifier: MIT */
/* What XLA's optimised HLO text says of the functions that XLA made (`compiled.as_text()` of JAX, XLA's own dumps): an
 * instruction's op_name, and the line of the source that it is of. XLA calls a function by the instruction that it is made
 * of, or by a computation (a sort's order): that one has what the instruction has that applies it. An instruction without an
 * op_name (a fusion of what XLA has split) is of what its computation does. Private to readers of recordings.
 *
 * Names are unique in a module only: one that several have, for different operations, is of none.
 * Errors: -errno; -EBADMSG: no instruction in it has an op_name. */
#ifndef CPROFD_EXPORT_HLO_H
#define CPROFD_EXPORT_HLO_H

#include <stddef.h>
#include <stdint.h>

struct hlo_op {
	const char *name; /* "jit(work)/tanh" */
	const char *file; /* ""; not known */
	uint32_t line;    /* 0: not known */
};

struct hlo;
/* One module or several, one after another. */
int hlo__new(const char *text, size_t len, struct hlo **ret);
/* NULL: of none. Valid until the hlo is freed. */
const struct hlo_op *hlo__find(struct hlo *hlo, const char *function);
/* How many calls of hlo__find() found one. */
uint32_t hlo__met(const struct hlo *hlo);
struct hlo *hlo__free(struct hlo *hlo); /* NULL */

#endif

/* SPDX-License-Identifier: MIT */
/* The maps of a dump through fds that were handed over: what an engine does with them, without any capability.
 * What lies in them was written by the kernel side (include/cprofd/dump.h) and is not trusted further than that.
 * Errors: -errno. Threads: one. */
#ifndef CPROFD_BROKER_SLOTS_H
#define CPROFD_BROKER_SLOTS_H

#include <stdint.h>

#include "cprofd/dump.h"

struct dump_slots;
/* The fds are borrowed for the call. */
int dump_slots__new(int iterator, int slots, int wanted, struct dump_slots **ret);
struct dump_slots *dump_slots__free(struct dump_slots *slots); /* NULL */

/* All threads, now; those that are wanted and on no CPU fill their slots. *ret_rows is valid until the next
 * call. */
int dump_slots__pass(struct dump_slots *slots, const struct dump_thread **ret_rows, uint32_t *ret_n);

/* Slot `i` waits for the thread from here on; 0: for none. */
int dump_slots__want(struct dump_slots *slots, uint32_t i, uint32_t tid);
/* Again for the same thread. */
void dump_slots__again(struct dump_slots *slots, uint32_t i);
/* NULL: it is not filled yet. */
const struct dump_slot *dump_slots__done(const struct dump_slots *slots, uint32_t i);

#endif

/* SPDX-License-Identifier: MIT */
/* The maps of a dump through fds that the broker handed over: what an engine does with them, without any capability.
 * Their contents were written by the BPF programs (include/cprofd/dump.h) and are trusted no further than that.
 * Errors: -errno. Threads: one. */
#pragma once

#include <stdint.h>

#include "cprofd/dump.h"

struct dump_slots;
/* The fds are borrowed for the call. */
int dump_slots__new(int iterator, int slots, int wanted, struct dump_slots **ret);
void dump_slots__free(struct dump_slots *slots);

/* One pass over all threads; those that are wanted and run on no CPU fill their slots. *ret_rows is valid until the
 * next call. */
int dump_slots__pass(struct dump_slots *slots, const struct dump_thread **ret_rows, uint32_t *ret_n);

/* Requests a thread for slot `i`; 0: none. */
int dump_slots__want(struct dump_slots *slots, uint32_t i, uint32_t tid);
/* Requests the same thread again. */
void dump_slots__again(struct dump_slots *slots, uint32_t i);
/* NULL: not filled yet. */
const struct dump_slot *dump_slots__done(const struct dump_slots *slots, uint32_t i);

/* SPDX-License-Identifier: MIT */
/* The CPython frame walker: from a thread's thread pointer to its Python frames.
 *
 * Header-only over host_read(), compiled into BPF and into user space. struct py_layout is all it knows of a version
 * of CPython.
 *
 * The path: the thread pointer -> the thread state with this thread_id -> its innermost frame -> outwards along
 * `back`/`previous`. Each frame yields a capture key (which code object) and an offset in the bytecode.
 *
 * The target changes from sample to sample, so each sample verifies:
 *  - The thread state: it is used if its thread_id is ours and it has a frame (a freed one has none); otherwise the
 *    lists of all interpreters are searched.
 *  - The code object. It is identified by a *key*, never by its address. On 3.12+ the key is made of co_version, which
 *    an interpreter never assigns twice (Objects/codeobject.c, _PyCode_New). Before that, and while the process has several
 *    interpreters, of words that a new object at the same address would change, and of the contents of its names and line
 *    table, because objects are freed and created again with everything at the same addresses.
 *  - Verifying a key costs a read per frame, most of a walk. So a slot for each code address keeps the key and the time
 *    of its last verification, with the globals of its frame: code of another module at that address has others. Code
 *    without a file is verified in every sample; code of a file again after PY_PROOF_NS, sooner while it is young, and
 *    in every sample once its slot was found to have changed.
 *  - The end of the chain: an entry frame (3.11) or a shim (3.12+). A chain that ends elsewhere was just being linked,
 *    and is reported as FRAME_HALF.
 *
 * Frames of 3.11+ are adjacent on the thread's data stack, so its newest piece is read at once and most frames cost
 * no read of their own.
 *
 * The fast path (py_walk_hot) handles frames whose code was verified recently; all rare cases go through
 * py_walk_one. The parts are in py/.
 *
 * The includer says which keys were captured: py_seen(key), defined before this header is included in BPF. In user
 * space none is, unless PY_SEEN says that one is defined. And with PY_STACK it defines py_stack(): what it has read of the
 * thread's C stack, at the instant of the walk, or NULL. What lies there is not read again: the _PyCFrames of 3.11 and 3.12,
 * the shims of 3.12+. */
#pragma once

#include "py/chain.h"
#include "py/repair.h"

HOST_INLINE void py_walk_begin(struct py_walk *walk)
{
	walk->n = 0;
	walk->n_todo = 0;
	walk->n_tstates = 0;
	walk->loss = 0;
	walk->fault = 0;
	walk->window = 0;
	walk->window_end = 0;
	walk->shims_end = 0;
	walk->shim = 0;
	walk->several = 0;
	walk->proven = py_recent_mix(walk->salt ^ walk->round, walk->now);
	walk->first = 0;
	walk->which = 0;
}

/* Walks all thread states of the thread of walk->thread_pointer.
 *   In: thread_pointer, hint, hint_until, hint_cframe, hint_caller, hint_shim, now, salt and round.
 *   Out: out->frames[0..n), todo[0..n_todo), loss, and tstates[0] as the next hint. */
HOST_INLINE void py_walk(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	py_walk_begin(walk);
	py_walk_chain(walk, image, out, PY_WALK_FIRST);
	py_walk_others(walk, image, out);
	py_walk_end(walk, image, out);
}

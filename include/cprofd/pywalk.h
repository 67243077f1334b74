/* SPDX-License-Identifier: MIT */
/* The CPython frame walker: from a thread's register to its Python frames.
 *
 * Header-only over host_read(), compiled into BPF and into user space. It
 * knows a version of CPython only through struct py_layout.
 *
 * The way: the thread pointer -> the thread state whose thread_id it is -> its innermost
 * frame -> outwards along `back`/`previous`. Each frame gives a capture key
 * and an offset.
 *
 * What is proven at each sample, since the target runs on:
 *  - A thread state is taken when its thread_id is ours and it has a frame, else
 *    the interpreters' lists are searched: a freed one has no frame.
 *  - A code object is known by a *key*, never by its address: on 3.12+ from
 *    co_version, which the interpreter never gives twice (Objects/codeobject.c,
 *    _PyCode_New); before that from the words of the object that a new one at
 *    the same place would change, and from the content of its names and line
 *    table, because objects are freed and made again at the same addresses all
 *    the way down.
 *  - Proving a key costs a read for each frame, most of a walk. So a slot for
 *    each code address keeps the key and the time of its last proof, with the
 *    globals of its frame: code of another module at that address has others.
 *    Code of no file is proven at every sight; code of a file again after
 *    PY_PROOF_NS, sooner while it is young, and at every sight once its slot
 *    was found to have changed.
 *  - A chain must end where the interpreter lets one end: with an entry frame
 *    (3.11) or a shim (3.12+). One that ends elsewhere was being linked and is
 *    reported as FRAME_HALF.
 *
 * Frames of 3.11+ lie one above the other on the thread's data stack, so the newest
 * piece of it is read at once and most frames cost no read of their own.
 *
 * The hot path (py_walk_hot) takes frames whose code has a fresh proof; all that is rare goes
 * through py_walk_one. The parts are in py/.
 *
 * The host says which keys were captured: py_seen(key), defined before this
 * header is included in BPF; in user space none is, unless PY_SEEN says that one is defined.
 */
#ifndef CPROFD_PYWALK_H
#define CPROFD_PYWALK_H

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
	walk->proven = py_recent_mix(walk->salt, walk->now);
	walk->first = 0;
}

/* Walks all thread states of the thread of walk->thread_pointer. Before: thread_pointer, hint, hint_until, hint_cframe, hint_caller, hint_shim,
 * now and salt set. `stack`: what was read of the thread's C stack, if anything was (or NULL).
 * After: out->frames[0..n), todo[0..n_todo), loss, tstates[0] as the next hint. */
HOST_INLINE void py_walk(struct py_walk *walk, const struct image *image, struct py_out *out, const struct host_window *stack)
{
	__u32 i;

	py_walk_begin(walk);
	py_walk_chain(walk, image, out, PY_WALK_FIRST, stack);
	for (i = 0; i < PY_TSTATES_MAX; i++) /* the others in order */
		if (i < walk->n_tstates && i != walk->first && !walk->loss)
			py_walk_chain(walk, image, out, i, NULL);
}

#endif

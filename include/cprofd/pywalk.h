/* The CPython frame walker: from a thread's register to its Python frames.
 *
 * Header-only over host_read(), compiled into BPF and into user space. It
 * knows a version of CPython only through struct py_layout.
 *
 * The way: fsbase -> the thread state whose thread_id it is -> its innermost
 * frame -> outwards along `back`/`previous`. Each frame gives a capture key
 * and an offset.
 *
 * What is proven at each sample, since the target runs on:
 *  - A thread state is taken only when it is a member of its interpreter's
 *    list now (prev->next == it, or the head) and its thread_id is ours: a
 *    freed one that still looks whole is not.
 *  - A code object is known by a *key*, never by its address: on 3.12+ from
 *    co_version, which the interpreter never gives twice (Objects/codeobject.c,
 *    _PyCode_New); before that from the words of the object that a new one at
 *    the same place would change (`shallow`), and for code that no file holds
 *    (exec, templates: "<string>") from the content of its names and line
 *    table as well (`deep`), because such objects are freed and made again at
 *    the same addresses all the way down.
 *  - A chain must end where the interpreter lets one end: with an entry frame
 *    (3.11) or a shim (3.12+). One that ends elsewhere was being linked and is
 *    reported as FRAME_HALF.
 *
 * The host says what it has seen: py_seen(key) before this header is included
 * in BPF; in user space nothing is.
 */
#ifndef CPROFD_PYWALK_H
#define CPROFD_PYWALK_H

#include "host.h"
#include "loss.h"
#include "pylayout.h"
#include "record.h"

#define PY_TSTATES_MAX 4u       /* thread states of one OS thread that are followed */
#define PY_INTERPRETERS_MAX 256u
#define PY_THREADS_MAX 65536u   /* thread states looked through for ours */
#define PY_RAW_FRAME 128u
#define PY_RAW_CODE 192u
#define PY_RAW_TSTATE 256u

enum py_seen { PY_NEW = 0, PY_SEEN = 1, PY_SEEN_DEEP = 2 };

struct py_todo {                /* a code object to capture */
	__u64 code;             /* address */
	__u64 key;
	__u64 shallow;          /* its first-level key, 0: none (3.12+) */
	__u64 deep;             /* 1: the first level does not suffice */
};

struct py_walk {
	/* in */
	__u64 fsbase;
	__u64 hint;             /* thread state found for this thread before, or 0 */
	/* state and out */
	__u64 frame;            /* next frame, 0: none */
	__u64 interp;
	__u64 candidate;        /* search */
	__u64 tstates[PY_TSTATES_MAX];
	__u64 first_frames[PY_TSTATES_MAX];
	__u32 n_tstates, next_tstate;
	__u32 n;                /* frames found */
	__u32 n_todo;
	__u32 flags;            /* PY_FRAME_* for the next frame */
	__u16 loss;             /* enum loss: where the walk was cut */
	__u8 closed;            /* the last frame was an entry: the chain may end */
	__u8 holds_gil;
	__u64 fault;            /* address that was not readable */
	__u8 raw[PY_RAW_TSTATE];
	__u8 code[PY_RAW_CODE];
	struct py_todo todo[RECORD_CODES_PER_TICK];
	__u64 head[12];         /* room for the record's head: a record is sent without a copy */
	struct py_frame frames[RECORD_PY_FRAMES_MAX];
};

struct py_walk_context {
	struct py_walk *walk;
	const struct image *image;
};

#if !defined(__bpf__)
HOST_INLINE enum py_seen py_seen(__u64 key)
{
	return PY_NEW;
}
#endif

HOST_INLINE __u64 py_mix(__u64 h, __u64 word)
{
	h ^= word;
	h *= 0x9e3779b97f4a7c15ull;
	h ^= h >> 32;
	return h;
}

/* Fields of raw bytes at offsets that only the layout knows. */
HOST_INLINE __u64 py_u64(const __u8 *raw, __u32 size, __u32 offset)
{
	if (offset > size - 8)
		return 0;
	return *(const __u64 *)(raw + offset);
}

HOST_INLINE __u32 py_u32(const __u8 *raw, __u32 size, __u32 offset)
{
	if (offset > size - 4)
		return 0;
	return *(const __u32 *)(raw + offset);
}

HOST_INLINE __u8 py_u8(const __u8 *raw, __u32 size, __u32 offset)
{
	if (offset > size - 1)
		return 0;
	return raw[offset];
}

HOST_INLINE long py_read64(struct py_walk *walk, __u64 address, __u64 *ret)
{
	long err = host_read(ret, sizeof(*ret), address);

	if (err)
		walk->fault = address;
	return err;
}

/* --- thread states --- */

/* Reads a thread state into raw and checks that it is a living one of ours. */
HOST_INLINE int py_tstate_check(struct py_walk *walk, const struct image *image, __u64 tstate)
{
	const struct py_layout *l = &image->layout;
	__u64 prev, link;

	if (host_read(walk->raw, PY_RAW_TSTATE, tstate)) {
		walk->fault = tstate;
		return 0;
	}
	if (py_u64(walk->raw, PY_RAW_TSTATE, l->tstate_thread_id) != walk->fsbase)
		return 0;
	walk->interp = py_u64(walk->raw, PY_RAW_TSTATE, l->tstate_interp);
	prev = py_u64(walk->raw, PY_RAW_TSTATE, l->tstate_prev);
	if (py_read64(walk, prev ? prev + l->tstate_next : walk->interp + l->threads_head, &link))
		return 0;
	return link == tstate;
}

/* The innermost frame of the thread state in raw. */
HOST_INLINE __u64 py_tstate_frame(struct py_walk *walk, const struct image *image)
{
	__u64 frame = py_u64(walk->raw, PY_RAW_TSTATE, image->layout.tstate_frame);

	if (image->layout.frames == PY_FRAMES_CFRAME && frame) {
		if (py_read64(walk, frame + image->layout.cframe_current_frame, &frame)) {
			walk->loss = LOSS_TSTATE_READ;
			return 0;
		}
	}
	return frame;
}

HOST_INLINE void py_tstate_add(struct py_walk *walk, const struct image *image, __u64 tstate)
{
	__u32 i = walk->n_tstates;

	if (i >= PY_TSTATES_MAX)
		return;
	walk->tstates[i] = tstate;
	walk->first_frames[i] = py_tstate_frame(walk, image);
	walk->n_tstates = i + 1;
}

HOST_LOOP_FN long py_search_thread(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	const struct image *image = c->image;
	const struct py_layout *l = &image->layout;

	if (!walk->candidate)
		return 1;
	if (host_read(walk->raw, PY_RAW_TSTATE, walk->candidate)) {
		walk->fault = walk->candidate;
		walk->loss = LOSS_TSTATE_READ;
		walk->candidate = 0;
		return 1;
	}
	if (py_u64(walk->raw, PY_RAW_TSTATE, l->tstate_thread_id) == walk->fsbase)
		py_tstate_add(walk, image, walk->candidate);
	walk->candidate = py_u64(walk->raw, PY_RAW_TSTATE, l->tstate_next);
	return 0;
}

HOST_LOOP_FN long py_search_interpreter(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	const struct py_layout *l = &c->image->layout;

	if (!walk->interp)
		return 1;
	if (py_read64(walk, walk->interp + l->threads_head, &walk->candidate)) {
		walk->loss = LOSS_TSTATE_READ;
		return 1;
	}
	host_loop(PY_THREADS_MAX, py_search_thread, context);
	if (walk->candidate && !walk->loss)
		walk->loss = LOSS_TSTATE_SEARCH;
	if (py_read64(walk, walk->interp + l->interp_next, &walk->interp))
		return 1;
	return 0;
}

/* Finds the thread states of this OS thread, the active one first. */
HOST_INLINE void py_find_tstates(struct py_walk_context *c)
{
	struct py_walk *walk = c->walk;
	const struct image *image = c->image;
	const struct py_layout *l = &image->layout;
	__u64 heads[2] = {}; /* interpreters.head, interpreters.main: the newest, the oldest */
	__u64 current = 0;

	if (host_read(heads, sizeof(heads), image->runtime + l->interpreters_head)) {
		walk->fault = image->runtime + l->interpreters_head;
		walk->loss = LOSS_TSTATE_READ;
		return;
	}
	if (l->tstate_current != ~0u)
		py_read64(walk, image->runtime + l->tstate_current, &current);
	/* One interpreter, and a thread state that still stands: the usual case. */
	if (heads[0] == heads[1] && walk->hint &&
	    (!current || current == walk->hint || l->tstate_current == ~0u) &&
	    py_tstate_check(walk, image, walk->hint)) {
		py_tstate_add(walk, image, walk->hint);
	} else {
		walk->interp = heads[0];
		host_loop(PY_INTERPRETERS_MAX, py_search_interpreter, c);
		/* The one that runs comes first; the list has the newest first already,
		 * which is the inner one when an interpreter runs another. */
		if (walk->n_tstates > 1 && current) {
			__u32 i;

			for (i = 1; i < PY_TSTATES_MAX; i++) {
				if (i < walk->n_tstates && walk->tstates[i] == current) {
					__u64 frame = walk->first_frames[i];

					walk->tstates[i] = walk->tstates[0];
					walk->first_frames[i] = walk->first_frames[0];
					walk->tstates[0] = current;
					walk->first_frames[0] = frame;
				}
			}
		}
	}
	walk->holds_gil = walk->n_tstates && current && walk->tstates[0] == current;
}

/* --- code objects --- */

/* Mixes a string object's content into h: its hash, or its first bytes. */
HOST_INLINE __u64 py_mix_string(struct py_walk *walk, const struct py_layout *l, __u64 h,
				__u64 string)
{
	__u64 words[8] = {}; /* from `length` on: length, hash, state, data... */

	if (!string || host_read(words, sizeof(words), string + l->unicode_length)) {
		walk->fault = string;
		return py_mix(h, string);
	}
	h = py_mix(h, words[0]);
	if (words[1] != ~0ull)
		return py_mix(h, words[1]);
	h = py_mix(h, words[3]);
	h = py_mix(h, words[4]);
	h = py_mix(h, words[5]);
	h = py_mix(h, words[6]);
	return py_mix(h, words[7]);
}

/* The second level: what the object points to. */
HOST_INLINE __u64 py_code_deep(struct py_walk *walk, const struct py_layout *l, __u64 h)
{
	__u64 name = py_u64(walk->code, PY_RAW_CODE, l->code_name);
	__u64 lines = py_u64(walk->code, PY_RAW_CODE, l->code_linetable);
	__u64 table[4] = {}; /* size, hash, first 16 bytes */

	h = py_mix_string(walk, l, h, name);
	h = py_mix_string(walk, l, h, py_u64(walk->code, PY_RAW_CODE, l->code_filename));
	if (l->code_qualname != PY_ABSENT) {
		__u64 qualname = py_u64(walk->code, PY_RAW_CODE, l->code_qualname);

		if (qualname != name)
			h = py_mix_string(walk, l, h, qualname);
	}
	if (host_read(table, sizeof(table), lines + l->var_size))
		walk->fault = lines;
	h = py_mix(h, table[0]);
	h = py_mix(h, table[2]);
	return py_mix(h, table[3]);
}

HOST_INLINE void py_todo_add(struct py_walk *walk, __u64 code, __u64 key, __u64 shallow, __u64 deep)
{
	__u32 i = walk->n_todo;
	struct py_todo *todo;

	if (i >= RECORD_CODES_PER_TICK)
		return;
	todo = &walk->todo[i];
	todo->code = code;
	todo->key = key;
	todo->shallow = shallow;
	todo->deep = deep;
	walk->n_todo = i + 1;
}

/* Is the code object in walk->code a whole, living one? A dying one has a count of 0, a freed
 * one an address in its place (pymalloc's and malloc's free lists link through the first word). */
HOST_INLINE int py_code_lives(struct py_walk *walk, const struct image *image)
{
	const struct py_layout *l = &image->layout;
	__u64 refcnt = py_u64(walk->code, PY_RAW_CODE, l->object_refcnt);

	if (py_u64(walk->code, PY_RAW_CODE, l->object_type) != image->code_type)
		return 0;
	if (l->flags & PY_FREE_THREADED)
		return 1;
	if (l->version >= 0x030c00)
		return (refcnt & 0xffffffffu) != 0;
	return refcnt != 0 && refcnt >> 32 == 0;
}

/* The key of the code object at `code`; 0 when it is none (loss says why). */
HOST_INLINE __u64 py_code_key(struct py_walk *walk, const struct image *image, __u64 code)
{
	const struct py_layout *l = &image->layout;
	__u64 shallow, key, deep = 0;
	enum py_seen seen;
	__u32 version = 0;

	if (l->code_version != PY_ABSENT) {
		if (host_read(&version, sizeof(version), code + l->code_version)) {
			walk->fault = code;
			walk->loss = LOSS_CODE_READ;
			return 0;
		}
		if (version) {
			key = py_mix(py_mix(image->runtime, code), version) | 1;
			if (py_seen(key) != PY_NEW)
				return key;
		}
	}
	if (host_read(walk->code, PY_RAW_CODE, code)) {
		walk->fault = code;
		walk->loss = LOSS_CODE_READ;
		return 0;
	}
	if (!py_code_lives(walk, image)) {
		walk->loss = LOSS_CODE_DYING;
		return 0;
	}
	if (version) {
		py_todo_add(walk, code, key, 0, 0);
		return key;
	}
	shallow = py_mix(image->runtime, code);
	shallow = py_mix(shallow, py_u64(walk->code, PY_RAW_CODE, l->code_name));
	shallow = py_mix(shallow, py_u64(walk->code, PY_RAW_CODE, l->code_filename));
	shallow = py_mix(shallow, py_u64(walk->code, PY_RAW_CODE, l->code_linetable));
	shallow = py_mix(shallow, py_u64(walk->code, PY_RAW_CODE, l->var_size));
	shallow = py_mix(shallow, py_u32(walk->code, PY_RAW_CODE, l->code_firstlineno) |
					  (__u64)py_u32(walk->code, PY_RAW_CODE, l->code_flags) << 32);
	shallow |= 1;
	seen = py_seen(shallow);
	if (seen == PY_SEEN)
		return shallow;
	if (seen == PY_NEW) {
		/* Is it from a file? Then it shares names with a module that keeps them. */
		__u64 filename = py_u64(walk->code, PY_RAW_CODE, l->code_filename);
		__u8 first = 0;

		host_read(&first, 1, filename + l->unicode_ascii_data);
		deep = first != '/';
		if (!deep) {
			py_todo_add(walk, code, shallow, shallow, 0);
			return shallow;
		}
	}
	key = py_code_deep(walk, l, shallow) | 1;
	if (seen != PY_SEEN_DEEP || py_seen(key) == PY_NEW)
		py_todo_add(walk, code, key, shallow, 1);
	return key;
}

/* --- frames --- */

/* The offset of the instruction in a frame of 3.11+: a pointer into the bytecode. */
HOST_INLINE __s32 py_offset_pointer(struct py_walk *walk, const struct py_layout *l, __u64 code)
{
	__u64 pointer = py_u64(walk->raw, PY_RAW_FRAME, l->frame_lasti);
	__u64 start = code + l->code_instructions;

	if (l->flags & PY_TLBC && l->frame_tlbc_index != PY_ABSENT) {
		/* The thread's own copy of the bytecode; entry 0 is co_code_adaptive. */
		__s32 index = (__s32)py_u32(walk->raw, PY_RAW_FRAME, l->frame_tlbc_index);
		__u64 array = 0, copy = 0;

		if (index > 0 && !py_read64(walk, code + l->code_tlbc, &array) && array &&
		    !py_read64(walk, array + l->tlbc_entries + (__u64)(__u32)index * 8, &copy) && copy)
			start = copy;
	}
	return (__s32)(pointer - start);
}

/* One frame; 1 when the chain ends. */
HOST_LOOP_FN long py_walk_frame(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	const struct image *image = c->image;
	const struct py_layout *l = &image->layout;
	struct py_frame *out;
	__u64 code, back, key;
	__u32 flags = walk->flags, n = walk->n;
	__s32 offset;

	if (!walk->frame) {
		/* 3.11+: a chain ends below an entry frame or a shim, else it was half linked. */
		if (l->frames != PY_FRAMES_OBJECTS && !walk->closed && !walk->loss)
			walk->loss = LOSS_FRAME_HALF;
		return 1;
	}
	if (host_read(walk->raw, PY_RAW_FRAME, walk->frame)) {
		walk->fault = walk->frame;
		walk->loss = LOSS_FRAME_READ;
		return 1;
	}
	back = py_u64(walk->raw, PY_RAW_FRAME, l->frame_back);
	if (l->owner_native_first &&
	    py_u8(walk->raw, PY_RAW_FRAME, l->frame_owner) >= l->owner_native_first) {
		/* A shim: native code entered the interpreter here. */
		if (n > 0 && n <= RECORD_PY_FRAMES_MAX)
			walk->frames[n - 1].flags |= PY_FRAME_ENTRY;
		walk->closed = 1;
		walk->frame = back;
		return 0;
	}
	if (n >= RECORD_PY_FRAMES_MAX) {
		walk->loss = LOSS_FRAME_DEPTH;
		return 1;
	}
	code = py_u64(walk->raw, PY_RAW_FRAME, l->frame_code);
	if (l->flags & PY_TAGGED_REFS)
		code &= ~7ull;
	key = py_code_key(walk, image, code);
	if (!key) {
		/* 3.11 clears the innermost frame before it unlinks it: that call is over. */
		if (n == 0 && walk->loss == LOSS_CODE_DYING && back) {
			walk->loss = 0;
			walk->closed = 0;
			walk->frame = back;
			return 0;
		}
		return 1;
	}
	if (l->lasti == PY_LASTI_POINTER) {
		offset = py_offset_pointer(walk, l, code);
	} else {
		offset = (__s32)py_u32(walk->raw, PY_RAW_FRAME, l->frame_lasti);
		if (l->lasti == PY_LASTI_UNITS && offset > 0)
			offset *= 2;
	}
	if (l->frames == PY_FRAMES_OBJECTS) {
		flags |= PY_FRAME_ENTRY;
	} else if (l->frame_is_entry != PY_ABSENT) {
		walk->closed = py_u8(walk->raw, PY_RAW_FRAME, l->frame_is_entry) != 0;
		if (walk->closed)
			flags |= PY_FRAME_ENTRY;
	} else {
		walk->closed = 0;
	}
	if (offset < 0)
		flags |= PY_FRAME_STARTING;
	out = &walk->frames[n];
	out->code = key;
	out->offset = offset;
	out->flags = flags;
	walk->flags = 0;
	walk->n = n + 1;
	walk->frame = back;
	return 0;
}

/* Walks all thread states of the thread whose fsbase is walk->fsbase. Before: fsbase and hint set.
 * After: frames[0..n), todo[0..n_todo), loss, tstates[0] as the next hint. */
HOST_INLINE void py_walk(struct py_walk *walk, const struct image *image)
{
	struct py_walk_context c = {.walk = walk, .image = image};
	__u32 i;

	walk->n = 0;
	walk->n_todo = 0;
	walk->n_tstates = 0;
	walk->flags = 0;
	walk->loss = 0;
	walk->closed = 1;
	walk->fault = 0;
	py_find_tstates(&c);
	for (i = 0; i < PY_TSTATES_MAX; i++) {
		if (i >= walk->n_tstates || walk->loss)
			break;
		walk->frame = walk->first_frames[i];
		walk->closed = 1;
		walk->flags = i && walk->n ? PY_FRAME_TSTATE : 0;
		host_loop(2 * RECORD_PY_FRAMES_MAX, py_walk_frame, &c);
		if (walk->frame && !walk->loss)
			walk->loss = LOSS_FRAME_CYCLE;
	}
}

#endif

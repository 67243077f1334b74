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
 *  - A thread state is taken when its thread_id is ours and it has a frame, else
 *    the interpreters' lists are searched: a freed one has no frame.
 *  - A code object is known by a *key*, never by its address: on 3.12+ from
 *    co_version, which the interpreter never gives twice (Objects/codeobject.c,
 *    _PyCode_New); before that from the words of the object that a new one at
 *    the same place would change, and for code that no file holds (exec,
 *    templates: "<string>") from the content of its names and line table as
 *    well, because such objects are freed and made again at the same addresses
 *    all the way down.
 *  - Proving a key costs a read for each frame, most of a walk. So a slot for
 *    each code address keeps the key and the time of its last proof. Code of
 *    no file is proven at every sight; code of a file again after
 *    PY_PROOF_NS, and at every sight once its slot was found to have changed.
 *  - A chain must end where the interpreter lets one end: with an entry frame
 *    (3.11) or a shim (3.12+). One that ends elsewhere was being linked and is
 *    reported as FRAME_HALF.
 *
 * Frames of 3.11+ lie one above the other on the thread's data stack, so a page
 * of it is read at once and most frames cost no read of their own.
 *
 * The hot path (py_walk_hot) takes a frame that lies in that page and whose code
 * has a fresh proof; all others, and all that is rare, go through py_walk_one.
 *
 * The host says which keys were captured: py_seen(key), defined before this
 * header is included in BPF; in user space none is, unless PY_SEEN says that one is defined.
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
#define PY_RAW_TSTATE 320u

#define PY_WINDOW 8192u         /* bytes of the data stack, read at once */
#define PY_STACK_WORDS 64u      /* locals and stack of a frame that a repair looks through */
#define PY_ROUND 8u              /* frames in a round of the loop */
#define PY_SETS 512u            /* of four slots */
#define PY_RECENT 512u          /* slots by place: a place is 64 bytes of the data stack */
#define PY_PROOF_NS (1ull << 27) /* 134 ms */
#define PY_HINT_NS (1ull << 25) /* 34 ms */

struct py_todo {                /* a code object to capture */
	__u64 code;             /* address */
	__u64 key;
};

/* The last proof of a code object. `word` is its address mixed with the process (43 bits, exact),
 * PY_EACH_SIGHT, and the time until which it holds (20 bits, in units of PY_PROOF_NS / 8, modulo). */
struct py_slot {
	__u64 word;
	__u64 key;              /* 0: an empty slot */
};
#define PY_TAG_SHIFT 21
#define PY_TAG_MASK ((1ull << 43) - 1)
#define PY_EACH_SIGHT (1ull << 20)
#define PY_UNTIL_MASK (PY_EACH_SIGHT - 1)
#define PY_UNTIL_SHIFT 24

/* Where frames go: the record that is sent, so that nothing is copied. */
struct py_out {
	__u64 head[12];         /* struct record_sample and struct part_py_frames */
	struct py_frame frames[RECORD_PY_FRAMES_MAX];
};

/* A thread state of the thread that is walked. */
struct py_tstate {
	__u64 address;
	__u64 frame;            /* its innermost */
	/* Where the newest piece of its data stack begins (0: not known), and its first free byte. */
	__u64 chunk, top;
	__u64 cframe;           /* 3.11, 3.12: the _PyCFrame in front */
	__u64 caller;           /* 3.11, 3.12: the _PyCFrame of the eval loop that called this one */
};

struct py_walk {
	/* The window, room for a frame that sticks out of it, and a frame read by itself. It comes first: a
	 * copy between places that are aligned alike takes half the time, and chunks begin with a page. */
	__u8 memory[PY_WINDOW + 2 * PY_RAW_FRAME];
	__u8 raw[PY_RAW_TSTATE];
	/* in */
	__u64 fsbase;
	__u64 hint;             /* thread state found for this thread before, or 0 */
	__u64 hint_until;       /* ns: till then the process has one interpreter */
	__u64 now;              /* CLOCK_MONOTONIC ns */
	__u64 salt;             /* of the process: equal addresses of two processes differ */
	/* state and out */
	__u64 frame;            /* next frame, 0: none */
	__u64 chunk, top, caller; /* of the thread state that is walked */
	__u64 window;           /* address of memory[0], 0: nothing read */
	__u32 window_end;       /* a frame that begins before this offset is there whole */
	__u32 n;                /* frames found */
	__u32 n_todo;
	__u32 flags;            /* PY_FRAME_* for the next frame */
	__u32 n_tstates;
	__u32 first;            /* which of tstates[] comes first */
	__u16 loss;             /* enum loss: where the walk was cut */
	__u8 closed;            /* the last frame was an entry: the chain may end */
	__u8 code_of_file;      /* of the code object proven last */
	__u32 searched;         /* thread states looked through */
	struct py_tstate tstates[PY_TSTATES_MAX];
	__u64 interp;
	__u64 candidate;        /* search */
	__u64 fault;            /* address that was not readable */
	__u64 leaf;             /* what py_repair knows of the innermost link */
	struct py_slot recent[PY_RECENT]; /* by the place of the frame: the codes of the last walk, in a row */
	__u8 code[PY_RAW_CODE];
	__u64 registers[16];    /* of the thread, for py_repair */
	__u64 words[PY_STACK_WORDS]; /* of a frame's stack, for py_repair */
	struct py_todo todo[RECORD_CODES_PER_TICK];
	struct py_slot slots[PY_SETS * 4];
};

/* A function apart: verified once in BPF. */
#if defined(__bpf__)
#define PY_APART __attribute__((noinline))
#else
#define PY_APART static __attribute__((noinline, unused))
#endif

struct py_walk_context {
	struct py_walk *walk;
	const struct image *image;
	struct py_out *out;
};


#if !defined(__bpf__) && !defined(PY_SEEN)
HOST_INLINE int py_seen(__u64 key)
{
	return 0;
}
#endif

HOST_INLINE __u64 py_mix(__u64 h, __u64 word)
{
	h ^= word;
	h *= 0x9e3779b97f4a7c15ull;
	h ^= h >> 32;
	return h;
}

/* Words of raw bytes: a hostile target's frames lie at any address. The verifier allows such loads where
 * the machine does; clang would take them apart if told. */
#if defined(__bpf__)
typedef __u64 py_word64;
typedef __u32 py_word32;
#else
typedef __u64 __attribute__((aligned(1), may_alias)) py_word64;
typedef __u32 __attribute__((aligned(1), may_alias)) py_word32;
#endif

/* Fields of raw bytes at offsets that only the layout knows. */
HOST_INLINE __u64 py_u64(const __u8 *raw, __u32 size, __u32 offset)
{
	if (offset > size - 8)
		return 0;
	return *(const py_word64 *)(raw + offset);
}

HOST_INLINE __u32 py_u32(const __u8 *raw, __u32 size, __u32 offset)
{
	if (offset > size - 4)
		return 0;
	return *(const py_word32 *)(raw + offset);
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

/* Does the thread state found before still serve? Reads it into raw. One that was freed has lost its
 * frames (PyThreadState_Clear), so only one with a frame is taken without a search. */
HOST_INLINE int py_tstate_check(struct py_walk *walk, const struct image *image, __u64 tstate)
{
	const struct py_layout *l = &image->layout;

	if (host_read(walk->raw, PY_RAW_TSTATE, tstate))
		return 0;
	return py_u64(walk->raw, PY_RAW_TSTATE, l->tstate_thread_id) == walk->fsbase;
}

/* Takes the thread state in raw. */
HOST_INLINE void py_tstate_add(struct py_walk *walk, const struct image *image, __u64 tstate)
{
	const struct py_layout *l = &image->layout;
	__u64 frame = py_u64(walk->raw, PY_RAW_TSTATE, l->tstate_frame);
	__u64 front = frame, cframe[2] = {}; /* current_frame, previous: next to each other in both versions */
	__u32 i = walk->n_tstates;
	struct py_tstate *t;

	if (i >= PY_TSTATES_MAX)
		return;
	if (l->frames == PY_FRAMES_CFRAME && frame) {
		if (host_read(cframe, sizeof(cframe), frame + l->cframe_current_frame)) {
			walk->fault = frame;
			walk->loss = LOSS_TSTATE_READ;
			return;
		}
		frame = cframe[0];
	}
	t = &walk->tstates[i];
	t->address = tstate;
	t->frame = frame;
	t->cframe = front;
	t->caller = cframe[1];
	t->chunk = py_u64(walk->raw, PY_RAW_TSTATE, l->tstate_datastack_chunk);
	t->top = py_u64(walk->raw, PY_RAW_TSTATE, l->tstate_datastack_chunk + 8);
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
	long searched;

	if (!walk->interp)
		return 1;
	if (py_read64(walk, walk->interp + l->threads_head, &walk->candidate)) {
		walk->loss = LOSS_TSTATE_READ;
		return 1;
	}
	/* The bound is one for all interpreters: a target that links its lists into rings costs it once. */
	searched = host_loop(PY_THREADS_MAX - walk->searched, py_search_thread, context);
	if (searched > 0 && searched <= PY_THREADS_MAX)
		walk->searched += searched;
	if (walk->candidate && !walk->loss)
		walk->loss = LOSS_TSTATE_SEARCH;
	if (walk->loss)
		return 1;
	if (py_read64(walk, walk->interp + l->interp_next, &walk->interp))
		return 1;
	return 0;
}

/* All thread states of this OS thread, the active one first. */
HOST_INLINE void py_search_tstates(struct py_walk_context *c, __u64 head)
{
	struct py_walk *walk = c->walk;
	const struct py_layout *l = &c->image->layout;
	__u64 current = 0;
	__u32 i;

	walk->n_tstates = 0;
	walk->searched = 0;
	walk->interp = head;
	host_loop(PY_INTERPRETERS_MAX, py_search_interpreter, c);
	if (walk->n_tstates < 2 || l->tstate_current == ~0u ||
	    py_read64(walk, c->image->runtime + l->tstate_current, &current))
		return;
	/* The one that runs comes first; the lists have the newest first already, which is the inner
	 * one when an interpreter runs another. */
	for (i = 0; i < PY_TSTATES_MAX; i++)
		if (i < walk->n_tstates && walk->tstates[i].address == current)
			walk->first = i;
}

/* Finds the thread states of this OS thread. The usual case costs one read: one interpreter, and the
 * thread state found before. That there is one is looked at every PY_HINT_NS. */
PY_APART int py_find_tstates(struct py_walk *walk, const struct image *image)
{
	struct py_walk_context c = {.walk = walk, .image = image};
	__u64 heads[2] = {}; /* interpreters.head, interpreters.main: the newest, the oldest */

	if (!walk || !image)
		return 0;
	if (walk->hint && walk->hint_until > walk->now && py_tstate_check(walk, image, walk->hint)) {
		py_tstate_add(walk, image, walk->hint);
		if (walk->tstates[0].frame)
			return 1;
	}
	walk->hint_until = 0;
	if (host_read(heads, sizeof(heads), image->runtime + image->layout.interpreters_head)) {
		walk->fault = image->runtime + image->layout.interpreters_head;
		walk->loss = LOSS_TSTATE_READ;
		return 0;
	}
	py_search_tstates(&c, heads[0]);
	if (heads[0] == heads[1] && walk->n_tstates == 1)
		walk->hint_until = walk->now + PY_HINT_NS;
	return 1;
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

HOST_INLINE void py_todo_add(struct py_walk *walk, __u64 code, __u64 key)
{
	__u32 i = walk->n_todo;

	if (i >= RECORD_CODES_PER_TICK)
		return;
	walk->todo[i].code = code;
	walk->todo[i].key = key;
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

/* Does a file hold the code whose file name is the string at `filename`? Then what it points to is
 * shared with a module that keeps it. Frozen modules are as good as files. */
HOST_INLINE int py_from_file(const struct py_layout *l, __u64 filename)
{
	char start[8] = {};

	if (host_read(start, sizeof(start), filename + l->unicode_ascii_data))
		return 0;
	if (start[0] == '/')
		return 1;
	return start[0] == '<' && start[1] == 'f' && start[2] == 'r' && start[3] == 'o' &&
	       start[4] == 'z' && start[5] == 'e' && start[6] == 'n' && start[7] == ' ';
}

/* Proves the key of the code object at `code` anew; 0 when it is none (loss says why). `old`: the key that
 * it had, if a file held it. walk->code_of_file: see py_from_file. */
PY_APART __u64 py_code_prove(struct py_walk *walk, const struct image *image, __u64 code, __u64 old)
{
	const struct py_layout *l;
	__u64 key, filename;
	__u32 version = 0;

	if (!walk || !image)
		return 0;
	l = &image->layout;
	if (host_read(walk->code, PY_RAW_CODE, code)) {
		walk->fault = code;
		walk->loss = LOSS_CODE_READ;
		return 0;
	}
	if (!py_code_lives(walk, image)) {
		walk->loss = LOSS_CODE_DYING;
		return 0;
	}
	filename = py_u64(walk->code, PY_RAW_CODE, l->code_filename);
	key = py_mix(walk->salt, code);
	if (l->code_version != PY_ABSENT)
		version = py_u32(walk->code, PY_RAW_CODE, l->code_version);
	if (version) {
		key = py_mix(key, version);
	} else {
		key = py_mix(key, py_u64(walk->code, PY_RAW_CODE, l->code_name));
		key = py_mix(key, filename);
		key = py_mix(key, py_u64(walk->code, PY_RAW_CODE, l->code_linetable));
		key = py_mix(key, py_u64(walk->code, PY_RAW_CODE, l->var_size));
		key = py_mix(key, py_u32(walk->code, PY_RAW_CODE, l->code_firstlineno) |
					  (__u64)py_u32(walk->code, PY_RAW_CODE, l->code_flags) << 32);
	}
	/* The same words as before, the name of the file among them. */
	walk->code_of_file = (key | 1) == old || py_from_file(l, filename);
	if (!version && !walk->code_of_file)
		key = py_code_deep(walk, l, key);
	return key | 1;
}

HOST_INLINE __u64 py_code_tag(const struct py_walk *walk, __u64 code)
{
	return (code >> 4 ^ walk->salt) & PY_TAG_MASK;
}

HOST_INLINE __u32 py_code_set(__u64 tag)
{
	return ((tag ^ tag >> 9 ^ tag >> 18) & (PY_SETS - 1)) * 4;
}

/* Does the slot hold this code object, proven lately? */
HOST_INLINE int py_slot_holds(const struct py_slot *slot, __u64 tag, __u64 now)
{
	return slot->word >> 20 == tag << 1 && ((slot->word - now) & PY_UNTIL_MASK) - 1 < 8;
}

/* The key of the code object at `code`, from its slot or proven; 0 when it is none. */
PY_APART __u64 py_code_key(struct py_walk *walk, const struct image *image, __u64 code)
{
	__u64 now, tag, key, word, old;
	__u32 index, way, version = 0;
	struct py_slot *slot;

	if (!walk || !image)
		return 0;
	now = walk->now >> PY_UNTIL_SHIFT;
	tag = py_code_tag(walk, code);
	index = py_code_set(tag);
	if (index > PY_SETS * 4 - 4)
		return 0;
	word = tag << PY_TAG_SHIFT | ((now + 8) & PY_UNTIL_MASK);
	way = walk->now >> 10 & 3;
	way = walk->slots[index].word >> PY_TAG_SHIFT == tag ? 0 : way;
	way = walk->slots[index + 1].word >> PY_TAG_SHIFT == tag ? 1 : way;
	way = walk->slots[index + 2].word >> PY_TAG_SHIFT == tag ? 2 : way;
	way = walk->slots[index + 3].word >> PY_TAG_SHIFT == tag ? 3 : way;
	host_barrier(way);
	slot = &walk->slots[index + (way & 3)];
	old = slot->word >> PY_TAG_SHIFT == tag ? slot->key : 0;
	if (old) {
		if (py_slot_holds(slot, tag, now))
			return old;
		if (image->layout.code_version != PY_ABSENT &&
		    !host_read(&version, sizeof(version), code + image->layout.code_version) &&
		    version && (py_mix(py_mix(walk->salt, code), version) | 1) == old) {
			slot->word = word | (slot->word & PY_EACH_SIGHT);
			return old;
		}
	}
	key = py_code_prove(walk, image, code, slot->word & PY_EACH_SIGHT ? 0 : old);
	if (!key)
		return 0;
	/* Code of no file, and what has changed once, is proven at each sight. */
	if (!walk->code_of_file || (old && (old != key || slot->word & PY_EACH_SIGHT)))
		word |= PY_EACH_SIGHT;
	if (py_seen(key)) {
		slot->word = word;
		slot->key = key;
	} else {
		slot->word = 0; /* until it is captured, each sight tries again */
		slot->key = 0;
		py_todo_add(walk, code, key);
	}
	return key;
}

/* --- frames --- */

/* Where in memory[] the frame at `address` lies; ~0u when it cannot be read. */
PY_APART __u32 py_frame_fetch(struct py_walk *walk, const struct image *image, __u64 address)
{
	const struct py_layout *l;
	__u64 offset, below;
	__u32 size, at;

	if (!walk || !image)
		return ~0u;
	l = &image->layout;
	offset = address - walk->window;
	below = address - walk->chunk;
	size = l->frame_size;
	if (size > PY_RAW_FRAME)
		return ~0u;
	if (offset < walk->window_end && offset < PY_WINDOW)
		return offset;
	/* A frame of the newest chunk: everything from here down to the chunk's start is the thread's
	 * own stack of frames, and resident. Others (a generator's, an older chunk's, the frame objects
	 * of 3.8-3.10) are read alone. A read that faults would cost more than all the rest. */
	if (walk->chunk && below < walk->top - walk->chunk) {
		at = below < PY_WINDOW ? (__u32)below : PY_WINDOW;
		host_barrier(at);
		size += at;
		host_barrier(size);
		if (size <= PY_WINDOW + PY_RAW_FRAME && at <= PY_WINDOW &&
		    !host_read(walk->memory, size, address - at)) {
			walk->window = address - at;
			walk->window_end = at + 1;
			return at;
		}
		walk->chunk = 0;
		size = l->frame_size;
		host_barrier(size);
	}
	if (size > PY_RAW_FRAME || host_read(walk->memory + PY_WINDOW + PY_RAW_FRAME, size, address))
		return ~0u;
	return PY_WINDOW + PY_RAW_FRAME;
}

#define PY_MEMORY sizeof(((struct py_walk *)0)->memory)

/* The offset of the instruction in a frame of 3.11+: a pointer into the bytecode. */
HOST_INLINE __s32 py_offset_pointer(struct py_walk *walk, const struct py_layout *l, __u32 at,
				    __u64 code)
{
	__u64 pointer = py_u64(walk->memory, PY_MEMORY, at + l->frame_lasti);
	__u64 start = code + l->code_instructions;

	if (l->flags & PY_TLBC && l->frame_tlbc_index != PY_ABSENT) {
		/* The thread's own copy of the bytecode; entry 0 is co_code_adaptive. */
		__s32 index = (__s32)py_u32(walk->memory, PY_MEMORY, at + l->frame_tlbc_index);
		__u64 array = 0, copy = 0;

		if (index > 0 && !py_read64(walk, code + l->code_tlbc, &array) && array &&
		    !py_read64(walk, array + l->tlbc_entries + (__u64)(__u32)index * 8, &copy) && copy)
			start = copy;
	}
	return (__s32)(pointer - start);
}

HOST_INLINE int py_put(struct py_walk *walk, struct py_out *out, __u64 key, __s32 offset, __u32 flags)
{
	__u32 n = walk->n;

	if (n >= RECORD_PY_FRAMES_MAX)
		return 0;
	out->frames[n].code = key;
	out->frames[n].offset = offset;
	out->frames[n].flags = flags | walk->flags | (offset < 0 ? PY_FRAME_STARTING : 0);
	walk->flags = 0;
	walk->n = n + 1;
	return 1;
}

/* 3.11 and 3.12 put a new _PyCFrame in front before its current_frame is set (Python/ceval.c,
 * _PyEval_EvalFrameDefault): then the innermost frame is what lay on the C stack, often a frame that was
 * there before, and the truth is that the call has not begun. Goes back to the caller's frame; 0 when
 * there is none to go to. */
HOST_INLINE int py_uncall(struct py_walk *walk, const struct py_layout *l)
{
	__u64 frame;

	if (!walk->caller)
		return 0;
	if (py_read64(walk, walk->caller + l->cframe_current_frame, &frame) || !frame) {
		walk->loss = LOSS_FRAME_HALF;
		walk->caller = 0;
		return 0;
	}
	walk->caller = 0;
	walk->frame = frame;
	walk->n = 0;
	walk->flags = 0;
	walk->loss = 0;
	walk->closed = 1;
	return 1;
}

/* The outermost frame of the innermost eval loop goes back to what its caller runs; else it was never
 * linked to it. 1: the walk went back to the caller. */
HOST_INLINE int py_unlinked(struct py_walk *walk, const struct py_layout *l, __u64 back)
{
	__u64 frame = 0;

	if (!walk->caller)
		return 0;
	if (!py_read64(walk, walk->caller + l->cframe_current_frame, &frame) && frame == back) {
		walk->caller = 0;
		return 0;
	}
	return py_uncall(walk, l);
}

/* What gi_frame_state says of a generator at rest (Include/internal/pycore_frame.h, enum _framestate):
 * FRAME_SUSPENDED -1, FRAME_CREATED -2, FRAME_COMPLETED 1, FRAME_CLEARED 4; FRAME_EXECUTING is 0. */
#define PY_STATE_SUSPENDED 0xffu
/* From gi_iframe back to gi_frame_state in PyGenObject: four bytes of padding lie between them
 * (Include/cpython/genobject.h, 3.11). */
#define PY_STATE_BEFORE_FRAME 5u

/* 3.11: the state of the innermost frame if it is a generator's that does not run, else 0. gen_send_ex2
 * (Objects/genobject.c) sets FRAME_EXECUTING before the eval loop is entered, so such a frame has just
 * yielded, lies in front of a call that has not begun (py_uncall), or is put there by _gen_throw. */
HOST_INLINE __u8 py_rests(struct py_walk *walk, const struct py_layout *l, __u32 at)
{
	__u8 state = 0;

	if (l->frame_is_entry == PY_ABSENT || !walk->caller ||
	    py_u8(walk->memory, PY_MEMORY, at + l->frame_owner) != 1 ||
	    host_read(&state, 1, walk->frame - PY_STATE_BEFORE_FRAME))
		return 0;
	return state;
}

/* Any frame; 1 when the chain ends. */
PY_APART int py_walk_one(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	const struct py_layout *l;
	__u64 code, back, key;
	__u32 flags = 0, n, at;
	__s32 offset;
	__u8 state;

	if (!walk || !image || !out)
		return 1;
	l = &image->layout;
	n = walk->n;
	if (!walk->frame) {
		if (n == 0 && l->frames == PY_FRAMES_CFRAME && py_uncall(walk, l))
			return 0;
		/* 3.11+: a chain ends below an entry frame or a shim, else it was half linked. */
		if (l->frames != PY_FRAMES_OBJECTS && !walk->closed && !walk->loss)
			walk->loss = LOSS_FRAME_HALF;
		return 1;
	}
	at = py_frame_fetch(walk, image, walk->frame);
	if (at > PY_WINDOW + PY_RAW_FRAME) {
		walk->fault = walk->frame;
		walk->loss = LOSS_FRAME_READ;
		return !py_uncall(walk, l);
	}
	/* A frame above the stack's top is over; the pop of 3.11 comes just before it is unlinked. */
	if (n == 0 && walk->frame > walk->top && walk->frame - walk->top < PY_WINDOW && py_uncall(walk, l))
		return 0;
	back = py_u64(walk->memory, PY_MEMORY, at + l->frame_back);
	if (n == 0 && (state = py_rests(walk, l, at))) {
		/* A suspended one has a `previous` only while it yields, or _gen_throw links it to pass on an
		 * exception: what runs is that. */
		if (state == PY_STATE_SUSPENDED && back) {
			walk->closed = 0;
			walk->frame = back;
			return 0;
		}
		return !py_uncall(walk, l);
	}
	if (l->owner_native_first &&
	    py_u8(walk->memory, PY_MEMORY, at + l->frame_owner) >= l->owner_native_first) {
		/* A shim: native code entered the interpreter here. */
		if (py_unlinked(walk, l, back))
			return 0;
		if (n > 0 && n <= RECORD_PY_FRAMES_MAX)
			out->frames[n - 1].flags |= PY_FRAME_ENTRY;
		walk->closed = 1;
		walk->frame = back;
		return 0;
	}
	code = py_u64(walk->memory, PY_MEMORY, at + l->frame_code) & ~7ull; /* a stack reference's tag */
	key = py_code_key(walk, image, code);
	if (!key) {
		if (n == 0 && walk->loss == LOSS_CODE_DYING && back && walk->frame <= walk->top) {
			/* 3.11 clears the innermost frame before it unlinks it: that call is over. */
			walk->loss = 0;
			walk->closed = 0;
			walk->frame = back;
			return 0;
		}
		return !py_uncall(walk, l);
	}
	if (l->lasti == PY_LASTI_POINTER) {
		offset = py_offset_pointer(walk, l, at, code);
	} else {
		offset = (__s32)py_u32(walk->memory, PY_MEMORY, at + l->frame_lasti);
		if (l->lasti == PY_LASTI_UNITS && offset > 0)
			offset = (__s32)((__u32)offset * 2);
	}
	walk->closed = 0;
	if (l->frames == PY_FRAMES_OBJECTS) {
		flags = PY_FRAME_ENTRY;
	} else if (l->frame_is_entry != PY_ABSENT) {
		walk->closed = py_u8(walk->memory, PY_MEMORY, at + l->frame_is_entry) != 0;
		if (walk->closed && py_unlinked(walk, l, back))
			return 0;
		if (walk->closed)
			flags = PY_FRAME_ENTRY;
	}
	if (!py_put(walk, out, key, offset, flags)) {
		walk->loss = LOSS_FRAME_DEPTH;
		return 1;
	}
	walk->frame = back;
	return 0;
}

/* The key of a code object by its slot, which then is a slot by place, too; 0 if no proof is fresh. */
PY_APART __u64 py_code_known(struct py_walk *walk, __u64 frame, __u64 code)
{
	__u64 now, tag;
	struct py_slot *slot;
	__u32 index, way;

	if (!walk)
		return 0;
	now = walk->now >> PY_UNTIL_SHIFT;
	tag = py_code_tag(walk, code);
	index = py_code_set(tag);
	if (index > PY_SETS * 4 - 4)
		return 0;
	HOST_NO_UNROLL
	for (way = 0; way < 4; way++) {
		slot = &walk->slots[index + way];
		if (py_slot_holds(slot, tag, now)) {
			walk->recent[frame >> 6 & (PY_RECENT - 1)] = *slot;
			return slot->key;
		}
	}
	return 0;
}

/* Usual frames, some of them: HOT_MORE, or HOT_ENDED after the last, or HOT_OTHER at one that py_walk_one has to
 * take. A return costs 10-20 ns where returns are hardened (SRSO), so a round takes more than one frame; it is a loop and not
 * unrolled, because at a low rate its code comes from far away, too. */
enum py_hot { HOT_MORE, HOT_ENDED, HOT_OTHER };
HOST_INLINE enum py_hot py_walk_hot(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	const struct py_layout *l = &image->layout;
	const __u64 now = walk->now >> PY_UNTIL_SHIFT, salt = walk->salt;
	const __u32 in_back = l->frame_back & 127, in_code = l->frame_code & 127, in_lasti = l->frame_lasti & 127,
		    to_bytecode = l->code_instructions;
	/* What marks a boundary to native code: 3.11's is_entry, or the owner of a shim. */
	const int entry = l->frame_is_entry != PY_ABSENT;
	const __u32 in_mark = (entry ? l->frame_is_entry : l->frame_owner) & 127,
		    mark = entry ? 1 : l->owner_native_first;
	__u64 frame = walk->frame, place, code, back, key, linked;
	__u32 round, at, n, flags;
	const struct py_slot *recent;
	const __u8 *raw;
	__s32 offset;

	HOST_NO_UNROLL
	for (round = 0; round < PY_ROUND; round++) {
		n = walk->n; /* through memory: a bound that differs by path would double the verifier's work */
		walk->frame = frame;
		if (!frame)
			return walk->closed && n ? HOT_ENDED : HOT_OTHER;
		place = frame - walk->window;
		if (place < walk->window_end) {
			at = place;
		} else {
			/* Alone in memory: a generator's or a shim. The innermost one needs a closer look. */
			if (!n && frame - walk->chunk >= walk->top - walk->chunk)
				return HOT_OTHER;
			at = py_frame_fetch(walk, image, frame);
		}
		if (at > PY_WINDOW + PY_RAW_FRAME)
			return HOT_OTHER;
		raw = walk->memory + at;
		back = *(const py_word64 *)(raw + in_back);
		flags = 0;
		if (raw[in_mark] >= mark) {
			if (walk->caller) {
				if (host_read(&linked, sizeof(linked), walk->caller + l->cframe_current_frame) ||
				    linked != back)
					return HOT_OTHER;
				walk->caller = 0;
			}
			if (!entry) {
				if (n - 1 < RECORD_PY_FRAMES_MAX)
					out->frames[n - 1].flags |= PY_FRAME_ENTRY;
				walk->closed = 1;
				frame = back;
				continue;
			}
			flags = PY_FRAME_ENTRY;
		}
		code = *(const py_word64 *)(raw + in_code) & ~7ull;
		/* The slots by place come first: the codes of the last walk are there for the most part, in a
		 * row, and touch few lines of cache. */
		recent = &walk->recent[frame >> 6 & (PY_RECENT - 1)];
		if (py_slot_holds(recent, (code >> 4 ^ salt) & PY_TAG_MASK, now))
			key = recent->key;
		else
			key = py_code_known(walk, frame, code);
		if (!key || n >= RECORD_PY_FRAMES_MAX)
			return HOT_OTHER;
		offset = (__s32)(*(const py_word64 *)(raw + in_lasti) - code - to_bytecode);
		walk->closed = flags;
		if (offset < 0)
			flags |= PY_FRAME_STARTING;
		out->frames[n].code = key;
		out->frames[n].offset = offset;
		out->frames[n].flags = flags;
		walk->n = n + 1;
		frame = back;
	}
	walk->frame = frame;
	return HOT_MORE;
}

HOST_LOOP_FN long py_walk_round(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	const struct image *image = c->image;
	enum py_hot hot = HOT_OTHER;

	/* The first frame of a further thread state is marked so by py_walk_one. */
	if (image->layout.frames != PY_FRAMES_OBJECTS && !(image->layout.flags & PY_TLBC) && !c->walk->flags)
		hot = py_walk_hot(c->walk, image, c->out);
	if (hot == HOT_OTHER)
		return py_walk_one(c->walk, image, c->out) & 1;
	return hot == HOT_ENDED;
}

/* From walk->frame outwards to the chain's end. */
PY_APART int py_walk_chain(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	struct py_walk_context c = {.walk = walk, .image = image, .out = out};

	if (!walk || !image || !out)
		return 0;
	host_loop(2 * RECORD_PY_FRAMES_MAX, py_walk_round, &c);
	return 0;
}

/* Walks all thread states of the thread whose fsbase is walk->fsbase. Before: fsbase, hint, hint_until,
 * now and salt set. After: out->frames[0..n), todo[0..n_todo), loss, tstates[0] as the next hint. */
HOST_INLINE void py_walk(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	__u32 i;

	walk->n = 0;
	walk->n_todo = 0;
	walk->n_tstates = 0;
	walk->loss = 0;
	walk->fault = 0;
	walk->window = 0;
	walk->window_end = 0;
	walk->first = 0;
	py_find_tstates(walk, image);
	for (i = 0; i < PY_TSTATES_MAX; i++) {
		__u32 t = i ? i - (i <= walk->first) : walk->first; /* `first`, then the others in order */

		if (i >= walk->n_tstates || t >= PY_TSTATES_MAX || walk->loss)
			break;
		walk->frame = walk->tstates[t].frame;
		walk->chunk = walk->tstates[t].chunk;
		walk->top = walk->tstates[t].top;
		walk->caller = walk->tstates[t].caller;
		walk->closed = 1;
		walk->flags = i && walk->n ? PY_FRAME_TSTATE : 0;
		py_walk_chain(walk, image, out);
		if (walk->frame && !walk->loss)
			walk->loss = LOSS_FRAME_CYCLE;
	}
}

/* --- repair: links that a register still holds --- */

/* Is there a frame at `address` whose code object is known? Its owner and back, too. */
HOST_INLINE int py_is_frame(struct py_walk *walk, const struct image *image, __u64 address,
			    __u64 *ret_back, __u8 *ret_owner)
{
	const struct py_layout *l = &image->layout;
	const __u32 at = PY_WINDOW + PY_RAW_FRAME;
	__u32 size = l->frame_size;
	__u64 key;

	host_barrier(size);
	if (address & 7 || !address || size > PY_RAW_FRAME ||
	    host_read(walk->memory + at, size, address))
		return 0;
	*ret_back = py_u64(walk->memory, PY_MEMORY, at + l->frame_back);
	*ret_owner = py_u8(walk->memory, PY_MEMORY, at + l->frame_owner);
	if (l->owner_native_first && *ret_owner >= l->owner_native_first)
		return 1;
	key = py_code_key(walk, image, py_u64(walk->memory, PY_MEMORY, at + l->frame_code) & ~7ull);
	walk->loss = LOSS_NONE;
	return key && py_seen(key);
}

/* A register as the frame that the generator at walk->frame goes back to: its stack holds the
 * generator, an object that begins just before its frame. */
HOST_LOOP_FN long py_repair_generator(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	__u64 back, address;
	__u32 w;
	__u8 owner;

	if (i >= 16)
		return 1;
	address = walk->registers[i];
	if (address == walk->leaf || !py_is_frame(walk, c->image, address, &back, &owner))
		return 0;
	if (c->image->layout.owner_native_first && owner >= c->image->layout.owner_native_first) {
		/* A shim: native code resumed it. Only if no frame turns up. */
		__u8 ignored;

		if (!walk->frame && py_is_frame(walk, c->image, back, &back, &ignored))
			walk->frame = address;
		return 0;
	}
	if (host_read(walk->words, sizeof(walk->words), address + c->image->layout.frame_locals))
		return 0;
	for (w = 0; w < PY_STACK_WORDS; w++) {
		if (walk->leaf - (walk->words[w] & ~7ull) - 1 < 127) {
			walk->frame = address;
			return 1;
		}
	}
	return 0;
}

/* A register as the _PyCFrame of the eval loop that is entering another. */
HOST_LOOP_FN long py_repair_cframe(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	__u64 frame, back;
	__u8 owner;

	if (i >= 16)
		return 1;
	if (walk->registers[i] & 7 || walk->registers[i] - walk->leaf > (1u << 20) ||
	    walk->registers[i] == walk->leaf ||
	    host_read(&frame, sizeof(frame),
		      walk->registers[i] + c->image->layout.cframe_current_frame) ||
	    !py_is_frame(walk, c->image, frame, &back, &owner))
		return 0;
	walk->frame = frame;
	return 1;
}

/* A register as the frame that an eval loop is entering with, linked already to its caller's frame, which is
 * in a register, too: gcc's PGO builds of 3.11 store current_frame and previous of the _PyCFrame together,
 * last, from a vector register (Debian's 3.11.2: movups %xmm0,0xb8(%rsp)). */
HOST_LOOP_FN long py_repair_entry(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	const __u32 at = PY_WINDOW + PY_RAW_FRAME;
	__u64 back, outer;
	__u32 r;
	__u8 owner, held = 0;

	if (i >= 16)
		return 1;
	if (!py_is_frame(walk, c->image, walk->registers[i], &back, &owner) || !back ||
	    !py_u8(walk->memory, PY_MEMORY, at + c->image->layout.frame_is_entry))
		return 0;
	for (r = 0; r < 16; r++)
		held |= walk->registers[r] == back;
	if (!held || !py_is_frame(walk, c->image, back, &outer, &owner))
		return 0;
	walk->frame = back;
	return 1;
}

/* Some builds store in an order that leaves the innermost link in a register alone for an instant: a
 * generator's `previous` is cleared before the thread state leaves it, a new _PyCFrame stands in front
 * before it knows its predecessor. With the thread's registers the walk goes on, where the register is
 * proven to be that link. Call after py_walk() with a loss and n <= 1; 1 when the walk went on. */
PY_APART int py_walk_repair(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	struct py_walk_context c = {.walk = walk, .image = image, .out = out};
	__u16 loss;

	if (!walk || !image || !out)
		return 0;
	loss = walk->loss;
	walk->frame = 0;
	walk->leaf = 0;
	if (walk->n == 1 && loss == LOSS_FRAME_HALF && image->layout.frame_is_entry == PY_ABSENT) {
		walk->leaf = walk->tstates[walk->first & (PY_TSTATES_MAX - 1)].frame;
		host_loop(16, py_repair_generator, &c);
	} else if (image->layout.frames == PY_FRAMES_CFRAME && (!walk->n || loss == LOSS_FRAME_HALF)) {
		walk->n = 0; /* 3.11: a frame that is not linked is none that runs */
		walk->leaf = walk->tstates[walk->first & (PY_TSTATES_MAX - 1)].cframe;
		host_loop(16, py_repair_cframe, &c);
		if (!walk->frame && image->layout.frame_is_entry != PY_ABSENT)
			host_loop(16, py_repair_entry, &c);
	}
	walk->loss = loss;
	if (!walk->frame)
		return 0;
	walk->loss = LOSS_NONE;
	walk->closed = 0;
	walk->caller = 0;
	py_walk_chain(walk, image, out);
	return 1;
}

#endif

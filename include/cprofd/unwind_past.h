/* SPDX-License-Identifier: MIT */
/* The stepper of unwind.h for a thread that is met again and again: loops that call nothing, and no second walk over
 * what lies as it lay at the last tick.
 *
 * Of a frame that called, the rule is a function of its program counter and the list; with its stack pointer and frame
 * pointer it says where two words lie, and these are its caller's program counter and frame pointer. So if a walk comes to
 * three of these that an earlier walk with the same list came to, and the words on the way from there are what they were,
 * then the way goes where it went: that is known without a look at a rule. 38 of 44 frames
 * of Numba's stacks are such, at 999 Hz and at 9999 Hz.
 *
 *   past   states of a walk that came to the thread's entry, outermost last, each with the words that led to it
 *   scan   of a window that was read: which of them have their words, from the outside to the first that has not
 *   meet   the walk is at one of these: the program counters are copied
 *
 * A step that is not proven so has `link` UNWIND_UNPROVEN: from an interrupted frame (its rule knows
 * all registers and another address), by a rule that is not PLAIN, or where the frame pointer is not known.
 *
 * A caller calls unwind_fast_begin(), sets regs, known and exact of f->state, may call unwind_fast_read(), and then unwind_round()
 * until it is not UNWIND_UP.
 */
#ifndef CPROFD_UNWIND_PAST_H
#define CPROFD_UNWIND_PAST_H

#include "unwind.h"

#define UNWIND_PAST 128u    /* frames; of a deeper stack the outermost ones */
#define UNWIND_ROUND 8u     /* frames that unwind_usual() takes at most */
#define UNWIND_SEARCH 8u    /* frames that unwind_meet() looks at at once */
#define UNWIND_RENEW 4u     /* so many new frames are worth being remembered */
#define UNWIND_FRAMES 16384u
#define UNWIND_UNPROVEN 0x40000000 /* beyond each window */

struct unwind_pcs {
	__u64 pc[UNWIND_FRAMES];
};

/* A frame, as a walk comes to it. The word at sp - 8 is pc, that at sp - 8 + link is word. */
struct unwind_frame_state {
	__u64 sp, bp;
	__u64 word; /* the frame pointer, if the callee saved it; else pc, and link is 0 */
	__s32 link; /* UNWIND_UNPROVEN: no such step */
	__u32 base; /* where the callee saved UNWIND_BASE: sp - 8 * base; 0: it did not */
};

/* Of one thread, on one CPU. Zero-filled is a good beginning. */
struct unwind_past {
	__u64 pc[UNWIND_PAST];
	struct unwind_frame_state frames[UNWIND_PAST];
	__u64 process; /* unwind_state.process of all that is here */
	__u32 n;       /* frames[UNWIND_PAST - n ..] are there */
	__u32 _pad;
};

/* One for each CPU (BPF) or walk (user space). Zero-filled is a good beginning. */
struct unwind_fast {
	/* its own: beside the state's first lines */
	__u64 scanned;   /* the window (its address) that low, top and stop are of */
	__u64 stop;      /* unwind_usual() ends at this stack pointer */
	__u32 low, top;  /* a walk at frames[low .. top - 1] may go on at top - 1 */
	__u32 from;      /* the past has frames[from ..] */
	__u32 copy_to, left_to_copy; /* unwind_remember()'s */
	__u32 fresh_from; /* fresh[fresh_from + 1 ..] are there, by number of frame */
	__u32 n;         /* unwind_meet()'s and unwind_remember()'s */
	__u32 left;      /* where in `frames` the last meeting ended; 0: there was none */
	struct unwind_state state;
	__u64 fresh_pc[UNWIND_PAST];
	struct unwind_frame_state fresh[UNWIND_PAST];
};

HOST_INLINE void unwind_fast_begin(struct unwind_fast *f, struct unwind_past *past, __u64 list, __u64 salt)
{
	unwind_begin(&f->state, list, salt);
	if (past->process != f->state.process) {
		past->process = f->state.process;
		past->n = 0;
	}
	f->state.deep = past->n ? past->frames[UNWIND_PAST - 1].sp & ~7ull : 0;
	f->scanned = 1; /* no window begins there */
	f->stop = ~0ull;
	f->low = f->top = UNWIND_PAST;
	f->fresh_from = 0;
	f->left = 0;
}

/* The stack from the innermost frame on, so that this is a usual one. What cannot be read is told by who needs it. */
HOST_INLINE void unwind_fast_read(struct unwind_fast *f)
{
	unwind_word_read(&f->state, f->state.regs[UNWIND_SP] & ~7ull);
}

/* Loops over what is remembered go by chunks: of a loop the verifier goes through each round, of host_loop() through one
 * call. What goes on from chunk to chunk lies in *f. */
#define UNWIND_CHUNK 16u
struct unwind_past_context {
	struct unwind_fast *f;
	struct unwind_past *past;
};

/* 0 or 1, by the verifier's own reckoning: 6.1's knows nothing of a value that clang takes from elsewhere. */
HOST_INLINE long unwind_chunk_result(__u32 end)
{
	host_barrier(end);
	return end & 1;
}

/* f->top: frames from there on are beyond the window. */
HOST_LOOP_FN long unwind_scan_top_chunk(__u32 chunk, void *context)
{
	struct unwind_past_context *c = context;
	struct unwind_fast *f = c->f;
	const struct unwind_past *past = c->past;
	__u64 end = f->state.window.at + f->state.window.size;
	__u32 i = f->top, from = f->from, round, last = 0;

	HOST_NO_UNROLL
	for (round = 0; round < UNWIND_CHUNK; round++) {
		last = i == from || past->frames[(i - 1) & (UNWIND_PAST - 1)].sp <= end;
		if (last)
			break;
		i--;
	}
	f->top = i;
	return unwind_chunk_result(last);
}

/* f->low: frames from there on have their words in the window. */
HOST_LOOP_FN long unwind_scan_chunk(__u32 chunk, void *context)
{
	struct unwind_past_context *c = context;
	struct unwind_fast *f = c->f;
	const struct unwind_past *past = c->past;
	const struct unwind_state *s = &f->state;
	const struct unwind_frame_state *frame;
	__u64 window_at = s->window.at, size = s->window.size, at, in, differ;
	__u32 i = f->low, from = f->from, round, last = 1;

	HOST_NO_UNROLL
	for (round = 0; round < UNWIND_CHUNK; round++) {
		if (i == from)
			goto end;
		frame = &past->frames[(i - 1) & (UNWIND_PAST - 1)];
		at = frame->sp - 8 - window_at;
		in = at + (__s64)frame->link;
		if (at >= size || in >= size)
			goto end;
		differ = s->window.words[(at / 8) & (UNWIND_WINDOW / 8 - 1)] ^ past->pc[(i - 1) & (UNWIND_PAST - 1)];
		differ |= s->window.words[(in / 8) & (UNWIND_WINDOW / 8 - 1)] ^ frame->word;
		if (differ)
			goto end;
		i--;
	}
	last = 0;
end:
	f->low = i;
	return unwind_chunk_result(last);
}

/* Which frames of the past have their words in the window: f->low, f->top and f->stop. */
HOST_APART int unwind_scan(struct unwind_fast *f, struct unwind_past *past)
{
	struct unwind_past_context c = {.f = f, .past = past};
	__u32 i;

	if (!f || !past)
		return 0;
	f->scanned = f->state.window.at;
	f->stop = ~0ull;
	f->top = UNWIND_PAST;
	f->from = UNWIND_PAST - past->n;
	if (past->frames[UNWIND_PAST - 1].sp > f->state.window.at + f->state.window.size)
		host_loop(UNWIND_PAST / UNWIND_CHUNK + 1, unwind_scan_top_chunk, &c);
	f->low = f->top;
	host_loop(UNWIND_PAST / UNWIND_CHUNK + 1, unwind_scan_chunk, &c);
	i = f->low;
	/* The frame below is where the innermost of these is come to from. */
	if (i != f->from)
		i--;
	f->low = i;
	if (i + 1 < f->top || f->top == UNWIND_PAST)
		f->stop = past->frames[i & (UNWIND_PAST - 1)].sp;
	return 0;
}

HOST_LOOP_FN long unwind_remember_chunk(__u32 chunk, void *context)
{
	struct unwind_past_context *c = context;
	struct unwind_fast *f = c->f;
	struct unwind_past *past = c->past;
	__u32 left = f->left_to_copy, to = f->copy_to, from = f->n, round;

	HOST_NO_UNROLL
	for (round = 0; round < UNWIND_CHUNK / 2; round++) {
		if (!left)
			break;
		left--;
		past->frames[(to - left) & (UNWIND_PAST - 1)] = f->fresh[(from - left) & (UNWIND_PAST - 1)];
		past->pc[(to - left) & (UNWIND_PAST - 1)] = f->fresh_pc[(from - left) & (UNWIND_PAST - 1)];
	}
	f->left_to_copy = left;
	return unwind_chunk_result(!left);
}

/* Remembers that the walk's frame number n is frames[j], and how it was come to. */
HOST_APART int unwind_remember(struct unwind_fast *f, struct unwind_past *past, __u32 j, __u32 n)
{
	struct unwind_past_context c = {.f = f, .past = past};
	__u32 count;

	if (!f || !past)
		return 0;
	count = n - f->fresh_from;
	if (count > j + 1)
		count = j + 1;
	f->n = n;
	f->copy_to = j;
	f->left_to_copy = count;
	host_loop(UNWIND_PAST / (UNWIND_CHUNK / 2), unwind_remember_chunk, &c);
	/* What is inside of an earlier meeting stays if it meets this. */
	if (!f->left || j - count != f->left)
		past->n = UNWIND_PAST - 1 - j + count;
	return 0;
}

/* Looks for the walk's frame among frames[f->low .. f->top - 1]: f->low is it, and 1; or f->stop is where to look next. */
HOST_APART int unwind_search(struct unwind_fast *f, const struct unwind_past *past)
{
	const struct unwind_frame_state *frame;
	const struct unwind_state *s;
	__u64 sp, there = 0;
	__u32 j, top, round;

	if (!f || !past)
		return 0;
	s = &f->state;
	sp = s->regs[UNWIND_SP];
	j = f->low;
	top = f->top;
	f->stop = ~0ull;
	HOST_NO_UNROLL
	for (round = 0; round < UNWIND_SEARCH; round++) {
		if (j >= top)
			return 0;
		there = past->frames[j & (UNWIND_PAST - 1)].sp;
		if (there >= sp)
			break;
		j++;
	}
	f->low = j;
	if (there != sp) {
		f->stop = there > sp ? there : sp;
		return 0;
	}
	frame = &past->frames[j & (UNWIND_PAST - 1)];
	if (past->pc[j & (UNWIND_PAST - 1)] == s->regs[UNWIND_PC] && frame->bp == s->regs[UNWIND_BP] && !s->exact &&
	    s->known & UNWIND_BIT(UNWIND_BP))
		return 1;
	f->low = ++j;
	if (j < top)
		f->stop = past->frames[j & (UNWIND_PAST - 1)].sp;
	return 0;
}

/* Of the frames that saved UNWIND_BASE, the outermost tells where. */
HOST_LOOP_FN long unwind_leave_base(__u32 i, void *context)
{
	struct unwind_past_context *c = context;
	struct unwind_state *s = &c->f->state;
	const struct unwind_frame_state *frame = &c->past->frames[(c->f->left - i) & (UNWIND_PAST - 1)];
	__u32 found = frame->base != 0;

	if (found) {
		s->base_at = frame->sp - 8 * (__u64)frame->base;
		s->known |= UNWIND_BIT(UNWIND_BASE);
	}
	return unwind_chunk_result(found);
}

/* The state of the frame where a meeting ends. */
HOST_APART int unwind_leave(struct unwind_fast *f, struct unwind_past *past)
{
	struct unwind_past_context c = {.f = f, .past = past};
	const struct unwind_frame_state *frame;
	struct unwind_state *s;

	if (!f || !past)
		return 0;
	s = &f->state;
	frame = &past->frames[f->left & (UNWIND_PAST - 1)];
	s->regs[UNWIND_PC] = past->pc[f->left & (UNWIND_PAST - 1)];
	s->regs[UNWIND_SP] = frame->sp;
	s->regs[UNWIND_BP] = frame->bp;
	s->known &= UNWIND_BIT(UNWIND_PC) | UNWIND_BIT(UNWIND_SP) | UNWIND_BIT(UNWIND_BP) | UNWIND_BIT(UNWIND_BASE);
	host_loop((f->left - f->low) & (UNWIND_PAST - 1), unwind_leave_base, &c);
	f->low = f->left;
	/* The window begins with the next frame's words. */
	frame = &past->frames[(f->left + 1) & (UNWIND_PAST - 1)];
	unwind_word_read(s, frame->sp - 8 + (frame->link < 0 ? (__s64)frame->link : 0));
	return 0;
}

/* Goes on at frames[f->low], as frame number n: UNWIND_UP or UNWIND_END, with the new number in f->n. */
HOST_APART int unwind_meet(struct unwind_fast *f, struct unwind_past *past, struct unwind_pcs *pcs, __u32 n)
{
	__u32 j, last, count;

	if (!f || !past || !pcs)
		return UNWIND_UP;
	j = f->low;
	last = f->top == UNWIND_PAST ? UNWIND_PAST : f->top - 1;
	count = last - j;
	host_barrier(count);
	host_barrier(n);
	/* What there is no room for is walked, and cut where the room ends. */
	if (j >= last || count > UNWIND_PAST || n > UNWIND_FRAMES - UNWIND_PAST) {
		f->stop = ~0ull;
		return UNWIND_UP;
	}
	if (f->left || n - f->fresh_from >= UNWIND_RENEW)
		unwind_remember(f, past, j, n);
	host_copy(&pcs->pc[n], count * 8, &past->pc[j & (UNWIND_PAST - 1)]);
	f->n = n + count;
	if (last == UNWIND_PAST)
		return UNWIND_END;
	f->left = last;
	f->fresh_from = n + count;
	unwind_leave(f, past);
	return UNWIND_UP;
}

/* All ones, or 0 for 0. Of a comparison clang would make a branch, and of an arithmetic shift 6.18's verifier one; each
 * doubles what is verified. */
HOST_INLINE __u64 unwind_mask(__s64 value)
{
	__u64 bit = (__u64)-value;

	host_barrier(bit);
	bit = (bit | (__u64)value) >> 63;
	host_barrier(bit);
	return -bit;
}

HOST_INLINE void unwind_fresh(struct unwind_frame_state *to, __u64 pc, __u64 sp, __u64 bp, __s64 saved, __u64 base)
{
	__u64 mask = unwind_mask(saved);

	to->sp = sp;
	to->bp = bp;
	to->word = (bp & mask) | (pc & ~mask);
	to->link = (__s32)((saved + 8) & mask);
	to->base = (__u32)base;
}

/* Usual frames, some of them: their rule is PLAIN and in the cache, and what it needs is in the window.
 * Writes the program counters from pcs->pc[n] on, and returns the new n. It calls nothing, so that most of what it
 * works with stays in registers; any other frame is unwind_step()'s. */
HOST_APART int unwind_usual(struct unwind_fast *f, const struct unwind_past *past, struct unwind_pcs *pcs, __u32 n)
{
	struct unwind_frame_state *fresh;
	struct unwind_state *s;
	__u64 pc, sp, bp, base_at, word, cfa, at, in, mask, process, window_at, window_size, stop;
	__u32 known, first = n, rule, round, exact, j;
	__s64 saved, base;

	if (!f || !past || !pcs)
		return 0;
	s = &f->state;
	pc = s->regs[UNWIND_PC];
	sp = s->regs[UNWIND_SP];
	bp = s->regs[UNWIND_BP];
	known = s->known;
	base_at = s->base_at;
	process = s->process;
	window_at = s->window.at;
	window_size = s->window.size;
	stop = f->stop;
	s->outside = 0;
	if (!(known & UNWIND_BIT(UNWIND_BP)))
		return n;
	exact = s->exact & 1;
	HOST_NO_UNROLL
	for (round = 0; round < UNWIND_ROUND; round++) {
		host_barrier(n); /* else clang walks pcs by a pointer of which the verifier knows no bound */
		if (sp >= stop) {
			/* Most often a frame that called from elsewhere this time. The next one is looked at when the walk is there. */
			j = f->low;
			if (sp != past->frames[j & (UNWIND_PAST - 1)].sp || pc == past->pc[j & (UNWIND_PAST - 1)] || ++j >= f->top)
				break;
			f->low = j;
			stop = past->frames[j & (UNWIND_PAST - 1)].sp;
			f->stop = stop;
		}
		word = pc - 1 + exact + process;
		rule = unwind_set_find(&s->cache[unwind_set_of(word)], word);
		if (!rule || rule & UNWIND_PACKED_OTHER || n >= UNWIND_FRAMES)
			break;
		/* Selected by masks: a branch would double the verifier's paths. */
		mask = -(__u64)unwind_packed_by_bp(rule);
		host_barrier(mask);
		cfa = ((bp & mask) | (sp & ~mask)) + unwind_packed_offset(rule);
		at = cfa - 8 - window_at;
		saved = unwind_packed_saved(rule);
		mask = unwind_mask(saved);
		in = at + ((saved + 8) & mask);
		base = unwind_packed_base(rule);
		if (at >= window_size || in >= window_size) {
			s->outside = 1;
			break;
		}
		if ((at | in) & 7 || cfa <= sp || base == UNWIND_PACKED_LOST)
			break;
		bp = (s->window.words[(in / 8) & (UNWIND_WINDOW / 8 - 1)] & mask) | (bp & ~mask);
		mask = unwind_mask(base);
		base_at = ((cfa - 8 * base) & mask) | (base_at & ~mask);
		known |= UNWIND_BIT(UNWIND_BASE) & (__u32)mask;
		host_barrier(n); /* or clang 14 drops the mask, as n was compared: another copy of it */
		pcs->pc[n++ & (UNWIND_FRAMES - 1)] = (pc & ~(1ull << 63)) | (__u64)exact << 63; /* NATIVE_EXACT */
		exact = 0;
		pc = s->window.words[(at / 8) & (UNWIND_WINDOW / 8 - 1)];
		sp = cfa;
		fresh = &f->fresh[n & (UNWIND_PAST - 1)];
		f->fresh_pc[n & (UNWIND_PAST - 1)] = pc;
		unwind_fresh(fresh, pc, sp, bp, saved, base);
	}
	if (n == first)
		return n;
	if (s->exact)
		f->fresh[(first + 1) & (UNWIND_PAST - 1)].link = UNWIND_UNPROVEN;
	s->exact = 0;
	s->regs[UNWIND_PC] = pc;
	s->regs[UNWIND_SP] = sp;
	s->regs[UNWIND_BP] = bp;
	s->base_at = base_at;
	s->known = known & (UNWIND_BIT(UNWIND_PC) | UNWIND_BIT(UNWIND_SP) | UNWIND_BIT(UNWIND_BP) | UNWIND_BIT(UNWIND_BASE));
	return n;
}

/* Some frames up. Writes program counters from pcs->pc[*ret_n] on: UNWIND_UP, UNWIND_END or the loss that ends
 * the walk, as unwind_step(). LOSS_NATIVE_DEPTH when there is no room for more. */
HOST_INLINE int unwind_round(struct unwind_fast *f, struct unwind_past *past, struct unwind_pcs *pcs, __u32 *ret_n)
{
	struct unwind_state *s = &f->state;
	struct unwind_frame_state *fresh;
	__u32 first = *ret_n, n, proven;
	int result;

	if (s->window.at != f->scanned && s->window.size && past->n)
		unwind_scan(f, past);
	n = (__u32)unwind_usual(f, past, pcs, first);
	*ret_n = n;
	if (n >= UNWIND_FRAMES)
		return LOSS_NATIVE_DEPTH;
	if (s->regs[UNWIND_SP] >= f->stop) {
		if (!unwind_search(f, past))
			return UNWIND_UP;
		f->n = n;
		result = unwind_meet(f, past, pcs, n);
		*ret_n = f->n;
		return result;
	}
	if (s->outside && n != first) {
		unwind_word_read(s, s->regs[UNWIND_SP] & ~7ull);
		return UNWIND_UP;
	}
	host_barrier(n);
	pcs->pc[n++ & (UNWIND_FRAMES - 1)] = (s->regs[UNWIND_PC] & ~(1ull << 63)) | (s->exact ? 1ull << 63 : 0);
	*ret_n = n;
	proven = !s->exact && s->known & UNWIND_BIT(UNWIND_BP);
	result = unwind_step(s);
	if (result == UNWIND_UP) {
		host_barrier(n);
		fresh = &f->fresh[n & (UNWIND_PAST - 1)];
		f->fresh_pc[n & (UNWIND_PAST - 1)] = s->regs[UNWIND_PC];
		unwind_fresh(fresh, s->regs[UNWIND_PC], s->regs[UNWIND_SP], s->regs[UNWIND_BP], unwind_rule_saved(s->rule),
			     unwind_rule_base(s->rule));
		if (!proven || s->rule & UNWIND_UNUSUAL || (unwind_rule_register(s->rule) | 1) != UNWIND_SP ||
		    unwind_rule_base(s->rule) == UNWIND_BASE_LOST || (s->regs[UNWIND_SP] | unwind_rule_saved(s->rule)) & 7)
			fresh->link = UNWIND_UNPROVEN;
	} else if (result == UNWIND_END && !s->exact && n > 1) {
		unwind_remember(f, past, UNWIND_PAST - 1, n - 1);
	}
	return result;
}

#endif

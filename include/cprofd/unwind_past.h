/* SPDX-License-Identifier: MIT */
/* The unwinder of unwind.h, made faster for a thread that is sampled again and again: tight loops without calls, and
 * no second walk over the part of the stack that is unchanged since the last tick.
 *
 * For a frame that has made a call, the rule is a function of its program counter and the list. With its stack
 * pointer and frame pointer the rule gives the addresses of two words, the caller's program counter and frame pointer.
 * So if a walk reaches three of these that an earlier walk with the same list reached, and the words from there on
 * are unchanged, then the rest of the walk is the same, without looking up a rule. This holds for 38 of 44 frames of Numba's stacks, at 999 Hz and at 9999 Hz.
 *
 *   past   states of an earlier walk that reached the thread's entry function, outermost last, each with the words that
 *          led to it
 *   scan   of a window that was read: which of them still have their words, from the outside to the first that has not
 *   join   the walk is at one of these: the remaining program counters are copied
 *
 * A step without this guarantee has `link` UNWIND_UNPROVEN: from an interrupted frame (its rule may use all
 * registers, and another address), by a rule that is not PLAIN, or with an unknown frame pointer.
 *
 * A caller calls unwind_fast_begin(), sets regs, known and exact of f->state, may call unwind_fast_read(), and then
 * calls unwind_round() until it is not UNWIND_UP. */
#pragma once

#include "unwind.h"

#define UNWIND_PAST 128u    /* frames remembered; of a deeper stack the outermost ones */
#define UNWIND_ROUND 8u     /* frames per call of unwind_usual(), at most */
#define UNWIND_SEARCH 8u    /* frames per call of unwind_search(), at most */
#define UNWIND_RENEW 4u     /* remember at least this many new frames, or none */
#define UNWIND_FRAMES 16384u
#define UNWIND_UNPROVEN 0x40000000 /* beyond each window */

struct unwind_pcs {
	__u64 pc[UNWIND_FRAMES];
};

/* A frame as the walk reaches it. The word at sp - 8 is pc, the one at sp - 8 + link is `word`. */
struct unwind_frame_state {
	__u64 sp, bp;
	__u64 word; /* the frame pointer, if the callee saved it; else pc, and link is 0 */
	__s32 link; /* UNWIND_UNPROVEN: see above */
	__u32 base; /* where the callee saved UNWIND_BASE: sp - 8 * base; 0: it did not */
};

/* Of one thread, on one CPU. Zeroed memory is a valid start. */
struct unwind_past {
	__u64 pc[UNWIND_PAST];
	struct unwind_frame_state frames[UNWIND_PAST];
	__u64 process; /* unwind_state.process for which this is valid */
	__u32 n;       /* frames[UNWIND_PAST - n ..] are valid */
	__u32 _pad;
};

/* One per CPU (BPF) or walk (user space). Zeroed memory is a valid start. */
struct unwind_fast {
	/* private; placed next to the first cache lines of `state` */
	__u64 scanned;   /* address of the window for which low, top and stop hold */
	__u64 stop;      /* unwind_usual() stops at this stack pointer */
	__u32 low, top;  /* a walk at frames[low .. top - 1] may go on at top - 1 */
	__u32 from;      /* the past's frames[from ..] are valid */
	__u32 copy_to, left_to_copy; /* unwind_remember()'s */
	__u32 fresh_from; /* fresh[fresh_from + 1 ..] are valid, by number of frame */
	__u32 n;         /* unwind_join()'s and unwind_remember()'s */
	__u32 left;      /* index in `frames` where the last join ended; 0: none yet */
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
	f->scanned = 1; /* no window begins at this address */
	f->stop = ~0ull;
	f->low = f->top = UNWIND_PAST;
	f->fresh_from = 0;
	f->left = 0;
}

/* Reads the stack from the innermost frame on, so that unwind_usual() can handle this frame. An error shows up again
 * when the word is needed. */
HOST_INLINE void unwind_fast_read(struct unwind_fast *f)
{
	unwind_word_read(&f->state, f->state.regs[UNWIND_SP] & ~7ull);
}

/* Loops over the past go by chunks: the verifier walks through each round of a plain loop, but through host_loop()
 * only once. State that is kept from chunk to chunk is in *f. */
#define UNWIND_CHUNK 16u
struct unwind_past_context {
	struct unwind_fast *f;
	struct unwind_past *past;
};

/* 0 or 1 in a way that the verifier can prove: 6.1's does not know the range of a value that clang computed
 * elsewhere. */
HOST_INLINE long unwind_chunk_result(__u32 end)
{
	host_barrier(end);
	return end & 1;
}

/* Finds f->top: frames from there on are beyond the window. */
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

/* Finds f->low: frames from there on (to f->top) have unchanged words in the window. */
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

/* Finds which frames of the past have unchanged words in the window: sets f->low, f->top and f->stop. */
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
	/* A frame's words lead to the next one: so the frame below is where a walk can join the past. */
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

/* Remembers the walk's new frames up to number n, which is frames[j]. */
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
	/* Frames inside of an earlier join stay valid only if the copied ones reach it. */
	if (!f->left || j - count != f->left)
		past->n = UNWIND_PAST - 1 - j + count;
	return 0;
}

/* Searches the walk's current frame among frames[f->low .. f->top - 1]. 1: it is frames[f->low]. 0: try again at the
 * stack pointer f->stop. */
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

/* Of the skipped frames that saved UNWIND_BASE, the outermost says where. */
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

/* Sets the registers to those of the frame where a join ends. */
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
	/* The new window begins with the next frame's words. */
	frame = &past->frames[(f->left + 1) & (UNWIND_PAST - 1)];
	unwind_word_read(s, frame->sp - 8 + (frame->link < 0 ? (__s64)frame->link : 0));
	return 0;
}

/* Continues at frames[f->low], the walk's frame number n: copies the frames from there to f->top. UNWIND_UP or
 * UNWIND_END; f->n is the new number of frames. */
HOST_APART int unwind_join(struct unwind_fast *f, struct unwind_past *past, struct unwind_pcs *pcs, __u32 n)
{
	__u32 j, last, count;

	if (!f || !past || !pcs)
		return UNWIND_UP;
	j = f->low;
	last = f->top == UNWIND_PAST ? UNWIND_PAST : f->top - 1;
	count = last - j;
	host_barrier(count);
	host_barrier(n);
	/* Without room for all of them: walk on normally, and stop where the room ends. */
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

/* All ones, or 0 for 0. Written without a comparison, which clang would turn into a branch, and without an
 * arithmetic shift, for which 6.18's verifier forks: both double what is verified. */
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

/* Walks over usual frames, UNWIND_ROUND at most: their rule is PLAIN and in the cache, and the words it needs are in
 * the window. Writes the program counters from pcs->pc[n] on, and returns the new n. It makes no calls, so its state
 * stays in registers; all other frames are left to unwind_step(). */
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
		host_barrier(n); /* or clang steps through pcs by a pointer without bounds for the verifier */
		if (sp >= stop) {
			/* Most often a frame that made another call this time. Continue with the next frame of the
			 * past. */
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
		/* Select by masks: a branch would double the verifier's paths. */
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
		host_barrier(n); /* or clang 14 drops the mask, because it compared another copy of n */
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

/* Walks some frames up and writes their program counters from pcs->pc[*ret_n] on. Returns UNWIND_UP, UNWIND_END or
 * the loss that ends the walk, like unwind_step(); LOSS_NATIVE_DEPTH if there is no room for more. */
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
		result = unwind_join(f, past, pcs, n);
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

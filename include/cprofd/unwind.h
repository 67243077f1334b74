/* SPDX-License-Identifier: MIT */
/* The native unwinder: from a frame's registers to its caller's.
 *
 * Header-only over host_read() and host_block(), compiled into BPF and into user space; the registers and rules of a
 * machine are in a file of their own.
 *
 * What is known of native code is in *pools*, arrays of blocks of 4,096 bytes that user space fills (daemon/unwind)
 * and the walker only reads. Positions in a pool count words of 8 bytes.
 *
 *   process -> list of ranges -> range -> table: page -> rows -> rule
 *
 * A *table* is made from one ELF file and does not depend on where the file is mapped:
 *   index  a word for each page of code (1 << shift bytes, 1 KB to 64 KB): bits 0-31 its first row, 32-47 how many rows
 *          it has (0 to 1,024), 48-63 the rule at its first byte
 *   rows   4 bytes each: (offset in the page) << 16 | rule, ascending. The rows of a page are in one block. A rule
 *          holds from its row to the next.
 *   rules  one or two words each, see arch/x86_64.h; the most frequent ones come first
 *
 * A *list* says where tables apply in the memory of a process:
 *   word 0 .. 511       the first start of each block of starts; not used: UNWIND_NO_START
 *   then n starts, ascending, filled up to whole blocks with UNWIND_NO_START
 *   then n struct unwind_range
 * A list is never changed in place: a new one is written elsewhere, struct unwind_process.list is stored as one
 * word, and the blocks of the old one are reused when no walk can be in them any more (two ticks, or an RCU grace
 * period). So thousands of ranges (of a JIT compiler) may come and go.
 *
 * The walker trusts none of it: every position is bounded by its block, so wrong tables give wrong or incomplete
 * stacks, and nothing worse.
 *
 * Costs: most of a walk is spent on cold cache lines. For plain code there is one each for the range, the index, the
 * rows (about 16 a page) and the rules. The cache of rules saves all four, the most recently used ranges save the
 * first. The stack is read in windows.
 *
 * A caller sets regs, known, exact and process, then calls unwind_step() until it is not UNWIND_UP. */
#pragma once

#include "arch.h"
#include "host.h"
#include "loss.h"

#define UNWIND_BLOCK 4096u
#define UNWIND_BLOCK_WORDS 512u
#define UNWIND_BLOCK_ROWS 1024u

union unwind_block {
	__u64 words[UNWIND_BLOCK_WORDS];
	__u32 rows[UNWIND_BLOCK_ROWS];
};

/* Why code that should have a rule has none: id, sentence. Ids are in tables: append only. */
/* clang-format off */
#define UNWIND_UNSUPPORTED(X) \
	X(EXPRESSION,   "its CFA is an expression that is not understood") \
	X(REGISTER,     "its CFA is given by a register that is not followed") \
	X(RETURN,       "its return address is in a place that is not understood") \
	X(STACK,        "its caller's stack pointer is not the CFA") \
	X(RANGE,        "an offset is larger than a rule can hold") \
	X(RULES,        "there were more rules than a table can hold") \
	X(DAMAGED,      "its call frame information is damaged") \
	X(NO_CFA,       "its CFA is not defined") \
	X(CODE_STACK,   "no call frame information, and its instructions do not tell where its frame is") \
	X(CODE_REACHED, "no call frame information, and what leads to these instructions is not known") \
	X(CODE_BYTES,   "no call frame information, and these bytes are no instructions") \
	X(CODE_FIRST,   "no call frame information, and it may be the first function of a thread") \
	X(CODE_LIMIT,   "no call frame information, and there is too much of it to be followed") \
	X(CODE_LATER,   "no call frame information, and its instructions were not followed yet")
/* clang-format on */
#define UNWIND_UNSUPPORTED_ENUM(id, sentence) UNWIND_UNSUPPORTED_##id,
enum unwind_unsupported { UNWIND_UNSUPPORTED(UNWIND_UNSUPPORTED_ENUM) UNWIND_UNSUPPORTED_COUNT };
#undef UNWIND_UNSUPPORTED_ENUM

/* A range of addresses to which a table applies. `origin` is the address of the table's first page: the ELF file's
 * bias + the table's base. The range may begin after it, and must end within the table's pages. */
struct unwind_range {
	__u64 origin;
	__u32 size; /* bytes from the range's start */
	__u16 pool;
	__u8 shift;
	__u8 flags;		  /* UNWIND_RANGE_* */
	__u32 index, rows, rules; /* positions in the pool */
	__u32 module;		  /* an id for user space */
};
_Static_assert(sizeof(struct unwind_range) == 32, "unwind_range");
#define UNWIND_RANGE_PENDING 1u /* its table is still being built */
#define UNWIND_RANGE_BARE 2u	/* without any call frame information */

#define UNWIND_RANGES_MAX (UNWIND_BLOCK_WORDS * UNWIND_BLOCK_WORDS)
#define UNWIND_NO_START 0x7fffffffffffffffull
#define UNWIND_POOL_LISTS 0u /* the pool of lists */

/* Map value by process, written by user space. */
struct unwind_process {
	/* Stored and loaded as one word: bits 0-27 the list's first block; 28-46 number of ranges; 47 a file is
	 * awaited that may add missing ranges; 48-63 number of changes, except those that only added ranges: rules
	 * found before stay valid. 0: no list. */
	__u64 list;
	__u64 salt; /* random, constant: keeps the cached rules of two processes apart */
};
#define UNWIND_LIST(block, n, change)                                                              \
	((__u64)((block)&0xfffffffu) | (__u64)((n)&0x7ffffu) << 28 | (__u64)(change) << 48)
#define unwind_list_ranges(list) ((__u32)((list) >> 28) & 0x7ffffu)
#define UNWIND_LIST_AWAITS (1ull << 47)
#define unwind_list_change(list) ((__u32)((list) >> 48))

/* Bytes of the stack to read at once: a read costs 100 ns, and 10 ns more per KB. A whole window at most, if the
 * depth of the stack is known. */
#define UNWIND_WINDOW HOST_WINDOW
#define UNWIND_READ 4096u
#if defined(__bpf__)
#define UNWIND_ALIGN 64u
#else
#define UNWIND_ALIGN 8u /* a copied stack begins anywhere */
#endif
#define UNWIND_DEEP (1u << 20) /* farther away is another stack */
#define UNWIND_RECENT 4u
/* The cache of rules, by pc. A rule holds from its row to the next one, in most functions from their first
 * instructions to their last. All such intervals within 512 bytes of code go to one set, which is one cache line. */
#if defined(__bpf__)
#define UNWIND_SETS_BITS 11u
#else
#define UNWIND_SETS_BITS 10u
#endif
#define UNWIND_SETS (1u << UNWIND_SETS_BITS)
#define UNWIND_WAYS 5u
#define UNWIND_PART_BITS 9u
#define UNWIND_PART (1ull << UNWIND_PART_BITS)

struct unwind_set {
	__u64 from[UNWIND_WAYS]; /* first pc of the interval + process */
	__u32 rule[UNWIND_WAYS]; /* its size - 1, and unwind_rule_pack() << UNWIND_PART_BITS; 0: empty */
	__u32 turn;		 /* the way to replace next */
};
_Static_assert(sizeof(struct unwind_set) == 64, "unwind_set");
_Static_assert(UNWIND_PACKED_BITS + UNWIND_PART_BITS <= 32, "unwind_set.rule");

struct unwind_recent {
	__u64 start;
	struct unwind_range range; /* size 0: empty */
};

/* One per CPU (BPF) or walk (user space). Zeroed memory is a valid start; `recent` and `cache` may be kept from walk
 * to walk, of any process. */
struct unwind_state {
	/* in; after each step those of the caller */
	__u64 regs[UNWIND_REGISTERS]; /* by DWARF number */
	__u32 known;   /* bit n: regs[n] is known; UNWIND_BASE may have to be read at base_at */
	__u32 exact;   /* regs[UNWIND_PC] was interrupted; else it is a return address */
	__u64 process; /* unwind_begin() */
	__u64 list;
	/* out */
	__u64 fault;	    /* LOSS_PAGE_FAULT: the address that was not readable */
	__u64 rule, second; /* the rule of the frame that was left */
	__u64 from, to;	    /* unwind_table_find(): the rule holds for `from` <= pc < `to` */
	__u32 why;	    /* LOSS_NATIVE_RULE: enum unwind_unsupported */
	__u32 turn;	    /* private from here on */
	__u64 base_at;	    /* where regs[UNWIND_BASE] was saved, not read yet; 0: it is in regs */
	__u64 word;	    /* the word read last */
	__u32 outside;	    /* unwind_usual() reached the end of the window */
	__u64 deep;	    /* the stack is known to reach up to here; 0: not known */
	__u64 wall;	    /* a page that was absent lately: no read extends into it */
	__u64 recent_of;    /* list ^ salt for which `recent` is valid */
	struct unwind_recent recent[UNWIND_RECENT];
	struct host_window window __attribute__((aligned(64))); /* begins as UNWIND_ALIGN says */
	__u64 context[UNWIND_CONTEXT_WORDS];
	struct unwind_set cache[UNWIND_SETS] __attribute__((aligned(64)));
};

/* What unwind_step() returns; all others are enum loss. */
#define UNWIND_UP 0	/* the registers are the caller's */
#define UNWIND_END (-1) /* this frame has no caller */

HOST_INLINE void unwind_begin(struct unwind_state *s, __u64 list, __u64 salt)
{
	s->list = list;
	/* For the cache of rules, a changed list is another process. For `recent`, a list that grew is, too, because
	 * its ranges may have waited for a table. */
	s->process = ((unwind_list_change(list) * 0x9e3779b97f4a7c15ull) ^ salt) & ~(UNWIND_PART - 1);
	s->window.size = 0;
	s->deep = 0;
	s->base_at = 0;
	s->fault = 0;
	s->why = 0;
	if (s->recent_of != (list ^ salt)) {
		s->recent_of = list ^ salt;
		s->recent[0].range.size = s->recent[1].range.size = 0;
		s->recent[2].range.size = s->recent[3].range.size = 0;
	}
}

/* --- tables --- */

/* 1 if a <= b, else 0; both below 1 << 63. Without a branch: each one that depends on data doubles the verifier's
 * paths. */
HOST_INLINE __u32 unwind_at_most(__u64 a, __u64 b)
{
	__u64 less = (b - a) >> 63;

	host_barrier(less);
	return (__u32)less ^ 1;
}

/* How many words of a block are <= key. User addresses and UNWIND_NO_START are below 1 << 63. */
HOST_INLINE __u32 unwind_count_words(const union unwind_block *block, __u64 key)
{
	__u32 found = 0, step;

	for (step = UNWIND_BLOCK_WORDS / 2; step; step >>= 1) {
		found += step &
			 -unwind_at_most(
				 block->words[(found + step - 1) & (UNWIND_BLOCK_WORDS - 1)], key);
		/* clang turns the sum into an OR, of which 6.1's verifier tracks no bounds: the mask must stay. */
		host_barrier(found);
	}
	/* The halving stops one short of the total. */
	return found + unwind_at_most(block->words[found & (UNWIND_BLOCK_WORDS - 1)], key);
}

/* How many of n rows, from `at`, are <= key; 1 <= n < 1 << steps. The number of steps is constant for the verifier;
 * surplus ones change nothing. */
HOST_INLINE __u32 unwind_count_rows(const union unwind_block *block, __u32 at, __u32 n, __u32 key,
				    __u32 steps)
{
	__u32 half;

	for (; steps; steps--) {
		half = n >> 1;
		at += half &
		      -unwind_at_most(block->rows[(at + half - 1) & (UNWIND_BLOCK_ROWS - 1)], key);
		n -= half;
	}
	return at + unwind_at_most(block->rows[at & (UNWIND_BLOCK_ROWS - 1)], key);
}

/* Index of the first of n rows, from `at`, that is > offset; at + n if there is none. */
HOST_INLINE __u32 unwind_search_rows(const union unwind_block *block, __u32 at, __u32 n, __u32 offset)
{
	__u32 key = offset << 16 | 0xffff;

	if (n < 16)
		return unwind_count_rows(block, at, n, key, 4);
	if (n < 64)
		return unwind_count_rows(block, at, n, key, 6);
	return unwind_count_rows(block, at, n, key, 11);
}

/* Finds the rule for `pc`, which is in the range s->recent[which], into s->rule, s->second, and its extent s->from,
 * s->to. */
HOST_APART int unwind_table_find(struct unwind_state *s, __u32 which, __u64 pc)
{
	const union unwind_block *block;
	const struct unwind_range *range;
	host_pool_t pool;
	__u64 offset, entry, page;
	__u32 at, n, end, rule, row;

	if (!s)
		return LOSS_NATIVE_TABLE;
	range = &s->recent[which & (UNWIND_RECENT - 1)].range;
	pool = host_pool(range->pool);
	if (!pool)
		return LOSS_NATIVE_TABLE;
	offset = pc - range->origin;
	at = range->index + (__u32)(offset >> (range->shift & 31));
	block = host_block(pool, at / UNWIND_BLOCK_WORDS);
	if (!block)
		return LOSS_NATIVE_TABLE;
	entry = block->words[at & (UNWIND_BLOCK_WORDS - 1)];
	rule = (__u32)(entry >> 48);
	page = 1ull << (range->shift & 31);
	offset &= page - 1;
	s->from = pc - offset;
	s->to = s->from + page;
	n = (__u16)(entry >> 32);
	if (n) {
		at = range->rows * 2 + (__u32)entry;
		block = host_block(pool, at / UNWIND_BLOCK_ROWS);
		if (!block)
			return LOSS_NATIVE_TABLE;
		end = unwind_search_rows(block, at, n, (__u32)offset);
		if (end != at + n)
			s->to = s->from + (block->rows[end & (UNWIND_BLOCK_ROWS - 1)] >> 16);
		if (end != at) {
			row = block->rows[(end - 1) & (UNWIND_BLOCK_ROWS - 1)];
			rule = row & 0xffff;
			s->from += row >> 16;
		}
	}
	at = range->rules + rule;
	block = host_block(pool, at / UNWIND_BLOCK_WORDS);
	if (!block)
		return LOSS_NATIVE_TABLE;
	s->rule = block->words[at & (UNWIND_BLOCK_WORDS - 1)];
	if (unwind_rule_kind(s->rule) == UNWIND_KIND_LONG) {
		at++;
		block = host_block(pool, at / UNWIND_BLOCK_WORDS);
		if (!block)
			return LOSS_NATIVE_TABLE;
		s->second = block->words[at & (UNWIND_BLOCK_WORDS - 1)];
	}
	return 0;
}

/* Puts the range that contains `pc` into s->recent[s->turn]. 0 or a loss. */
HOST_APART int unwind_list_find(struct unwind_state *s, __u64 pc)
{
	const union unwind_block *block;
	const struct unwind_range *range;
	struct unwind_recent *recent;
	__u32 first, n, found, in;
	host_pool_t pool;

	if (!s)
		return LOSS_NATIVE_TABLE;
	first = (__u32)s->list & 0xfffffffu;
	n = unwind_list_ranges(s->list);
	pool = host_pool(UNWIND_POOL_LISTS);
	if (!n || !pool)
		return LOSS_NATIVE_MAPPING;
	block = host_block(pool, first);
	if (!block)
		return LOSS_NATIVE_TABLE;
	in = unwind_count_words(block, pc);
	if (!in)
		return LOSS_NATIVE_MAPPING;
	block = host_block(pool, first + in);
	if (!block)
		return LOSS_NATIVE_TABLE;
	found = unwind_count_words(block, pc);
	if (!found)
		return LOSS_NATIVE_TABLE;
	recent = &s->recent[s->turn & (UNWIND_RECENT - 1)];
	recent->start = block->words[(found - 1) & (UNWIND_BLOCK_WORDS - 1)];
	found += (in - 1) * UNWIND_BLOCK_WORDS - 1;
	block = host_block(pool, first + 1 + (n + UNWIND_BLOCK_WORDS - 1) / UNWIND_BLOCK_WORDS +
					 found / (UNWIND_BLOCK / sizeof(*range)));
	if (!block)
		return LOSS_NATIVE_TABLE;
	range = (const struct unwind_range *)&block
			->words[found % (UNWIND_BLOCK / sizeof(*range)) * (sizeof(*range) / 8)];
	recent->range = *range;
	if (pc - recent->start < recent->range.size)
		return 0;
	recent->range.size = 0;
	return LOSS_NATIVE_MAPPING;
}

/* The set for `word` (pc + process). Adjacent parts of code are in adjacent sets, to touch fewer pages. */
HOST_INLINE __u32 unwind_set_of(__u64 word)
{
	return (__u32)(word >> UNWIND_PART_BITS) & (UNWIND_SETS - 1);
}

/* Prefetch: a lookup of `pc` will follow soon. */
HOST_INLINE void unwind_touch(const struct unwind_state *s, __u64 pc)
{
	host_touch(&s->cache[unwind_set_of(pc + s->process)]);
}

#define unwind_set_has(set, way, word) ((word) - (set)->from[way] <= ((set)->rule[way] & (UNWIND_PART - 1)))

/* The packed rule (unwind_rule_pack()), or 0. Intervals never span parts of code, so a word of another part with the
 * same set matches none. */
HOST_INLINE __u32 unwind_set_find(const struct unwind_set *set, __u64 word)
{
	__u32 rule = 0;

	if (unwind_set_has(set, 0, word))
		rule = set->rule[0];
	else if (unwind_set_has(set, 1, word))
		rule = set->rule[1];
	else if (unwind_set_has(set, 2, word))
		rule = set->rule[2];
	else if (unwind_set_has(set, 3, word))
		rule = set->rule[3];
	else if (unwind_set_has(set, 4, word))
		rule = set->rule[4];
	return rule >> UNWIND_PART_BITS;
}

/* Adds an interval: the rule holds for `from` to `from` + `more`, inclusive. */
HOST_INLINE void unwind_set_add(struct unwind_set *set, __u64 from, __u32 more, __u64 rule)
{
	__u32 packed = unwind_rule_pack(rule), way = set->turn;

	host_barrier(way);
	if (!packed || way >= UNWIND_WAYS)
		return;
	set->from[way] = from;
	set->rule[way] = packed << UNWIND_PART_BITS | more;
	set->turn = way == UNWIND_WAYS - 1 ? 0 : way + 1;
}

/* Puts s->rule into the cache: it holds for `pc`, from s->from to s->to (not inclusive; the local `to` is). */
HOST_INLINE void unwind_keep(struct unwind_state *s, __u64 pc, const struct unwind_recent *recent)
{
	__u64 from = pc & ~(UNWIND_PART - 1), to = from + UNWIND_PART - 1, word = pc + s->process; /* `to`: the last one */

	if (from < recent->start)
		from = recent->start;
	if (to > recent->start + recent->range.size - 1)
		to = recent->start + recent->range.size - 1;
	if (from < s->from)
		from = s->from;
	if (to > s->to - 1)
		to = s->to - 1;
	if (pc - from > to - from || to - from >= UNWIND_PART) /* a wrong table */
		return;
	unwind_set_add(&s->cache[unwind_set_of(word)], from + s->process, (__u32)(to - from), s->rule);
}

/* Finds the rule for `pc`, not in the cache, into s->rule and the cache. 0 or a loss. */
HOST_APART int unwind_find_far(struct unwind_state *s, __u64 pc)
{
	__u32 which;
	int loss;

	if (!s)
		return LOSS_NATIVE_TABLE;
	for (which = 0; which < UNWIND_RECENT; which++)
		if (pc - s->recent[which].start < s->recent[which].range.size)
			break;
	if (which == UNWIND_RECENT) {
		loss = unwind_list_find(s, pc);
		if (loss)
			return loss;
		which = s->turn++;
	}
	which &= UNWIND_RECENT - 1;
	host_barrier(which);
	which &= UNWIND_RECENT - 1;
	if (s->recent[which].range.flags & UNWIND_RANGE_PENDING)
		return LOSS_NATIVE_PENDING;
	if (s->recent[which].range.flags & UNWIND_RANGE_BARE)
		return LOSS_NATIVE_NO_RULE;
	loss = unwind_table_find(s, which, pc);
	if (!loss && unwind_rule_kind(s->rule) != UNWIND_KIND_LONG)
		unwind_keep(s, pc, &s->recent[which]);
	return loss;
}

/* Finds the rule for `pc` into s->rule. 0 or a loss. */
HOST_INLINE int unwind_find(struct unwind_state *s, __u64 pc)
{
	__u64 word = pc + s->process;
	__u32 packed = unwind_set_find(&s->cache[unwind_set_of(word)], word);

	if (!packed)
		return unwind_find_far(s, pc);
	s->rule = unwind_rule_unpack(packed);
	return 0;
}

/* --- the stack --- */

/* Reads s->word, and the window from there. 0, or LOSS_PAGE_FAULT. */
HOST_APART int unwind_word_read(struct unwind_state *s, __u64 word)
{
	__u64 address;
	__u32 size;

	if (!s)
		return LOSS_NATIVE_TABLE;
	if (word & 7) {
		if (!host_read(&s->word, 8, word))
			return 0;
		s->fault = word;
		return LOSS_PAGE_FAULT;
	}
	address = word & ~(__u64)(UNWIND_ALIGN - 1);
	size = UNWIND_READ;
	/* If the end of the stack is known, do not read past it. */
	if (s->deep - word - 8 < UNWIND_DEEP)
		size = s->deep - address < UNWIND_WINDOW ? s->deep - address : UNWIND_WINDOW;
	if (s->wall - address < size)
		size = s->wall - address;
	host_barrier(size);
	if (size > UNWIND_WINDOW)
		size = UNWIND_WINDOW;
	s->window.size = 0;
	if (size < 8 || host_read(s->window.words, size, address)) {
		/* Only to the end of the page; a copied stack may end anywhere. */
		size = 4096 - ((__u32)address & 4095);
		s->wall = address + size;
		host_barrier(size);
		if (size > UNWIND_WINDOW)
			size = UNWIND_WINDOW;
		if (host_read(s->window.words, size, address)) {
			size = 8;
			address = word;
			if (host_read(s->window.words, 8, address)) {
				s->fault = address;
				return LOSS_PAGE_FAULT;
			}
		}
	}
	s->window.at = address;
	s->window.size = size;
	s->word = s->window.words[((word - address) / 8) & (UNWIND_WINDOW / 8 - 1)];
	return 0;
}

/* Reads a word of the stack. 0, or LOSS_PAGE_FAULT. */
HOST_INLINE int unwind_word(struct unwind_state *s, __u64 address, __u64 *ret)
{
	__u64 at = address - s->window.at;
	int loss;

	if (at < s->window.size && !(at & 7)) {
		*ret = s->window.words[(at / 8) & (UNWIND_WINDOW / 8 - 1)];
		return 0;
	}
	loss = unwind_word_read(s, address);
	*ret = s->word;
	return loss;
}

/* --- applying a rule --- */

#define UNWIND_BIT(reg) (1u << (reg))

HOST_INLINE int unwind_known(const struct unwind_state *s, __u32 reg)
{
	return s->known >> (reg & 31) & 1;
}


/* A signal frame: restores everything that the kernel saved. */
HOST_INLINE int unwind_apply_context(struct unwind_state *s, __u64 rule)
{
	static const __u8 order[UNWIND_CONTEXT_WORDS] = UNWIND_CONTEXT_ORDER;
	__u64 at = s->regs[UNWIND_SP] + unwind_rule_offset(rule);
	__u32 i;

	if (host_read(s->context, sizeof(s->context), at)) {
		s->fault = at;
		return LOSS_PAGE_FAULT;
	}
#if defined(__bpf__)
#pragma unroll
#endif
	for (i = 0; i < UNWIND_CONTEXT_WORDS; i++)
		s->regs[order[i]] = s->context[i];
	s->known = (1u << UNWIND_REGISTERS) - 1;
	s->base_at = 0;
	s->exact = 1;
	return 0;
}

/* Reads the register that a LONG rule describes. 0, or a loss. */
HOST_INLINE int unwind_apply_location(struct unwind_state *s, __u32 place, __u32 reg, __s64 offset,
				   __u64 cfa, __u64 *ret)
{
	__u64 at = cfa;

	if (place == UNWIND_PLACE_MEMORY || place == UNWIND_PLACE_REGISTER) {
		if (!unwind_known(s, reg) || (reg == UNWIND_BASE && s->base_at))
			return LOSS_NATIVE_REGISTER;
		at = s->regs[reg & 15];
		if (place == UNWIND_PLACE_REGISTER) {
			*ret = at;
			return 0;
		}
	}
	return unwind_word(s, at + offset, ret);
}

/* Applies s->rule (and s->second). */
HOST_APART int unwind_apply(struct unwind_state *s)
{
	__u32 kind, reg, known, place;
	__u64 rule, second, cfa, pc = 0, bp, sp;
	__s64 saved;
	int loss;

	if (!s)
		return LOSS_NATIVE_TABLE;
	rule = s->rule;
	second = s->second;
	kind = unwind_rule_kind(rule);
	reg = unwind_rule_register(rule);
	saved = unwind_rule_saved(rule);
	bp = s->regs[UNWIND_BP];
	sp = s->regs[UNWIND_SP];
	known = (s->known & (UNWIND_BIT(UNWIND_BP) | UNWIND_BIT(UNWIND_BASE))) |
		UNWIND_BIT(UNWIND_SP) | UNWIND_BIT(UNWIND_PC);
	if (kind != UNWIND_KIND_PLAIN) {
		if (kind == UNWIND_KIND_NONE)
			return LOSS_NATIVE_NO_RULE;
		if (kind == UNWIND_KIND_END)
			return UNWIND_END;
		if (kind == UNWIND_KIND_CONTEXT)
			return unwind_apply_context(s, rule);
		if (kind != UNWIND_KIND_PLT && kind != UNWIND_KIND_LONG) {
			s->why = (__u32)rule;
			return s->why == UNWIND_UNSUPPORTED_CODE_LATER ? LOSS_NATIVE_PENDING
								       : LOSS_NATIVE_RULE;
		}
	}
	if (!unwind_known(s, reg))
		return LOSS_NATIVE_REGISTER;
	if (reg == UNWIND_BASE && s->base_at) {
		loss = unwind_word(s, s->base_at, &s->regs[UNWIND_BASE]);
		if (loss)
			return loss;
		s->base_at = 0;
	}
	cfa = s->regs[reg] + unwind_rule_offset(rule);
	if (kind == UNWIND_KIND_LONG) {
		if (second & UNWIND_LONG_DEREF) {
			loss = unwind_word(s, cfa, &cfa);
			if (loss)
				return loss;
			cfa += (__s64)(__s16)second;
		}
		place = (__u32)(second >> 44) & 7;
		if (place == UNWIND_PLACE_LOST) {
			known &= ~UNWIND_BIT(UNWIND_BP);
		} else if (place != UNWIND_PLACE_SAME) {
			loss = unwind_apply_location(s, place, (__u32)(second >> 40) & 15, saved, cfa,
						  &bp);
			if (loss)
				return loss;
			known |= UNWIND_BIT(UNWIND_BP);
		}
		loss = unwind_apply_location(s, (__u32)(second >> 36) & 7, (__u32)(second >> 32) & 15,
					  (__s64)(__s16)(second >> 16), cfa, &pc);
		if (loss)
			return loss;
	} else {
		if (kind == UNWIND_KIND_PLT) {
			cfa += (__s64)(s->regs[UNWIND_PC] & 15) >= saved ? 8 : 0;
			saved = 0;
		}
		/* The lower word first: if it is outside, the new window begins there and has the other one. */
		if (saved) {
			loss = unwind_word(s, cfa + saved, &bp);
			if (loss)
				return loss;
			known |= UNWIND_BIT(UNWIND_BP);
		}
		loss = unwind_word(s, cfa - 8, &pc);
		if (loss)
			return loss;
	}
	/* A walk goes upwards. Exceptions: a frame that has called nothing may already have popped its return
	 * address (glibc's vfork); and a signal may come from another stack. */
	if (!(rule & UNWIND_SIGNAL) && (cfa < sp || (cfa == sp && !s->exact)))
		return LOSS_NATIVE_ORDER;
	if (unwind_rule_base(rule)) {
		s->base_at = cfa - 8 * (__u64)unwind_rule_base(rule);
		known |= UNWIND_BIT(UNWIND_BASE);
		if (unwind_rule_base(rule) == UNWIND_BASE_LOST)
			known &= ~UNWIND_BIT(UNWIND_BASE);
	}
	s->regs[UNWIND_BP] = bp;
	s->regs[UNWIND_SP] = cfa;
	s->regs[UNWIND_PC] = pc;
	s->known = known;
	s->exact = rule & UNWIND_SIGNAL ? 1 : 0;
	return UNWIND_UP;
}

struct unwind_stub_context {
	const __u64 *code;
	__u64 rule;
	__u32 first;
};

HOST_LOOP_FN long unwind_stub_try(__u32 i, void *context)
{
	struct unwind_stub_context *c = context;
	const struct unwind_stub *stub;
	__u64 other;

	if (i >= UNWIND_STUBS)
		return 1;
	stub = &unwind_stubs[i];
	other = ((c->code[0] ^ stub->bytes[0]) & stub->mask[0]) | ((c->code[1] ^ stub->bytes[1]) & stub->mask[1]) |
		((c->code[2] ^ stub->bytes[2]) & stub->mask[2]);
	other |= i < c->first;
	/* Without a branch, of which the verifier would take both ways. */
	c->rule |= stub->rule & (((other | -other) >> 63) - 1);
	return 0;
}

/* Steps up from a stub that has no rule (unwind_stubs), if the thread was interrupted in one, or one called what was
 * walked last; else returns `loss`. */
HOST_APART int unwind_stub(struct unwind_state *s, int loss)
{
	struct unwind_stub_context c = {};
	__u64 *code, before;

	if (!s)
		return loss;
	c.first = s->exact ? 0 : UNWIND_STUBS_CALLED;
	code = s->context; /* as scratch: no stack left (6.1) */
	if (host_read(code + 1, 16, s->regs[UNWIND_PC]))
		return loss;
	if (host_read(code, 8, s->regs[UNWIND_PC] - 8)) { /* they begin on another page, which is absent */
		before = (s->regs[UNWIND_PC] & 7) * 8;
		if (!before || host_read(code, 8, s->regs[UNWIND_PC] & ~7ull))
			code[0] = 0;
		code[0] = code[0] << (-before & 63);
	}
	c.code = code;
	host_loop_rare(UNWIND_STUBS, unwind_stub_try, &c);
	if (!c.rule)
		return loss;
	s->rule = c.rule;
	return unwind_apply(s);
}

/* Steps one frame up: UNWIND_UP, UNWIND_END, or the loss that ends the walk (registers are unchanged). */
HOST_INLINE int unwind_step(struct unwind_state *s)
{
	/* A return address may be the first byte behind a call that never returns, already another function: search
	 * one byte before. */
	int loss = unwind_find(s, s->regs[UNWIND_PC] - (s->exact ? 0 : 1));

	if (!loss)
		loss = unwind_apply(s);
	return loss > 0 ? unwind_stub(s, loss) : loss;
}

/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The stepper in the kernel, by itself: walks the stack of the process that calls
 * BPF_PROG_TEST_RUN. tests/tools/unwind_bpf.c fills the maps and compares. */
#include "kernel.h"

#define DEPTH 1024u

#include "pools.h"
#include "cprofd/unwind.h"

struct walked {
	__u64 list, salt; /* in */
	__u32 forget;	  /* in: begin with empty caches */
	__s32 result;
	__u64 n;
	__u64 regs[UNWIND_REGISTERS];
	__u64 pcs[DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct walked);
} walked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct unwind_state);
} state SEC(".maps");

struct context {
	struct walked *walked;
	struct unwind_state *state;
};

static long step(__u32 i, void *ctx)
{
	struct context *c = ctx;
	struct walked *w = c->walked;

	w->pcs[i & (DEPTH - 1)] = c->state->regs[UNWIND_PC];
	w->n = i + 1;
	w->result = unwind_step(c->state);
	return w->result != UNWIND_UP;
}

static long forget(__u32 i, void *ctx)
{
	struct context *c = ctx;

	__builtin_memset(&c->state->cache[i & (UNWIND_SETS - 1)], 0, sizeof(c->state->cache[i]));
	return 0;
}

SEC("raw_tp/unwind")
int walk(void *ignored)
{
	struct context c;
	__u32 zero = 0, i;

	c.walked = bpf_map_lookup_elem(&walked, &zero);
	c.state = bpf_map_lookup_elem(&state, &zero);
	if (!c.walked || !c.state)
		return 0;
	for (i = 0; i < UNWIND_REGISTERS; i++)
		c.state->regs[i] = c.walked->regs[i];
	c.state->known = (1u << UNWIND_REGISTERS) - 1;
	c.state->exact = 1;
	if (c.walked->forget)
		bpf_loop(UNWIND_SETS, forget, &c, 0);
	unwind_begin(c.state, c.walked->list, c.walked->salt);
	bpf_loop(DEPTH, step, &c, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

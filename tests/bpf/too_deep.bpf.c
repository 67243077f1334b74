/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Programs that need more stack than Linux 6.1 allows, each in another way: tools/stack-check has to refuse every one of
 * them. They are never loaded. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define APART __attribute__((noinline))

/* Eight bytes at a time, so that each is an address of its own. */
static __attribute__((always_inline)) long use(volatile __u64 *words, int n, __u64 value)
{
	int i;

	for (i = 0; i < n; i++)
		words[i] = value;
	return (long)words[value & 1];
}

static APART long below_static(__u64 value)
{
	volatile __u64 words[33];

	return use(words, 33, value);
}

APART __attribute__((weak)) long below_global(__u64 value)
{
	volatile __u64 words[33];

	return use(words, 33, value);
}

static APART long below_loop(__u32 at, void *value)
{
	volatile __u64 words[33];

	return use(words, 33, at + (__u64)value) & 1;
}

/* A helper writes it: no instruction of the program does. */
static APART long below_helper(__u64 value)
{
	char bytes[264];

	return bpf_probe_read_kernel(bytes, sizeof(bytes), (void *)value);
}

SEC("raw_tp")
int by_static(__u64 *ctx)
{
	volatile __u64 words[32];

	return use(words, 32, ctx[0]) + below_static(ctx[0]);
}

SEC("raw_tp")
int by_global(__u64 *ctx)
{
	volatile __u64 words[32];

	return use(words, 32, ctx[0]) + below_global(ctx[0]);
}

SEC("raw_tp")
int by_loop(__u64 *ctx)
{
	volatile __u64 words[32];

	return use(words, 32, ctx[0]) + bpf_loop(4, below_loop, ctx, 0);
}

SEC("raw_tp")
int by_helper(__u64 *ctx)
{
	volatile __u64 words[32];

	return use(words, 32, ctx[0]) + below_helper(ctx[0]);
}

#define FRAME(n, next)                          \
	static APART long frame_##n(__u64 value)    \
	{                                           \
		return next(value) + (long)bpf_ktime_get_ns(); \
	}
static APART long frame_9(__u64 value)
{
	return (long)bpf_ktime_get_ns() + (long)value;
}
FRAME(8, frame_9)
FRAME(7, frame_8)
FRAME(6, frame_7)
FRAME(5, frame_6)
FRAME(4, frame_5)
FRAME(3, frame_4)
FRAME(2, frame_3)

SEC("raw_tp")
int by_frames(__u64 *ctx)
{
	return frame_2(ctx[0]);
}

const char licensed_as[] SEC("license") = "Dual MIT/GPL";

/* SPDX-License-Identifier: MIT */
/* The one file that knows whether a shared header is compiled for BPF or for user space.
 *
 * The walkers of include/ are compiled twice: by clang for BPF, and by the C compiler for user space (tests,
 * fuzzing, dump, check). They use only what is declared here: fixed-width types, host_read() and host_loop().
 *
 * host_read(dst, size, address): copy `size` bytes of the target's memory at
 *   `address`; 0 or -errno. In BPF the target is the interrupted task, and the
 *   read never faults a page in (-EFAULT instead). In user space it calls the
 *   `struct host_reader` that is installed for this thread.
 * host_touch(address): a prefetch, by a load of 8 bytes whose result nothing waits for.
 * host_copy(dst, size, src): copies the walker's own memory; in BPF one call, because the verifier walks through a
 *   loop round by round.
 * host_pool(n), host_block(pool, i): pool n of blocks of 4,096 bytes that user space filled (unwind.h), and a pointer
 *   to its block i; NULL: none. In BPF the file that includes a walker defines both before it: the maps are there.
 * host_loop(n, fn, ctx): calls fn(i, ctx) for i = 0..n-1 until it returns 1; returns the number of calls made, or
 *   -errno.
 * host_loop_rare(n, fn, ctx): the same where it is rarely called: a round costs more in BPF, and loading the program less.
 */
#pragma once

#include <linux/types.h>

/* A copy of a piece of the target's memory, of which words are read. In BPF it has the same alignment modulo 64 as
 * its addresses: the copy then takes half the time. */
#define HOST_WINDOW 16384u
struct host_window {
	__u64 at;   /* address of words[0] */
	__u64 size; /* bytes; 0: empty */
	__u64 _pad[6];
	__u64 words[HOST_WINDOW / 8];
};

#if defined(__bpf__)

/* bpf/kernel.h (kernel types) and libbpf's helpers come first. */
#define HOST_INLINE static __always_inline
#define HOST_LOOP_FN static
/* A function that is not inlined: the verifier checks it once, for all callers. Weak, so that clang assumes nothing
 * about its result: the verifier does not either, and newer clangs (19) drop a bounds check that they can prove from
 * the function's body. */
#define HOST_APART __attribute__((noinline, weak))
/* bpf_loop allows 1 << 23 rounds at most. */
#define host_loop(n, fn, ctx) bpf_loop((n), (fn), (ctx), 0)
/* Of flags that it knows to be 0 the kernel inlines the call, and moves all that follows. */
static volatile __u64 host_no_flags;
#define host_loop_rare(n, fn, ctx) bpf_loop((n), (fn), (ctx), host_no_flags)
typedef void *host_pool_t;
#define host_read(dst, size, address) bpf_probe_read_user((dst), (size), (const void *)(address))
#define host_copy(dst, size, src) bpf_probe_read_kernel((dst), (size), (src))
/* Keeps clang from dropping a bounds check that the verifier must see. */
#define host_barrier(var) asm volatile("" : "+r"(var))
#define HOST_NO_UNROLL _Pragma("clang loop unroll(disable)")
#define host_touch(address) \
	do { \
		__u64 ignored_; \
		asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(ignored_) : "r"(address)); \
	} while (0)

#else /* user space */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HOST_INLINE static inline
#define HOST_LOOP_FN static
#define HOST_APART static __attribute__((noinline, unused))
#define host_barrier(var) ((void)0)
#define host_touch(address) ((void)(address))
#define HOST_NO_UNROLL

/* Reads `size` bytes at `address` of a target; 0 or -errno (short is -EFAULT). */
struct host_reader {
	int (*read)(struct host_reader *self, void *dst, size_t size, uint64_t address);
};

/* The reader of the calling thread; set it before a walk. Not owned. */
extern _Thread_local struct host_reader *host_reader_current;

static inline long host_read(void *dst, size_t size, uint64_t address)
{
	return host_reader_current->read(host_reader_current, dst, size, address);
}

struct host_pool {
	const void *blocks;
	uint32_t n;            /* blocks */
};
typedef const struct host_pool *host_pool_t;

/* The pools of the calling thread. Not owned. */
extern _Thread_local const struct host_pool *host_pools_current;
extern _Thread_local uint32_t host_pools_n;

static inline void host_copy(void *dst, size_t size, const void *src)
{
	memcpy(dst, src, size);
}

static inline host_pool_t host_pool(uint32_t n)
{
	return n < host_pools_n ? &host_pools_current[n] : NULL;
}

static inline const void *host_block(host_pool_t pool, uint32_t i)
{
	return i < pool->n ? (const char *)pool->blocks + (size_t)i * 4096 : NULL;
}

#define host_loop_rare host_loop

static inline long host_loop(uint32_t n, long (*fn)(uint32_t, void *), void *ctx)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (fn(i, ctx))
			return i + 1;
	return i;
}

#endif

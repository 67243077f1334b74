/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The pools of unwind tables as maps: the host functions that unwind.h needs in BPF. */
#pragma once

/* User space makes and fills each. */
struct pool {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(key_size, 4);
	__uint(value_size, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 32); /* BROKER_POOLS_MAX; the broker makes each on request of the engine */
	__uint(key_size, 4);
	__array(values, struct pool);
} pools SEC(".maps");

static __always_inline void *host_pool(__u32 n)
{
	return bpf_map_lookup_elem(&pools, &n);
}
static __always_inline const void *host_block(void *pool, __u32 i)
{
	return bpf_map_lookup_elem(pool, &i);
}

/* The program to compare with: a tick that does nothing. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("perf_event")
int empty(void *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

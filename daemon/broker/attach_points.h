/* SPDX-License-Identifier: MIT */
/* Where programs of SEC("iter/...") and SEC("tp_btf/...") attach: at types in vmlinux's BTF. To find the id of such
 * a type, libbpf copies all of that BTF and compares 150,000 names: 12 ms of each load. kernel_types.c reads the BTF
 * anyway, and passes the ids on through this header.
 *
 * Threads: only the one that loads programs, as for all of libbpf's settings. */
#pragma once

#include <stdint.h>

struct bpf_link;
struct bpf_program;

/* Reports a type that was seen in vmlinux's BTF; `kind`: BTF_KIND_*. */
void attach_points__found(uint32_t kind, const char *name, uint32_t type);
/* Objects that are opened from now on use the reported types; libbpf searches for those that were not reported. */
void attach_points__use(void);
/* Use it instead of bpf_program__attach() for all programs: libbpf no longer knows what these sections mean. NULL:
 * see errno. */
struct bpf_link *attach_points__attach(struct bpf_program *program);

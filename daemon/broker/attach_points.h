/* SPDX-License-Identifier: MIT */
/* Where programs of SEC("iter/...") and SEC("tp_btf/...") are attached: types of vmlinux's BTF. To find the number of such a type, libbpf copies
 * all of that BTF, reads through it, and compares 150,000 names: 12 ms of a load. Who goes through it anyway tells them here.
 *
 * Threads: the one that loads programs, as for all of libbpf's settings. */
#ifndef CPROFD_BROKER_ATTACH_POINTS_H
#define CPROFD_BROKER_ATTACH_POINTS_H

#include <stdint.h>

struct bpf_link;
struct bpf_program;

/* A type of vmlinux's BTF; `kind`: BTF_KIND_*. */
void attach_points__met(uint32_t kind, const char *name, uint32_t type);
/* Objects that are opened from here on are loaded with the types that were met; what was not is looked for by libbpf. */
void attach_points__use(void);
/* As bpf_program__attach(), for all programs: libbpf has forgotten what those sections are for. NULL: errno. */
struct bpf_link *attach_points__attach(struct bpf_program *program);

#endif

/* SPDX-License-Identifier: MIT */
/* The kernel's types, as far as a BPF object asks for them: a small BTF in place of vmlinux's, which has 150,000 types. libbpf
 * copies that, and goes through all of it for each type that it places: 15 ms of the 40 that a sampler takes to load. */
#ifndef CPROFD_BROKER_KERNEL_TYPES_H
#define CPROFD_BROKER_KERNEL_TYPES_H

struct btf;

/* The structures of the kernel that `local`, an object's own BTF, has by name, each with the members that it has there. A file in
 * memory (bpf_object_open_opts.btf_custom_path by /proc/self/fd); the caller closes it. Whoever finds that something is missing in it
 * takes vmlinux's. Attach points are told what was met (attach_points.h). */
int kernel_types__open(const struct btf *local, int *ret_fd);

#endif

/* SPDX-License-Identifier: MIT */
/* A small BTF in place of vmlinux's, with only the kernel's structures that a BPF object accesses. vmlinux's has
 * 150,000 types; libbpf copies it and goes through all of it for each type that it relocates: 15 ms of the 40 ms
 * that loading a sampler takes. */
#pragma once

struct btf;

/* Copies the structures that occur by name in `local`, an object's own BTF, with the members that they have there,
 * into a file in memory (for bpf_object_open_opts.btf_custom_path, by /proc/self/fd); the caller closes it. If
 * loading with it fails, use vmlinux's BTF. Also reports attach points (attach_points.h). */
int kernel_types__open(const struct btf *local, int *ret_fd);

/* SPDX-License-Identifier: MIT */
/* What a client was authorised for, of one process: an image (who it is, and what it runs) and the rights that it had then. The
 * broker publishes it in the map `targets`, the sampler compares it before each thing that it reads (bpf/authorised.h). */
#ifndef CPROFD_TARGET_H
#define CPROFD_TARGET_H

#ifdef __bpf__
#include <linux/types.h>
#else
#include <stdint.h>
#include <linux/types.h>
#endif

enum target_state {
	TARGET_CHECKED = 0, /* the image and the rights of below, and no other */
	TARGET_ANY = 1,     /* the client may look into every process: nothing is compared */
};

struct target {
	/* The image. Addresses of the kernel are compared alone; the broker keeps them to itself. */
	__u64 start;        /* of the process: boottime ns */
	__u64 mm;           /* 0: none is authorised */
	__u32 exec;         /* self_exec_id */
	__u32 state;        /* enum target_state */
	/* The rights: what PTRACE_MODE_READ asks for. */
	__u64 user_ns, capabilities;
	__u64 ids[4];       /* uid, gid, suid, sgid, euid, egid, fsuid, fsgid */
	__u64 dumpable;
};

#endif

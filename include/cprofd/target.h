/* SPDX-License-Identifier: MIT */
/* What a client was authorised for in one process: an image (the process and what it runs) and the rights that the
 * process had then. The broker publishes it in the map `targets`, the sampler compares it before each read
 * (bpf/authorised.h). */
#pragma once

#ifdef __bpf__
#include <linux/types.h>
#else
#include <stdint.h>
#include <linux/types.h>
#endif

enum target_state {
	TARGET_CHECKED = 0, /* this image with these rights, and no other */
	TARGET_ANY = 1,     /* the client may read every process: nothing is compared */
};

struct target {
	/* The image. Kernel addresses are only compared; the broker never passes them on. */
	__u64 start;        /* of the process: boottime ns */
	__u64 mm;           /* 0: no image is authorised */
	__u32 exec;         /* self_exec_id */
	__u32 state;        /* enum target_state */
	/* The rights: what PTRACE_MODE_READ compares. */
	__u64 user_ns, capabilities;
	__u64 ids[4];       /* uid, gid, suid, sgid, euid, egid, fsuid, fsgid */
	__u64 dumpable;
	/* 1: no client without CAP_SYS_PTRACE may read it as it is: it is not dumpable, and in the user namespace of the
	 * broker. (In one of their own, users have all capabilities.) Follows from the above, so it is not compared. */
	__u64 hides;
};

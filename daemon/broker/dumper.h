/* SPDX-License-Identifier: MIT */
/* The libbpf side of a dump: loads bpf/dump.bpf.c, one instance per dump. What the programs output is not read here. */
#pragma once

#include "broker/broker.h"

/* Kernel memory that its maps use. */
uint64_t dumper__bytes(void);

struct dumper;
/* `pidfd`: of the process `pid`; the iterator visits its threads. `all`: the client may read every process. *ret_error
 * says what is missing. */
int dumper__load(pid_t pid, int pidfd, bool all, bool verbose, struct dumper **ret, enum broker_error *ret_error);
void dumper__free(struct dumper *dumper);

/* From now on only threads of the image that the process runs now are dumped: call it before process__unchanged().
 * Unless the client may read every process, nothing is dumped while the process has other rights than now. -ESRCH: no
 * thread was found. -EACCES: it is not dumpable now (struct target, `hides`). */
int dumper__pin(struct dumper *dumper);

/* The maps and the iterator, in the order of BROKER_ATTACHED; owned by the dumper. */
void dumper__fds(const struct dumper *dumper, int ret[BROKER_MAP_FDS]);
int dumper__program(const struct dumper *dumper); /* for PERF_EVENT_IOC_SET_BPF */

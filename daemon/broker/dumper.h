/* SPDX-License-Identifier: MIT */
/* The door to libbpf for a dump: bpf/dump.bpf.c, one instance for each. Nothing that it gave is read here. */
#ifndef CPROFD_BROKER_DUMPER_H
#define CPROFD_BROKER_DUMPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/broker.h"

/* Of kernel memory that its maps take. */
uint64_t dumper__bytes(void);

struct dumper;
/* `pidfd`: of the process `pid`, whose threads the iterator will tell of. *ret_error says what is missing. */
int dumper__load(pid_t pid, int pidfd, bool verbose, struct dumper **ret, enum broker_error *ret_error);
struct dumper *dumper__free(struct dumper *dumper); /* NULL */

/* From here on only the image is told of that the process runs now: call before process__unchanged(). -ESRCH: no
 * thread was met. */
int dumper__pin(struct dumper *dumper);

/* The maps and the iterator, in the order of BROKER_ATTACHED: owned by the dumper. */
void dumper__fds(const struct dumper *dumper, int ret[BROKER_MAP_FDS]);
int dumper__program(const struct dumper *dumper); /* for PERF_EVENT_IOC_SET_BPF */

#endif

/* SPDX-License-Identifier: MIT */
/* The door to libbpf: the sampler in the kernel, one instance for each session
 * (its own rings and images). */
#ifndef CPROFD_BROKER_LOAD_H
#define CPROFD_BROKER_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/broker.h"
#include "cprofd/target.h"

/* Which native stacks come with a copy of the stack itself (struct part_stack). */
enum load_stacks { LOAD_STACKS_UNFINISHED, LOAD_STACKS_NEVER, LOAD_STACKS_ALWAYS };

struct load_options {
	uint64_t ring_bytes;   /* 0: BROKER_RING_BYTES */
	bool follow_children;
	uint32_t native;       /* enum broker_native */
	uint32_t stacks;       /* enum load_stacks */
	bool kernel;           /* stacks of the kernel */
	bool wall;             /* time on no CPU, too (bpf/offcpu.h) */
	bool gil;              /* which ticks meet the GIL's holder */
	bool verbose;          /* libbpf may print to stderr */
};

/* What the flags of BROKER_ATTACH ask for. */
struct load_options load_options__of(uint32_t flags, bool verbose);

/* CPUs that there may be, each with its own rings: -errno. CPROFD_CPUS in the environment: so many at least (tests). */
int load__cpus(void);
struct bpf_map;
/* Kernel memory of a map that is opened, not loaded: as kernel/bpf/ allocates it, a little more. */
uint64_t load__map_bytes(const struct bpf_map *map);
/* Of kernel memory that the maps of a sampler take on a machine with so many CPUs, without pools. */
uint64_t sampler__bytes(const struct load_options *options, int cpus);

struct sampler;
/* *ret_error says what is missing. Nothing runs yet: */
int sampler__load(const struct load_options *options, struct sampler **ret,
		  enum broker_error *ret_error);
/* Attaches the lifecycle programs. Apart, as until then a sampler that waits costs the machine's processes nothing. */
int sampler__start(struct sampler *sampler);
/* Was it loaded with these options? */
bool sampler__fits(const struct sampler *sampler, const struct load_options *options);
struct sampler *sampler__free(struct sampler *sampler); /* NULL */

/* Detaches what sampler__start() attached. */
void sampler__stop(struct sampler *sampler);
/* Of one that was stopped, and whose engine is gone: a thread empties it, and then it can be started again. NULL, freed: it cannot be. */
struct sampler *sampler__recycle(struct sampler *sampler);
/* Have its maps been cleared? *ret_failed: they cannot be. */
bool sampler__is_empty(const struct sampler *sampler, bool *ret_failed);

/* fds that the sampler owns. */
int sampler__ring(const struct sampler *sampler);
int sampler__images(const struct sampler *sampler);
int sampler__samples(const struct sampler *sampler); /* struct sample_ring per CPU */
int sampler__processes(const struct sampler *sampler); /* struct native_key -> struct unwind_process */
int sampler__program(const struct sampler *sampler); /* for PERF_EVENT_IOC_SET_BPF */

/* Samples a second of a thread's CPU time, and so often at most is the stack taken with which a thread leaves its CPU. Before events are opened. */
void sampler__set_rate(struct sampler *sampler, uint32_t rate);
/* Of a sampler with `wall`. Before its first target: switches are looked at from now on. */
void sampler__watch_waits(struct sampler *sampler);
/* The time on no CPU counts from now on (what it returns, CLOCK_MONOTONIC ns). */
uint64_t sampler__begin_waits(struct sampler *sampler);
/* Tells the time of each thread up to now, which it returns; 0: without `wall`. */
uint64_t sampler__end_waits(struct sampler *sampler);

/* The next pool of unwind tables: zeros, mapped by whoever gets *ret_fd, which is the caller's to close. At most
 * BROKER_POOLS_MAX with BROKER_POOLS_BYTES together (-EDQUOT). Its number is *ret_number. */
int sampler__add_pool(struct sampler *sampler, uint64_t bytes, uint32_t *ret_number, int *ret_fd);

/* What the process is and may at this instant. -ESRCH: there is none. */
int sampler__note(struct sampler *sampler, pid_t pid, struct target *ret);
/* Processes whose life is reported, and what of them may be sampled. publish: of one that is known already. */
int sampler__add_target(struct sampler *sampler, pid_t pid, const struct target *as);
int sampler__publish(struct sampler *sampler, pid_t pid, const struct target *as);
bool sampler__is_target(const struct sampler *sampler, pid_t pid);

#endif

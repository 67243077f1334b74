/* SPDX-License-Identifier: MIT */
/* The libbpf side of sessions: the sampler in the kernel, one instance per session, with its own ring buffers and
 * images. */
#pragma once

#include <errno.h>

#include "broker/broker.h"
#include "cprofd/target.h"

/* Which samples carry a copy of the stack memory (struct part_stack). */
enum load_stacks { LOAD_STACKS_UNFINISHED, LOAD_STACKS_NEVER, LOAD_STACKS_ALWAYS };

/* What a sampler is loaded with. Samplers with equal options can replace each other (sampler__fits()). */
struct load_options {
	uint64_t ring_bytes;   /* 0: BROKER_RING_BYTES */
	bool follow_children;
	uint32_t native;       /* enum broker_native */
	uint32_t stacks;       /* enum load_stacks */
	bool kernel;           /* stacks of the kernel */
	bool wall;             /* record waits, too (bpf/offcpu.h) */
	bool gil;              /* record which ticks hit the GIL's holder */
	bool host;             /* report each exec of the machine */
	bool verbose;          /* libbpf may print to stderr */
};

/* The options for the flags of BROKER_ATTACH. */
struct load_options load_options__of(uint32_t flags, bool verbose);

/* Number of possible CPUs, each of which has its own ring; -errno. CPROFD_CPUS in the environment raises it (for
 * tests). */
int load__cpus(void);
/* Does libbpf print its warnings to stderr? */
void load__print(bool verbose);
/* What the user reads of a load that failed. */
enum broker_error load__error(int err);
/* libbpf tries out what the kernel can do, and takes a lack of memory for a no: then a load succeeds without the variables
 * that we write to. */
static inline int load__has(bool variables)
{
	return variables ? 0 : -ENOMEM;
}
struct bpf_object;
/* Global variables of BPF programs are mapped into this process. Engines that are forked later, for other users, must
 * not inherit the mapping. */
int load__hide_from_children(const struct bpf_object *object);
struct bpf_map;
/* Kernel memory of a map that is opened but not loaded: as kernel/bpf/ allocates it, or a little more. */
uint64_t load__map_bytes(const struct bpf_map *map);
/* Kernel memory of a sampler's maps on a machine with so many CPUs, without pools. */
uint64_t sampler__bytes(const struct load_options *options, int cpus);

struct sampler;
/* Loads the programs and creates the maps. *ret_error says what is missing. Nothing is attached yet. */
int sampler__load(const struct load_options *options, struct sampler **ret,
		  enum broker_error *ret_error);
/* Attaches the programs for fork, exec and exit. A separate step, because until then a waiting sampler costs other
 * processes nothing. */
int sampler__start(struct sampler *sampler);
/* Was it loaded with these options? */
bool sampler__fits(const struct sampler *sampler, const struct load_options *options);
struct sampler *sampler__free(struct sampler *sampler); /* NULL */

/* Detaches what sampler__start() attached. */
void sampler__stop(struct sampler *sampler);
/* For a stopped sampler whose engine is gone: a thread clears its maps, then it can be started again. NULL: it was
 * freed instead. */
struct sampler *sampler__recycle(struct sampler *sampler);
/* Are its maps cleared? *ret_failed: they cannot be. */
bool sampler__is_empty(const struct sampler *sampler, bool *ret_failed);

/* Descriptors that the sampler owns. */
int sampler__ring(const struct sampler *sampler);
int sampler__images(const struct sampler *sampler);
int sampler__samples(const struct sampler *sampler); /* struct sample_ring per CPU */
int sampler__processes(const struct sampler *sampler); /* struct native_key -> struct unwind_process */
int sampler__program(const struct sampler *sampler); /* for PERF_EVENT_IOC_SET_BPF */

/* Samples per second of a thread's CPU time; also the maximum rate of stacks at the begin of waits. Call it before
 * perf events are opened. */
void sampler__set_rate(struct sampler *sampler, uint32_t rate);
/* From now on fewer of the ticks are samples. At most what sampler__set_rate() set. */
void sampler__lower_rate(struct sampler *sampler, uint32_t rate);
/* With `wall`, before the first target: from now on context switches are watched. */
void sampler__watch_waits(struct sampler *sampler);
/* From now on waits are counted. Returns that time, CLOCK_MONOTONIC ns. */
uint64_t sampler__begin_waits(struct sampler *sampler);
/* Emits the time of each thread up to now, and returns now; 0: without `wall`. */
uint64_t sampler__end_waits(struct sampler *sampler);

/* Creates the next pool of unwind tables, filled with zeros, to be mapped through *ret_fd, which the caller closes.
 * At most BROKER_POOLS_MAX pools, together BROKER_POOLS_BYTES (-EDQUOT). *ret_number is its number. */
int sampler__add_pool(struct sampler *sampler, uint64_t bytes, uint32_t *ret_number, int *ret_fd);

/* Reads what a process is, and what it may do, at this instant. -ESRCH: there is none. */
int sampler__note(struct sampler *sampler, pid_t pid, struct target *ret);
/* add_target: report a process's fork, exec and exit from now on; `as` says what of it may be sampled. publish:
 * changes that for a known process. */
int sampler__add_target(struct sampler *sampler, pid_t pid, const struct target *as);
int sampler__publish(struct sampler *sampler, pid_t pid, const struct target *as);
void sampler__remove_target(struct sampler *sampler, pid_t pid);
bool sampler__is_target(const struct sampler *sampler, pid_t pid);
/* All targets that there are, some perhaps twice. The array is the caller's. */
int sampler__targets(const struct sampler *sampler, pid_t **ret, uint32_t *ret_n);

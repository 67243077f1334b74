/* SPDX-License-Identifier: MIT */
/* Attribution: for which Python call does a worker work? A worker is a thread without Python frames (of a compiler's
 * pool, of OpenMP, of a BLAS) or a child process. Decided from samples of all threads of the process; the first rule
 * that applies:
 *
 *   woken   A thread in that call woke the worker from its idle wait, or created it; or another worker of that call
 *           did. Valid as long as the call lasts (the caller's innermost Python frame does not move on), until the
 *           worker goes idle again or ends the caller's wait.
 *   child   That thread forked the worker's process, directly or through children, and waits for it or reads from it,
 *           as far as the thread's state at that time is known.
 *   only    Exactly one thread of the process waits for another thread, in native code that Python called.
 *   likely  Several threads wait so. The worker worked for this one last, ended that wait, and was not idle since.
 *
 * A thread counts as waiting if it was switched out in such a wait, or was sampled there last, `quiet` ns ago; without
 * recorded context switches: if it was in such code when it was sampled last. Samples are ticks and context switches.
 * Between two of them a call may end and an equal one begin; they count as one. Work that a pool's thread takes from a
 * queue of several callers, without going idle between, counts for the first of them.
 *
 * Pure: the owner of the threads (daemon/profile/workers.c) keeps a struct attribution_thread in each and reports what
 * it knows in order of time (ns). Stack nodes are the owner's numbers; a caller's node is smaller than those of what it
 * called. Memory: only these structs. One thread. No errors. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* X(id, name): the numbers are those of the stream (samples, "how"): new ones go to the end. */
#define ATTRIBUTION_HOWS(X) \
	X(OWN, "")            /* it has Python frames of its own */ \
	X(WOKEN, "woken") \
	X(CHILD, "child") \
	X(ONLY, "only") \
	X(LIKELY, "likely") \
	X(UNKNOWN, "not known") /* it works for no call, or for an unknown one */

#define ATTRIBUTION_ENUM(id, name) ATTRIBUTION_##id,
enum attribution_how { ATTRIBUTION_HOWS(ATTRIBUTION_ENUM) ATTRIBUTION_HOW_COUNT };
#undef ATTRIBUTION_ENUM

const char *attribution__name(enum attribution_how how);
/* Is there a caller? */
static inline bool attribution__is_given(uint32_t how)
{
	return how == ATTRIBUTION_WOKEN || how == ATTRIBUTION_CHILD || how == ATTRIBUTION_ONLY || how == ATTRIBUTION_LIKELY;
}

enum attribution_state {
	ATTRIBUTION_RUNS,    /* it has a CPU, or could run */
	ATTRIBUTION_WAITS,   /* waits for another thread: at a condition, a semaphore, a barrier */
	ATTRIBUTION_LISTENS, /* waits for a child process, or for data from a pipe */
	ATTRIBUTION_AWAY,    /* waits for something else: a Python lock, a timer */
};

#define ATTRIBUTION_LEADS 32u

/* Where a thread was when it was sampled last. */
struct attribution_seen {
	uint64_t time;     /* 0: never */
	uint32_t stack;    /* stack node; 0: none */
	uint32_t call;     /* stack node of its innermost Python frame; 0: none */
	bool outside;      /* that frame called native code other than the interpreter */
	bool over;         /* it is known to have left that place since */
	uint8_t state;     /* enum attribution_state */
};

struct attribution_thread {
	bool python;           /* it was seen with Python frames: it is a caller, not a worker */
	struct attribution_seen seen;
	/* For whom it works, as far as it is known: a ring, because samples are attributed some time after they were
	 * taken. */
	struct attribution_lead {
		struct attribution_thread *caller; /* NULL: unknown, or none */
		/* the worker that passed the work on; for whom that one worked may become known later */
		struct attribution_thread *via;
		uint64_t time;     /* valid since */
		uint32_t call;     /* 0: the caller was not sampled since */
		uint8_t how;
	} leads[ATTRIBUTION_LEADS];
	uint32_t n_leads;
};

/* Access to the threads of the caller's process. */
struct attribution_group {
	/* The next thread with Python frames after `before` (NULL: the first one); NULL: no more. */
	struct attribution_thread *(*next)(struct attribution_group *self, struct attribution_thread *before);
	/* Is node `inner` the node `outer`, or inside of it? */
	bool (*inside)(struct attribution_group *self, uint32_t inner, uint32_t outer);
	uint64_t quiet;
	/* context switches are recorded, too: a thread without samples for long may be waiting for a CPU */
	bool switches;
};

/* Thread `by` created the worker, or woke it from its idle wait; NULL: no thread of its process did. */
void attribution__woken(struct attribution_thread *worker, struct attribution_thread *by, uint64_t time);
/* The worker ended the wait of `waiter` at this time. */
void attribution__answered(const struct attribution_thread *waiter, struct attribution_thread *worker, uint64_t time);

struct attribution {
	struct attribution_thread *caller; /* NULL unless attribution__is_given(how) */
	enum attribution_how how;
};
/* For whom does this worker, sampled at work, work? */
struct attribution attribution__of(struct attribution_group *group, struct attribution_thread *worker, uint64_t now);
/* The same for a thread of another process that `forker` created; NULL: unknown. */
struct attribution attribution__of_child(const struct attribution_group *group, struct attribution_thread *forker, uint64_t now);

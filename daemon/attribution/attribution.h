/* SPDX-License-Identifier: MIT */
/* Attribution: for whose call a thread without Python of its own works (a compiler's pool, OpenMP's, a BLAS's; or a child process). Decided from
 * what was seen of the threads of a process, by these rules, the first that holds:
 *
 *   woken   It was woken from its rest, or made, by a thread that was in that call; or by another worker of that call. It holds as long as
 *           the call goes on: the frame of the caller that is innermost in Python has not moved. It ends when the worker rests again, and
 *           when it ends the caller's wait.
 *   child   Its process was forked by that thread (or by a child of it, to any depth), which waits for it, or listens to it, as far as is
 *           known of that time (asked late, what the thread did later says nothing).
 *   only    One thread of the process waits, in native code that Python called, for what another one does, and no other does.
 *   likely  Several wait so. It worked for this one last, ended that wait, and has not rested since.
 *
 * A thread that waits is one that left its CPU so, or did when it was met last, `quiet` ns ago; or, where nobody looks at switches, that
 * was in such code then. What is seen is a tick, or where a thread left its CPU: between two of those a call may have ended and its like have begun,
 * which is taken for it. Work that a pool's thread takes from a queue of several callers, without rest, is taken for the first one's.
 *
 * Pure: the owner of the threads (daemon/profile/workers.c) keeps a struct attribution_thread in each, and hands over what it knows in order of
 * time, ns; stack nodes are numbers of its own, a caller's below those of what it called. Memory: none but those. One thread. No errors. */
#ifndef CPROFD_ATTRIBUTION_ATTRIBUTION_H
#define CPROFD_ATTRIBUTION_ATTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

/* X(id, name): the numbers are those of the stream (samples, "how"): new ones go to the end. */
#define ATTRIBUTION_HOWS(X) \
	X(OWN, "")            /* it has a Python of its own */ \
	X(WOKEN, "woken") \
	X(CHILD, "child") \
	X(ONLY, "only") \
	X(LIKELY, "likely") \
	X(UNKNOWN, "not known") /* it works for nobody, or for nobody knows whom */

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
	ATTRIBUTION_RUNS,    /* it has a CPU, or wants one */
	ATTRIBUTION_WAITS,   /* for another thread: at a condition, a semaphore, a barrier */
	ATTRIBUTION_LISTENS, /* for a child process, or for what comes through a pipe */
	ATTRIBUTION_AWAY,    /* for something else: a lock of Python's, an alarm */
};

#define ATTRIBUTION_LEADS 32u

/* Where a thread was met last. */
struct attribution_seen {
	uint64_t time;     /* 0: never */
	uint32_t stack;    /* a node; 0: none */
	uint32_t call;     /* that of its innermost Python frame; 0: none */
	bool outside;      /* native code that is not the interpreter's is at work in that */
	bool over;         /* it is known not to be there any more */
	uint8_t state;     /* enum attribution_state */
};

struct attribution_thread {
	bool python;           /* it has Python frames at times: it calls, and does not work for others */
	struct attribution_seen seen;
	/* Whose work it does, as far as is known: a ring, as a sample may be asked for when its time is over. */
	struct attribution_lead {
		struct attribution_thread *caller; /* NULL: nobody's */
		struct attribution_thread *via; /* what that worker did then, which may be known later */
		uint64_t time;     /* since when */
		uint32_t call;     /* 0: the caller was not met since */
		uint8_t how;
	} leads[ATTRIBUTION_LEADS];
	uint32_t n_leads;
};

/* How the threads of the caller's process are found. */
struct attribution_group {
	/* The next one after `before` (NULL: the first) that has Python frames; NULL: there are no more. */
	struct attribution_thread *(*next)(struct attribution_group *self, struct attribution_thread *before);
	/* Is this node the other one, or called by it? */
	bool (*inside)(struct attribution_group *self, uint32_t inner, uint32_t outer);
	uint64_t quiet;
	bool switches; /* threads are met where they leave their CPU, too: who is not met for long may wait for one */
};

/* The worker was made by this thread, or got up from where workers rest, woken by it; NULL: by none of its process. */
void attribution__woken(struct attribution_thread *worker, struct attribution_thread *by, uint64_t time);
/* This thread waited, and the worker ended that then. */
void attribution__answered(const struct attribution_thread *waiter, struct attribution_thread *worker, uint64_t time);

struct attribution {
	struct attribution_thread *caller; /* NULL unless attribution__is_given(how) */
	enum attribution_how how;
};
/* Of a worker that is met at work. */
struct attribution attribution__of(struct attribution_group *group, struct attribution_thread *worker, uint64_t now);
/* Of a thread of another process, which `forker` made; NULL: not known who did. */
struct attribution attribution__of_child(const struct attribution_group *group, struct attribution_thread *forker, uint64_t now);

#endif

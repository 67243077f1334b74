/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* When the sampler wakes the engine, and the timing that each relies on. All in ns. Times that concern the engine
 * alone: base/schedule.h. */
#pragma once

/* A record gets its time before it is in the ring, so an older one may still appear: the engine leaves records
 * younger than this to its next poll. */
#define SCHEDULE_SETTLE_NS 3000000ull
/* Urgent data younger than this may not be covered by the last poll: must be more than SCHEDULE_SETTLE_NS. */
#define SCHEDULE_FRESH_NS 4000000ull
/* The sampler requests a poll at most this often. If it does so earlier after the last poll, the engine waits for
 * the rest of the time. */
#define SCHEDULE_POLL_NS 15000000ull
/* ... and at most this often if a sample ring is filling up. */
#define SCHEDULE_CROWD_NS 2000000ull
/* A thread without values for that long compiles nothing: where it sleeps is not recorded (bpf/watched.h). */
#define SCHEDULE_LATELY_NS 1000000000ull
/* Threads or processes that live for about a period are born: the sampler reports it at most this often. The clocks
 * of CPUs, which sample them, are closed again if it has not for the second time. */
#define SCHEDULE_BIRTHS_NS 200000000ull
#define SCHEDULE_BIRTHS_LAST_NS 1000000000ull
/* A session of a host: the engine is woken at most this often for programs that begin. What began meanwhile is read after as long. */
#define SCHEDULE_STARTED_NS 10000000ull
/* A target mapped memory: the engine is woken at most this often. */
#define SCHEDULE_MAPPED_NS 4000000ull

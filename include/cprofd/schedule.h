/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* When the sampler wakes the engine, and what each relies on of the other. All in ns. What is the engine's alone: base/schedule.h. */
#ifndef CPROFD_SCHEDULE_H
#define CPROFD_SCHEDULE_H

/* A record's time is taken before the record is in the ring. A younger one waits for the engine's next poll: one before it may still come. */
#define SCHEDULE_SETTLE_NS 3000000ull
/* Who waits to be read for less than this is met by no poll yet: it has to be more than SCHEDULE_SETTLE_NS. */
#define SCHEDULE_FRESH_NS 4000000ull
/* The sampler asks for a poll at most this often. If it asks sooner after the last poll, the engine waits for the rest of the time. */
#define SCHEDULE_POLL_NS 15000000ull
/* ... and for urgent ones, of a process whose values fill their room, this often. */
#define SCHEDULE_CROWD_NS 2000000ull
/* A process was made: its maker waits for it soon. The sampler says so at most this often; the engine's first poll comes after the second. */
#define SCHEDULE_FORKED_NS 10000000ull
#define SCHEDULE_FORKED_POLL_NS 8000000ull
/* Threads or processes that live for about a period are born: the sampler says so this often, and the clocks of CPUs, which meet them,
 * are given back when it did not for so long. */
#define SCHEDULE_BIRTHS_NS 200000000ull
#define SCHEDULE_BIRTHS_LAST_NS 1000000000ull
/* A target mapped something: the engine is woken at most this often. */
#define SCHEDULE_MAPPED_NS 4000000ull

#endif

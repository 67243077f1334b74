/* SPDX-License-Identifier: MIT */
/* When the engine does what: each of its periods and deadlines, with the reason. What it shares with the sampler: cprofd/schedule.h.
 * Those of a sample's way through the profile: profile/profile.h. All in ns of CLOCK_MONOTONIC, unless a name says otherwise. */
#pragma once

#include "cprofd/schedule.h"

#define MS 1000000ull

/* --- a session's polls --- */

/* A session's ring is drained this often, or when the sampler says so. */
#define SCHEDULE_DRAIN_NS (100 * MS)
/* ... or this often, for a client that waits for its samples that long: what cannot wait wakes the engine. */
#define SCHEDULE_DRAIN_PATIENT_NS (200 * MS)
#define SCHEDULE_PATIENT_MS 1000u
/* A session begins in a rush, so that the first code objects are read before they are gone: it drains this often, for so long. What
 * is not urgent is done at every fifth of these polls. */
#define SCHEDULE_RUSH_NS (200 * MS)
#define SCHEDULE_RUSH_DRAIN_NS (4 * MS)
#define SCHEDULE_RUSH_TICKS 5u
/* What was urgent and not done is tried again after this. */
#define SCHEDULE_URGENT_NS (20 * MS)
/* Records are kept for a batch: where JITs write files no longer than this, as polls before and after tell what the code was. */
#define SCHEDULE_HOLD_JIT_NS (90 * MS)
/* The kernel's counters of losses are read. */
#define SCHEDULE_COUNTS_NS (500 * MS)
/* What was written to the spool is flushed. */
#define SCHEDULE_SPOOL_NS (1000 * MS)

/* --- a session's end waits --- */

/* ... for lines of the last frames, at most. */
#define SCHEDULE_LINES_LAST_NS (500 * MS)
/* ... for the names of modules, of a recording that is over before they were read. */
#define SCHEDULE_SYMBOLS_LAST_NS (10000 * MS)
/* ... for threads that slept when it began (asleep.c). */
#define SCHEDULE_ASLEEP_LAST_NS (2000 * MS)

/* --- which Python is it? --- */

/* A program that just began is in its dynamic loader: its interpreter is searched for this long. */
#define SCHEDULE_STARTING_NS (2000 * MS)
/* Between tries: each pause is twice the one before, close while it starts, and then no longer than the last. */
#define SCHEDULE_IDENTIFY_FIRST_NS (1 * MS)
#define SCHEDULE_IDENTIFY_CLOSE_NS (2 * MS)
#define SCHEDULE_IDENTIFY_STARTS_NS (40 * MS)
#define SCHEDULE_IDENTIFY_LAST_NS (100 * MS)
/* Of CPU time since its exec. No CPython runs its first frame on less; and the loader has mapped its
 * libraries: a program that shows no interpreter by then is none for now. */
#define SCHEDULE_SHOWS_NS (2 * MS)
/* From a poll that finds no interpreter to the first frame: it has to be mapped, linked and set up. */
#define SCHEDULE_LOADS_NS (1 * MS)
/* Where the GIL's state lies: so often, so many times. */
#define SCHEDULE_GIL_NS (100 * MS)
#define SCHEDULE_GIL_POLLS 50u

/* --- threads that sleep --- */

/* asleep.c: those that slept when the session began are read for so long at once; a table of unwinding that is missing takes as long as the
 * second, or some times that. */
#define SCHEDULE_ASLEEP_SLICE_NS (10 * MS)
#define SCHEDULE_ASLEEP_AGAIN_NS (100 * MS)
/* units.c: pages of the interpreter's own image, whose values do not change, are read again. */
#define SCHEDULE_STILL_NS (1000 * MS)

/* --- the namer's thread --- */

/* It rests this long at most; with downloads, this long. */
#define SCHEDULE_REST_NS (2000 * MS)
#define SCHEDULE_DOWNLOAD_NS (20 * MS)
/* The loop's answer to a question of its (a file to be opened). */
#define SCHEDULE_ANSWER_NS (3000 * MS)
/* Memory is given back at most this often: what is used again has to be faulted in. */
#define SCHEDULE_TRIM_NS (10000 * MS)
/* Between questions for lines: the first pause; each one is twice the one before, up to the last. */
#define SCHEDULE_LINES_PAUSE_NS (600 * MS)
#define SCHEDULE_LINES_PAUSE_MAX_NS (38400 * MS)
/* Lines that were read are stored at the end of the session, and this often before. */
#define SCHEDULE_STORE_LINES_NS (20000 * MS)

/* --- a dump --- */

/* The clock that samples a thread that runs; work at once; one thread that runs, and does not tick; files to be opened. */
#define SCHEDULE_DUMP_TICK_NS (1 * MS)
#define SCHEDULE_DUMP_STEP_NS (3 * MS)
#define SCHEDULE_DUMP_THREAD_NS (300 * MS)
#define SCHEDULE_DUMP_NAMES_NS (2000 * MS)

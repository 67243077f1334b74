/* SPDX-License-Identifier: MIT */
/* The parts of the Perfetto exporter: packets and strings (perfetto_packet.c), samples (perfetto_samples.c), tracks
 * with slices (perfetto_tracks.c), counters (perfetto_counters.c), and the file (perfetto.c). Private to this
 * directory. Field numbers are those of protos/perfetto/trace/trace_packet.proto and what it includes, of Perfetto 58.
 *
 * Times are ns since the session's start. A failure is kept in `err`, and ends the output. */
#pragma once

#include "export/gzip.h"
#include "export/protobuf.h"
#include "export/unit_spans.h"

/* Of TracePacket. */
enum {
	PACKET_CLOCKS = 6,
	PACKET_EVENT = 11,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK = 60,
	PACKET_ATTRIBUTES = 126,
	PACKET_SAMPLE = 135
};

/* Interned strings have ids for each kind of use. The values are InternedData's fields. */
enum {
	STRING_CATEGORY = 1,
	STRING_EVENT = 2,
	STRING_KEY = 3,
	STRING_FUNCTION = 5,
	STRING_MODULE = 17,
	STRING_SOURCE = 18,
	STRING_VALUE = 29
};

/* What a track is for. */
enum perfetto_track { TRACK_PROCESS, TRACK_THREAD, TRACK_STATE, TRACK_WORK, TRACK_CPU, TRACK_GIL, TRACK_SAMPLES, TRACK_LOSSES };

/* What a thread does, and for how long already: a slice that is not yet written. */
struct perfetto_state {
	uint64_t begin, end;	 /* end 0: none */
	uint64_t clock;		 /* the last sample */
	uint32_t what, holder;	 /* strings: a class of time, or a wait; who held the GIL, or that of "" */
	uint32_t work;		 /* its last struct perfetto_work + 1 */
};

/* What a process did in each bin of time, from its first one on. */
struct perfetto_counts {
	uint64_t first;
	struct buf bins; /* struct perfetto_bin */
};

/* A span in which a worker ran for a call of another thread. */
struct perfetto_work {
	uint64_t begin, end;
	uint32_t thread, call, caller, how; /* thread: its track */
	uint32_t flow; /* of the first one that the thread does for the call; 0: another one */
	uint32_t next; /* ... of the same call: a work + 1 */
};

struct perfetto {
	struct model model;
	int (*event)(struct event_sink *self, const struct event *event); /* the model's */
	struct gzip file;
	int err; /* the first error */
	uint64_t base; /* ids of tracks and flows of other recordings are others */
	bool begun; /* the first packet is written */
	struct intern strings;	      /* NUL-terminated; an id here + 1 is the interned one */
	struct buf strings_known;     /* uint64_t: a bit for each field that has it */
	struct buf frames_known, stacks_known, modules_known, tasks_known; /* bool */
	struct buf interned; /* for the next packet */
	struct buf packet, message, inner, path; /* scratch */
	struct intern pids, tids;     /* of tracks: pid; pid and tid */
	struct buf states;	      /* struct perfetto_state by track of a thread */
	struct buf works;	      /* struct perfetto_work */
	struct intern flows;	      /* call, worker: an id here + 1 is the flow */
	struct unit_spans spans;
	struct model_thread **threads;
	uint32_t n;
	/* counters */
	struct buf counts;	      /* struct perfetto_counts by track of a process */
	uint64_t bin;		      /* ns */
	uint64_t ledger_time, ledger_samples, ledger_losses;
};

/* --- perfetto_packet.c --- */
/* Writes a packet with that field and what was interned for it. Time NO_TIME: it has none. */
#define NO_TIME UINT64_MAX
void perfetto__packet(struct perfetto *perfetto, uint64_t time, uint32_t field, const struct buf *message);
/* The id of a string as a field of InternedData; ..._known: of one that has an id of `strings` already. */
uint64_t perfetto__string(struct perfetto *perfetto, uint32_t field, const char *string);
uint64_t perfetto__known(struct perfetto *perfetto, uint32_t field, uint32_t string);
void perfetto__number(struct perfetto *perfetto, struct buf *out, uint32_t field, uint64_t value);
void perfetto__bytes(struct perfetto *perfetto, struct buf *out, uint32_t field, const void *data, size_t len);
void perfetto__text(struct perfetto *perfetto, struct buf *out, uint32_t field, const char *string);
void perfetto__message(struct perfetto *perfetto, struct buf *out, uint32_t field, const struct buf *message);
/* Is this id seen for the first time? */
bool perfetto__first(struct perfetto *perfetto, struct buf *known, uint32_t id);
/* Perfetto has a track for each pid and tid, whatever program runs there: the images of a process that calls exec share
 * them, and so do processes that had the same pid. Ids of these tracks. */
uint32_t perfetto__process(struct perfetto *perfetto, uint32_t process);
uint32_t perfetto__thread(struct perfetto *perfetto, const struct model_thread *thread);

/* --- perfetto_samples.c --- */
/* The model's callback `sampled`. */
int perfetto__sampled(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran, uint64_t shown);
/* What samples are measured in, for the packet of defaults. */
void perfetto__measure(struct perfetto *perfetto, struct buf *out);

/* --- perfetto_tracks.c --- */
uint64_t perfetto__track(const struct perfetto *perfetto, enum perfetto_track kind, uint32_t id);
/* Threads and processes are given by their tracks. A thread does this in [begin, end), which is after what it was said to do before. */
void perfetto__does(struct perfetto *perfetto, uint32_t thread, uint64_t begin, uint64_t end, const char *what, const char *holder);
/* A thread runs in [begin, end) for the call of the sample. */
void perfetto__works(struct perfetto *perfetto, uint32_t thread, uint64_t begin, uint64_t end);
/* After reading: descriptions of all tracks, then compiles and work. */
void perfetto__tracks(struct perfetto *perfetto);
/* Describes a track: its id, name and parent (0: none), to which fields may be added. */
void perfetto__describe(struct perfetto *perfetto, struct buf *out, uint64_t id, uint64_t parent, const char *name);

/* --- perfetto_counters.c --- */
/* A thread of the process ran, or waited for the GIL. */
void perfetto__count(struct perfetto *perfetto, uint32_t process, uint64_t begin, uint64_t end, bool gil);
void perfetto__ledger(struct perfetto *perfetto, const struct event_ledger *ledger);
void perfetto__counters(struct perfetto *perfetto);

/* SPDX-License-Identifier: MIT */
/* Where native stacks end that are not whole: counts by place and reason, in bounded room.
 *
 * Sums are exact: native = whole + the counts of all places + more. A frequent place is there with
 * its count; a rare one may make room for another, and is in `more` then.
 * Inside daemon/profile/ only. Threads: one. */
#pragma once

#include "cprofd/record.h"
#include "events/events.h"
#include "codemap/codemap.h"

#define STOPS_MAX 256u
#define STOPS_LISTED 16u /* in one ledger */
#define STOPS_MEMO 64u

struct stop {
	uint64_t module, offset; /* module: code_location.module + 1; 0: nothing is known to be there */
	uint64_t count;          /* 0: free */
	uint64_t serial;         /* of its entry into the table */
	uint16_t loss;
	bool pending;            /* its name is being read */
	char module_name[64], function[128]; /* the begin of longer ones */
};

/* What a pc was found to be; its place may have left the table since. */
struct stop_memo {
	uint64_t pc;
	uint64_t serial;         /* 0: free */
	uint32_t generation, stop;
	uint16_t loss;
};

struct stops {
	uint64_t native, whole, more;
	uint64_t serial;
	struct stop items[STOPS_MAX];
	struct stop_memo memo[STOPS_MEMO];
};

/* Counts one native stack: whole, or cut at its last pc by `loss`. Not counted: a stack of which only the leaf was
 * requested. `generation`: code_now.all of its process, which no other process has. */
void stops__count(struct stops *stops, struct codemap *codemap, uint32_t generation, const struct record_header *header,
		  const struct part_native_frames *native, bool whole, uint16_t loss);
/* Fills rows (borrowed strings) with the most frequent places, and the event's sums. `codemap` is NULL where nothing
 * was counted. */
void stops__emit(struct stops *stops, struct codemap *codemap, struct ledger_stop rows[STOPS_LISTED],
		 struct event_ledger *ret);

/* Which threads of a recording hardly ran (export/quiet.h): a first reading, so that the second may leave their waiting out
 * of its sums.
 *
 * Memory: an entry for each thread. One thread. Errors: -ENOMEM. Zero-initialised is empty. */
#ifndef CPROFD_CLI_RHYTHM_H
#define CPROFD_CLI_RHYTHM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "events/events.h"

/* An epoch's number of a thread -> its index in the rhythm + 1; 0: not told. */
struct rhythm_ids {
	struct buf ids; /* uint32_t */
};

struct rhythm {
	struct event_sink sink;
	struct buf threads; /* struct beat */
	struct rhythm_ids ids;
	uint64_t cpu, wall; /* ns, of all threads */
};

void rhythm__init(struct rhythm *rhythm); /* then give its sink to recording__read() */
void rhythm__free(struct rhythm *rhythm);
/* As export/quiet.h has it. `thread`: of rhythm_ids__thread(). */
bool rhythm__is_quiet(const struct rhythm *rhythm, uint32_t thread);
uint32_t rhythm__quiet(const struct rhythm *rhythm); /* how many */

int rhythm_ids__tell(struct rhythm_ids *ids, const struct rhythm *rhythm, const struct event_thread *event);
uint32_t rhythm_ids__thread(const struct rhythm_ids *ids, uint32_t id);
void rhythm_ids__free(struct rhythm_ids *ids);

#endif

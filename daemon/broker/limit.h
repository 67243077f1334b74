/* SPDX-License-Identifier: MIT */
/* What one user, and all users together, may hold of the daemon: names, units, defaults, words. (quota.h counts it.)
 * Root holds what it likes, and takes nothing from the users' shares. Threads: none kept. */
#ifndef CPROFD_BROKER_LIMIT_H
#define CPROFD_BROKER_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* id, name, of one user, of all (0: not counted), what it is, how to get below it */
#define BROKER_LIMITS(X) \
	X(ENGINES, "engines", 4, 64, "engines (one for each login: uid, gid and groups)", "end what runs under another login") \
	X(SESSIONS, "sessions", 16, 128, "sessions", "end some of them") \
	X(SAMPLES, "samples", 24000, 192000, "samples a second in all sessions", "ask for a lower rate, or end a session") \
	X(DESCRIPTORS, "descriptors", 32768, 262144, "descriptors (one for each thread of a target)", "end a session") \
	X(MAPS, "maps", 1024, 2048, "MB of maps for samples and unwind tables", "end a session") \
	X(MEMORY, "memory", 2048, 0, "MB of memory", "end a session")
#define LIMIT_ENUM(id, name, user, all, what, hint) LIMIT_##id,
enum broker_limit { BROKER_LIMITS(LIMIT_ENUM) LIMIT_COUNT };
#undef LIMIT_ENUM
#define LIMIT_MB (1ull << 20) /* quota.h counts bytes of these, and so do messages */

struct broker_limits {
	uint64_t user[LIMIT_COUNT]; /* 0: no limit */
	uint64_t all[LIMIT_COUNT];
};

/* Which one was met. */
struct limit_met {
	enum broker_limit limit;
	bool all;                /* that of all users */
	bool engine;             /* of one engine: its share of what the user has */
	uint64_t most, used;     /* in the unit that is counted: bytes, where words say MB */
};

#define LIMIT_MEMORY_LEAST (32ull << 20) /* an engine needs so much to begin with */

void limits__default(struct broker_limits *ret);
/* "sessions=16", "sessions=16/128": one user's may be half of all's at most, so that there is always something left for others; without the second
 * number all's stays, or becomes twice the first. "none": no limit, of both. NULL, or what is wrong with it (valid until the next call). */
const char *limits__set(struct broker_limits *limits, const char *text);
/* All names, with commas. */
const char *limits__names(void);

const char *limit__name(enum broker_limit limit);
/* For people: which limit, and how to get more. */
void limit__sentence(const struct limit_met *met, char *ret, size_t size);
void limit__hint(const struct limit_met *met, char *ret, size_t size);

#endif

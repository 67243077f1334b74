/* SPDX-License-Identifier: MIT */
/* What one user, and all users together, may hold of the daemon: names, units, defaults, texts. (quota.h does the
 * counting.) Root has no limits, and does not count towards those of all users. Threads: none kept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(id, name, per user, for all users (0: no such limit), what it is, how to get below it) */
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
#define LIMIT_MB (1ull << 20) /* quota.h and messages count these limits in bytes */

struct broker_limits {
	uint64_t user[LIMIT_COUNT]; /* 0: no limit */
	uint64_t all[LIMIT_COUNT];
};

/* A limit that was reached. */
struct limit_reached {
	enum broker_limit limit;
	bool all;                /* the limit of all users together */
	bool engine;             /* the engine's share of the user's limit */
	uint64_t most, used;     /* in the unit of quota.h: bytes where the text says MB */
};

#define LIMIT_MEMORY_LEAST (32ull << 20) /* the least that an engine needs to start */

void limits__default(struct broker_limits *ret);
/* "sessions=16" or "sessions=16/128" (per user / all users). One user's limit may be at most half of that of all, so
 * that others always get something; without the second number it stays, or becomes twice the first. "none": no limit
 * for both. Returns NULL, or what is wrong (valid until the next call). */
const char *limits__set(struct broker_limits *limits, const char *text);
/* All names, separated by commas. */
const char *limits__names(void);

/* Texts for users: which limit was reached, and how to get more. */
void limit__sentence(const struct limit_reached *reached, char *ret, size_t size);
void limit__hint(const struct limit_reached *reached, char *ret, size_t size);

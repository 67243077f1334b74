/* SPDX-License-Identifier: MIT */
/* Requests: one line of a client -> a checked struct (docs/protocol.md). Pure: a buffer and a length, with any bytes in
 * them; it is fuzzed. What is wrong comes back as a refusal in words. Threads: none kept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_KINDS(X) \
	X(ATTACH, "attach") \
	X(STOP, "stop") \
	X(SUBSCRIBE, "subscribe") \
	X(UNSUBSCRIBE, "unsubscribe") \
	X(SNAPSHOT, "snapshot") \
	X(ROTATE, "rotate") \
	X(TRIGGER, "trigger") \
	X(SESSIONS, "sessions") \
	X(STATUS, "status") \
	X(DUMP, "dump") \
	X(RULES, "rules")

#define REQUEST_ENUM(id, name) REQUEST_##id,
enum request_kind { REQUEST_KINDS(REQUEST_ENUM) REQUEST_KIND_COUNT };
#undef REQUEST_ENUM

/* Hz, when the client does not say. */
#define REQUEST_RATE 999u
/* How long samples may be held for a batch when the client does not say. */
#define REQUEST_LATENCY_MS 200u

enum request_native { REQUEST_NATIVE_FULL, REQUEST_NATIVE_LEAF, REQUEST_NATIVE_OFF };

struct request {
	enum request_kind kind;
	bool has_id;
	uint64_t id;            /* the client's own; valid after a refusal too, when has_id */
	uint32_t session;       /* stop, subscribe, snapshot, rotate; unsubscribe: 0 is "mine"; trigger: or pid */
	bool fd;                /* snapshot: a descriptor came along */
	/* attach; of these dump has pid and native, trigger pid */
	int32_t pid;            /* 0: of `host` */
	bool host;              /* every Python of the machine that `match` lets in */
	char *match;            /* patterns (match.h); NULL: all; owned: request__clear() */
	uint32_t rate;          /* Hz; rotate: from there on, 0: as before */
	uint64_t duration_ms;   /* 0: until stopped */
	/* Samples may be sent this much later, many at once, which costs less CPU. */
	uint32_t latency_ms;
	bool wall;              /* mode */
	enum request_native native;
	bool subprocesses, idle, kernel, gil;
	bool native_lines;      /* false: native frames of files have none, and no sample waits for them */
	bool stream;            /* the asker is subscribed */
	bool spool;             /* a recording is kept, for snapshot */
	bool keep;              /* goes on when its clients are gone */
	bool trigger;           /* the asker takes requests `trigger` */
	bool starting;          /* the process may not be a Python yet: wait for its exec */
	char *file, *text;      /* rules; owned: request__clear() */
};

/* Why a request is refused. `error` and `hint` are sentences for people, `code`
 * is for programs. */
struct refusal {
	const char *code;
	char error[256];
	char hint[160];
	int number;  /* errno with which the kernel refused a process; 0: none */
};

void refusal__set(struct refusal *refusal, const char *code, const char *hint, const char *format,
		  ...) __attribute__((format(printf, 4, 5)));

/* 0, or -EBADMSG with *ret_refusal filled. `line` needs neither '\n' nor NUL. What it holds is freed by
 * request__clear(), also after a refusal. */
int request__parse(const char *line, size_t len, struct request *ret, struct refusal *ret_refusal);

void request__clear(struct request *request);

const char *request_native__name(enum request_native native);

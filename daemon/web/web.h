/* SPDX-License-Identifier: MIT */
/* A page for the user's own browser: an HTTP server on the loopback interface, for `cprofd view`.
 *
 *     http://127.0.0.1:PORT/TOKEN/          the page: a report, or the live view
 *     http://127.0.0.1:PORT/TOKEN/events    the lines of the session, as server-sent events
 *     http://127.0.0.1:PORT/TOKEN/save?...  what was recorded so far, in any format
 *
 * Everybody on the machine can connect, and so can every page that the user's browser shows. What is served is for
 * the holder of the token alone: 160 random bits in the path, never in a header or a cookie. guard.c decides; its
 * answer does not depend on anything else. HTTP is parsed by libmicrohttpd, which is loaded when it is needed.
 *
 * The process that calls this has given up root. Threading: none; web__run() does what is due and returns. Errors:
 * -errno. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct web;
struct feed;

/* What is served: a file, or the live view of a session. Borrowed until web__free(). */
struct web_content {
	int report;         /* a file of HTML; -1: none */
	const char *policy; /* of the report: its Content-Security-Policy */
	struct feed *feed;  /* NULL: none */
};

/* Loads the library. -ENOTSUP: it is not installed. */
int web__load(void);
/* Listens on a free port. */
int web__new(const struct web_content *content, struct web **ret);
void web__free(struct web *web);
/* With the token; valid until web__free(). */
const char *web__address(const struct web *web);
/* Readable when web__run() has work; it is due after so long, too. */
int web__fd(const struct web *web);
int web__timeout_ms(const struct web *web);
int web__run(struct web *web);
/* The feed has more lines, or has ended. */
void web__wake(struct web *web);
/* A child of this process has ended: SIGCHLD. */
void web__child(struct web *web);

/* --- guard.c: may this request be answered? Pure. --- */
#define WEB_TOKEN_BYTES 20u
#define WEB_TOKEN_CHARS (2u * WEB_TOKEN_BYTES)

/* What of a request matters. NULL: it has no such header. */
struct web_request {
	const char *method, *path; /* the path with '/' at its beginning, without a query */
	const char *host, *origin, *fetch_site, *fetch_dest;
	uint32_t hosts;    /* how many headers Host there are */
	bool body;         /* it brings a body */
};
/* The status to refuse with, or 0; then *ret_name is the part of the path behind the token, "" for the page. */
unsigned web__judge(const struct web_request *request, uint16_t port, const char token[WEB_TOKEN_CHARS], const char **ret_name);

/* --- feed.c: the lines of a session, from its begin, for any number of readers --- */
/* Lines go into a recording in `fd` (an unlinked file, owned); those since its last flush are in memory, too. A
 * reader has a position alone, and reads the rest of it from the file: so a slow one costs nothing and misses
 * nothing, and one that comes late gets the whole session. */
int feed__new(int fd, struct feed **ret);
void feed__free(struct feed *feed);
/* Whole lines. */
int feed__lines(struct feed *feed, const char *lines, size_t len);
/* To be called each second. */
int feed__flush(struct feed *feed);
void feed__end(struct feed *feed);
/* A recording of what there is now, closed by an `end` unless it has one, in a file of its own; positioned at its
 * begin. For a child: it copies the file. */
int feed__snapshot(const struct feed *feed, int *ret_fd);

struct feed_reader;
int feed_reader__new(struct feed *feed, struct feed_reader **ret);
void feed_reader__free(struct feed_reader *reader);
/* Text, cut anywhere; *ret_len 0: there is no more now. -ENODATA: nor will there be. */
int feed_reader__read(struct feed_reader *reader, char *out, size_t size, size_t *ret_len);

/* --- save.c --- */
/* Runs this program with other arguments: `cprofd convert`. With a feed its stdin is a recording of what there is now. *ret_fd:
 * an unlinked file for its stdout, complete once the child has ended well. */
int save__convert(const struct feed *feed, const char *const *arguments, pid_t *ret_pid, int *ret_fd);

/* SPDX-License-Identifier: MIT */
/* Sends profiles to a store over HTTP: events -> batches of samples (export/batch.h) -> requests -> spool -> POST.
 *
 *     batches.c   which samples make a request
 *     stores.c    the stores: OTLP receivers, Pyroscope
 *     spool.c     requests that are not delivered yet, in a file
 *     sender.c    delivers them, one after another, and tries again
 *     answer.c    what a server says of one that it accepted
 *     library.c   libcurl, the only door to it
 *
 * A request is delivered in the order in which it was made, and tried until it is accepted or refused. One that may have been
 * accepted, as its answer was lost, is sent again with the same profile_id.
 *
 * Owner: the caller. One thread; nothing blocks but sender__poll(). Errors: -errno. */
#pragma once

#include <poll.h>

#include "export/batch.h"

/* libcurl, before anything else. -ENOTSUP: it is not installed. */
int push__load(void);

struct push_store {
	const char *path, *content_type;
	int (*encode)(struct batch *batch, struct buf *out); /* appends a request, clears the batch */
	bool packed;  /* the body is gzip'ed */
	bool units;   /* compiles are frames */
	bool partial; /* an answer may be an ExportProfilesServiceResponse with a number of rejected profiles */
	/* What helps after a refusal of the very first request; the last one, whose status is 0, is that of all others. */
	struct push_refusal {
		long status;
		const char *hint;
	} refusals[6];
};
extern const struct push_store push_otlp, push_otlp_json, push_pyroscope;

/* Where to, and how. Borrowed until sender__free(). */
struct push_target {
	const struct push_store *store;
	const char *url;
	const char *const *headers; /* "Name: value", NULL-terminated */
	const char *ca_file;	    /* NULL: the system's */
	uint64_t spool_bytes;
};

/* What became of requests and samples. */
struct push_counts {
	uint64_t requests, samples, bytes; /* accepted */
	uint64_t refused, refused_samples; /* by the server, for good */
	uint64_t dropped, dropped_samples; /* there was no room in the spool: the oldest */
	uint64_t rejected;		   /* profiles of requests that were accepted in part */
	uint64_t failures;		   /* attempts that did not succeed */
};

struct sender;
int sender__new(const struct push_target *target, struct sender **ret);
void sender__free(struct sender *sender);
/* A request with so many samples. */
int sender__give(struct sender *sender, const struct buf *request, uint32_t samples);
/* Waits for the descriptors, for answers, for the time of the next attempt, and at most `timeout_ms`. Sets revents. */
int sender__poll(struct sender *sender, struct pollfd *fds, uint32_t n, int timeout_ms);
/* Requests that are not yet delivered, and their bytes. */
uint32_t sender__waiting(const struct sender *sender, uint64_t *ret_bytes);
struct push_counts sender__counts(const struct sender *sender);
/* What is wrong, as a sentence; NULL: nothing. `attempts` in a row have failed, 0: it was refused; the next one is in
 * `ret_ms`. */
const char *sender__trouble(const struct sender *sender, uint32_t *ret_attempts, uint64_t *ret_ms);
/* Why the last one was refused, as a sentence; "": none was. */
const char *sender__refusal(const struct sender *sender);
/* What the server said last of a request that it accepted: why it rejected a part of it, or a warning; "": nothing. */
const char *sender__remark(const struct sender *sender);
/* No attempt can succeed: a wrong certificate, credentials. NULL: or a sentence, and what helps. */
const char *sender__hopeless(const struct sender *sender, const char **ret_hint);

/* Cuts a session, or a recording, into requests. Events go to its sink. */
struct batches {
	struct event_sink sink;
	struct batch batch;
	const struct push_store *store;
	struct export_options options;
	struct sender *sender; /* borrowed */
	uint64_t period;       /* ns */
	uint64_t next;	       /* when the next one is due; 0: not known yet */
	int interrupt;	       /* a descriptor: readable, the recording is not read on */
	uint64_t samples;      /* so far */
	uint64_t missed;       /* events that did not come: gaps */
	uint64_t room;	       /* of what can wait, a recording: bytes of the spool, of which it uses half; 0: it cannot */
	struct event_session session;
	uint64_t apart;        /* ns, time of day less CLOCK_MONOTONIC, as the session began */
	struct buf message;
	struct buf quiet; /* of a recording: threads that are left out */
};
int batches__begin(struct batches *batches, struct sender *sender, const struct push_store *store, uint64_t period, const struct batch_resource *resource);
/* All of a recording. *ret_cut: it ends in the middle. Errors as recording__read(), and of batches__flush(). */
int batches__read(struct batches *batches, int recording_fd, bool *ret_cut);
/* A request of what is left. -ECANCELED: `interrupt`. */
int batches__flush(struct batches *batches);
void batches__free(struct batches *batches);

/* --- answer.c --- */
struct push_answer {
	uint64_t rejected; /* profiles */
	const char *words; /* `len` bytes of the answer, as the server has them */
	size_t len;
};
/* Of an answer that is none: nothing. */
void push_answer__read(const char *data, size_t len, struct push_answer *ret);

/* --- spool.c --- */
struct spool {
	int fd;
	uint64_t limit, bytes, end; /* bytes: of requests in it; end: of the file */
	struct buf entries;	    /* struct spool_entry, oldest first */
};
struct spool_entry {
	uint64_t offset;
	uint32_t len, samples;
};
int spool__open(struct spool *spool, uint64_t limit);
/* Drops the oldest ones for it, but for the first `kept`: -ENOSPC. Counts them. */
int spool__put(struct spool *spool, const struct buf *request, uint32_t samples, uint32_t kept, struct push_counts *counts);
static inline uint32_t spool__n(const struct spool *spool)
{
	return LENGTH(spool->entries, struct spool_entry);
}
/* The oldest one; *out is emptied before. */
int spool__first(const struct spool *spool, struct buf *out, struct spool_entry *ret);
void spool__remove(struct spool *spool, uint32_t i);
void spool__close(struct spool *spool);

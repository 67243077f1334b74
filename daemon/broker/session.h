/* SPDX-License-Identifier: MIT */
/* A session: one sampler with its own ring, and the events of one target. */
#ifndef CPROFD_BROKER_SESSION_H
#define CPROFD_BROKER_SESSION_H

#include "broker/authorise.h"
#include "broker/broker.h"
#include "broker/clocks.h"
#include "broker/dumper.h"
#include "broker/file.h"
#include "broker/known.h"
#include "broker/load.h"
#include "broker/perf.h"
#include "broker/process.h"
#include "broker/quota.h"

#define SESSION_KNOWN_MAX 64u /* processes of a session whose files are opened without a helper */

/* What a process was when the client was authorised for it. */
struct known_process {
	pid_t pid;
	uint64_t start_ticks; /* struct process_stat */
	struct target as;
};

struct session {
	uint32_t id;
	uint32_t token;       /* of its ATTACH */
	pid_t target;
	int pidfd;                  /* of the target: its pid may be another's one day */
	uint32_t rate, flags;
	bool started;               /* the target, by a process of its client's */
	struct sampler *sampler;    /* NULL: a dump */
	struct dumper *dumper;      /* NULL: none */
	struct charge charge;       /* of its user, for all that it holds */
	struct perf_events events;
	struct cpu_clocks clocks;
	pid_t *children;      /* descendants that ran already: to be told after ATTACHED */
	size_t n_children, n_sent;
	struct known_process known[SESSION_KNOWN_MAX]; /* those asked about last */
	unsigned next_known;
};

/* Each request's result: the answer (token and session are filled in by the
 * caller) and the fds to send with it. `fds` are owned by the reply unless
 * `borrowed` of them, the first ones, belong to the session. */
struct reply {
	struct broker_message message;
	int fds[BROKER_FDS_MAX];
	unsigned n, borrowed;
	struct helper *opener; /* keeps the file that was asked for, and sends it; NULL: there is none */
};
void reply__fail(struct reply *reply, enum broker_error error, int err);
/* The charge's limit, if the error is that it was met. */
void reply__fail_at(struct reply *reply, const struct charge *charge, enum broker_error error, int err);
void reply__close(struct reply *reply);

/* The sampler of an engine's last session, which is over; NULL: none. */
struct spent {
	struct sampler *sampler;
	struct charge charge;
};
void spent__free(struct spent *spent);

/* Samplers that were loaded ahead, or NULL. */
struct spare {
	struct sampler *sampler;
	struct load_options options; /* how it is to be loaded: as the last session asked */
	bool wanted;           /* it was taken */
	bool keeps;            /* used ones, too: */
	struct sampler *used;  /* of a session that is over, emptied, for the next one of the same client */
	struct identity owner; /* of the used one */
};
/* Of an engine that ended: the sampler and its owner are moved, if they are kept. */
void spare__return(struct spare *spare, struct spent *spent, struct identity *owner);
void spare__free(struct spare *spare);

/* `clients`: the client's processes; `payer`: a charge of who pays. The spare one is taken (and set to NULL) when it fits. NULL on failure: reply says why. */
struct session *session__attach(const struct broker_message *request, const struct identity *client, const struct known *clients,
				const struct charge *payer, struct spare *spare, bool verbose, struct reply *reply);
void session__open_process(struct session *session, const struct identity *client, pid_t pid,
			   struct reply *reply);
/* OPEN_FILE, OPEN_DEBUG, OPEN_PERF_MAP. `openers`: the engine's. *stalled: once a file did not open in time none is opened any more. */
void session__open_file(struct session *session, const struct identity *client,
			const struct broker_message *request, struct openers *openers, bool *stalled, struct reply *reply);
void session__open_kallsyms(struct session *session, struct reply *reply);
void session__add_pool(struct session *session, const struct broker_message *request, struct reply *reply);
void session__resume(struct session *session, struct reply *reply);
/* SET_CLOCKS. */
void session__set_clocks(struct session *session, bool on, struct reply *reply);
/* Before it is freed: nothing is sampled any more, and the answer says since when. */
void session__end(struct session *session, struct reply *reply);
struct session *session__free(struct session *session); /* NULL; closes all events */
/* Likewise, but keeps the sampler and its charge in `spent` (which is empty): the engine still reads its maps. */
struct session *session__leave(struct session *session, struct spent *spent);

#endif

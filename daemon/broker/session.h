/* SPDX-License-Identifier: MIT */
/* A session: a sampler with its own ring (or a dumper), and the perf events of one target. */
#pragma once

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

#define SESSION_KNOWN_MAX 256u /* processes whose files are opened without asking a helper again */

/* The state of a process when the client was authorised for it. */
struct known_process {
	pid_t pid;
	uint64_t start_ticks; /* struct process_stat */
	struct target as;
};

struct session {
	uint32_t id;
	uint32_t token;       /* of its ATTACH */
	pid_t target;
	/* Of the target. While it has not ended, the number `target` is the target's. */
	int pidfd;
	uint32_t rate, flags;
	/* The client's own processes started the target: with ptrace_scope 1 that makes it the client's to trace. */
	bool started;
	struct sampler *sampler;    /* NULL: a dump */
	struct dumper *dumper;      /* NULL: none */
	struct charge charge;       /* what the session holds, of its user */
	struct perf_events events;
	uint32_t n_renewed;         /* processes whose events were opened again since all were */
	struct cpu_clocks clocks;
	struct perf_events watched[BROKER_WATCHED_MAX]; /* one thread each, whose switches are followed */
	pid_t *children;      /* descendants that ran already: reported after ATTACHED */
	size_t n_children, n_sent;
	struct known_process known[SESSION_KNOWN_MAX]; /* the most recent ones */
	/* The entry of `known` that is replaced next. */
	unsigned next_known;
};

/* The result of a request: the answer (the caller fills in token and session) and the fds to send with it. The reply
 * owns `fds`, except the first `borrowed` of them, which belong to the session. */
struct reply {
	struct broker_message message;
	int fds[BROKER_FDS_MAX];
	unsigned n, borrowed;
	struct helper *opener; /* holds the requested file and sends it; NULL: none */
};
void reply__fail(struct reply *reply, enum broker_error error, int err);
/* Adds which limit it was, if the error is -EDQUOT by the charge. */
void reply__fail_at(struct reply *reply, const struct charge *charge, enum broker_error error, int err);
void reply__close(struct reply *reply);

/* The sampler of an engine's last session, which is over; NULL: none. */
struct spent {
	struct sampler *sampler;
	struct charge charge;
};
void spent__free(struct spent *spent);

/* Samplers that are ready for the next session, or NULL. */
struct spare {
	struct sampler *sampler;
	struct load_options options; /* how to load it: as the last session requested */
	/* One is to be loaded ahead: the last time there was none that fitted, or it was taken while a used one waited for
	 * another client. A client whose sessions follow each other needs no more than the used one. */
	bool wanted;
	bool keeps;            /* keep used ones, too: */
	struct sampler *used;  /* of a session that is over, emptied, for the next one of the same client */
	struct identity owner; /* of the used one */
};
/* An engine ended: takes over its last sampler and the owner, if used ones are kept. */
void spare__return(struct spare *spare, struct spent *spent, struct identity *owner);
void spare__free(struct spare *spare);

/* `clients`: the processes of the client; `payer`: a charge of the user who pays. Takes the spare sampler (and sets
 * it to NULL) if it fits. NULL on failure: the reply has the reason. */
struct session *session__attach(const struct broker_message *request, const struct identity *client, const struct known *clients,
				const struct charge *payer, struct spare *spare, bool verbose, struct reply *reply);
/* With BROKER_HOST; whether the client may is the caller's to know. */
struct session *session__attach_host(const struct broker_message *request, const struct identity *client, const struct charge *payer,
				     struct spare *spare, bool verbose, struct reply *reply);
/* ADOPT. */
void session__adopt(struct session *session, const struct identity *client, const struct broker_message *request, struct reply *reply);
void session__open_process(struct session *session, const struct identity *client, const struct broker_message *request, struct reply *reply);
/* OPEN_FILE, OPEN_DEBUG, OPEN_PERF_MAP. `openers`: the engine's. */
void session__open_file(struct session *session, const struct identity *client,
			const struct broker_message *request, struct openers *openers, struct reply *reply);
void session__open_kallsyms(struct session *session, struct reply *reply);
void session__add_pool(struct session *session, const struct broker_message *request, struct reply *reply);
void session__resume(struct session *session, struct reply *reply);
/* SET_CLOCKS. */
void session__set_clocks(struct session *session, bool on, struct reply *reply);
/* SET_RATE. */
void session__set_rate(struct session *session, uint32_t rate, struct reply *reply);
/* WATCH. */
void session__watch(struct session *session, const struct broker_message *request, struct reply *reply);
/* Called before it is freed: stops sampling, and the answer says since when. */
void session__end(struct session *session, struct reply *reply);
struct session *session__free(struct session *session); /* NULL; closes all events */
/* Likewise, but keeps the sampler and its charge in `spent` (which is empty): the engine still reads the maps. */
struct session *session__leave(struct session *session, struct spent *spent);

/* SPDX-License-Identifier: MIT */
/* Inside of the engine: who holds what. Private to daemon/serve/.
 *
 * An engine has clients (connections) and sessions; a session has tracees (processes). A client streams at most one
 * session, a session may stream to many clients:
 *
 *    engine -> clients  -> outbox (chunks of encoded events)
 *           -> sessions -> tracees, ring, collector, profile, codemap, units
 *
 * All of it belongs to the main thread of the engine, so nothing here has a lock. A client or a session that ends
 * during a turn of the loop is only flagged (client.dead, SESSION_DONE) and freed by reap() at the end of that turn:
 * epoll may have returned further events for it already, and callers up the stack may still hold a pointer to it.
 *
 * Times are CLOCK_MONOTONIC ns where no other clock is named. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/buf.h"
#include "base/container.h"
#include "base/schedule.h"
#include "broker/broker.h"
#include "broker/ring.h"
#include "codemap/codemap.h"
#include "collect/collect.h"
#include "cprofd/record.h"
#include "dump/dump.h"
#include "events/events.h"
#include "modules/modules.h"
#include "profile/profile.h"
#include "serve/outbox.h"
#include "serve/request.h"
#include "serve/serve.h"
#include "serve/spool.h"

struct engine;

/* A descriptor in the loop. It is embedded in what it belongs to, mostly as its first member; `ready` finds the outer
 * struct from it. The loop's epoll data is the address of the watch, so it must not move while it is registered. */
struct watch {
	int fd;
	bool registered;
	void (*ready)(struct engine *engine, struct watch *watch, uint32_t events);
};

/* --- client.c --- */

#define CLIENT_FDS_MAX 4

/* A snapshot on its way into a client's file. */
struct snapshot {
	/* Both descriptors are the snapshot's own. `from`: the session's spool; `into`: the client's file, < 0: no
	 * snapshot is being written. `of`: a session whose end is awaited, before there is a `from`. Bytes before `offset` are in the file; `len` bytes of the spool are copied, then
	 * `tail`, an `end` event. `bytes`: all of it, for the answer. */
	int from, into;
	const struct session *of;
	uint64_t offset, len, bytes;
	struct chunk *tail;
	/* The id of the request, which the answer repeats. */
	bool has_id;
	uint64_t id;
};

struct client {
	struct watch watch;
	struct client *next;
	/* Freed at the end of this turn of the loop; its socket is closed already, and session is NULL. */
	bool dead;
	/* The client closed its writing half: it sends no more requests, but may go on listening (`nc -U`). */
	bool eof;
	/* What comes up to the next newline is the rest of a line that was too long, and was refused. */
	bool skipping;
	struct buf in;
	/* Descriptors that came with SCM_RIGHTS and that no request has used yet, oldest first. They belong to the
	 * client. */
	int fds[CLIENT_FDS_MAX];
	unsigned n_fds;
	struct outbox outbox;
	struct session *session;        /* streams here; NULL: none */
	/* A client that reads too slowly: SERVE_QUEUE_MAX bytes wait for it. Until its outbox is empty, events are only
	 * counted here; then they become one `gap` event. */
	bool lagging;
	uint64_t gap_events, gap_bytes;
	struct chunk *farewell;         /* the session's last lines, which come after the gap */
	struct snapshot snapshot;
	struct user_rules *rules;       /* for what it attaches from now on; NULL: none */
	/* Why this connection may not name processes (BROKER_CLIENT's `error`); BROKER_ERROR_OK: it may. Other requests
	 * are served all the same. */
	enum broker_error unnamed;
	/* As SO_PEERCRED of its socket has it. Sent with ATTACH: where ptrace_scope is 1, the broker checks whether
	 * this process started the target. */
	pid_t pid;
};

/* A connection that the broker accepted. Takes `fd`, also on an error; queues the hello line. */
int client__new(struct engine *engine, int fd, pid_t pid, enum broker_error unnamed);
/* Closes the socket and ends what only this client wanted (session__abandoned()); the struct lives until the end of the
 * turn. May be called more than once. Nearly every function that writes to a client may call it: check `dead`
 * afterwards. */
void client__die(struct engine *engine, struct client *client);
/* The descriptor that came with the request, which goes to the caller; -1: none did. */
int client__take_fd(struct client *client);
void client__free(struct client *client);
/* A line to this client alone. */
void client__say(struct engine *engine, struct client *client, const struct buf *lines);
/* Live events: queued, or counted as a gap when its queue is full. */
void client__stream(struct engine *engine, struct client *client, struct chunk *chunk);
/* Queues the session's tables. */
void client__replay(struct engine *engine, struct client *client);
/* Writes what can be written, ends a gap, sets what the loop waits for. */
void client__flush(struct engine *engine, struct client *client);

/* --- user_rules.c: rules of a client --- */
struct rules;
/* -errno, and the refusal: what was there before stays. */
int user_rules__add(struct user_rules **user, const char *file, const char *text, struct refusal *ret_refusal);
/* Those of the program, and these (NULL: none). The caller's to free. */
int user_rules__build(const struct user_rules *user, struct rules **ret);
void user_rules__free(struct user_rules *user);

/* --- requests of clients: commands.c, snapshot.c --- */
void command__line(struct engine *engine, struct client *client, const char *line, size_t len);
void command__refuse(struct engine *engine, struct client *client, const struct request *request,
		     const struct refusal *refusal);
/* `into`: the descriptor that came with the request, which goes to the callee, or -1. */
void snapshot__begin(struct engine *engine, struct client *client, const struct request *request,
		     struct session *session, int into);
/* For `stop` with a file: its answer comes when the session has ended and all of it is there. False: refused. */
bool snapshot__await_end(struct engine *engine, struct client *client, const struct request *request, struct session *session, int into);
/* Begins the snapshots that await its end. */
void snapshot__ended(struct engine *engine, struct session *session);
/* A piece of it; false: done, or none. */
bool snapshot__step(struct engine *engine, struct client *client);
void snapshot__drop(struct snapshot *snapshot);

/* --- tracees.c: the processes of a session --- */
#define TRACEE_BUCKETS 256u

enum tracee_state {
	TRACEE_FORKED,                 /* runs its parent's image: nothing to identify */
	TRACEE_ASKED,                  /* OPEN_PROCESS is on its way */
	TRACEE_TRYING,                 /* not a Python yet: tried again */
	TRACEE_KNOWN,
};

/* How many forks are followed upwards, from a process to the ancestor that has mappings of its own or memory that is
 * open. A bound against loops: the parents' pids come from records, and a pid can be used again. */
#define GENERATIONS 8u

/* One process of a session, for one or several program images: an exec keeps the tracee, and replaces what is known of
 * the image. It lives until its end was reported to the profile, which may be later than its death (`dead`), as samples
 * of before are still held. */
struct tracee {
	struct watch watch;             /* pidfd; fd < 0: none yet */
	struct session *session;
	struct tracee *next, *next_of_pid;
	struct tracee *next_parent;     /* of tracee__announce_forked() */
	enum tracee_state state;
	/* It ended. tracee__find() does not find it any more, so that its pid can be used again. */
	bool dead;
	/* Dead, and known by its pidfd: tracee__announce_ends() reports it to the profile, after the records of before.
	 * Else its exit record did, in order. */
	bool end_pending;
	bool root;                      /* the one that was attached to */
	/* host.c: it may be a Python, and is no target of the sampler yet. `adopted`: it is, or was one. */
	bool candidate, adopted;
	uint64_t inode;                 /* of its program, if a record told; 0: not known */
	uint32_t device;
	bool forked;                    /* in this session */
	/* It ran before the session did, so no record announced its threads: /proc/PID/task is read once it is
	 * identified. */
	bool list;
	/* An exec took its timers away (EVENT_UNTIMED), or its parent's: the broker is asked for new ones. */
	bool untimed;
	/* gil.c: when the GIL is searched for again, how often it was, and whether its address is final. */
	uint64_t gil_due;
	uint32_t gil_polls;
	bool gil_sure;                  /* its address is final */
	uint64_t ended;                 /* monotonic ns */
	int32_t pid, parent;
	uint64_t start;                 /* boottime ns */
	uint32_t exec;
	bool exec_known;
	bool authorised;                /* the broker did it for this image, and gave its descriptors */
	/* CPU time (ns) that its thread had spent when it called exec. The CPU time since then says how far the new
	 * program can have come: see SCHEDULE_SHOWS_NS. */
	uint64_t exec_cpu;
	uint64_t exec_time;             /* monotonic: when that was; 0: not known */
	/* No Python frame can have existed up to this time: the program was in exec or in its dynamic loader. */
	uint64_t none_until;
	struct image_key key;
	/* /proc/PID/mem and /proc/PID/maps, opened by the broker; owned. They stay bound to the image that they were
	 * opened for and read nothing after an exec. < 0: not there. */
	int mem, maps;
	uint64_t modules;               /* of ufuncs, by site.c; 0: not asked for yet */
	/* Of the last question to the broker about it. An answer with another token belongs to an image that is gone.
	 * In state FORKED: not 0 when its memory was asked for. */
	uint32_t token;
	/* State TRYING: when it began, when it is given up, and when the next try is due. */
	uint64_t began, until, next_try;
	uint64_t pause;
	/* State TRYING: the profile has it as no Python so far, so that its samples need not wait. That may change. */
	bool provisional;
	struct image image;
	char python[32];
	char unsupported[32];           /* the Python that it runs, which is not walked: "Python 2.7.18", "PyPy" */
	/* Its mappings. NULL: the session has no native stacks, or it was forked and it has no sample yet. Owned by
	 * modules. */
	struct modules_process *native;
	/* asleep.c: records of threads that slept when the session began, kept until it is their turn. asleep_at:
	 * offset of the next one. asleep_again: each was handed on once; what is still asleep is done again, with
	 * unwind tables. asleep_due: when to go on. */
	struct buf asleep;
	size_t asleep_at;               /* the next */
	bool asleep_again;              /* each was handed on once */
	uint64_t asleep_due;            /* monotonic ns: when they are gone on with */
	/* Its thread states, read at tstates_at (0: never). */
	struct python_tstates tstates;
	uint64_t tstates_at;            /* monotonic ns; 0: never */
	/* Of a forked process: the modules_process__id() whose mappings it shares, as they were at native_since, while
	 * its exec count is native_exec. */
	uint64_t native_from, native_since;
	uint32_t native_exec;               /* ... and up to which exec */
	bool native_sampled;                    /* it had samples since then */
};

/* What /proc tells of a process's start is exact to so much: USER_HZ. */
#define PROC_START_NS 10000000u
/* State ASKED, without descriptors. NULL: no memory, or the session has SERVE_PROCESSES_MAX of them. */
struct tracee *tracee__new(struct session *session, int32_t pid);
/* By pid, among the living. */
struct tracee *tracee__find(struct session *session, int32_t pid);
/* The same; if there is none, the ended one of which this is a record. Of that there is no memory. */
struct tracee *tracee__of(struct session *session, const struct record_task *task);
/* Of one that may have ended, or have executed another program, since it was forked. NULL: it was not forked in this
 * session. */
const struct tracee *tracee__forked_as(struct session *session, const struct record_task *task);
void tracee__free(struct engine *engine, struct tracee *tracee);
/* Takes the fds of ATTACHED or PROCESS (pidfd, mem, maps). */
void tracee__open(struct engine *engine, struct tracee *tracee, const struct broker_message *message,
		   const int fds[3]);
/* The records that cannot wait for their order: fork, exec, end. */
void tracee__record(struct engine *engine, struct session *session, const struct record_header *header);
/* A forked child runs its parent's image, but its pages are its own: asks for its fds, once. */
void tracee__ask_memory(struct engine *engine, struct tracee *tracee);
/* BROKER_PROCESS and BROKER_CHILD. The descriptors stay the caller's: what is kept is duplicated. */
void tracee__answered(struct engine *engine, struct session *session,
		       const struct broker_message *message, const int *fds, unsigned n);
/* Whichever comes last shows an image that was withheld: the broker's answer, or the record of its exec as it is handed on. */
void tracee__show(struct session *session, uint32_t pid, uint32_t exec);
/* The sampler did not know the image of this sample's process, so the sample has no Python frames. Is it known by now
 * that there can have been none? Then nothing was lost. */
bool tracee__ran_no_python(const struct session *session, const struct record_header *header);
/* Identifies what is due, frees what ended; at the end of a turn of the loop. *ret_next is lowered to the time of the
 * next work, if there is any. */
void tracee__retry(struct engine *engine, struct session *session, uint64_t now, uint64_t *ret_next);
/* No target any more, or none at all: it is freed at the end of a turn of the loop. */
void tracee__drop(struct engine *engine, struct tracee *tracee);
/* Begins again with the image that it has now. */
void tracee__ask(struct engine *engine, struct tracee *tracee);
/* Ends those that have ended, although no record said so. */
void tracee__sweep(struct session *session);
/* Announces the process to the profile (profile__process), and its threads if they ran before. */
int tracee__announce(struct tracee *tracee);
/* `parent` was identified: what it forked before runs the same image, and is known by that, too. */
void tracee__announce_forked(struct tracee *parent);
/* Reports to the profile the ends that lie before `up_to`: all records of these processes were handed on. */
void tracee__announce_ends(struct session *session, uint64_t up_to);
/* False: the session is over. Reads /proc for forked processes that have no pidfd. */
bool tracee__any_alive(struct session *session);

/* --- identify.c: which CPython a process runs, or none --- */

/* Reads its memory once. Afterwards it is KNOWN (a Python, or none), or the session is refused, or next_try says when
 * to try again. */
void tracee__try(struct engine *engine, struct tracee *tracee, uint64_t now);
/* It is the process that was attached to, and the session cannot begin before it is identified. */
bool tracee__is_awaited(const struct tracee *tracee);

/* --- host.c: every Python of the machine --- */
struct host;
/* -EINVAL: *ret_refusal says what is wrong with the patterns. */
int host__new(const struct request *request, struct host **ret, struct refusal *ret_refusal);
struct host *host__free(struct host *host); /* NULL */
/* Some process called exec. */
void host__started(struct session *session, const struct record_started *started);
/* The candidate runs a CPython that is known; it runs none. */
void host__found(struct tracee *tracee);
void host__none(struct engine *engine, struct tracee *tracee);
/* It ended, or may not be opened. */
void host__died(struct engine *engine, struct tracee *tracee);
/* Has it run for long enough to have shown its CPython, if it has one? */
bool host__has_run(const struct tracee *tracee);
void host__adopted(struct engine *engine, struct session *session, const struct broker_message *message);
/* What is due; *ret_next falls to when there will be more. */
void host__step(struct engine *engine, struct session *session, uint64_t now, uint64_t *ret_next);

/* --- site.c: what a Python frame is about to call --- */
void call_sites__open(struct session *session); /* session->call_sites */

/* --- native.c: native stacks; without them these do nothing --- */
int native__open(struct session *session, int processes_fd);
void native__close(struct session *session);
uint32_t native__flags(const struct request *request); /* for the broker */
/* BROKER_FILE, BROKER_POOL. */
void native__answered(struct session *session, const struct broker_message *message, const int *fds,
		      unsigned n);
/* The tracee has its memory and mappings; they are about to be closed; its CPython is known. */
void native__enter(struct tracee *tracee);
void native__leave(struct tracee *tracee);
void native__identified(struct tracee *tracee);
/* Its dynamic loader is at work: reads its mappings now rather than when the first sample needs them. */
void native__poll(struct tracee *tracee);
/* `parent` forked it at `time`. */
void native__forked(struct tracee *child, const struct tracee *parent, uint64_t time);
/* The mappings of a process that has none of its own yet, and is sampled. NULL: it is no forked child, or they are not
 * known. */
struct modules_process *native__of_forked(struct session *session, int32_t pid);
/* A record says that executable memory was mapped. If it overlaps known code, the list of mappings is read again. */
void native__mapped(struct session *session, const struct record_map *map);
uint64_t native__refresh(struct session *session); /* monotonic ns: when there is more to do */

/* --- units.c: which compile a sample is of --- */
struct session_units;
int session_units__open(struct session *session);   /* its sink is there */
void session_units__close(struct session *session); /* its profile is gone */
struct event_sink *session_units__sink(struct session *session);
void session_units__code(struct session *session, const struct record_code *code);
void session_units__other_memory(struct session *session); /* a process begins, or leaves its image */
int session_units__sample(struct session *session, const struct sample *sample);
/* Which locals of this code object does a rule ask for? False: of none. */
bool session_units__capture(struct session *session, uint64_t key, struct locals_capture *ret);
uint32_t session_units__unnamed(struct session *session); /* compiles that ended without a name since the last call */
/* gil.c */
void gil__poll(struct session *session, uint64_t now);
/* --- asleep.c: threads that slept as the session began --- */
int asleep__sample(struct session *session, const struct record_sample *sample);
/* Reads some threads of processes that are identified, for at most SCHEDULE_ASLEEP_SLICE_NS; at the end of a turn of
 * the loop. *ret_next is lowered to the time of the next work, if there is any. */
int asleep__step(struct session *session, uint64_t *ret_next);
int asleep__last(struct session *session); /* nothing is sampled any more */
void asleep__drop(struct tracee *tracee);
/* The thread of a record, for who walks it. `own`: its thread pointer (struct part_wait). */
struct dump_thread asleep__thread(const struct record_task *task, uint64_t own);
/* Has the thread of this record not run since? `schedstat`: its file. */
bool asleep__slept(int schedstat, const struct record_sample *sample);
/* Has the thread of this record slept since? */
bool asleep__still(const struct record_sample *sample);
/* --- values.c: locals of a thread that sleeps --- */
/* Appends the part, and those of objects, if a rule asks for locals of one of the frames, which are those of the last walk. */
int values__put(struct session *session, struct python_walker *python, struct host_reader *memory, const struct image *image,
		const struct py_frame *frames, uint32_t n, uint64_t own, struct buf *out, uint16_t *parts);
/* The record of a thread that was switched out, with this part. Negative: it has run since, or cannot be read. */
int values__of_sleeping(struct session *session, const struct tracee *tracee, const struct sample *sample, struct buf *out);
int session_units__replay(struct session *session, struct event_sink *sink);
/* The memory of a process, in pages that were read after `time`. Valid until the next call, or the next sample. */
struct host_reader *session_units__pages(struct session *session, const struct tracee *tracee, uint64_t time);

/* --- watch.c --- */
struct watched_thread {
	uint64_t start, seen; /* when it was in a function of a rule last */
	uint32_t tid;         /* 0: none */
};
/* The thread of this record is in Python; `compiles`: in a function that a rule names. */
void watch__thread(struct session *session, const struct record_header *header, bool compiles);

/* --- cache_dir.c --- */
/* The directory of unwind tables, of this user's alone; < 0: there is none. Opened by the first
 * caller, before the sandbox; not the caller's to close. */
int cache_dir__fd(void);

/* --- dump.c: a session that is one dump (no ring, no profile); with request.kind REQUEST_DUMP --- */
int dump__open(struct session *session, const int *fds); /* of ATTACHED */
void dump__close(struct session *session);
void dump__identified(struct engine *engine, struct session *session);
void dump__resumed(struct engine *engine, struct session *session);

/* --- session.c --- */

enum session_state {
	SESSION_ATTACHING,              /* ATTACH is on its way */
	SESSION_IDENTIFYING,            /* fds are there */
	SESSION_RESUMING,               /* RESUME is on its way */
	SESSION_RUNNING,
	SESSION_DETACHING,              /* DETACH is on its way; what waits is drained then */
	SESSION_DONE,
};

/* One recording of one target (with its children, if they were asked for), or one dump. Its life is described in
 * session.c. A dump has no ring, collector, units or profile. */
struct session {
	struct watch timer, ring_watch; /* timer: of a dump */
	/* When the next poll is due; 0: the session does not run yet, or is a dump. */
	uint64_t tick_due;
	/* Polls come every SCHEDULE_RUSH_DRAIN_NS: it just began, or samples wait for unwind tables. */
	bool rushes;
	/* Samples that are held are handed on at the next poll, whatever the latency says. */
	bool urgent;
	/* When held samples are handed on in any case. */
	uint64_t hand_on_due;
	/* When lines that wait are sent. */
	uint64_t publish_due;
	/* A request `rotate` waits for the next poll that makes events. Until part_until it waits for stacks that lack tables. */
	bool part_due;
	uint64_t part_until;
	/* The rate now, at most request.rate, and that of the next part. */
	uint32_t rate, part_rate;
	/* A request `trigger` waits for the next poll. */
	bool triggered;
	/* When JIT code and mappings are looked for next, if no sample is urgent before. */
	uint64_t modules_due;
	/* When the rings were drained last. */
	uint64_t polled;
	/* The next poll was brought forward already. */
	bool soon;
	uint64_t born;                  /* births.c: when its target made a thread or a process last; 0: never */
	enum { CLOCKS_OFF, CLOCKS_ON, CLOCKS_REFUSED } clocks; /* of CPUs */
	/* A record asked for a poll now. Not set by RECORD_MAP alone, which is frequent and mostly needs none. */
	bool woken, sleeps;
	struct watched_thread watched[BROKER_WATCHED_MAX];
	bool compiles; /* one of its threads did */
	/* Polls that were made in a rush: every SCHEDULE_RUSH_TICKS-th does the work that is not urgent. */
	uint32_t rush_polls;
	uint64_t rush_until;            /* monotonic ns */
	struct session *next;
	struct engine *engine;
	/* Its number for clients. The broker has a number of its own, which it assigns with BROKER_ATTACHED (0: not
	 * yet). */
	uint32_t id;
	uint32_t broker;                /* the broker's number; 0: none */
	/* Of the last request about the session as a whole (ATTACH, RESUME, DETACH). */
	uint32_t token;
	enum session_state state;
	struct request request;
	/* Who attached; NULL: that client is gone, or has its final answer. */
	struct client *owner;
	/* File descriptors of two maps of the sampler: images (process -> CPython's layout) and processes (process ->
	 * unwind tables; -1: no native stacks). The engine fills them; the broker made them. */
	int images;
	int processes;                  /* map fd; -1: no native stacks */
	struct modules_host modules_host;
	struct modules *modules;        /* NULL: no native stacks */
	/* Answers what is at an address; the profile asks it. NULL: neither native nor kernel stacks. */
	struct codemap *codemap;
	struct watch codemap_watch;     /* of its questions for files */
	/* Of the file that codemap asked for and the broker was asked to open; one at a time. 0: none. */
	uint32_t codemap_token;
	struct call_sites call_sites;   /* what its profile asks of bytecode */
	struct watch native_watch;      /* modules have something to do */
	/* The same for what modules asked for: a mapped file, a pool for unwind tables, a perf map. */
	uint32_t file_token, pool_token, map_token;
	struct dumping *dump;           /* NULL: none */
	struct ring *ring;
	struct collect_sink collect_sink;
	struct collector *collector;
	struct event_sink sink;
	struct rules *rules;            /* of the program, and of who attached */
	/* Sits between the profile and `sink`: it sees the profile's events, and adds those of compile units. */
	struct session_units *units;
	struct profile *profile;
	/* Encoded events that were not published yet; pending_events of them. */
	struct buf pending;
	unsigned pending_events;
	struct spool *spool;
	/* The spool had an error (a full disk), and the ledger has it. */
	bool spool_failed;
	struct tracee *tracees;
	struct tracee *of_pid[TRACEE_BUCKETS]; /* the same, by pid % TRACEE_BUCKETS: each record asks */
	unsigned n_tracees;
	struct host *host;              /* NULL: of one process, and its children */
	/* begun: time of its `session` event. deadline: when `duration_ms` ends it; 0: never. */
	uint64_t begun, deadline;
	uint64_t counts_due, spool_due;
	/* When sampling stopped; 0: it goes on. Afterwards only names and lines that are still being read are waited
	 * for. */
	uint64_t detached;
	uint64_t ended;                 /* wall mode: what is later is in no record */
	/* All records of before this time went to the profile. */
	uint64_t handed_on;
	/* Bad records that the profile has counted; the collector's counter only grows. */
	uint64_t bad_counted;
	/* Reason and detail of its `end` event; NULL: it goes on, or was refused. */
	const char *reason;
	char detail[160];
	/* The first error of a stage. The next poll ends the session with it. */
	int error;
	int hole;                       /* why an event is missing in its stream; 0: none is */
};

/* Asks the broker; the answer to `client` comes when it is attached. */
int session__new(struct engine *engine, struct client *client, const struct request *request,
		 struct refusal *ret_refusal);
/* By the number that clients use. Only sessions that run, or are ending. */
struct session *session__find(struct engine *engine, uint32_t id);
/* An answer of the broker that names this session (by token or by number). */
void session__answered(struct engine *engine, struct session *session,
		       const struct broker_message *message, const int *fds, unsigned n);
void session__subscribe(struct engine *engine, struct session *session, struct client *client);
void session__stop(struct engine *engine, struct session *session, const char *reason, const char *detail);
void session__fail(struct engine *engine, struct session *session);
/* The session could not begin: answers the owner with the reason and ends it without any event. */
void session__refuse(struct engine *engine, struct session *session, const struct refusal *refusal);
/* Ends it if nobody wants it any more: no owner, no subscriber, and `keep` was not asked for. */
void session__abandoned(struct engine *engine, struct session *session);
unsigned session__subscribers(const struct engine *engine, const struct session *session);
void session__reap(struct engine *engine, struct session *session);
void session__read_clocks(struct event_session *ret); /* the three of them, now */
/* Between its last sample and its last event: names and lines are still being read. */
void session__linger(struct engine *engine, struct session *session, uint64_t now);
/* Goes on after the root was identified: announces what is known, then asks the broker to start the timers. */
void session__identified(struct engine *engine, struct session *session);

/* --- publish.c: what a session says --- */
/* What was encoded since: to the clients and the spool. */
void session__publish(struct engine *engine, struct session *session);
/* A request `trigger`, for the client that attached; however many come before the next poll, it gets one event. False: it takes none. */
bool session__takes_trigger(const struct session *session);
bool session__trigger(struct session *session);
void session__publish_trigger(struct engine *engine, struct session *session);
/* The last lines; they reach a lagging client too, after its gap. */
void session__farewell(struct engine *engine, struct session *session, bool ended); /* ended: `end` is pending */
int session__open_spool(struct engine *engine, struct session *session);
/* Bytes that are readable by themselves, also after an error. */
uint64_t session__flush_spool(struct session *session);
void session__flush_spool_if_due(struct session *session, uint64_t now);

/* --- drain.c: polls, ring -> collect -> profile --- */
int drain__open(struct session *session, int ring_fd, int samples_fd);
/* The timers of its threads run: polls begin. */
void drain__start(struct session *session);
/* The sampler woke the engine: polls now, or as soon as SCHEDULE_POLL_NS have passed since the last poll. */
void drain__poll_soon(struct engine *engine, struct session *session);
/* With the next events the session is cut into recordings (profile__part()). `rate`: of what follows. */
void drain__rotate_soon(struct session *session, uint32_t rate);
/* Does what is due; *next falls to when there will be more. */
void drain__tick(struct engine *engine, struct session *session, uint64_t now, uint64_t *next);
/* Everything that is in the ring; hands on what is older than `up_to`. */
void drain__run(struct engine *engine, struct session *session, uint64_t up_to);
/* Stacks that wait for tables, as some may be there now. */
void drain__finish_stacks(struct session *session);
void drain__counts(struct session *session);
void drain__close(struct session *session);

/* --- births.c: which clocks tick --- */
void births__record(struct session *session, const struct record_header *header); /* of a clone or a fork */
void births__poll(struct session *session, uint64_t now);
void births__answered(struct session *session, const struct broker_message *message);

/* --- proc.c: files of /proc that anyone may read --- */
void proc__threads(struct session *session, const struct tracee *tracee, bool end);
/* /proc/PID/NAME, NUL-terminated: the number of bytes; -errno. */
ssize_t proc__text(int32_t pid, const char *name, char *ret, size_t size);
/* Real uid. -errno. */
int proc__uid(int32_t pid, uint32_t *ret);
/* Its command line, spaces between; its comm when it has none. Any bytes. */
void proc__command(int32_t pid, char *ret, size_t size);
/* The container that it is in (base/container.h); "": none. -errno: not known, it ended. */
int proc__container(int32_t pid, char ret[CONTAINER_ID_LEN + 1]);
/* Of its first thread, ns; -errno. */
int proc__cpu_time(int32_t pid, uint64_t *ret);
int proc__open_task(const struct record_task *task, const char *name); /* a file of /proc/PID/task/TID; -errno */
bool proc__alive(int32_t pid, uint64_t start);
void proc__boot_id(char *ret, size_t size);
void proc__machine(char *ret, size_t size); /* its CPUs, as "AMD EPYC 7B13, 2 CPUs" */
uint64_t proc__own_data(void);   /* bytes that RLIMIT_DATA counts */
uint64_t proc__own_memory(void); /* PSS, bytes */

/* --- engine.c --- */

/* The process's one engine. Lives on the stack of engine__main(). */
struct engine {
	int channel, epoll;
	struct watch channel_watch;
	struct client *clients;
	struct session *sessions;
	unsigned n_clients, n_sessions;
	uint32_t last_session, last_token;
	uint64_t started;
	/* Messages that the channel had no room for, in order. */
	struct broker_message *asks;
	size_t n_asks;
	/* There was a client once. An engine that never had one waits for the first. */
	bool served;
	bool broker_gone;
	/* RLIMIT_DATA in bytes; 0: no limit. Read at the start, as the sandbox forbids getrlimit() later. */
	uint64_t memory_most;
	/* memory.c: a block that is freed when memory runs out, so that the last answers can be built. */
	void *reserve;
	char hello[SERVE_HELLO_MAX];
};

uint64_t engine__now(void); /* CLOCK_MONOTONIC ns */

/* memory.c */
void memory__begin(struct engine *engine); /* before the sandbox */
/* Some memory is kept back, for what has to be said when there is no more. */
void memory__reserve(struct engine *engine);
void memory__spend_reserve(struct engine *engine);
bool memory__limit(const struct engine *engine, struct limit_reached *ret); /* false: there is no limit */
/* What begins where little is left would end others with it. */
bool memory__is_short(const struct engine *engine, struct limit_reached *ret);
void refusal__set_limit(struct refusal *refusal, const struct limit_reached *reached);
/* -ENOMEM by the limit's name. */
void refusal__set_internal(struct refusal *refusal, const struct engine *engine, const char *what, int err);

/* A number for a question to the broker. Never 0, which means "none". */
uint32_t engine__token(struct engine *engine);
/* Sends a message to the broker, or queues it when the channel is full. -EPIPE: the broker is gone; -ENOMEM. */
int engine__ask(struct engine *engine, const struct broker_message *message);
/* The same about this session, with a number of its own, which is returned (NULL: nobody waits for the answer). */
int session__ask(struct session *session, struct broker_message *message, uint32_t *ret_token);
/* Registers a watch, or changes its events. With events 0 only hang-ups and errors are reported. EPOLLIN and others:
 * epoll(7). */
int engine__watch(struct engine *engine, struct watch *watch, uint32_t events);
void engine__unwatch(struct engine *engine, struct watch *watch); /* and closes its fd */

/* SPDX-License-Identifier: MIT */
/* Inside of the engine: who holds what. Private to daemon/serve/.
 *
 * engine 1-n clients, 1-n sessions; a session 1-n processes. A client streams at
 * most one session. All belong to the one thread of the loop; what dies during a
 * round of it is freed at the round's end, since events for it may still wait.
 */
#ifndef CPROFD_SERVE_ENGINE_H
#define CPROFD_SERVE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/buf.h"
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

/* A descriptor in the loop. */
struct watch {
	int fd;
	uint32_t events;
	void (*ready)(struct engine *engine, struct watch *watch, uint32_t events);
};

/* --- client.c --- */

#define CLIENT_FDS_MAX 4

/* A snapshot on its way into a client's file. */
struct snapshot {
	int from, into;                 /* into < 0: none */
	uint64_t offset, len, bytes;
	struct chunk *tail;
	bool has_id;
	uint64_t id;
};

struct client {
	struct watch watch;
	struct client *next;
	bool dead;
	bool eof;                       /* it will send no more */
	bool skipping;                  /* within a line that was too long */
	struct buf in;
	int fds[CLIENT_FDS_MAX];        /* came along requests, in order */
	unsigned n_fds;
	struct outbox outbox;
	struct session *session;        /* streams here; NULL: none */
	/* A client that reads too slowly: nothing is queued until its outbox is empty. */
	bool lagging;
	uint64_t gap_events, gap_bytes;
	struct chunk *farewell;         /* the session's last lines, which come after the gap */
	struct snapshot snapshot;
	struct user_rules *rules;       /* for what it attaches from now on; NULL: none */
	enum broker_error unnamed;      /* why it can name no process; OK: it can */
	pid_t pid;                      /* as the broker told it */
};

/* Takes `fd`. */
int client__new(struct engine *engine, int fd, pid_t pid, enum broker_error unnamed);
void client__die(struct engine *engine, struct client *client);
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
void snapshot__begin(struct engine *engine, struct client *client, const struct request *request,
		     struct session *session);
/* A piece of it; false: done, or none. */
bool snapshot__step(struct engine *engine, struct client *client);
void snapshot__drop(struct snapshot *snapshot);

/* --- tracees.c: the processes of a session --- */

enum tracee_state {
	TRACEE_FORKED,                 /* runs its parent's image: nothing to identify */
	TRACEE_ASKED,                  /* OPEN_PROCESS is on its way */
	TRACEE_TRYING,                 /* not a Python yet: tried again */
	TRACEE_KNOWN,
};

/* Of forks, up to a process that has mappings of its own, or memory that is open. */
#define GENERATIONS 8u

struct tracee {
	struct watch watch;             /* pidfd; fd < 0: none yet */
	struct session *session;
	struct tracee *next;
	enum tracee_state state;
	bool dead;                      /* ended */
	bool pidfd_told;                /* dead, and its pidfd said so: the profile is told in order */
	bool root;                      /* the one that was attached to */
	bool forked;                    /* in this session */
	bool list;                      /* ran before: its threads are listed once it is known */
	uint64_t gil_due;               /* gil.c */
	uint32_t gil_looks;
	bool gil_sure;                  /* there is no need to look again */
	uint64_t ended;                 /* monotonic ns */
	int32_t pid, parent;
	uint64_t start;                 /* boottime ns */
	uint32_t exec;
	bool exec_known;
	uint64_t exec_cpu;              /* CPU time of its thread when it called exec */
	uint64_t none_until;            /* monotonic ns: it can have run no Python frame up to then */
	struct image_key key;
	int mem, maps;
	uint64_t modules;               /* of ufuncs, by site.c; 0: not asked for yet */
	uint32_t token;                 /* of the last question; FORKED, not 0: its memory was asked for */
	uint64_t began, until, next_try; /* TRYING: monotonic ns */
	uint64_t pause;
	bool provisional;               /* TRYING: told as no Python, which may change */
	struct image image;
	char python[32];
	char unsupported[32];           /* the Python that it runs, which is not walked: "Python 2.7.18", "PyPy" */
	struct modules_process *native; /* NULL: native stacks are not asked for, or it is forked and was not met */
	struct buf asleep;              /* asleep.c: records that wait for their turn */
	size_t asleep_at;               /* the next */
	bool asleep_again;              /* they were all met once */
	uint64_t asleep_due;            /* monotonic ns: when they are gone on with */
	struct python_tstates tstates;    /* asleep.c: as they were then */
	uint64_t tstates_at;            /* monotonic ns; 0: never */
	uint64_t native_from, native_since; /* as a fork: whose mappings it has (modules_process__id), of when */
	uint32_t native_exec;               /* ... and up to which exec */
	bool native_met;                    /* it had samples since then */
};

struct tracee *tracee__new(struct session *session, int32_t pid);
struct tracee *tracee__find(struct session *session, int32_t pid);
/* Of one that may have ended, or have executed another program, since it was forked. NULL: it was not forked in this
 * session. */
const struct tracee *tracee__forked_as(const struct session *session, const struct record_task *task);
void tracee__free(struct engine *engine, struct tracee *tracee);
/* Takes the fds of ATTACHED or PROCESS (pidfd, mem, maps). */
void tracee__open(struct engine *engine, struct tracee *tracee, const struct broker_message *message,
		   const int fds[3]);
/* The records that cannot wait for their order: fork, exec, end. */
void tracee__record(struct engine *engine, struct session *session, const struct record_header *header);
/* A forked child runs its parent's image, but its pages are its own: asks for its fds, once. */
void tracee__ask_memory(struct engine *engine, struct tracee *tracee);
void tracee__answered(struct engine *engine, struct session *session,
		       const struct broker_message *message, const int *fds, unsigned n);
/* The sampler did not know the image of this sample's process: is it known by now that no Python frame
 * can have been there? */
bool tracee__ran_no_python(const struct session *session, const struct record_header *header);
/* Identifies what is due, frees what ended; at the end of a round. *ret_next: lowered to when there is
 * more to do (monotonic ns). */
void tracee__retry(struct engine *engine, struct session *session, uint64_t now, uint64_t *ret_next);
/* Tells the profile who it is (profile__process). */
int tracee__announce(struct tracee *tracee);
/* It is identified: so are those that it forked before. */
void tracee__announce_forked(struct tracee *parent);
/* Tells the profile of those whose end lies before `up_to`, since all their records were handed on. */
void tracee__announce_ends(struct session *session, uint64_t up_to);
bool tracee__any_alive(struct session *session);

/* --- identify.c: which CPython a process runs, or none --- */

/* Looks at its memory: it is KNOWN then (settled, refused), or next_try says when to look again. */
void tracee__try(struct engine *engine, struct tracee *tracee, uint64_t now);
/* The root, and the session waits for it. */
bool tracee__is_awaited(const struct tracee *tracee);

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
/* Its loader is at work: what it maps is looked at now. */
void native__poll(struct tracee *tracee);
/* `parent` forked it at `time`. */
void native__forked(struct tracee *child, const struct tracee *parent, uint64_t time);
/* The mappings of a process that has none of its own yet, and is sampled. NULL: it is no forked child, or they are not known. */
struct modules_process *native__meet(struct session *session, int32_t pid);
/* Something was mapped; if it came to the place of code, that is looked at. */
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
/* gil.c */
void gil__poll(struct session *session, uint64_t now);
/* --- asleep.c: threads that slept as the session began --- */
int asleep__sample(struct session *session, const struct record_sample *sample);
/* Takes some of those whose process is known; at the end of a round. *ret_next: lowered to when there is more to do (monotonic ns). */
int asleep__step(struct session *session, uint64_t *ret_next);
int asleep__last(struct session *session); /* nothing is sampled any more */
void asleep__forget(struct tracee *tracee);
int session_units__replay(struct session *session, struct event_sink *sink);
/* What the sampler is asked of frames of this code; false: nothing. */
bool session_units__locals_capture(const struct session *session, uint64_t key, struct locals_capture *ret);
/* The memory of a process, in pages that were read after `time`. Valid until the next call of these two, or the next sample. */
struct host_reader *session_units__pages(struct session *session, const struct tracee *tracee, uint64_t time);
/* ... as it is from now on. */
struct host_reader *session_units__memory(struct session *session, const struct tracee *tracee);

/* --- asleep.c --- */
/* Tells units and profile of a code object, read from `memory`; `of`: whose it is. */
int session__code(struct session *session, struct host_reader *memory, const struct py_layout *layout, const struct record_header *of,
		  uint64_t key, uint64_t code);

/* --- sleepers.c: threads that wait inside of a compile, in sessions of CPU time --- */
struct sleepers;
/* A tick. */
int sleepers__ticked(struct session *session, const struct sample *sample);
/* After all ticks until `at` were previewed. */
int sleepers__poll(struct session *session, uint64_t at);
/* Nothing is sampled after this time. */
void sleepers__last(struct session *session, uint64_t time);
/* A process was made: who made it may wait for it soon. */
void sleepers__forked(struct session *session);
/* After a look: ns until the next one that is wanted, besides those that come anyway; 0: none. */
uint64_t sleepers__pause(struct session *session);
void sleepers__close(struct session *session);

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

struct session {
	struct watch timer, ring_watch; /* timer: of a dump */
	uint64_t tick_due;              /* monotonic ns; 0: never */
	bool rushes;                    /* beats come each RUSH_DRAIN_NS */
	bool urgent;                    /* what is held is handed on at once */
	uint64_t hand_on_due;           /* monotonic ns: else then */
	uint64_t polled;                /* when the ring was looked at last, monotonic ns */
	bool soon;                      /* the next beat comes sooner than its period */
	uint64_t born;                  /* births.c: when its target made a thread or a process last; 0: never */
	enum { CLOCKS_OFF, CLOCKS_ON, CLOCKS_REFUSED } clocks; /* of CPUs */
	bool woken;                     /* the ring's records, but for what was mapped, are to be looked at now */
	uint32_t beats;
	uint64_t rush_until;            /* monotonic ns */
	struct session *next;
	struct engine *engine;
	uint32_t id;                    /* what clients know it by */
	uint32_t broker;                /* the broker's number; 0: none */
	uint32_t token;
	enum session_state state;
	struct request request;
	struct client *owner;           /* who attached; NULL: gone */
	int images;                     /* map fd */
	int processes;                  /* map fd; -1: no native stacks */
	struct modules_host modules_host;
	struct modules *modules;        /* NULL: no native stacks */
	struct codemap *codemap;        /* what its profile asks; NULL: neither native nor kernel stacks */
	struct watch codemap_watch;     /* of its questions for files */
	uint32_t codemap_token;         /* ... of the one that the broker was asked */
	struct call_sites call_sites;   /* what its profile asks of bytecode */
	struct watch native_watch;      /* modules have something to do */
	uint32_t file_token, pool_token, map_token; /* of what modules asked for */
	struct dumping *dump;           /* NULL: none */
	struct ring *ring;
	struct collect_sink collect_sink;
	struct collector *collector;
	struct event_sink sink;
	struct rules *rules;            /* of the program, and of who attached */
	struct session_units *units;    /* between profile and sink */
	struct sleepers *sleepers;      /* NULL: none */
	struct profile *profile;
	struct buf pending;             /* encoded, not published yet */
	unsigned pending_events;
	struct spool *spool;
	bool spool_failed;              /* the ledger has it */
	struct tracee *tracees;
	unsigned n_tracees;
	uint64_t begun, deadline;       /* monotonic ns; deadline 0: none */
	uint64_t counts_due, spool_due;
	uint64_t detached;              /* when it was; names and lines that are being read may still come */
	uint64_t ended;                 /* wall mode: what is later is in no record */
	uint64_t handed_on;             /* all records of before that time went to the profile */
	uint64_t bad_told;              /* collect's bad records told to the profile so far */
	const char *reason;             /* of its end */
	char detail[160];
	int error;                      /* a stage failed */
};

/* Asks the broker; the answer to `client` comes when it is attached. */
int session__new(struct engine *engine, struct client *client, const struct request *request,
		 struct refusal *ret_refusal);
struct session *session__find(struct engine *engine, uint32_t id);
/* An answer of the broker that names this session (by token or by number). */
void session__answered(struct engine *engine, struct session *session,
		       const struct broker_message *message, const int *fds, unsigned n);
void session__subscribe(struct engine *engine, struct session *session, struct client *client);
void session__stop(struct engine *engine, struct session *session, const char *reason, const char *detail);
/* The attach did not come to be: tells the owner. */
void session__refuse(struct engine *engine, struct session *session, const struct refusal *refusal);
/* Ends it when no one is left who wants it. */
void session__abandoned(struct engine *engine, struct session *session);
unsigned session__subscribers(const struct engine *engine, const struct session *session);
void session__reap(struct engine *engine, struct session *session);
/* The sampler woke: now, or when the last look is long enough ago. */
void session__poll_soon(struct engine *engine, struct session *session);
/* Does what is due; *next falls to when there will be more. */
void session__tick(struct engine *engine, struct session *session, uint64_t now, uint64_t *next);
/* Goes on after its root was identified: tells of all that is known, and resumes. */
void session__identified(struct engine *engine, struct session *session);

/* --- publish.c: what a session says --- */
/* What was encoded since: to the clients and the spool. */
void session__publish(struct engine *engine, struct session *session);
/* The last lines; they reach a lagging client too, after its gap. */
void session__farewell(struct engine *engine, struct session *session, bool ended); /* ended: `end` is pending */
int session__open_spool(struct engine *engine, struct session *session);
/* Bytes that are readable by themselves, also after an error. */
uint64_t session__flush_spool(struct session *session);
void session__flush_spool_if_due(struct session *session, uint64_t now);

/* --- drain.c: ring -> collect -> profile --- */
int drain__open(struct session *session, int ring_fd, int samples_fd);
/* Empties the ring, and reads what must be read of the target before it goes on; what is younger than `up_to` waits. */
void drain__poll(struct session *session, uint64_t up_to);
/* Everything that is in the ring; hands on what is older than `up_to`. */
void drain__run(struct engine *engine, struct session *session, uint64_t up_to);
void drain__counts(struct session *session);
void drain__close(struct session *session);

/* --- births.c: which clocks tick --- */
void births__record(struct session *session, const struct record_header *header); /* of a clone or a fork */
void births__poll(struct session *session, uint64_t now);
void births__answered(struct session *session, const struct broker_message *message);

/* --- proc.c: what /proc tells to anyone --- */
void proc__threads(struct session *session, const struct tracee *tracee, bool end);
/* Its command line, spaces between; its comm when it has none. Any bytes. */
void proc__command(int32_t pid, char *ret, size_t size);
/* Of its first thread, ns; -errno. */
int proc__cpu_time(int32_t pid, uint64_t *ret);
int proc__open_task(const struct record_task *task, const char *name); /* a file of /proc/PID/task/TID; -errno */
bool proc__alive(int32_t pid, uint64_t start);
void proc__boot_id(char *ret, size_t size);
uint64_t proc__own_data(void);   /* bytes that RLIMIT_DATA counts */
uint64_t proc__own_memory(void); /* PSS, bytes */

/* --- engine.c --- */

struct engine {
	int channel, epoll;
	struct watch channel_watch;
	struct client *clients;
	struct session *sessions;
	unsigned n_clients, n_sessions;
	uint32_t last_session, last_token;
	uint64_t started;
	struct broker_message *asks;    /* wait until the channel takes them */
	size_t n_asks;
	bool served;                    /* there was a client once */
	bool broker_gone;
	uint64_t memory_most;           /* bytes that it may have; 0: no limit. The sandbox does not let it ask */
	void *reserve;
	char hello[SERVE_HELLO_MAX];
};

uint64_t engine__now(void); /* CLOCK_MONOTONIC ns */

/* memory.c */
void memory__begin(struct engine *engine); /* before the sandbox */
/* Some memory is kept back, for what has to be said when there is no more. */
void memory__reserve(struct engine *engine);
void memory__spend_reserve(struct engine *engine);
bool memory__met(const struct engine *engine, struct limit_met *ret); /* false: there is no limit */
/* What begins where little is left would end others with it. */
bool memory__is_short(const struct engine *engine, struct limit_met *ret);
void refusal__set_limit(struct refusal *refusal, const struct limit_met *met);
/* -ENOMEM by the limit's name. */
void refusal__set_internal(struct refusal *refusal, const struct engine *engine, const char *what, int err);

uint32_t engine__token(struct engine *engine);
int engine__ask(struct engine *engine, const struct broker_message *message);
/* Adds, changes (same fd, other events) or removes (events 0) a watch. */
int engine__watch(struct engine *engine, struct watch *watch, uint32_t events);
void engine__unwatch(struct engine *engine, struct watch *watch); /* and closes its fd */

#endif

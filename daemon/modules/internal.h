/* Inside of modules: who holds what. */
#ifndef CPROFD_MODULES_INTERNAL_H
#define CPROFD_MODULES_INTERNAL_H

#include "modules/modules.h"
#include "modules/segments.h"
#include "modules/worker.h"
#include "target/maps.h"

#define MS 1000000ull

/* A table in a pool. */
struct placed_table {
	struct unwind_table *at; /* NULL: none */
	size_t size;
	uint16_t pool;
};

enum file_state { FILE_NEW, FILE_ASKED, FILE_OPEN, FILE_DONE };

/* A module, and what only this folder knows of it. */
struct file {
	struct module seen; /* first */
	enum file_state state;
	uint32_t major, minor;
	uint64_t inode;
	int32_t pid; /* whose mapping is asked for */
	uint64_t start, end;
	unsigned failed;
	bool urgent;
	int fd;
	int64_t size, mtime_s, mtime_ns; /* when it was opened */
	void *image;			 /* no file: the vDSO's bytes */
	size_t image_size;
	struct segments segments;
	uint64_t descriptor_at;
	struct placed_table table;
	/* Code of it that is not described, where walks stopped (ELF addresses, ascending): it is followed,
	 * and another table made. */
	uint64_t places[UNWIND_PLACES_MAX];
	uint32_t n_places, follows; /* so often */
	uint64_t follow_ns;
	bool following, followed; /* a job runs; there is nothing left for one */
};

/* An executable mapping. */
struct code {
	uint64_t start, end, offset;
	struct file *file; /* NULL: anonymous */
	uint64_t bias;
	bool biased;
	bool descriptor;     /* its JIT's list is known to `jit` */
	uint32_t look;	     /* modules_process.looks of its first sight */
	bool exact;	     /* `born` is known, else it came some time after it */
	uint64_t born, died; /* died 0: it is there */
};

/* How many processes hold a place in a pool: forked children share their parent's. NULL: one. */
struct sharers {
	uint32_t n;
};

struct object {
	uint32_t id;
	struct sharers *sharers; /* of its table */
	struct placed_table table;
};

struct fd_reader {
	struct host_reader reader;
	int fd;
};

/* A file's code made room for something, as the kernel told it. */
struct change {
	uint64_t start, end;
	uint64_t time;
	uint64_t known; /* since then the published list does not have that code; 0: not yet */
	bool file;	/* code of a file lies there, or did */
};
#define CHANGES_MAX 64u

/* Room that was given away where no code was ever seen: most often it is no code's. */
struct given {
	uint64_t start, end;
	uint64_t time;
};
#define GIVEN_MAX 256u

struct modules_process {
	struct modules_process *next;
	uint64_t id;
	int32_t pid;
	struct image_key key;
	struct fd_reader mem; /* fd < 0: it ended */
	int maps;
	uint64_t opened, closed; /* closed 0: it runs */
	uint64_t runtime;
	const struct file *interpreter;
	struct code *code; /* by address; those that are gone behind */
	uint32_t n, n_gone;
	uint64_t maps_hash, files_hash; /* files_hash: of what files lie where; 0: it is to be read
					   with names */
	uint64_t read_at;   /* when the last look began to read, */
	uint64_t read_end;  /* and when it had read */
	uint32_t looks;	    /* that found a change */
	uint64_t asked_for; /* somebody met a pc in no mapping since: as of then */
	uint64_t pause;
	uint64_t look_ns;   /* what a look costs */
	struct change changes[CHANGES_MAX]; /* the oldest first */
	uint32_t n_changes, changes_gone;
	uint64_t told; /* changes and given room, so often */
	uint64_t file_answers;	       /* what is known of files' code changed so often */
	struct given given[GIVEN_MAX]; /* the oldest first */
	uint32_t n_given;
	bool dirty;
	bool look_soon;
	bool inherited; /* what it knows of JITs is its parent's, objects by id: not compared with its
			 * memory yet */
	/* the list that is published */
	void *list;
	size_t list_size;
	uint64_t list_word, list_at; /* struct unwind_process.list; when it was published */
	struct sharers *list_sharers;
	uint64_t salt;
	struct jit *jit; /* NULL: no list of a JIT's is known */
	uint64_t polled; /* all that the JIT had registered by then is known */
	struct object *objects;
	uint32_t n_objects, objects_capacity, next_object;
};

struct pool {
	char *memory;
	uint64_t bytes;
	struct unwind_pool room;
};

/* Room that a tick may still look at. */
struct retired {
	struct retired *next;
	uint16_t pool;
	void *place;
	size_t size;
	uint64_t at;
};
/* A tick uses a list for 17 ms after it was replaced (bpf/native.h). */
#define RETIRE_NS (60 * MS)

#define POOLS_MAX 32u
#define STOPS 256u

struct modules {
	struct modules_host *host;
	bool tables;
	struct worker *worker;
	struct file **files;
	uint32_t n_files;
	struct file *asked;
	struct file *hot; /* a walk waits for it */
	struct modules_process *processes;
	uint32_t n_processes;
	uint64_t last_process;
	struct pool pools[POOLS_MAX];
	uint32_t n_pools;
	bool pool_asked, pool_refused;
	struct job *homeless; /* done; their tables wait for a pool */
	struct retired *retired;
	uint64_t salts;
	uint16_t change;
	uint64_t answers; /* changed so often */
	bool follows;	  /* some file's code is, or has to be */
	uint64_t file_answers; /* those about files' code, of all processes */
	uint64_t now;
	struct modules_counts counts;
	struct late *late; /* walks again */
	struct modules_stop stops[STOPS];
	uint32_t stop_modules[STOPS];
};

/* --- room.c --- */
/* Asks for the pools that every session needs. */
void room__open(struct modules *modules);
/* NULL: no room now; a pool was asked for if there can be one. */
void *room__place(struct modules *modules, size_t size, uint16_t *ret_pool);
void room__retire(struct modules *modules, uint16_t pool, void *place, size_t size, uint64_t now);
void room__sweep(struct modules *modules, uint64_t now);
void room__free(struct modules *modules);
/* Takes the job's table. False: no room yet. */
bool room__table(struct modules *modules, struct job *job, struct placed_table *ret);

/* --- files.c --- */
struct file *files__get(struct modules *modules, struct modules_process *process,
			const struct mapping *mapping);
void files__ask(struct modules *modules);
/* A walk stopped in it for lack of its table. */
void files__want(struct modules *modules, struct file *file);
/* A walk stopped at this ELF address of it, for code that is not followed yet. */
void files__follow(struct modules *modules, struct file *file, uint64_t place);
/* Those that were met while the last such job ran. */
void files__tick(struct modules *modules);
/* 0, or -EAGAIN: no room for its table yet. */
int files__done(struct modules *modules, struct job *job);
void files__free(struct modules *modules);

/* --- processes.c --- */
void processes__tick(struct modules *modules, uint64_t now);
void processes__dirty(struct modules *modules);
const struct code *processes__code(const struct modules_process *process, uint64_t pc,
				   uint64_t time);
void processes__free(struct modules *modules);

struct modules_process *processes__add(struct modules *modules, int32_t pid,
				       const struct image_key *key, uint64_t opened);
void processes__undo(struct modules *modules, struct modules_process *process, uint64_t now);

/* Is the file mapped now where it was when it was asked for? (An overlay may give an open file another
 * inode than its mapping.) */
bool processes__maps(const struct modules *modules, const struct file *file);

/* --- changes.c --- */
uint64_t modules__clock(void); /* CLOCK_MONOTONIC ns */
/* Looks at a process with many mappings are rarer. */
bool looks__affordable(const struct modules_process *process, uint64_t now);
/* When the room of [start, end) was taken by something else, the last time after `after`; `after` when it
 * was not, or when that is not known. */
uint64_t changes__taken(const struct modules_process *process, uint64_t start, uint64_t end,
			uint64_t after);
/* The first time instead: several libraries may have come and gone there since the last look. */
uint64_t changes__left(const struct modules_process *process, uint64_t start, uint64_t end,
		       uint64_t after);
/* Was the place of pc given away after `time`, and before the last look? Then what that found there was not
 * there at `time`. */
bool changes__given_after(const struct modules_process *process, uint64_t pc, uint64_t time);
/* A loader may still be at work where something was mapped: another look is needed. */
bool changes__settle(const struct modules_process *process, uint64_t now);
/* The list that is published now is of the last look. */
void changes__published(struct modules_process *process, uint64_t now);
/* Something was mapped at pc before `time`, and nobody looked since. */
bool changes__unseen(const struct modules_process *process, uint64_t pc, uint64_t time);

/* --- fork.c --- */
/* 0 or -ENOMEM: then *a stays alone. */
int sharers__join(struct sharers **a, struct sharers **ret_b);
/* True: it was the last one, and what was shared goes. */
bool sharers__leave(struct sharers **sharers);
/* A process with this very list, whose image is the same, itself before others; NULL: none. */
struct modules_process *fork__twin(struct modules *modules, struct modules_process *process,
				   const void *list, size_t size);
/* It stands for processes of its image that have no entry of their own. */
bool fork__is_eldest(const struct modules *modules, const struct modules_process *process);

/* --- lists.c --- */
/* What was mapped at `time`, ascending; *ret_n of them (0: nothing, or no memory). The caller's to free. */
struct unwind_placed *lists__at(struct modules *modules, const struct modules_process *process,
				uint64_t time, uint32_t *ret_n);
/* Objects that ended stay this long, for walks that are late. */
#define OBJECT_KEPT_NS (3000 * MS)
/* Publishes `from`'s list for the process, too; false: no memory. */
bool lists__share(struct modules *modules, struct modules_process *from,
		  struct modules_process *process, uint64_t now);
void lists__publish(struct modules *modules, struct modules_process *process, uint64_t now);
void lists__drop(struct modules *modules, struct modules_process *process, uint64_t now);

/* --- late.c --- */
void late__free(struct modules *modules);

/* --- objects.c: JIT compilers --- */
void objects__poll(struct modules *modules, struct modules_process *process, uint64_t now);
/* The child has the parent's tables of the objects that its jit has. 0 or -ENOMEM. */
int objects__fork(struct modules_process *to, struct modules_process *from);
int objects__done(struct modules *modules, struct job *job);
/* Drops tables of objects that ended; true: there were some. */
void objects__sweep(struct modules *modules, struct modules_process *process, uint64_t now);
void objects__free(struct modules *modules, struct modules_process *process, uint64_t now);

#endif

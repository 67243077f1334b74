/* The thread that reads files and makes tables, so that the engine's loop never waits for them.
 * A job and what it points to belong to the worker from worker__give() until worker__take(). */
#ifndef CPROFD_MODULES_WORKER_H
#define CPROFD_MODULES_WORKER_H

#include <stdint.h>

#include "modules/segments.h"
#include "unwind/unwind.h"

struct job {
	struct job *next;
	/* in: a file, or bytes (owned) */
	int fd;
	void *bytes;
	uint64_t size;
	bool urgent;		 /* before all that wait */
	bool tables, descriptor; /* what is wanted besides segments and identity */
	uint32_t module;	 /* whose: a module's id, or of an object of a JIT compiler: */
	uint32_t object;
	int32_t pid;
	uint64_t process;
	/* out */
	int error;		    /* of the table: -ENODATA.. */
	struct unwind_table *table; /* malloc'd */
	struct unwind_identity identity;
	struct segments segments;
	uint64_t descriptor_at; /* ELF address; 0: none */
	uint64_t ns;
};

struct worker;
int worker__new(struct worker **ret);
struct worker *worker__free(struct worker *worker);	  /* NULL; jobs that wait are dropped */
int worker__give(struct worker *worker, struct job *job); /* takes it, if it returns 0 */
struct job *worker__take(struct worker *worker);	  /* one that is done, or NULL */
void job__free(struct job *job);

#endif

/* SPDX-License-Identifier: MIT */
/* What the files of the code map share:
 *   find.c     address -> location, from top to bottom, and its line
 *   known_names.c   names of functions, kept from one epoch to the next
 *   walk.c     stacks that are walked again
 *   codemap.c  its life, how long answers hold
 *   namer*.c   symbols and lines are read in a thread of its own (namer.h) */
#pragma once

#include "base/buf.h"
#include "base/intern.h"
#include "codemap/codemap.h"
#include "codemap/namer.h"

/* A file or the vDSO, with its names. In codemap.files, by module->id. Whether it is the interpreter, or greenlet,
 * decides the roles of its functions. */
struct module_names {
	struct names *names; /* NULL: not asked for, or not open yet */
	const struct module *module;
	bool interpreter;
	bool switches; /* C stacks: greenlet's */
};

/* An object of a JIT compiler, named by (origin, object): the process that made it, and its number there. Forked
 * children have it under the same name. */
struct object_names {
	uint64_t origin, heir; /* heir: the process that had it last, as the maker may have ended */
	uint64_t copied;       /* the process whose memory the image was copied from; 0: not yet */
	uint32_t object;
	bool no_lines;
	struct names *names; /* for its lines; NULL: not requested yet */
	uint64_t seen;	     /* tick at which the copy was complete; 0: not yet */
	bool certain;	     /* the object still existed at a poll after that: the copy is good */
};

struct codemap {
	struct modules *modules; /* NULL: none */
	struct namer *namer;
	struct names *kernel;	    /* NULL: they are not asked for */
	struct module_names *files; /* by id of their module */
	uint32_t n_files;
	struct object_names *objects;
	uint32_t n_objects, objects_capacity;
	struct intern object_numbers; /* by (origin, object) */
	uint64_t ticks;
	/* Answers of the past: names by function, and buffers of the last answer, which code_location's strings
	 * point into. */
	struct known_names known;
	struct known_name kept; /* known_at(): one that an earlier session knew */
	struct symbol symbol; /* of the last answer */
	struct buf display;
	char module_name[256], nameless[320];
};

/* --- find.c --- */

/* A file's names. NULL: no memory. `names` in it is NULL while the file is not open. `pid`: who sees its debug file. */
struct module_names *files__names(struct codemap *self, const struct module *module, int32_t pid);

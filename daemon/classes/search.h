/* SPDX-License-Identifier: MIT */
/* The search for a module's callables, in steps; each file has one. Private to this folder. */
#ifndef CPROFD_CLASSES_SEARCH_H
#define CPROFD_CLASSES_SEARCH_H

#include "classes/callables.h"
#include "classes/data.h"
#include "weave/frames.h"

/* A function on its way: the address that a table has. */
struct found {
	uint64_t address;
	const char *name;
	uint32_t order;
	uint8_t kind;
};

/* A type that says where each of its objects has the function that a call of it calls. */
#define SEARCH_INSTANCES 32u
struct search_instance {
	uint64_t offset;
	uint64_t at;    /* of the type; 0: it is made of a PyType_Spec */
	uint64_t maker; /* the type's tp_new; 0: it has none */
	char type[128];
};

struct search {
	const struct data *data;
	struct callables *out;
	struct found *found;
	uint32_t n, capacity;
	uint64_t *tables; /* where tables of methods begin, by address */
	uint32_t n_tables, tables_capacity;
	uint8_t *owned;   /* of tables: it is known whose they are */
	struct search_instance instances[SEARCH_INSTANCES];
	uint32_t n_instances;
};

/* "owner.name"; what is in `builtins` needs no owner. */
int search__add(struct search *search, uint64_t address, const char *owner, const char *name, enum callable_kind kind);
/* members.c: all that tables name. -E2BIG: there are more. */
int search__members(struct search *search);
/* instances.c: a type whose objects have a function each, at this offset; all those functions. */
void search__instance(struct search *search, uint64_t offset, uint64_t at, uint64_t maker, const char *type);
int search__instances(struct search *search, const struct code_frames *frames);
/* collector.c */
int search__collector(struct search *search, const struct code_frames *frames);
/* candidates.c */
int search__machinery(struct search *search, const struct code_frames *frames);
/* switchers.c */
int search__switchers(struct search *search, const struct code_frames *frames);
/* Of all that were found, by address. */
int search__candidates(struct search *search, const struct code_frames *frames);
/* bodies.c: who jumps to rows without a name, or calls them. The body of one function alone, which calls what it was given, gets its name. */
int search__bodies(struct search *search, const struct code_frames *frames);

#endif

/* SPDX-License-Identifier: MIT */
/* OpenTelemetry's profiles, signal "profiles" of OTLP (opentelemetry-proto 1.11,
 * opentelemetry/proto/profiles/v1development/profiles.proto): events -> ExportProfilesServiceRequest. That message has the
 * fields of ProfilesData, so that the same bytes are a file and the body of a request. docs/fleet.md lists the attributes.
 *
 *     otlp.c              the events' samples, and the request
 *     otlp_dictionary.c   its tables of strings, functions, stacks ...
 *
 * Used in two ways. Of a recording: otlp__begin(), model__read(), otlp__encode(). Of a session that goes on: events go to
 * `model.sink`, and each otlp__encode() takes what came since the last one, as a request that stands on its own.
 *
 * Memory: the model, and 32 bytes a sample of what is not yet encoded. Errors: -errno. One thread. */
#pragma once

#include "export/model.h"

/* The tables, by their fields in ProfilesDictionary. Entry 0 of each is the zero value: "none". */
enum dictionary_table {
	DICTIONARY_MAPPING = 1,
	DICTIONARY_LOCATION,
	DICTIONARY_FUNCTION,
	DICTIONARY_LINK,
	DICTIONARY_STRING,
	DICTIONARY_ATTRIBUTE,
	DICTIONARY_STACK,
	DICTIONARY_END
};

/* Entries are keyed by their encoded bytes: none is there twice. A failure is kept in `err`, and ends the output. */
struct dictionary {
	struct intern tables[DICTIONARY_END];
	struct buf locations; /* uint32_t: of each frame of the model its location; 0: not yet */
	struct buf entry, part, path; /* scratch */
	int err;
};

void dictionary__begin(struct dictionary *dictionary);
uint32_t dictionary__string(struct dictionary *dictionary, const char *text);
/* text NULL: the number. */
uint32_t dictionary__attribute(struct dictionary *dictionary, const char *key, const char *text, uint64_t number);
uint32_t dictionary__stack(struct dictionary *dictionary, const struct model *model, uint32_t stack);
/* Appends ProfilesDictionary. */
void dictionary__encode(struct dictionary *dictionary, struct buf *out);
void dictionary__free(struct dictionary *dictionary);
/* Appends AnyValue as a field: of an attribute, whose value is not left out if it is "". */
int dictionary__value(struct buf *out, uint32_t field, struct buf *scratch, const char *text, uint64_t number);

/* What only who sends it knows. Borrowed; NULL: left out, or made of what the recording has. */
struct otlp_resource {
	const char *service, *host;
};

struct otlp {
	struct model model;
	struct otlp_resource resource;
	const struct buf *quiet; /* borrowed; threads that are left out (quiet.h), if that is known before they are read */
	/* What was sampled and is not yet encoded: struct stack_key -> its observations, a list each. */
	struct intern keys;
	struct buf series;	 /* struct series */
	struct buf observations; /* struct observation */
	uint64_t number;	 /* of requests so far */
	struct dictionary dictionary;
	struct buf sample, packed, profile, scope, part; /* scratch */
	int err;
};

int otlp__begin(struct otlp *otlp, const struct export_options *options);
/* Samples since the last request. */
static inline uint32_t otlp__samples(const struct otlp *otlp);
/* Appends a request; nothing if there are no samples. */
int otlp__encode(struct otlp *otlp, struct buf *out);
void otlp__free(struct otlp *otlp);

/* `next`: the following one of the same series + 1; 0: the last one. */
struct observation {
	uint64_t time, cpu, wall; /* ns */
	uint32_t next;
};

static inline uint32_t otlp__samples(const struct otlp *otlp)
{
	return LENGTH(otlp->observations, struct observation);
}

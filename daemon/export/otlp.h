/* SPDX-License-Identifier: MIT */
/* OpenTelemetry's profiles, signal "profiles" of OTLP (opentelemetry-proto 1.11,
 * opentelemetry/proto/profiles/v1development/profiles.proto): events -> ExportProfilesServiceRequest. That message has the
 * fields of ProfilesData, so that the same bytes are a file and the body of a request. docs/fleet.md lists the attributes.
 *
 *     otlp.c              a batch of samples becomes a request
 *     otlp_dictionary.c   its tables of strings, functions, stacks ...
 *     otlp_json.c         a request as JSON
 *
 * Errors: -errno. One thread. */
#pragma once

#include "export/batch.h"

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

/* Appends the batch as a request, and clears it; nothing if there are no samples. */
int otlp__encode(struct batch *batch, struct buf *out);
/* The same as JSON. */
int otlp_json__encode(struct batch *batch, struct buf *out);
/* A request's bytes as JSON. -EBADMSG: they are none of otlp__encode()'s. */
int otlp_json__from(const struct buf *message, struct buf *out);

/* SPDX-License-Identifier: MIT */
/* The JSON form of each event as data: encode.c and decode.c use the same tables, so they cannot differ. Private to
 * this folder. */
#pragma once

#include "events/events.h"

/* The C types of members: uint8_t, uint32_t, int32_t, uint64_t, bool, const char *. */
enum field_type { FIELD_U8, FIELD_U32, FIELD_I32, FIELD_U64, FIELD_BOOL, FIELD_STRING };

enum field_need {
	FIELD_REQUIRED,
	FIELD_OPTIONAL, /* may be missing: 0, false or "" then */
	FIELD_SPARSE,   /* is left out if it is 0 or ""; in a row only at its end */
};

/* One member of a struct, and its JSON. */
struct field {
	const char *key;     /* in rows, which are arrays, the position counts and the key is only a name */
	enum field_type type;
	enum field_need need;
	/* of the member, in struct event or in the row */
	uint16_t offset;
};

struct field_list {
	const struct field *fields;
	size_t n;
};

extern const char *const event_names[EVENT_KIND_COUNT];

/* Members of an event with a key of their own; offsets are into struct event. */
extern const struct field_list event_fields[EVENT_KIND_COUNT];

/* Rows of the tables, arrays in this order; n = 0 for other kinds. */
struct row_form {
	struct field_list fields;
	size_t size;
	uint32_t base; /* id of the first row of an epoch */
};
extern const struct row_form event_rows_form[EVENT_KIND_COUNT];

/* Rows of `stops` in a ledger. */
extern const struct row_form ledger_stop_form;
/* Keys of a ledger that are there only when `native` is not 0. */
extern const struct field_list ledger_native_fields;

/* Batches in columns: "t", then these. Offsets are into their rows; size = 0 for other kinds. A batch is
 * written by column, as values of one column resemble each other, which compresses better, and as a column of
 * zeros is left out. */
struct column_form {
	struct field_list fields;
	size_t size;
	uint16_t time; /* of a uint64_t: "t" */
};
extern const struct column_form event_columns_form[EVENT_KIND_COUNT];

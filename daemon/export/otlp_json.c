/* SPDX-License-Identifier: MIT */
/* OTLP's JSON (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"): a request of otlp.c once more, for people who look
 * at what is sent. It is made of the request's own bytes, by tables of their messages: keys in lowerCamelCase, numbers of 64
 * bits as strings, ids in hexadecimal. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "events/json.h"
#include "export/otlp.h"
#include "export/protobuf_read.h"

enum form { FORM_TEXT, FORM_HEX, FORM_SHORT, FORM_LONG, FORM_EIGHT, FORM_MESSAGE };

/* A list of numbers is packed, others are a field for each item. */
struct json_field {
	uint32_t number;
	const char *key;
	enum form form;
	bool list;
	const struct json_field *message;
};

#define FIELD(number, key, form) {number, key, FORM_##form, false, NULL}
#define LIST(number, key, form) {number, key, FORM_##form, true, NULL}
#define ONE(number, key, message) {number, key, FORM_MESSAGE, false, message}
#define MANY(number, key, message) {number, key, FORM_MESSAGE, true, message}
static const struct json_field value[] = {FIELD(1, "stringValue", TEXT), FIELD(3, "intValue", LONG), {}};
static const struct json_field key_value[] = {FIELD(1, "key", TEXT), ONE(2, "value", value), {}};
static const struct json_field resource[] = {MANY(1, "attributes", key_value), {}};
static const struct json_field scope[] = {FIELD(1, "name", TEXT), FIELD(2, "version", TEXT), {}};
static const struct json_field value_type[] = {FIELD(1, "typeStrindex", SHORT), FIELD(2, "unitStrindex", SHORT), {}};
static const struct json_field sample[] = {FIELD(1, "stackIndex", SHORT),
					   LIST(2, "attributeIndices", SHORT),
					   LIST(4, "values", LONG),
					   LIST(5, "timestampsUnixNano", EIGHT),
					   {}};
static const struct json_field profile[] = {ONE(1, "sampleType", value_type),
					    MANY(2, "samples", sample),
					    FIELD(3, "timeUnixNano", EIGHT),
					    FIELD(4, "durationNano", LONG),
					    ONE(5, "periodType", value_type),
					    FIELD(6, "period", LONG),
					    FIELD(7, "profileId", HEX),
					    {}};
static const struct json_field scope_profiles[] = {ONE(1, "scope", scope), MANY(2, "profiles", profile), {}};
static const struct json_field resource_profiles[] = {ONE(1, "resource", resource),
						      MANY(2, "scopeProfiles", scope_profiles),
						      {}};
static const struct json_field mapping[] = {FIELD(4, "filenameStrindex", SHORT), LIST(5, "attributeIndices", SHORT), {}};
static const struct json_field line[] = {FIELD(1, "functionIndex", SHORT), FIELD(2, "line", LONG), FIELD(3, "column", LONG), {}};
static const struct json_field location[] = {FIELD(1, "mappingIndex", SHORT),
					     MANY(3, "lines", line),
					     LIST(4, "attributeIndices", SHORT),
					     {}};
static const struct json_field function[] = {FIELD(1, "nameStrindex", SHORT),
					     FIELD(2, "systemNameStrindex", SHORT),
					     FIELD(3, "filenameStrindex", SHORT),
					     FIELD(4, "startLine", LONG),
					     {}};
static const struct json_field span_link[] = {FIELD(1, "traceId", HEX), FIELD(2, "spanId", HEX), {}};
static const struct json_field attribute[] = {FIELD(1, "keyStrindex", SHORT), ONE(2, "value", value), {}};
static const struct json_field stack[] = {LIST(1, "locationIndices", SHORT), {}};
static const struct json_field dictionary[] = {MANY(DICTIONARY_MAPPING, "mappingTable", mapping),
					       MANY(DICTIONARY_LOCATION, "locationTable", location),
					       MANY(DICTIONARY_FUNCTION, "functionTable", function),
					       MANY(DICTIONARY_LINK, "linkTable", span_link),
					       LIST(DICTIONARY_STRING, "stringTable", TEXT),
					       MANY(DICTIONARY_ATTRIBUTE, "attributeTable", attribute),
					       MANY(DICTIONARY_STACK, "stackTable", stack),
					       {}};
static const struct json_field request[] = {MANY(1, "resourceProfiles", resource_profiles),
					    ONE(2, "dictionary", dictionary),
					    {}};

struct writer {
	struct buf *out;
	struct buf text; /* scratch */
};

static int put_number(struct writer *writer, enum form form, uint64_t number)
{
	char digits[32];

	snprintf(digits, sizeof(digits), form == FORM_SHORT ? "%" PRIu64 : "\"%" PRIu64 "\"", number);
	return buf__puts(writer->out, digits);
}

static int put_text(struct writer *writer, const char *data, size_t len)
{
	buf__clear(&writer->text);
	return buf__append(&writer->text, data, len) ?: buf__append(&writer->text, "", 1) ?: json__string(writer->out, writer->text.data);
}

static int put_hex(struct writer *writer, const char *data, size_t len)
{
	char digits[3];
	int err = buf__puts(writer->out, "\"");

	for (size_t i = 0; i < len && !err; i++) {
		snprintf(digits, sizeof(digits), "%02x", (unsigned char)data[i]);
		err = buf__puts(writer->out, digits);
	}
	return err ?: buf__puts(writer->out, "\"");
}

/* The items of a packed list, without its brackets. */
static int put_packed(struct writer *writer, enum form form, const char *at, const char *end)
{
	const char *begin = at;
	int err = 0;

	while (at < end && !err) {
		uint64_t number;

		err = at > begin ? buf__puts(writer->out, ",") : 0;
		if (form == FORM_EIGHT && end - at >= 8) {
			number = protobuf__take_eight(at);
			at += 8;
		} else if (form == FORM_EIGHT || !protobuf__take(&at, end, &number)) {
			return -EBADMSG;
		}
		err = err ?: put_number(writer, form, number);
	}
	return err;
}

static int put_message(struct writer *writer, const struct json_field *fields, const char *at, const char *end);

static int put_field(struct writer *writer, const struct json_field *to, const struct protobuf_field *from)
{
	const char *end = from->data + (from->data ? from->value : 0);

	if (to->form == FORM_EIGHT && from->wire == PROTOBUF_FIXED64)
		return put_number(writer, to->form, protobuf__take_eight(from->data));
	if (from->wire == PROTOBUF_VARINT && (to->form == FORM_SHORT || to->form == FORM_LONG))
		return put_number(writer, to->form, from->value);
	if (from->wire != PROTOBUF_LENGTH)
		return -EBADMSG;
	switch (to->form) {
	case FORM_TEXT:
		return put_text(writer, from->data, from->value);
	case FORM_HEX:
		return put_hex(writer, from->data, from->value);
	case FORM_MESSAGE:
		return put_message(writer, to->message, from->data, end);
	default:
		return to->list ? put_packed(writer, to->form, from->data, end) : -EBADMSG;
	}
}

/* Items of a list lie behind one another. It nests as deep as the tables do. */
static int put_message(struct writer *writer, const struct json_field *fields, const char *at, const char *end)
{
	const struct json_field *open = NULL, *to;
	struct protobuf_field field;
	int err = buf__puts(writer->out, "{");

	while (at < end && !err) {
		if (!protobuf__field(&at, end, &field))
			return -EBADMSG;
		for (to = fields; to->key && to->number != field.number; to++)
			;
		if (!to->key)
			return -EBADMSG;
		if (to == open)
			err = buf__puts(writer->out, ",");
		else
			err = (open && open->list ? buf__puts(writer->out, "]") : 0) ?: json__key(writer->out, to->key) ?: to->list ? buf__puts(writer->out, "[") : 0;
		open = to;
		err = err ?: put_field(writer, to, &field);
	}
	return err ?: (open && open->list ? buf__puts(writer->out, "]") : 0) ?: buf__puts(writer->out, "}");
}

int otlp_json__from(const struct buf *message, struct buf *out)
{
	struct writer writer = {.out = out};
	int err = put_message(&writer, request, message->data, message->data + message->len);

	buf__free(&writer.text);
	return err;
}

int otlp_json__encode(struct batch *batch, struct buf *out)
{
	struct buf message = {};
	int err = otlp__encode(batch, &message);

	if (!err && message.len)
		err = otlp_json__from(&message, out);
	buf__free(&message);
	return err;
}

/* SPDX-License-Identifier: MIT */
/* OpenTelemetry's profiles, read with a reader of protocol buffers that knows nothing of the writer: what a made-up
 * recording has is in the file, and what a session has is in its requests, once. tests/live/otlp.py reads them with
 * OpenTelemetry's own classes. */
#include <zlib.h>

#include "export/otlp.h"
#include "export_util.h"

#define THREADS_MAX 8
#define TABLE_MAX 60000

struct bytes {
	const unsigned char *at, *end;
};
struct field {
	uint32_t number, wire;
	uint64_t value;
	struct bytes bytes;
};

static uint64_t varint(struct bytes *in)
{
	uint64_t value = 0;
	int shift = 0;

	do {
		assert_true(in->at < in->end && shift < 64);
		value |= (uint64_t)(*in->at & 127) << shift;
		shift += 7;
	} while (*in->at++ & 128);
	return value;
}

static bool next(struct bytes *in, struct field *ret)
{
	uint64_t tag;

	if (in->at == in->end)
		return false;
	tag = varint(in);
	*ret = (struct field){.number = (uint32_t)tag >> 3, .wire = tag & 7};
	if (ret->wire == 1) {
		assert_true(in->end - in->at >= 8);
		memcpy(&ret->value, in->at, 8);
		in->at += 8;
		return true;
	}
	ret->value = varint(in);
	if (ret->wire != 2) {
		assert_int_equal(ret->wire, 0);
		return true;
	}
	assert_true(ret->value <= (uint64_t)(in->end - in->at));
	ret->bytes = (struct bytes){in->at, in->at + ret->value};
	in->at = ret->bytes.end;
	return true;
}

/* The last field of this number; zeros: there is none. */
static struct field get(struct bytes in, uint32_t number)
{
	struct field field, ret = {};

	while (next(&in, &field))
		if (field.number == number)
			ret = field;
	return ret;
}

/* What the requests say, added up. */
struct told {
	struct bytes tables[DICTIONARY_END][TABLE_MAX];
	uint32_t n[DICTIONARY_END];
	uint64_t cpu[THREADS_MAX], samples[THREADS_MAX], self[SYNTHETIC_FUNCTIONS];
	uint64_t units;
	uint64_t ids[64];
	uint32_t n_ids;
};

static bool is_text(struct bytes bytes, const char *text)
{
	return (size_t)(bytes.end - bytes.at) == strlen(text) && !memcmp(bytes.at, text, strlen(text));
}

static void read_dictionary(struct told *told, struct bytes in)
{
	struct field field;

	memset(told->n, 0, sizeof(told->n));
	while (next(&in, &field)) {
		assert_in_range(field.number, 1, DICTIONARY_END - 1);
		assert_in_range(told->n[field.number], 0, TABLE_MAX - 1);
		told->tables[field.number][told->n[field.number]++] = field.bytes;
	}
	for (int table = 1; table < DICTIONARY_END; table++) {
		assert_true(told->n[table] >= 1);
		assert_int_equal(told->tables[table][0].end - told->tables[table][0].at, table == DICTIONARY_LINK ? 16 + 8 + 4 : 0);
	}
}

static struct bytes entry(const struct told *told, int table, uint64_t i)
{
	assert_in_range(i, 1, told->n[table] - 1);
	return told->tables[table][i];
}

static uint32_t leaf_of(const struct told *told, uint64_t stack)
{
	struct bytes locations = get(entry(told, DICTIONARY_STACK, stack), 1).bytes;
	struct bytes location = entry(told, DICTIONARY_LOCATION, varint(&locations)), name;
	struct bytes line = get(location, 3).bytes;
	struct bytes function = entry(told, DICTIONARY_FUNCTION, get(line, 1).value);
	unsigned number;

	name = entry(told, DICTIONARY_STRING, get(function, 1).value);
	for (const unsigned char *at = name.end; at > name.at; at--)
		if (at[-1] == '_') {
			for (number = 0; at < name.end; at++)
				number = 10 * number + (unsigned)(*at - '0');
			assert_in_range(number, 0, SYNTHETIC_FUNCTIONS - 1);
			/* Python has lines, native code a module. */
			assert_int_equal(!!get(line, 2).value, number % 3 != 0);
			assert_int_equal(!!get(location, 1).value, number % 3 == 0);
			return number;
		}
	return UINT32_MAX; /* a note */
}

static void read_sample(struct told *told, struct bytes sample, uint64_t from, uint64_t to)
{
	struct bytes values = get(sample, 4).bytes, times = get(sample, 5).bytes, attributes = get(sample, 2).bytes;
	uint32_t leaf = leaf_of(told, get(sample, 1).value), thread = UINT32_MAX;
	bool unit = false;

	while (attributes.at < attributes.end) {
		struct bytes attribute = entry(told, DICTIONARY_ATTRIBUTE, varint(&attributes));
		struct bytes key = entry(told, DICTIONARY_STRING, get(attribute, 1).value), value = get(attribute, 2).bytes;

		if (is_text(key, "thread.id"))
			thread = (uint32_t)get(value, 3).value - 4242;
		unit |= is_text(key, "compiler.unit.name");
	}
	assert_in_range(thread, 0, THREADS_MAX - 1);
	while (values.at < values.end) {
		uint64_t value = varint(&values), time;

		assert_true(times.end - times.at >= 8);
		memcpy(&time, times.at, 8);
		times.at += 8;
		assert_in_range(time, from, to - 1);
		told->cpu[thread] += value;
		told->samples[thread]++;
		told->units += unit ? value : 0;
		if (leaf != UINT32_MAX)
			told->self[leaf] += value;
	}
	assert_ptr_equal(times.at, times.end);
}

static void read_profile(struct told *told, struct bytes profile)
{
	struct bytes type = get(profile, 1).bytes, id = get(profile, 7).bytes;
	uint64_t from = get(profile, 3).value, to = from + get(profile, 4).value, hash;
	struct field field;

	assert_true(is_text(entry(told, DICTIONARY_STRING, get(type, 1).value), "cpu"));
	assert_true(is_text(entry(told, DICTIONARY_STRING, get(type, 2).value), "nanoseconds"));
	assert_int_equal(id.end - id.at, 16);
	memcpy(&hash, id.at, 8);
	for (uint32_t i = 0; i < told->n_ids; i++)
		assert_int_not_equal(told->ids[i], hash);
	assert_in_range(told->n_ids, 0, 63);
	told->ids[told->n_ids++] = hash;
	while (next(&profile, &field))
		if (field.number == 2)
			read_sample(told, field.bytes, from, to);
}

static void read_request(struct told *told, const struct buf *request)
{
	struct bytes in = {(const unsigned char *)request->data, (const unsigned char *)request->data + request->len}, scope;
	struct field resource, profile;

	read_dictionary(told, get(in, 2).bytes);
	while (next(&in, &resource)) {
		if (resource.number != 1)
			continue;
		scope = get(resource.bytes, 2).bytes;
		while (next(&scope, &profile))
			if (profile.number == 2)
				read_profile(told, profile.bytes);
	}
}

static void compare(const struct synthetic *s, const struct told *told)
{
	uint64_t self[SYNTHETIC_FUNCTIONS] = {}, units = 0;

	for (uint32_t i = 0; i < s->threads; i++) {
		assert_int_equal(told->cpu[i], s->truth[i].cpu);
		assert_int_equal(told->samples[i], s->truth[i].samples);
		for (int f = 0; f < SYNTHETIC_FUNCTIONS; f++)
			self[f] += s->truth[i].self[f];
	}
	assert_memory_equal(self, told->self, sizeof(self));
	for (uint32_t i = 0; i < s->calls_n; i++)
		for (uint32_t at = i; at != UINT32_MAX; at = s->calls[at].parent)
			if (!s->calls[at].kind) {
				units += s->calls[i].cpu;
				break;
			}
	assert_int_equal(told->units, units);
}

static void a_file(void **state)
{
	struct synthetic s = {.threads = 4, .rate = 999, .seconds = 20, .depth = 30, .seed = 7, .units = true};
	const struct export_options options = {};
	_cleanup_close_ int fd = made_up(&s);
	struct export_report report;
	size_t len;
	_cleanup_free_ char *file = run("otlp", fd, &options, &report, &len);
	struct told *told = calloc(1, sizeof(*told));
	struct buf request = {};
	z_stream zip = {.next_in = (unsigned char *)file, .avail_in = (unsigned)len};

	assert_non_null(told);
	assert_int_equal(inflateInit2(&zip, 15 + 16), Z_OK);
	assert_int_equal(buf__lengthen(&request, 64 << 20), 0);
	zip.next_out = (unsigned char *)request.data;
	zip.avail_out = (unsigned)request.len;
	assert_int_equal(inflate(&zip, Z_FINISH), Z_STREAM_END);
	request.len = zip.total_out;
	inflateEnd(&zip);
	read_request(told, &request);
	compare(&s, told);
	buf__free(&request);
	free(told);
	synthetic_free(&s);
}

/* Events of a session, encoded every so many lines. */
struct session {
	struct event_sink sink;
	struct batch batch;
	struct told *told;
	uint32_t events, requests;
};

static int on_event(struct event_sink *self, const struct event *event)
{
	struct session *session = (struct session *)self;
	struct buf request = {};

	assert_int_equal(session->batch.model.sink.event(&session->batch.model.sink, event), 0);
	if (++session->events % 100)
		return 0;
	assert_int_equal(otlp__encode(&session->batch, &request), 0);
	session->requests += request.len > 0;
	if (request.len)
		read_request(session->told, &request);
	assert_int_equal(batch__samples(&session->batch), 0);
	buf__free(&request);
	return 0;
}

static void requests(void **state)
{
	struct synthetic s = {.threads = 4, .rate = 999, .seconds = 20, .depth = 30, .seed = 7, .units = true, .epoch_seconds = 6};
	const struct export_options options = {.lines = true};
	_cleanup_close_ int fd = made_up(&s);
	struct session *session = calloc(1, sizeof(*session));
	struct buf request = {};
	bool cut;

	assert_non_null(session);
	session->sink.event = on_event;
	session->told = calloc(1, sizeof(*session->told));
	assert_non_null(session->told);
	assert_int_equal(batch__begin(&session->batch, &options), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(recording__read(fd, false, &session->sink, &cut), 0);
	assert_int_equal(otlp__encode(&session->batch, &request), 0);
	if (request.len)
		read_request(session->told, &request);
	assert_true(session->requests > 3);
	compare(&s, session->told);
	buf__free(&request);
	batch__free(&session->batch);
	free(session->told);
	free(session);
	synthetic_free(&s);
}

/* tests/live/otlp.py compares it with the binary form. Here: bytes that are no request make an error, or JSON. */
static void as_json(void **state)
{
	struct synthetic s = {.threads = 2, .rate = 20, .seconds = 1, .depth = 4, .seed = 7, .units = true};
	const struct export_options options = {.lines = true};
	_cleanup_close_ int fd = made_up(&s);
	struct export_missing missing;
	struct batch batch;
	struct buf request = {}, json = {};

	assert_int_equal(batch__begin(&batch, &options), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(model__read(&batch.model, fd, &missing), 0);
	assert_int_equal(otlp__encode(&batch, &request), 0);
	for (size_t i = 0; i <= 2 * request.len; i++) {
		/* The whole; cut; with another byte. */
		struct buf copy = {};
		json_t *read;
		int err;

		assert_int_equal(buf__append(&copy, request.data, i < request.len ? i : request.len), 0);
		if (i > request.len)
			copy.data[i - request.len - 1] ^= (char)(1u << i % 8);
		buf__clear(&json);
		err = otlp_json__from(&copy, &json);
		assert_true(!err || err == -EBADMSG);
		assert_true(i != request.len || !err);
		read = err ? NULL : json_loadb(json.data, json.len, 0, NULL);
		assert_true(err || read || i != request.len);
		json_decref(read);
		buf__free(&copy);
	}
	buf__free(&json);
	buf__free(&request);
	batch__free(&batch);
	synthetic_free(&s);
}

/* Of two files with one name no function says which it is of. */
static void build_ids(void **state)
{
	const struct module_row first[] = {{"libc.so.6", "01"}, {"foo.so", "02"}}, second[] = {{"foo.so", "03"}, {"libc.so.6", "01"}}, third[] = {{"foo.so", "02"}};
	const struct event events[] = {
		{.kind = EVENT_SESSION, .session = {.mode = "cpu", .boot_id = "", .command = ""}},
		{.kind = EVENT_MODULES, .rows = {0, 2, first}},
		{.kind = EVENT_MODULES, .rows = {2, 2, second}},
		{.kind = EVENT_MODULES, .rows = {4, 1, third}},
	};
	static const char *const expected[][2] = {{"", ""}, {"01", "02"}, {"01", ""}, {"01", ""}};
	const struct export_options options = {};
	struct batch batch;

	assert_int_equal(batch__begin(&batch, &options), 0);
	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		assert_int_equal(batch.model.sink.event(&batch.model.sink, &events[i]), 0);
		assert_string_equal(model__build_id(&batch.model, "libc.so.6"), expected[i][0]);
		assert_string_equal(model__build_id(&batch.model, "foo.so"), expected[i][1]);
		assert_string_equal(model__build_id(&batch.model, "bar.so"), "");
	}
	batch__free(&batch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file),
		cmocka_unit_test(requests),
		cmocka_unit_test(build_ids),
		cmocka_unit_test(as_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

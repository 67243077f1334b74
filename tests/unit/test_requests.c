/* SPDX-License-Identifier: MIT */
/* Requests of clients: which are accepted, and the error for each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "serve/answer.h"
#include "serve/request.h"
#include "serve/serve.h"

static struct request request;
static struct refusal refusal;

/* A copy without NUL, so that a sanitizer sees each byte read too far. */
static int parse(const char *line)
{
	size_t len = strlen(line);
	char *copy = malloc(len ? len : 1);
	int err;

	memcpy(copy, line, len);
	err = request__parse(copy, len, &request, &refusal);
	free(copy);
	return err;
}

static void refused(const char *line, const char *code)
{
	assert_int_equal(parse(line), -EBADMSG);
	assert_string_equal(refusal.code, code);
	assert_true(refusal.error[0]);
}

static void test_attach(void **state)
{
	assert_int_equal(parse("{\"req\":\"attach\",\"id\":7,\"pid\":4242,\"rate\":499,\"duration_ms\":1500,\"latency_ms\":1000,"
			       "\"mode\":\"wall\",\"native\":\"leaf\",\"subprocesses\":true,\"idle\":true,"
			       "\"kernel\":true,\"gil\":true,\"keep\":true,\"starting\":true,\"trigger\":true,\"stream\":true}"),
			 0);
	assert_int_equal(request.kind, REQUEST_ATTACH);
	assert_true(request.has_id);
	assert_int_equal(request.id, 7);
	assert_int_equal(request.pid, 4242);
	assert_int_equal(request.rate, 499);
	assert_int_equal(request.duration_ms, 1500);
	assert_int_equal(request.latency_ms, 1000);
	assert_true(request.wall);
	assert_int_equal(request.native, REQUEST_NATIVE_LEAF);
	assert_true(request.subprocesses && request.idle && request.kernel && request.gil && request.keep &&
		    request.starting && request.trigger && request.stream);
	assert_false(request.spool);
}

static void test_defaults(void **state)
{
	assert_int_equal(parse("{\"req\":\"attach\",\"pid\":1}"), 0);
	assert_false(request.has_id);
	assert_int_equal(request.rate, 999);
	assert_int_equal(request.duration_ms, 0);
	assert_int_equal(request.latency_ms, 200);
	assert_false(request.wall);
	assert_int_equal(request.native, REQUEST_NATIVE_OFF);
	assert_true(request.stream);
	assert_false(request.subprocesses || request.keep || request.spool || request.starting || request.trigger);
	/* what is not streamed is spooled, or it would be nowhere */
	assert_int_equal(parse("{\"req\":\"attach\",\"pid\":1,\"stream\":false}"), 0);
	assert_true(request.spool);
}

static void test_others(void **state)
{
	assert_int_equal(parse("{\"req\":\"stop\",\"session\":3,\"id\":0}"), 0);
	assert_int_equal(request.kind, REQUEST_STOP);
	assert_int_equal(request.session, 3);
	assert_int_equal(parse("{\"req\":\"snapshot\",\"session\":4294967295,\"fd\":true}"), 0);
	assert_true(request.fd);
	assert_int_equal(request.session, UINT32_MAX);
	assert_int_equal(parse("{\"req\":\"dump\",\"pid\":7}"), 0);
	assert_int_equal(request.kind, REQUEST_DUMP);
	assert_int_equal(request.pid, 7);
	assert_int_equal(request.native, REQUEST_NATIVE_OFF);
	assert_int_equal(parse("{\"req\":\"dump\",\"pid\":7,\"native\":\"full\"}"), 0);
	assert_int_equal(request.native, REQUEST_NATIVE_FULL);
	refused("{\"req\":\"dump\"}", "MISSING");
	assert_int_equal(parse("{\"req\":\"trigger\",\"pid\":7}"), 0);
	assert_int_equal(request.kind, REQUEST_TRIGGER);
	assert_int_equal(request.pid, 7);
	assert_int_equal(request.session, 0);
	assert_int_equal(parse("{\"req\":\"trigger\",\"session\":3}"), 0);
	assert_int_equal(request.session, 3);
	assert_int_equal(request.pid, 0);
	refused("{\"req\":\"trigger\"}", "MISSING");
	refused("{\"req\":\"trigger\",\"session\":3,\"pid\":7}", "BAD_VALUE");
	refused("{\"req\":\"trigger\",\"pid\":0}", "BAD_VALUE");
	assert_int_equal(parse("{\"req\":\"unsubscribe\"}"), 0);
	assert_int_equal(request.session, 0);
	assert_int_equal(parse(" {\"req\":\"sessions\"} \r"), 0);
	assert_int_equal(parse("{\"req\":\"status\",\"future\":{\"a\":[1]}}"), 0);
	/* a key that this request does not take is as unknown as any other */
	assert_int_equal(parse("{\"req\":\"status\",\"pid\":\"x\"}"), 0);
}

static void test_host(void **state)
{
	assert_int_equal(parse("{\"req\":\"attach\",\"host\":true}"), 0);
	assert_true(request.host && request.subprocesses);
	assert_int_equal(request.pid, 0);
	assert_null(request.match);
	assert_int_equal(parse("{\"req\":\"attach\",\"host\":true,\"match\":\"name=a\\nuser=1\"}"), 0);
	assert_string_equal(request.match, "name=a\nuser=1");
	request__clear(&request);
	refused("{\"req\":\"attach\",\"host\":true,\"pid\":1}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"host\":true,\"mode\":\"wall\"}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"host\":true,\"idle\":true}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"host\":1}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"host\":false}", "MISSING");
	refused("{\"req\":\"attach\",\"host\":true,\"match\":3}", "BAD_VALUE");
}

static void test_bad_values(void **state)
{
	refused("{\"req\":\"attach\",\"id\":1}", "MISSING");
	assert_true(request.has_id);
	assert_int_equal(request.id, 1);
	refused("{\"req\":\"stop\"}", "MISSING");
	refused("{\"req\":\"attach\",\"pid\":0}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":-1}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":2147483648}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":\"1\"}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":1.5}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":1,\"rate\":0}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":1,\"rate\":20001}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":1,\"mode\":\"cpus\"}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":1,\"native\":null}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":1,\"keep\":1}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":1,\"duration_ms\":-5}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":1,\"latency_ms\":99}", "BAD_VALUE");
	refused("{\"req\":\"attach\",\"pid\":1,\"latency_ms\":5001}", "BAD_VALUE");
	refused("{\"req\":\"stop\",\"session\":0}", "BAD_VALUE");
	refused("{\"req\":\"stop\",\"session\":4294967296}", "BAD_VALUE");
	refused("{\"req\":\"status\",\"id\":-1}", "BAD_VALUE");
	refused("{\"req\":\"status\",\"id\":9007199254740993}", "BAD_VALUE");
}

static void test_rules(void **state)
{
	assert_int_equal(parse("{\"req\":\"rules\",\"id\":1,\"file\":\"my.rules\",\"text\":\"compiler x\\nunit\"}"), 0);
	assert_int_equal(request.kind, REQUEST_RULES);
	assert_string_equal(request.file, "my.rules");
	assert_string_equal(request.text, "compiler x\nunit");
	request__clear(&request);
	assert_null(request.text);
	refused("{\"req\":\"rules\",\"file\":\"my.rules\"}", "MISSING");
	request__clear(&request);
	refused("{\"req\":\"rules\",\"file\":7,\"text\":\"\"}", "BAD_VALUE");
	request__clear(&request);
	refused("{\"req\":\"rules\",\"file\":\"a\",\"text\":\"b\\u0000c\"}", "BAD_JSON");
}

static void test_not_requests(void **state)
{
	refused("", "BAD_JSON");
	refused("{", "BAD_JSON");
	refused("[]", "BAD_JSON");
	refused("7", "BAD_JSON");
	refused("null", "BAD_JSON");
	refused("{\"req\":\"status\"} {}", "BAD_JSON");
	refused("{\"req\":\"status\",\"req\":\"stop\"}", "BAD_JSON");
	refused("{\"req\":\"\xff\"}", "BAD_JSON");
	refused("{\"req\":\"sta\\u0000tus\"}", "BAD_JSON");
	refused("{\"req\":\"status\",\"id\":99999999999999999999}", "BAD_JSON");
	refused("{}", "NO_REQ");
	refused("{\"req\":7}", "NO_REQ");
	refused("{\"req\":\"fly\"}", "UNKNOWN_REQ");
	refused("{\"req\":\"status\",\"x\":[[[[[[]]]]]]}", "BAD_JSON");
	/* brackets in strings are no depth */
	assert_int_equal(parse("{\"req\":\"status\",\"x\":\"[[[[[[[\\\"[[\"}"), 0);
}

static void test_size(void **state)
{
	static char line[SERVE_REQUEST_MAX + 1];

	memset(line, ' ', sizeof(line));
	memcpy(line, "{\"req\":\"status\"}", 16);
	assert_int_equal(request__parse(line, SERVE_REQUEST_MAX, &request, &refusal), 0);
	assert_int_equal(request__parse(line, SERVE_REQUEST_MAX + 1, &request, &refusal), -EBADMSG);
	assert_string_equal(refusal.code, "TOO_LONG");
}

static void test_answers(void **state)
{
	struct buf out = {};

	assert_int_equal(answer__ok(&out, true, 7, json_pack("{s:i}", "session", 1)), 0);
	assert_int_equal(answer__ok(&out, false, 0, json_object()), 0);
	assert_int_equal(answer__ok(&out, true, 9, NULL), -ENOMEM);
	refusal__set(&refusal, "LIMIT", "wait", "too \"many\"");
	assert_int_equal(answer__refused(&out, true, 8, &refusal), 0);
	assert_int_equal(buf__append(&out, "", 1), 0);
	assert_string_equal(out.data, "{\"ev\":\"answer\",\"id\":7,\"ok\":true,\"session\":1}\n"
				      "{\"ev\":\"answer\",\"ok\":true}\n"
				      "{\"ev\":\"answer\",\"id\":8,\"ok\":false,\"error\":\"too \\\"many\\\"\","
				      "\"hint\":\"wait\",\"code\":\"LIMIT\"}\n");
	buf__clear(&out);
	/* a name cut within a character is no reason to say nothing */
	refusal__set(&refusal, "UNKNOWN_REQ", "", "\xc3");
	assert_int_equal(answer__refused(&out, false, 0, &refusal), 0);
	assert_true(out.len > 0);
	buf__free(&out);
}

#define GRANTED "{\"ev\":\"answer\",\"id\":7,\"ok\":true,\"session\":1}\n"
#define REFUSED                                                                                                                    \
	"{\"ev\":\"answer\",\"id\":8,\"ok\":false,\"error\":\"too many\",\"hint\":\"wait\",\"code\":\"LIMIT\",\"errno\":1}\n"
static int allocations;

static void *allocate(size_t size)
{
	return allocations-- ? malloc(size) : NULL;
}

/* A client waits for the answer with its id: one without it, or without its other keys, is worse than none. */
static void answers_are_whole(void **state)
{
	struct buf out = {};
	int n = 0, errors[2];

	refusal__set(&refusal, "LIMIT", "wait", "too many");
	refusal.number = 1;
	json_set_alloc_funcs(allocate, free);
	do {
		allocations = n++;
		errors[0] = answer__ok(&out, true, 7, json_pack("{s:i}", "session", 1));
		errors[1] = answer__refused(&out, true, 8, &refusal);
		assert_int_equal(buf__append(&out, "", 1), 0);
		assert_string_equal(out.data, errors[0] ? errors[1] ? "" : REFUSED : errors[1] ? GRANTED : GRANTED REFUSED);
		buf__clear(&out);
	} while (errors[0] || errors[1]);
	json_set_alloc_funcs(malloc, free);
	assert_true(n > 20);
	buf__free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attach), cmocka_unit_test(test_defaults), cmocka_unit_test(test_others),
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_bad_values), cmocka_unit_test(test_rules), cmocka_unit_test(test_not_requests), cmocka_unit_test(test_size),
		cmocka_unit_test(test_answers), cmocka_unit_test(answers_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Any bytes as requests: each line is taken or refused in words that are an
 * answer again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/answer.h"
#include "serve/match.h"
#include "serve/request.h"

static void patterns(const char *text)
{
	static const struct match_facts facts = {.comm = "python3", .arguments = "python3\0a.py", .n = 13, .cgroups = "0::/a/b\n", .uid_known = true};
	const char *why, *at;
	struct match *match;

	if (strlen(text ?: "") < 100 && !match__new(text, &match, &why, &at)) { /* fnmatch() takes long over many stars */
		match__lets_in(match, &facts);
		match__free(match);
	}
}

static void one(const char *line, size_t len)
{
	struct request request;
	struct refusal refusal;
	struct buf out = {};

	if (request__parse(line, len, &request, &refusal)) {
		if (!refusal.code || !refusal.error[0] ||
		    answer__refused(&out, request.has_id, request.id, &refusal))
			abort();
		if (out.len < 2 || out.data[out.len - 1] != '\n' || memchr(out.data, '\n', out.len - 1))
			abort();
	} else if (request.kind == REQUEST_ATTACH &&
		   ((request.host ? request.pid : request.pid < 1) || request.rate < 1 || request.rate > 20000)) {
		abort();
	}
	patterns(request.match);
	request__clear(&request);
	buf__free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	while (size) {
		const uint8_t *end = memchr(data, '\n', size);
		size_t len = end ? (size_t)(end - data) : size;
		char *line = malloc(len ? len : 1); /* of its own: reading beyond it is seen */

		memcpy(line, data, len);
		one(line, len);
		free(line);
		data += len + (end != NULL);
		size -= len + (end != NULL);
	}
	return 0;
}

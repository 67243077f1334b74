/* SPDX-License-Identifier: MIT */
/* The limits as JUnit's XML, which GitLab, Jenkins and others show beside tests: a test case for each limit.
 *
 *     <testsuite name="cprofd diff" tests="2" failures="1" errors="0">
 *     <testcase classname="cprofd diff" name="total &gt; 3 %"/>
 *     <testcase classname="cprofd diff" name="unit &gt; 5 %"><failure message="unit foo(int64): 12.400 % -> ...">...</failure></testcase>
 *
 * A limit that cannot be judged is an error, not a failure. */
#include <string.h>

#include "base/cleanup.h"
#include "base/stream.h"
#include "diff/gate.h"
#include "diff/internal.h"

static int put_xml(struct buf *out, const char *text, size_t len)
{
	int err = 0;

	for (size_t i = 0; i < len && !err; i++)
		err = text[i] == '<'   ? buf__puts(out, "&lt;")
		      : text[i] == '>' ? buf__puts(out, "&gt;")
		      : text[i] == '&' ? buf__puts(out, "&amp;")
		      : text[i] == '"' ? buf__puts(out, "&quot;")
				       : buf__append(out, text + i, 1);
	return err;
}

/* The element for what is wrong: its message is the first line of what `text` has. */
static int put_problem(struct buf *out, const char *element, const char *text)
{
	int err = buf__printf(out, ">\n<%s message=\"", element) ?: put_xml(out, text, strcspn(text, "\n"));

	err = err ?: buf__puts(out, "\">") ?: put_xml(out, text, strlen(text));
	return err ?: buf__printf(out, "</%s></testcase>\n", element);
}

static int put_case(struct buf *out, const struct diff *diff, const struct diff_limit *limit, double least, uint32_t *failures, uint32_t *errors)
{
	const struct diff_limits one = {{*limit}, 1, least};
	_cleanup_free_ char *text = NULL;
	struct diff_verdict verdict;
	size_t len;
	FILE *lines = open_memstream(&text, &len);
	int err = lines ? diff__judge(diff, &one, "", lines, &verdict) : -errno;

	if (lines && fclose(lines) && !err)
		err = -errno;
	err = err ?: buf__printf(out, "<testcase classname=\"cprofd diff\" name=\"%s &gt; %g %%\"", diff_limit__name(limit), 100 * limit->growth);
	if (err)
		return err;
	*failures += verdict.exceeded > 0;
	*errors += !verdict.exceeded && verdict.unknown;
	return verdict.exceeded	 ? put_problem(out, "failure", text)
	       : verdict.unknown ? put_problem(out, "error", "too few recordings to judge it: take several of each side")
				 : buf__puts(out, "/>\n");
}

int diff__junit(const struct diff *diff, const struct diff_limits *limits, FILE *out)
{
	_cleanup_(buf__free) struct buf cases = {}, text = {};
	uint32_t i, failures = 0, errors = 0;
	int err = 0;

	for (i = 0; i < limits->n && !err; i++)
		err = put_case(&cases, diff, &limits->items[i], limits->least, &failures, &errors);
	err = err ?: buf__printf(&text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"cprofd diff\" tests=\"%u\" failures=\"%u\" errors=\"%u\">\n",
				 limits->n, failures, errors);
	err = err ?: stream__write(out, text.data, text.len);
	if (!err && cases.len)
		err = stream__write(out, cases.data, cases.len);
	return err ?: stream__write(out, "</testsuite>\n", strlen("</testsuite>\n"));
}

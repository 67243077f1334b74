/* SPDX-License-Identifier: MIT */
#include "trigger/trigger.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"

#define POSSIBLE "unit>2s, unit=svd>2s, phase=native_lowering>500ms, pass=...>..., cpu>90%% for 10s"

static const char *const words[] = {"unit", "phase", "pass", "cpu"};
static char sentence[512];

/* Without blanks at both ends. False: it is longer than `size` - 1. */
static bool copy(const char *from, const char *to, char *ret, size_t size)
{
	while (from < to && isblank((unsigned char)*from))
		from++;
	while (to > from && isblank((unsigned char)to[-1]))
		to--;
	snprintf(ret, size, "%.*s", (int)(to - from), from);
	return (size_t)(to - from) < size;
}

/* "90%", "250%": of one CPU. */
static bool percent(const char *text, uint64_t *ret)
{
	static const struct amount_unit units[] = {{"%", 10000000}, {}};

	return amount__parse(text, units, ret);
}

/* "90%", "90% for 10s". */
static const char *parse_cpu(const char *text, struct condition *ret)
{
	const char *separator = strstr(text, " for "), *end = separator ?: text + strlen(text);
	char limit[32], span[32] = "1s";
	uint64_t ns;

	if (*ret->name) {
		snprintf(sentence, sizeof(sentence), "is no condition: cpu has no name, as '%s' would be", ret->name);
		return sentence;
	}
	if (!copy(text, end, limit, sizeof(limit)) || !percent(limit, &ret->limit)) {
		snprintf(sentence, sizeof(sentence), "is no condition: '%s' is no share of a CPU (as 90%%, or 250%%: two and a half CPUs)", limit);
		return sentence;
	}
	if ((separator && !copy(separator + 5, text + strlen(text), span, sizeof(span))) || !amount__ns(span, &ns) || ns < 1000000000 ||
	    ns > 3600000000000 || ns % 1000000000) {
		snprintf(sentence, sizeof(sentence), "is no condition: 'for %s' is no number of seconds (from 1s to 1h)", span);
		return sentence;
	}
	ret->seconds = (uint32_t)(ns / 1000000000);
	return NULL;
}

static const char *parse_limit(const char *text, struct condition *ret)
{
	char limit[32];

	if (copy(text, text + strlen(text), limit, sizeof(limit)) && amount__ns(limit, &ret->limit) && ret->limit)
		return NULL;
	snprintf(sentence, sizeof(sentence), "is no condition: '%s' is no time (as 500ms, 2s or 1m)", limit);
	return sentence;
}

const char *condition__parse(const char *text, struct condition *ret)
{
	/* The last one: names may have more. */
	const char *more = strrchr(text, '>'), *equals = more ? memchr(text, '=', (size_t)(more - text)) : NULL;
	char word[32];
	uint32_t kind;

	*ret = (struct condition){.text = text};
	if (!copy(text, equals ?: more ?: text + strlen(text), word, sizeof(word)) || !more) {
		snprintf(sentence, sizeof(sentence), "is no condition: there is no '>'; possible are " POSSIBLE);
		return sentence;
	}
	for (kind = 0; kind <= CONDITION_CPU && strcmp(words[kind], word); kind++)
		;
	if (kind > CONDITION_CPU) {
		snprintf(sentence, sizeof(sentence), "is no condition: '%s' is none of unit, phase, pass, cpu; possible are " POSSIBLE, word);
		return sentence;
	}
	ret->kind = kind;
	if (equals && (!copy(equals + 1, more, ret->name, sizeof(ret->name)) || !*ret->name)) {
		snprintf(sentence, sizeof(sentence), "is no condition: which %s? after '=' there is no name of at most %u letters", word, CONDITION_NAME_MAX - 1);
		return sentence;
	}
	return kind == CONDITION_CPU ? parse_cpu(more + 1, ret) : parse_limit(more + 1, ret);
}

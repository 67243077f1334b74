/* SPDX-License-Identifier: MIT */
/* `cprofd status --openmetrics`: the answers to `status` and `sessions` as OpenMetrics 1.0 text, one table row for each
 * metric. Prometheus' older text format is a subset of what is used here, so that the node exporter's textfile collector
 * reads it, too: hence a gauge for the version, and no type `info`. */
#include <inttypes.h>

#include "cli/openmetrics.h"

struct metric {
	const char *name;        /* without "cprofd_" and "_total" */
	const char *type, *unit; /* unit "": none; else the name ends in it */
	const char *key;         /* of `status`, or of a row of `sessions` */
	double factor;           /* of the key's value */
	const char *help;
};

static const struct metric of_engine[] = {
	{"clients", "gauge", "", "clients", 1, "Connections of this user."},
	{"sessions", "gauge", "", "sessions", 1, "Sessions that run."},
	{"memory_bytes", "gauge", "bytes", "pss_bytes", 1, "Memory of the engine (PSS)."},
	{"cpu_seconds", "counter", "seconds", "cpu_ns", 1e-9, "CPU time that the engine has used."},
	{"queued_bytes", "gauge", "bytes", "queued_bytes", 1, "Events that wait for clients."},
	{},
};

static const struct metric of_session[] = {
	{"session_rate_hertz", "gauge", "hertz", "rate", 1, "Samples asked for in a second of CPU time."},
	{"session_samples", "counter", "", "samples", 1, "Samples taken."},
	{"session_processes", "gauge", "", "processes", 1, "Processes in the tables."},
	{"session_threads", "gauge", "", "threads", 1, "Threads in the tables."},
	{"session_table_bytes", "gauge", "bytes", "table_bytes", 1, "Tables and code objects of the session."},
	{"session_held_bytes", "gauge", "bytes", "held_bytes", 1, "Records of the sampler that are held for their order."},
	{"session_clients", "gauge", "", "subscribers", 1, "Connections that stream the session."},
	{},
};

static void head(const char *name, const char *type, const char *unit, const char *help)
{
	printf("# TYPE cprofd_%s %s\n", name, type);
	if (*unit)
		printf("# UNIT cprofd_%s %s\n", name, unit);
	printf("# HELP cprofd_%s %s\n", name, help);
}

/* `labels`: "" or "{...}". */
static void sample(const struct metric *metric, const char *labels, const json_t *object)
{
	const json_t *value = json_object_get(object, metric->key);

	if (json_is_integer(value))
		printf("cprofd_%s%s%s %.17g\n", metric->name, *metric->type == 'c' ? "_total" : "", labels, (double)json_integer_value(value) * metric->factor);
}

/* Text of the daemon: what could end a label becomes '?'. */
static void print_version(const char *version)
{
	head("build_info", "gauge", "", "The daemon's version.");
	fputs("cprofd_build_info{version=\"", stdout);
	for (; *version; version++)
		putchar(*version < ' ' || *version > '~' || *version == '"' || *version == '\\' ? '?' : *version);
	fputs("\"} 1\n", stdout);
}

static void label(const json_t *session, char *ret, size_t size, const char *more)
{
	snprintf(ret, size, "{session=\"%" JSON_INTEGER_FORMAT "\",pid=\"%" JSON_INTEGER_FORMAT "\"%s}", json_integer_value(json_object_get(session, "session")),
		 json_integer_value(json_object_get(session, "pid")), more);
}

/* A name is a word of include/cprofd/loss.h: from another daemon, one that is none is left out. */
static void print_losses(const json_t *session)
{
	json_t *losses = json_object_get(session, "losses"), *count;
	char labels[256], cause[128];
	const char *name;

	json_object_foreach(losses, name, count) {
		if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")])
			continue;
		snprintf(cause, sizeof(cause), ",cause=\"%.100s\"", name);
		label(session, labels, sizeof(labels), cause);
		printf("cprofd_session_losses_total%s %" JSON_INTEGER_FORMAT "\n", labels, json_integer_value(count));
	}
}

void openmetrics__print(json_t *status, json_t *sessions)
{
	const char *version = json_string_value(json_object_get(status, "version"));
	char labels[128];
	json_t *session;
	size_t i;

	print_version(version ? version : "");
	for (const struct metric *metric = of_engine; metric->name; metric++) {
		head(metric->name, metric->type, metric->unit, metric->help);
		sample(metric, "", status);
	}
	for (const struct metric *metric = of_session; metric->name; metric++) {
		head(metric->name, metric->type, metric->unit, metric->help);
		json_array_foreach(sessions, i, session) {
			label(session, labels, sizeof(labels), "");
			sample(metric, labels, session);
		}
	}
	head("session_losses", "counter", "", "Samples or parts of them that were lost, by cause.");
	json_array_foreach(sessions, i, session) print_losses(session);
	fputs("# EOF\n", stdout);
}

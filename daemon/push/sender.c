/* SPDX-License-Identifier: MIT */
/* One POST at a time, of the oldest request, by libcurl's multi interface: the caller's loop waits for it, too. What an
 * answer means is that of OTLP (opentelemetry.io/docs/specs/otlp, "OTLP/HTTP response"), and Connect's:
 *
 *     2xx                      accepted: the next one
 *     429, 502, 503, 504       later, as Retry-After says, else after 1, 2, 4 ... 60 s
 *     no answer                the same
 *     any other                refused: the request is thrown away, and counted
 *
 * A refusal, or a certificate that is not trusted, before anything was accepted means that the address or the
 * credentials are wrong: it is hopeless to go on. */
#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "push/library.h"
#include "push/push.h"

#define CONNECT_MS 10000L
#define REQUEST_MS 30000L
#define RETRY_MAX_MS 60000u
#define RETRY_AFTER_MAX_S 3600
/* Of an answer; more is not read. */
#define ANSWER_MAX (64u << 10)
#define POLL_MAX 32u
#define NS_PER_MS 1000000ull

struct sender {
	struct spool spool;
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;
	struct push_target target;
	char *url;
	struct push_counts counts;
	bool sending;
	struct buf body, answer;
	struct spool_entry now;	 /* of the body */
	uint32_t failures;	 /* in a row */
	uint64_t next_try;	 /* ns */
	char error[CURL_ERROR_SIZE], trouble[512], refusal[512], remark[256];
	const char *hopeless;	 /* the hint */
};

/* Why no other attempt can succeed. */
static const struct {
	CURLcode code;
	const char *words, *hint;
} hopeless_errors[] = {
	{CURLE_PEER_FAILED_VERIFICATION, "its certificate is not trusted, or is not for this host",
	 "if it is the right server, give the certificate of its authority with --ca-file FILE"},
	{CURLE_SSL_CACERT_BADFILE, "the file of --ca-file cannot be read, or holds no certificate", "it has to be in PEM form"},
	{CURLE_URL_MALFORMAT, "that is no URL", "as in http://localhost:4318"},
};

static size_t take_answer(char *data, size_t size, size_t n, void *ctx)
{
	struct sender *sender = ctx;

	if (sender->answer.len + n > ANSWER_MAX)
		return 0; /* ends the transfer */
	return buf__append(&sender->answer, data, n) ? 0 : size * n;
}

static int add_header(struct sender *sender, const char *header)
{
	struct curl_slist *more = curl.curl_slist_append(sender->headers, header);

	sender->headers = more ?: sender->headers;
	return more ? 0 : -ENOMEM;
}

static int set_up(struct sender *sender)
{
	CURL *easy = sender->easy;
	const char *ca = sender->target.ca_file;
	int err = add_header(sender, sender->target.store->content_type);

	if (sender->target.store->packed)
		err = err ?: add_header(sender, "Content-Encoding: gzip");

	/* It would wait a second for servers that do not know 100-continue. */
	err = err ?: add_header(sender, "Expect:");
	for (const char *const *header = sender->target.headers; header && *header && !err; header++)
		err = add_header(sender, *header);
	curl.curl_easy_setopt(easy, CURLOPT_URL, sender->url);
	curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl.curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl.curl_easy_setopt(easy, CURLOPT_HTTPHEADER, sender->headers);
	curl.curl_easy_setopt(easy, CURLOPT_USERAGENT, "cprofd/" CPROFD_VERSION);
	curl.curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl.curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, REQUEST_MS);
	curl.curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, sender->error);
	curl.curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_answer);
	curl.curl_easy_setopt(easy, CURLOPT_WRITEDATA, sender);
	if (ca)
		curl.curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
	return err;
}

int sender__new(const struct push_target *target, struct sender **ret)
{
	struct sender *sender = calloc(1, sizeof(*sender));
	const char *tail = target->store->path;
	size_t len = strlen(target->url), path = strlen(tail);
	bool whole = len > path && !strcmp(target->url + len - path, tail);
	int err;

	if (!sender)
		return -ENOMEM;
	sender->target = *target;
	sender->multi = curl.curl_multi_init();
	sender->easy = curl.curl_easy_init();
	while (len && target->url[len - 1] == '/')
		len--;
	if (asprintf(&sender->url, "%.*s%s", (int)len, target->url, whole ? "" : tail) < 0)
		sender->url = NULL;
	err = sender->multi && sender->easy && sender->url ? set_up(sender) : -ENOMEM;
	err = err ?: spool__open(&sender->spool, target->spool_bytes);
	if (err)
		sender__free(sender);
	else
		*ret = sender;
	return err;
}

void sender__free(struct sender *sender)
{
	if (!sender)
		return;
	if (sender->sending)
		curl.curl_multi_remove_handle(sender->multi, sender->easy);
	curl.curl_easy_cleanup(sender->easy);
	curl.curl_multi_cleanup(sender->multi);
	curl.curl_slist_free_all(sender->headers);
	spool__close(&sender->spool);
	buf__free(&sender->body);
	buf__free(&sender->answer);
	free(sender->url);
	free(sender);
}

int sender__give(struct sender *sender, const struct buf *request, uint32_t samples)
{
	int err = spool__put(&sender->spool, request, samples, sender->sending, &sender->counts);

	if (err != -ENOSPC)
		return err;
	/* Not even the newest one alone: it is what is dropped. */
	sender->counts.dropped++;
	sender->counts.dropped_samples += samples;
	return 0;
}

static int start(struct sender *sender)
{
	int err = spool__first(&sender->spool, &sender->body, &sender->now);

	if (err)
		return err;
	buf__clear(&sender->answer);
	*sender->error = '\0';
	curl.curl_easy_setopt(sender->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)sender->body.len);
	curl.curl_easy_setopt(sender->easy, CURLOPT_POSTFIELDS, sender->body.data);
	sender->sending = !curl.curl_multi_add_handle(sender->multi, sender->easy);
	return sender->sending ? 0 : -ENOMEM;
}

static void try_later(struct sender *sender, uint64_t after_ms)
{
	uint64_t wait = sender->failures < 6 ? 1000ull << sender->failures : RETRY_MAX_MS;
	uint32_t any = 0;

	/* Senders of a fleet that lost their server together do not come back together. */
	if (getrandom(&any, sizeof(any), GRND_NONBLOCK) < 0)
		any = 0;
	wait = wait / 2 + any % (wait / 2 + 1);
	sender->failures++;
	sender->next_try = clock__now() + (after_ms ?: wait) * NS_PER_MS;
}

static void accept_request(struct sender *sender)
{
	struct push_answer answer;

	push_answer__read(sender->answer.data, sender->target.store->partial ? sender->answer.len : 0, &answer);
	sender->counts.requests++;
	sender->counts.samples += sender->now.samples;
	sender->counts.bytes += sender->now.len;
	sender->counts.rejected += answer.rejected;
	if (answer.len)
		snprintf(sender->remark, sizeof(sender->remark), "%.*s", (int)(answer.len < sizeof(sender->remark) ? answer.len : sizeof(sender->remark)), answer.words);
	sender->failures = 0;
	*sender->trouble = '\0';
	spool__remove(&sender->spool, 0);
}

/* A web server that has a page for every address. */
static bool is_page(const struct sender *sender)
{
	const char *type = NULL;

	curl.curl_easy_getinfo(sender->easy, CURLINFO_CONTENT_TYPE, &type);
	return type && !strncasecmp(type, "text/html", 9);
}

static void refuse(struct sender *sender, long status)
{
	const struct push_refusal *refusal = sender->target.store->refusals;

	sender->counts.refused++;
	sender->counts.refused_samples += sender->now.samples;
	sender->failures = 0;
	snprintf(sender->refusal, sizeof(sender->refusal), "%s answers %ld%s", sender->url, status,
		 status < 300 ? ", but with a web page" : status < 400 ? ", which points elsewhere" : "");
	memcpy(sender->trouble, sender->refusal, sizeof(sender->trouble));
	spool__remove(&sender->spool, 0);
	if (sender->counts.requests)
		return;
	while (refusal->status && refusal->status != status)
		refusal++;
	sender->hopeless = refusal->hint;
}

static void on_answer(struct sender *sender, long status, CURLcode code)
{
	curl_off_t after = 0;

	/* Also if the rest of the answer is missing: once more would be a duplicate. */
	if (status >= 200 && status < 300 && !is_page(sender)) {
		accept_request(sender);
		return;
	}
	sender->counts.failures++;
	for (size_t i = 0; i < sizeof(hopeless_errors) / sizeof(hopeless_errors[0]); i++)
		if (hopeless_errors[i].code == code) {
			sender->hopeless = hopeless_errors[i].hint;
			snprintf(sender->trouble, sizeof(sender->trouble), "%s: %s", sender->url, hopeless_errors[i].words);
			return;
		}
	/* Its status is an answer, whatever becomes of the rest: a page that is too long, a connection that was closed because the request was. */
	if (status >= 200 && status != 429 && (status < 502 || status > 504)) {
		refuse(sender, status);
		return;
	}
	curl.curl_easy_getinfo(sender->easy, CURLINFO_RETRY_AFTER, &after);
	after = after < 0 ? 0 : after > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : after;
	try_later(sender, (uint64_t)after * 1000);
	if (status)
		snprintf(sender->trouble, sizeof(sender->trouble), "%s answers %ld", sender->url, status);
	else
		snprintf(sender->trouble, sizeof(sender->trouble), "%s: %s", sender->url,
			 *sender->error ? sender->error : curl.curl_easy_strerror(code));
}

static void finish(struct sender *sender)
{
	CURLMsg *message;
	int left;

	while ((message = curl.curl_multi_info_read(sender->multi, &left))) {
		CURLcode code = message->data.result;
		long status = 0;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl.curl_easy_getinfo(sender->easy, CURLINFO_RESPONSE_CODE, &status);
		curl.curl_multi_remove_handle(sender->multi, sender->easy);
		sender->sending = false;
		on_answer(sender, status, code);
	}
}

int sender__poll(struct sender *sender, struct pollfd *fds, uint32_t n, int timeout_ms)
{
	struct curl_waitfd wait[POLL_MAX];
	uint64_t now = clock__now(), until;
	bool due = spool__n(&sender->spool) && !sender->hopeless && !sender->sending;
	int err = 0, running;
	uint32_t used = 0;

	if (due && now >= sender->next_try)
		err = start(sender);
	else if (due) {
		until = (sender->next_try - now) / NS_PER_MS + 1;
		timeout_ms = until < (uint64_t)timeout_ms ? (int)until : timeout_ms;
	}
	if (err)
		return err;
	curl.curl_multi_perform(sender->multi, &running);
	if (sender->sending && !running) { /* done already: there may be the next one */
		finish(sender);
		timeout_ms = 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		fds[i].revents = 0;
		if (fds[i].fd >= 0 && used < POLL_MAX)
			wait[used++] = (struct curl_waitfd){fds[i].fd, CURL_WAIT_POLLIN, 0};
	}
	if (curl.curl_multi_poll(sender->multi, wait, used, timeout_ms, NULL))
		return -ENOMEM;
	for (uint32_t i = 0, at = 0; i < n; i++)
		if (fds[i].fd >= 0 && at < used)
			fds[i].revents = wait[at++].revents;
	curl.curl_multi_perform(sender->multi, &running);
	finish(sender);
	return 0;
}

uint32_t sender__waiting(const struct sender *sender, uint64_t *ret_bytes)
{
	*ret_bytes = sender->spool.bytes;
	return spool__n(&sender->spool);
}

struct push_counts sender__counts(const struct sender *sender)
{
	return sender->counts;
}

const char *sender__trouble(const struct sender *sender, uint32_t *ret_attempts, uint64_t *ret_ms)
{
	uint64_t now = clock__now();

	*ret_attempts = sender->failures;
	*ret_ms = sender->failures && sender->next_try > now ? (sender->next_try - now) / NS_PER_MS : 0;
	return *sender->trouble ? sender->trouble : NULL;
}

const char *sender__refusal(const struct sender *sender)
{
	return sender->refusal;
}

const char *sender__remark(const struct sender *sender)
{
	return sender->remark;
}

const char *sender__hopeless(const struct sender *sender, const char **ret_hint)
{
	*ret_hint = sender->hopeless;
	return sender->hopeless ? sender->trouble : NULL;
}

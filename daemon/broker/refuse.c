/* SPDX-License-Identifier: MIT */
/* The answer to a client that gets no engine. There is no one else to write it, so this is the only text that the
 * broker sends to a client: the line `hello`, and
 *
 *    {"ev":"answer","ok":false,"error":"...","hint":"...","code":"LIMIT"} */
#include "broker/refuse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "broker/broker.h"

struct words {
	char error[256], hint[256];
	const char *code;
};

static void words_of(int err, const struct limit_reached *reached, struct words *ret)
{
	enum broker_error error = err == -EDQUOT || err == -EUSERS ? BROKER_ERROR_LIMIT :
				  err == -EMFILE || err == -ENFILE ? BROKER_ERROR_NO_DESCRIPTORS :
				  err == -EAGAIN		   ? BROKER_ERROR_NO_TASKS :
				  err == -EBUSY			   ? BROKER_ERROR_ENGINE_BUSY :
				  err == -ENOMEM		   ? BROKER_ERROR_NO_MEMORY :
								     BROKER_ERROR_INTERNAL;

	ret->code = broker_error__name(error);
	if (err == -EDQUOT) {
		limit__sentence(reached, ret->error, sizeof(ret->error));
		limit__hint(reached, ret->hint, sizeof(ret->hint));
		return;
	}
	snprintf(ret->error, sizeof(ret->error), "%s%s%s", broker_error__sentence(error), error == BROKER_ERROR_INTERNAL ? ": " : "",
		 error == BROKER_ERROR_INTERNAL ? strerror(-err) : "");
	snprintf(ret->hint, sizeof(ret->hint), "%s", broker_error__hint(error));
}

/* The texts are the broker's own and without control characters, so replacing '"' and '\' is enough to make them
 * valid JSON strings. */
static void keep_plain(char *text)
{
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			*text = '\'';
}

void refuse__client(int fd, const char *hello, int err, const struct limit_reached *reached)
{
	struct words words;
	char line[1024];

	words_of(err, reached, &words);
	keep_plain(words.error);
	keep_plain(words.hint);
	snprintf(line, sizeof(line), "{\"ev\":\"answer\",\"ok\":false,\"error\":\"%s\",\"hint\":\"%s\",\"code\":\"%s\"}\n", words.error, words.hint,
		 words.code);
	if (hello)
		send(fd, hello, strlen(hello), MSG_NOSIGNAL | MSG_DONTWAIT);
	send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* SPDX-License-Identifier: MIT */
/* The engine's process, from its exec on. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/blocking.h"
#include "broker/broker.h"
#include "broker/program.h"
#include "serve/serve.h"

static bool is_channel(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_SEQPACKET;
}

struct arguments {
	int n;
	char **words;
};

static void run(void *context)
{
	const struct arguments *arguments = context;
	int status = 127;

	if (arguments->n != 2 || !is_channel(BROKER_CHANNEL_FD))
		fputs(PROGRAM_ENGINE " is started by cprofd\n", stderr);
	else if (strcmp(arguments->words[1], CPROFD_VERSION))
		fprintf(stderr, PROGRAM_ENGINE " is of cprofd " CPROFD_VERSION ", not of %s: install both again\n", arguments->words[1]);
	else
		status = engine__main(BROKER_CHANNEL_FD);
	blocking__wait_for_later();
	fflush(NULL);
	/* A thread that a file system holds would keep them open: the channel, and the client's pipes. */
	close_range(0, ~0u, 0);
	_exit(status);
}

void engine__execute(int argc, char **argv)
{
	struct arguments arguments = {argc, argv};

	/* An exec makes it dumpable, where its user may read the program. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		_exit(126);
	prctl(PR_SET_NAME, PROGRAM_ENGINE, 0, 0, 0);
	blocking__loop(run, &arguments);
}

/* SPDX-License-Identifier: MIT */
/* main() of the engine's program (broker/program.h): checks how it was started, and runs engine__main() on a stack that
 * other threads can take over (base/blocking.h).
 *
 *    cprofd-engine VERSION        with descriptor 3: the channel to the broker */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/blocking.h"
#include "broker/broker.h"
#include "broker/program.h"
#include "serve/serve.h"

/* Started by hand, descriptor 3 is something else. */
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

/* Does not return: the process ends with the loop, whatever other threads do. The version is compared because broker
 * and engine exchange structs; an update that replaced only one of them would be read wrongly. */
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

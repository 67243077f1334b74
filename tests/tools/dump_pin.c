/* SPDX-License-Identifier: MIT */
/* dump_pin: whoever holds the iterator of a dump sees the image that was authorised, and no other: a child is told of
 * before it calls exec, and not after. Needs root. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/dumper.h"
#include "broker/slots.h"

static uint32_t count(struct dump_slots *slots)
{
	const struct dump_thread *rows;
	uint32_t n = 0;

	return dump_slots__pass(slots, &rows, &n) ? UINT32_MAX : n;
}

int main(void)
{
	struct dumper *dumper = NULL;
	struct dump_slots *slots = NULL;
	int fds[BROKER_MAP_FDS], go[2], err, good;
	uint32_t before = 0, after = 1, filled = 1;
	enum broker_error error;
	pid_t pid;
	char c;

	if (pipe(go))
		return 2;
	pid = fork();
	if (!pid) {
		if (read(go[0], &c, 1) == 1)
			execlp("sleep", "sleep", "30", NULL);
		_exit(1);
	}
	usleep(50000);
	err = dumper__load(pid, (int)syscall(SYS_pidfd_open, pid, 0), true, false, &dumper, &error);
	if (!err)
		err = dumper__pin(dumper);
	if (!err) {
		dumper__fds(dumper, fds);
		err = dump_slots__new(fds[0], fds[2], fds[3], &slots);
	}
	if (!err) {
		before = count(slots);
		if (write(go[1], "x", 1) != 1)
			err = 1;
		usleep(300000);
		dump_slots__want(slots, 0, (uint32_t)pid);
		after = count(slots);
		filled = dump_slots__done(slots, 0) != NULL;
	}
	good = !err && before == 1 && !after && !filled;
	if (err)
		printf("%s\n", strerror(-err));
	printf("%s: %u threads before exec, %u after, %u of their stacks\n", good ? "ok" : "FAILED", before, after, filled);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	dump_slots__free(slots);
	dumper__free(dumper);
	return !good;
}

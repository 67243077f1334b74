/* SPDX-License-Identifier: MIT */
/* The protocol: one datagram of lines `KEY=value` to a socket of the service manager (sd_notify(3)). */
#include "broker/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

static struct {
	struct sockaddr_un address;
	socklen_t address_len;
	int socket;         /* -1: no service manager asked */
	uint64_t period;    /* ns between watchdog messages; 0: none */
	uint64_t due;
} manager = {.socket = -1};

/* A path, or '@' and a name in the abstract namespace. */
static int set_address(const char *name)
{
	size_t len = strlen(name);

	if ((*name != '/' && *name != '@') || len < 2 || len >= sizeof(manager.address.sun_path))
		return -EINVAL;
	manager.address = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(manager.address.sun_path, name, len);
	if (*name == '@')
		manager.address.sun_path[0] = 0;
	manager.address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (*name == '/'));
	return 0;
}

/* Half of the watchdog's timeout; 0: none. */
static uint64_t period(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

	if (!usec || (pid && strtol(pid, NULL, 10) != getpid()))
		return 0;
	return strtoull(usec, NULL, 10) * 1000 / 2;
}

void notify__begin(void)
{
	const char *name = getenv("NOTIFY_SOCKET");
	int pair[2];

	/* One half of a socketpair can send to any address; the unit's sandbox forbids socket(). */
	if (name && !set_address(name) && !socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair)) {
		close(pair[1]);
		manager.socket = pair[0];
		manager.period = period();
		/* The first message goes out at the first turn of the loop. */
		manager.due = 0;
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

/* Never blocks, even if the manager does not read. */
static void send_state(const char *state)
{
	if (manager.socket >= 0)
		sendto(manager.socket, state, strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&manager.address,
		       manager.address_len);
}

void notify__ready(void)
{
	send_state("READY=1");
}

void notify__stopping(void)
{
	send_state("STOPPING=1");
}

uint64_t notify__alive(void)
{
	const uint64_t now = clock__now();

	if (!manager.period)
		return UINT64_MAX;
	if (now >= manager.due) {
		send_state("WATCHDOG=1");
		manager.due = now + manager.period;
	}
	return manager.due;
}

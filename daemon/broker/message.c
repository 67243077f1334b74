/* SPDX-License-Identifier: MIT */
/* Messages between broker and engine: SOCK_SEQPACKET keeps their bounds, so one recvmsg() is one message, whole or not
 * at all, with its descriptors (SCM_RIGHTS). Helpers and the closer use the same. */
#include "broker/broker.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const sentences[] = {
#define BROKER_SENTENCE(id, sentence, hint) [BROKER_ERROR_##id] = sentence,
	BROKER_ERRORS(BROKER_SENTENCE)
};

static const char *const hints[] = {
#define BROKER_HINT(id, sentence, hint) [BROKER_ERROR_##id] = hint,
	BROKER_ERRORS(BROKER_HINT)
};

const char *broker_error__sentence(enum broker_error error)
{
	return (unsigned)error < BROKER_ERROR_COUNT ? sentences[error] : "an unknown error";
}

const char *broker_error__name(enum broker_error error)
{
	static const char *const names[] = {
#define BROKER_NAME(id, sentence, hint) [BROKER_ERROR_##id] = #id,
		BROKER_ERRORS(BROKER_NAME)
	};

	return (unsigned)error < BROKER_ERROR_COUNT ? names[error] : "INTERNAL";
}

const char *broker_error__hint(enum broker_error error)
{
	return (unsigned)error < BROKER_ERROR_COUNT ? hints[error] : "";
}

/* The bit of `limit` that says: the limit of all users. */
#define LIMIT_OF_ALL 0x80000000u

void broker_message__set_limit(struct broker_message *message, const struct limit_reached *reached)
{
	message->error = BROKER_ERROR_LIMIT;
	message->limit = (1 + reached->limit) | (reached->all ? LIMIT_OF_ALL : 0);
	message->start = reached->most;
	message->end = reached->used;
}

bool broker_message__limit(const struct broker_message *message, struct limit_reached *ret)
{
	uint32_t limit = message->limit & ~LIMIT_OF_ALL;

	if (message->error != BROKER_ERROR_LIMIT || !limit || limit > LIMIT_COUNT)
		return false;
	*ret = (struct limit_reached){
		.limit = limit - 1, .all = message->limit & LIMIT_OF_ALL, .most = message->start, .used = message->end};
	return true;
}

/* Room for the control message, aligned as cmsg(3) wants. */
union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * BROKER_FDS_MAX)];
};

/* n descriptors in one control message. A datagram is sent whole or not at all. */
int broker__send(int channel, const struct broker_message *message, const int *fds, unsigned n)
{
	struct iovec iov = {.iov_base = (void *)message, .iov_len = sizeof(*message)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	union control control = {};
	struct cmsghdr *c;
	ssize_t sent;

	if (n > BROKER_FDS_MAX)
		return -EINVAL;
	if (n) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
	}
	/* send() without descriptors: the engine's sandbox forbids sendmsg(). */
	do {
		sent = n ? sendmsg(channel, &msg, MSG_NOSIGNAL) : send(channel, message, sizeof(*message), MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return sent == sizeof(*message) ? 0 : -EMSGSIZE;
}

/* Collects the descriptors of all control messages; the buffer has no room for more than BROKER_FDS_MAX. */
static unsigned take_fds(struct msghdr *msg, int fds[BROKER_FDS_MAX])
{
	unsigned n = 0, i, count;
	int fd;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (n < BROKER_FDS_MAX)
				fds[n++] = fd;
			else
				close(fd);
		}
	}
	return n;
}

int broker__receive(int channel, struct broker_message *ret, int fds[BROKER_FDS_MAX], unsigned *ret_n)
{
	struct iovec iov = {.iov_base = ret, .iov_len = sizeof(*ret)};
	union control control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t got;
	unsigned n;

	*ret_n = 0;
	do {
		got = recvmsg(channel, &msg, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	n = take_fds(&msg, fds);
	/* Neither a shorter nor a longer datagram is accepted, nor one with too many descriptors. */
	if (got == sizeof(*ret) && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		*ret_n = n;
		return 0;
	}
	while (n)
		close(fds[--n]);
	/* 0 bytes: the peer closed the socket. An empty datagram looks the same, and is not a valid message either. */
	return got == 0 && !(msg.msg_flags & MSG_TRUNC) ? -EPIPE : -EBADMSG;
}

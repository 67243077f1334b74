/* SPDX-License-Identifier: MIT */
/* Messages between broker and engine: complete ones, and what a hostile peer may send instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/broker.h"

static unsigned open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void make_pair(int pair[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
}

static void close_pair(int pair[2])
{
	close(pair[0]);
	close(pair[1]);
}

static void round_trip(void **state)
{
	struct broker_message sent = {.kind = BROKER_ATTACH, .token = 5, .pid = 77, .rate = 999}, got;
	int fds[BROKER_FDS_MAX], out[BROKER_FDS_MAX], pair[2];
	unsigned n, i, before = open_fds();
	struct stat a, b;

	make_pair(pair);
	for (n = 0; n <= BROKER_FDS_MAX; n++) {
		unsigned got_n;

		for (i = 0; i < n; i++)
			out[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_int_equal(broker__send(pair[0], &sent, out, n), 0);
		assert_int_equal(broker__receive(pair[1], &got, fds, &got_n), 0);
		assert_memory_equal(&sent, &got, sizeof(got));
		assert_int_equal(got_n, n);
		for (i = 0; i < n; i++) {
			assert_int_equal(fstat(out[i], &a), 0);
			assert_int_equal(fstat(fds[i], &b), 0);
			assert_int_equal(a.st_ino, b.st_ino);
			assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
			close(fds[i]);
			close(out[i]);
		}
	}
	assert_int_equal(broker__send(pair[0], &sent, out, BROKER_FDS_MAX + 1), -EINVAL);
	close_pair(pair);
	assert_int_equal(open_fds(), before);
}

static void nothing_there(void **state)
{
	struct broker_message got, message = {};
	int fds[BROKER_FDS_MAX], pair[2];
	unsigned n;

	make_pair(pair);
	assert_int_equal(broker__receive(pair[1], &got, fds, &n), -EAGAIN);
	close(pair[0]);
	assert_int_equal(broker__receive(pair[1], &got, fds, &n), -EPIPE);
	assert_int_equal(broker__send(pair[1], &message, NULL, 0), -EPIPE);
	close(pair[1]);
}

/* Sends `size` bytes with `n` fds as they are. */
static void send_raw(int fd, const void *data, size_t size, unsigned n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 64)];
	} control = {};
	struct iovec iov = {.iov_base = (void *)data, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;
	unsigned i;

	if (n) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		for (i = 0; i < n; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
	}
	assert_int_equal(sendmsg(fd, &msg, 0), size);
}

static void bad_sizes(void **state)
{
	static const size_t sizes[] = {1, 4, sizeof(struct broker_message) - 1,
				       sizeof(struct broker_message) + 1, 4096};
	char data[4096] = {};
	struct broker_message got;
	int fds[BROKER_FDS_MAX], pair[2];
	unsigned n, before, i;

	make_pair(pair);
	before = open_fds();
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		send_raw(pair[0], data, sizes[i], i % 2 ? 3 : 0);
		assert_int_equal(broker__receive(pair[1], &got, fds, &n), -EBADMSG);
		assert_int_equal(n, 0);
	}
	/* The channel goes on: who ends the peer is the caller. */
	send_raw(pair[0], data, sizeof(got), 0);
	assert_int_equal(broker__receive(pair[1], &got, fds, &n), 0);
	assert_int_equal(open_fds(), before);
	close_pair(pair);
}

static void too_many_fds(void **state)
{
	struct broker_message got, message = {};
	int fds[BROKER_FDS_MAX], pair[2];
	unsigned n, before;

	make_pair(pair);
	before = open_fds();
	send_raw(pair[0], &message, sizeof(message), BROKER_FDS_MAX + 1);
	assert_int_equal(broker__receive(pair[1], &got, fds, &n), -EBADMSG);
	send_raw(pair[0], &message, sizeof(message), 64);
	assert_int_equal(broker__receive(pair[1], &got, fds, &n), -EBADMSG);
	assert_int_equal(open_fds(), before);
	close_pair(pair);
}

static void sentences(void **state)
{
	int error;

	for (error = -1; error <= BROKER_ERROR_COUNT; error++) {
		assert_non_null(broker_error__sentence(error));
		assert_non_null(broker_error__hint(error));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),   cmocka_unit_test(nothing_there),
		cmocka_unit_test(bad_sizes),    cmocka_unit_test(too_many_fds),
		cmocka_unit_test(sentences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* What a thread waits for, by its system call and its stack; recognising the GIL's state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "python/gil.h"
#include "wait/wait.h"

#define NATIVE(name) {name, "", false}
#define PYTHON(name) {name, "/x.py", true}
#define RUNTIME 0x7000000ull

struct scene {
	struct part_wait wait;
	struct wait_frame frames[6]; /* innermost first */
	enum wait_cause cause;
};

static const struct scene scenes[] = {
	{{.syscall = -1, .state = 0}, {PYTHON("f")}, WAIT_READY},
	{{.syscall = SYS_read, .state = 0}, {PYTHON("f")}, WAIT_READY},
	{{.syscall = SYS_clock_nanosleep, .state = 0x2001}, {NATIVE("clock_nanosleep"), PYTHON("f")}, WAIT_SLEEP},
	{{.syscall = SYS_read, .state = 4}, {PYTHON("f")}, WAIT_STOPPED},
	{{.syscall = SYS_read, .state = 1, .fd_mode = S_IFIFO | 0600}, {PYTHON("f")}, WAIT_PIPE},
	{{.syscall = SYS_read, .state = 1, .fd_mode = S_IFSOCK | 0600}, {PYTHON("f")}, WAIT_SOCKET},
	{{.syscall = SYS_read, .state = 2, .fd_mode = S_IFREG | 0600}, {PYTHON("f")}, WAIT_FILE},
	{{.syscall = SYS_read, .state = 1, .fd_mode = 0600}, {PYTHON("f")}, WAIT_OTHER},
	{{.syscall = SYS_recvfrom, .state = 1}, {PYTHON("f")}, WAIT_SOCKET},
	{{.syscall = SYS_wait4, .state = 1}, {PYTHON("f")}, WAIT_CHILD},
	/* time.sleep() of 3.8 to 3.10 */
	{{.syscall = SYS_select, .state = 1, .args = {0}}, {PYTHON("f")}, WAIT_SLEEP},
	{{.syscall = SYS_select, .state = 1, .args = {5}}, {PYTHON("f")}, WAIT_POLL},
	{{.syscall = SYS_poll, .state = 1, .args = {0x1000, 2}}, {PYTHON("f")}, WAIT_POLL},
	{{.syscall = SYS_poll, .state = 1, .args = {0, 0}}, {PYTHON("f")}, WAIT_SLEEP},
	{{.syscall = -1, .state = 2}, {NATIVE("memcpy"), PYTHON("f")}, WAIT_MEMORY},
	{{.syscall = 9999, .state = 1}, {PYTHON("f")}, WAIT_OTHER},
	/* By the address, without a symbol; by the symbol, elsewhere (musl waits on the stack). */
	{{.syscall = SYS_futex, .state = 1, .args = {RUNTIME + 400}}, {NATIVE("python3.11+0x1"), PYTHON("f")}, WAIT_GIL},
	{{.syscall = SYS_futex, .state = 1, .args = {RUNTIME - 8}}, {NATIVE("take_gil"), PYTHON("f")}, WAIT_GIL},
	{{.syscall = SYS_futex, .state = 1, .flags = WAIT_FOR_GIL}, {PYTHON("f")}, WAIT_GIL},
	{{.syscall = SYS_futex, .state = 1}, {NATIVE("__futex_abstimed_wait_common"), NATIVE("PyThread_acquire_lock_timed"), PYTHON("f")}, WAIT_LOCK},
	{{.syscall = SYS_futex, .state = 1}, {NATIVE("libc.so.6+0x1"), NATIVE("_thread.lock.acquire"), PYTHON("f")}, WAIT_LOCK},
	{{.syscall = SYS_futex, .state = 1}, {NATIVE("__lll_lock_wait"), NATIVE("pthread_mutex_lock"), NATIVE("g"), PYTHON("f")}, WAIT_LOCK},
	{{.syscall = SYS_futex, .state = 1}, {NATIVE("pthread_cond_wait"), NATIVE("g"), PYTHON("f")}, WAIT_FUTEX},
	/* What is further out than the innermost Python frame says nothing. */
	{{.syscall = SYS_futex, .state = 1}, {PYTHON("f"), NATIVE("take_gil"), PYTHON("g")}, WAIT_FUTEX},
	{{.syscall = SYS_futex, .state = 1},
	 {NATIVE("_thread.RLock.acquire"), {"_CompilerLock.acquire", "/usr/lib/python3/dist-packages/numba/core/compiler_lock.py", true}},
	 WAIT_COMPILER_LOCK},
	{{.key = WAIT_KEY_BEFORE, .syscall = -1, .state = 1}, {}, WAIT_BEFORE},
	{{.key = WAIT_KEY_BEFORE, .flags = WAIT_SEEN, .syscall = SYS_pause, .state = 1}, {}, WAIT_SIGNAL},
};

static void test_causes(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		struct wait_input in = {.wait = &scenes[i].wait, .frames = scenes[i].frames, .runtime = RUNTIME,
					.runtime_end = RUNTIME + 4096};

		while (in.n < 6 && scenes[i].frames[in.n].name)
			in.n++;
		if (wait__cause(&in) != scenes[i].cause) {
			printf("scene %zu: %s\n", i, wait__name(wait__cause(&in)));
			fail();
		}
	}
}

static void test_words(void **state)
{
	assert_string_equal(wait__name(WAIT_GIL), "GIL");
	assert_string_equal(wait__frame(WAIT_GIL), "(waiting: GIL)");
	assert_string_equal(wait__frame(WAIT_READY), "(ready)");
	assert_string_equal(wait__name(WAIT_CAUSE_COUNT), "");
}

static void put(uint8_t *bytes, size_t at, uint64_t interval, uint64_t holder, uint32_t locked)
{
	const struct gil_state gil = {.interval = interval, .last_holder = holder, .locked = locked};

	memcpy(bytes + at, &gil, sizeof(gil));
}

static void test_gil(void **state)
{
	const uint64_t threads[] = {0x1000, 0x2000};
	uint8_t bytes[1024] = {};

	assert_int_equal(gil__find(bytes, sizeof(bytes), threads, 2), SIZE_MAX);
	put(bytes, 200, 5000, 0x2000, 1);
	assert_int_equal(gil__find(bytes, sizeof(bytes), threads, 2), 200);
	/* A thread state that is none, a lock that is none, no interval. */
	put(bytes, 400, 5000, 0x3000, 1);
	put(bytes, 600, 5000, 0x2000, 2);
	put(bytes, 800, 0, 0x1000, 0);
	assert_int_equal(gil__find(bytes, sizeof(bytes), threads, 2), 200);
	/* Another interval may be it, the usual one is believed; two of the usual are none. */
	put(bytes, 400, 4, 0x1000, 0);
	assert_int_equal(gil__find(bytes, sizeof(bytes), threads, 2), 200);
	put(bytes, 600, 5000, 0x1000, 0);
	assert_int_equal(gil__find(bytes, sizeof(bytes), threads, 2), SIZE_MAX);
	/* At the very end, and cut. */
	memset(bytes, 0, sizeof(bytes));
	put(bytes, sizeof(bytes) - sizeof(struct gil_state), 100, 0x1000, 0);
	assert_int_equal(gil__find(bytes, sizeof(bytes), threads, 2), sizeof(bytes) - sizeof(struct gil_state));
	assert_int_equal(gil__find(bytes, sizeof(bytes) - 8, threads, 2), SIZE_MAX);
	assert_int_equal(gil__find(bytes, 16, threads, 2), SIZE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_gil),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Opens, enables and closes one perf event for each thread, with the descriptor's charge. The loop that reads the
 * list of threads again until it shows no new one is what perf.h calls the race in the beginning. */
#include "broker/perf.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "broker/coroutine.h"
#include "broker/process.h"
#include "cprofd/record.h"

/* In the first rounds all events are reopened when a new thread appears; later only the new thread's. See perf.h. */
#define ROUNDS_CLEAN 4
#define ROUNDS_MAX 64
/* How long perf_event_open() may block; normally it takes 0.1 ms. */
#define ALARM_US 20000
/* Pauses between attempts: 25 ms, then four times as long each, together two seconds. */
#define PAUSE_MS 25u
#define PAUSE_MS_MAX 1600u

/* Does nothing: the signal only interrupts perf_event_open(), which waits for an exec in progress. */
static void on_alarm(int signal)
{
}

/* Without this, the first alarm would end the broker. */
static void take_alarms(void)
{
	const struct sigaction action = {.sa_handler = on_alarm};

	sigaction(SIGALRM, &action, NULL);
}

/* A repeating timer: the first signal may arrive before the system call begins. */
static void set_alarm(suseconds_t us)
{
	const struct itimerval timer = {.it_interval.tv_usec = us, .it_value.tv_usec = us};

	setitimer(ITIMER_REAL, &timer, NULL);
}

/* -EINTR: it would have blocked. perf_event_open() takes exec_update_lock, which an exec holds; that exec may wait for
 * a file system. ALARM_US ends that wait. */
static int open_in_time(struct perf_event_attr *attr, pid_t tid)
{
	int fd, err;

	set_alarm(ALARM_US);
	fd = (int)syscall(SYS_perf_event_open, attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	err = -errno;
	set_alarm(0);
	return fd < 0 ? err : fd;
}

/* Bounds of the random period, in 1/1000 of the requested one. Ticks that are not taken as samples still cost the
 * target an interrupt. So at high rates the periods are closer to the requested one: then even a short time has
 * enough of them to get out of step with the target. */
#define FAST 4000u /* Hz */
#define SHORTEST(rate) ((rate) < FAST ? 800u : 920u)
#define LONGEST(rate) ((rate) < FAST ? 950u : 980u)

uint64_t perf__draw(uint64_t least, uint64_t most)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = hash__mix(clock__now(), UINT64_MAX / 3);
	return least + random % (most - least + 1);
}

/* An even number: the lowest bit is CLOCK_OF_CPU. */
static uint64_t draw_period(uint32_t rate)
{
	uint64_t asked = 1000000000u / rate;

	return perf__draw(asked * SHORTEST(rate) / 1000, asked * LONGEST(rate) / 1000) & ~CLOCK_OF_CPU;
}

static int open_event(pid_t tid, const struct perf_options *options)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = draw_period(options->rate),
		.disabled = 1,
		.inherit = 1,
		/* With follow_children, a forked child is a separate target: whether it may be sampled is decided
		 * again. */
		.inherit_thread = !options->follow_children,
	};
	int fd, err;

	if (options->switches) {
		attr.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
		attr.sample_period = CLOCK_OF_SWITCH;
		attr.inherit = attr.inherit_thread = 0;
	}
	fd = open_in_time(&attr, tid);

	/* Serve others until that exec is over. */
	for (unsigned pause = PAUSE_MS; fd == -EINTR && pause <= PAUSE_MS_MAX; pause *= 4) {
		err = coroutine__wait(-1, 0, clock__now() + pause * 1000000ull);
		fd = err == -ECANCELED ? err : open_in_time(&attr, tid);
	}
	if (fd < 0)
		return fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, options->program)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

/* Of two struct perf_thread, or two tids: both begin with a tid. */
static int by_tid(const void *a, const void *b)
{
	const pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return x < y ? -1 : x > y;
}

/* Events from `from` to `known` are sorted. */
static bool has(const struct perf_events *events, size_t from, size_t known, pid_t tid)
{
	return known > from && bsearch(&tid, events->threads + from, known - from, sizeof(*events->threads), by_tid);
}

static int add(struct perf_events *events, pid_t tid, int fd)
{
	return ARRAY_ADD(events->threads, events->n, events->capacity, (struct perf_thread){.tid = tid, .fd = fd});
}

/* Charges a descriptor to the user's limit. */
static int pay(struct perf_events *events)
{
	return events->charge ? charge__take(events->charge, LIMIT_DESCRIPTORS, 1) : 0;
}

static void close_event(struct perf_events *events, int fd)
{
	close(fd);
	if (events->charge)
		charge__give(events->charge, LIMIT_DESCRIPTORS, 1);
}

static void close_from(struct perf_events *events, size_t from)
{
	while (events->n > from)
		if (events->threads[--events->n].fd >= 0)
			close_event(events, events->threads[events->n].fd);
}

static size_t count_from(const struct perf_events *events, size_t from)
{
	size_t i, n = 0;

	for (i = from; i < events->n; i++)
		n += events->threads[i].fd >= 0;
	return n;
}

size_t perf_events__count(const struct perf_events *events)
{
	return count_from(events, 0);
}

/* Opens the event of one thread. `task` is /proc/PID/task: if the tid was reused by another process's thread
 * meanwhile, it is not in there, and the event is closed. */
static int open_thread(struct perf_events *events, int task, pid_t tid,
		       const struct perf_options *options)
{
	char name[16];
	int fd, err;

	fd = open_event(tid, options);
	if (fd == -ESRCH) /* it ended; remembered anyway: a leader stays in the list until all threads end */
		return add(events, tid, -1);
	if (fd < 0)
		return fd;
	err = pay(events);
	if (err) {
		close(fd);
		return err;
	}
	snprintf(name, sizeof(name), "%d", tid);
	if (faccessat(task, name, F_OK, 0)) {
		close_event(events, fd);
		return 0;
	}
	err = add(events, tid, fd);
	if (err)
		close_event(events, fd);
	return err;
}

/* See perf.h for the race. `from`: the session may have events of other processes already, which stay. */
static int open_all(struct perf_events *events, pid_t pid, const struct perf_options *options)
{
	_cleanup_close_ int task = -1;
	size_t from = events->n, known, n, i;
	char path[64];
	int err = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	task = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (task < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	for (unsigned round = 0; round < ROUNDS_MAX; round++) {
		_cleanup_free_ pid_t *tids = NULL;

		err = process__threads(pid, &tids, &n);
		if (err)
			break;
		known = events->n;
		if (known > from)
			qsort(events->threads + from, known - from, sizeof(*events->threads), by_tid);
		qsort(tids, n, sizeof(*tids), by_tid);
		for (i = 0; i < n && has(events, from, known, tids[i]); i++)
			;
		if (i == n)
			break;
		if (round && round < ROUNDS_CLEAN)
			close_from(events, known = from);
		for (i = 0; i < n && !err; i++) {
			/* The list may have a tid twice, if threads ended while it was read. */
			if (!has(events, from, known, tids[i]) && (!i || tids[i] != tids[i - 1]))
				err = open_thread(events, task, tids[i], options);
			err = err ? err : coroutine__share();
		}
		if (err)
			break;
	}
	if (!err && !count_from(events, from))
		err = -ESRCH;
	if (err)
		close_from(events, from);
	return err;
}

int perf_events__open(struct perf_events *events, pid_t pid, const struct perf_options *options)
{
	int err;

	take_alarms();
	err = open_all(events, pid, options);
	return err == -EINTR ? -ETIMEDOUT : err;
}

int perf_events__add(struct perf_events *events, pid_t pid, pid_t tid, const struct perf_options *options)
{
	_cleanup_close_ int task = -1;
	char path[64];
	int err;

	take_alarms();
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	task = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (task < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	err = open_thread(events, task, tid, options);
	if (!err && !events->n)
		return -ESRCH; /* it is a thread of another process */
	return err ? err : perf_events__enable(events);
}

/* With follow_children the others stay: a child that was forked before may have inherited from any of them, and closing an
 * event closes all that inherited it. (poll() does not say which are of use: without a buffer each event hangs up.) */
int perf_events__renew(struct perf_events *events, pid_t pid, const struct perf_options *options)
{
	if (!options->follow_children)
		close_from(events, 0);
	return perf_events__open(events, pid, options) ?: perf_events__enable(events);
}

int perf_events__enable(struct perf_events *events)
{
	for (size_t i = 0; i < events->n; i++)
		if (events->threads[i].fd >= 0 &&
		    ioctl(events->threads[i].fd, PERF_EVENT_IOC_ENABLE, 0))
			return -errno;
	return 0;
}

void perf_events__close(struct perf_events *events)
{
	close_from(events, 0);
	free(events->threads);
	*events = (struct perf_events){.charge = events->charge};
}

void perf__raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

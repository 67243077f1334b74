/* SPDX-License-Identifier: MIT */
/* How a loop survives a call that never returns: its stack does not belong to a thread (fiber.h). A carrier thread
 * runs it, and makes its calls. When the watcher finds a call late, it gives the loop's stack to another carrier,
 * where the call has returned -ETIMEDOUT:
 *
 *    loop on carrier A    pread() ... hangs
 *    watcher                          late: hand over
 *    loop on carrier B                pread() = -ETIMEDOUT, and on
 *
 * A stays in the kernel; if it comes back some day it is a spare. So nothing in the loop may keep the address of a
 * variable of its thread (errno) over such a call, and a call's bytes go through memory of the carrier (struct
 * call, buffer), which a late kernel may still write to. */
#include "base/blocking.h"

#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fiber.h"
#include "base/thread.h"
#include "cprofd/host.h"

#define STACK_BYTES (8u << 20)
#define BUFFER_BYTES 65536u
/* Calls that each end, but fewer than this in one period of the watcher, are as bad as a single late one. */
#define CALLS_MIN 16u
#define LATE_MAX 96u
#define OWNERS_MAX 64u
#define OWNER_LATE_MAX 3u
/* After a late call its descriptor is not used for so many times as long as the call took, at most REST_MAX_NS. */
#define REST_TIMES 8u
#define REST_MAX_NS 60000000000ull
#define FD_CLOSES (-1)
#define FD_CLOSED (-2)
#define LATER_WAIT_NS 2000000000ull

/* The call; a copy in the carrier, so that a late call touches no memory of the loop. */
struct call {
	enum { CALL_PREAD, CALL_READ, CALL_WRITE, CALL_FSTAT, CALL_IOCTL, CALL_CLOSE } kind;
	int fd;
	uint32_t owner;
	size_t size;
	uint64_t offset; /* or the ioctl's request */
	ssize_t result;
};

/* A thread that can run the main loop. */
struct carrier {
	struct carrier *next; /* among idle ones */
	struct fiber own;
	struct fiber_stack stack;
	sem_t wake;
	struct call call;
	char buffer[BUFFER_BYTES];
};

/* A call that is late, or was and rests. */
struct late {
	uint64_t ticket; /* 0: the call returned */
	uint64_t since, until; /* after it returned: not used until then */
	uint32_t owner;
	int fd;
};

struct owner {
	uint32_t id; /* 0: free */
	uint64_t missed;
};

static struct {
	/* used by the loop only */
	struct fiber fiber;
	struct fiber_stack stack;
	void (*main)(void *);
	void *argument;
	sigset_t signals;
	uint32_t owner;
	struct owner owners[OWNERS_MAX];
	struct host_reader *reader; /* the loop's thread-local readers, saved during a call */
	const struct host_pool *pools;
	uint32_t n_pools;
	bool timed_out;
	bool watches;

	struct carrier *carrier; /* the thread that runs the loop now */
	_Atomic uint64_t begun;	 /* calls so far */
	/* Number of the current call; 0: none. Whoever sets it to 0 (by compare and swap) owns the loop: the carrier
	 * when its call returned, or the watcher when the call is late. */
	_Atomic uint64_t ticket;
	_Atomic bool watched;
	sem_t wanted;

	pthread_mutex_t lock;
	pthread_cond_t nothing_later;
	struct carrier *idle;
	struct late late[LATE_MAX];
	_Atomic uint32_t n_late; /* rows in use */
	unsigned n_later;
} run = {.lock = PTHREAD_MUTEX_INITIALIZER, .nothing_later = PTHREAD_COND_INITIALIZER};

/* Not inlined, so that the thread-local variable is read anew each time: after a call the same stack may run in another
 * thread, and a compiler keeps addresses of thread-local variables across calls. */
static _Thread_local bool carries;

static __attribute__((noinline)) bool is_loop(void)
{
	__asm__ volatile("" ::: "memory");
	return carries;
}

static __attribute__((noinline)) void set_loop(bool is)
{
	carries = is;
	__asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void keep_readers(void)
{
	run.reader = host_reader_current;
	run.pools = host_pools_current;
	run.n_pools = host_pools_n;
}

static __attribute__((noinline)) void bring_readers(void)
{
	host_reader_current = run.reader;
	host_pools_current = run.pools;
	host_pools_n = run.n_pools;
}

/* --- threads --- */

static ssize_t make(struct call *call, char *buffer)
{
	switch (call->kind) {
	case CALL_PREAD:
		return pread(call->fd, buffer, call->size, (off_t)call->offset);
	case CALL_READ:
		return read(call->fd, buffer, call->size);
	case CALL_WRITE:
		return write(call->fd, buffer, call->size);
	case CALL_FSTAT:
		return fstat(call->fd, (struct stat *)buffer);
	case CALL_IOCTL:
		return ioctl(call->fd, call->offset, buffer);
	case CALL_CLOSE:
		return close(call->fd);
	}
	return -1;
}

static void watch_it(void)
{
	if (!run.watched && !atomic_exchange(&run.watched, true))
		sem_post(&run.wanted);
}

/* A late call returned. Its descriptor may be used again after a pause. */
static void returned(uint64_t ticket)
{
	uint64_t now = clock__now(), rest;

	pthread_mutex_lock(&run.lock);
	for (uint32_t i = 0; i < LATE_MAX; i++) {
		if (run.late[i].ticket != ticket)
			continue;
		rest = (now - run.late[i].since) * REST_TIMES;
		run.late[i].until = now + (rest < REST_MAX_NS ? rest : REST_MAX_NS);
		run.late[i].ticket = 0;
	}
	pthread_mutex_unlock(&run.lock);
}

/* A thread that was late becomes a spare; it does not end, because functions on the loop's stack may have kept the
 * address of its errno. */
static void rest(struct carrier *self)
{
	pthread_mutex_lock(&run.lock);
	self->next = run.idle;
	run.idle = self;
	pthread_mutex_unlock(&run.lock);
	while (sem_wait(&self->wake))
		;
}

/* Runs the loop in this thread: switches to the loop's stack, which comes back with a call to make. If the watcher took
 * the loop away during the call, this thread becomes a spare; later it starts again from the top. */
static void carry(struct carrier *self)
{
	struct fiber_stack ignored;
	uint64_t ticket, mine;

	for (;;) {
		run.carrier = self;
		set_loop(true);
		fiber__leave_for(&run.stack, &self->stack);
		fiber__switch(&self->own, &run.fiber);
		fiber__arrive(&self->stack, &ignored);
		set_loop(false);
		mine = ticket = run.begun;
		run.ticket = ticket; /* from here on the watcher may give the loop to another thread */
		watch_it();
		self->call.result = make(&self->call, self->buffer);
		if (self->call.result < 0)
			self->call.result = -errno;
		if (atomic_compare_exchange_strong(&run.ticket, &mine, 0))
			continue;
		errno = ETIMEDOUT;
		returned(ticket);
		rest(self);
	}
}

/* --- the watcher --- */

/* A free row, or the one whose rest ends first; there are more rows than calls under way. Needs the lock. */
static struct late *late_row(void)
{
	struct late *best = NULL;

	for (uint32_t i = 0; i < LATE_MAX; i++) {
		struct late *row = &run.late[i];

		if (!row->ticket && (!best || row->until < best->until))
			best = row;
	}
	return best;
}

/* Takes the loop from the carrier that is late with call `ticket`. False: the call has just returned. */
static bool take(uint64_t ticket)
{
	const struct call *call = &run.carrier->call;
	uint64_t mine = ticket;
	struct late *row;

	pthread_mutex_lock(&run.lock);
	row = late_row();
	if (!row || !atomic_compare_exchange_strong(&run.ticket, &mine, 0)) {
		pthread_mutex_unlock(&run.lock);
		return false;
	}
	run.n_late += !row->until;
	*row = (struct late){.ticket = ticket,
			     .since = clock__now() - BLOCKING_LOOK_MS * 1000000,
			     .owner = call->owner,
			     .fd = call->kind == CALL_CLOSE ? FD_CLOSES : call->fd};
	pthread_mutex_unlock(&run.lock);
	run.timed_out = true;
	return true;
}

static struct carrier *new_carrier(void)
{
	struct carrier *carrier = calloc(1, sizeof(*carrier));

	if (carrier)
		sem_init(&carrier->wake, 0, 0);
	return carrier;
}

static void *begin_carrying(void *context)
{
	struct carrier *self = context;

	pthread_sigmask(SIG_SETMASK, &run.signals, NULL);
	while (sem_wait(&self->wake))
		;
	carry(self);
	return NULL;
}

/* Gives the loop to another thread, which must exist before the loop is taken: without one the call is waited for. */
static void hand_over(uint64_t ticket)
{
	struct carrier *next;

	pthread_mutex_lock(&run.lock);
	next = run.idle;
	if (next)
		run.idle = next->next;
	pthread_mutex_unlock(&run.lock);
	if (!next) {
		next = new_carrier();
		if (!next)
			return;
		if (thread__start_detached(begin_carrying, next)) {
			free(next);
			return;
		}
	}
	if (take(ticket)) {
		sem_post(&next->wake);
		return;
	}
	pthread_mutex_lock(&run.lock);
	next->next = run.idle;
	run.idle = next;
	pthread_mutex_unlock(&run.lock);
}

/* The watcher thread. While calls are made it checks every BLOCKING_LOOK_MS: is the same call still running, or have
 * only a few ended? It sleeps while there are none, so the usual fast call costs it nothing. */
static void *watch(void *context)
{
	const struct timespec pause = {.tv_nsec = BLOCKING_LOOK_MS * 1000000};
	uint64_t before, begun, ticket;
	bool within, late;

	for (;;) {
		while (sem_wait(&run.wanted))
			;
		begun = run.begun;
		within = false;
		for (;;) {
			before = begun;
			nanosleep(&pause, NULL);
			ticket = run.ticket;
			begun = run.begun;
			late = ticket && within && begun - before < CALLS_MIN;
			if (late)
				hand_over(ticket);
			within = ticket && !late;
			if (ticket || begun != before)
				continue;
			run.watched = false;
			if (!run.ticket)
				break;
			run.watched = true;
		}
	}
	return NULL;
}

/* --- the loop's side --- */

static void enter(void)
{
	fiber__arrive(&run.stack, &run.carrier->stack);
	run.main(run.argument);
	abort(); /* main() ends the process */
}

void blocking__loop(void (*main)(void *context), void *context)
{
	struct carrier *carrier = new_carrier();
	char *bytes = fiber__take_stack(STACK_BYTES);

	run.main = main;
	run.argument = context;
	sem_init(&run.wanted, 0, 0);
	pthread_sigmask(SIG_SETMASK, NULL, &run.signals);
	if (carrier && bytes) {
		run.stack = (struct fiber_stack){.bytes = bytes, .size = STACK_BYTES};
		fiber__make(&run.fiber, run.stack.bytes, run.stack.size, enter);
		carry(carrier);
	}
	main(context);
	abort();
}

void blocking__owner(uint32_t owner)
{
	run.owner = owner;
}

static struct owner *owner_of(uint32_t id)
{
	for (uint32_t i = 0; i < OWNERS_MAX; i++)
		if (run.owners[i].id == id)
			return &run.owners[i];
	return NULL;
}

static void miss(uint32_t id)
{
	struct owner *owner = owner_of(id);

	if (!owner && id)
		owner = owner_of(0);
	if (!owner || !id)
		return;
	owner->id = id;
	owner->missed++;
}

uint64_t blocking__missed(uint32_t id)
{
	struct owner *owner = id ? owner_of(id) : NULL;
	uint64_t missed = owner ? owner->missed : 0;

	if (owner)
		owner->missed = 0;
	return missed;
}

void blocking__release(uint32_t id)
{
	struct owner *owner = id ? owner_of(id) : NULL;

	if (owner)
		*owner = (struct owner){};
}

/* Is the call refused, because this descriptor is late or rests, or its owner has too many late calls? */
static bool is_refused(int fd)
{
	uint64_t now = clock__now();
	bool refused = false;
	unsigned pending = 0;

	pthread_mutex_lock(&run.lock);
	for (uint32_t i = 0; i < LATE_MAX; i++) {
		struct late *late = &run.late[i];

		if (!late->ticket && late->until && late->until <= now) {
			*late = (struct late){};
			run.n_late--;
		}
		if (!(late->ticket || late->until) || late->owner != run.owner)
			continue;
		pending += late->ticket != 0;
		refused |= late->fd == fd;
	}
	pthread_mutex_unlock(&run.lock);
	return refused || pending >= OWNER_LATE_MAX;
}

/* From the loop: the carrier makes the call, and *given gets the result. False: it was late, and the loop continues in
 * another thread. */
static bool call_from_loop(struct call *given, const void *in, size_t in_size)
{
	struct carrier *carrier = run.carrier; /* run.carrier may be another one afterwards */

	carrier->call = *given;
	if (in_size)
		memcpy(carrier->buffer, in, in_size);
	run.begun++;
	keep_readers();
	fiber__leave_for(&carrier->stack, &run.stack);
	fiber__switch(&run.fiber, &carrier->own);
	fiber__arrive(&run.stack, &run.carrier->stack);
	bring_readers();
	if (run.timed_out) {
		run.timed_out = false;
		miss(given->owner);
		return false;
	}
	*given = run.carrier->call;
	return true;
}

/* Returns the call's result, or -errno. A read's bytes are copied to `out`; for other calls `out_size` bytes. */
static ssize_t call(struct call *given, const void *in, size_t in_size, void *out, size_t out_size)
{
	given->owner = run.owner;
	/* Started with the first call, not earlier: by then the loop has entered its sandbox, which the new thread
	 * inherits. */
	if (!run.watches) {
		run.watches = true;
		thread__start_detached(watch, NULL); /* if it fails, late calls are waited for */
	}
	if (run.n_late && given->kind != CALL_CLOSE && is_refused(given->fd)) {
		miss(given->owner);
		return -ETIMEDOUT;
	}
	if (!call_from_loop(given, in, in_size))
		return -ETIMEDOUT;
	if (given->kind == CALL_PREAD || given->kind == CALL_READ)
		out_size = given->result > 0 ? (size_t)given->result : 0;
	if (given->result >= 0 && out_size)
		memcpy(out, run.carrier->buffer, out_size);
	return given->result;
}

ssize_t blocking__pread(int fd, void *dst, size_t size, uint64_t offset)
{
	size_t done = 0;
	ssize_t n;

	if (!is_loop()) {
		n = pread(fd, dst, size, (off_t)offset);
		return n < 0 ? -errno : n;
	}
	do {
		size_t piece = size - done < BUFFER_BYTES ? size - done : BUFFER_BYTES;

		n = call(&(struct call){.kind = CALL_PREAD, .fd = fd, .size = piece, .offset = offset + done}, NULL, 0, (char *)dst + done, 0);
		if (n <= 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
		if ((size_t)n < piece)
			break;
	} while (done < size);
	return (ssize_t)done;
}

ssize_t blocking__read(int fd, void *dst, size_t size)
{
	ssize_t n;

	if (is_loop())
		return call(&(struct call){.kind = CALL_READ, .fd = fd, .size = size < BUFFER_BYTES ? size : BUFFER_BYTES}, NULL, 0, dst, 0);
	n = read(fd, dst, size);
	return n < 0 ? -errno : n;
}

ssize_t blocking__write(int fd, const void *src, size_t size)
{
	ssize_t n;

	if (size > BUFFER_BYTES)
		size = BUFFER_BYTES;
	if (is_loop())
		return call(&(struct call){.kind = CALL_WRITE, .fd = fd, .size = size}, src, size, NULL, 0);
	n = write(fd, src, size);
	return n < 0 ? -errno : n;
}

int blocking__fstat(int fd, struct stat *ret)
{
	if (is_loop())
		return (int)call(&(struct call){.kind = CALL_FSTAT, .fd = fd}, NULL, 0, ret, sizeof(*ret));
	return fstat(fd, ret) ? -errno : 0;
}

int blocking__ioctl(int fd, unsigned long request, void *argument, size_t size)
{
	int result;

	if (size > BUFFER_BYTES)
		return -E2BIG;
	if (is_loop())
		return (int)call(&(struct call){.kind = CALL_IOCTL, .fd = fd, .offset = request}, argument, size, argument, size);
	result = ioctl(fd, request, argument);
	return result < 0 ? -errno : result;
}

/* The descriptor's number may be reused: late rows must not apply to the next file. */
static void close_late_rows(int fd)
{
	pthread_mutex_lock(&run.lock);
	for (uint32_t i = 0; i < LATE_MAX; i++)
		if (run.late[i].fd == fd)
			run.late[i].fd = FD_CLOSED;
	pthread_mutex_unlock(&run.lock);
}

void blocking__close(int fd)
{
	if (!is_loop()) {
		close(fd);
		return;
	}
	if (run.n_late) {
		close_late_rows(fd);
		if (is_refused(FD_CLOSES)) /* closes of this owner hang: leak this descriptor */
			return;
	}
	call(&(struct call){.kind = CALL_CLOSE, .fd = fd}, NULL, 0, NULL, 0);
}

/* --- work in the background --- */

struct later {
	void (*fn)(void *context);
	void *context;
};

static void *do_later(void *context)
{
	struct later later = *(struct later *)context;

	free(context);
	later.fn(later.context);
	pthread_mutex_lock(&run.lock);
	run.n_later--;
	pthread_cond_broadcast(&run.nothing_later);
	pthread_mutex_unlock(&run.lock);
	return NULL;
}

void blocking__later(void (*fn)(void *context), void *context)
{
	struct later *later = is_loop() ? malloc(sizeof(*later)) : NULL;

	if (later) {
		*later = (struct later){fn, context};
		pthread_mutex_lock(&run.lock);
		run.n_later++;
		pthread_mutex_unlock(&run.lock);
		if (!thread__start_detached(do_later, later))
			return;
		pthread_mutex_lock(&run.lock);
		run.n_later--;
		pthread_mutex_unlock(&run.lock);
		free(later);
	}
	fn(context);
}

void blocking__wait_for_later(void)
{
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LATER_WAIT_NS / 1000000000u;
	pthread_mutex_lock(&run.lock);
	while (run.n_later && !err)
		err = pthread_cond_timedwait(&run.nothing_later, &run.lock, &until);
	pthread_mutex_unlock(&run.lock);
}

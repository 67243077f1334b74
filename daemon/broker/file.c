/* SPDX-License-Identifier: MIT */
/* Openers: helpers that stay and open one file after the other: 80 files with a fork each would take 100 ms, while
 * walks wait for their tables. One that has a purpose gives up the broker's rights before the first file. One that does
 * not answer in time is killed; it exits when the file system lets it. The order of each request:
 *
 *    engine      asks for a file
 *    broker      asks the opener, waits FILE_OPEN_MS at most
 *    opener      opens the file, keeps it, says that it has it
 *    broker      hands the engine's channel over, with the answer to be sent
 *    opener      sends the answer with the file to the engine, then closes it
 *
 * The broker never holds the file, as even close(2) may block on a FUSE file system. */
#include "broker/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "broker/privileges.h"

#define DEBUG_ROOT "usr/lib/debug"

#define SENT_MS 10000 /* sending needs nothing but a CPU */
#define IDLE_MS 5000 /* an opener exits after this; files are mostly requested at the begin of a session */
/* After an opener was late a second time in a row, and so on, doubled. The first time it may just have lacked a CPU. */
#define PAUSE_FIRST_NS 1000000000ull
#define PAUSE_LAST_NS 64000000000ull

/* What an opener is for. All zero: files mapped by processes. */
struct purpose {
	pid_t pid;                     /* whose root directory is used; 0: mapped files */
	const struct identity *client; /* debug files, with this one's rights; NULL: a perf map, with its own rights */
	uint64_t start_ticks;          /* of it, for a perf map */
};

static bool is_of_perf_map(const struct purpose *purpose)
{
	return purpose->pid && !purpose->client;
}

/* By openat2(2), which resolves the path in the kernel and, by `resolve`, keeps it below `folder`: a process that
 * renames directories meanwhile cannot lead it out. Magic links (/proc/self/fd/...) are refused. O_PATH: nothing is
 * opened yet, so a device or FIFO in its place does nothing. */
static int open_below(int folder, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_PATH | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* Does the folder have the first component of `path`? */
static bool has_branch(int folder, const char *path)
{
	char branch[BROKER_DEBUG_PATH_MAX];
	struct stat stat;

	snprintf(branch, sizeof(branch), "%.*s", (int)strcspn(path, "/"), path);
	return !fstatat(folder, branch, &stat, AT_SYMLINK_NOFOLLOW);
}

/* What the process sees as "/": in a container, its own files. */
static int open_root(pid_t pid)
{
	char path[64];
	int root;

	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? -errno : root;
}

/* Is the file older than `time`? Timestamps of files have the resolution of the clock interrupt, at most
 * NS_PER_TICK. */
static bool is_older(const struct stat *stat, uint64_t time)
{
	const uint64_t least = time - NS_PER_TICK;
	const time_t seconds = (time_t)(least / 1000000000u);

	return stat->st_mtim.tv_sec == seconds ? (uint64_t)stat->st_mtim.tv_nsec < least % 1000000000u
					       : stat->st_mtim.tv_sec < seconds;
}

/* Reopens an O_PATH handle, as process__open_file() does. `own`: the file must belong to this process's user, and be
 * written since the process began; NULL: no such check. */
static int open_regular(int handle, const struct process_own *own, int *ret_fd)
{
	struct stat stat;
	char path[64];

	if (fstat(handle, &stat))
		return -errno;
	if (!S_ISREG(stat.st_mode))
		return -EINVAL;
	if (own && stat.st_uid != own->uid)
		return -EPERM;
	if (own && is_older(&stat, own->began)) /* written by an earlier process with this pid */
		return -ESTALE;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return *ret_fd < 0 ? -errno : 0;
}

/* Runs in an opener that has given up its rights. */
static int open_debug(int root, const char *path, int *ret_fd)
{
	_cleanup_close_ int folder = open_below(root, DEBUG_ROOT, O_DIRECTORY, RESOLVE_IN_ROOT);
	_cleanup_close_ int handle = -1;

	if (folder < 0)
		return folder == -ENOENT ? -ENODEV : folder;
	handle = open_below(folder, path, 0, RESOLVE_BENEATH);
	if (handle < 0)
		return handle == -ENOENT && !has_branch(folder, path) ? -ENODEV : handle;
	return open_regular(handle, NULL, ret_fd);
}

static int become_client(const struct identity *client)
{
	if (client->uid)
		return privileges__become(client->uid, client->gid, client->groups, client->n_groups);
	return privileges__become(privileges__engine_of_root(), PRIVILEGES_NOBODY, NULL, 0);
}

/* The same. /tmp may be a link to another directory; the file itself may not be a link. */
static int open_perf_map(int root, const struct process_own *own, int *ret_fd)
{
	int folder, handle;
	char name[32];

	folder = open_below(root, "tmp", O_DIRECTORY, RESOLVE_IN_ROOT);
	if (folder < 0)
		return folder;
	snprintf(name, sizeof(name), "perf-%d.map", own->pid);
	handle = open_below(folder, name, O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	return handle < 0 ? handle : open_regular(handle, own, ret_fd);
}

/* What an opener process knows. It serves one engine, one request at a time. */
struct opener {
	const struct purpose *purpose;
	struct process_own own; /* for a perf map */
	int root;    /* directory to open in; -errno: could not be opened */
	int refused; /* -errno: rights could not be given up */
	int kept;    /* the file opened last, not sent yet; -1: none */
};

/* May block for ever: the file system may want to flush. Then only this opener hangs. */
static void give_up(struct opener *opener)
{
	if (opener->kept >= 0)
		close(opener->kept);
	opener->kept = -1;
}

static int open_asked(struct opener *opener, const struct broker_message *asked)
{
	if (opener->refused)
		return opener->refused;
	if (!opener->purpose->pid)
		return process__open_file(asked->pid, asked->start, asked->end, &opener->kept);
	if (opener->purpose->client)
		return open_debug(opener->root, asked->debug_path, &opener->kept);
	return open_perf_map(opener->root, &opener->own, &opener->kept);
}

/* A message with a descriptor (the channel) says: send the kept file to this engine. Without one it says: open a
 * file. The answer is sent before the file is closed, because closing may block. */
static bool serve_one(struct opener *opener, int socket, const struct broker_message *message, int channel)
{
	struct broker_message answer = {.kind = message->kind, .number = (uint32_t)opener->own.pid};
	int err;

	if (channel < 0) {
		give_up(opener);
		err = open_asked(opener, message);
	} else {
		err = opener->kept < 0 ? -EBADF : broker__send(channel, message, &opener->kept, 1);
		close(channel);
	}
	answer.error_errno = -err;
	if (broker__send(socket, &answer, NULL, 0))
		return false;
	if (channel >= 0)
		give_up(opener);
	return channel < 0 || !is_of_perf_map(opener->purpose); /* there is only one */
}

/* Debug files are opened as the client, a perf map as the process's own user: each with no more rights than whoever
 * wants to see it. */
static int become_who(struct opener *opener)
{
	const struct purpose *purpose = opener->purpose;
	struct process_own *own = &opener->own;
	int err;

	if (!purpose->pid)
		return 0;
	if (purpose->client)
		return become_client(purpose->client);
	err = process__own(purpose->pid, purpose->start_ticks, own);
	return err ? err : privileges__become(own->uid, own->gid, NULL, 0);
}

/* The opener's main loop. It ends when the broker closes the socket; in another process's root also after IDLE_MS
 * without requests, as it keeps that root alive. */
static void serve(void *context, int socket)
{
	struct opener opener = {.purpose = context, .kept = -1};
	struct pollfd asked = {.fd = socket, .events = POLLIN};
	struct broker_message message;
	int fds[BROKER_FDS_MAX];
	bool more = true;
	unsigned n;

	opener.root = opener.purpose->pid ? open_root(opener.purpose->pid) : 0;
	opener.refused = opener.root < 0 ? opener.root : become_who(&opener);
	while (more && poll(&asked, 1, opener.purpose->pid ? IDLE_MS : -1) == 1 && !broker__receive(socket, &message, fds, &n) && n <= 1)
		more = serve_one(&opener, socket, &message, n ? fds[0] : -1);
}

/* Receives the opener's answer, for at most `ms`. *ret_answered: there was one, even if an error. */
static int take_answer(struct helper *opener, unsigned ms, bool *ret_answered, uint32_t *ret_number)
{
	struct broker_message message;
	int fds[BROKER_FDS_MAX], err;
	unsigned n = 0;

	*ret_answered = false;
	opener->until = clock__now() + ms * 1000000ull;
	err = helper__take(opener, &message, fds, &n);
	if (err)
		return err == -EPIPE ? -EIO : err;
	*ret_answered = true;
	if (ret_number)
		*ret_number = message.number;
	return -message.error_errno;
}

void openers__leave(struct openers *openers)
{
	helper__end(&openers->mapped.helper);
	helper__end(&openers->debug.helper);
	helper__end(&openers->perf_map.helper);
}

static void end_late(struct opener_slot *slot)
{
	slot->late = slot->helper.pid;
	helper__end(&slot->helper);
}

static void pause_longer(struct opener_slot *slot)
{
	slot->again = clock__now() + slot->pause;
	slot->pause = !slot->pause ? PAUSE_FIRST_NS : slot->pause < PAUSE_LAST_NS ? slot->pause * 2 : PAUSE_LAST_NS;
}

/* If the opener was killed or has exited, starts a new one and asks again. `err` of the opening itself is an answer,
 * and is not tried again. */
static int ask(struct opener_slot *slot, uid_t payer, struct purpose *purpose, const struct broker_message *message, uint32_t *ret_number)
{
	struct helper *opener = &slot->helper;
	bool answered = false;
	int err = 0, tries;

	if (clock__now() < slot->again || helper__hangs(slot->late))
		return -ETIMEDOUT;
	for (tries = 0; tries < 2 && !answered && err != -ETIMEDOUT && err != -ECANCELED; tries++) {
		err = opener->pid ? 0 : helper__begin(opener, payer, serve, purpose, NULL, 0);
		if (err)
			return err;
		err = broker__send(opener->socket, message, NULL, 0);
		err = err ?: take_answer(opener, FILE_OPEN_MS, &answered, ret_number);
		if (!answered)
			end_late(slot);
	}
	if (answered)
		slot->pause = 0;
	else if (err == -ETIMEDOUT)
		pause_longer(slot);
	return err;
}

int file__open_mapped(struct openers *openers, uid_t payer, pid_t pid, uint64_t start, uint64_t end, struct helper **ret)
{
	const struct broker_message message = {.kind = BROKER_OPEN_FILE, .pid = pid, .start = start, .end = end};
	struct purpose purpose = {};

	*ret = &openers->mapped.helper;
	return ask(&openers->mapped, payer, &purpose, &message, NULL);
}

int file__open_debug(struct openers *openers, pid_t pid, uint64_t started, const struct identity *client, const char *path, struct helper **ret)
{
	struct broker_message message = {.kind = BROKER_OPEN_DEBUG};
	struct purpose purpose = {.pid = pid, .client = client};

	if (openers->root != pid || openers->root_started != started)
		/* It opens files below the root of one process: for another process, another opener. */
		helper__end(&openers->debug.helper);
	openers->root = pid;
	openers->root_started = started;
	snprintf(message.debug_path, sizeof(message.debug_path), "%s", path);
	*ret = &openers->debug.helper;
	return ask(&openers->debug, client->payer, &purpose, &message, NULL);
}

int file__open_perf_map(struct openers *openers, uid_t payer, pid_t pid, uint64_t start_ticks, struct helper **ret, uint32_t *ret_own)
{
	const struct broker_message message = {.kind = BROKER_OPEN_PERF_MAP};
	struct purpose purpose = {.pid = pid, .start_ticks = start_ticks};

	helper__end(&openers->perf_map.helper); /* the last one was for another process */
	*ret = &openers->perf_map.helper;
	return ask(&openers->perf_map, payer, &purpose, &message, ret_own);
}

int file__hand_over(struct helper *opener, int channel, const struct broker_message *message)
{
	bool answered = false;
	int err = opener->pid ? broker__send(opener->socket, message, &channel, 1) : -EPIPE;

	err = err ?: take_answer(opener, SENT_MS, &answered, NULL);
	if (!answered)
		helper__end(opener);
	return err;
}

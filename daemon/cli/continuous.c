/* SPDX-License-Identifier: MIT */
#include "cli/continuous.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/order.h"
#include "cli/cli.h"
#include "cli/folder.h"
#include "cli/user.h"

/* How much a recording may lose if cprofd is killed. Each flush ends a block of the compression, so more often would
 * cost size. */
#define FLUSH_MS 1000
/* After a full disk, recording goes on when so much is free: less would be full again at once. */
#define ROOM_BYTES (4u << 20)
#define PART FOLDER_END ".part"

/* --- files of the directory --- */

struct file {
	char name[256];
	uint64_t bytes;
};

static bool is_ours(const char *name)
{
	return folder__names(name, FOLDER_END) || folder__names(name, PART);
}

/* Is somebody writing it? Who may not look takes it for one that is. */
static bool is_written(int directory, const char *name)
{
	bool part = ends_in(name, PART), written;
	int fd = part ? openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;

	if (fd < 0)
		return part && errno != ENOENT;
	written = flock(fd, LOCK_SH | LOCK_NB) < 0;
	close(fd);
	return written;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

/* All files but the one that is open, the oldest first. *ret_bytes: of them. */
static int list(const struct continuous *continuous, struct buf *ret, uint64_t *ret_bytes)
{
	int fd = openat(continuous->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	struct stat status;

	*ret_bytes = 0;
	if (!directory) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err && (entry = readdir(directory))) {
		struct file file = {};

		if (!is_ours(entry->d_name) || (continuous->output.fd >= 0 && !strcmp(entry->d_name, continuous->output.temporary)) ||
		    fstatat(continuous->directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISREG(status.st_mode))
			continue;
		snprintf(file.name, sizeof(file.name), "%s", entry->d_name);
		/* What it takes of the disk: a file that was cut at its end may hold more. */
		file.bytes = (uint64_t)status.st_size;
		*ret_bytes += file.bytes;
		err = buf__append(ret, &file, sizeof(file));
	}
	closedir(directory);
	if (!err && ret->len)
		qsort(ret->data, ret->len / sizeof(struct file), sizeof(struct file), by_name);
	return err;
}

/* Removes the oldest files until all others have at most `most` bytes, but no more than `n` files. Returns how many. */
static unsigned remove_oldest(struct continuous *continuous, uint64_t most, unsigned n)
{
	const struct user *user = user__calling();
	_cleanup_(buf__free) struct buf files = {};
	unsigned removed = 0;

	if (user__enter(user))
		return 0;
	if (!list(continuous, &files, &continuous->others))
		for (uint32_t i = 0; i < LENGTH(files, struct file) && continuous->others > most && removed < n; i++) {
			const struct file *file = &ITEM(files, struct file, i);

			if (is_written(continuous->directory, file->name) || unlinkat(continuous->directory, file->name, 0))
				continue;
			continuous->others -= file->bytes;
			removed++;
		}
	user__leave(user);
	return removed;
}

/* The disk is full: the oldest file goes, if it is not the last one. */
static bool on_full(void *of)
{
	struct continuous *continuous = of;

	if (!remove_oldest(continuous, 0, 1))
		return false;
	if (!continuous->full)
		say("%s: the disk is full; the oldest recordings make room", continuous->options->continuous);
	continuous->full = true;
	return true;
}

/* --- the file that is open --- */

/* -errno. Then live->writer writes into it. */
static int open_file(struct continuous *continuous)
{
	struct live *live = continuous->live;
	int err;

	folder__name(continuous->options->continuous, continuous->pid, clock__read(CLOCK_REALTIME) / 1000000, &continuous->named, continuous->path);
	err = output__create(continuous->path, true, &continuous->output);
	if (err)
		return err;
	flock(continuous->output.fd, LOCK_EX | LOCK_NB);
	err = recording_writer__new(continuous->output.fd, true, &live->writer);
	if (err) {
		output__close(&continuous->output);
		return err;
	}
	recording_writer__on_full(live->writer, on_full, continuous);
	continuous->opened = continuous->flushed = clock__now() / 1000000;
	continuous->whole = 0;
	return 0;
}

/* What can be read of it gets its name. `time`, of the event `end`; 0: it has one, or none can be written. */
static int close_file(struct continuous *continuous, uint64_t time)
{
	const struct event end = {.kind = EVENT_END, .end = {.time = time, .reason = "rotated", .detail = ""}};
	_cleanup_(buf__free) struct buf scratch = {};
	struct live *live = continuous->live;
	int err = 0;

	if (continuous->output.fd < 0)
		return 0;
	if (time && !live->write_error)
		live->write_error = recording_writer__event(live->writer, &end, &scratch);
	if (!live->write_error)
		live->write_error = recording_writer__flush(live->writer);
	live->writer = recording_writer__free(live->writer);
	/* Behind the last flush that was written there may be half a block. */
	if (live->write_error && !ftruncate(continuous->output.fd, (off_t)continuous->whole))
		live->write_error = 0;
	else if (!live->write_error)
		continuous->whole = (uint64_t)lseek(continuous->output.fd, 0, SEEK_CUR);
	if (continuous->whole) {
		err = output__commit(&continuous->output);
		if (err) /* it stays a `.part` */
			*continuous->output.temporary = '\0';
		continuous->files += !err;
		continuous->bytes += err ? 0 : continuous->whole;
	}
	output__close(&continuous->output);
	return err;
}

/* Events that were dropped while the disk was full. */
static void begin_with_gap(struct continuous *continuous, uint64_t time)
{
	struct live *live = continuous->live;
	const struct event gap = {.kind = EVENT_GAP, .gap = {.time = time, .events = live->dropped_bytes != 0, .bytes = live->dropped_bytes}};
	_cleanup_(buf__free) struct buf scratch = {};

	live->write_error = recording_writer__lines(live->writer, live->hello.data, live->hello.len);
	if (live->dropped_bytes && !live->write_error)
		live->write_error = recording_writer__event(live->writer, &gap, &scratch);
	live->dropped_bytes = 0;
}

static bool is_directory(const struct continuous *continuous)
{
	struct stat open, now;

	return !fstat(continuous->directory, &open) && !stat(continuous->options->continuous, &now) && open.st_dev == now.st_dev &&
	       open.st_ino == now.st_ino;
}

/* It may have been moved away or replaced: what counts is what the path names now. */
static void open_again(struct continuous *continuous)
{
	int fd;

	if (user__enter(user__calling()))
		return;
	if (!is_directory(continuous)) {
		fd = open(continuous->options->continuous, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0) {
			close(continuous->directory);
			continuous->directory = fd;
		}
	}
	user__leave(user__calling());
}

/* Its file is lost, or keeps a name that ends in `.part`. */
static int finish_file(struct continuous *continuous, uint64_t time)
{
	int err = close_file(continuous, time);

	if (err == -ENOENT)
		say__failure(is_directory(continuous) ? "" : "so was its directory: make it again, and the next recording goes into it",
			     "%s was removed while it was written: what was recorded into it is lost", continuous->path);
	else if (err)
		say__failure("", "%s.part could not be renamed: %s", continuous->path, strerror(-err));
	return err;
}

/* The engine has cut the session. */
static void on_part(void *of, uint64_t time)
{
	struct continuous *continuous = of;
	int err;

	finish_file(continuous, time);
	open_again(continuous);
	remove_oldest(continuous, continuous->options->keep - continuous->options->rotate_size, UINT32_MAX);
	do
		err = open_file(continuous);
	while ((err == -ENOSPC || err == -EDQUOT) && on_full(continuous));
	continuous->wanted = false;
	if (err) {
		if (!continuous->full)
			say("%s cannot be written: %s", continuous->path, strerror(-err));
		continuous->full = true;
		return;
	}
	if (continuous->full)
		say__note("recording goes on in %s", continuous->path);
	continuous->full = false;
	begin_with_gap(continuous, time);
}

/* --- while sampling --- */

/* Nothing that could make room is left. What was written is a recording up to there; the next one begins when there is
 * room, with a gap in it. */
static void pause_writing(struct continuous *continuous)
{
	say__failure("recording goes on when there is room again", "%s cannot be written: %s", continuous->path, strerror(-continuous->live->write_error));
	finish_file(continuous, 0);
	continuous->live->write_error = 0;
	continuous->full = true;
}

static bool has_room(struct continuous *continuous)
{
	struct statvfs status;

	open_again(continuous);
	return !fstatvfs(continuous->directory, &status) && (uint64_t)status.f_bavail * status.f_frsize >= ROOM_BYTES;
}

static bool can(const struct continuous *continuous, const char *feature)
{
	const struct buf *hello = &continuous->live->hello;

	return hello->len && memmem(hello->data, hello->len, feature, strlen(feature));
}

/* A daemon may have been there before this program was updated. */
static void judge_engine(struct continuous *continuous)
{
	if (continuous->judged || !continuous->live->answered)
		return;
	continuous->judged = true;
	if (!can(continuous, "\"rotate\""))
		say__failure("restart it: `sudo systemctl restart cprofd`", "the daemon is of an older version, and begins no next file: %s.part grows", continuous->path);
	if (continuous->limit.share <= 0 || can(continuous, "\"rate\""))
		return;
	say__failure("restart it: `sudo systemctl restart cprofd`", "the daemon is of an older version: the rate stays as it is");
	continuous->limit.share = 0;
}

/* Of this process and of the engine. The broker does nothing meanwhile. */
static void on_status(void *of, const json_t *status)
{
	struct continuous *continuous = of;
	struct self_limit *limit = &continuous->limit;
	json_int_t engine = json_integer_value(json_object_get(status, "cpu_ns"));

	if (!status || !self_limit__measured(limit, clock__now(), (uint64_t)engine + clock__read(CLOCK_PROCESS_CPUTIME_ID)))
		return;
	if (limit->least) {
		say__failure("record fewer processes, or leave out --native, --mode=wall or -s", "at the lowest rate, 1 Hz, it still takes %.2g %% of a CPU", 100 * limit->used);
		return;
	}
	say__note("it took %.2g %% of a CPU (--self-limit %.3g%%): from here on %u sample%s a second", 100 * limit->used, 100 * limit->share, limit->rate,
		  limit->rate == 1 ? "" : "s");
	continuous->wanted = true;
}

static void measure(struct live *live)
{
	char request[64];

	snprintf(request, sizeof(request), "{\"req\":\"status\",\"id\":%d}", LIVE_STATUS_ID);
	connection__request(live->connection, request);
}

bool continuous__tick(struct continuous *continuous, uint64_t now_ms)
{
	const struct cli_options *options = continuous->options;
	struct live *live = continuous->live;
	bool asked = live__awaits_part(live, now_ms);

	judge_engine(continuous);
	if (live->answered && self_limit__is_due(&continuous->limit, now_ms))
		measure(live);
	continuous->wanted |= live->writer && now_ms - continuous->opened >= options->rotate_age / 1000000;
	if (now_ms - continuous->flushed < FLUSH_MS && !live->write_error && (asked || !continuous->wanted))
		return false;
	continuous->flushed = now_ms;
	if (live->writer && !live->write_error)
		live->write_error = recording_writer__flush(live->writer);
	if (live->write_error)
		pause_writing(continuous);
	if (live->writer) {
		continuous->whole = (uint64_t)lseek(continuous->output.fd, 0, SEEK_CUR);
		if (continuous->others + continuous->whole > options->keep)
			remove_oldest(continuous, options->keep > continuous->whole ? options->keep - continuous->whole : 0, UINT32_MAX);
		continuous->wanted |= continuous->whole >= options->rotate_size;
	} else {
		continuous->wanted |= has_room(continuous);
	}
	return live->answered && continuous->wanted && !asked;
}

/* --- its begin and its end --- */

int continuous__judge(const struct cli_options *options)
{
	const bool of_one_file = options->output || options->format || options->open || options->stream;

	if (!options->continuous) {
		if (!options->rotate_size && !options->rotate_age && !options->keep && !options->self_limit)
			return CLI_DONE;
		say__failure("add --continuous DIR", "--rotate-size, --rotate-age, --keep and --self-limit are of a continuous recording");
		return CLI_USAGE;
	}
	if (of_one_file)
		say__failure("convert the files of the directory", "--continuous writes recordings: leave -o, -f, --open and --stream out");
	else if (options->keep < 2 * options->rotate_size)
		say__failure("--keep has to be at least twice --rotate-size", "--keep has room for less than two files");
	else
		return CLI_DONE;
	return CLI_USAGE;
}

int continuous__open(struct continuous *continuous, const struct cli_options *options, pid_t pid, struct live *live)
{
	int err;

	*continuous = CONTINUOUS_NONE;
	continuous->options = options;
	continuous->pid = pid ?: getpid();
	continuous->live = live;
	continuous->limit = (struct self_limit){.share = options->self_limit, .asked = options->rate, .rate = options->rate};
	live->part = on_part;
	live->status = on_status;
	live->of = continuous;
	continuous->directory = folder__open(options->continuous);
	err = continuous->directory < 0 ? continuous->directory : open_file(continuous);
	if (err) {
		say__failure("choose another directory; nothing was sampled yet", "no recording can be made in %s: %s", options->continuous,
			     strerror(-err));
		return CLI_COULD_NOT;
	}
	remove_oldest(continuous, options->keep - options->rotate_size, UINT32_MAX);
	return CLI_DONE;
}

int continuous__finish(struct continuous *continuous)
{
	int err = finish_file(continuous, 0);

	/* No file could be made any more. */
	if (!err && continuous->live->dropped_bytes) {
		say__failure("", "the end is lost: there was no place for its last %s of events", words__bytes(continuous->live->dropped_bytes));
		err = -ENOSPC;
	}
	if (!continuous->live->met && (continuous->options->n_matches || continuous->options->n_unmatched))
		say__failure("name=GLOB fits the program, its script or module, or another word of the command line: `cprofd agent --help`", "no Python fitted --match and --exclude");
	say__done("`cprofd report FILE...`: tables of one or several", "wrote %u recording%s into %s (%s)", continuous->files,
		  continuous->files == 1 ? "" : "s", continuous->options->continuous, words__bytes(continuous->bytes));
	return err ? CLI_COULD_NOT : CLI_DONE;
}

/* What was not finished stays a `.part`, unless nothing is in it. */
void continuous__close(struct continuous *continuous)
{
	if (continuous->output.fd >= 0 && lseek(continuous->output.fd, 0, SEEK_END) > 0)
		*continuous->output.temporary = '\0';
	output__close(&continuous->output);
	if (continuous->directory >= 0)
		close(take_fd(&continuous->directory));
}

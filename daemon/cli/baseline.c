/* SPDX-License-Identifier: MIT */
/* `cprofd baseline`: keeps recordings under a name, which `compare` gives to diff as its first side.
 *
 *     .cprofd/baselines/main/01.cprof, 02.cprof, 03.cprof  of one machine, each complete
 *     .cprofd/baselines/.main.4242/                      while they are copied, or removed
 *
 * A baseline is made under a temporary name and renamed, so one that can be seen is whole. Who writes holds a lock on the folder of
 * baselines, and who compares shares it: so what has a temporary name is of one that did not come to its end, and the next one
 * deletes it. Only folders that hold recordings and nothing else are replaced or removed, and no links: the rest is somebody's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/safe_text.h"
#include "cli/input.h"
#include "cli/user.h"
#include "events/events.h"

#define FOLDER ".cprofd/baselines"
#define ENDING ".cprof"
#define FILES_MAX 99

static const char *folder_of(const struct cli_options *options)
{
	const char *variable = getenv(CLI_BASELINES_VARIABLE);

	return options->directory ?: variable && *variable ? variable : FOLDER;
}

/* --- what a recording says about itself --- */

struct about {
	struct event_sink sink;
	bool whole; /* read on to the end */
	char *machine, *command, *python;
	bool wall;
};

static void about__free(struct about *about)
{
	free(about->machine);
	free(about->command);
	free(about->python);
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct about *about = (struct about *)self;

	if (event->kind == EVENT_SESSION && !about->machine) {
		about->machine = strdup(*event->session.machine ? event->session.machine : "of a machine that is not known");
		about->command = strdup(event->session.command);
		about->wall = !strcmp(event->session.mode, "wall");
		return about->machine && about->command ? 0 : -ENOMEM;
	}
	if (event->kind != EVENT_PROCESS || !*event->process.python || about->python)
		return 0;
	about->python = strdup(event->process.python);
	return about->python ? about->whole ? 0 : -ECANCELED : -ENOMEM;
}

/* CLI_*; what is wrong was printed. */
static int read_about(int fd, const char *path, struct about *ret)
{
	bool cut = false;
	int err;

	ret->sink.event = on_event;
	err = recording__read(fd, true, &ret->sink, &cut);
	if (err == -ECANCELED)
		return CLI_DONE;
	err = err ?: ret->machine ? 0 : -ENOMSG;
	if (err)
		input__print_failure(err, path);
	else if (cut)
		say__failure("a baseline has complete recordings alone: record it again", "%s ends in the middle", path);
	return err || cut ? CLI_COULD_NOT : CLI_DONE;
}

/* --- folders --- */

static int is_recording(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return *entry->d_name != '.' && len > strlen(ENDING) && !strcmp(entry->d_name + len - strlen(ENDING), ENDING);
}

static int is_shown(const struct dirent *entry)
{
	return *entry->d_name != '.';
}

/* Paths of what `which` takes in a folder, by name. */
struct paths {
	char **items;
	int n;
};

static void paths__free(struct paths *paths)
{
	while (paths->n > 0)
		free(paths->items[--paths->n]);
	free(paths->items);
}

static int paths__of(const char *folder, int (*which)(const struct dirent *), struct paths *ret)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, which, alphasort), err = n < 0 ? -errno : 0;

	ret->items = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(*ret->items));
	for (int i = 0; i < n; i++) {
		if (!ret->items || asprintf(&ret->items[ret->n], "%s/%s", folder, entries[i]->d_name) < 0)
			err = -ENOMEM;
		else
			ret->n++;
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return err;
}

static int is_entry(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
}

static int is_other(const struct dirent *entry)
{
	return is_entry(entry) && !is_recording(entry);
}

/* A folder with recordings and nothing else, itself no link: 0. Else -ENOTEMPTY. */
static int only_recordings(const char *path)
{
	_cleanup_(paths__free) struct paths others = {};
	struct stat status;

	if (lstat(path, &status))
		return -errno;
	if (!S_ISDIR(status.st_mode))
		return -ENOTEMPTY;
	return paths__of(path, is_other, &others) ?: others.n ? -ENOTEMPTY : 0;
}

static int delete_all(const char *path)
{
	_cleanup_(paths__free) struct paths files = {};
	int err = only_recordings(path) ?: paths__of(path, is_recording, &files);

	for (int i = 0; i < files.n && !err; i++)
		err = unlink(files.items[i]) ? -errno : 0;
	return err ?: rmdir(path) ? -errno : 0;
}

/* The folder, and those it is in. */
static int make_folders(const char *path)
{
	char part[PATH_MAX] = "";

	for (size_t len = 1; len <= strlen(path); len++)
		if ((!path[len] || path[len] == '/') && mkdir(strncpy(part, path, len), 0777) && errno != EEXIST)
			return -errno;
	return 0;
}

/* Deletes what others began and did not end: killed, or the machine stopped. Nobody is at work, as the lock is ours. */
static void delete_left(const char *folder)
{
	_cleanup_(paths__free) struct paths all = {};

	if (paths__of(folder, is_entry, &all))
		return;
	for (int i = 0; i < all.n; i++) {
		const char *name = basename(all.items[i]), *number = strrchr(name, '.');

		if (*name == '.' && number > name && number[1] && strspn(number + 1, "0123456789") == strlen(number + 1))
			delete_all(all.items[i]);
	}
}

/* `how`: LOCK_EX, LOCK_SH. Returns a descriptor that holds it, or -errno. */
static int lock(const char *folder, int how)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = fd < 0 ? -errno : 0;

	/* A file system without locks (ENOLCK) is as it was without them. */
	while (!err && flock(fd, how) && errno == EINTR)
		;
	if (!err && how == LOCK_EX)
		delete_left(folder);
	return err ?: fd;
}

/* --- save --- */

static int copy_all(const int *files, int n, const char *folder)
{
	_cleanup_close_ int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = directory < 0 ? -errno : 0;

	for (int i = 0; i < n && !err; i++) {
		_cleanup_close_ int to = -1;
		char name[32];
		off_t at = 0;
		ssize_t sent;

		snprintf(name, sizeof(name), "%02d" ENDING, i + 1);
		to = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		do
			sent = to < 0 ? -1 : sendfile(to, files[i], &at, 1 << 30);
		while (sent > 0);
		err = sent < 0 ? -errno : 0;
	}
	return err;
}

static int write_all(const struct cli_options *options, const int *files, int n, const char *folder, const char *path, const char *temporary)
{
	_cleanup_close_ int locked = -1;
	int err = make_folders(folder), left;
	unsigned int how;

	locked = err ?: lock(folder, LOCK_EX);
	err = locked < 0 ? locked : only_recordings(path);
	if (!err && !options->force)
		return -EEXIST;
	if (err && err != -ENOENT)
		return err;
	/* A folder that is not empty is not replaced: it takes the temporary name, and is deleted. */
	how = err ? RENAME_NOREPLACE : RENAME_EXCHANGE;
	err = mkdir(temporary, 0777) ? -errno : copy_all(files, n, temporary);
	if (!err && renameat2(AT_FDCWD, temporary, AT_FDCWD, path, how) && (errno != EINVAL || how == RENAME_EXCHANGE || rename(temporary, path)))
		err = -errno;
	left = delete_all(temporary);
	return err ?: left == -ENOENT ? 0 : left;
}

static void say_other(const char *path)
{
	say__failure("it stays as it is: rename it, or take another name", "%s is more than recordings: a link, a file, or a folder with other files in it", path);
}

static int save(const struct cli_options *options, const char *folder, const char *path, const char *temporary)
{
	_cleanup_(about__free) struct about first = {.whole = true};
	int files[FILES_MAX], n, status = CLI_DONE, err = 0;

	for (n = 0; n < options->n_operands - 2 && status == CLI_DONE; n++) {
		const char *file = options->operands[n + 2];
		_cleanup_(about__free) struct about about = {.whole = true};

		files[n] = input__open_recording(file);
		status = files[n] < 0 ? CLI_COULD_NOT : read_about(files[n], file, n ? &about : &first);
		if (n && status == CLI_DONE && about.wall != first.wall) {
			say__failure("record all with --mode=wall, or all without", "%s is of %s time, and %s is not", file, about.wall ? "wall" : "CPU",
				     options->operands[2]);
			status = CLI_COULD_NOT;
		} else if (n && status == CLI_DONE && strcmp(about.machine, first.machine)) {
			say__failure("save those of each machine under a name of their own", "%s is of another machine (%s) than %s (%s)", file, about.machine,
				     options->operands[2], first.machine);
			status = CLI_COULD_NOT;
		}
	}
	if (status == CLI_DONE)
		err = write_all(options, files, n, folder, path, temporary);
	while (n--)
		if (files[n] >= 0)
			close(files[n]);
	if (err == -EEXIST)
		say__failure("--force replaces it", "there is %s already", path);
	else if (err == -ENOTEMPTY)
		say_other(path);
	else if (err == -EINVAL && options->force)
		say__failure("`cprofd baseline remove` it first", "%s: this file system cannot exchange folders", path);
	else if (err == -ESPIPE)
		say__failure("give it files", "a pipe cannot be copied");
	else if (err)
		say__failure("--dir DIR, or $" CLI_BASELINES_VARIABLE ", is another place", "%s could not be written: %s", path, strerror(-err));
	else if (status == CLI_DONE)
		say__done("", "saved %s: %d recording%s, %s", path, options->n_operands - 2, options->n_operands == 3 ? "" : "s", first.machine);
	return err ? CLI_COULD_NOT : status;
}

/* --- compare, list, remove --- */

static int say_none(const char *path)
{
	say__failure("`cprofd baseline list` prints those there are, `cprofd baseline save NAME FILE...` makes one", "there is no baseline %s", path);
	return CLI_COULD_NOT;
}

/* Is diff, of the baseline's recordings vs. the others. */
static int compare(const struct cli_options *options, const char *folder, const char *path, const char *temporary)
{
	_cleanup_(paths__free) struct paths before = {};
	_cleanup_free_ char **operands = NULL;
	/* What cannot be locked can be read all the same. */
	_cleanup_close_ __attribute__((unused)) int locked = lock(folder, LOCK_SH);
	struct cli_options with = *options;

	if (paths__of(path, is_recording, &before) || !before.n)
		return say_none(path);
	with.n_operands = before.n + options->n_operands - 1;
	with.operands = operands = calloc((size_t)with.n_operands + 1, sizeof(*operands));
	if (!operands) {
		say("out of memory");
		return CLI_COULD_NOT;
	}
	memcpy(operands, before.items, (size_t)before.n * sizeof(*operands));
	operands[before.n] = (char *)"vs";
	memcpy(operands + before.n + 1, options->operands + 2, (size_t)(options->n_operands - 2) * sizeof(*operands));
	with.one_machine = !options->any_machine;
	return diff__run(&with);
}

/* Its recordings are of one machine, so the first says it all. */
static int print_one(const char *path)
{
	_cleanup_(about__free) struct about about = {};
	_cleanup_(paths__free) struct paths files = {};
	_cleanup_close_ int fd = -1;
	struct stat status = {};
	char date[32];

	if (stat(path, &status) || paths__of(path, is_recording, &files) || !files.n)
		return CLI_DONE; /* something else */
	fd = input__open_recording(files.items[0]);
	if (fd < 0 || read_about(fd, files.items[0], &about) != CLI_DONE)
		return CLI_COULD_NOT;
	strftime(date, sizeof(date), "%F %R", localtime(&status.st_mtime));
	safe_text__put(stdout, strrchr(path, '/') + 1);
	printf("  saved %s, %d recording%s, %s, Python %s: %s\n", date, files.n, files.n == 1 ? "" : "s", about.machine, about.python ?: "?",
	       *about.command ? about.command : "?");
	return CLI_DONE;
}

static int list(const struct cli_options *options, const char *folder, const char *path, const char *temporary)
{
	_cleanup_(paths__free) struct paths all = {};
	int err = paths__of(folder, is_shown, &all), status = CLI_DONE;

	if (err && err != -ENOENT) {
		say__failure("", "%s cannot be read: %s", folder, strerror(-err));
		return CLI_COULD_NOT;
	}
	if (!all.n)
		say__note("there is no baseline in %s", folder);
	for (int i = 0; i < all.n; i++)
		status = print_one(all.items[i]) ?: status;
	return status;
}

/* Under another name first: half of a baseline is never seen. */
static int discard(const struct cli_options *options, const char *folder, const char *path, const char *temporary)
{
	_cleanup_close_ int locked = lock(folder, LOCK_EX);
	int err = locked < 0 ? locked : only_recordings(path);

	if (err == -ENOENT)
		return say_none(path);
	err = err ?: rename(path, temporary) ? -errno : delete_all(temporary);
	if (err == -ENOTEMPTY)
		say_other(path);
	else if (err)
		say__failure("", "%s could not be removed: %s", path, strerror(-err));
	return err ? CLI_COULD_NOT : CLI_DONE;
}

static const struct verb {
	const char *name;
	int least, most; /* operands, itself included */
	int (*run)(const struct cli_options *options, const char *folder, const char *path, const char *temporary);
} verbs[] = {{"save", 3, FILES_MAX, save}, {"compare", 3, INT_MAX, compare}, {"list", 1, 1, list}, {"remove", 2, 2, discard}};

/* Only what needs no quoting anywhere, and is no way into another folder. */
static bool is_plain(const char *name)
{
	return *name != '.' && *name != '-' && strlen(name) <= 200 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+@-") == strlen(name);
}

int baseline__run(const struct cli_options *options)
{
	const char *what = options->n_operands ? options->operands[0] : "", *name = options->n_operands > 1 ? options->operands[1] : "x";
	const char *folder = folder_of(options);
	const struct user *user = user__calling();
	const struct verb *verb = NULL;
	char path[PATH_MAX], temporary[PATH_MAX];
	int err;

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(what, verbs[i].name) && options->n_operands >= verbs[i].least && options->n_operands <= verbs[i].most)
			verb = &verbs[i];
	if (!verb) {
		say__failure("`cprofd baseline --help` has examples",
			     "which? `cprofd baseline save NAME FILE...`, `compare NAME FILE...`, `list` or `remove NAME`");
		return CLI_USAGE;
	}
	if (!*name || !is_plain(name)) {
		say__failure("letters, digits and ._+@- make a name, not with . or - first", "'%s' is no name of a baseline", name);
		return CLI_USAGE;
	}
	if ((options->force && verb->run != save) ||
	    (verb->run != compare && (options->any_machine || options->fail_on.n || options->json || options->markdown || options->junit || options->output))) {
		say__failure("", "%s is not for `cprofd baseline %s`", options->force ? "--force" : options->any_machine ? "--any-machine" : "an option of diff", what);
		return CLI_USAGE;
	}
	if (snprintf(path, sizeof(path), "%s/%s", folder, name) > PATH_MAX - 300 ||
	    snprintf(temporary, sizeof(temporary), "%s/.%s.%d", folder, name, getpid()) >= PATH_MAX) {
		say("--dir: %s", strerror(ENAMETOOLONG));
		return CLI_USAGE;
	}
	if (!options->no_limits)
		limits__begin();
	/* Under sudo what is written belongs to the calling user. */
	err = user->other ? user__drop(user) : 0;
	if (err) {
		say__failure("", "the rights of %s could not be taken: %s", user->name, strerror(-err));
		return CLI_COULD_NOT;
	}
	return verb->run(options, folder, path, temporary);
}

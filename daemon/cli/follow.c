/* SPDX-License-Identifier: MIT */
#include "cli/follow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "cli/folder.h"
#include "cli/output.h"
#include "cli/recorder.h"
#include "cli/user.h"

#define LOOK_MS 1000

/* As folder__names() has them. */
struct name {
	char text[64];
};

struct follow {
	const struct cli_options *options;
	const char *folder;
	int (*push)(const struct cli_options *options);
	char state[PATH_MAX];
	struct buf delivered; /* struct name, sorted: those that are still there */
	int signals;
	bool stopped;
};

/* --- what was delivered --- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static int note(struct follow *follow, const char *text)
{
	struct name name;
	int err;

	if ((size_t)snprintf(name.text, sizeof(name.text), "%s", text) >= sizeof(name.text))
		return -ENAMETOOLONG;
	err = buf__append(&follow->delivered, &name, sizeof(name));
	if (!err)
		qsort(follow->delivered.data, LENGTH(follow->delivered, struct name), sizeof(name), by_name);
	return err;
}

static int by_text(const void *key, const void *of)
{
	return strcmp(key, ((const struct name *)of)->text);
}

static bool is_delivered(const struct follow *follow, const char *name)
{
	return follow->delivered.len && bsearch(name, follow->delivered.data, LENGTH(follow->delivered, struct name), sizeof(struct name), by_text);
}

/* -errno; a file that is not there, or says nothing of ours: nothing was delivered. */
static int read_state(struct follow *follow)
{
	FILE *file = fopen(follow->state, "re");
	char line[sizeof(struct name)];
	int err = 0;

	if (!file)
		return errno == ENOENT ? 0 : -errno;
	while (!err && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (folder__names(line, FOLDER_END))
			err = note(follow, line);
	}
	err = err ?: ferror(file) ? -EIO : 0;
	fclose(file);
	return err;
}

/* Names of files that were removed since go, so it does not grow. */
static int write_state(struct follow *follow)
{
	int directory = open(follow->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = directory < 0 ? -errno : 0;
	struct output output = OUTPUT_NONE;
	size_t kept = 0;
	FILE *file;

	err = err ?: output__create(follow->state, false, &output);
	file = err ? NULL : output__stream(&output);
	if (!err && !file)
		err = -errno;
	for (uint32_t i = 0; !err && i < LENGTH(follow->delivered, struct name); i++) {
		const struct name name = ITEM(follow->delivered, struct name, i);

		if (faccessat(directory, name.text, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
			continue;
		ITEM(follow->delivered, struct name, kept++) = name;
		if (fprintf(file, "%s\n", name.text) < 0)
			err = -EIO;
	}
	if (!err) {
		follow->delivered.len = kept * sizeof(struct name);
		err = fflush(file) || fsync(fileno(file)) ? -errno : 0;
	}
	if (file && fclose(file) && !err)
		err = -errno;
	if (directory >= 0)
		close(directory);
	err = err ?: output__commit(&output);
	output__close(&output);
	return err;
}

static int open_state(struct follow *follow, const char *url)
{
	static const struct hash_seed seed = {0x2545f4914f6cdd1dull, 0x9e3779b97f4a7c15ull}; /* names of files: the same each time */
	int n, err;

	if (follow->options->state)
		n = snprintf(follow->state, sizeof(follow->state), "%s", follow->options->state);
	else
		n = snprintf(follow->state, sizeof(follow->state), "%s/.pushed-%016llx", follow->folder, (unsigned long long)hash__bytes(&seed, url, strlen(url)));
	if (n < 0 || (size_t)n >= sizeof(follow->state))
		return -ENAMETOOLONG;
	err = read_state(follow);
	return err ?: write_state(follow);
}

/* --- what is there --- */

/* The oldest recording that is complete and was not delivered. False: none. */
static bool next_name(const struct follow *follow, char ret[NAME_MAX + 1], int *ret_err)
{
	DIR *directory = opendir(follow->folder);
	const struct dirent *entry;

	*ret = '\0';
	*ret_err = directory ? 0 : -errno;
	while (directory && (entry = readdir(directory))) {
		if (folder__names(entry->d_name, FOLDER_END) && strlen(entry->d_name) < sizeof(struct name) && (!*ret || strcmp(entry->d_name, ret) < 0) && !is_delivered(follow, entry->d_name))
			snprintf(ret, NAME_MAX + 1, "%s", entry->d_name);
	}
	if (directory)
		closedir(directory);
	return *ret;
}

/* Waits so long, or until a signal comes; that of a child is one, too. */
static void wait_for(struct follow *follow, int timeout_ms)
{
	struct pollfd fd = {follow->signals, POLLIN, 0};
	struct signalfd_siginfo info;

	if (poll(&fd, 1, timeout_ms) <= 0)
		return;
	while (read(follow->signals, &info, sizeof(info)) == sizeof(info))
		follow->stopped |= info.ssi_signo != SIGCHLD;
}

/* --- one recording --- */

/* A process of its own: what a recording takes, or breaks, ends with it. Its exit status; 128 and the signal that killed it; -errno. */
static int push_one(struct follow *follow, const char *name)
{
	char path[PATH_MAX], *operands[] = {path, NULL};
	struct cli_options options = *follow->options;
	const pid_t parent = getpid();
	pid_t pid, done = 0;
	int status;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", follow->folder, name) >= sizeof(path))
		return -ENAMETOOLONG;
	/* It may be readable later, as what is damaged will never be. */
	if (access(path, R_OK) && errno != ENOENT)
		return -errno;
	options.operands = operands;
	options.n_operands = 1;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(FOLLOW_AGAIN);
		status = follow->push(&options);
		fflush(NULL);
		_exit(status);
	}
	while (!follow->stopped && !(done = waitpid(pid, &status, WNOHANG)))
		wait_for(follow, -1);
	if (!done) {
		kill(pid, SIGTERM);
		done = waitpid(pid, &status, 0);
	}
	if (done < 0)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* CLI_*: of what it ends with, when it was stopped or cannot go on. */
static int follow_all(struct follow *follow)
{
	char name[NAME_MAX + 1];
	int status = CLI_DONE, err;

	while (!follow->stopped) {
		if (!next_name(follow, name, &err)) {
			if (err) {
				say__failure("", "%s cannot be read: %s", follow->folder, strerror(-err));
				return CLI_COULD_NOT;
			}
			wait_for(follow, LOOK_MS);
			continue;
		}
		err = push_one(follow, name);
		if (follow->stopped && err)
			return status; /* the next time */
		if (err == FOLLOW_AGAIN || err < 0) {
			if (err < 0)
				say("%s cannot be sent: %s", name, strerror(-err));
			return CLI_COULD_NOT;
		}
		/* What cannot be read now cannot be read later: the next one. */
		if (err > 128)
			say("%s is left out: reading it was ended by signal %d", name, err - 128);
		if (err)
			status = CLI_COULD_NOT;
		err = note(follow, name) ?: write_state(follow);
		if (err) {
			say__failure("", "%s cannot be written: %s", follow->state, strerror(-err));
			return CLI_COULD_NOT;
		}
	}
	return status;
}

int follow__run(const struct cli_options *options, const char *url, int (*push)(const struct cli_options *options))
{
	struct follow follow = {.options = options, .folder = options->follow, .push = push, .signals = -1};
	int err = user__drop(user__calling()), status;

	if (err) {
		say("root's rights cannot be given up, so nothing is read: %s", strerror(-err));
		return CLI_COULD_NOT;
	}
	err = open_state(&follow, url);
	if (err) {
		say__failure("--state FILE names another place", "what was delivered cannot be noted in %s: %s", follow.state, strerror(-err));
		buf__free(&follow.delivered);
		return CLI_COULD_NOT;
	}
	follow.signals = recorder__signals((const int[]){SIGCHLD, 0}, NULL);
	status = follow_all(&follow);
	close(follow.signals);
	buf__free(&follow.delivered);
	return status;
}

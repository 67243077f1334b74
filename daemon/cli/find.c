/* SPDX-License-Identifier: MIT */
/* Finds the PID for a name on the command line: by comm, then by a word of the command line, then by any part of it.
 * If several processes match equally well, lists them and takes none. */

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "broker/process.h"
#include "cli/cli.h"

#define KINDS 3 /* the quality of a match: comm, a word, a part of the command line */
#define SHOWN 10u
#define COMMAND_WIDTH 60

/* The matches of one quality: how many, and the first of them, which are printed if there are several. */
struct found {
	uint32_t n;
	struct {
		pid_t pid;
		char command[COMMAND_WIDTH + 1];
	} first[SHOWN];
};

/* What is searched for. file: what the name is a path of; st_ino 0: of none. */
struct wanted {
	const char *name;
	struct stat file;
};

/* Bytes read, followed by a NUL; 0: nothing. */
static size_t read_text(pid_t pid, const char *file, char *text, size_t size)
{
	char path[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	len = file__text(path, text, size);
	return len > 0 ? (size_t)len : 0;
}

/* This process or one of its ancestors: sudo and shells have the name in their command lines, too. */
static bool is_ours(pid_t pid)
{
	return pid > 1 && process__nearest(getpid(), &pid, 1) == pid;
}

/* "/home/me/compile.py" is found by that, by "compile.py", and by "compile". */
static bool is_word(const char *word, const char *name)
{
	const char *base = basename(word);

	return !strcmp(word, name) || !strcmp(base, name) ||
	       (!strncmp(base, name, strlen(name)) && !strcmp(base + strlen(name), ".py"));
}

/* "./compile.py" is found as the file that the process's command line names from its own directory. */
static bool is_file(pid_t pid, const char *word, const struct stat *file)
{
	struct stat other;
	char path[4200];

	if (!file->st_ino)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/%s/%s", pid, *word == '/' ? "root" : "cwd", word);
	return !stat(path, &other) && other.st_dev == file->st_dev && other.st_ino == file->st_ino;
}

/* The kind of match, or KINDS for none. Joins the words of `command` with blanks. `command` is
 * /proc/PID/cmdline: words that end with a NUL each, "python3\0compile.py\0". It is joined last, as the
 * search for words needs the NULs. */
static int match(pid_t pid, const char *comm, char *command, size_t len, const struct wanted *wanted)
{
	const char *name = wanted->name;
	int kind = strcmp(comm, name) ? KINDS : 0;

	for (size_t i = 0; kind && i < len; i += strlen(command + i) + 1)
		if (is_word(command + i, name) || is_file(pid, command + i, &wanted->file))
			kind = 1;
	for (size_t i = 0; i + 1 < len; i++)
		command[i] = command[i] ? command[i] : ' ';
	return kind < KINDS ? kind : strstr(command, name) ? 2 : KINDS;
}

static void try_process(pid_t pid, const struct wanted *wanted, struct found found[KINDS])
{
	char comm[64], command[4096];
	size_t len = read_text(pid, "cmdline", command, sizeof(command));
	struct found *of;
	int kind;

	/* Kernel threads and zombies have an empty command line. */
	if (!len || !read_text(pid, "comm", comm, sizeof(comm)) || is_ours(pid))
		return;
	comm[strcspn(comm, "\n")] = '\0';
	kind = match(pid, comm, command, len, wanted);
	if (kind == KINDS)
		return;
	of = &found[kind];
	/* found[] keeps only the first ones, and counts all. */
	if (of->n < SHOWN) {
		of->first[of->n].pid = pid;
		snprintf(of->first[of->n].command, sizeof(of->first[0].command), "%.*s", COMMAND_WIDTH, command);
	}
	of->n++;
}

static void print_several(const char *name, const struct found *found)
{
	say("'%s' is the name of %u processes: give the PID of one", name, found->n);
	for (uint32_t i = 0; i < found->n && i < SHOWN; i++)
		say__more("%8d  %s", found->first[i].pid, found->first[i].command);
	if (found->n > SHOWN)
		say__more("%8s  and %u more", "", found->n - SHOWN);
}

uint32_t find__pythons(pid_t *ret, uint32_t max)
{
	char path[64], exe[4096];
	struct dirent *entry;
	struct stat status;
	uint32_t n = 0;
	DIR *dir = opendir("/proc");

	while (dir && n < max && (entry = readdir(dir))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/%d/exe", pid);
		len = pid > 0 && !is_ours(pid) ? readlink(path, exe, sizeof(exe) - 1) : -1;
		exe[len > 0 ? len : 0] = '\0';
		snprintf(path, sizeof(path), "/proc/%d", pid);
		if (len > 0 && !strncmp(basename(exe), "python", 6) && !stat(path, &status) && status.st_uid == geteuid())
			ret[n++] = pid;
	}
	if (dir)
		closedir(dir);
	return n;
}

int find__process(const char *name, pid_t *ret)
{
	struct found found[KINDS] = {};
	struct dirent *entry;
	struct wanted wanted = {.name = name};
	DIR *dir = opendir("/proc");
	int kind;

	if (!strchr(name, '/') || stat(name, &wanted.file) || !S_ISREG(wanted.file.st_mode))
		wanted.file.st_ino = 0;

	while (dir && (entry = readdir(dir)))
		if (isdigit((unsigned char)*entry->d_name))
			try_process((pid_t)strtol(entry->d_name, NULL, 10), &wanted, found);
	if (dir)
		closedir(dir);
	/* The best quality with a match decides. Two processes with that name are ambiguous, even if a worse
	 * quality had exactly one. */
	for (kind = 0; kind < KINDS && !found[kind].n; kind++)
		;
	if (kind == KINDS) {
		say__failure("`pgrep -af python` lists the Pythons that run", "there is no process '%s': neither a PID nor a name of one", name);
		return CLI_USAGE;
	}
	if (found[kind].n > 1) {
		print_several(name, &found[kind]);
		return CLI_USAGE;
	}
	*ret = found[kind].first[0].pid;
	say__note("process %d: %s", *ret, found[kind].first[0].command);
	return CLI_DONE;
}

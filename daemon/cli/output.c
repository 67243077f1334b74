/* SPDX-License-Identifier: MIT */
/* Writes to a temporary file beside the wanted name and renames it at the end, so that a file of that name is
 * always complete. All names are opened relative to a directory descriptor that is opened once: if someone
 * replaces the path by a link meanwhile, root does not follow it.
 *
 *     svd.svg          svd.svg is .svd.svg.k3f9x0 until it is complete
 *     svd.cprof        a recording is svd.cprof.part, which the user may want after a crash
 *
 * Under sudo a user's directory is written to by a process that may still be root. Three things keep that
 * harmless: files are created with the user's effective ids (user__enter), links are refused (O_NOFOLLOW),
 * and O_EXCL never opens what somebody else has put there. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/user.h"

/* dirname() and basename() modify their argument, so each gets a copy. "out/svd.svg" -> "out" and "svd.svg";
 * "svd.svg" -> "." and "svd.svg". `name` has the size of NAME_MAX and a NUL. */
static int split(const char *path, char directory[PATH_MAX], char name[256])
{
	char copy[PATH_MAX];
	const char *base;

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (path[strlen(path) - 1] == '/')
		return -EISDIR;
	strcpy(copy, path);
	strcpy(directory, dirname(copy));
	strcpy(copy, path);
	base = basename(copy);
	if (strlen(base) >= 256)
		return -ENAMETOOLONG;
	strcpy(name, base);
	return 0;
}

/* With the user's rights: creates a new file under an unused name, ".NAME.ab12cd", or "NAME.part" for a recording. */
static int create_temporary(int directory, const char *name, bool part, char *temporary, size_t size)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";

	for (int attempt = 0; attempt < 16; attempt++) {
		unsigned char random[6];
		char suffix[7] = "";
		int i, fd;

		/* Not against guessing, which O_EXCL makes useless, but so that two cprofd in one directory
		 * do not wait for each other's names. */
		if (getrandom(random, sizeof(random), 0) != sizeof(random))
			return -errno;
		for (i = 0; i < 6; i++)
			suffix[i] = letters[random[i] % (sizeof(letters) - 1)];
		if (!part)
			/* A name of 255 bytes is legal, and with the suffix it would not be: cut. */
			snprintf(temporary, size, ".%.240s.%s", name, suffix);
		else if (!attempt)
			snprintf(temporary, size, "%.240s.part", name);
		else
			snprintf(temporary, size, "%.240s.%s.part", name, suffix);
		/* Readable as well: the summary is made from the recording that this descriptor has written.
		 * The mode is restricted by the user's umask. */
		fd = openat(directory, temporary,
			    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EEXIST)
			return fd < 0 ? -errno : fd;
	}
	return -EEXIST;
}

/* -errno; -ELOOP if the name is a symbolic link. A pipe or device is opened as it is, without a temporary file. */
static int open_as_user(const char *path, bool part, struct output *output)
{
	char directory[PATH_MAX];
	struct stat status;
	int err = split(path, directory, output->name);

	if (err)
		return err;
	output->directory = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (output->directory < 0)
		return -errno;
	if (!fstatat(output->directory, output->name, &status, AT_SYMLINK_NOFOLLOW)) {
		if (S_ISLNK(status.st_mode))
			return -ELOOP;
		if (S_ISDIR(status.st_mode))
			return -EISDIR;
		/* /dev/stdout, a FIFO, a terminal. Renaming over it would replace it with a file. O_NOCTTY: a
		 * terminal must not become ours. */
		if (!S_ISREG(status.st_mode)) {
			output->fd = openat(output->directory, output->name,
					    O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
			err = output->fd < 0 ? -errno : 0;
			close(take_fd(&output->directory));
			return err;
		}
		/* rename() needs write permission only for the directory; do not replace a file that the user may
		 * not write. */
		if (faccessat(output->directory, output->name, W_OK, AT_EACCESS) < 0)
			return -errno;
	}
	output->fd = create_temporary(output->directory, output->name, part, output->temporary,
				      sizeof(output->temporary));
	return output->fd < 0 ? output->fd : 0;
}

/* A duplicate, as fclose() closes its descriptor, and output__commit() and the summary still need this one. */
FILE *output__stream(const struct output *output)
{
	int fd = fcntl(output->fd, F_DUPFD_CLOEXEC, 3);
	FILE *stream = fd < 0 ? NULL : fdopen(fd, "w");

	if (!stream && fd >= 0)
		close(fd);
	return stream;
}

int output__create(const char *path, bool part, struct output *ret)
{
	const struct user *user = user__calling();
	int err = user__enter(user);

	*ret = OUTPUT_NONE;
	ret->path = path;
	if (!err) {
		err = open_as_user(path, part, ret);
		user__leave(user);
	}
	/* Root is given up before the rename: then this directory must still be writable (user.h). */
	if (!err && ret->directory >= 0)
		user__writes_in(ret->directory);
	if (err)
		output__close(ret);
	return err;
}

int output__open(const char *path, bool sampling, bool part, struct output *ret)
{
	const struct user *user = user__calling();
	int err;

	*ret = OUTPUT_NONE;
	ret->path = path;
	if (!strcmp(path, "-")) {
		/* A duplicate like any other file's descriptor, so that output__close() does not close stdout
		 * itself. */
		ret->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		if (ret->fd >= 0)
			return CLI_DONE;
		say__failure("", "stdout is not open: %s", strerror(errno));
		return CLI_COULD_NOT;
	}
	err = output__create(path, part, ret);
	if (!err)
		return CLI_DONE;
	if (err == -ELOOP)
		say__failure("name the file itself with -o (stdout is `-o -`)",
			     "%s is a symbolic link, which is not followed", path);
	else
		say__failure(sampling ? "choose another place with -o FILE; nothing was sampled yet"
				      : "choose another place with -o FILE",
			     "%s cannot be written%s%s: %s", path, user->other ? " by " : "",
			     user->other ? user->name : "", strerror(-err));
	return CLI_COULD_NOT;
}

int output__commit(struct output *output)
{
	const struct user *user = user__calling();
	int err = 0;

	/* Written directly, or renamed already. */
	if (output->directory < 0 || !*output->temporary)
		return 0;
	err = user__enter(user);
	if (err)
		return err;
	if (renameat(output->directory, output->temporary, output->directory, output->name) < 0)
		err = -errno;
	else
		*output->temporary = '\0';
	user__leave(user);
	return err;
}

/* Removing the temporary file is right for every failure: what is incomplete is of no use. A recording is the
 * exception: it is committed, or its writer keeps it. */
void output__close(struct output *output)
{
	const struct user *user = user__calling();

	if (output->directory >= 0 && *output->temporary && !user__enter(user)) {
		unlinkat(output->directory, output->temporary, 0);
		user__leave(user);
	}
	if (output->fd >= 0)
		close(take_fd(&output->fd));
	if (output->directory >= 0)
		close(take_fd(&output->directory));
}

/* STEM.cprof, or STEM-1.cprof ... if that exists. The stem has the time in seconds, so a number is needed
 * only by two recordings that begin at once. */
static int create_recording(struct recording_file *file, const char *stem)
{
	for (int number = 0; number < 1000; number++) {
		if (number)
			snprintf(file->name, sizeof(file->name), "%.230s-%d.cprof", stem, number);
		else
			snprintf(file->name, sizeof(file->name), "%.230s.cprof", stem);
		file->fd = openat(file->directory, file->name,
				  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (file->fd >= 0 || errno != EEXIST)
			return file->fd < 0 ? -errno : 0;
	}
	return -EEXIST;
}

int recording_file__open(const struct output *output, const char *stem, struct recording_file *ret)
{
	const struct user *user = user__calling();
	const char *temporary = getenv("TMPDIR");
	char directory[PATH_MAX] = "", name[256];
	int err;

	*ret = RECORDING_FILE_NONE;
	/* `-o -`, a pipe or a device have no directory of their own. */
	if (output->directory < 0 || split(output->path, directory, name))
		snprintf(directory, sizeof(directory), "%s",
			 temporary && *temporary ? temporary : "/tmp");
	err = user__enter(user);
	if (!err) {
		if (output->directory >= 0)
			ret->directory = fcntl(output->directory, F_DUPFD_CLOEXEC, 3);
		else
			ret->directory = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
		err = ret->directory < 0 ? -errno : create_recording(ret, stem);
		user__leave(user);
	}
	if (!err)
		user__writes_in(ret->directory);
	if (err) {
		say__failure(
			"choose another place with -o FILE, or set TMPDIR; nothing was sampled yet",
			"no recording can be made in %s: %s", directory, strerror(-err));
		recording_file__close(ret);
		return CLI_COULD_NOT;
	}
	snprintf(ret->path, sizeof(ret->path), "%s%s%.255s",
		 strcmp(directory, ".") ? directory : "", strcmp(directory, ".") ? "/" : "",
		 ret->name);
	return CLI_DONE;
}

void recording_file__remove(struct recording_file *file)
{
	const struct user *user = user__calling();

	if (file->fd >= 0 && !user__enter(user)) {
		unlinkat(file->directory, file->name, 0);
		user__leave(user);
	}
	recording_file__close(file);
}

void recording_file__close(struct recording_file *file)
{
	if (file->fd >= 0)
		close(take_fd(&file->fd));
	if (file->directory >= 0)
		close(take_fd(&file->directory));
}

/* SPDX-License-Identifier: MIT */
/* Opens recordings, reads the options that all readers share (filters, --hlo), and explains what is wrong
 * with a file. convert, report and diff read through it; attach and record write.
 *
 * A recording may come from anyone. It is opened with the calling user's rights, and what reading it may cost
 * is limited in proportion to its size (base/limits.h). */
#include "cli/input.h"

#include <fcntl.h>
#include <limits.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/user.h"
#include "events/events.h"
#include "export/hlo.h"

/* Most bytes of a file for --hlo; the text of JAX's largest models has some 10 MB. */
#define HLO_MAX (256u << 20)

/* "-" is stdin. The fd, or -1 with errno. */
static int input__open(const char *path)
{
	const struct user *user = user__calling();
	int fd;

	if (!strcmp(path, "-"))
		/* A duplicate, so that callers close what they get without a special case. 3: never one of
		 * the standard descriptors, not even if one of these is closed. */
		return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	if (user__enter(user))
		return -1;
	/* O_NOCTTY: a terminal as FILE must not become ours. user__leave() leaves errno alone if it succeeds,
	 * and it does not return if it fails. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	user__leave(user);
	return fd;
}

/* The depth has a sentence of its own, as --no-limits does not lift it: readers keep arrays of that many
 * frames. */
bool input__print_limit(int err, const char *path)
{
	if (err == -EOVERFLOW)
		say__failure("cprofd makes none that deep", "%s is refused: a stack of it has more than %u frames", path, EVENTS_DEPTH_MAX);
	else if (limits__words(err))
		say__failure("--no-limits reads it anyway: only if you know where it comes from", "%s is refused: %s", path, limits__words(err));
	else
		return false;
	return true;
}

/* NAME.part is a recording's name while it is being written. If only that exists, cprofd was killed. */
static bool print_part(const char *path)
{
	char part[PATH_MAX];
	int fd = snprintf(part, sizeof(part), "%s.part", path) < (int)sizeof(part) ? input__open(part) : -1;

	if (fd < 0)
		return false;
	close(fd);
	say__failure("it holds what was recorded up to then, and reads as any recording",
		     "there is no %s, but %s: cprofd was ended before it was done", path, part);
	return true;
}

/* The format of a file that was made from a recording, judged by its name; NULL: not one. */
static const char *profile_of(const char *path)
{
	bool sure = false;
	const struct exporter *exporter = exporter__of_name(path, &sure);

	return exporter && sure && strcmp(exporter->name, "events") ? exporter->name : NULL;
}

/* The same, judged by its content. A user who passes svd.svg under another name gets advice, in place of
 * "damaged". Only the first 4 kB count: all of these formats name themselves at the beginning. */
static const char *profile_in(const char *path)
{
	static const struct {
		const char *text, *format;
	} marks[] = {{"speedscope.app/file-format-schema", "speedscope"}, {"<svg", "svg"}, {"<!DOCTYPE html", "html"}, {"<!doctype html", "html"}};
	_cleanup_close_ int fd = input__open(path);
	char begin[4096];
	ssize_t n = fd < 0 ? 0 : read(fd, begin, sizeof(begin));

	for (size_t i = 0; n > 0 && i < sizeof(marks) / sizeof(marks[0]); i++)
		if (memmem(begin, (size_t)n, marks[i].text, strlen(marks[i].text)))
			return marks[i].format;
	return NULL;
}

/* -EBADMSG: not a recording; -ENOMSG: nothing in it; -EPROTONOSUPPORT: the version in its first line is
 * newer; -ESPIPE: it had to be read twice. These come from recording__read() (events/events.h). */
void input__print_failure(int err, const char *path)
{
	const char *format = err == -EBADMSG ? profile_of(path) ?: profile_in(path) : NULL;

	if ((err == -ENOENT && print_part(path)) || input__print_limit(err, path))
		return;
	if (format)
		say__failure("this command reads recordings: keep one with `cprofd attach -o NAME.cprof`, and make every other format of it with `cprofd convert`",
			     "%s is a file of %s, made out of a recording", path, format);
	else if (err == -EBADMSG)
		say__failure("`cprofd attach -o NAME.cprof` writes recordings",
			     "%s is not a recording, or it is damaged", path);
	else if (err == -ENOMSG)
		say__failure("`cprofd attach -o NAME.cprof` writes recordings", "%s is empty, or ends before its recording begins", path);
	else if (err == -EPROTONOSUPPORT)
		say__failure("use the cprofd that made it, or a newer one",
			     "%s was made by a version of cprofd that this one does not understand",
			     path);
	else if (err == -ESPIPE)
		say__failure("give it a file", "%s is a pipe, and a recording has to be read twice here", path);
	else
		say__failure("", "%s cannot be read: %s", path, strerror(-err));
}

int input__open_recording(const char *path)
{
	int fd = input__open(path);

	if (fd < 0)
		input__print_failure(-errno, path);
	else
		limits__add_file(fd);
	return fd;
}

/* Grows the buffer by 64 kB, as a pipe has no size that could be asked for. At most HLO_MAX and one step are
 * held. */
static int read_all(int fd, struct buf *text)
{
	ssize_t got = 1;

	while (got) {
		if (text->len > HLO_MAX)
			return -EFBIG;
		if (buf__reserve(text, 1u << 16))
			return -ENOMEM;
		got = read(fd, text->data + text->len, 1u << 16);
		if (got < 0 && errno != EINTR)
			return -errno;
		text->len += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

struct export_options input__filters(const struct cli_options *options)
{
	struct export_options filters = {
		.thread = options->thread,
		.process = options->process,
		.from = options->from_ns,
		.to = options->to_ns,
		.class_name = options->class_name,
		.function = options->function,
		.module = options->module,
		.hide_imports = options->hide_imports,
		.hide_native = !strcmp(options->shown, "off"),
		.n_exclude = options->n_exclude,
		.skip_first = options->skip_first,
	};

	memcpy(filters.exclude, options->exclude, sizeof(filters.exclude));
	return filters;
}

int input__hlo(const char *path, struct hlo **ret)
{
	_cleanup_close_ int fd = path ? input__open(path) : -1;
	struct buf text = {};
	int err;

	*ret = NULL;
	if (!path)
		return CLI_DONE;
	err = fd < 0 ? -errno : read_all(fd, &text) ?: hlo__new(text.data, text.len, ret);
	buf__free(&text);
	if (err == -EBADMSG)
		say__failure("write what `jax.jit(f).lower(...).compile().as_text()` returns to it", "%s names no operation: it is no optimised HLO text", path);
	else if (err)
		say__failure("", "%s cannot be read: %s", path, strerror(-err));
	return err ? CLI_COULD_NOT : CLI_DONE;
}

void input__print_hlo(const char *path, const struct hlo *hlo)
{
	if (hlo && !hlo__found(hlo))
		say("%s names no function that XLA made in the recording", path);
}

/* O_NONBLOCK: a FIFO is not waited for. */
int input__open_source(const char *path)
{
	const struct user *user = user__calling();
	int fd, err = user__enter(user);

	if (err)
		return err;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	err = fd < 0 ? -errno : 0;
	user__leave(user);
	return err ?: fd;
}

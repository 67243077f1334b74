/* SPDX-License-Identifier: MIT */
/* Reads rules from a user's file or directory. The client does this, with the user's own rights; the engine
 * gets the texts as requests (cli/user_rules.c). */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "rules/rules.h"

/* An error of the file as a whole: line 0. */
static int fail(struct rules_error *ret_error, const char *path, int err)
{
	*ret_error = (struct rules_error){};
	snprintf(ret_error->file, sizeof(ret_error->file), "%s", path);
	snprintf(ret_error->sentence, sizeof(ret_error->sentence), "these rules cannot be read: %s", strerror(-err));
	return err;
}

/* ".rules" alone is a hidden file without a name. */
static int is_rules(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot && dot != entry->d_name && !strcmp(dot, ".rules");
}

/* What the recursion passes along. */
struct reading {
	rules_text *each;
	void *ctx;
	struct rules_error *error;
};

static int read_path(const struct reading *reading, const char *path);

static int read_directory(const struct reading *reading, const char *path)
{
	struct dirent **entries;
	/* In the order of names: of two files about one compiler the later one wins. A directory called
	 * x.rules is read, too; links that form a cycle end with ELOOP, as a path may go through 40 of them. */
	int n = scandir(path, &entries, is_rules, alphasort), i, err = 0;

	if (n < 0)
		return fail(reading->error, path, -errno);
	for (i = 0; i < n; i++) {
		char name[4096];

		if (!err && snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name) >= (int)sizeof(name))
			err = fail(reading->error, path, -ENAMETOOLONG);
		err = err ?: read_path(reading, name);
		free(entries[i]);
	}
	free(entries);
	return err;
}

static int read_path(const struct reading *reading, const char *path)
{
	/* O_NONBLOCK: a FIFO of that name must not stop the program. */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_free_ char *text = NULL;
	struct stat stat;
	ssize_t len;

	if (fd < 0 || fstat(fd, &stat))
		return fail(reading->error, path, -errno);
	if (S_ISDIR(stat.st_mode))
		return read_directory(reading, path);
	text = malloc(RULES_TEXT_MAX + 1);
	if (!text)
		return fail(reading->error, path, -ENOMEM);
	/* One byte more than a text may have, so that rules__parse() sees that it is too long. */
	len = file__read(fd, text, RULES_TEXT_MAX + 1);
	return len < 0 ? fail(reading->error, path, (int)len)
		       : reading->each(reading->ctx, path, text, (size_t)len, reading->error);
}

int rules__each_text(const char *path, rules_text *each, void *ctx, struct rules_error *ret_error)
{
	const struct reading reading = {each, ctx, ret_error};

	return read_path(&reading, path);
}

static int parse(void *ctx, const char *file, const char *text, size_t len, struct rules_error *ret_error)
{
	return rules__parse(ctx, file, text, len, ret_error);
}

int rules__file(struct rules *rules, const char *path, struct rules_error *ret_error)
{
	return rules__each_text(path, parse, rules, ret_error);
}

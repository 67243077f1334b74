/* The lines of a file: of itself, or of its debug file. They touch nothing that symbol_file__find() reads: another
 * thread may be in it. */
#include "symbols/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file_identity.h"
#include "base/hash.h"
#include "base/kept.h"
#include "symbols/debug_file.h"
#include "symbols/line_spans.h"

#define KEPT_MAX (8u << 20) /* bytes of one file's lines */
#define KEPT_NAME_MAX 64u

/* --- kept from session to session --- */

/* Of which files the lines are: first of all in what is kept, so that a name which two share does no harm. */
struct lines_key {
	struct file_identity file, source;
};

static int key_of(const struct symbol_file *file, struct lines_key *ret, char *name)
{
	static const struct hash_seed seed = {0x8f3a6c1d5b7e9021ull, 0x1b873593cc9e2d51ull};
	int err = file->line_folder > 0 && file->bytes.fd >= 0 && file->lines_bytes && file->lines_bytes->fd >= 0 ? 0 : -ENOENT;

	if (!err)
		err = file_identity__of(file->bytes.fd, &ret->file);
	if (!err)
		err = file_identity__of(file->lines_bytes->fd, &ret->source);
	if (!err)
		snprintf(name, KEPT_NAME_MAX, "lines-%016llx" KEPT_SUFFIX,
			 (unsigned long long)hash__bytes(&seed, ret, sizeof(*ret)));
	return err;
}

/* NULL: nothing was kept. */
static struct line_spans *load_known(const struct symbol_file *file)
{
	_cleanup_free_ void *data = NULL;
	struct line_spans *spans;
	struct lines_key key;
	char name[KEPT_NAME_MAX];
	size_t len;

	if (key_of(file, &key, name) || kept__load(file->line_folder, name, KEPT_MAX, &data, &len))
		return NULL;
	if (len < sizeof(key) || memcmp(data, &key, sizeof(key)) || !(spans = calloc(1, sizeof(*spans))))
		return NULL;
	if (line_spans__unpack(spans, (const char *)data + sizeof(key), len - sizeof(key))) {
		free(spans);
		return NULL;
	}
	return spans;
}

static void store_known(const struct symbol_file *file)
{
	struct line_spans *spans = lines__known(file->lines);
	struct lines_key key;
	struct buf data = {};
	char name[KEPT_NAME_MAX];

	if (!spans || !spans->changed || key_of(file, &key, name))
		return;
	spans->changed = false;
	if (!buf__append(&data, &key, sizeof(key)) && !line_spans__pack(spans, &data) && data.len <= KEPT_MAX)
		kept__store(file->line_folder, name, data.data, data.len);
	buf__free(&data);
}

void symbol_file__keep_lines(struct symbol_file *file, int folder)
{
	file->line_folder = folder;
}

/* --- */

/* A debug file for its lines alone. */
static int take(struct symbol_file *file, int fd)
{
	struct line_source *source = calloc(1, sizeof(*source));
	int err = source ? elf_bytes__init_fd(&source->bytes, fd) : -ENOMEM;

	if (!err)
		err = elf_image__open(&source->bytes, &source->image);
	if (err)
		free(source);
	else
		file->line_source = source;
	return err;
}

void line_source__free(struct line_source *source)
{
	if (!source)
		return;
	elf_image__free(&source->image);
	elf_bytes__free(&source->bytes);
	free(source);
}

static int seek(struct symbol_file *file)
{
	int fd, err;

	if (file->debug_sought || file->line_source_sought || !file->opener)
		return -ENOENT;
	file->line_source_sought = true;
	fd = debug_file__find(&file->image, file->path, file->opener);
	if (fd < 0)
		return -ENOENT;
	err = take(file, fd);
	if (err)
		close(fd);
	return err;
}

static int open_in(struct symbol_file *file, const struct elf_image *image)
{
	struct line_spans *known;
	int err;

	file->lines_bytes = image->bytes;
	known = load_known(file);
	err = lines__open(image, known, &file->lines);
	if (err && known) {
		line_spans__free(known);
		free(known);
	}
	return err;
}

static int open_lines(struct symbol_file *file)
{
	int err = open_in(file, &file->image);

	if (err != -ENOENT)
		return err;
	if (file->debug)
		return open_in(file, &file->debug->image);
	err = file->line_source ? 0 : seek(file);
	return err ? err : open_in(file, &file->line_source->image);
}

int symbol_file__open_lines(struct symbol_file *file)
{
	if (file->kernel)
		return -ENOENT;
	if (!file->lines && !file->lines_error)
		file->lines_error = open_lines(file);
	return file->lines_error;
}

void symbol_file__close_lines(struct symbol_file *file)
{
	if (!file || !file->lines)
		return;
	store_known(file);
	lines__rest(file->lines);
}

int symbol_file__line(struct symbol_file *file, uint64_t vaddr, struct source_line *ret)
{
	int err = symbol_file__open_lines(file);

	return err ? err : lines__find(file->lines, vaddr, ret);
}

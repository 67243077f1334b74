/* SPDX-License-Identifier: MIT */
/* The lines of a file: of itself, or of its debug file. They touch nothing that symbol_file__find() reads: another
 * thread may be in it.
 *
 * Where the lines come from, in this order: the file itself; the debug file that gave its symbols; a debug file that
 * is found now, for its lines alone. Spans of lines are stored in the opener's folder ("lines", line_spans.h), and
 * packed sections as they are unpacked (unpacked.c). Both are found again by the identity of both files. */
#include "symbols/file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kept.h"
#include "base/schedule.h"
#include "symbols/debug_file.h"

#define KEPT_MAX (8u << 20) /* bytes of one file's lines */
#define KEPT_KIND "lines"

/* --- kept from session to session --- */

/* -ENOENT: nothing may be stored: no folder, or an image in memory. -ESTALE: what was read is of another state of
 * the file. */
static int key_of(const struct symbol_file *file, struct kept_key *ret)
{
	if (file->folder <= 0 || file->bytes.fd < 0 || !file->lines_bytes || file->lines_bytes->fd < 0)
		return -ENOENT;
	if (elf_bytes__stale(&file->bytes) || elf_bytes__stale(file->lines_bytes))
		return -ESTALE;
	return kept_key__of(file->bytes.fd, file->lines_bytes->fd, ret);
}

void symbol_file__store_lines(const struct symbol_file *file)
{
	struct kept_key key;
	_cleanup_(buf__free) struct buf data = {};

	if (!key_of(file, &key) && !lines__pack(file->lines, &data) && data.len <= KEPT_MAX - sizeof(key))
		kept__put(file->folder, KEPT_KIND, &key, &data);
}

/* --- */

/* A debug file for its lines alone. */
static int take(struct symbol_file *file, int fd)
{
	struct line_source *source = calloc(1, sizeof(*source));
	int err = source ? elf_bytes__init_fd(&source->bytes, fd) : -ENOMEM;

	err = err ?: elf_image__open(&source->bytes, ELF_ALL, &source->image);
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

/* Opens the lines of this image, with what an earlier session stored. A stored file that does not fit is ignored by
 * lines__open(). */
static int open_in(struct symbol_file *file, const struct elf_image *image)
{
	struct lines_kept kept = {.folder = -1};
	struct kept_data known = {};
	int err;

	file->lines_bytes = image->bytes;
	if (!key_of(file, &kept.key)) {
		kept.folder = file->folder;
		kept__find(file->folder, KEPT_KIND, &kept.key, KEPT_MAX, &known);
	}
	kept.known = known.data;
	kept.len = known.len;
	err = lines__open(image, &kept, &file->lines);
	free(known.bytes);
	return err;
}

/* Only -ENOENT (no debug information here) leads to the next file; damaged or too large information is the final
 * answer. */
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

/* All that is known is written anew each time: at the end, and now and then for a session that does not get there. */
void symbol_file__close_lines(struct symbol_file *file)
{
	uint64_t now = clock__now();

	if (!file || !file->lines)
		return;
	if (file->store_due && now >= file->store_due)
		symbol_file__store_lines(file);
	if (!file->store_due || now >= file->store_due)
		file->store_due = now + SCHEDULE_STORE_LINES_NS;
	lines__rest(file->lines);
}

int symbol_file__line(struct symbol_file *file, uint64_t vaddr, struct source_line *ret)
{
	int err = symbol_file__open_lines(file);

	return err ? err : lines__find(file->lines, vaddr, ret);
}

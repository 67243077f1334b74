/* SPDX-License-Identifier: MIT */
/* The lines of a file: of itself, or of its debug file. They touch nothing that symbol_file__find() reads: another
 * thread may be in it.
 *
 * Where the lines come from, in this order: the file itself; the debug file that gave its symbols; a debug file that
 * is found now, for its lines alone. Two things are stored in the opener's folder: spans of lines ("lines",
 * line_spans.h) and the places at which packed sections can be entered ("places", unpack.h). Each is found again by
 * the identity of both files. */
#include "symbols/file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/kept.h"
#include "symbols/debug_file.h"

#define KEPT_MAX (8u << 20) /* bytes of one file's lines */
#define KEPT_KIND "lines"
#define KEPT_PLACES "places" /* where packed debug information can be entered */

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

/* Failures are silent: the next session reads debug information again. */
static void store_known(const struct symbol_file *file)
{
	struct kept_key key;
	struct buf data = {};

	if (!key_of(file, &key) && !lines__pack(file->lines, &data) && data.len <= KEPT_MAX - sizeof(key))
		kept__put(file->folder, KEPT_KIND, &key, &data);
	buf__clear(&data);
	if (!key_of(file, &key) && !lines__pack_places(file->lines, &data) && data.len <= KEPT_MAX - sizeof(key))
		kept__put(file->folder, KEPT_PLACES, &key, &data);
	buf__free(&data);
}

/* Before debug information is read for the first time: not at opening, as most sessions find all their addresses in
 * "lines". */
static void seek_places(struct symbol_file *file)
{
	struct kept_data known;
	struct kept_key key;

	if (file->places_sought)
		return;
	file->places_sought = true;
	if (key_of(file, &key) || kept__find(file->folder, KEPT_PLACES, &key, KEPT_MAX, &known))
		return;
	lines__take_places(file->lines, known.data, known.len);
	free(known.bytes);
}

/* --- */

/* A debug file for its lines alone. */
static int take(struct symbol_file *file, int fd)
{
	struct line_source *source = calloc(1, sizeof(*source));
	int err = source ? elf_bytes__init_fd(&source->bytes, fd) : -ENOMEM;

	if (!err)
		err = elf_image__open(&source->bytes, ELF_ALL, &source->image);
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
	struct kept_data known = {};
	struct kept_key key;
	int err;

	file->lines_bytes = image->bytes;
	if (!key_of(file, &key))
		kept__find(file->folder, KEPT_KIND, &key, KEPT_MAX, &known);
	err = lines__open(image, known.data, known.len, &file->lines);
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

	if (err)
		return err;
	if (!lines__knows(file->lines, vaddr))
		seek_places(file);
	return lines__find(file->lines, vaddr, ret);
}

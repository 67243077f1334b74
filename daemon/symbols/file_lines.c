/* The lines of a file: of itself, or of its debug file. They touch nothing that symbol_file__find() reads: another
 * thread may be in it. */
#include "symbols/file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "symbols/debug_file.h"

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

static int open_lines(struct symbol_file *file)
{
	int err = lines__open(&file->image, &file->lines);

	if (err != -ENOENT)
		return err;
	if (file->debug)
		return lines__open(&file->debug->image, &file->lines);
	err = file->line_source ? 0 : seek(file);
	return err ? err : lines__open(&file->line_source->image, &file->lines);
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
	if (file && file->lines)
		lines__rest(file->lines);
}

int symbol_file__line(struct symbol_file *file, uint64_t vaddr, struct source_line *ret)
{
	int err = symbol_file__open_lines(file);

	return err ? err : lines__find(file->lines, vaddr, ret);
}

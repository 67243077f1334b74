/* The lines of a file: of itself, or of its debug file. */
#include "symbols/file.h"

#include <errno.h>

static int open_lines(struct symbol_file *file)
{
	int err = lines__open(&file->image, file->path, file->opener, &file->lines);

	if (err != -ENOENT)
		return err;
	err = symbol_file__seek_debug(file);
	if (err)
		return err;
	return lines__open(&file->debug->image, file->path, file->opener, &file->lines);
}

int symbol_file__lines(struct symbol_file *file, uint64_t vaddr,
		       const struct source_line **ret_lines, size_t *ret_n)
{
	*ret_n = 0;
	if (file->kernel)
		return -ENOENT;
	if (!file->lines && !file->lines_error)
		file->lines_error = open_lines(file);
	if (file->lines_error)
		return file->lines_error;
	return lines__find(file->lines, vaddr, ret_lines, ret_n);
}

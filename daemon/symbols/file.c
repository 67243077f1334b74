/* SPDX-License-Identifier: MIT */
/* Opening a symbol_file: which of its tables are loaded, and in which order. Runs on the namer's thread
 * (codemap/namer.c); it takes 50 ms for libLLVM. docs/symbols.md, "Where names come from", is the table that
 * load_all() implements.
 *
 * Ownership of an fd: symbol_file__open() takes it over only when it succeeds, hence `bytes.fd = -1` before each
 * free on error. */
#include "symbols/file.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "symbols/debug_file.h"
#include "symbols/debugdata.h"
#include "symbols/kallsyms.h"
#include "symbols/vtable.h"

#define READ_STEP (64u << 10)

void symbol__free(struct symbol *symbol)
{
	buf__free(&symbol->name);
	buf__free(&symbol->module);
	buf__free(&symbol->strings);
}

void symbol_file__free(struct symbol_file *file)
{
	if (!file)
		return;
	if (file->lines)
		symbol_file__store_lines(file);
	lines__free(file->lines);
	line_source__free(file->line_source);
	symbol_file__free(file->debug);
	symbol_file__free(file->debugdata);
	for (size_t i = 0; i < SYMBOL_SOURCE_COUNT; i++)
		symbol_table__free(&file->tables[i]);
	code_ranges__free(&file->ranges);
	elf_image__free(&file->image);
	elf_bytes__free(&file->bytes);
	free(file->path);
	free(file);
}

/* A table that is missing or damaged is a table without symbols: the next source answers. Only what may be different
 * at the next attempt (memory, a read that failed) ends the opening. */
static int tolerable(int err)
{
	return err == -ENOMEM || err == -EIO ? err : 0;
}

static int load(struct symbol_file *file, enum symbol_source source, uint32_t type,
		const struct symbol_table *skip, uint32_t extend)
{
	struct symbol_table *table = &file->tables[source];
	struct elf_symbols symbols;
	int err = elf_image__symbols(&file->image, type, &symbols);

	if (!err)
		err = skip ? symbol_table__load(table, &file->image, &symbols, &file->ranges, skip, extend)
			   : symbol_table__open(table, &file->image, &symbols, &file->ranges, extend, type == SHT_SYMTAB ? file->folder : 0);
	table->source = source;
	return tolerable(err);
}

/* A file that only gives symbols to another one. */
static int open_helper(struct elf_bytes *bytes, enum symbol_source source, uint32_t extend, int folder,
		       struct symbol_file **ret)
{
	struct symbol_file *file = calloc(1, sizeof(*file));
	int err;

	if (!file)
		return -ENOMEM;
	file->bytes = *bytes;
	file->folder = folder;
	file->debug_sought = true;
	err = elf_image__open(&file->bytes, ELF_ALL, &file->image);
	err = err ?: code_ranges__of(&file->image, &file->ranges);
	err = err ?: load(file, source, SHT_SYMTAB, NULL, extend);
	if (err) {
		file->bytes = (struct elf_bytes)ELF_BYTES_NONE; /* stay the caller's */
		symbol_file__free(file);
		return err;
	}
	*ret = file;
	return 0;
}

static int take_debug_file(struct symbol_file *file, int fd)
{
	struct elf_bytes bytes;
	int err = elf_bytes__init_fd(&bytes, fd);

	return err ? err : open_helper(&bytes, SYMBOL_FROM_DEBUG_FILE, EXTEND_ALWAYS, file->folder, &file->debug);
}

int symbol_file__seek_debug(struct symbol_file *file)
{
	int fd, err;

	if (file->debug)
		return 0;
	if (file->debug_sought || !file->opener)
		return -ENOENT;
	file->debug_sought = true;
	fd = debug_file__find(&file->image, file->path, file->opener);
	if (fd < 0)
		return fd;
	err = take_debug_file(file, fd);
	if (err)
		close(fd);
	return err;
}

/* The unpacked file is owned by the helper. `extend` is 0: .gnu_debugdata has only the functions that .dynsym lacks,
 * so what follows a symbol without size need not be its own. */
static int seek_debugdata(struct symbol_file *file)
{
	struct elf_bytes bytes;
	uint8_t *data;
	size_t len;
	int err = debugdata__read(&file->image, &data, &len);

	if (err)
		return err;
	elf_bytes__init_memory(&bytes, data, len);
	err = open_helper(&bytes, SYMBOL_FROM_DEBUGDATA, 0, 0, &file->debugdata);
	if (err)
		elf_bytes__free(&bytes);
	return err;
}

/* Of functions that have no symbol: names of virtual methods, then ranges without names. Frames come last, since
 * they leave out what the two tables before have. */
static int load_stripped(struct symbol_file *file)
{
	struct symbol_table *known = &file->tables[SYMBOL_FROM_DYNSYM], *virtuals = &file->tables[SYMBOL_FROM_VTABLE];
	struct function_frames frames;
	int err = function_frames__open(&file->image, &frames);

	err = err ?: tolerable(symbol_table__load_virtuals(virtuals, &file->image, &file->ranges, known, &frames));
	if (!err)
		err = symbol_table__load_frames(&file->tables[SYMBOL_FROM_FRAMES], &frames, &file->ranges, known, virtuals);
	function_frames__free(&frames);
	return tolerable(err);
}

/* Each source is loaded only if those before it do not make it superfluous. `skip` is the complete table, if there
 * is one: .dynsym then adds only what that lacks. Without it (stripped file, no debug file) .dynsym is all, and the
 * stripped sources follow. */
static int load_all(struct symbol_file *file)
{
	const struct symbol_table *skip = NULL;
	int err = elf_image__open(&file->bytes, ELF_ALL, &file->image);

	err = err ?: code_ranges__of(&file->image, &file->ranges);
	err = err ?: load(file, SYMBOL_FROM_SYMTAB, SHT_SYMTAB, NULL, EXTEND_ALWAYS);
	if (err)
		return err;
	if (file->tables[SYMBOL_FROM_SYMTAB].n) {
		skip = &file->tables[SYMBOL_FROM_SYMTAB];
	} else {
		err = tolerable(symbol_file__seek_debug(file));
		if (!err && file->debug && file->debug->tables[SYMBOL_FROM_DEBUG_FILE].n)
			skip = &file->debug->tables[SYMBOL_FROM_DEBUG_FILE];
		else if (!err)
			err = tolerable(seek_debugdata(file));
	}
	err = err ?: load(file, SYMBOL_FROM_DYNSYM, SHT_DYNSYM, skip, 0);
	if (!err)
		err = tolerable(symbol_table__load_plt(&file->tables[SYMBOL_FROM_PLT], &file->image,
						       &file->ranges));
	if (!err && !skip && !file->debugdata)
		err = load_stripped(file);
	return err;
}

int symbol_file__open(int fd, const char *path, const struct symbol_opener *opener,
		      struct symbol_file **ret)
{
	struct symbol_file *file = calloc(1, sizeof(*file));
	int err;

	if (!file)
		return -ENOMEM;
	file->opener = opener;
	file->folder = opener && opener->folder > 0 ? opener->folder : 0;
	file->bytes.fd = -1;
	err = elf_bytes__init_fd(&file->bytes, fd);
	if (!err && path && !(file->path = strdup(path)))
		err = -ENOMEM;
	err = err ?: load_all(file);
	if (err) {
		file->bytes.fd = -1;
		symbol_file__free(file);
		return err;
	}
	*ret = file;
	return 0;
}

int symbol_file__open_memory(const void *data, size_t len, struct symbol_file **ret)
{
	struct symbol_file *file = calloc(1, sizeof(*file));
	uint8_t *copy = malloc(len ? len : 1);
	int err;

	if (!file || !copy) {
		free(file);
		free(copy);
		return -ENOMEM;
	}
	if (len)
		memcpy(copy, data, len);
	elf_bytes__init_memory(&file->bytes, copy, len);
	err = load_all(file);
	if (err)
		symbol_file__free(file);
	else
		*ret = file;
	return err;
}

/* The names are the file's bytes: kallsyms is gone after this, and the table refers to file->bytes, which does not
 * move. */
static int finish_kallsyms(struct kallsyms *kallsyms, struct symbol_file **ret)
{
	struct symbol_file *file = calloc(1, sizeof(*file));
	int err;

	if (!file)
		return -ENOMEM;
	file->kernel = true;
	file->bytes.fd = -1;
	err = kallsyms__finish(kallsyms, &file->bytes, &file->tables[SYMBOL_FROM_KERNEL]);
	if (err)
		symbol_file__free(file);
	else
		*ret = file;
	return err;
}

/* Reads in pieces instead of at once: the text has several MB, most of which are not kept. It stops at once when the
 * first functions show that the kernel hides addresses (kernel.kptr_restrict). */
int symbol_file__open_kallsyms(int fd, struct symbol_file **ret)
{
	_cleanup_free_ char *chunk = malloc(READ_STEP);
	struct kallsyms *kallsyms;
	ssize_t got;
	int err;

	if (!chunk)
		return -ENOMEM;
	err = kallsyms__new(&kallsyms);
	if (err)
		return err;
	do {
		got = read(fd, chunk, READ_STEP);
		if (got < 0 && errno != EINTR)
			err = -errno;
		else if (got > 0)
			err = kallsyms__feed(kallsyms, chunk, (size_t)got);
		if (!err && kallsyms__hidden(kallsyms))
			err = -EACCES;
	} while (got && !err);
	err = err ?: finish_kallsyms(kallsyms, ret);
	kallsyms__free(kallsyms);
	return err;
}

/* `old` is freed last: the lines that are freed before it may read from it. A line_source that was found stays;
 * file->debug is preferred to it (open_lines() in file_lines.c). */
int symbol_file__add_debug_file(struct symbol_file *file, int fd)
{
	struct elf_bytes bytes;
	struct symbol_file *old = file->debug;
	int err;

	if (file->kernel)
		return -EINVAL;
	err = elf_bytes__init_fd(&bytes, fd);
	err = err ?: debug_file__belongs(&file->image, &bytes);
	err = err ?: take_debug_file(file, fd);
	if (err)
		return err;
	file->lines = lines__free(file->lines);
	symbol_file__free(old);
	file->lines_error = 0;
	return 0;
}

int symbol_file__key(const struct symbol_file *file, struct kept_key *ret)
{
	return file->kernel ? -ENOENT : kept_key__of(file->bytes.fd, file->debug ? file->debug->bytes.fd : -1, ret);
}

size_t symbol_file__build_id(const struct symbol_file *file, const uint8_t **ret_id)
{
	*ret_id = file->image.build_id;
	return file->image.build_id_len;
}

/* Recursive over the helpers, which have none of their own. */
static void add_stats(const struct symbol_file *file, struct symbol_stats *ret)
{
	if (!file)
		return;
	ret->bytes += sizeof(*file) + file->ranges.n * sizeof(*file->ranges.items) +
		      file->image.n_sections * sizeof(*file->image.sections) +
		      file->image.n_segments * sizeof(*file->image.segments) +
		      file->image.names_size + (file->bytes.data ? file->bytes.size : 0);
	for (size_t i = 0; i < SYMBOL_SOURCE_COUNT; i++) {
		ret->symbols[i] += file->tables[i].n;
		ret->bytes += symbol_table__bytes(&file->tables[i]);
	}
	add_stats(file->debug, ret);
	add_stats(file->debugdata, ret);
}

void symbol_file__stats(const struct symbol_file *file, struct symbol_stats *ret)
{
	*ret = (struct symbol_stats){};
	add_stats(file, ret);
}

/* SPDX-License-Identifier: MIT */
/* Parser of /tmp/perf-PID.map while it grows. Each line is "START SIZE name", numbers in hex:
 *   7f0012345000 80 py::fib:/home/me/fib.py
 * If lines overlap, the later one is right (find.c).
 *
 * The format has no times and no ends (Linux, tools/perf/Documentation/jit-interface.txt): a function was there
 * since some time between the previous read of the file and this one, and until another line covers it. What follows
 * the second blank is the name, blanks included. Lines that are none are counted and skipped. */
#include <errno.h>

#include "base/cleanup.h"
#include "jit/internal.h"

#define LINE_MAX (JIT_NAME_MAX + 64u)
/* Lines that came together become one object: a line then costs 32 bytes and its name. */
#define BATCH_LINES 1024u
#define BATCH_NAMES (128u << 10)

/* Lines on their way into one object. `born_after`: when the file was read last; `born_by`: now. */
struct batch {
	struct jit_image image; /* symbols and names; no ranges: a line may be replaced alone */
	size_t capacity;
	uint64_t born_after, born_by;
};

/* Makes an object of the batch and begins a new one. -ENOSPC (too much in all) is counted, and no error of the file. */
static int flush(struct jit *jit, struct batch *batch)
{
	struct making making = {
		.source = JIT_SOURCE_PERF_MAP,
		.life = {.born_after = batch->born_after, .born_by = batch->born_by},
		.image = &batch->image,
	};
	uint32_t id;
	char *less;
	int err;

	if (!batch->image.n_symbols)
		return 0;
	less = realloc(batch->image.names, batch->image.names_len);
	if (less)
		batch->image.names = less;
	err = registry__add(jit, &making, &id);
	jit_image__free(&batch->image);
	batch->capacity = 0;
	return err == -ENOSPC ? 0 : err;
}

/* Room for one more line and its name. Memory of names doubles; flush() gives the slack back. */
static int room(struct batch *batch, size_t name_len)
{
	struct jit_image *image = &batch->image;
	size_t capacity = batch->capacity ? batch->capacity : 512;
	char *names;

	if (!image->symbols) {
		image->symbols = malloc(BATCH_LINES * sizeof(*image->symbols));
		if (!image->symbols)
			return -ENOMEM;
	}
	while (capacity < image->names_len + name_len + 1)
		capacity *= 2;
	if (capacity == batch->capacity)
		return 0;
	names = realloc(image->names, capacity);
	if (!names)
		return -ENOMEM;
	image->names = names;
	batch->capacity = capacity;
	return 0;
}

/* Parses a hex number, with or without 0x; *at moves behind it. */
static bool hex(const char **at, const char *end, uint64_t *ret)
{
	const char *c = *at;
	uint64_t value = 0;
	unsigned digits = 0, digit;

	if (end - c > 2 && c[0] == '0' && (c[1] == 'x' || c[1] == 'X'))
		c += 2;
	for (; c < end; c++, digits++) {
		if (*c >= '0' && *c <= '9')
			digit = (unsigned)(*c - '0');
		else if ((*c | 32) >= 'a' && (*c | 32) <= 'f')
			digit = (unsigned)((*c | 32) - 'a') + 10;
		else
			break;
		if (value >> 60)
			return false;
		value = value << 4 | digit;
	}
	*at = c;
	*ret = value;
	return digits > 0;
}

static bool space(const char **at, const char *end)
{
	const char *c = *at;

	while (c < end && (*c == ' ' || *c == '\t'))
		c++;
	if (c == *at)
		return false;
	*at = c;
	return true;
}

static int line(struct jit *jit, struct batch *batch, const char *at, size_t len)
{
	const char *end = at + len;
	struct jit_image *image = &batch->image;
	uint64_t start, size;
	size_t name_len;
	int err;

	if (len && end[-1] == '\r')
		end--;
	if (at == end)
		return 0;
	if (!hex(&at, end, &start) || !space(&at, end) || !hex(&at, end, &size) || !space(&at, end) ||
	    at == end || !size || size > UINT32_MAX || start + size < start) {
		jit->counts.bad_lines++;
		return 0;
	}
	name_len = strnlen(at, (size_t)(end - at));
	if (name_len > JIT_NAME_MAX)
		name_len = JIT_NAME_MAX;
	err = room(batch, name_len);
	if (err)
		return err;
	image->symbols[image->n_symbols++] = (struct jit_image_symbol){
		.start = start,
		.size = (uint32_t)size,
		.name = (uint32_t)image->names_len,
	};
	memcpy(image->names + image->names_len, at, name_len);
	image->names[image->names_len + name_len] = 0;
	image->names_len += name_len + 1;
	if (image->n_symbols == BATCH_LINES || image->names_len > BATCH_NAMES)
		return flush(jit, batch);
	return 0;
}

/* Completes the line whose begin came with earlier bytes. */
static int joined(struct jit *jit, struct batch *batch, const char *bytes, size_t len)
{
	struct perf_map *map = &jit->perf_map;
	size_t fits = LINE_MAX - map->line.len < len ? LINE_MAX - map->line.len : len;
	int err = buf__append(&map->line, bytes, fits);

	err = err ?: line(jit, batch, map->line.data, map->line.len);
	buf__clear(&map->line);
	return err;
}

/* Keeps the begin of a line that is not complete yet; of an overlong one LINE_MAX bytes. */
static int half(struct perf_map *map, const char *bytes, size_t len)
{
	size_t fits = LINE_MAX - map->line.len < len ? LINE_MAX - map->line.len : len;

	return buf__append(&map->line, bytes, fits);
}

/* All lines of one call go into batches that are registered before it returns; an incomplete last line waits for the
 * next call. */
int jit__perf_map(struct jit *jit, const void *bytes, size_t len)
{
	struct perf_map *map = &jit->perf_map;
	struct batch batch = {.born_after = map->ended, .born_by = jit->clock()};
	const char *at = bytes, *end = at + len, *newline;
	int err = 0;

	while (!err && at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		size_t here = (size_t)(newline - at);

		if (map->line.len)
			err = joined(jit, &batch, at, here);
		else
			err = line(jit, &batch, at, here);
		at = newline + 1;
	}
	err = err ?: half(map, at, (size_t)(end - at));
	err = err ?: flush(jit, &batch);
	jit_image__free(&batch.image);
	return err;
}

void jit__perf_map_restart(struct jit *jit)
{
	buf__clear(&jit->perf_map.line);
}

void perf_map__free(struct perf_map *map)
{
	buf__free(&map->line);
}

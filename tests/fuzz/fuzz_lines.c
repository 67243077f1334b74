/* SPDX-License-Identifier: MIT */
/* Line tables of any bytes. Besides memory: a refusal says nothing, a position is
 * in range, and formats with spans depend on no byte behind the span. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "name/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static int look_up(enum py_lines format, const uint8_t *table, size_t len, uint32_t first,
		   int32_t offset, struct position *ret)
{
	static const struct position none;
	int err;

	memset(ret, 0xa5, sizeof *ret);
	err = lines__position(format, table, len, first, offset, ret);
	require(err == 0 || err == -ERANGE || err == -EBADMSG);
	if (err)
		require(!memcmp(ret, &none, sizeof none));
	else if (offset >= 0)
		require(ret->line <= INT_MAX && ret->end_line <= INT_MAX);
	if (format != PY_LINES_LOCATIONS)
		require(!ret->column && !ret->end_column && ret->line == ret->end_line);
	if (format == PY_LINES_LNOTAB)
		require(err != -ERANGE);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *half;
	uint32_t first;
	enum py_lines format;
	size_t cut;
	int before = 0;

	if (size < 6)
		return 0;
	format = (enum py_lines)(PY_LINES_LNOTAB + data[0] % 3);
	memcpy(&first, data + 1, sizeof first);
	cut = (size - 6) * data[5] / 255;
	data += 6;
	size -= 6;
	half = malloc(cut ? cut : 1);
	require(half != NULL);
	memcpy(half, data, cut);
	for (int32_t offset = -1; offset < 1024; offset++) {
		struct position whole, part;
		int err = look_up(format, data, size, first, offset, &whole);
		int part_err = look_up(format, half, cut, first, offset, &part);

		/* Once a table has ended or broken, it stays so. */
		require(!before || err == before);
		before = err;
		if (format != PY_LINES_LNOTAB && !part_err)
			require(!err && !memcmp(&whole, &part, sizeof whole));
	}
	free(half);
	return 0;
}

/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The value of a local (struct frame_values). Needs pywalk.h; for who reads values, not for all who walk. */
#pragma once

#include "state.h"

/* Reads the word of a local; of one that is a cell, the content of the cell. Rare, so not inlined. */
HOST_APART int values_word(const struct image *image, __u64 *to, __u64 address, __u32 slot)
{
	long err;

	if (!image || !to)
		return 1;
	err = host_read(to, 8, address);
	if (slot & VALUE_SLOT_CELL && *to && !err)
		err = host_read(to, 8, (*to & ~7ull) + image->layout.cell_ref);
	return err != 0;
}

/* SPDX-License-Identifier: MIT */
/* Reads locals of a frame in the same way as the sampler at a tick (bpf/values.h), for threads that sleep. */
#include <string.h>

#include "python/code.h"

void python_locals__read(struct host_reader *memory, const struct py_layout *l, const struct locals_capture *capture, uint16_t at, uint64_t address,
			 struct frame_values *ret)
{
	uint64_t slot;
	uint32_t i;

	*ret = (struct frame_values){.frame = at, .address = address};
	memcpy(ret->slots, capture->slots, sizeof(ret->slots));
	for (i = 0; i < FRAME_VALUES_WORDS && capture->slots[i] != VALUE_SLOT_NONE; i++) {
		slot = address + l->frame_locals + (capture->slots[i] & ~VALUE_SLOT_CELL) * 8ull;
		if (memory->read(memory, &ret->words[i], 8, slot) ||
		    (capture->slots[i] & VALUE_SLOT_CELL && ret->words[i] &&
		     memory->read(memory, &ret->words[i], 8, (ret->words[i] & ~7ull) + l->cell_ref)))
			ret->unread |= (uint8_t)(1u << i);
	}
	ret->n = (uint8_t)i;
}

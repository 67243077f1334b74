/* SPDX-License-Identifier: MIT */
/* Reads locals of a frame in the same way as the sampler at a tick (bpf/values.h), for threads that sleep.
 *
 * Example: a rule needs `self`, which is local 0 of its frame. capture->slots[0] is 0, and words[0] becomes the
 * object's address; units/ turns it into text. A cell variable (VALUE_SLOT_CELL) has one more step, through its
 * cell's ob_ref. */
#include <string.h>

#include "python/code.h"

/* Tag bits of stack references (3.14+) are left in the words: values__text() removes them. A word that cannot be
 * read is 0, with its bit in ret->unread. */
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

/* SPDX-License-Identifier: MIT */
/* Bytes are tried as instructions at every offset (arch/arch.h says why that is good enough): only targets that are
 * a function's first byte count. */
#include "classes/search.h"

#include "arch/arch.h"

/* Through a stub of the PLT: where it leads in this file. */
static uint64_t through_plt(const struct data *data, uint64_t at)
{
	uint64_t slot, target = 0;
	uint8_t code[16];

	if (!data__is_code(data, at) || !data__bytes(data, at, code, sizeof(code)) ||
	    !machine__plt_slot(code, sizeof(code), at, &slot))
		return at;
	return data__word(data, slot, &target) ? target : at;
}

/* A target counts if it is the first byte of another function, by call frame information. A jump to a stub of the
 * PLT is resolved: a library calls its own exported functions that way. */
uint32_t jumps__from(const struct data *data, const struct code_frames *frames, uint64_t at, bool calls,
		     uint64_t ret[JUMPS_FROM])
{
	const struct code_piece *piece = code_frames__find(frames, at), *there;
	uint8_t code[4096];
	uint32_t size, i, n = 0;
	uint64_t target;

	if (!piece || piece->start != at)
		return 0;
	size = piece->size < sizeof(code) ? (uint32_t)piece->size : (uint32_t)sizeof(code);
	if (!data__bytes(data, at, code, size))
		return 0;
	for (i = 0; i < size && n < JUMPS_FROM; i++) {
		enum machine_transfer transfer = machine__transfer(code + i, size - i, at + i, &target);

		if (transfer == MACHINE_CALL && !calls)
			continue;
		/* Most short ones stay in the function. */
		if (transfer == MACHINE_NO_TRANSFER &&
		    (!machine__short_jump(code + i, size - i, at + i, &target) || target - at < piece->size))
			continue;
		there = code_frames__find(frames, target);
		if (transfer == MACHINE_JUMP && (!there || there->start != target)) {
			target = through_plt(data, target);
			there = code_frames__find(frames, target);
		}
		if (there && there->start == target && there != piece)
			ret[n++] = target;
	}
	return n;
}

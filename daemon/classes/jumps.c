/* SPDX-License-Identifier: MIT */
#include "classes/jumps.h"

#include <string.h>

/* Through a stub of the PLT, `jmp *slot(%rip)`: where it leads in this file. */
static uint64_t through_plt(const struct data *data, uint64_t at)
{
	static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint64_t target = 0;
	uint8_t code[16];
	int32_t distance;
	uint32_t i = 0;

	if (!data__is_code(data, at) || !data__bytes(data, at, code, sizeof(code)))
		return at;
	if (!memcmp(code, endbr, sizeof(endbr)))
		i = sizeof(endbr);
	if (code[i] == 0xf2) /* bnd */
		i++;
	if (code[i] != 0xff || code[i + 1] != 0x25)
		return at;
	memcpy(&distance, code + i + 2, 4);
	return data__word(data, at + i + 6 + (uint64_t)(int64_t)distance, &target) ? target : at;
}

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
	for (i = 0; i + 2 <= size && n < JUMPS_FROM; i++) {
		if (code[i] == 0xeb || code[i] >> 4 == 7) { /* jumps of 8 bits */
			target = at + i + 2 + (uint64_t)(int64_t)(int8_t)code[i + 1];
		} else if (i + 5 <= size && (code[i] == 0xe9 || (calls && code[i] == 0xe8) ||
					     (i && code[i - 1] == 0x0f && code[i] >> 4 == 8))) {
			target = jumps__target(code + i, at + i);
		} else {
			continue;
		}
		there = code_frames__find(frames, target);
		if (code[i] == 0xe9 && (!there || there->start != target)) {
			target = through_plt(data, target);
			there = code_frames__find(frames, target);
		}
		if (there && there->start == target && there != piece)
			ret[n++] = target;
	}
	return n;
}

/* SPDX-License-Identifier: MIT */
#if defined(__x86_64__)
/* Code of x86-64 that is recognised by its bytes, without a decoder: it is searched for in whole files (classes/ and
 * symbols/), where decoding each instruction would take far longer. Bytes that look right by chance are possible;
 * callers check what they lead to. Encodings: Intel SDM, volume 2, chapter 2 (prefixes, ModRM, SIB). */
#include "arch/arch.h"

/* CET's landing pad, in front of what an indirect call may lead to. */
static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

/* [endbr64] [bnd] jmp *distance(%rip): psABI, "Procedure Linkage Table". The lazy one begins with a push. */
bool machine__plt_slot(const uint8_t *code, size_t size, uint64_t vaddr, uint64_t *ret)
{
	size_t at = 0;

	if (size >= 4 && !memcmp(code, endbr64, 4))
		at = 4;
	if (at < size && code[at] == 0xf2)
		at++;
	if (size - at < 6 || code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	*ret = machine__far(code + at + 2, vaddr + at + 6);
	return true;
}

/* `mov $x,register`, `push $x`, `movq $x,...` */
bool machine__is_immediate(const uint8_t *code, uint32_t at)
{
	static const uint8_t before[] = {2, 3, 4, 6}; /* ModRM; a distance of 8 bits; SIB; a distance of 32 bits */

	if (at && (code[at - 1] >> 3 == 0xb8 >> 3 || code[at - 1] == 0x68))
		return true;
	for (uint32_t i = 0; i < sizeof(before); i++)
		if (at >= before[i] && code[at - before[i]] == 0xc7 && (code[at - before[i] + 1] & 0xc7) != 5)
			return true;
	return false;
}

/* --- what is stored into an object --- */

#define STORE_BYTES 8u /* REX, opcode, ModRM, SIB, 4 of the distance */

/* The distance of an operand in memory, whose ModRM is at `code`; *ret_size: of ModRM, SIB, distance. 0: it has
 * none. */
static uint64_t distance_at(const uint8_t *code, uint32_t *ret_size)
{
	uint32_t i = (code[0] & 7) == 4 ? 2 : 1; /* with SIB */

	if (code[0] >> 6 == 1) {
		*ret_size = i + 1;
		return code[i];
	}
	*ret_size = i + 4;
	return code[0] >> 6 == 2 ? machine__far(code + i, 0) : 0;
}

/* Registers as a set: bit n is that of number n. The one of ModRM.reg, with REX.R as its fourth bit; of ModRM.rm, with REX.B. */
static uint32_t reg_of(uint8_t rex, uint8_t modrm)
{
	return 1u << ((modrm >> 3 & 7) | (rex & 4) << 1);
}

static uint32_t rm_of(uint8_t rex, uint8_t modrm)
{
	return 1u << ((modrm & 7) | (rex & 1) << 3);
}

/* 48 or 4c, 8d, ModRM (mod 0, r/m 5). */
static bool is_lea(const uint8_t *code)
{
	return (code[0] & 0xfb) == 0x48 && code[1] == 0x8d && (code[2] & 0xc7) == 5;
}

uint32_t machine__address(const uint8_t *code, uint64_t vaddr, uint64_t *ret)
{
	uint32_t size, rex = code[0] == 0x41;

	if ((code[0] & 0xfe) == 0x48 && code[1] == 0xc7 && !(code[2] & 0x38)) { /* movq $x, offset(base) */
		distance_at(code + 2, &size);
		*ret = machine__far(code + 2 + size, 0);
		return 2 + size + 4;
	}
	if (is_lea(code)) {
		*ret = machine__far(code + 3, vaddr + 7);
		return 7;
	}
	if ((code[rex] & 0xf8) != 0xb8)
		return 0;
	*ret = (uint32_t)machine__far(code + rex + 1, 0); /* mov $x, %reg: its upper half becomes 0 */
	return rex + 5;
}

/* Which register has it then? 0: it goes to memory. */
static uint32_t address_to(const uint8_t *code)
{
	if (is_lea(code))
		return reg_of(code[0], code[2]);
	return code[1] == 0xc7 ? 0 : rm_of(code[0] == 0x41, code[code[0] == 0x41]);
}

/* The registers that may have the address behind the instruction at `code`: `mov` and `cmov` of 8 bytes between registers hand it on
 * (partial ? f : NULL), another lea overwrites it. */
static uint32_t handed_on(const uint8_t *code, uint32_t have)
{
	uint32_t reg, rm, op = code[1], modrm = code[2];

	if (is_lea(code))
		return have & ~reg_of(code[0], code[2]);
	if ((code[0] & 0xf8) != 0x48)
		return have;
	if (op == 0x0f && (modrm & 0xf0) == 0x40) /* cmovcc %rm, %reg */
		modrm = code[3];
	else if (op != 0x89 && op != 0x8b) /* mov %reg, %rm; mov %rm, %reg */
		return have;
	if (modrm >> 6 != 3)
		return have;
	reg = reg_of(code[0], (uint8_t)modrm);
	rm = rm_of(code[0], (uint8_t)modrm);
	if (op == 0x89)
		return have & reg ? have | rm : have;
	return have & rm ? have | reg : have;
}

/* `mov %reg, offset(base)` of 8 bytes, of one of the registers; the offset, or 0. */
static uint64_t stored_at(const uint8_t *code, uint32_t have)
{
	uint32_t size;

	return (code[0] & 0xf8) == 0x48 && code[1] == 0x89 && have & reg_of(code[0], code[2]) ? distance_at(code + 2, &size) : 0;
}

uint32_t machine__stores(const uint8_t *code, uint64_t ret_offsets[MACHINE_STORES])
{
	uint64_t ignored;
	uint32_t i = machine__address(code, 0, &ignored), n = 0, size, have = address_to(code);

	if (!have) {
		ret_offsets[0] = distance_at(code + 2, &size);
		return 1;
	}
	for (; have && i + STORE_BYTES <= MACHINE_STORES_BYTES; i++) {
		have = handed_on(code + i, have);
		ret_offsets[n] = stored_at(code + i, have);
		n += ret_offsets[n] != 0;
	}
	return n;
}

/* --- beginnings, system calls --- */

bool machine__begins_process(const uint8_t code[MACHINE_START_BYTES])
{
	static const struct {
		uint8_t bytes[7], size;
	} starts[] = {
		{{0x48, 0x89, 0xe7, 0xe8}, 4},                   /* mov %rsp, %rdi; call */
		{{0x48, 0x31, 0xed, 0x48, 0x89, 0xe7, 0x48}, 7}, /* xor %rbp, %rbp; mov %rsp, %rdi; lea */
	};
	unsigned i, skip = !memcmp(code, endbr64, sizeof(endbr64)) ? sizeof(endbr64) : 0;

	for (i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (!memcmp(code + skip, starts[i].bytes, starts[i].size))
			return true;
	return false;
}

/* syscall; test %rax, %rax; jl error; je thread_start. The child goes on at `test`. (Of fork's child the stack is its
 * parent's.) */
bool machine__begins_thread(const uint8_t code[32])
{
	static const uint8_t begin[] = {0x0f, 0x05, 0x48, 0x85, 0xc0};
	const uint8_t *at = memmem(code, 16 + 3, begin, sizeof(begin)); /* at the latest it ends 3 bytes behind code + 16 */
	size_t jl;

	if (!at)
		return false;
	jl = at[5] == 0x7c ? 2 : at[5] == 0x0f && at[6] == 0x8c ? 6 : 0;
	if (!jl || at + 5 + jl >= code + 32 || at[5 + jl] != 0x74)
		return false;
	return code + 16 == at + 2 || code + 16 == at + 5 || code + 16 == at + 5 + jl;
}

/* mov $15, %rax, or %eax; syscall */
uint32_t machine__sigreturn(const uint8_t *code, size_t size)
{
	static const uint8_t by_rax[MACHINE_SIGRETURN_BYTES] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
	static const uint8_t by_eax[] = {0xb8, 15, 0, 0, 0, 0x0f, 0x05};

	if (size >= sizeof(by_rax) && !memcmp(code, by_rax, sizeof(by_rax)))
		return sizeof(by_rax);
	return size >= sizeof(by_eax) && !memcmp(code, by_eax, sizeof(by_eax)) ? sizeof(by_eax) : 0;
}

int machine__syscall(const uint8_t code[MACHINE_SYSCALL_BYTES])
{
	static const uint8_t syscall[] = {0x0f, 0x05};
	uint32_t number;

	if (memcmp(code + 5, syscall, sizeof(syscall)))
		return MACHINE_NO_SYSCALL;
	memcpy(&number, code + 1, sizeof(number));
	return code[0] == 0xb8 && number < 4096 ? (int)number : MACHINE_SYSCALL;
}
#endif

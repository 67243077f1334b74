/* SPDX-License-Identifier: MIT */
/* x86-64, for arch/arch.h. Sources: System V ABI, AMD64 Architecture Processor Supplement 1.0 (psABI); Intel SDM,
 * volume 2. */
#pragma once

#include <elf.h>
#include <emmintrin.h>
#include <linux/audit.h>
#include <string.h>

#define MACHINE_UNAME "x86_64" /* uname(2) */
#define MACHINE_AUDIT AUDIT_ARCH_X86_64 /* seccomp(2) */

/* --- ELF (psABI, chapter 4) --- */

#define ELF_MACHINE EM_X86_64

#ifndef SHT_X86_64_UNWIND
#define SHT_X86_64_UNWIND 0x70000001 /* 4.2.3: LLVM's type of .eh_frame */
#endif
#define ELF_SHT_UNWIND SHT_X86_64_UNWIND

/* 4.4.1: type, bytes, kind (elf/relocation.h). */
#define ELF_RELOCATIONS(X) \
	X(R_X86_64_64, 8, ABSOLUTE) \
	X(R_X86_64_32, 4, ABSOLUTE) \
	X(R_X86_64_32S, 4, ABSOLUTE) \
	X(R_X86_64_PC64, 8, RELATIVE) \
	X(R_X86_64_PC32, 4, RELATIVE) \
	X(R_X86_64_PLT32, 4, RELATIVE) \
	X(R_X86_64_RELATIVE, 8, BASE) \
	X(R_X86_64_GLOB_DAT, 8, SLOT) \
	X(R_X86_64_JUMP_SLOT, 8, SLOT)

/* Linkers place programs that are not position-independent here or above, with addresses of 32 bits. */
#define MACHINE_FIXED_FROM 0x400000u

/* --- frames (psABI, 3.2.2, 3.6.2) --- */

#define MACHINE_RETURN 16u    /* the column of return addresses in call frame information */
#define MACHINE_ENTRY_CFA 8   /* CFA - stack pointer, where a function begins: behind the return address */

/* --- code --- */

#define MACHINE_CALL_BYTES 5u      /* of a call that names its target */
#define MACHINE_TRANSFER_BYTES 6u  /* of the longest one */
#define MACHINE_START_BYTES 12u
#define MACHINE_ADDRESS_BYTES 12u  /* REX, opcode, ModRM, SIB, distance, immediate operand */
#define MACHINE_STORES 48u         /* bytes behind `lea`: compilers put other stores between the two */
#define MACHINE_STORES_BYTES (7u + MACHINE_STORES)
#define MACHINE_SIGRETURN_BYTES 9u /* of glibc's and musl's; a thread is seen at its first byte, at the call, or behind it */
#define MACHINE_SIGRETURN_STEPS {0, 7, 9}
#define MACHINE_SYSCALL_BYTES 7u   /* mov $number, %eax; syscall */
#define MACHINE_SYSCALL_LAST 2u    /* ... of these, the second */

/* The target of a relative operand of 32 bits (signed), which counts from the next instruction (SDM, "rel32"). */
static inline uint64_t machine__far(const uint8_t *distance, uint64_t next)
{
	int32_t value;

	memcpy(&value, distance, sizeof(value));
	return next + (uint64_t)(int64_t)value;
}

/* e8 rel32: call. */
static inline bool machine__is_call(const uint8_t *code)
{
	return code[0] == 0xe8;
}

/* The call, jump or branch at code[0], with an operand of 32 bits: e8 (call), e9 (jmp), 0f 80 to 0f 8f (jcc). */
static inline enum machine_transfer machine__transfer(const uint8_t *code, uint64_t size, uint64_t vaddr, uint64_t *ret)
{
	if (size >= 5 && (code[0] & 0xfe) == 0xe8) {
		*ret = machine__far(code + 1, vaddr + 5);
		return machine__is_call(code) ? MACHINE_CALL : MACHINE_JUMP;
	}
	if (size >= 6 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80) {
		*ret = machine__far(code + 2, vaddr + 6);
		return MACHINE_BRANCH;
	}
	return MACHINE_NO_TRANSFER;
}

/* The jump or branch at code[0], with an operand of 8 bits: eb (jmp), 70 to 7f (jcc). */
static inline bool machine__short_jump(const uint8_t *code, uint64_t size, uint64_t vaddr, uint64_t *ret)
{
	if (size < 2 || (code[0] != 0xeb && code[0] >> 4 != 7))
		return false;
	*ret = vaddr + 2 + (uint64_t)(int64_t)(int8_t)code[1];
	return true;
}

/* ff /4 with a register, or with one and a distance: `jmp *%rax`, `jmp *16(%rax)`. A jump through an address of the file's
 * (rip) is none. */
static inline bool machine__jumps_to_pointer(const uint8_t code[2])
{
	return code[0] == 0xff && (code[1] & 0x38) == 0x20 && code[1] >> 6;
}

/* `lea distance(%rip), %reg` without its REX prefix: reads MACHINE_TRANSFER_BYTES. ModRM with mod 0 and r/m 5 is
 * relative to rip. */
static inline bool machine__makes_address(const uint8_t *code, uint64_t vaddr, uint64_t *ret)
{
	if (code[0] != 0x8d || (code[1] & 0xc7) != 5)
		return false;
	*ret = machine__far(code + 2, vaddr + 6);
	return true;
}

/* --- Search of a file's code, 16 bytes at a time, as nearly all bytes begin none of what is searched for: bit i of the
 * results says that code[i] may begin one. They read one byte more. --- */

#define MACHINE_SCAN 16u

/* Bit i: (code[i] & mask) == value. SSE2, which every x86-64 has. */
static inline uint32_t machine__match(const uint8_t *code, uint8_t mask, uint8_t value)
{
	const __m128i bytes = _mm_and_si128(_mm_loadu_si128((const void *)code), _mm_set1_epi8((char)mask));

	return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)value)));
}

/* machine__transfer() */
static inline uint32_t machine__transfers(const uint8_t *code)
{
	return machine__match(code, 0xfe, 0xe8) | (machine__match(code, 0xff, 0x0f) & machine__match(code + 1, 0xf0, 0x80));
}

/* machine__makes_address() */
static inline uint32_t machine__addresses(const uint8_t *code)
{
	return machine__match(code, 0xff, 0x8d) & machine__match(code + 1, 0xc7, 5);
}

/* machine__address() */
static inline uint32_t machine__address_loads(const uint8_t *code)
{
	const uint32_t mov = machine__match(code, 0xf8, 0xb8), rex = machine__match(code, 0xff, 0x41) & machine__match(code + 1, 0xf8, 0xb8);

	return mov | rex | (machine__match(code, 0xfa, 0x48) & (machine__match(code + 1, 0xff, 0x8d) | machine__match(code + 1, 0xff, 0xc7)));
}

/* Between functions: int3, zeros. */
static inline bool machine__is_padding(uint8_t byte)
{
	return !byte || byte == 0xcc;
}

/* Of instructions that change nothing, one begins functions: endbr64. */
static inline bool machine__marks_entry(const uint8_t *code)
{
	return code[0] == 0xf3;
}

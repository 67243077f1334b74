/* SPDX-License-Identifier: MIT */
/* What an ELF file has of x86-64: System V ABI, AMD64 Architecture Processor Supplement (psABI),
 * chapter 4. */
#ifndef CPROFD_ELF_X86_64_H
#define CPROFD_ELF_X86_64_H

#include <elf.h>

/* The machine whose processes this program profiles. */
#define ELF_MACHINE EM_X86_64

#ifndef SHT_X86_64_UNWIND
#define SHT_X86_64_UNWIND 0x70000001 /* 4.2.3: LLVM's type of .eh_frame */
#endif
#define ELF_SHT_UNWIND SHT_X86_64_UNWIND

/* 4.4.1: type, bytes, kind (elf/relocation.h). */
#define ELF_RELOCATIONS(X)                                                                         \
	X(R_X86_64_64, 8, ABSOLUTE)                                                                \
	X(R_X86_64_32, 4, ABSOLUTE)                                                                \
	X(R_X86_64_32S, 4, ABSOLUTE)                                                               \
	X(R_X86_64_PC64, 8, RELATIVE)                                                              \
	X(R_X86_64_PC32, 4, RELATIVE)                                                              \
	X(R_X86_64_PLT32, 4, RELATIVE)                                                             \
	X(R_X86_64_RELATIVE, 8, BASE)                                                              \
	X(R_X86_64_GLOB_DAT, 8, SLOT)                                                              \
	X(R_X86_64_JUMP_SLOT, 8, SLOT)

#endif

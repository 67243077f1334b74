/* SPDX-License-Identifier: MIT */
/* What user space knows of the machine that it profiles: its ELF constants, and what bytes of machine code do. Another
 * machine is a second set of files (x86_64.h, x86_64*.c) with the same names. Registers and rules of frames, which BPF needs,
 * too, are in include/cprofd/arch/; instructions one by one in arch/operation.h; rules that are made of call frame
 * information in arch/rule.h.
 *
 * Bytes of code are hostile: each function reads what it says, or `size` bytes, and no more. `vaddr` is the address of
 * code[0], and addresses that are returned are of the same kind. Most of these functions are tried at each byte of a file's
 * code, without decoding what is before it: where an instruction would be found that is none, its target is by chance that of
 * one, so that callers ask for targets that mean something (a function's first byte). No state, any thread. */
#ifndef CPROFD_ARCH_ARCH_H
#define CPROFD_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An instruction that leads to an address which is part of it. */
enum machine_transfer {
	MACHINE_NO_TRANSFER,
	MACHINE_CALL,
	MACHINE_JUMP,
	MACHINE_BRANCH, /* there, or on */
};

#if defined(__x86_64__)
#include "arch/x86_64.h"
#else
#error "nothing is known of this machine"
#endif

/* A stub of a procedure linkage table: *ret is the slot that it jumps through. The stub that resolves lazily is none. */
bool machine__plt_slot(const uint8_t *code, size_t size, uint64_t vaddr, uint64_t *ret);

/* Does an instruction before `at` end with the 4 bytes from there on, as a number that it loads, pushes or stores? */
bool machine__is_immediate(const uint8_t *code, uint32_t at);

/* An instruction that makes the address of a function, and those behind it that store this into an object: their offsets in
 * it, in the order of the code; how many, 0: it makes none, or does not store it. Reads MACHINE_STORES_BYTES. */
uint32_t machine__stores(const uint8_t *code, uint64_t vaddr, uint64_t *ret_function, uint64_t ret_offsets[MACHINE_STORES]);

/* Where the kernel begins a program in its dynamic linker: the stack pointer is the argument of what is called there, before
 * anything was pushed, and no function that is called does that (glibc's RTLD_START; musl's START). Other libraries have an
 * entry, too. */
bool machine__begins_process(const uint8_t code[MACHINE_START_BYTES]);

/* Is code[16] where a thread goes on that clone(2) has just made, on an empty stack (glibc's clone, clone3)? */
bool machine__begins_thread(const uint8_t code[32]);

/* The call of rt_sigreturn that a signal's handler returns to. The kernel, or a C library, has such code for nothing else, and
 * debuggers know signal frames by its bytes, too. Its length, 0: it is none. */
uint32_t machine__sigreturn(const uint8_t *code, size_t size);

/* What is in front of the address where a thread goes on after a system call: its number; MACHINE_SYSCALL: one whose number
 * is not loaded right before; MACHINE_NO_SYSCALL. */
#define MACHINE_SYSCALL (-1)
#define MACHINE_NO_SYSCALL (-2)
int machine__syscall(const uint8_t code[MACHINE_SYSCALL_BYTES]);
/* The name of a system call. NULL: there is none, or the kernel's headers had none. */
const char *machine__syscall_name(uint32_t number);

#endif

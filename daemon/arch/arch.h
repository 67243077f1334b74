/* SPDX-License-Identifier: MIT */
/* What user space knows of the machine that it profiles: its ELF constants, and what bytes of machine code do. Another
 * machine is a second set of files (x86_64.h, x86_64*.c) with the same names. Registers and rules of frames, which BPF
 * needs, too, are in include/cprofd/arch/; instructions one by one in arch/operation.h; rules that are made of call
 * frame information in arch/rule.h.
 *
 * Bytes of code are hostile: each function reads what it says, or `size` bytes, and no more. `vaddr` is the address of
 * code[0]; returned addresses are of the same kind.
 *
 * Most of these functions are tried at each byte of a file's code, without decoding what comes before. So they may
 * recognise an instruction where there is none (in the middle of another one, in data), with a target that means
 * nothing. Callers therefore accept only targets that make sense, such as a function's first byte. No state, any
 * thread. */
#pragma once

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

/* A stub of a procedure linkage table: *ret is the slot that it jumps through. The stub that resolves lazily is
 * none. */
bool machine__plt_slot(const uint8_t *code, size_t size, uint64_t vaddr, uint64_t *ret);

/* Are the 4 bytes from `at` on the immediate operand of an instruction that loads, pushes or stores it? `at`: offset in
 * `code`. */
bool machine__is_immediate(const uint8_t *code, uint32_t at);

/* An instruction that loads the address of a function, or stores it: its length, and *ret. 0: it is none. Reads
 * MACHINE_ADDRESS_BYTES. */
uint32_t machine__address(const uint8_t *code, uint64_t vaddr, uint64_t *ret);

/* The stores of that address into an object that follow, or that the instruction is: their offsets in the object, in the order of the
 * code. Returns how many. The address may go through other registers. Reads MACHINE_STORES_BYTES. */
uint32_t machine__stores(const uint8_t *code, uint64_t ret_offsets[MACHINE_STORES]);

/* Does a process begin here? At the entry of a dynamic linker, the stack pointer becomes the argument of the first
 * call, before anything was pushed; no function that is called does that (glibc's RTLD_START; musl's START). Other
 * libraries have an entry in their ELF header, too. */
bool machine__begins_process(const uint8_t code[MACHINE_START_BYTES]);

/* Is code[16] where a new thread continues that clone(2) has just made, on an empty stack (glibc's clone, clone3)? */
bool machine__begins_thread(const uint8_t code[32]);

/* Is this the call of rt_sigreturn that a signal handler returns to? The kernel, or a C library, has such code for
 * nothing else, and debuggers recognise signal frames by its bytes, too. Returns its length; 0: it is none. */
uint32_t machine__sigreturn(const uint8_t *code, size_t size);

/* The system call before the address at which a thread continues: its number; MACHINE_SYSCALL: one whose number is not
 * loaded right before it; MACHINE_NO_SYSCALL: none. */
#define MACHINE_SYSCALL (-1)
#define MACHINE_NO_SYSCALL (-2)
int machine__syscall(const uint8_t code[MACHINE_SYSCALL_BYTES]);
/* The name of a system call. NULL: there is none, or the kernel's headers had none. */
const char *machine__syscall_name(uint32_t number);

/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What the programs know of x86-64: where the kernel keeps a thread's registers in user space, which of them hold the number
 * and the arguments of a system call (syscall(2), psABI A.2.1), and the numbers of the calls that the programs tell apart.
 * Included by kernel.h alone; another machine is a second file with the same names. Registers by DWARF number are in
 * include/cprofd/arch/. */
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_struct {
	unsigned long fsbase;
};

/* The registers that a task entered the kernel with (struct pt_regs, under a name that linux/ptrace.h has not). */
struct pt_regs___entry {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, sp;
};

#pragma clang attribute pop

#define entered_with(task) ((const struct pt_regs___entry *)bpf_task_pt_regs(task))
#define entry_pc(regs) ((regs)->ip)
#define entry_sp(regs) ((regs)->sp)

/* What pthread_self() returns, of glibc and musl: CPython keeps it as thread_id of a thread state. */
#define thread_pointer(task) ((task)->thread.fsbase)

#define syscall_number(regs) ((regs)->orig_ax)
#define syscall_arg0(regs) ((regs)->di)
#define syscall_arg1(regs) ((regs)->si)
#define syscall_arg2(regs) ((regs)->dx)
#define syscall_arg3(regs) ((regs)->r10) /* rcx is overwritten by the instruction */
#define SYSCALL_MMAP 9
#define SYSCALL_FUTEX 202

/* Where the general registers but the stack pointer lie, without a gap. */
#define ENTRY_GENERAL 15
#define entry_general(regs) (&(regs)->r15)

/* All registers, by DWARF number: of an entry; of a tick's context in user space, whose structure names them otherwise. */
#define REGISTERS_BY_NUMBER(to, r, bp, bx, ax, cx, dx, si, di, ip, sp) \
	do { \
		(to)[0] = (r)->ax, (to)[1] = (r)->dx, (to)[2] = (r)->cx, (to)[3] = (r)->bx; \
		(to)[4] = (r)->si, (to)[5] = (r)->di, (to)[6] = (r)->bp, (to)[7] = (r)->sp; \
		(to)[8] = (r)->r8, (to)[9] = (r)->r9, (to)[10] = (r)->r10, (to)[11] = (r)->r11; \
		(to)[12] = (r)->r12, (to)[13] = (r)->r13, (to)[14] = (r)->r14, (to)[15] = (r)->r15; \
		(to)[16] = (r)->ip; \
	} while (0)
#define registers_of_entry(to, regs) REGISTERS_BY_NUMBER(to, regs, bp, bx, ax, cx, dx, si, di, ip, sp)
#define registers_of_tick(to, regs) REGISTERS_BY_NUMBER(to, regs, rbp, rbx, rax, rcx, rdx, rsi, rdi, rip, rsp)

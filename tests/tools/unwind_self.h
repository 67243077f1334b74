/* SPDX-License-Identifier: MIT */
/* What tests of walks have in common: tables of everything that this process has loaded (the vDSO
 * too), in one pool, and a list in another; and a stack of many kinds of frames to walk. */
#pragma once

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>

#include "base/cleanup.h"
#include "unwind/unwind.h"

struct loaded {
	struct unwind_pool *tables;
	uint16_t number; /* of that pool */
	struct unwind_entry places[256];
	uint32_t n;
};

static int loaded__add(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct loaded *l = ctx;
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
	const char *path = info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
	_cleanup_close_ int fd = -1;
	struct elf_bytes memory;
	const struct elf_bytes *source;
	struct unwind_table *table;
	struct elf_bytes file;
	unsigned i;
	int err;

	if (vdso && info->dlpi_addr == vdso) {
		elf_bytes__init_memory(&memory, (const void *)vdso, 8192);
		source = &memory;
	} else {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || elf_bytes__init_fd(&file, fd))
			return 0;
		source = &file;
	}
	err = table__compile(source, &l->tables->sink, &table);
	if (err) {
		fprintf(stderr, "%s: %s\n", path, strerror(-err));
		return 0;
	}
	for (i = 0; i < info->dlpi_phnum && l->n < 256; i++) {
		const ElfW(Phdr) *s = &info->dlpi_phdr[i];

		if (s->p_type != PT_LOAD || !(s->p_flags & PF_X))
			continue;
		unwind_entry__make(&l->places[l->n], l->tables, l->number, table, info->dlpi_addr,
			     info->dlpi_addr + s->p_vaddr,
			     info->dlpi_addr + s->p_vaddr + s->p_memsz);
		l->n += l->places[l->n].range.size != 0;
	}
	return 0;
}

static int loaded__order(const void *a, const void *b)
{
	const struct unwind_entry *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Fills `tables` and writes the list to `lists`; struct unwind_process.list. */
static inline uint64_t loaded__all(struct loaded *l, struct unwind_pool *tables, uint16_t number,
				   void *lists)
{
	*l = (struct loaded){.tables = tables, .number = number};
	dl_iterate_phdr(loaded__add, l);
	qsort(l->places, l->n, sizeof(*l->places), loaded__order);
	if (ranges__write(lists, l->places, l->n))
		return 0;
	return UNWIND_LIST(0, l->n, 1);
}

/* glibc's order of a ucontext's registers is not DWARF's. */
static inline void registers_of(const ucontext_t *context, uint64_t regs[UNWIND_REGISTERS])
{
	static const int from[UNWIND_REGISTERS] = {
		REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
		REG_R9,	 REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
	unsigned i;

	for (i = 0; i < UNWIND_REGISTERS; i++)
		regs[i] = (uint64_t)context->uc_mcontext.gregs[from[i]];
}

/* --- a stack: recursion, alloca, a realigned frame, a callback of libc, a signal handler --- */

static void (*stack__bottom)(void);
static volatile int stack__sink;

static void stack__on_signal(int signal)
{
	stack__bottom();
}

static int stack__compare(const void *a, const void *b)
{
	static int once;

	if (!once) {
		once = 1;
		raise(SIGUSR1);
		once = 0;
	}
	return *(const int *)a - *(const int *)b;
}

static __attribute__((noinline)) void stack__sort(int depth)
{
	int numbers[3] = {3, 1, 2};

	qsort(numbers, 3, sizeof(int), stack__compare);
	stack__sink = numbers[0];
}

static __attribute__((noinline)) void stack__aligned(int depth)
{
	char big[64 + depth] __attribute__((aligned(64)));

	memset(big, depth, sizeof(big));
	stack__sort(depth);
	stack__sink = big[depth];
}

static __attribute__((noinline)) void stack__alloca(int depth)
{
	char *room = __builtin_alloca((size_t)depth * 40 + 8);

	memset(room, 1, 8);
	stack__aligned(depth);
	stack__sink = room[0];
}

static __attribute__((noinline)) void stack__recurse(int depth)
{
	if (depth)
		stack__recurse(depth - 1);
	else
		stack__alloca(17);
	stack__sink = depth;
}

/* Calls `bottom` at the end of some `depth` frames. */
static inline void stack__make(int depth, void (*bottom)(void))
{
	struct sigaction action = {.sa_handler = stack__on_signal, .sa_flags = SA_NODEFER};

	stack__bottom = bottom;
	sigaction(SIGUSR1, &action, NULL);
	stack__recurse(depth);
}

/* SPDX-License-Identifier: MIT */
/* The stepper in user space against libunwind, at every instruction: a child runs code of many
 * kinds (recursion, alloca, realigned stacks, with and without frame pointers, callbacks of libc, a
 * signal handler, lazily bound calls), its parent steps it by ptrace and walks registers and a copy
 * of the stack, as a record of a sample would hold them. unwind_live [STEPS]     default: to the
 * child's end, or 150,000 */
#include <libunwind-ptrace.h>

#include <errno.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#include "unwind_self.h"

#define DEPTH 512u
#define BLOCKS 16384u
#define STACK_COPY 4096u /* little: frames above it need the reader */

/* --- what the child runs --- */

#if defined(__clang__)
#define OPTIMIZE(...)
#else
#define OPTIMIZE(...) optimize(__VA_ARGS__)
#endif
#define KIND(name, ...)                                                                            \
	static __attribute__((noinline, OPTIMIZE(__VA_ARGS__))) int name(int depth)                \
	{                                                                                          \
		char room[depth * 24 + 16];                                                        \
		snprintf(room, sizeof(room), "%d", depth);                                         \
		return (depth ? name(depth - 1) : 1) + room[0];                                    \
	}
KIND(kind_o0, "O0")
KIND(kind_o2, "O2", "omit-frame-pointer")
KIND(kind_o2_frames, "O2", "no-omit-frame-pointer")
KIND(kind_o3, "O3", "omit-frame-pointer")
KIND(kind_os, "Os")

static void nothing(void)
{
	stack__sink = kind_o2(1);
}

static void child(void)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	stack__sink = kind_o0(2) + kind_o2(2) + kind_o2_frames(2) + kind_o3(2) + kind_os(2);
	stack__make(3, nothing);
	/* Symbols that nobody has used before: bound when they are called. */
	stack__sink = (int)wcstol(L"12", NULL, 10) + (int)strtod("1.5", NULL);
	_exit(0);
}

/* --- the parent --- */

static pid_t pid;

static int read_child(struct host_reader *reader, void *dst, size_t size, uint64_t address)
{
	struct iovec to = {.iov_base = dst, .iov_len = size};
	struct iovec from = {.iov_base = (void *)(uintptr_t)address, .iov_len = size};

	return process_vm_readv(pid, &to, 1, &from, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

struct pcs {
	uint64_t at[DEPTH];
	unsigned n;
};

static bool take(void *ctx, const struct unwind_state *state)
{
	struct pcs *pcs = ctx;

	if (pcs->n == DEPTH)
		return false;
	pcs->at[pcs->n++] = state->regs[UNWIND_PC];
	return true;
}

static void registers(__u64 regs[UNWIND_REGISTERS])
{
	struct user_regs_struct r;

	ptrace(PTRACE_GETREGS, pid, 0, &r);
	memcpy(regs,
	       (const uint64_t[UNWIND_REGISTERS]){r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp,
						  r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
						  r.r14, r.r15, r.rip},
	       UNWIND_REGISTERS * 8);
}

static void by_libunwind(unw_addr_space_t space, void *info, struct pcs *ret)
{
	unw_cursor_t cursor;
	unw_word_t pc;

	ret->n = 0;
	if (unw_init_remote(&cursor, space, info))
		return;
	do {
		unw_get_reg(&cursor, UNW_REG_IP, &pc);
		if (!pc)
			break;
		ret->at[ret->n++] = pc;
	} while (ret->n < DEPTH && unw_step(&cursor) > 0);
}

static const char *const losses[] = {
#define LOSS_NAME(id, kind, name, sentence) [LOSS_##id] = name,
	CPROFD_LOSSES(LOSS_NAME)};

int main(int argc, char **argv)
{
	unsigned long limit = argc > 1 ? strtoul(argv[1], NULL, 10) : 150000, steps, same = 0,
		      shorter = 0;
	unsigned long differ = 0, lost[LOSS_COUNT] = {}, deepest = 0, beyond = 0;
	struct host_reader reader = {.read = read_child};
	static char stack[STACK_COPY] __attribute__((aligned(8)));
	static struct unwind_walk walk;
	static struct pcs ours, theirs;
	static struct loaded loaded;
	struct unwind_pool pool;
	struct host_pool pools[2];
	unw_addr_space_t space;
	uint64_t list;
	int status;
	void *info;

	pools[0] = (struct host_pool){.blocks = aligned_alloc(4096, 64 * 4096), .n = 64};
	pools[1] = (struct host_pool){.blocks = mmap(NULL, BLOCKS * 4096ul, PROT_READ | PROT_WRITE,
						     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
				      .n = BLOCKS};
	if (!pools[0].blocks || pools[1].blocks == MAP_FAILED ||
	    pool__init(&pool, (void *)pools[1].blocks, BLOCKS))
		return 2;
	list = loaded__all(&loaded, &pool, 1, (void *)pools[0].blocks);
	pid = fork();
	if (!pid)
		child();
	waitpid(pid, &status, 0);
	space = unw_create_addr_space(&_UPT_accessors, 0);
	unw_set_caching_policy(space, UNW_CACHE_GLOBAL);
	info = _UPT_create(pid);
	walk.pools = pools;
	walk.n_pools = 2;
	walk.reader = &reader;
	walk.stack = stack;
	for (steps = 0; steps < limit && WIFSTOPPED(status); steps++) {
		enum loss loss;
		unsigned i;
		int signal = WSTOPSIG(status);

		registers(walk.state.regs);
		walk.state.known = (1u << UNWIND_REGISTERS) - 1;
		walk.state.exact = 1;
		walk.stack_at = walk.state.regs[UNWIND_SP];
		walk.stack_size = sizeof(stack);
		while (walk.stack_size && read_child(NULL, stack, walk.stack_size, walk.stack_at))
			walk.stack_size -= 8;
		ours.n = 0;
		loss = walk__run(&walk, list, 0x1234567890abcdefull, DEPTH, take, &ours);
		by_libunwind(space, info, &theirs);
		lost[loss]++;
		if (ours.n > deepest)
			deepest = ours.n;
		beyond += walk.state.regs[UNWIND_SP] - walk.stack_at > walk.stack_size;
		for (i = 0; i < ours.n && i < theirs.n && ours.at[i] == theirs.at[i]; i++)
			;
		if (i == ours.n && i == theirs.n && loss == LOSS_NONE) {
			same++;
		} else if (i == theirs.n && loss == LOSS_NONE) {
			shorter++; /* libunwind gave up (it does so at a PLT entry, and in vDSO
				      code) */
		} else {
			if (differ++ < 5) {
				printf("step %lu, %s: at frame %u of %u, libunwind has %u\n", steps,
				       losses[loss], i, ours.n, theirs.n);
				for (i = 0; i < ours.n || i < theirs.n; i++)
					printf("    %12llx %12llx\n",
					       i < ours.n ? (unsigned long long)ours.at[i] : 0,
					       i < theirs.n ? (unsigned long long)theirs.at[i] : 0);
			}
		}
		ptrace(PTRACE_SINGLESTEP, pid, 0,
		       signal == SIGTRAP || signal == SIGSTOP ? 0 : signal);
		waitpid(pid, &status, 0);
	}
	if (WIFSTOPPED(status)) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	printf("%lu instructions, up to %lu frames, %lu walks beyond the copy of the stack: %lu "
	       "equal to "
	       "libunwind's, %lu where libunwind gave up, %lu different\n",
	       steps, deepest, beyond, same, shorter, differ);
	for (status = 1; status < LOSS_COUNT; status++)
		if (lost[status])
			printf("    %lu ended with %s\n", lost[status], losses[status]);
	printf("%s\n%d passed, %d failed, 0 skipped\n",
	       differ || !same ? "FAILED walks differ" : "ok walks are libunwind's",
	       !differ && same, differ || !same);
	return differ || !same;
}

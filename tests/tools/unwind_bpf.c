/* SPDX-License-Identifier: MIT */
/* The stepper in the kernel against libunwind, on this process' own stack.
 *   unwind_bpf OBJECT       (build/tests/bpf/unwind.bpf.o); needs CAP_BPF and CAP_PERFMON */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <time.h>

#include "unwind_self.h"

#define DEPTH 1024u
#define LIST_BLOCKS 64u
#define TABLE_BLOCKS 16384u

/* As in tests/bpf/unwind.bpf.c. */
struct walked {
	uint64_t list, salt;
	uint32_t forget;
	int32_t result;
	uint64_t n;
	uint64_t regs[UNWIND_REGISTERS];
	uint64_t pcs[DEPTH];
};

static struct walked *walked;
static int program = -1;
static unsigned passed, failed;

static void check(bool ok, const char *what)
{
	printf("%s %s\n", ok ? "ok" : "FAILED", what);
	*(ok ? &passed : &failed) += 1;
}

static void *pool_map(const char *name, uint32_t blocks, int outer, uint32_t at)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, name, 4, 4096, blocks, &opts);
	void *memory;

	if (fd < 0 || bpf_map_update_elem(outer, &at, &fd, 0))
		return NULL;
	memory = mmap(NULL, (size_t)blocks * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static double run(unsigned repeat, bool forget)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	double best = 1e9, ns;
	unsigned i;

	walked->forget = forget;
	for (i = 0; i < repeat; i++) {
		struct timespec a, b;

		clock_gettime(CLOCK_MONOTONIC, &a);
		if (bpf_prog_test_run_opts(program, &opts))
			return -1;
		clock_gettime(CLOCK_MONOTONIC, &b);
		ns = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
		if (ns < best)
			best = ns;
	}
	return best;
}

static void at_the_bottom(void)
{
	unw_word_t expected[DEPTH];
	unw_cursor_t cursor;
	unw_context_t context;
	unsigned n = 0, i;
	double whole, none, forgot, forgot_none;
	uint64_t frames, sp;
	bool equal;

	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	do
		unw_get_reg(&cursor, UNW_REG_IP, &expected[n++]);
	while (n < DEPTH && unw_step(&cursor) > 0);
	registers_of((ucontext_t *)&context, walked->regs);
	run(1, true);
	equal = walked->n == n && walked->result == UNWIND_END;
	for (i = 0; i < n && i < walked->n; i++)
		equal = equal && walked->pcs[i] == expected[i];
	if (!equal)
		for (i = 0; i < n || i < walked->n; i++)
			printf("    %2u: %12llx, libunwind %12llx\n", i,
			       i < walked->n ? (unsigned long long)walked->pcs[i] : 0,
			       i < n ? (unsigned long long)expected[i] : 0);
	printf("%llu frames, result %d; libunwind has %u\n", (unsigned long long)walked->n,
	       walked->result, n);
	check(equal, "the walk in the kernel is libunwind's, frame by frame");
	whole = run(20000, false);
	frames = walked->n;
	forgot = run(2000, true);
	sp = walked->regs[UNWIND_PC];
	walked->regs[UNWIND_PC] = 8; /* nothing there: the cost of calling */
	none = run(20000, false);
	forgot_none = run(2000, true);
	walked->regs[UNWIND_PC] = sp;
	printf("a frame: %.0f ns with rules cached by pc, %.0f ns through the tables\n",
	       (whole - none) / (double)frames, (forgot - forgot_none) / (double)frames);
}

int main(int argc, char **argv)
{
	static char log[1 << 20];
	LIBBPF_OPTS(bpf_object_open_opts, opts, .kernel_log_buf = log,
		    .kernel_log_size = sizeof(log), .kernel_log_level = 4);
	struct bpf_object *object = bpf_object__open_file(argc > 1 ? argv[1] : "", &opts);
	struct unwind_pool tables;
	static struct loaded loaded;
	char *lists, *blocks, *line;
	int outer;

	if (!object)
		return perror("unwind_bpf"), 2;
	if (bpf_object__load(object)) {
		printf("%.8000s\nFAILED the verifier\n0 passed, 1 failed, 0 skipped\n", log);
		return 1;
	}
	check(true, "the verifier accepts the stepper");
	for (line = strstr(log, "processed "); line; line = strstr(line + 1, "processed "))
		printf("verifier: %.*s\n", (int)strcspn(line, "\n"), line);
	program = bpf_program__fd(bpf_object__find_program_by_name(object, "walk"));
	outer = bpf_object__find_map_fd_by_name(object, "pools");
	lists = pool_map("lists", LIST_BLOCKS, outer, 0);
	blocks = pool_map("tables", TABLE_BLOCKS, outer, 1);
	walked = mmap(NULL, sizeof(*walked), PROT_READ | PROT_WRITE, MAP_SHARED,
		      bpf_object__find_map_fd_by_name(object, "walked"), 0);
	if (!lists || !blocks || walked == MAP_FAILED || pool__init(&tables, blocks, TABLE_BLOCKS))
		return perror("unwind_bpf: maps"), 1;
	walked->list = loaded__all(&loaded, &tables, 1, lists);
	walked->salt = 0x5eed5eed5eed5eedull;
	stack__make(40, at_the_bottom);
	printf("%u passed, %u failed, 0 skipped\n", passed, failed);
	return failed != 0;
}

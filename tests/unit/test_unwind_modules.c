/* SPDX-License-Identifier: MIT */
/* Modules of this very process: opened, compiled, published. Walks by the published list equal libunwind's, and what
 * is found at an address equals what the loader says. */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../tools/unwind_self.h"
#include "../modules_counts.h"
#include "symbols/symbols.h"
#include "modules/segments.h"

static struct modules *modules;
static struct modules_process *process;
static struct host_pool pools[32];
static uint32_t n_pools, n_dropped;
static int cache_at = -1;
static uint64_t pool_limit = UINT64_MAX, list, list_of_image, list_of_child;

/* --- the host: no broker, and plain memory for maps --- */

static int open_file(struct modules_host *self, int32_t pid, uint64_t start, uint64_t end)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/map_files/%llx-%llx", (unsigned long long)start,
		 (unsigned long long)end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) { /* without privileges: by its name */
		char line[4200], name[4096];
		FILE *maps = fopen("/proc/self/maps", "re");

		while (fd < 0 && maps && fgets(line, sizeof(line), maps)) {
			unsigned long long at;

			if (sscanf(line, "%llx-%*x %*s %*x %*s %*u %4095s", &at, name) == 2 &&
			    at == start)
				fd = open(name, O_RDONLY | O_CLOEXEC);
		}
		if (maps)
			fclose(maps);
	}
	modules__file(modules, fd < 0 ? -errno : fd);
	return 0;
}

static int add_pool(struct modules_host *self, uint64_t bytes)
{
	int fd;

	if (bytes > pool_limit) {
		modules__pool(modules, -1, 0, 0);
		return 0;
	}
	pool_limit -= bytes;
	fd = memfd_create("pool", MFD_CLOEXEC);
	assert_true(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	pools[n_pools].blocks = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	pools[n_pools].n = (uint32_t)(bytes / UNWIND_BLOCK);
	assert_true(pools[n_pools].blocks != MAP_FAILED);
	n_pools++;
	modules__pool(modules, fd, bytes, n_pools - 1);
	return 0;
}

static int set_process(struct modules_host *self, const struct native_key *key,
		       const struct unwind_process *value)
{
	n_dropped += !value;
	*(!key->tgid			      ? &list_of_image
	  : key->tgid == (uint64_t)getpid() ? &list
					      : &list_of_child) = value ? value->list : 0;
	return 0;
}

/* What JIT compilers write for perf: the file that a test made. */
static char perf_map[64];
static unsigned map_questions;
static int32_t own_pid;

static int open_perf_map(struct modules_host *self, int32_t pid)
{
	int fd = *perf_map ? open(perf_map, O_RDONLY | O_CLOEXEC) : -1;

	map_questions++;
	modules__perf_map(modules, fd < 0 ? -ENOENT : fd, own_pid);
	return 0;
}

static struct modules_host host = {open_file, add_pool, open_perf_map, set_process, NULL};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* As if a walk had stopped in each file that has no table yet. */
static void want_all(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	struct modules_found found;
	unsigned long start;
	char line[4096], rights[8];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%*x %7s", &start, rights) == 2 && rights[2] == 'x' &&
		    !modules__find(modules, process, start + 1, now(), &found) && found.module &&
		    found.module->state == MODULE_LATER)
			modules__wants(modules, process, start + 1, LOSS_NATIVE_PENDING, now());
	fclose(maps);
}

static void wait_until_ready(void)
{
	int i;

	for (i = 0; i < 6000; i++) {
		modules__tick(modules, now());
		if (modules__count(modules, MODULE_LATER))
			want_all();
		if (modules->n_files && modules__count(modules, MODULE_READY) + modules__count(modules, MODULE_BARE) == modules->n_files)
			break;
		usleep(10000);
	}
	modules__tick(modules, now());
	assert_true(modules->n_files >= 4); /* this program, libc, the loader, the vDSO */
}

static void begin(bool tables)
{
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct image_key key = {1, 2};

	n_pools = 0;
	list = list_of_image = list_of_child = 0;
	assert_int_equal(modules__new(&host, tables, &modules), 0);
	modules__cache(modules, cache_at);
	cache_at = -1;
	process = modules__open_process(modules, getpid(), &key, mem, maps, now());
	assert_non_null(process);
	close(mem);
	close(maps);
	wait_until_ready();
}

static void end(void)
{
	modules = modules__free(modules);
	while (n_pools) {
		n_pools--;
		munmap((void *)pools[n_pools].blocks, (size_t)pools[n_pools].n * UNWIND_BLOCK);
	}
}

/* --- walks --- */

static int read_self(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct iovec to = {dst, size}, from = {(void *)(uintptr_t)address, size};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

struct pcs {
	uint64_t at[512];
	uint32_t n;
};

static bool take(void *ctx, const struct unwind_state *state)
{
	struct pcs *pcs = ctx;

	pcs->at[pcs->n++] = state->regs[UNWIND_PC];
	return pcs->n < 512;
}

static unsigned walks;

static void at_the_bottom(void)
{
	struct host_reader reader = {.read = read_self};
	static struct unwind_walk walk;
	static struct pcs pcs;
	unw_word_t expected[512];
	unw_cursor_t cursor;
	unw_context_t context;
	uint32_t n = 0, i;

	pcs.n = 0;
	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	do
		unw_get_reg(&cursor, UNW_REG_IP, &expected[n++]);
	while (n < 512 && unw_step(&cursor) > 0);
	registers_of((ucontext_t *)&context, (uint64_t *)walk.state.regs);
	walk.state.known = (1u << UNWIND_REGISTERS) - 1;
	walk.state.exact = 1;
	walk.pools = pools;
	walk.n_pools = n_pools;
	walk.reader = &reader;
	assert_int_equal(walk__run(&walk, list, 1, 512, take, &pcs), LOSS_NONE);
	assert_int_equal(pcs.n, n);
	for (i = 0; i < n; i++)
		assert_int_equal(pcs.at[i], expected[i]);
	walks++;
}

static void walks_are_libunwinds(void **state)
{
	uint64_t before;

	begin(true);
	assert_true(list && list == list_of_image);
	stack__make(12, at_the_bottom);
	assert_true(walks >= 1);
	n_dropped = 0;
	before = now();
	modules__close_process(modules, process, now());
	assert_int_equal(n_dropped, 2);
	assert_ptr_equal(modules__process(modules, getpid(), before), process);
	end();
}

/* --- walks that are late --- */

static struct {
	struct part_stack part;
	char bytes[RECORD_STACK_MAX];
} copy;
static unw_word_t copied[512];
static uint32_t n_copied;

/* What the sampler would have sent, and libunwind's stack of the same moment. */
static void copy_here(void)
{
	unw_cursor_t cursor;
	unw_context_t context;
	uint64_t sp, size = RECORD_STACK_MAX;

	n_copied = 0;
	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	do
		unw_get_reg(&cursor, UNW_REG_IP, &copied[n_copied++]);
	while (n_copied < 512 && unw_step(&cursor) > 0);
	registers_of((ucontext_t *)&context, (uint64_t *)copy.part.regs);
	sp = copy.part.regs[UNWIND_SP] - 128;
	while (size && read_self(NULL, copy.part.bytes, size, sp)) /* the stack may end before */
		size -= 1024;
	copy.part.sp = sp;
	copy.part.size = (uint32_t)size;
}

static struct {
	struct part_native_frames part;
	uint64_t pcs[RECORD_NATIVE_FRAMES_MAX];
} late;

static void expect_copied(uint64_t time)
{
	uint32_t i;

	modules__walk(modules, process, &copy.part, time, &late.part);
	assert_int_equal(late.part.part.loss, LOSS_NONE);
	assert_int_equal(late.part.flags, NATIVE_WHOLE);
	assert_int_equal(late.part.n, n_copied);
	for (i = 0; i < n_copied; i++)
		assert_int_equal(late.part.pc[i] & ~NATIVE_EXACT, copied[i]);
	assert_true(late.part.pc[0] & NATIVE_EXACT);
}

static void late_walks(void **state)
{
	uint64_t time;
	uint32_t n;

	stack__make(12, copy_here);
	time = now();
	begin(true);
	expect_copied(time);
	expect_copied(now());
	/* The copy ends in the middle: as far as it goes. */
	n = copy.part.size;
	copy.part.size = 256;
	do {
		copy.part.size += 256;
		modules__walk(modules, process, &copy.part, time, &late.part);
	} while (late.part.n < 3);
	assert_int_equal(late.part.part.loss, LOSS_PAGE_FAULT);
	assert_true(late.part.n < n_copied);
	assert_false(modules__may_retry(modules, process, late.part.pc[late.part.n - 1], LOSS_PAGE_FAULT,
				    time));
	copy.part.size = n;
	/* Of a process that ended its tables stay for a while. */
	modules__close_process(modules, process, now());
	modules__tick(modules, now());
	expect_copied(time);
	end();
}

/* --- what JIT compilers write for perf --- */

/* sub $24, %rsp; call *%rdi; add $24, %rsp; ret */
static const uint8_t calls[] = {0x48, 0x83, 0xec, 0x18, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x18, 0xc3};
#define RETURNS 6u

static void write_map(const char *text, off_t size)
{
	FILE *file = fopen(perf_map, "we");

	assert_non_null(file);
	if (size)
		assert_int_equal(ftruncate(fileno(file), size), 0);
	fseeko(file, size, SEEK_SET);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

/* What was written by then is read. */
static uint64_t read_to;

static void tick(void)
{
	unsigned i;

	read_to = now();
	for (i = 0; i < 3; i++) /* a busy machine reads late */
		modules__tick(modules, now());
}

static const char *name_at(uint64_t pc)
{
	struct modules_found found;

	return modules__find(modules, process, pc, read_to, &found) || !found.jit ? NULL : found.object.name;
}

/* However late it is read. */
static void expect_name(uint64_t pc, const char *want)
{
	const char *name = NULL;
	int i;

	for (i = 0; i < 3000 && (!name || strcmp(name, want)); i++) {
		tick();
		name = name_at(pc);
		usleep(1000);
	}
	assert_non_null(name);
	assert_string_equal(name, want);
}

/* The walk of copy_here() goes through what was made, to the thread's entry. */
static bool comes_through(uint64_t through)
{
	uint32_t i;

	modules__walk(modules, process, &copy.part, now(), &late.part);
	for (i = 0; i < late.part.n; i++)
		if ((late.part.pc[i] & ~NATIVE_EXACT) == through)
			return late.part.part.loss == LOSS_NONE && late.part.n > i + 3;
	return false;
}

static void tick_until_whole(uint64_t through)
{
	int i;

	for (i = 0; i < 6000 && !comes_through(through); i++) {
		uint64_t pc = late.part.pc[late.part.n - 1];

		assert_true(modules__may_retry(modules, process, pc, late.part.part.loss, now()) || i < 20);
		modules__wants(modules, process, pc, late.part.part.loss, now());
		usleep(5000);
		modules__tick(modules, now());
	}
	assert_true(comes_through(through));
}

/* So much was read of files since, as ticks of one moment allow: of a thread that a busy machine may let wait. */
static uint64_t read_since(uint64_t begun, uint64_t least)
{
	uint64_t moment = now();
	unsigned i;

	for (i = 0; i < 5000; i++) {
		modules__tick(modules, moment);
		if (modules->counts.file_bytes - begun >= least && (least == 1 || i >= 100))
			break;
		usleep(modules->counts.file_bytes - begun >= least ? 0 : 1000);
	}
	return modules->counts.file_bytes - begun;
}

static void what_jits_write(void **state)
{
	uint8_t *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t at = (uint64_t)(uintptr_t)code, begun;
	unsigned asked;
	const char *name;
	char line[128];

	assert_true(code != MAP_FAILED);
	memcpy(code, calls, sizeof(calls));
	snprintf(perf_map, sizeof(perf_map), "/tmp/cprofd-unit-%d.map", getpid());
	own_pid = getpid();
	map_questions = 0;
	begin(true);
	assert_true(map_questions >= 1); /* there is code in no file; on a busy machine it was met again meanwhile */
	asked = map_questions;
	read_to = now();
	assert_null(name_at(at + RETURNS));
	snprintf(line, sizeof(line), "%lx %zx first\n", at, sizeof(calls));
	write_map(line, 0);
	usleep(120000);
	expect_name(at + RETURNS, "first"); /* that code was met asks again, and reads */
	assert_true(map_questions > asked);

	((void (*)(void (*)(void)))(void *)code)(copy_here);
	tick_until_whole(at + RETURNS);
	/* Other code at the place, with another frame. */
	code[3] = code[9] = 0x38;
	snprintf(line, sizeof(line), "%lx %zx second\n", at, sizeof(calls));
	write_map(line, 0); /* the file is no shorter, and has other bytes */
	((void (*)(void (*)(void)))(void *)code)(copy_here);
	tick();
	name = name_at(at + RETURNS); /* a moment ago it was either; of what is read late it is the second */
	assert_true(!name || !strcmp(name, "second"));
	expect_name(at + RETURNS, "second");
	assert_false(comes_through(at + RETURNS)); /* the former's table is gone */
	tick_until_whole(at + RETURNS);

	/* Of one that is too long the end is read, a part at each tick, and so much in a second. */
	begun = modules->counts.file_bytes;
	snprintf(line, sizeof(line), "\n%lx %zx last\n", at, sizeof(calls));
	write_map(line, (off_t)3 << 30);
	assert_in_range(read_since(begun, 1), 1, 4 << 20);
	assert_in_range(read_since(begun, 8 << 20), 8 << 20, 40 << 20);
	assert_string_equal(name_at(at + RETURNS), "second");
	read_to = now(); /* what the rest says may be other code */
	assert_null(name_at(at + RETURNS));
	unlink(perf_map);
	*perf_map = 0;
	end();
	munmap(code, 8192);
}

/* Trampolines of CPython lie at equal distances. The file names the first two. */
#define ARENA (64u << 10)
#define DISTANCE 0x2000u
#define FIRST 0x2000u

static bool is_trampoline_at(uint64_t pc)
{
	struct modules_found found;

	return !modules__find(modules, process, pc, now(), &found) && found.jit && found.object.kind == JIT_KIND_PY_TRAMPOLINE;
}

static void want(uint64_t pc)
{
	int i;

	for (i = 0; i < 40 && !is_trampoline_at(pc); i++) {
		modules__wants(modules, process, pc | NATIVE_EXACT, LOSS_NATIVE_MAPPING, now());
		usleep(5000);
		tick();
	}
}

static void trampolines(void **state)
{
	uint8_t *room = mmap(NULL, 1 << 21, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *code = (uint8_t *)(((uintptr_t)room + ARENA - 1) & ~(uintptr_t)(ARENA - 1));
	uint64_t at = (uint64_t)(uintptr_t)code;
	char lines[256];
	size_t i, n;

	assert_true(room != MAP_FAILED);
	for (i = FIRST; i < ARENA - DISTANCE; i += DISTANCE)
		memcpy(code + i, calls, sizeof(calls));
	assert_int_equal(munmap(code + 0x1000, 0x1000), 0); /* what cannot be read at once is read one by one */
	snprintf(perf_map, sizeof(perf_map), "/tmp/cprofd-unit-%d.map", getpid());
	n = (size_t)snprintf(lines, sizeof(lines), "%lx 10 before\n%lx 10 py::a:x\n%lx 10 py::b:x\n", at, at + FIRST, at + FIRST + DISTANCE);
	write_map(lines, 0);
	begin(true);
	for (i = 0; i < 3000 && !is_trampoline_at(at + FIRST + RETURNS); i++, usleep(1000))
		tick();
	assert_true(is_trampoline_at(at + FIRST + RETURNS));
	for (i = 0; i < 100 && !is_trampoline_at(at + FIRST + 2 * DISTANCE + RETURNS); i++)
		want(at + FIRST + 2 * DISTANCE + RETURNS);
	assert_true(is_trampoline_at(at + FIRST + 2 * DISTANCE + RETURNS));
	assert_false(is_trampoline_at(at + ARENA - DISTANCE + RETURNS)); /* other bytes */
	end();

	/* A lie: a function that takes the place of some of them, and reaches far beyond the last. */
	snprintf(lines + n, sizeof(lines) - n, "%lx 9000 large\n", at + FIRST + 3 * DISTANCE + 0x100);
	write_map(lines, 0);
	begin(true);
	tick();
	want(at + FIRST + 4 * DISTANCE + RETURNS);
	want(at + FIRST + 2 * DISTANCE + RETURNS);
	expect_name(at + FIRST + 4 * DISTANCE + RETURNS, "large");
	end();
	unlink(perf_map);
	*perf_map = 0;
	munmap(room, 1 << 21);
}

static void hopes(void **state)
{
	uint64_t time, pc = 0x1000 | NATIVE_EXACT;
	int mem, maps, i;
	struct image_key key = {1, 2};

	/* Nothing is ready: each table may come. */
	mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	n_pools = 0;
	assert_int_equal(modules__new(&host, true, &modules), 0);
	process = modules__open_process(modules, getpid(), &key, mem, maps, now());
	close(mem);
	close(maps);
	time = now();
	stack__make(12, copy_here);
	modules__walk(modules, process, &copy.part, time, &late.part);
	assert_int_equal(late.part.part.loss, LOSS_NATIVE_PENDING);
	assert_int_equal(late.part.n, 1);
	assert_true(modules__may_retry(modules, process, late.part.pc[0], LOSS_NATIVE_PENDING, time));
	/* The mappings are older than that. */
	assert_true(modules__may_retry(modules, process, pc, LOSS_NATIVE_MAPPING, time));
	wait_until_ready();
	modules__wants(modules, process, pc, LOSS_NATIVE_MAPPING, time);
	for (i = 0; i < 200 && modules__may_retry(modules, process, pc, LOSS_NATIVE_MAPPING, time); i++) {
		usleep(25000);
		modules__tick(modules, now());
	}
	assert_false(modules__may_retry(modules, process, pc, LOSS_NATIVE_MAPPING, time));
	assert_false(modules__may_retry(modules, process, pc, LOSS_NATIVE_NO_RULE, time));
	end();
}

/* The second time tables are read, the third they are found to be damaged, and made: walks are the same. */
static void kept_on_disk(void **state)
{
	char path[] = "/tmp/unwind-XXXXXX", command[160];
	uint32_t round, first = 0;

	assert_non_null(mkdtemp(path));
	stack__make(12, copy_here);
	for (round = 0; round < 3; round++) {
		snprintf(command, sizeof(command), "for f in %s/*.unwind; do printf '%%4096s' | dd of=$f bs=4096 seek=1 conv=notrunc status=none; done", path);
		if (round == 2)
			assert_int_equal(system(command), 0);
		cache_at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		begin(true);
		expect_copied(now());
		if (!round)
			first = modules__count(modules, MODULE_READY);
		else
			assert_true((round == 2 ? !modules->counts.cached : modules->counts.cached >= 1) &&
				    modules__count(modules, MODULE_READY) == first);
		usleep(50000); /* what is to be stored */
		end();
	}
	snprintf(command, sizeof(command), "rm -r %s", path);
	assert_int_equal(system(command), 0);
}

static void expect_symbol(uint64_t pc, const char *file, const char *name)
{
	struct modules_found found;
	struct symbol_file *symbols;
	struct module_bytes bytes;
	struct symbol symbol = {};

	assert_int_equal(modules__find(modules, process, pc, now(), &found), 0);
	assert_non_null(found.module);
	assert_true(found.vaddr_known);
	assert_non_null(strstr(found.module->path, file));
	assert_int_equal(modules__bytes(modules, found.module, &bytes), 0);
	assert_int_equal(symbol_file__open(dup(bytes.fd), found.module->path, NULL, &symbols), 0);
	assert_int_equal(symbol_file__find(symbols, found.vaddr, &symbol), 0);
	assert_string_equal(symbol.name.data, name);
	assert_int_equal(symbol.offset, 0);
	symbol__free(&symbol);
	symbol_file__free(symbols);
}

/* Without tables there is no pool, and answers all the same. */
static void what_is_there(void **state)
{
	struct modules_found found;

	begin(false);
	assert_int_equal(n_pools, 0);
	expect_symbol((uint64_t)(uintptr_t)table__compile, "test_unwind_modules", "table__compile");
	expect_symbol((uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), "libc",
		      "gnu_get_libc_version");
	assert_int_equal(modules__find(modules, process, 4096, now(), &found), -ENOENT);
	assert_null(modules__process(modules, getpid() + 1, now()));
	end();
}

/* Tables that find no place: their modules are named, walks say so. */
static void no_room(void **state)
{

	pool_limit = MODULES_LISTS_BYTES;
	begin(true);
	assert_true(modules->counts.no_room > 0);
	assert_int_equal(modules->counts.table_bytes, 0);
	assert_true(list);
	end();
	pool_limit = UINT64_MAX;
}

/* Looks are as rare as they are dear: until what was asked for is there, which takes a while on a busy machine. */
static int find_in_time(struct modules_process *in, uint64_t pc, uint64_t when, struct modules_found *found)
{
	int i, err = -ENOENT;

	for (i = 0; i < 1000 && (err = modules__find(modules, in, pc, when, found)); i++) {
		usleep(10000);
		modules__tick(modules, now());
	}
	return err;
}

/* New code is found after a pc was met that lies in no mapping. */
static void mappings_change(void **state)
{
	struct modules_found found;
	uint64_t met;
	void *code;

	begin(true);
	code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(code != MAP_FAILED);
	met = now();
	assert_int_equal(
		modules__find(modules, process, (uint64_t)(uintptr_t)code + 8, met, &found),
		-ENOENT);
	modules__wants(modules, process, ((uint64_t)(uintptr_t)code + 8) | NATIVE_EXACT,
		       LOSS_NATIVE_MAPPING, met);
	assert_int_equal(find_in_time(process, (uint64_t)(uintptr_t)code + 8, met, &found), 0);
	assert_null(found.module);
	munmap(code, 8192);
	end();
}

static void ticks(unsigned n)
{
	while (n--) {
		usleep(5000);
		modules__tick(modules, now());
	}
}

/* A page of this very program's code at an address of its own. */
static char *map_own(char *at)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	at = mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, 0);
	assert_true(at != MAP_FAILED);
	close(fd);
	return at;
}

/* A child has what its parent had, and one list is enough until they differ. */
static void a_forked_child(void **state)
{
	struct modules_process *child, *parent;
	struct modules_found found;
	int mem, maps, status;
	uint64_t forked, shared;
	char path[64], *later;
	pid_t pid;

	begin(true);
	parent = process;
	shared = list;
	forked = now();
	pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	assert_null(modules__fork_process(modules, pid, 12345, forked, now()));
	child = modules__fork_process(modules, pid, modules_process__id(parent), forked, now());
	assert_non_null(child);
	assert_int_equal(list_of_child, shared);
	assert_ptr_equal(modules__process(modules, pid, forked + 1), child);
	process = child;
	expect_symbol((uint64_t)(uintptr_t)table__compile, "test_unwind_modules", "table__compile");
	/* The parent maps code: its list changes, the child's does not. */
	later = map_own(NULL);
	modules__wants(modules, parent, ((uint64_t)(uintptr_t)later + 8) | NATIVE_EXACT,
		       LOSS_NATIVE_MAPPING, now());
	assert_int_equal(find_in_time(parent, (uint64_t)(uintptr_t)later + 8, now(), &found), 0);
	ticks(3);
	assert_true(list != shared && list == list_of_image);
	assert_int_equal(list_of_child, shared);
	assert_int_equal(modules__find(modules, child, (uint64_t)(uintptr_t)later + 8, now(), &found),
			 -ENOENT);
	/* Its own files of /proc say the same. */
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = open(path, O_RDONLY | O_CLOEXEC);
	modules_process__memory(child, mem, maps);
	close(mem);
	close(maps);
	ticks(3);
	assert_int_equal(list_of_child, shared);
	assert_int_equal(modules__find(modules, child, (uint64_t)(uintptr_t)later + 8, now(), &found),
			 -ENOENT);
	/* The parent ends: its tables stay, and the child stands for the image. */
	modules__close_process(modules, parent, now());
	ticks(1);
	assert_int_equal(list_of_image, shared);
	expect_symbol((uint64_t)(uintptr_t)table__compile, "test_unwind_modules", "table__compile");
	modules__close_process(modules, child, now());
	assert_int_equal(list_of_image, 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	munmap(later, 4096);
	end();
}

/* Looks are as rare as they are dear: on a busy machine this takes a while. */
static void look(void)
{
	unsigned i;

	usleep(5000);
	for (i = 0; i < 1000 && modules__refresh(modules, now()) != UINT64_MAX; i++)
		usleep(10000);
	assert_true(i < 1000);
}

/* The place of a file's code is given to another's: what lies there is told by the time, and a walk by
 * the list of before is believed no further than to there. */
static void code_that_is_replaced(void **state)
{
	struct modules_found found;
	uint64_t before, taken, looked, pc;
	__u64 walk[3];
	char *at = map_own(NULL);
	int fd;

	begin(true);
	pc = (uint64_t)(uintptr_t)at + 8;
	walk[0] = pc | NATIVE_EXACT, walk[1] = pc + 8, walk[2] = 4096;
	assert_int_equal(modules__find(modules, process, pc, now(), &found), 0);
	assert_non_null(strstr(found.module->path, "test_unwind_modules"));
	before = now();
	/* Room where no code lies says nothing. */
	modules_process__mapped(process, 4096, 8192, before);
	assert_int_equal(modules_process__trusted(process, walk, 3, now()), 3);
	munmap(at, 4096);
	taken = now();
	fd = open("/lib64/ld-linux-x86-64.so.2", O_RDONLY | O_CLOEXEC);
	assert_ptr_equal(mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0), at);
	close(fd);
	modules_process__mapped(process, (uint64_t)(uintptr_t)at, (uint64_t)(uintptr_t)at + 4096, taken);
	/* Nobody looked yet. */
	assert_int_equal(modules__find(modules, process, pc, before, &found), 0);
	assert_int_equal(modules__find(modules, process, pc, now(), &found), -ENOENT);
	assert_int_equal(modules_process__trusted(process, walk, 3, before), 3);
	assert_int_equal(modules_process__trusted(process, walk, 3, now()), 1);
	assert_int_equal(modules_process__trusted(process, walk + 1, 2, now()), 1);
	assert_int_equal(modules_process__trusted(process, walk + 2, 1, now()), 1);
	look();
	looked = now();
	assert_int_equal(modules__find(modules, process, pc, before, &found), 0);
	assert_non_null(strstr(found.module->path, "test_unwind_modules"));
	assert_int_equal(modules__find(modules, process, pc, looked, &found), 0);
	assert_null(strstr(found.module->path, "test_unwind_modules"));
	assert_int_equal(modules__find(modules, process, pc, taken + 1, &found), 0);
	assert_null(strstr(found.module->path, "test_unwind_modules"));
	assert_int_equal(modules_process__trusted(process, walk, 3, taken + 1), 1);
	assert_int_equal(modules_process__trusted(process, walk, 3, looked), 3);
	assert_true(modules__changes(modules, process, before) !=
		    modules__changes(modules, process, looked));
	munmap(at, 4096);
	end();
}

/* Another file came and went between two looks: at its time neither the one before nor the one after was
 * there. */
static void between_two_looks(void **state)
{
	struct modules_found found;
	uint64_t first, second, pc;
	char *at = map_own(NULL);
	int fd;

	begin(true);
	pc = (uint64_t)(uintptr_t)at + 8;
	first = now();
	usleep(2000);
	second = now();
	fd = open("/lib64/ld-linux-x86-64.so.2", O_RDONLY | O_CLOEXEC);
	assert_ptr_equal(mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0), at);
	close(fd);
	modules_process__mapped(process, (uint64_t)(uintptr_t)at, (uint64_t)(uintptr_t)at + 4096, first);
	modules_process__mapped(process, (uint64_t)(uintptr_t)at, (uint64_t)(uintptr_t)at + 4096, second);
	look();
	assert_int_equal(modules__find(modules, process, pc, first - 1, &found), 0);
	assert_non_null(strstr(found.module->path, "test_unwind_modules"));
	assert_int_equal(modules__find(modules, process, pc, first + 1000, &found), -ENOENT);
	assert_int_equal(modules__find(modules, process, pc, second + 1, &found), 0);
	assert_null(strstr(found.module->path, "test_unwind_modules"));
	munmap(at, 4096);
	end();
}

/* More changes than are kept: none of them is forgotten before it is looked at. */
static void many_changes(void **state)
{
	char *at = map_own(NULL);
	uint64_t begin_ns, pc = (uint64_t)(uintptr_t)at + 8;
	__u64 walk[2] = {pc | NATIVE_EXACT, 4096};
	unsigned i;

	begin(true);
	begin_ns = now();
	for (i = 0; i < 1000; i++)
		modules_process__mapped(process, (uint64_t)(uintptr_t)at,
					(uint64_t)(uintptr_t)at + 4096, now());
	assert_int_equal(modules_process__trusted(process, walk, 2, begin_ns - 1), 2);
	assert_int_equal(modules_process__trusted(process, walk, 2, now()), 1);
	look();
	assert_int_equal(modules_process__trusted(process, walk, 2, now()), 2);
	munmap(at, 4096);
	end();
}

static void biases(void **state)
{
	struct segments segments = {.n = 2,
				    .items = {{0x1040, 0x500, 0x401040}, {0x3000, 0x10, 0x9000}}};
	uint64_t bias;

	assert_int_equal(segments__bias(&segments, 0x1000, 0x7f0000001000, &bias), 0);
	assert_int_equal(bias, 0x7f0000001000 - 0x401000);
	assert_int_equal(segments__bias(&segments, 0x3000, 0x7f0000003000, &bias), 0);
	assert_int_equal(bias, 0x7f0000003000 - 0x9000);
	assert_int_equal(segments__bias(&segments, 0x8000, 0x1000, &bias), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walks_are_libunwinds),
		cmocka_unit_test(late_walks),
		cmocka_unit_test(hopes),
		cmocka_unit_test(what_jits_write),
		cmocka_unit_test(trampolines),
		cmocka_unit_test(kept_on_disk),
		cmocka_unit_test(what_is_there),
		cmocka_unit_test(no_room),
		cmocka_unit_test(mappings_change),
		cmocka_unit_test(a_forked_child),
		cmocka_unit_test(code_that_is_replaced),
		cmocka_unit_test(between_two_looks),
		cmocka_unit_test(many_changes),
		cmocka_unit_test(biases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

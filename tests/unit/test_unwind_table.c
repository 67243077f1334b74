/* SPDX-License-Identifier: MIT */
/* Tables as bytes: the cache on disk, which of its files are refused, pools, lists, a walk of this very thread. */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../tools/unwind_self.h"
#include "unwind/elf.h"

#define BLOCKS 8192u

static struct unwind_pool pool;
static struct unwind_table *table;
static struct unwind_cache cache = {.directory = -1};
static char directory[] = "/tmp/test_unwind.XXXXXX";

static int begin(void **state)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *blocks = aligned_alloc(4096, BLOCKS * 4096ul);
	struct elf_bytes file;

	if (!blocks)
		return -1;
	memset(blocks, 0, BLOCKS * 4096ul);
	if (pool__init(&pool, blocks, BLOCKS) || elf_bytes__init_fd(&file, fd) ||
	    table__compile(&file, &pool.sink, &table) || !mkdtemp(directory))
		return -1;
	cache.directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return cache.directory < 0;
}

static int end(void **state)
{
	cache__trim(&cache, 0);
	close(cache.directory);
	free(pool.blocks);
	pool__free(&pool);
	return rmdir(directory);
}

/* The only file in the cache. */
static void cache_path(char path[600])
{
	DIR *dir = opendir(directory);
	struct dirent *entry;

	path[0] = 0;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			snprintf(path, 600, "%s/%s", directory, entry->d_name);
	closedir(dir);
	assert_true(path[0]);
}

static void kept_on_disk(void **state)
{
	struct unwind_identity other = table->identity;
	struct unwind_table *again;
	struct stat stat_buf;
	char path[600];
	size_t head = offsetof(struct unwind_table, identity);

	assert_int_equal(cache__load(&cache, &table->identity, &pool.sink, &again), -ENOENT);
	assert_int_equal(cache__store(&cache, table), 0);
	assert_int_equal(cache__store(&cache, table), 0); /* again: replaced */
	assert_int_equal(cache__load(&cache, &table->identity, &pool.sink, &again), 0);
	assert_ptr_not_equal(again, table);
	assert_int_equal(table__size(again), table__size(table));
	assert_memory_equal((char *)again + head, (char *)table + head, table__size(table) - head);
	pool__release(&pool, again, table__size(table));
	other.text_size++;
	assert_int_equal(cache__load(&cache, &other, &pool.sink, &again), -ENOENT);
	cache_path(path);
	assert_int_equal(stat(path, &stat_buf), 0);
	assert_int_equal(stat_buf.st_size, table__size(table));
	assert_int_equal(cache__trim(&cache, table__size(table)), 0);
	assert_int_equal(stat(path, &stat_buf), 0);
	assert_int_equal(cache__trim(&cache, table__size(table) - 1), 0);
	assert_int_equal(stat(path, &stat_buf), -1);
}

static void damaged_on_disk(void **state)
{
	size_t size = table__size(table), at;
	struct unwind_table *again;
	char path[600], byte;
	int fd;

	for (at = 0; at < size; at += at < sizeof(*table) ? 1 : size / 50) {
		assert_int_equal(cache__store(&cache, table), 0);
		cache_path(path);
		fd = open(path, O_RDWR | O_CLOEXEC);
		assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
		close(fd);
		assert_int_equal(cache__load(&cache, &table->identity, &pool.sink, &again),
				 -EBADMSG);
		if (again)
			pool__release(&pool, again, size);
		assert_int_equal(access(path, F_OK), -1); /* removed */
	}
	assert_int_equal(cache__store(&cache, table), 0);
	cache_path(path);
	assert_int_equal(truncate(path, (off_t)size - 8), 0);
	assert_int_equal(cache__load(&cache, &table->identity, &pool.sink, &again), -EBADMSG);
	assert_int_equal(symlink("/proc/self/exe", path), 0);
	assert_int_equal(cache__load(&cache, &table->identity, &pool.sink, &again), -ELOOP);
	assert_int_equal(unlink(path), 0);
}

/* Forged, that is with the right checksum: what the walker relies on is still looked at. */
static void forged(void **state)
{
	size_t size = table__size(table);
	char *copy = malloc(size);
	struct unwind_table *t = (struct unwind_table *)copy;
	uint64_t *words = (uint64_t *)copy;

	assert_non_null(copy);
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		memcpy(copy, table, size);                                                         \
		change;                                                                            \
		assert_int_equal(table__check(copy, size), -EBADMSG);                              \
	} while (0)
	memcpy(copy, table, size);
	assert_int_equal(table__check(copy, size), 0);
	assert_int_equal(table__check(copy, size - 8), -EBADMSG);
	assert_int_equal(table__check(copy, 16), -EBADMSG);
	REFUSED(t->shift = 9);
	REFUSED(t->shift = 17);
	REFUSED(t->pages++);
	REFUSED(t->pages = UINT32_MAX - t->index + 1);
	REFUSED(t->n_rows += 4);
	REFUSED(t->rules += 1);
	REFUSED(t->text_size = (uint64_t)t->pages << 17);
	REFUSED(t->text = t->base - 1);
	REFUSED(words[t->index] |= 0xffffull << 48);
	REFUSED(words[t->index + 1] |= 0x7ffull << 32);
	REFUSED(words[t->index + 1] |= 0xfffffff0u);
	REFUSED(words[t->rules] = (uint64_t)UNWIND_KIND_COUNT << 52);
	REFUSED(words[t->rules + t->n_rules - 1] = (uint64_t)UNWIND_KIND_LONG << 52);
	REFUSED(words[t->rows] ^= 0xffff0000ull);
	REFUSED(words[t->rows] |= 0xffffull);
	free(copy);
}

/* Each prefix of an ELF file, and each byte of its first page changed: an answer, and no harm. */
static void cut_short(void **state)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_bytes memory;
	struct unwind_table *ours;
	struct stat stat_buf;
	char *bytes;
	size_t at;

	assert_int_equal(fstat(fd, &stat_buf), 0);
	bytes = malloc((size_t)stat_buf.st_size);
	assert_int_equal(read(fd, bytes, (size_t)stat_buf.st_size), stat_buf.st_size);
	for (at = 0; at < (size_t)stat_buf.st_size; at += 1 + (size_t)stat_buf.st_size / 200) {
		elf_bytes__init_memory(&memory, bytes, at);
		if (!table__compile(&memory, &pool.sink, &ours)) {
			assert_int_equal(table__check(ours, table__size(ours)), 0);
			pool__release(&pool, ours, table__size(ours));
		}
	}
	elf_bytes__init_memory(&memory, bytes, (size_t)stat_buf.st_size);
	for (at = 0; at < 1024; at += 3) {
		bytes[at] ^= (char)0xff;
		if (!table__compile(&memory, &pool.sink, &ours)) {
			assert_int_equal(table__check(ours, table__size(ours)), 0);
			pool__release(&pool, ours, table__size(ours));
		}
		bytes[at] ^= (char)0xff;
	}
	free(bytes);
}

static void room(void **state)
{
	void *blocks = aligned_alloc(4096, 16 * 4096), *places[64];
	struct unwind_pool small;
	unsigned i;

	assert_int_equal(pool__init(&small, blocks, 16), 0);
	assert_null(pool__allot(&small, 17 * 4096));
	for (i = 0; i < 64; i++) {
		places[i] = pool__allot(&small, 1000);
		assert_non_null(places[i]);
		/* wholly in one block */
		assert_int_equal(((uintptr_t)places[i] & 4095) + 1000 <= 4096, 1);
	}
	assert_null(pool__allot(&small, 1000));
	assert_null(pool__allot(&small, 4096));
	for (i = 0; i < 64; i++)
		pool__release(&small, places[i], 1000);
	places[0] = pool__allot(&small, 16 * 4096);
	assert_ptr_equal(places[0], blocks);
	pool__release(&small, places[0], 16 * 4096);
	places[0] = pool__allot(&small, 5000);
	places[1] = pool__allot(&small, 8);
	assert_ptr_equal(places[0], blocks);
	assert_ptr_equal(places[1], (char *)blocks + 8192);
	pool__free(&small);
	free(blocks);
}

/* Lists of thousands, against a search one by one. */
static void found_in_lists(void **state)
{
	static const uint32_t counts[] = {1, 2, 3, 511, 512, 513, 1233, 5000};
	static struct unwind_state s;
	struct unwind_entry *places = calloc(5000, sizeof(*places)), *read = calloc(5000, sizeof(*read));
	size_t c;

	srandom(1);
	for (c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
		uint32_t n = counts[c], i, k;
		uint64_t at = 0x10000;
		struct host_pool lists = {.n = ranges__blocks(n)};

		lists.blocks = aligned_alloc(4096, lists.n * 4096ul);
		for (i = 0; i < n; i++) {
			at += (uint64_t)random() % 5 * 1000;
			places[i].start = at;
			places[i].range = (struct unwind_range){
				.size = 1 + (uint32_t)random() % 4000, .module = i};
			at += places[i].range.size;
		}
		assert_int_equal(ranges__write((void *)lists.blocks, places, n), 0);
		ranges__read(lists.blocks, n, read);
		assert_memory_equal(read, places, n * sizeof(*places));
		host_pools_current = &lists;
		host_pools_n = 1;
		unwind_begin(&s, UNWIND_LIST(0, n, c), 7);
		for (i = 0; i < 3000; i++) {
			uint64_t pc = i < n ? places[i].start : (uint64_t)random() % (at + 0x16000);
			int loss = unwind_list_find(&s, pc);

			for (k = 0; k < n; k++)
				if (pc - places[k].start < places[k].range.size)
					break;
			assert_int_equal(loss, k < n ? 0 : LOSS_NATIVE_MAPPING);
			if (!loss)
				assert_int_equal(s.recent[s.turn & 3].range.module, k);
		}
		assert_int_equal(unwind_list_find(&s, UINT64_MAX), LOSS_NATIVE_MAPPING);
		places[n - 1].range.size = 0;
		if (n > 1) {
			places[n - 1].start = places[n - 2].start;
			assert_int_equal(ranges__write((void *)lists.blocks, places, n), -EINVAL);
		}
		free((void *)lists.blocks);
	}
	free(places);
	free(read);
}

/* --- a walk --- */

static struct loaded loaded;
static uint64_t list;
static struct host_pool pools[2];

static int read_self(struct host_reader *reader, void *dst, size_t size, uint64_t address)
{
	struct iovec to = {.iov_base = dst, .iov_len = size};
	struct iovec from = {.iov_base = (void *)(uintptr_t)address, .iov_len = size};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

struct pcs {
	uint64_t at[512];
	unsigned n;
};

static bool take(void *ctx, const struct unwind_state *state)
{
	struct pcs *pcs = ctx;

	if (pcs->n == 512)
		return false;
	pcs->at[pcs->n++] = state->regs[UNWIND_PC];
	return true;
}

static unsigned walks;

static void at_the_bottom(void)
{
	static struct unwind_walk walk;
	struct host_reader reader = {.read = read_self};
	static unw_word_t expected[512];
	static unw_context_t context;
	static unw_cursor_t cursor;
	static struct pcs pcs;
	unsigned n = 0, i;

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
	walk.n_pools = 2;
	walk.reader = &reader;
	assert_int_equal(walk__run(&walk, list, 1, 512, take, &pcs), LOSS_NONE);
	assert_int_equal(pcs.n, n);
	for (i = 0; i < n; i++)
		assert_int_equal(pcs.at[i], expected[i]);
	assert_true(n > 20);
	/* Without the rest of memory the walk ends where the record does. */
	pcs.n = 0;
	registers_of((ucontext_t *)&context, (uint64_t *)walk.state.regs);
	walk.state.exact = 1;
	walk.reader = NULL;
	walk.stack_at = walk.state.regs[UNWIND_SP];
	walk.stack = (const void *)(uintptr_t)walk.stack_at;
	walk.stack_size = 1600;
	assert_int_equal(walk__run(&walk, list, 1, 512, take, &pcs), LOSS_PAGE_FAULT);
	assert_true(pcs.n > 1 && pcs.n < n);
	assert_true(walk.state.fault >= walk.stack_at + 1600 - 8);
	walk.stack = NULL;
	walks++;
}

static void like_libunwind(void **state)
{
	pools[0] = (struct host_pool){.blocks = aligned_alloc(4096, 64 * 4096), .n = 64};
	pools[1] = (struct host_pool){.blocks = pool.blocks, .n = BLOCKS};
	list = loaded__all(&loaded, &pool, 1, (void *)pools[0].blocks);
	assert_true(list);
	stack__make(12, at_the_bottom);
	assert_true(walks >= 1);
	free((void *)pools[0].blocks);
}

/* What the cache says of a pc is what the tables say. Each module's table holds twice, the second time for code that lies a little
 * elsewhere, so that ranges meet anywhere within what is cached together. */
static void cached_as_found(void **state)
{
	static struct unwind_state with, without;
	struct unwind_entry places[2 * 256];
	uint32_t n = 0, i, of_cache = 0;
	uint64_t twice, pc = 0;

	pools[0] = (struct host_pool){.blocks = aligned_alloc(4096, 64 * 4096), .n = 64};
	pools[1] = (struct host_pool){.blocks = pool.blocks, .n = BLOCKS};
	list = loaded__all(&loaded, &pool, 1, (void *)pools[0].blocks);
	for (i = 0; i < loaded.n; i++) {
		struct unwind_entry *first = &places[n++], *second = &places[n];

		*first = *second = loaded.places[i];
		if (first->range.size < 8192)
			continue;
		first->range.size = first->range.size / 2 | 1;
		second->start += first->range.size;
		second->range.origin += 0x77;
		second->range.size -= first->range.size;
		n++;
	}
	assert_int_equal(ranges__write((void *)pools[0].blocks, places, n), 0);
	twice = UNWIND_LIST(0, n, 1);
	host_pools_current = pools;
	host_pools_n = 2;
	srandom(3);
	unwind_begin(&with, twice, 77);
	unwind_begin(&without, twice, 77);
	for (i = 0; i < 1000000; i++) {
		const struct unwind_entry *place = &places[(uint32_t)random() % n];
		struct unwind_set *set;
		int expected, loss;

		if (i % 16 == 0)
			pc = place->start + (i % 32 ? place->range.size - 600 : (uint64_t)random() % place->range.size);
		pc += (uint64_t)random() % 128;
		if (i % 50000 == 0) { /* another process */
			unwind_begin(&with, twice, i * 0x9e3779b97f4a7c15ull);
			unwind_begin(&without, twice, i * 0x9e3779b97f4a7c15ull);
		}
		set = &without.cache[unwind_set_of(pc + without.process)];
		memset(set, 0, sizeof(*set));
		with.rule = without.rule = 0;
		expected = unwind_find(&without, pc);
		of_cache += unwind_set_find(&with.cache[unwind_set_of(pc + with.process)], pc + with.process) != 0;
		loss = unwind_find(&with, pc);
		assert_int_equal(loss, expected);
		assert_int_equal(with.rule, without.rule);
	}
	assert_true(of_cache > 100000);
	free((void *)pools[0].blocks);
}

/* All that a rule can be, in the cache's form or not at all. */
static void packed(void **state)
{
	static const int64_t saved[] = {0, -8, -16, -56, -120, -128, -12, 8, 11, 15, 16};
	static const int32_t offsets[] = {0, 8, 16, 24, 4096, 65528, 65536, 12, -8, 40, 1023, 1024, 1 << 20};
	uint32_t kind, reg, base, s, o, signal, n = 0;

	for (kind = 0; kind < UNWIND_KIND_COUNT; kind++)
		for (reg = 0; reg < 16; reg++)
			for (base = 0; base < 128; base++)
				for (s = 0; s < sizeof(saved) / sizeof(*saved); s++)
					for (o = 0; o < sizeof(offsets) / sizeof(*offsets); o++)
						for (signal = 0; signal < 2; signal++) {
							uint64_t rule = UNWIND_RULE(kind, reg, offsets[o], saved[s]) |
									(signal ? UNWIND_SIGNAL : 0) | (uint64_t)base << 57;
							uint32_t form = unwind_rule_pack(rule);

							assert_true(form < 1u << UNWIND_PACKED_BITS);
							assert_true(!form || unwind_rule_unpack(form) == rule);
							n += form != 0;
						}
	assert_true(n > 500);
	assert_true(unwind_rule_pack(UNWIND_RULE(UNWIND_KIND_PLAIN, UNWIND_SP, 48, -16) | 3ull << 57));
	assert_true(unwind_rule_pack(UNWIND_RULE(UNWIND_KIND_PLAIN, UNWIND_BP, 16, -16) | (uint64_t)UNWIND_BASE_LOST << 57));
	assert_true(unwind_rule_pack(UNWIND_RULE_NONE));
	assert_true(unwind_rule_pack(UNWIND_RULE_END));
	assert_true(unwind_rule_pack(UNWIND_RULE_UNSUPPORTED(UNWIND_UNSUPPORTED_CODE_LATER)));
	assert_true(unwind_rule_pack(UNWIND_RULE(UNWIND_KIND_PLT, UNWIND_SP, 8, 11)));
	assert_true(unwind_rule_pack(UNWIND_RULE(UNWIND_KIND_CONTEXT, UNWIND_SP, 40, 0) | UNWIND_SIGNAL));
}

/* A program's and the dynamic linker's: there the kernel begins processes. Not a library's. */
static void entries(void **state)
{
	static const struct {
		const char *path;
		bool begins;
	} files[] = {{"/proc/self/exe", true}, {"/lib64/ld-linux-x86-64.so.2", true}, {"/lib/x86_64-linux-gnu/libm.so.6", false}};
	struct elf_bytes file;
	struct elf_frames elf;
	Elf64_Ehdr header;
	unsigned i;
	int fd;

	for (i = 0; i < sizeof(files) / sizeof(*files); i++) {
		fd = open(files[i].path, O_RDONLY);
		if (fd < 0)
			continue;
		assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
		assert_int_equal(elf_bytes__init_fd(&file, fd), 0);
		assert_int_equal(elf_frames__open(&file, &elf), 0);
		assert_int_equal(elf.entry, files[i].begins ? header.e_entry : 0);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kept_on_disk),	  cmocka_unit_test(damaged_on_disk),
		cmocka_unit_test(forged),	  cmocka_unit_test(cut_short),
		cmocka_unit_test(room),		  cmocka_unit_test(found_in_lists),
		cmocka_unit_test(like_libunwind), cmocka_unit_test(cached_as_found),
		cmocka_unit_test(packed),	  cmocka_unit_test(entries),
	};

	return cmocka_run_group_tests(tests, begin, end);
}

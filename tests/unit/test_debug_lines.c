/* SPDX-License-Identifier: MIT */
/* Debug lines: of this very program against __LINE__; ranges of zlib-compressed data against zlib. Other compilers,
 * DWARF versions and libraries: tests/live/symbols_debug.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "symbols/dwarf.h"
#include "symbols/line_spans.h"
#include "symbols/symbols.h"
#include "symbols/unpack.h"

static volatile int sink;

/* Where it is called: the byte before the return address. */
static __attribute__((noinline)) uint64_t here(void)
{
	sink++;
	return (uint64_t)(uintptr_t)__builtin_return_address(0) - 1;
}

static inline __attribute__((always_inline)) uint64_t inner(void)
{
	sink += 2;
	return here() + 0 * (uint64_t)sink;
}

static inline __attribute__((always_inline)) uint64_t outer(void)
{
	sink += 3;
	return inner();
}

static int base_of(struct dl_phdr_info *info, size_t size, void *ret)
{
	*(uint64_t *)ret = info->dlpi_addr; /* the program comes first */
	return 1;
}

static void like_the_compiler(void **state)
{
	struct {
		uint64_t address;
		uint32_t line;
	} places[] = {
		{here(), __LINE__},
		{inner(), __LINE__},
		{outer(), __LINE__},
	};
	struct symbol_file *file;
	struct source_line line;
	uint64_t base = 0;
	unsigned i, round;

	dl_iterate_phdr(base_of, &base);
	assert_int_equal(symbol_file__open(open("/proc/self/exe", O_RDONLY), NULL, NULL, &file), 0);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < sizeof(places) / sizeof(*places); i++) {
			assert_int_equal(symbol_file__line(file, places[i].address - base, &line), 0);
			assert_int_equal(line.line, places[i].line);
			assert_non_null(line.file);
			assert_string_equal(line.file + strlen(line.file) - strlen(__FILE__), __FILE__);
		}
		symbol_file__close_lines(file); /* what it needs again it reads again */
	}
	assert_int_equal(symbol_file__line(file, 1, &line), -ENOENT);
	symbol_file__free(file);
}

/* Lines of every 16th byte of this program: of one that has all kept, the same again. */
/* The first address that is asked of a file is looked up in its debug information, others in what was kept then. */
static void same_alone(uint64_t vaddr, const struct source_line *known)
{
	struct symbol_file *file;
	struct source_line line;

	assert_int_equal(symbol_file__open(open("/proc/self/exe", O_RDONLY), NULL, NULL, &file), 0);
	symbol_file__line(file, vaddr, &line);
	assert_int_equal(line.line, known->line);
	assert_int_equal(line.column, known->column);
	assert_int_equal(!line.file, !known->file);
	if (line.file)
		assert_string_equal(line.file, known->file);
	symbol_file__free(file);
}

static int no_file(void *context, const char *path)
{
	return -ENOENT;
}

/* Cuts what was kept of this kind. Returns how many files there were. */
static int damage(const char *folder, const char *kind)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	int n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, kind, strlen(kind))) {
			char path[PATH_MAX];

			snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
			assert_int_equal(truncate(path, 1000), 0);
			n++;
		}
	closedir(dir);
	return n;
}

/* `kept`: files that are left in the folder. */
static void kept_of(const char *exe, int kept)
{
	char folder[] = "/tmp/test-lines-XXXXXX", path[PATH_MAX];
	struct source_line *lines = calloc(4096, sizeof(*lines)), line;
	uint64_t base = 0, at = (uint64_t)(uintptr_t)here;
	struct symbol_file *file;
	unsigned round, i, n = 0;
	struct dirent *entry;
	int fd;
	DIR *dir;

	dl_iterate_phdr(base_of, &base);
	assert_non_null(mkdtemp(folder));
	fd = open(folder, O_RDONLY | O_DIRECTORY);
	for (round = 0; round < 3; round++) {
		if (round == 2) /* all is read from debug information again, and that is unpacked anew */
			assert_int_equal(damage(folder, "lines-") + damage(folder, "sections-"), kept);
		assert_int_equal(symbol_file__open(open(exe, O_RDONLY), NULL, &(struct symbol_opener){no_file, NULL, fd}, &file), 0);
		for (i = 0; i < 4096; i++) {
			uint64_t vaddr = at - base + 16 * i - 16384;
			int err = symbol_file__line(file, vaddr, &line);

			if (!round) {
				lines[i] = line;
				lines[i].file = !err && line.file ? strdup(line.file) : NULL;
				continue;
			}
			assert_int_equal(line.line, lines[i].line);
			assert_int_equal(line.column, lines[i].column);
			if (lines[i].file)
				assert_string_equal(line.file, lines[i].file);
			else
				assert_null(line.file);
			n += lines[i].file != NULL;
			if (i % 16 == 0)
				same_alone(vaddr, &lines[i]);
		}
		symbol_file__close_lines(file);
		symbol_file__free(file);
	}
	assert_true(n > 100);
	dir = fdopendir(fd);
	for (n = 0; (entry = readdir(dir));)
		if (entry->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
			unlink(path);
			n++;
		}
	closedir(dir);
	assert_int_equal(n, kept);
	rmdir(folder);
	for (i = 0; i < 4096; i++)
		free((char *)lines[i].file);
	free(lines);
}

static void same_when_kept(void **state)
{
	kept_of("/proc/self/exe", 1);
}

/* The sections are kept, too, unpacked. */
static void same_when_packed(void **state)
{
	char packed[] = "/tmp/test-lines-XXXXXX", command[PATH_MAX];
	int fd = mkstemp(packed);

	assert_true(fd >= 0);
	close(fd);
	snprintf(command, sizeof(command), "objcopy --compress-debug-sections=zlib /proc/%d/exe %s 2>/dev/null", getpid(), packed);
	if (system(command)) {
		unlink(packed);
		skip();
	}
	kept_of(packed, 2);
	unlink(packed);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

#define PLAIN (6u << 20)
#define OFFSET 77u

/* zlib's level, strategy, and how much it has a block hold. */
struct form {
	int level, strategy, memory;
};

static size_t pack(const uint8_t *plain, uint8_t *to, size_t room, struct form form)
{
	z_stream z = {.next_in = (uint8_t *)plain, .avail_in = PLAIN, .next_out = to, .avail_out = (uInt)room};

	assert_int_equal(deflateInit2(&z, form.level, Z_DEFLATED, 15, form.memory, form.strategy), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return z.total_out;
}

static uint64_t work_for(struct unpack *unpack, const uint8_t *plain, uint64_t at)
{
	uint64_t work = 2 * PLAIN, from;
	const uint8_t *data;
	uint32_t n;

	assert_int_equal(unpack__window(unpack, at, &work, &data, &from, &n), 0);
	assert_true(from <= at && at - from < n && from + n <= PLAIN);
	assert_memory_equal(data, plain + from, n);
	return 2 * PLAIN - work;
}

/* All of it, in a file. */
static void whole_of(const struct unpack *unpack, const uint8_t *plain)
{
	uint8_t *read = malloc(PLAIN);
	FILE *file = tmpfile();

	assert_non_null(read);
	assert_non_null(file);
	assert_int_equal(unpack__write(unpack, fileno(file)), 0);
	assert_int_equal(lseek(fileno(file), 0, SEEK_END), PLAIN);
	assert_int_equal(pread(fileno(file), read, PLAIN, 0), PLAIN);
	assert_memory_equal(read, plain, PLAIN);
	fclose(file);
	free(read);
}

static void any_place_of(const uint8_t *plain, uint8_t *packed, size_t room, struct form form)
{
	size_t len = pack(plain, packed + OFFSET, room - OFFSET, form);
	struct elf_bytes bytes;
	struct unpack *unpack;
	uint32_t seed = 1, i;

	elf_bytes__init_memory(&bytes, packed, OFFSET + len);
	assert_int_equal(unpack__new(&bytes, OFFSET, len, PLAIN, &unpack), 0);
	for (i = 0; i < 400; i++) {
		uint64_t work;

		if (i % 100 == 99)
			unpack__rest(unpack);
		work = work_for(unpack, plain, next_random(&seed) % PLAIN);
		/* From a place that was kept, however long a block is: not all that is before. */
		assert_true(i < 10 || work <= PLAIN / 20);
	}
	whole_of(unpack, plain);
	unpack__free(unpack); /* the bytes stay the caller's */
}

static void any_place_of_what_is_packed(void **state)
{
	static const struct form forms[] = {{6, Z_DEFAULT_STRATEGY, 8}, {9, Z_DEFAULT_STRATEGY, 9}, {1, Z_DEFAULT_STRATEGY, 1},
					    {6, Z_FIXED, 8},		{6, Z_HUFFMAN_ONLY, 9},	    {0, Z_DEFAULT_STRATEGY, 8}};
	size_t room = OFFSET + PLAIN + PLAIN / 4;
	uint8_t *plain = malloc(PLAIN), *packed = calloc(1, room);
	uint32_t seed = 1, i;

	assert_non_null(plain);
	assert_non_null(packed);
	for (i = 0; i < PLAIN; i++) /* words that come again, some far behind */
		plain[i] = i >= 30000 && next_random(&seed) % 64 ? plain[i - 1 - (i / 4096 * 37) % 29999]
								  : (uint8_t)next_random(&seed);
	for (i = 0; i < sizeof(forms) / sizeof(*forms); i++)
		any_place_of(plain, packed, room, forms[i]);
	free(packed);
	free(plain);
}

/* A stream that is longer or shorter than its section says, is cut, or has a wrong byte. */
static void whole_of_what_is_packed_badly(void **state)
{
	uint8_t *plain = calloc(1, PLAIN), *packed = malloc(PLAIN);
	FILE *file = tmpfile();
	struct elf_bytes bytes;
	struct unpack *unpack;
	uint32_t seed = 3, i;
	size_t len;

	assert_non_null(plain);
	assert_non_null(packed);
	assert_non_null(file);
	for (i = 0; i < PLAIN; i++)
		plain[i] = (uint8_t)(next_random(&seed) % 3);
	len = pack(plain, packed, PLAIN, (struct form){1, Z_DEFAULT_STRATEGY, 8});
	elf_bytes__init_memory(&bytes, packed, len);
	for (i = 0; i < 4; i++) {
		const uint64_t size[] = {PLAIN, PLAIN - 1, PLAIN + 1, PLAIN}, cut[] = {0, 0, 0, 100};

		assert_int_equal(unpack__new(&bytes, 0, len - cut[i], size[i], &unpack), 0);
		assert_int_equal(unpack__write(unpack, fileno(file)), i ? -EBADMSG : 0);
		unpack__free(unpack);
	}
	for (i = 0; i < 40; i++) {
		packed[2 + next_random(&seed) % (len - 2)] ^= (uint8_t)(1 + next_random(&seed) % 255);
		assert_int_equal(unpack__new(&bytes, 0, len, PLAIN, &unpack), 0);
		unpack__write(unpack, fileno(file));
		unpack__free(unpack);
	}
	fclose(file);
	elf_bytes__free(&bytes);
	free(plain);
}

static void what_is_packed_badly(void **state)
{
	uint8_t plain[4096] = {1, 2, 3}, *packed = malloc(8192);
	uint64_t work, from;
	uLongf len = 8192;
	struct elf_bytes bytes;
	struct unpack *unpack;
	const uint8_t *data;
	uint32_t n;

	assert_non_null(packed);
	assert_int_equal(compress2(packed, &len, plain, sizeof(plain), 9), Z_OK);
	elf_bytes__init_memory(&bytes, packed, len);
	/* It says that it is larger than it is. */
	assert_int_equal(unpack__new(&bytes, 0, len, 1 << 20, &unpack), 0);
	work = 1 << 21;
	assert_int_equal(unpack__window(unpack, 100000, &work, &data, &from, &n), -EBADMSG);
	work = 0;
	assert_int_equal(unpack__window(unpack, 0, &work, &data, &from, &n), -EFBIG);
	unpack__free(unpack);
	/* Cut off, and no packed stream. */
	assert_int_equal(unpack__new(&bytes, 0, 6, sizeof(plain), &unpack), 0);
	work = 1 << 20;
	assert_int_equal(unpack__window(unpack, 4000, &work, &data, &from, &n), -EBADMSG);
	unpack__free(unpack);
	packed[0] = 'P';
	assert_int_equal(unpack__new(&bytes, 0, len, sizeof(plain), &unpack), -EBADMSG);
	assert_int_equal(unpack__new(&bytes, len, 1, sizeof(plain), &unpack), -EBADMSG);
	elf_bytes__free(&bytes);
}

/* What was kept, each byte of it changed, and cut anywhere: refused, or used without harm. */
static void kept_badly(void **state)
{
	struct line_spans *spans = calloc(1, sizeof(*spans)), *again = calloc(1, sizeof(*again));
	struct source_line line = {"a/file.c", 7, 3}, found;
	struct buf data = {};
	uint8_t *copy;
	size_t i;

	line_spans__keep_one(spans, 100, &line);
	line_spans__keep_one(spans, 200, &(struct source_line){});
	line.file = "another.c";
	line_spans__keep_one(spans, 300, &line);
	assert_int_equal(line_spans__pack(spans, &data), 0);
	for (i = 0; i <= data.len; i++) {
		copy = malloc(i ? i : 1); /* of this size, for the sanitizer */
		memcpy(copy, data.data, i);
		assert_int_equal(line_spans__unpack(again, copy, i), i == data.len ? 0 : -EBADMSG);
		line_spans__free(again);
		free(copy);
	}
	copy = malloc(data.len);
	for (i = 0; i < 8 * data.len; i++) {
		memcpy(copy, data.data, data.len);
		copy[i / 8] ^= (uint8_t)(1u << i % 8);
		if (line_spans__unpack(again, copy, data.len))
			continue;
		if (line_spans__find(again, 100, &found) && found.file)
			assert_true(strlen(found.file) < data.len);
		line_spans__free(again);
	}
	assert_int_equal(line_spans__unpack(again, data.data, data.len), 0);
	assert_true(line_spans__find(again, 300, &found));
	assert_string_equal(found.file, "another.c");
	assert_true(line_spans__find(again, 200, &found));
	assert_null(found.file);
	assert_false(line_spans__find(again, 101, &found));
	free(copy);
	buf__free(&data);
	line_spans__free(again);
	line_spans__free(spans);
	free(again);
	free(spans);
}

static void put_uleb(struct buf *buf, uint32_t value)
{
	do {
		uint8_t byte = value & 0x7f;

		value >>= 7;
		byte |= value ? 0x80 : 0;
		buf__append(buf, &byte, 1);
	} while (value);
}

/* A line table (DWARF 4) of files "1" to `files`, in no directory: at address i stands line 1 of file numbers[i]. */
static void put_lines(struct buf *buf, uint32_t files, const uint32_t *numbers, unsigned n)
{
	static const uint8_t lengths[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1}, end[] = {0, 1, 1}, advance[] = {2, 1};
	struct {
		uint32_t length;
		uint16_t version;
		uint32_t header;
		uint8_t step, operations, is_stmt, base, range, first_special;
	} __attribute__((packed)) head = {.version = 4, .step = 1, .operations = 1, .range = 1, .first_special = 13};
	unsigned i;

	buf__append(buf, &head, sizeof(head));
	buf__append(buf, lengths, sizeof(lengths));
	buf__append(buf, "", 1);
	for (i = 1; i <= files; i++) {
		char name[16];

		buf__append(buf, name, (size_t)snprintf(name, sizeof(name), "%u", i) + 1);
		buf__append(buf, "\0\0", 3); /* directory, time, size */
	}
	buf__append(buf, "", 1);
	head.header = (uint32_t)buf->len - 10;
	for (i = 0; i < n; i++) {
		buf__append(buf, "\4", 1);
		put_uleb(buf, numbers[i]);
		buf__append(buf, "\1", 1);
		buf__append(buf, advance, sizeof(advance));
	}
	buf__append(buf, end, sizeof(end));
	head.length = (uint32_t)buf->len - 4;
	memcpy(buf->data, &head, sizeof(head));
}

/* A file number that does not fit into a row is unknown, and not another file. */
static void more_files_than_a_row_can_name(void **state)
{
	static const uint32_t numbers[] = {1, 65534, 65535, 65536, 65537, 70000, 70001};
	struct dwarf dwarf = {.work = 1 << 30};
	struct dwarf_unit unit = {.dwarf = &dwarf, .address_size = 8};
	struct dwarf_lines lines = {};
	struct buf table = {}, name = {};
	struct elf_bytes bytes;
	struct dwarf_line line;
	unsigned i;

	put_lines(&table, 70000, numbers, 7);
	elf_bytes__init_memory(&bytes, table.data, table.len);
	dwarf.sections[DWARF_LINE] = (struct debug_section){.bytes = &bytes, .size = table.len, .work = &dwarf.work};
	assert_int_equal(dwarf_lines__read(&lines, &unit), 0);
	for (i = 0; i < 7; i++) {
		char expected[16];

		assert_int_equal(dwarf_lines__find(&lines, &unit, i, &line), 0);
		assert_int_equal(line.line, 1);
		buf__clear(&name);
		assert_int_equal(dwarf_lines__file(&lines, &unit, line.file, &name), numbers[i] < 65535 ? 0 : -ENOENT);
		snprintf(expected, sizeof(expected), "%u", numbers[i]);
		if (numbers[i] < 65535)
			assert_true(name.len == strlen(expected) && !memcmp(name.data, expected, name.len));
	}
	dwarf_lines__free(&lines);
	dwarf__close(&dwarf);
	buf__free(&name);
	buf__free(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(like_the_compiler),
		cmocka_unit_test(same_when_kept),
		cmocka_unit_test(same_when_packed),
		cmocka_unit_test(kept_badly),
		cmocka_unit_test(any_place_of_what_is_packed),
		cmocka_unit_test(whole_of_what_is_packed_badly),
		cmocka_unit_test(what_is_packed_badly),
		cmocka_unit_test(more_files_than_a_row_can_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

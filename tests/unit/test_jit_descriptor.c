/* SPDX-License-Identifier: MIT */
/* jit_descriptor__open(): what was found in a large file is kept, and holds for this file only. The file is a copy of this
 * program, which has a descriptor, with zeros behind it. */
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/kept.h"
#include "elf/elf.h"
#include "jit/jit.h"

#define LARGE (64l << 20)

struct jit_descriptor {
	uint32_t version, action;
	void *relevant, *first;
} __jit_debug_descriptor = {1, 0, NULL, NULL};

struct fixture {
	char path[64], folder[64];
	int fd, kept;
	uint64_t address;
};

static int own_bias(struct dl_phdr_info *info, size_t size, void *ret)
{
	*(uint64_t *)ret = info->dlpi_addr;
	return 1; /* the program is the first */
}

static int setup(void **state)
{
	static struct fixture fixture = {.path = "/tmp/cprofd-descriptor-XXXXXX", .folder = "/tmp/cprofd-kept-XXXXXX"};
	char bytes[65536];
	uint64_t bias = 0;
	ssize_t n;
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	fixture.fd = mkstemp(fixture.path);
	while ((n = read(self, bytes, sizeof(bytes))) > 0)
		if (write(fixture.fd, bytes, (size_t)n) != n)
			return -1;
	close(self);
	if (!mkdtemp(fixture.folder))
		return -1;
	fixture.kept = open(fixture.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dl_iterate_phdr(own_bias, &bias);
	fixture.address = (uint64_t)(uintptr_t)&__jit_debug_descriptor - bias;
	*state = &fixture;
	return fixture.fd < 0 || fixture.kept < 0 || ftruncate(fixture.fd, LARGE) ? -1 : 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	char command[128];

	unlink(fixture->path);
	snprintf(command, sizeof(command), "rm -rf %s", fixture->folder);
	close(fixture->fd);
	close(fixture->kept);
	return system(command);
}

static uint64_t found(struct fixture *fixture, int folder)
{
	struct elf_bytes file;
	uint64_t address = 0;

	assert_int_equal(elf_bytes__init_fd(&file, fixture->fd), 0);
	assert_int_equal(jit_descriptor__open(&file, fixture->fd, folder, &address), 0);
	return address;
}

/* Other bytes in the place of what was kept are what is found next: so it is not searched again. */
static void is_kept(void **state)
{
	struct fixture *fixture = *state;
	const struct {
		uint32_t version;
		int32_t err;
		uint64_t address;
	} other = {1, 0, 0x1230};
	struct kept_data data;
	struct kept_key key;
	struct buf bytes = {};

	assert_int_equal(kept_key__of(fixture->fd, -1, &key), 0);
	assert_int_equal(found(fixture, -1), fixture->address);
	assert_int_not_equal(kept__find(fixture->kept, "jit", &key, 4096, &data), 0);
	assert_int_equal(found(fixture, fixture->kept), fixture->address);
	assert_int_equal(kept__find(fixture->kept, "jit", &key, 4096, &data), 0);
	assert_int_equal(data.len, sizeof(other));
	free(data.bytes);
	assert_int_equal(found(fixture, fixture->kept), fixture->address);
	assert_int_equal(buf__append(&bytes, &other, sizeof(other)), 0);
	assert_int_equal(kept__put(fixture->kept, "jit", &key, &bytes), 0);
	assert_int_equal(found(fixture, fixture->kept), other.address);
	/* Cut off: it is searched again. */
	bytes.len--;
	assert_int_equal(kept__put(fixture->kept, "jit", &key, &bytes), 0);
	assert_int_equal(found(fixture, fixture->kept), fixture->address);
	bytes.len++;
	assert_int_equal(kept__put(fixture->kept, "jit", &key, &bytes), 0);
	buf__free(&bytes);
}

static void holds_for_one_file(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(ftruncate(fixture->fd, LARGE + 1), 0);
	assert_int_equal(found(fixture, fixture->kept), fixture->address);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_kept),
		cmocka_unit_test(holds_for_one_file),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

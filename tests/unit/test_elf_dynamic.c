/* SPDX-License-Identifier: MIT */
/* Dynamic symbols read from memory: the C library of this very process, with dlsym() as the oracle; then images with
 * false contents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "elf/dynamic.h"

static int read_self(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct iovec to = {.iov_base = dst, .iov_len = size};
	struct iovec from = {.iov_base = (void *)(uintptr_t)address, .iov_len = size};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

static void like_dlsym(void **state)
{
	static const char *const names[] = {"malloc", "free", "environ", "strtoul", "stdout",
					    "getpwuid_r", "pthread_create"};
	struct host_reader reader = {.read = read_self};
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	enum elf_problem problem;
	struct elf_dynamic elf;
	struct elf_symbol symbol;
	struct link_map *map;
	size_t i;

	assert_non_null(libc);
	assert_int_equal(dlinfo(libc, RTLD_DI_LINKMAP, &map), 0);
	assert_int_equal(elf_dynamic__open(&reader, map->l_addr, &elf, &problem), 0);
	assert_int_equal(elf.bias, map->l_addr);
	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		assert_int_equal(elf_dynamic__lookup(&elf, names[i], &symbol, &problem), 0);
		if (symbol.type == STT_OBJECT || symbol.type == STT_FUNC) {
			Dl_info info;

			/* The name may be interposed (sanitizers, copy relocations): ask by address. */
			assert_true(dladdr((void *)(uintptr_t)symbol.address, &info));
			assert_ptr_equal(info.dli_fbase, (void *)map->l_addr);
			assert_ptr_equal(info.dli_saddr, (void *)(uintptr_t)symbol.address);
		}
	}
	assert_int_equal(elf_dynamic__lookup(&elf, "_PyRuntime", &symbol, &problem), -ENOENT);
	assert_int_equal(elf_dynamic__lookup(&elf, "", &symbol, &problem), -ENOENT);
	dlclose(libc);
}

/* --- a small image, made here --- */

#define BASE 0x7f0000000000ull
#define VADDR 0x1000u /* of the first segment: the bias is not the base */

struct image {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[2];
	Elf64_Dyn dynamic[6];
	Elf64_Sym symbols[3];
	uint32_t gnu[4];
	uint64_t bloom[1];
	uint32_t buckets[1];
	uint32_t chain[2];
	uint32_t sysv[2 + 1 + 3];
	char strings[32];
};

struct image_reader {
	struct host_reader reader;
	const struct image *image;
};

static int read_image(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct image_reader *r = (struct image_reader *)self;

	if (address < BASE || address - BASE > sizeof(*r->image) ||
	    size > sizeof(*r->image) - (address - BASE))
		return -EFAULT;
	memcpy(dst, (const char *)r->image + (address - BASE), size);
	return 0;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (uint8_t)*name++;
	return hash;
}

#define AT(field) (VADDR + offsetof(struct image, field))

static void make_image(struct image *i)
{
	*i = (struct image){
		.ehdr = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			 .e_phoff = offsetof(struct image, phdr),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 2},
		.phdr = {{.p_type = PT_LOAD, .p_vaddr = VADDR, .p_memsz = sizeof(*i)},
			 {.p_type = PT_DYNAMIC,
			  .p_vaddr = AT(dynamic),
			  .p_memsz = sizeof(i->dynamic)}},
		.dynamic = {{DT_SYMTAB, {AT(symbols)}},
			    {DT_STRTAB, {AT(strings)}},
			    {DT_STRSZ, {sizeof(i->strings)}},
			    {DT_GNU_HASH, {AT(gnu)}}},
		.symbols = {{},
			    {.st_name = 1, .st_shndx = 5, .st_value = 0x4000, .st_size = 8},
			    {.st_name = 7, .st_shndx = 5, .st_value = 0x5000}},
		.gnu = {1, 1, 1, 0},
		.buckets = {1},
		.sysv = {1, 3, 1, 0, 2, 0},
	};
	memcpy(i->strings, "\0first\0second", 14);
	i->chain[0] = gnu_hash("first") & ~1u;
	i->chain[1] = gnu_hash("second") | 1;
}

static int look(const struct image *image, const char *name, struct elf_symbol *symbol,
		enum elf_problem *problem)
{
	struct image_reader reader = {.reader = {.read = read_image}, .image = image};
	struct elf_dynamic elf;
	int err;

	err = elf_dynamic__open(&reader.reader, BASE, &elf, problem);
	return err ? err : elf_dynamic__lookup(&elf, name, symbol, problem);
}

static void honest_image(void **state)
{
	enum elf_problem problem;
	struct elf_symbol symbol;
	struct image image;
	int i;

	make_image(&image);
	for (i = 0; i < 3; i++) {
		assert_int_equal(look(&image, "second", &symbol, &problem), 0);
		assert_int_equal(symbol.address, BASE - VADDR + 0x5000);
		assert_int_equal(look(&image, "first", &symbol, &problem), 0);
		assert_int_equal(symbol.address, BASE - VADDR + 0x4000);
		assert_int_equal(symbol.size, 8);
		assert_int_equal(look(&image, "firs", &symbol, &problem), -ENOENT);
		assert_int_equal(look(&image, "third", &symbol, &problem), -ENOENT);
		if (i == 0) { /* as glibc leaves it: addresses, not offsets */
			image.dynamic[0].d_un.d_ptr += BASE - VADDR;
			image.dynamic[1].d_un.d_ptr += BASE - VADDR;
			image.dynamic[3].d_un.d_ptr += BASE - VADDR;
		} else if (i == 1) { /* the older hash table */
			image.dynamic[3] = (Elf64_Dyn){DT_HASH, {AT(sysv)}};
		}
	}
	image.symbols[1].st_shndx = SHN_UNDEF;
	assert_int_equal(look(&image, "first", &symbol, &problem), -ENOENT);
}

struct lie {
	size_t at, size;
	uint64_t value;
	enum elf_problem problem;
};

#define LIE(field, value, problem) \
	{offsetof(struct image, field), sizeof(((struct image *)0)->field), value, ELF_PROBLEM_##problem}

static void lying_images(void **state)
{
	static const struct lie lies[] = {
		LIE(ehdr.e_ident[1], 'F', NOT_ELF),
		LIE(ehdr.e_ident[EI_CLASS], ELFCLASS32, NOT_ELF),
		LIE(ehdr.e_ident[EI_DATA], ELFDATA2MSB, NOT_ELF),
		LIE(ehdr.e_phentsize, 8, HEADER),
		LIE(ehdr.e_phnum, 0xffff, HEADER),
		LIE(ehdr.e_phoff, UINT64_MAX - 8, HEADER),
		LIE(ehdr.e_phnum, 0, NO_LOAD),
		LIE(ehdr.e_phnum, 1, NO_DYNAMIC),
		LIE(phdr[0].p_offset, 0x10000, NO_LOAD),
		LIE(phdr[1].p_vaddr, UINT64_MAX, DYNAMIC),
		LIE(dynamic[3].d_tag, DT_NULL, NO_HASH),
		LIE(dynamic[0].d_tag, DT_DEBUG, NO_HASH),
		LIE(dynamic[2].d_un.d_val, 0, NO_HASH),
		LIE(dynamic[2].d_un.d_val, 1, SYMBOL),
		LIE(dynamic[3].d_un.d_ptr, 0xffffff, HASH),
		LIE(gnu[0], 0, HASH),
		LIE(gnu[0], UINT32_MAX, HASH),
		LIE(gnu[1], UINT32_MAX, HASH),
		LIE(gnu[2], UINT32_MAX, HASH),
		LIE(buckets[0], UINT32_MAX, HASH),
		LIE(dynamic[0].d_un.d_ptr, 0xffffff, SYMBOL),
		LIE(dynamic[1].d_un.d_ptr, 0xffffff, SYMBOL),
		LIE(symbols[2].st_name, UINT32_MAX, SYMBOL),
	};
	struct elf_symbol symbol;
	enum elf_problem problem;
	struct image image;
	size_t i;

	for (i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		make_image(&image);
		memcpy((char *)&image + lies[i].at, &lies[i].value, lies[i].size);
		if (look(&image, "second", &symbol, &problem) != -EBADMSG ||
		    problem != lies[i].problem)
			fail_msg("lie %zu: problem %d", i, problem);
	}
}

/* A dynamic section that has no end, and a chain that has none. */
static int read_endless(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct image_reader *r = (struct image_reader *)self;

	if (!read_image(self, dst, size, address))
		return 0;
	memset(dst, 0x40, size);
	return address < r->image->ehdr.e_entry ? -EFAULT : 0;
}

static void endless(void **state)
{
	struct image_reader reader = {.reader = {.read = read_endless}};
	struct elf_symbol symbol;
	enum elf_problem problem;
	struct elf_dynamic elf;
	struct image image;

	make_image(&image);
	reader.image = &image;
	image.phdr[1].p_vaddr = 0x100000;
	image.phdr[1].p_memsz = UINT64_MAX;
	assert_int_equal(elf_dynamic__open(&reader.reader, BASE, &elf, &problem), -EBADMSG);
	assert_int_equal(problem, ELF_PROBLEM_DYNAMIC);
	make_image(&image);
	image.dynamic[3].d_un.d_ptr = 0x100000;
	assert_int_equal(elf_dynamic__open(&reader.reader, BASE, &elf, &problem), 0);
	assert_int_equal(elf_dynamic__lookup(&elf, "second", &symbol, &problem), -EBADMSG);
	/* The older hash table: a chain that leads back to itself. */
	make_image(&image);
	image.dynamic[3] = (Elf64_Dyn){DT_HASH, {AT(sysv)}};
	image.sysv[2 + 1 + 1] = 1;
	assert_int_equal(elf_dynamic__open(&reader.reader, BASE, &elf, &problem), 0);
	assert_int_equal(elf_dynamic__lookup(&elf, "second", &symbol, &problem), -EBADMSG);
	assert_int_equal(problem, ELF_PROBLEM_HASH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(like_dlsym),
		cmocka_unit_test(honest_image),
		cmocka_unit_test(lying_images),
		cmocka_unit_test(endless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

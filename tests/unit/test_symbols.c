/* SPDX-License-Identifier: MIT */
/* Symbols: this process's own libraries and vDSO with dladdr() as the oracle; then synthetic tables, for the choice
 * among symbols; kallsyms; the cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbols/file.h"
#include "symbols/symbols.h"
#include "symbols/vtable_words.h"

/* As it is loaded here. Without an opener: .dynsym, as dladdr has it. */
static struct symbol_file *open_libc(void **ret_handle, struct link_map **ret_map)
{
	struct symbol_file *file;

	*ret_handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(*ret_handle);
	assert_int_equal(dlinfo(*ret_handle, RTLD_DI_LINKMAP, ret_map), 0);
	assert_int_equal(symbol_file__open(open((*ret_map)->l_name, O_RDONLY), (*ret_map)->l_name, NULL, &file), 0);
	return file;
}

static void like_dladdr(void **state)
{
	static const char *const names[] = {"malloc", "strtoul", "getpwuid_r", "pthread_create",
					    "qsort"};
	struct symbol symbol = {};
	struct link_map *map;
	void *libc;
	struct symbol_file *file = open_libc(&libc, &map);
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		uint64_t address = (uint64_t)(uintptr_t)dlsym(libc, names[i]);
		Dl_info info;

		assert_int_equal(symbol_file__find(file, address - map->l_addr + 1, &symbol), 0);
		assert_int_equal(symbol.start, address - map->l_addr);
		assert_int_equal(symbol.offset, 1);
		/* Perhaps by an alias: what dladdr calls it must be at this address, too. */
		assert_true(dladdr((void *)(uintptr_t)(address + 1), &info));
		assert_ptr_equal(info.dli_saddr, (void *)(uintptr_t)address);
		assert_ptr_equal(dlsym(libc, symbol.name.data), info.dli_saddr);
	}
	assert_int_equal(symbol_file__find(file, 0, &symbol), -ENOENT);
	assert_int_equal(symbol_file__find(file, UINT64_MAX, &symbol), -ENOENT);
	symbol__free(&symbol);
	symbol_file__free(file);
	dlclose(libc);
}

/* What is said of one address of a stretch is said of all; libc's functions have symbols, call frame information alone, or none. */
static void stretches(void **state)
{
	struct symbol symbol = {}, other = {};
	struct link_map *map;
	void *libc;
	struct symbol_file *file = open_libc(&libc, &map);
	uint64_t vaddr, base, from, to, at[4];
	unsigned i, named = 0, framed = 0, none = 0;
	bool found;
	int err;

	base = (uint64_t)(uintptr_t)dlsym(libc, "malloc") - map->l_addr;
	for (vaddr = base - 50000; vaddr < base + 50000; vaddr += 23) {
		err = symbol_file__find(file, vaddr, &symbol);
		found = symbol_file__range(file, vaddr, &from, &to);
		assert_true(from <= vaddr && vaddr < to);
		assert_int_equal(found, !err || symbol.size);
		named += !err;
		framed += found && err;
		none += !found;
		at[0] = from;
		at[1] = to - 1;
		at[2] = from + (vaddr - from) / 2;
		at[3] = vaddr + (to - vaddr) / 2;
		for (i = 0; i < 4; i++) {
			assert_int_equal(symbol_file__find(file, at[i], &other), err);
			assert_int_equal(other.size, symbol.size);
			assert_true(!found || other.start == symbol.start);
		}
	}
	assert_true(named > 1000 && framed + none > 100);
	symbol__free(&symbol);
	symbol__free(&other);
	symbol_file__free(file);
	dlclose(libc);
}

static void vdso(void **state)
{
	const uint8_t *image = (const uint8_t *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
	struct symbol symbol = {};
	struct symbol_file *file;
	void *handle, *address;

	if (!image)
		skip();
	assert_int_equal(
		symbol_file__open_memory(image, header->e_shoff + header->e_shnum * 64u, &file), 0);
	handle = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
	address = handle ? dlsym(handle, "__vdso_clock_gettime") : NULL;
	if (address) {
		assert_int_equal(
			symbol_file__find(file, (uint64_t)((uint8_t *)address - image), &symbol),
			0);
		assert_non_null(strstr(symbol.name.data, "clock_gettime"));
	}
	symbol__free(&symbol);
	symbol_file__free(file);
}

/* --- a file made here: one code section at 0x1000, 0x1000 long --- */

#define TEXT 0x1000u

struct made {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;
	Elf64_Shdr sections[5]; /* null, .text, .data, .symtab, .strtab */
	Elf64_Sym symbols[32];
	char strings[512];
	size_t n, used;
};

static void begin(struct made *m)
{
	*m = (struct made){
		.ehdr = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			 .e_type = ET_DYN,
			 .e_machine = EM_X86_64,
			 .e_phoff = offsetof(struct made, phdr),
			 .e_phentsize = 56,
			 .e_phnum = 1,
			 .e_shoff = offsetof(struct made, sections),
			 .e_shentsize = 64,
			 .e_shnum = 5},
		.phdr = {.p_type = PT_LOAD,
			 .p_flags = PF_X,
			 .p_offset = 0x400,
			 .p_vaddr = TEXT,
			 .p_filesz = 0x1000,
			 .p_memsz = 0x1000},
		.sections = {{},
			     {.sh_type = SHT_PROGBITS,
			      .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			      .sh_addr = TEXT,
			      .sh_size = 0x1000},
			     {.sh_type = SHT_PROGBITS,
			      .sh_flags = SHF_ALLOC,
			      .sh_addr = 0x3000,
			      .sh_size = 64},
			     {.sh_type = SHT_SYMTAB,
			      .sh_link = 4,
			      .sh_offset = offsetof(struct made, symbols),
			      .sh_size = sizeof(m->symbols),
			      .sh_entsize = 24},
			     {.sh_type = SHT_STRTAB,
			      .sh_offset = offsetof(struct made, strings),
			      .sh_size = sizeof(m->strings)}},
		.n = 1,
		.used = 1,
	};
}

static void add(struct made *m, const char *name, unsigned bind, unsigned type, uint64_t at,
		uint64_t size)
{
	m->symbols[m->n++] = (Elf64_Sym){.st_name = (uint32_t)m->used,
					 .st_info = ELF64_ST_INFO(bind, type),
					 .st_shndx = 1,
					 .st_value = TEXT + at,
					 .st_size = size};
	strcpy(m->strings + m->used, name);
	m->used += strlen(name) + 1;
}

static struct symbol_file *made_file(const struct made *m)
{
	struct symbol_file *file;

	assert_int_equal(symbol_file__open_memory(m, sizeof(*m), &file), 0);
	return file;
}

static void expect(const struct symbol_file *file, uint64_t at, const char *name, uint64_t offset)
{
	struct symbol symbol = {};
	int err = symbol_file__find(file, TEXT + at, &symbol);

	if (!name) {
		assert_int_equal(err, -ENOENT);
	} else {
		assert_int_equal(err, 0);
		assert_string_equal(symbol.name.data, name);
		assert_int_equal(symbol.offset, offset);
	}
	symbol__free(&symbol);
}

static void choice(void **state)
{
	struct symbol_file *file;
	struct made m;

	begin(&m);
	add(&m, "weak", STB_WEAK, STT_FUNC, 0x10, 16);
	add(&m, "local", STB_LOCAL, STT_FUNC, 0x10, 16);
	add(&m, "_global", STB_GLOBAL, STT_FUNC, 0x10, 16);
	add(&m, "global", STB_GLOBAL, STT_FUNC, 0x10, 16);
	add(&m, "global_label", STB_GLOBAL, STT_NOTYPE, 0x10, 0);
	add(&m, "data", STB_GLOBAL, STT_OBJECT, 0x20, 16);
	add(&m, "wrong_section", STB_GLOBAL, STT_FUNC, 0x3000 - TEXT, 16);
	m.symbols[m.n - 1].st_shndx = 2;
	add(&m, "local_only", STB_LOCAL, STT_FUNC, 0x40, 8);
	add(&m, "weak_too", STB_WEAK, STT_FUNC, 0x40, 8);
	add(&m, "file.c", STB_LOCAL, STT_FILE, 0x60, 8);
	add(&m, "indirect", STB_GLOBAL, STT_GNU_IFUNC, 0x80, 8);
	add(&m, "versioned@@V_1", STB_GLOBAL, STT_FUNC, 0x90, 8);
	add(&m, ".Llabel", STB_LOCAL, STT_NOTYPE, 0xa0, 0);
	file = made_file(&m);
	expect(file, 0x0f, NULL, 0);
	expect(file, 0x10, "global", 0);
	expect(file, 0x1f, "global", 15);
	expect(file, 0x20, NULL, 0);
	expect(file, 0x41, "local_only", 1);
	expect(file, 0x60, NULL, 0);
	expect(file, 0x84, "indirect", 4);
	expect(file, 0x90, "versioned", 0);
	expect(file, 0xa0, NULL, 0);
	symbol_file__free(file);
}

static void ranges(void **state)
{
	struct symbol_file *file;
	struct made m;

	begin(&m);
	add(&m, "outer", STB_GLOBAL, STT_FUNC, 0x100, 0x100);
	add(&m, "inner", STB_LOCAL, STT_FUNC, 0x140, 0x10);
	add(&m, "inside", STB_LOCAL, STT_NOTYPE, 0x180, 0);
	add(&m, "assembly", STB_GLOBAL, STT_NOTYPE, 0x300, 0);
	add(&m, "assembly_too", STB_GLOBAL, STT_NOTYPE, 0x340, 0);
	add(&m, "overlaps", STB_GLOBAL, STT_FUNC, 0x400, 0x20);
	add(&m, "overlapped", STB_GLOBAL, STT_FUNC, 0x410, 0x40);
	add(&m, "lies", STB_GLOBAL, STT_FUNC, 0xff0, UINT64_MAX);
	file = made_file(&m);
	expect(file, 0x13f, "outer", 0x3f);
	expect(file, 0x140, "inner", 0);
	expect(file, 0x14f, "inner", 15);
	expect(file, 0x150, "outer", 0x50);
	expect(file, 0x180, "outer", 0x80);
	expect(file, 0x1ff, "outer", 0xff);
	expect(file, 0x200, NULL, 0);
	expect(file, 0x33f, "assembly", 0x3f);
	expect(file, 0x3ff, "assembly_too", 0xbf);
	expect(file, 0x40f, "overlaps", 15);
	expect(file, 0x41f, "overlapped", 15);
	expect(file, 0x44f, "overlapped", 0x3f);
	expect(file, 0x450, NULL, 0);
	expect(file, 0xfff, "lies", 15);
	expect(file, 0x1000, NULL, 0);
	symbol_file__free(file);
}

static void mapping_symbols(void **state)
{
	struct symbol_file *file;
	struct made m;

	begin(&m);
	m.ehdr.e_machine = EM_AARCH64;
	add(&m, "function", STB_GLOBAL, STT_NOTYPE, 0x10, 0);
	add(&m, "$x", STB_LOCAL, STT_NOTYPE, 0x20, 0);
	add(&m, "$d.7", STB_LOCAL, STT_NOTYPE, 0x30, 0);
	file = made_file(&m);
	expect(file, 0x34, "function", 0x24);
	symbol_file__free(file);
}

static void changed_file(void **state)
{
	char path[] = "/tmp/cprofd-symbols-XXXXXX";
	int fd = mkstemp(path);
	struct symbol symbol = {};
	struct symbol_file *file;
	struct made m;

	begin(&m);
	add(&m, "first", STB_GLOBAL, STT_FUNC, 0x10, 16);
	assert_int_equal(write(fd, &m, sizeof(m)), sizeof(m));
	assert_int_equal(symbol_file__open(open(path, O_RDONLY), path, NULL, &file), 0);
	assert_int_equal(symbol_file__find(file, TEXT + 0x10, &symbol), 0);
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_int_not_equal(symbol_file__find(file, TEXT + 0x10, &symbol), 0);
	assert_int_equal(symbol.name.len, 0);
	symbol__free(&symbol);
	symbol_file__free(file);
	close(fd);
	unlink(path);
}

static const char kernel_text[] = "0000000000000000 A fixed_percpu_data\n"
				  "ffffffff81000000 T _text\n"
				  "ffffffff81000000 T startup_64\n"
				  "ffffffff81000100 t helper\n"
				  "ffffffff81000200 D some_data\n"
				  "ffffffffc0001000 t ext4_init\t[ext4]\n"
				  "ffffffffc0001040 t bad line";

static int open_kallsyms(const char *text, size_t len, struct symbol_file **ret)
{
	int fd = memfd_create("kallsyms", MFD_CLOEXEC), err;

	assert_int_equal(write(fd, text, len), len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	err = symbol_file__open_kallsyms(fd, ret);
	close(fd);
	return err;
}

static void kernel(void **state)
{
	struct symbol symbol = {};
	struct symbol_file *file;

	assert_int_equal(open_kallsyms(kernel_text, sizeof(kernel_text) - 1, &file), 0);
	assert_int_equal(symbol_file__find(file, 0xffffffff81000010, &symbol), 0);
	assert_string_equal(symbol.name.data, "startup_64");
	assert_int_equal(symbol_file__find(file, 0xffffffff810001ff, &symbol), 0);
	assert_string_equal(symbol.name.data, "helper");
	assert_int_equal(symbol_file__find(file, 0xffffffff81000200, &symbol), -ENOENT);
	assert_int_equal(symbol_file__find(file, 0xffffffffc0001008, &symbol), 0);
	assert_string_equal(symbol.name.data, "ext4_init");
	assert_string_equal(symbol.module.data, "ext4");
	assert_int_equal(symbol_file__find(file, 0xffffffffc0000000, &symbol), -ENOENT);
	symbol__free(&symbol);
	symbol_file__free(file);
	assert_int_equal(open_kallsyms("0000000000000000 T a\n", 21, &file), -EACCES);
	assert_int_equal(open_kallsyms("", 0, &file), -ENOENT);
}

/* The index of its own symbols as it is kept, and as it is made. */
static void a_table_is_the_same(void **state)
{
	char path[] = "/tmp/test-symbols-XXXXXX", command[64];
	int folder = open(mkdtemp(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC), self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct symbol_table read = {}, *made;
	struct elf_symbols symbols;
	struct symbol_file *file;
	struct kept_data kept;
	struct kept_key key;
	struct buf bytes = {};

	assert_int_equal(symbol_file__open(dup(self), NULL, NULL, &file), 0);
	assert_int_equal(kept_key__of(self, -1, &key), 0);
	made = &file->tables[SYMBOL_FROM_SYMTAB];
	assert_true(made->n > 100);
	assert_int_equal(elf_image__symbols(&file->image, SHT_SYMTAB, &symbols), 0);
	symbol_table__keep(made, folder, &key, &symbols, EXTEND_ALWAYS);
	read = (struct symbol_table){.bytes = made->bytes, .strings = made->strings, .strings_size = made->strings_size, .base = made->base};
	assert_int_equal(symbol_table__find_kept(&read, folder, &key, &symbols, EXTEND_ALWAYS), 0);
	assert_int_equal(read.n, made->n);
	assert_int_equal(read.n_extras, made->n_extras);
	assert_memory_equal(read.starts, made->starts, made->n * sizeof(*made->starts));
	assert_memory_equal(read.names, made->names, made->n * sizeof(*made->names));
	assert_memory_equal(read.sizes, made->sizes, made->n * sizeof(*made->sizes));
	if (made->n_extras)
		assert_memory_equal(read.extras, made->extras, made->n_extras * sizeof(*made->extras));
	symbol_table__free(&read);
	/* Rows that are not in order are refused, and so is another table of the file. */
	assert_int_equal(kept__find(folder, "symbols", &key, 1u << 30, &kept), 0);
	assert_int_equal(buf__append(&bytes, kept.data, kept.len), 0);
	memset(bytes.data + kept.len / 8, 0, 64);
	assert_int_equal(kept__put(folder, "symbols", &key, &bytes), 0);
	read = (struct symbol_table){.bytes = made->bytes, .strings = made->strings, .strings_size = made->strings_size, .base = made->base};
	assert_int_equal(symbol_table__find_kept(&read, folder, &key, &symbols, EXTEND_ALWAYS), -EBADMSG);
	symbols.n--;
	read.base = made->base;
	assert_int_equal(symbol_table__find_kept(&read, folder, &key, &symbols, EXTEND_ALWAYS), -EBADMSG);
	free(kept.bytes);
	buf__free(&bytes);
	symbol_file__free(file);
	close(self);
	close(folder);
	snprintf(command, sizeof(command), "rm -rf %s", path);
	assert_int_equal(system(command), 0);
}

/* A relocated address above 2 GB is not stored: its bit 31 would say that it is a symbol. */
static void words_of_relocations(void **state)
{
	static const struct {
		Elf64_Sym symbols[3];
		Elf64_Rela relocations[4];
		char strings[64], section_names[16];
	} file = {
		.symbols = {{}, {.st_name = 1}, {.st_value = 0x7ffffff0, .st_shndx = 1}},
		.relocations = {{0x1000, ELF64_R_INFO(0, R_X86_64_RELATIVE), 0x7fffffff},
				{0x1008, ELF64_R_INFO(0, R_X86_64_RELATIVE), 0x80000001},
				{0x1010, ELF64_R_INFO(1, R_X86_64_64), 16},
				{0x1018, ELF64_R_INFO(2, R_X86_64_64), 16}},
		.strings = "\0_ZTVN10__cxxabiv117__class_type_infoE",
		.section_names = "\0.data.rel.ro",
	};
	Elf64_Shdr sections[] = {{},
				 {.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addr = 0x1000, .sh_size = 32},
				 {.sh_type = SHT_RELA,
				  .sh_flags = SHF_ALLOC,
				  .sh_offset = offsetof(typeof(file), relocations),
				  .sh_size = sizeof(file.relocations),
				  .sh_entsize = sizeof(Elf64_Rela)}};
	struct elf_bytes bytes;
	struct elf_image image = {.bytes = &bytes,
				  .machine = EM_X86_64,
				  .sections = sections,
				  .names = (char *)file.section_names,
				  .n_sections = 3,
				  .names_size = sizeof(file.section_names)};
	struct finder finder = {.image = &image,
				.symbols = {.offset = 0,
					    .n = 3,
					    .strings = offsetof(typeof(file), strings),
					    .strings_size = sizeof(file.strings)}};

	elf_bytes__init_memory(&bytes, (void *)&file, sizeof(file));
	assert_int_equal(finder__read(&finder), 0);
	assert_int_equal(finder.n_words, 4);
	assert_int_equal(finder.words[0], 0x7fffffff);
	assert_int_equal(finder.words[1], 0);
	assert_int_equal(finder.words[2], IS_SYMBOL | 1);
	assert_int_equal(finder.words[3], 0);
	free(finder.words);
	free(finder.values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(like_dladdr),	   cmocka_unit_test(stretches),	    cmocka_unit_test(vdso),
		cmocka_unit_test(choice),	   cmocka_unit_test(ranges),
		cmocka_unit_test(mapping_symbols), cmocka_unit_test(changed_file),
		cmocka_unit_test(kernel),	   cmocka_unit_test(a_table_is_the_same),
		cmocka_unit_test(words_of_relocations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The ELF reader: valid headers, and each kind of damage. Valid ones are compared with facts about this very
 * program, from the linker and getauxval(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/cleanup.h"
#include "elf/elf.h"
#include "elf/relocation.h"

#define VADDR 0x10000u

enum { NONE, NAMES, NOTE, TEXT, DEBUG, RELA, SYMBOLS, SECTIONS };
static const char names[] = "\0.names\0.note\0.text\0.debug_info";

struct file {
	Elf64_Ehdr header;
	Elf64_Phdr segments[3];
	Elf64_Shdr sections[SECTIONS];
	struct {
		Elf64_Nhdr other;
		char other_name[4];
		Elf64_Nhdr head;
		char name[4], id[20];
	} note;
	Elf64_Dyn dynamic[4];
	uint64_t debug[4];
	Elf64_Rela rela[4];
	Elf64_Sym symbols[3];
	char names[sizeof(names)];
};
#define AT(member) offsetof(struct file, member)
#define SIZE(member) sizeof(((struct file *)0)->member)

static struct file make(void)
{
	struct file f = {
		.header = {.e_ident = ELF_IDENT,
			   .e_type = ET_REL,
			   .e_machine = ELF_MACHINE,
			   .e_entry = VADDR + 8,
			   .e_phoff = AT(segments),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 3,
			   .e_shoff = AT(sections),
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = SECTIONS,
			   .e_shstrndx = NAMES},
		.segments = {{.p_type = PT_LOAD,
			      .p_vaddr = VADDR,
			      .p_filesz = sizeof(f),
			      .p_memsz = sizeof(f)},
			     {.p_type = PT_DYNAMIC,
			      .p_offset = AT(dynamic),
			      .p_filesz = SIZE(dynamic)},
			     {.p_type = PT_NOTE, .p_offset = AT(note), .p_filesz = SIZE(note)}},
		.sections = {[NAMES] = {1, SHT_STRTAB, .sh_offset = AT(names),
					.sh_size = sizeof(names)},
			     [NOTE] = {8, SHT_NOTE, .sh_offset = AT(note), .sh_size = SIZE(note)},
			     [TEXT] = {14, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x7000000, 0,
				       64},
			     [DEBUG] = {20, SHT_PROGBITS, .sh_offset = AT(debug),
					.sh_size = SIZE(debug)},
			     [RELA] = {.sh_type = SHT_RELA,
				       .sh_offset = AT(rela),
				       .sh_size = SIZE(rela),
				       .sh_link = SYMBOLS,
				       .sh_info = DEBUG},
			     [SYMBOLS] = {.sh_type = SHT_SYMTAB,
					  .sh_offset = AT(symbols),
					  .sh_size = SIZE(symbols),
					  .sh_link = NAMES,
					  .sh_entsize = sizeof(Elf64_Sym)}},
		.note = {{4, 0, 1}, "GNU", {4, 20, NT_GNU_BUILD_ID}, "GNU", "nineteen characters"},
		.dynamic = {{DT_STRTAB, {VADDR + AT(names)}},
			    {DT_STRSZ, {sizeof(names)}},
			    {DT_NULL, {}}},
		.rela = {{0, ELF64_R_INFO(1, R_X86_64_64), 3},
			 {8, ELF64_R_INFO(2, R_X86_64_32), 0},
			 {16, ELF64_R_INFO(1, R_X86_64_PC64), 0}},
		.symbols = {[1] = {.st_shndx = TEXT, .st_value = 16},
			    [2] = {.st_shndx = DEBUG, .st_value = 5}},
	};

	memcpy(f.names, names, sizeof(names));
	f.rela[3] = f.rela[2];
	f.rela[3].r_offset = 24;
	return f;
}

static int open_file(const struct file *file, size_t size, struct elf_image *ret)
{
	static struct elf_bytes bytes;

	elf_bytes__init_memory(&bytes, file, size);
	return elf_image__open(&bytes, ELF_ALL, ret);
}

static void whole(void **state)
{
	struct file file = make();
	struct elf_image image;
	struct elf_tags tags;
	uint64_t value;

	assert_int_equal(open_file(&file, sizeof(file), &image), 0);
	assert_int_equal(image.n_sections, SECTIONS);
	assert_int_equal(image.n_segments, 3);
	assert_int_equal(image.build_id_len, 20);
	assert_memory_equal(image.build_id, "nineteen characters", 20);
	assert_int_equal(elf_image__section(&image, ".text"), TEXT);
	assert_int_equal(elf_image__section(&image, ".debug_info"), DEBUG);
	assert_int_equal(elf_image__section(&image, ".tex"), 0);
	assert_int_equal(elf_image__offset(&image, VADDR + 16, 8, &value), 0);
	assert_int_equal(value, 16);
	assert_int_equal(elf_image__offset(&image, VADDR + sizeof(file) - 7, 8, &value), -ENOENT);
	assert_int_equal(elf_image__offset(&image, VADDR - 1, 8, &value), -ENOENT);
	assert_int_equal(elf_image__bias(&image, 0x7f0000000000, &value), 0);
	assert_int_equal(value, 0x7f0000000000 - VADDR);
	assert_int_equal(elf_image__tags(&image, &tags), 0);
	assert_int_equal(tags.strings_size, sizeof(names));
	assert_int_equal(tags.symbols, 0);
	elf_image__free(&image);
}

struct damage {
	size_t at, size;
	uint64_t value;
	int error;
	uint32_t n_sections, n_segments, text; /* elf_image__section(".text") */
};
#define DAMAGE(member, value, ...) {AT(member), SIZE(member), value, __VA_ARGS__}

static void damaged(void **state)
{
	static const struct damage all[] = {
		DAMAGE(header.e_ident[1], 'F', -ENOEXEC, 0, 0, 0),
		DAMAGE(header.e_ident[EI_CLASS], ELFCLASS32, -ENOEXEC, 0, 0, 0),
		DAMAGE(header.e_ident[EI_DATA], ELFDATA2MSB, -ENOEXEC, 0, 0, 0),
		DAMAGE(header.e_ident[EI_VERSION], 0, -ENOEXEC, 0, 0, 0),
		DAMAGE(header.e_phentsize, 32, -EBADMSG, 0, 0, 0),
		DAMAGE(header.e_phnum, ELF_SEGMENTS_MAX + 1, -EBADMSG, 0, 0, 0),
		DAMAGE(header.e_phoff, sizeof(struct file) - 8, -EBADMSG, 0, 0, 0),
		DAMAGE(header.e_phoff, UINT64_MAX - 8, -EBADMSG, 0, 0, 0),
		DAMAGE(header.e_phnum, PN_XNUM, -EBADMSG, 0, 0, 0), /* section 0 has none */
		DAMAGE(header.e_phnum, 0, 0, SECTIONS, 0, TEXT),
		/* Without section headers that can be read the segments are left. */
		DAMAGE(header.e_shoff, 0, 0, 0, 3, 0),
		DAMAGE(header.e_shoff, UINT64_MAX - 8, 0, 0, 3, 0),
		DAMAGE(header.e_shoff, sizeof(struct file) - 70, 0, 0, 3, 0),
		DAMAGE(header.e_shentsize, 40, 0, 0, 3, 0),
		DAMAGE(header.e_shnum, 0, 0, 0, 3, 0), /* section 0 has no count */
		DAMAGE(header.e_shnum, 0xff00, 0, 0, 3, 0),
		/* Without names there are still sections. */
		DAMAGE(header.e_shstrndx, SECTIONS, 0, SECTIONS, 3, 0),
		DAMAGE(header.e_shstrndx, TEXT, 0, SECTIONS, 3, 0),
		DAMAGE(header.e_shstrndx, SHN_XINDEX, 0, SECTIONS, 3, 0),
		DAMAGE(sections[NAMES].sh_offset, UINT64_MAX, 0, SECTIONS, 3, 0),
		/* Names go up to the file's end. */
		DAMAGE(sections[NAMES].sh_size, UINT64_MAX, 0, SECTIONS, 3, TEXT),
		DAMAGE(sections[NAMES].sh_size, 10, 0, SECTIONS, 3, 0),
		DAMAGE(sections[TEXT].sh_name, UINT32_MAX, 0, SECTIONS, 3, 0),
	};
	struct elf_image image;
	struct file file;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		file = make();
		memcpy((char *)&file + all[i].at, &all[i].value, all[i].size);
		if (open_file(&file, sizeof(file), &image) != all[i].error ||
		    image.n_sections != all[i].n_sections ||
		    image.n_segments != all[i].n_segments ||
		    elf_image__section(&image, ".text") != all[i].text)
			fail_msg("damage %zu: %u sections, %u segments", i, image.n_sections,
				 image.n_segments);
		elf_image__free(&image);
	}
}

/* gABI: counts that do not fit into the header are in section 0. */
static void extended(void **state)
{
	struct file file = make();
	struct elf_image image;

	file.header.e_shnum = 0;
	file.header.e_shstrndx = SHN_XINDEX;
	file.header.e_phnum = PN_XNUM;
	file.sections[0].sh_size = SECTIONS;
	file.sections[0].sh_link = NAMES;
	file.sections[0].sh_info = 3;
	assert_int_equal(open_file(&file, sizeof(file), &image), 0);
	assert_int_equal(image.n_segments, 3);
	assert_int_equal(elf_image__section(&image, ".text"), TEXT);
	elf_image__free(&image);
	file.sections[0].sh_size = UINT64_MAX / 64 + 2;
	assert_int_equal(open_file(&file, sizeof(file), &image), 0);
	assert_int_equal(image.n_sections, 0);
	elf_image__free(&image);
}

/* Cut anywhere, in a block of just that size: sanitizers see what is read behind it. */
static void cut(void **state)
{
	struct file file = make();
	struct elf_image image;
	struct elf_bytes bytes;
	struct elf_tags tags;
	uint64_t value;
	uint8_t *copy;
	size_t size;

	for (size = 0; size <= sizeof(file); size++) {
		copy = malloc(size + !size);
		memcpy(copy, &file, size);
		elf_bytes__init_memory(&bytes, copy, size);
		if (!elf_image__open(&bytes, ELF_ALL, &image)) {
			assert_true(size >= sizeof(file.header));
			elf_image__section(&image, ".text");
			elf_image__tags(&image, &tags);
			elf_image__offset(&image, VADDR, 8, &value);
		}
		elf_image__free(&image);
		free(copy);
	}
}

static void notes(void **state)
{
	struct elf_image image;
	struct file file;
	size_t i;

	for (i = 0; i < 6; i++) {
		file = make();
		if (i == 0)
			file.note.head.n_descsz = ELF_BUILD_ID_MAX + 1;
		else if (i == 1)
			file.note.head.n_namesz = UINT32_MAX;
		else if (i == 2)
			file.note.other.n_descsz = UINT32_MAX;
		else if (i == 3)
			file.note.head.n_descsz = 0;
		else if (i == 4)
			file.sections[NOTE].sh_size = UINT64_MAX;
		else
			memcpy(file.note.name, "BSD", 4);
		assert_int_equal(open_file(&file, sizeof(file), &image), 0);
		assert_int_equal(image.build_id_len, 0);
		elf_image__free(&image);
	}
	/* Segments have it where the section headers are gone. */
	file = make();
	file.header.e_shoff = 0;
	assert_int_equal(open_file(&file, sizeof(file), &image), 0);
	assert_int_equal(image.build_id_len, 20);
	elf_image__free(&image);
}

static void endless_dynamic(void **state)
{
	_cleanup_free_ Elf64_Dyn *entries = calloc(2000, sizeof(*entries));
	struct elf_bytes bytes;
	struct elf_tags tags;
	size_t i;

	for (i = 0; i < 2000; i++)
		entries[i] = (Elf64_Dyn){DT_STRSZ, {i}};
	elf_bytes__init_memory(&bytes, entries, 2000 * sizeof(*entries));
	/* It fills its segment. */
	assert_int_equal(elf_bytes__tags(&bytes, 0, 100 * sizeof(*entries), &tags), 0);
	assert_int_equal(tags.strings_size, 99);
	assert_int_equal(elf_bytes__tags(&bytes, 0, 2000 * sizeof(*entries), &tags), -EBADMSG);
	entries[70].d_tag = DT_NULL;
	assert_int_equal(elf_bytes__tags(&bytes, 0, 2000 * sizeof(*entries), &tags), 0);
	assert_int_equal(tags.strings_size, 69);
	assert_int_equal(
		elf_bytes__tags(&bytes, 1999 * sizeof(*entries), 2 * sizeof(*entries), &tags),
		-EBADMSG);
	/* What follows the last one need not be there. */
	elf_bytes__init_memory(&bytes, entries, 71 * sizeof(*entries));
	assert_int_equal(elf_bytes__tags(&bytes, 0, 2000 * sizeof(*entries), &tags), 0);
	assert_int_equal(tags.strings_size, 69);
}

static void relocations(void **state)
{
	uint32_t budget = 100, number;
	struct file file = make();
	struct elf_image image;
	uint64_t bytes[4] = {};

	assert_int_equal(open_file(&file, sizeof(file), &image), 0);
	number = elf_image__relocations(&image, DEBUG);
	assert_int_equal(number, RELA);
	assert_int_equal(elf_image__relocations(&image, TEXT), 0);
	assert_true(elf_image__relocate(&image, number, (uint8_t *)bytes, sizeof(bytes), &budget));
	assert_int_equal(bytes[0], 0x7000010 + 3); /* counts from its section */
	assert_int_equal(bytes[1], 5);		   /* of a section that is not loaded */
	assert_int_equal(bytes[2], 0x7000010 - 16);
	assert_int_equal(budget, 96);
	file.symbols[1].st_value = 0x7000010; /* an address already */
	assert_true(elf_image__relocate(&image, number, (uint8_t *)bytes, sizeof(bytes), &budget));
	assert_int_equal(bytes[0], 0x7000010 + 3);
	/* Beyond the copy's end; an unknown type; a symbol that there is not; no budget. */
	assert_false(
		elf_image__relocate(&image, number, (uint8_t *)bytes, sizeof(bytes) - 1, &budget));
	file.rela[0].r_info = ELF64_R_INFO(1, R_X86_64_COPY);
	assert_false(elf_image__relocate(&image, number, (uint8_t *)bytes, sizeof(bytes), &budget));
	file.rela[0].r_info = ELF64_R_INFO(3, R_X86_64_64);
	assert_false(elf_image__relocate(&image, number, (uint8_t *)bytes, sizeof(bytes), &budget));
	file = make();
	budget = 2;
	assert_false(elf_image__relocate(&image, number, (uint8_t *)bytes, sizeof(bytes), &budget));
	elf_image__free(&image);
	assert_int_equal(elf_relocation__of(ELF_MACHINE, ELF64_R_INFO(1, R_X86_64_JUMP_SLOT)).kind,
			 ELF_RELOCATION_SLOT);
	assert_int_equal(elf_relocation__of(EM_AARCH64, R_X86_64_64).kind, ELF_RELOCATION_UNKNOWN);
}

static int read_self(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	memcpy(dst, (const void *)address, size);
	return 0;
}

/* This program, from its file and from its memory, as the loader has it. */
static void itself(void **state)
{
	const ElfW(Phdr) *loaded = (const void *)getauxval(AT_PHDR);
	struct host_reader reader = {read_self};
	struct elf_bytes file, memory;
	struct elf_image image;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), i;

	assert_int_equal(elf_bytes__init_fd(&file, fd), 0);
	elf_bytes__init_target(&memory, &reader, (uint64_t)loaded - sizeof(Elf64_Ehdr));
	for (i = 0; i < 2; i++) {
		assert_int_equal(elf_image__open(i ? &memory : &file, ELF_SEGMENTS, &image), 0);
		assert_int_equal(image.n_segments, getauxval(AT_PHNUM));
		assert_memory_equal(image.segments, loaded, image.n_segments * sizeof(*loaded));
		elf_image__free(&image);
	}
	elf_bytes__free(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole),       cmocka_unit_test(damaged),
		cmocka_unit_test(extended),    cmocka_unit_test(cut),
		cmocka_unit_test(notes),       cmocka_unit_test(endless_dynamic),
		cmocka_unit_test(relocations), cmocka_unit_test(itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

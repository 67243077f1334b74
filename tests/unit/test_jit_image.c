/* SPDX-License-Identifier: MIT */
/* In-memory ELF images: valid ones of a few kinds, and false ones. Real ones are compared with readelf in
 * tests/live/jit.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elf_image.h"
#include "jit/image.h"

#define TEXT 0x7e0000000000ull

static void relocatable(void **state)
{
	struct elf_image made;
	struct jit_image image;
	uint64_t words[2];
	char name[32];
	unsigned k;

	elf_image__make(&made, 0xabc, 7, TEXT);
	assert_int_equal(jit_image__parse(&made, sizeof(made), &image), 0);
	assert_int_equal(image.n_ranges, 1); /* not the empty .text */
	assert_int_equal(image.ranges[0].start, TEXT);
	assert_int_equal(image.ranges[0].end, TEXT + 16 * 7);
	assert_int_equal(image.n_symbols, 7);
	for (k = 0; k < 7; k++) {
		snprintf(name, sizeof(name), "s00000abc_%02u_of_07", k);
		assert_int_equal(image.symbols[k].start, TEXT + 16 * k);
		assert_int_equal(image.symbols[k].size, 12);
		assert_string_equal(image.names + image.symbols[k].name, name);
		memcpy(words, image.unwind.eh_frame + 16 * k, 16);
		assert_int_equal(words[0], 0xabc);
		assert_int_equal(TEXT + 0x1000 + 16 * k + 8 + words[1], TEXT + 16 * k);
	}
	assert_true(image.unwind.whole);
	assert_false(image.has_lines);
	jit_image__free(&image);
}

static void other_kinds(void **state)
{
	struct elf_image made;
	struct jit_image image;

	/* Addresses as they are, as in an executable; no sizes; a local and a global alias. */
	elf_image__make(&made, 1, 3, TEXT);
	made.header.e_type = ET_EXEC;
	made.symbols[2].st_value = TEXT;
	made.symbols[2].st_size = 0;
	made.symbols[3].st_value = TEXT + 16;
	made.symbols[3].st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC);
	made.symbols[4].st_value = TEXT + 16;
	made.symbols[4].st_size = 0;
	assert_int_equal(jit_image__parse(&made, sizeof(made), &image), 0);
	assert_int_equal(image.n_symbols, 2);
	assert_int_equal(image.symbols[0].size, 16);
	assert_int_equal(image.symbols[1].size, 32);
	assert_string_equal(image.names + image.symbols[1].name, "s00000001_02_of_03");
	assert_int_equal(((uint64_t *)image.unwind.eh_frame)[1], 0); /* relocated by its linker */
	jit_image__free(&image);

	/* Not placed: nothing of it can be found at an address. */
	elf_image__make(&made, 1, 3, 0);
	made.sections[IMG_EH].sh_addr = 0;
	assert_int_equal(jit_image__parse(&made, sizeof(made), &image), 0);
	assert_int_equal(image.n_ranges + image.n_symbols, 0);
	assert_null(image.unwind.eh_frame);
	jit_image__free(&image);

	/* A relocation that is not known is said. */
	elf_image__make(&made, 1, 3, TEXT);
	made.rela[1].r_info = ELF64_R_INFO(1, 99);
	assert_int_equal(jit_image__parse(&made, sizeof(made), &image), 0);
	assert_false(image.unwind.whole);
	jit_image__free(&image);
	elf_image__make(&made, 1, 3, TEXT);
	made.rela[1].r_offset = UINT64_MAX - 3;
	assert_int_equal(jit_image__parse(&made, sizeof(made), &image), 0);
	assert_false(image.unwind.whole);
	jit_image__free(&image);
}

#define LIE(field, value) {offsetof(struct elf_image, field), sizeof(((struct elf_image *)0)->field), value}

static void lies(void **state)
{
	static const struct {
		size_t at, size;
		uint64_t value;
	} all[] = {
		LIE(header.e_ident[0], 0),
		LIE(header.e_ident[EI_CLASS], ELFCLASS32),
		LIE(header.e_shoff, 0),
		LIE(header.e_shoff, UINT64_MAX - 8),
		LIE(header.e_shoff, sizeof(struct elf_image) - 64),
		LIE(header.e_shentsize, 32),
		LIE(header.e_shnum, 0xfeff),
		LIE(header.e_shnum, 0),
		LIE(header.e_shstrndx, IMG_SECTIONS),
		LIE(sections[IMG_SYMTAB].sh_offset, UINT64_MAX),
		LIE(sections[IMG_SYMTAB].sh_size, UINT64_MAX),
		LIE(sections[IMG_SYMTAB].sh_link, UINT32_MAX),
		LIE(sections[IMG_SYMTAB].sh_entsize, 0),
		LIE(sections[IMG_EH].sh_size, UINT64_MAX),
		LIE(sections[IMG_EH].sh_offset, UINT64_MAX),
	};
	struct jit_image image;
	struct elf_image made;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		elf_image__make(&made, 5, 9, TEXT);
		memcpy((char *)&made + all[i].at, &all[i].value, all[i].size);
		if (jit_image__parse(&made, sizeof(made), &image) != -EBADMSG)
			fail_msg("lie %zu was taken", i);
		assert_null(image.ranges);
	}
	/* Two sections at one place. */
	elf_image__make(&made, 5, 9, TEXT);
	made.sections[IMG_TEXT].sh_addr = TEXT + 8;
	made.sections[IMG_TEXT].sh_size = 8;
	assert_int_equal(jit_image__parse(&made, sizeof(made), &image), -EBADMSG);
	/* Each length that is too short, in a buffer of its own. */
	elf_image__make(&made, 5, 9, TEXT);
	for (i = 0; i < sizeof(made); i++) {
		char *cut = malloc(i + !i);

		memcpy(cut, &made, i);
		assert_int_equal(jit_image__parse(cut, i, &image), -EBADMSG);
		free(cut);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(relocatable),
		cmocka_unit_test(other_kinds),
		cmocka_unit_test(lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The bytes are an ELF image in a target's memory, mapped at BASE. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "elf/dynamic.h"

#define BASE 0x7f0000000000ull

struct bytes {
	struct host_reader reader;
	const uint8_t *data;
	size_t size;
};

static int read_bytes(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct bytes *b = (struct bytes *)self;

	if (address < BASE || address - BASE > b->size || size > b->size - (address - BASE))
		return -EFAULT;
	memcpy(dst, b->data + (address - BASE), size);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"_PyRuntime", "PyCode_Type", "Py_Version", ""};
	struct bytes bytes = {.reader = {.read = read_bytes}, .data = data, .size = size};
	enum elf_problem problem;
	struct elf_dynamic elf;
	struct elf_symbol symbol;
	size_t i;

	if (elf_dynamic__open(&bytes.reader, BASE, &elf, &problem))
		return 0;
	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		elf_dynamic__lookup(&elf, names[i], &symbol, &problem);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* Native frames of a dump: registers, stack, table of functions and call frame information are all the target's. The
 * ELF header and that of .eh_frame_hdr are made here, or hardly an input would come further.
 *
 * Input: 17 registers, 512 bytes of stack, how many entries the table has (1 byte), then the table and what follows. */
#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dump/dump.h"

#define BASE 0x10000u
#define STACK 0x7ffff000u
#define STACK_BYTES 512u
#define REGISTERS_BYTES (DUMP_REGISTERS * 8)

struct mapped {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdrs[2];
	uint8_t hdr[12];
	uint8_t rest[16384];
};

static struct {
	struct host_reader reader;
	struct mapped image;
	uint64_t reads;
} target;

static int read_image(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	target.reads++;
	if (address < BASE || address - BASE > sizeof(target.image))
		return -EFAULT;
	/* A page's end that is not there is zeros, as of a mapped file. */
	memset(dst, 0, size);
	if (size > sizeof(target.image) - (address - BASE))
		size = sizeof(target.image) - (address - BASE);
	memcpy(dst, (const char *)&target.image + (address - BASE), size);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char text[] = "00010000-00016000 r-xp 00000000 08:01 7 /lib\n"
				   "7ffff000-80000000 rw-p 00000000 00:00 0 [stack]\n";
	static struct dump_native native;
	static uint8_t stack[STACK_BYTES];
	uint64_t regs[DUMP_REGISTERS];
	struct dump_state state = {.regs = regs, .stack_at = STACK, .stack = stack, .stack_size = STACK_BYTES};
	struct dump_unwinder *unwinder;
	struct maps maps;
	uint32_t count;

	if (size < REGISTERS_BYTES + STACK_BYTES + 2)
		return 0;
	memcpy(regs, data, REGISTERS_BYTES);
	memcpy(stack, data + REGISTERS_BYTES, STACK_BYTES);
	data += REGISTERS_BYTES + STACK_BYTES;
	size -= REGISTERS_BYTES + STACK_BYTES;
	regs[16] = BASE + regs[16] % 0x6000;
	regs[7] = STACK + regs[7] % STACK_BYTES;
	state.live = data[1] & 1;
	count = *data;
	data++, size--;
	target.reader.read = read_image;
	target.reads = 0;
	memset(&target.image, 0, sizeof(target.image));
	memcpy(target.image.ehdr.e_ident, ELFMAG "\2\1\1", 7);
	target.image.ehdr.e_phoff = sizeof(Elf64_Ehdr);
	target.image.ehdr.e_phnum = 2;
	target.image.ehdr.e_phentsize = sizeof(Elf64_Phdr);
	target.image.phdrs[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_memsz = sizeof(target.image)};
	target.image.phdrs[1] = (Elf64_Phdr){.p_type = PT_GNU_EH_FRAME,
					     .p_vaddr = offsetof(struct mapped, hdr),
					     .p_memsz = 12 + sizeof(target.image.rest)};
	memcpy(target.image.hdr, "\1\x1b\3\x3b", 4);
	memcpy(target.image.hdr + 8, &count, 4);
	memcpy(target.image.rest, data, size < sizeof(target.image.rest) ? size : sizeof(target.image.rest));
	if (maps__parse(text, sizeof(text) - 1, &maps))
		return 0;
	assert(!dump_unwinder__new(&target.reader, &maps, &unwinder));
	dump_unwinder__walk(unwinder, &state, &native);
	assert(native.n <= DUMP_NATIVE_MAX && native.loss < LOSS_COUNT);
	dump_unwinder__free(unwinder);
	maps__free(&maps);
	return 0;
}

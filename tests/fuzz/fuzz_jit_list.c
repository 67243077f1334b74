/* SPDX-License-Identifier: MIT */
/* The bytes are a target's memory at BASE, with the descriptor at its beginning; the
 * first 16 bytes say which bytes change before which read. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../jit_symbols.h"

#define BASE 0x10000ull
#define SIZE_MAX_USED 65536u

struct memory {
	struct host_reader reader;
	uint8_t bytes[SIZE_MAX_USED];
	size_t size;
	const uint8_t *changes;
	unsigned reads;
};

static uint64_t ticks;
static uint64_t fuzz_clock(void) { return ticks += 1000; }

static int read_bytes(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct memory *m = (struct memory *)self;
	unsigned i;

	for (i = 0; i < 16; i += 4)
		if (m->changes[i] == (uint8_t)m->reads && m->size)
			m->bytes[(m->changes[i + 1] | m->changes[i + 2] << 8) % m->size] ^= m->changes[i + 3];
	m->reads++;
	if (address < BASE || address - BASE > m->size || size > m->size - (address - BASE))
		return -EFAULT;
	memcpy(dst, m->bytes + (address - BASE), size);
	return 0;
}

static void symbol(void *ctx, const char *name, uint64_t start, uint64_t size)
{
	if (!*name || strlen(name) > JIT_NAME_MAX || start + size < start)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct memory m;
	const struct jit_object *o;
	struct jit_found found;
	struct jit_unwind unwind;
	struct jit *jit;
	int i;

	if (size < 16 || size - 16 > sizeof(m.bytes) || jit__new(fuzz_clock, &jit))
		return 0;
	m = (struct memory){.reader = {read_bytes}, .changes = data, .size = size - 16};
	memcpy(m.bytes, data + 16, m.size);
	jit__add_descriptor(jit, BASE);
	for (i = 0; i < 4; i++)
		jit__poll(jit, &m.reader, i & 1);
	for (o = jit__object(jit, 0); o; o = jit__object(jit, o->id + 1)) {
		if (o->n_ranges && jit__find(jit, o->ranges[0].start, o->life.born_by, &found) &&
		    !o->life.died_by)
			abort();
		jit__each_symbol(jit, o->id, symbol, NULL);
		if (!jit__take_unwind(jit, o->id, &unwind))
			free(unwind.eh_frame);
	}
	jit__done(jit, ticks);
	jit__free(jit);
	return 0;
}

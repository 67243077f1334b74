/* SPDX-License-Identifier: MIT */
/* The bytes are a target's memory, and what its thread's registers hold. Whatever
 * they are, a walk ends, keeps within its records, and names what it lost.
 *
 * Addresses are taken modulo the size of that memory (all but those of the upper
 * half, which fault), so that most words lead somewhere. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cprofd/host.h"

static uint64_t seen_mask;

/* Which codes were captured: any half of the keys, or all, or none. */
static inline int py_seen(__u64 key)
{
	return (key & seen_mask) != 0;
}
#define PY_SEEN

static const struct host_window *window;

static inline const struct host_window *py_stack(void)
{
	return window;
}
#define PY_STACK
#include "cprofd/pywalk.h"
#include "target/py_tables.h"

#define WALKS 4u
/* What one walk may read: each thread state, and a dozen reads for each round of the frames. */
#define READS_MAX (PY_THREADS_MAX + 2 * PY_INTERPRETERS_MAX + 12ul * 2 * RECORD_PY_FRAMES_MAX * PY_TSTATES_MAX)

struct head {
	uint8_t layout, faults, seen, flags;
	uint32_t step;              /* of time between walks, us */
	uint64_t thread_pointer, code_type, runtime, hint;
	uint64_t registers[16];
};

struct bytes {
	struct host_reader reader;
	const uint8_t *data;
	size_t size;
	unsigned long reads;
	unsigned long limit;        /* reads after that fail: rings, which take long, only now and then */
	uint8_t faults;             /* one read in so many fails; 0: none */
};

static int read_bytes(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct bytes *b = (struct bytes *)self;
	size_t i, at = address % b->size, piece;

	b->reads++;
	if (address >> 63 || b->reads > b->limit || (b->faults && b->reads % b->faults == 0))
		return -EFAULT;
	for (i = 0; i < size; i += piece, at = 0) {
		piece = size - i < b->size - at ? size - i : b->size - at;
		memcpy((uint8_t *)dst + i, b->data + at, piece);
	}
	return 0;
}

/* What was read of the C stack: around the _PyCFrame that the walk before found, up to HOST_WINDOW bytes. */
static const struct host_window *window_of(struct bytes *b, uint64_t front, const uint64_t *registers)
{
	static struct host_window read;

	read.at = (front - registers[0] % HOST_WINDOW) & ~7ull;
	read.size = (registers[1] % (HOST_WINDOW + 1)) & ~7ull;
	return read_bytes(&b->reader, read.words, read.size, read.at) ? NULL : &read;
}

#define FLAGS (31u | 255u << PY_FRAME_LOOPS_INSIDE_SHIFT | 255u << PY_FRAME_LOOPS_OUTSIDE_SHIFT)

static void check(const struct py_walk *walk, const struct py_out *out, const struct bytes *b)
{
	uint32_t i;

	if (walk->n > RECORD_PY_FRAMES_MAX || walk->n_todo > RECORD_CODES_PER_TICK ||
	    walk->n_tstates > PY_TSTATES_MAX || walk->loss >= LOSS_COUNT || b->reads > READS_MAX)
		abort();
	for (i = 0; i < walk->n; i++)
		if (!out->frames[i].code || out->frames[i].flags & ~FLAGS)
			abort();
	for (i = 0; i < walk->n_todo; i++)
		if (!walk->todo[i].key)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct py_walk walk;
	static struct py_out out;
	struct bytes bytes = {.reader = {.read = read_bytes}};
	struct image image;
	struct head head;
	unsigned i;

	if (size < sizeof(head) + 16)
		return 0;
	memcpy(&head, data, sizeof(head));
	bytes.data = data + sizeof(head);
	bytes.size = size - sizeof(head);
	bytes.faults = head.faults;
	bytes.limit = head.flags >> 3 == 31 ? ~0ul : 1024;
	image.runtime = head.runtime;
	image.code_type = head.code_type;
	py_table__layout(&py_tables[head.layout % py_tables_n], &image.layout);
	image.layout.version = py_tables[head.layout % py_tables_n].first >> 8;
	seen_mask = (uint64_t)head.seen << 1;
	memset(&walk, 0, sizeof(walk));
	walk.thread_pointer = head.thread_pointer;
	walk.hint = head.hint;
	walk.hint_until = head.flags & 1 ? ~0ull : 0;
	walk.salt = head.flags & 2 ? 0x9e3779b97f4a7c15ull : 0;
	walk.repairs = head.flags >> 2 & 1;
	host_reader_current = &bytes.reader;
	/* Again, with what the walk before left: slots, the hint. */
	for (i = 0; i < WALKS; i++) {
		bytes.reads = 0;
		window = i % 2 ? window_of(&bytes, walk.tstates[0].cframe, head.registers) : NULL;
		py_walk(&walk, &image, &out);
		check(&walk, &out, &bytes);
		if (walk.loss && walk.n < 2) {
			memcpy(walk.registers, head.registers, sizeof(walk.registers));
			bytes.reads = 0;
			py_walk_repair(&walk, &image, &out);
			check(&walk, &out, &bytes);
		}
		walk.hint = walk.n_tstates ? walk.tstates[0].address : head.hint;
		walk.now += head.step * 1000ull;
	}
	host_reader_current = NULL;
	return 0;
}

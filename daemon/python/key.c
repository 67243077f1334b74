/* SPDX-License-Identifier: MIT */
/* Computes a code object's key exactly as the sampler does, by compiling the sampler's code for the host. Here
 * py_seen() says that every code object is known, so the walker never asks for a capture.
 *
 * Why: a key is a hash of the process, the code object's address and its members (or its version, where CPython has one).
 * If the key that is computed from memory now equals the one of a sample, the same code object is still there;
 * serve/site.c relies on that. */
#include <stdbool.h>

#include "cprofd/host.h"
static inline int py_seen(uint64_t key)
{
	return 1;
}
#define PY_SEEN
#include "cprofd/pywalk.h"
#include "python/code.h"

/* `several`: see struct py_walk. */
static uint64_t key_of(struct host_reader *memory, const struct image *image, const struct record_task *task, uint64_t code, bool several)
{
	static struct py_walk walk; /* static as it is large; only the main thread calls this */
	struct host_reader *before = host_reader_current;
	uint64_t key;

	host_reader_current = memory;
	walk.salt = py_mix(task->process_start, task->tgid | (uint64_t)task->exec << 32);
	walk.loss = 0;
	walk.several = several;
	key = py_code_prove(&walk, image, code, 0);
	host_reader_current = before;
	return key;
}

bool python_code__is(struct host_reader *memory, const struct image *image, const struct record_task *task, uint64_t code, uint64_t key)
{
	return key && (key_of(memory, image, task, code, false) == key || key_of(memory, image, task, code, true) == key);
}

/* SPDX-License-Identifier: MIT */
/* Finds the GIL's state in _PyRuntime by its form (gil.h): each aligned offset is tried as a struct gil_state.
 *
 * Cost: one read of all of _PyRuntime, and one try for each 8 bytes of it. Done when a process is identified,
 * and again later if the answer was not sure. */
#include "python/gil.h"
#include "base/order.h"

#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 4096u
#define RUNTIME_MAX (4u << 20)
#define INTERVAL_MAX 10000000u /* us, sys.setswitchinterval() */
#define INTERVAL_USUAL 5000u /* us, the default */

/* `last_holder` must be a thread state that exists: that alone excludes nearly everything. found[1] and several[1]
 * are the same for candidates with the default interval. */
size_t gil__find(const void *bytes, size_t len, const uint64_t *threads, size_t n)
{
	size_t at, found[2] = {SIZE_MAX, SIZE_MAX}; /* with any interval; with the default one */
	uint32_t several[2] = {};
	struct gil_state state;
	bool usual;

	for (at = 0; at + sizeof(state) <= len; at += 8) {
		memcpy(&state, (const char *)bytes + at, sizeof(state));
		if (!state.interval || state.interval > INTERVAL_MAX || state.locked > 1 || state.mutex_kind > 0x3ff ||
		    !bsearch(&state.last_holder, threads, n, sizeof(*threads), order__u64))
			continue;
		usual = state.interval == INTERVAL_USUAL;
		several[0] += found[0] != SIZE_MAX;
		several[1] += usual && found[1] != SIZE_MAX;
		found[0] = at;
		found[1] = usual ? at : found[1];
	}
	/* The list of thread states can have the same form (a number, its head, a count): prefer the default interval.
	 * */
	if (found[1] != SIZE_MAX)
		return several[1] ? SIZE_MAX : found[1];
	return several[0] ? SIZE_MAX : found[0];
}

/* Addresses of all thread states of the first interpreter, sorted. */
static size_t list_threads(struct host_reader *reader, const struct image *image, uint64_t *threads)
{
	const struct py_layout *l = &image->layout;
	uint64_t interp = 0, thread = 0;
	size_t n = 0;

	if (reader->read(reader, &interp, sizeof(interp), image->runtime + l->interpreters_head) || !interp ||
	    reader->read(reader, &thread, sizeof(thread), interp + l->threads_head))
		return 0;
	while (thread && n < THREADS_MAX) {
		threads[n++] = thread;
		if (reader->read(reader, &thread, sizeof(thread), thread + l->tstate_next))
			break;
	}
	qsort(threads, n, sizeof(*threads), order__u64);
	return n;
}

uint64_t gil__address(struct host_reader *reader, const struct image *image, bool *ret_usual)
{
	uint64_t size = image->runtime_size;
	size_t at = SIZE_MAX;
	uint64_t *threads;
	uint64_t interval = 0;
	char *bytes;

	*ret_usual = false;
	if (!image->runtime || !size || size > RUNTIME_MAX || image->layout.flags & PY_FREE_THREADED)
		return 0;
	threads = calloc(THREADS_MAX, sizeof(*threads));
	bytes = malloc(size);
	if (threads && bytes && !reader->read(reader, bytes, size, image->runtime))
		at = gil__find(bytes, size, threads, list_threads(reader, image, threads));
	if (at != SIZE_MAX)
		memcpy(&interval, bytes + at, sizeof(interval));
	*ret_usual = interval == INTERVAL_USUAL;
	free(threads);
	free(bytes);
	return at == SIZE_MAX ? 0 : image->runtime + at;
}

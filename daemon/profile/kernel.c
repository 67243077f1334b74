/* SPDX-License-Identifier: MIT */
/* The kernel's frames of a sample (with --kernel): addresses of /proc/kallsyms, innermost first, put before all
 * others. Without the right to read addresses (kernel.kptr_restrict) they become one frame "[kernel]", and
 * LOSS_KERNEL_HIDDEN counts the sample.
 *
 * Lookups share the cache of native code (cache.h), with `space` 0, which is no process. */
#include <errno.h>

#include "collect/collect.h"
#include "profile/internal.h"

#define HIDDEN 1u /* cached_location.role of the kernel's entries: the kernel hides its addresses */

/* The one place that all kernel addresses become if none has a name. */
static const struct code_location kernel = {
	.module = LOCATION_MODULE_KERNEL, .function = 0, .module_name = "kernel", .name = "[kernel]", .kind = LOCATION_KERNEL, .lineless = true};

/* The frame of an address that is not in the cache, and its entry there. */
static int find(struct profile *profile, const struct record_header *header, uint64_t address, const struct code_now *now,
		const struct cached_location **ret)
{
	struct code_location location = {.module_name = "", .name = ""};
	int err = codemap__find(profile->options.codemap, &header->task, address, header->time, &location);
	uint32_t frame;

	if (err) {
		location = kernel;
		location.role = err == -EACCES ? HIDDEN : 0;
	}
	location.stable = !location.pending;
	err = tables__native(&profile->tables, &location, &frame);
	if (!err)
		*ret = code_cache__keep(&profile->stack->cache, 0, now, address, &location, frame);
	return err;
}

int kernel__put(struct profile *profile, const struct sample *sample, bool *ret_whole)
{
	const struct record_header *header = &sample->record->header;
	const struct part_kernel_frames *part = sample->kernel;
	struct codemap *codemap = profile->options.codemap;
	struct stack *stack = profile->stack;
	struct code_now now;
	bool hidden = false;
	int err = 0;

	if (!part || !codemap)
		return 0;
	if (part->part.loss) {
		profile->ledger.shown[part->part.loss]++;
		*ret_whole = false;
	}
	/* No process: the kernel is the same for all. */
	now = code_cache__now(&stack->cache, &stack->kernel, codemap, NULL, header->time);
	for (uint32_t i = 0; i < part->n; i++) {
		/* A return address may be the first byte of what follows its function. */
		uint64_t address = part->pc[i] - (i > 0);
		const struct cached_location *known = code_cache__find(&stack->cache, 0, &now, address);

		if (!known)
			err = find(profile, header, address, &now, &known);
		if (err)
			return err;
		/* Without names all of them are one. */
		if (known->role != HIDDEN || !hidden)
			stack->steps[stack->n++] = (struct step){.key = known->row, .is_frame = true};
		hidden |= known->role == HIDDEN;
	}
	profile->ledger.own[LOSS_KERNEL_HIDDEN] += hidden;
	return 0;
}

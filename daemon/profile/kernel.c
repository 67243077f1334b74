/* SPDX-License-Identifier: MIT */
/* The kernel's frames of a sample. */
#include <errno.h>

#include "collect/collect.h"
#include "profile/internal.h"

#define HIDDEN 1u /* known_location.mark */

/* What all its functions are when none has a name. */
static const struct code_location kernel = {
	.module = LOCATION_MODULE_KERNEL, .function = 0, .module_name = "kernel", .name = "[kernel]", .kind = LOCATION_KERNEL, .lineless = true};

/* Which frame an address is: as for native code, and kept with it. */
static int find(struct profile *profile, const struct record_header *header, uint64_t address, uint32_t since,
		struct known_location *ret)
{
	struct codemap *codemap = profile->options.codemap;
	struct code_location place = {.module_name = "", .name = ""};
	int err = codemap__find(codemap, &header->task, address, header->time, &place);
	uint8_t role = err == -EACCES ? HIDDEN : 0;
	uint32_t frame;

	err = tables__native(&profile->tables, err ? &kernel : &place, &frame);
	if (!err)
		*ret = (struct known_location){.pc = address, .since = since, .frame = frame, .role = role};
	return err;
}

int kernel__put(struct profile *profile, const struct sample *sample, bool *ret_whole)
{
	const struct part_kernel_frames *part = sample->kernel;
	struct codemap *codemap = profile->options.codemap;
	struct stack *stack = profile->stack;
	bool hidden = false;
	uint32_t since, i;

	if (!part || !codemap)
		return 0;
	if (part->part.loss) {
		profile->ledger.shown[part->part.loss]++;
		*ret_whole = false;
	}
	/* No process: the kernel is the same for all. */
	since = stack__since(stack, &stack->kernel,
			     codemap__stable(codemap, &sample->record->header.task, sample->record->header.time));
	for (i = 0; i < part->n; i++) {
		/* A return address may be the first byte of what follows its function. */
		uint64_t address = part->pc[i] - (i > 0);
		uint64_t hash = hash__pair(&profile->tables.seed, address, (uintptr_t)profile);
		struct known_location *known = &stack->known[hash % KNOWN_LOCATIONS];

		if (known->pc != address || known->since != since) {
			int err = find(profile, &sample->record->header, address, since, known);

			if (err)
				return err;
		}
		/* Without names all of them are one. */
		if (known->role != HIDDEN || !hidden)
			stack->steps[stack->n++] = (struct step){.key = known->frame, .is_frame = true};
		hidden |= known->role == HIDDEN;
	}
	profile->ledger.own[LOSS_KERNEL_HIDDEN] += hidden;
	return 0;
}

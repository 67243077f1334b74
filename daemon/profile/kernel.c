/* The kernel's frames of a sample. */
#include <errno.h>

#include "collect/collect.h"
#include "profile/internal.h"

#define HIDDEN 1u /* known_place.mark */

/* What all its functions are when none has a name. */
static const struct place kernel = {
	.module = PLACE_MODULE_KERNEL, .function = 0, .module_name = "kernel", .name = "[kernel]", .kind = PLACE_KERNEL, .lineless = true};

/* Which frame an address is: as for native code, and kept with it. */
static int find(struct profile *profile, const struct record_header *header, uint64_t address, uint32_t since,
		struct known_place *ret)
{
	struct places *places = profile->options.places;
	struct place place = {.module_name = "", .name = ""};
	int err = places->find(places, &header->task, address, header->time, &place);
	uint8_t mark = err == -EACCES ? HIDDEN : 0;
	uint32_t frame;

	err = tables__native(&profile->tables, err ? &kernel : &place, &frame);
	if (!err)
		*ret = (struct known_place){.pc = address, .since = since, .frame = frame, .mark = mark};
	return err;
}

int kernel__put(struct profile *profile, const struct record_sample *sample, bool *ret_whole)
{
	const struct part_kernel_frames *part = (const void *)record__part(sample, PART_KERNEL_FRAMES);
	struct places *places = profile->options.places;
	struct stack *stack = profile->stack;
	bool hidden = false;
	uint32_t since, i;

	if (!part || !places)
		return 0;
	if (part->part.loss) {
		profile->ledger.shown[part->part.loss]++;
		*ret_whole = false;
	}
	/* No process: the kernel is the same for all. */
	since = stack__since(stack, &stack->kernel,
			     (places->steady ? places->steady : places->changes)(places, &sample->header.task, sample->header.time));
	for (i = 0; i < part->n; i++) {
		/* A return address may be the first byte of what follows its function. */
		uint64_t address = part->pc[i] - (i > 0);
		uint64_t hash = hash__pair(&profile->tables.seed, address, (uintptr_t)profile);
		struct known_place *known = &stack->known[hash % KNOWN_PLACES];

		if (known->pc != address || known->since != since) {
			int err = find(profile, &sample->header, address, since, known);

			if (err)
				return err;
		}
		/* Without names all of them are one. */
		if (known->mark != HIDDEN || !hidden)
			stack->steps[stack->n++] = (struct step){.key = known->frame, .is_frame = true};
		hidden |= known->mark == HIDDEN;
	}
	profile->ledger.own[LOSS_KERNEL_HIDDEN] += hidden;
	return 0;
}

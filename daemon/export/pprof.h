/* SPDX-License-Identifier: MIT */
/* pprof's profile.proto, of sums of time: a recording's, or those of a batch that is sent to a store. Private to this directory. */
#pragma once

#include "aggregate/sums.h"
#include "export/model.h"

struct pprof_about {
	uint64_t from, to; /* ns since the session's start */
	/* Labels are class, compiler and phase: of which a store makes a series for each value. Else also thread, process, unit, pass. */
	bool series;
};

/* `sums`: by struct stack_key. gzip'ed. Errors: -errno. */
int pprof__write(struct model *model, const struct sums *sums, const struct pprof_about *about, FILE *out);

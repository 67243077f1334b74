/* SPDX-License-Identifier: MIT */
/* What a loss is, by its name in a ledger (include/cprofd/loss.h). A recording of a newer version may have others. */
#pragma once

#include <stdbool.h>

/* A loss of whole samples; not of frames or details. Unknown names: false. */
bool loss__is_sample(const char *name);
/* NULL: unknown. */
const char *loss__sentence(const char *name);

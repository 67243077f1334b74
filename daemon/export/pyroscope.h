/* SPDX-License-Identifier: MIT */
/* Pyroscope's push.v1.PushRequest (grafana/pyroscope, api/push/v1/push.proto): a series for each process, with a pprof profile. */
#pragma once

#include "export/batch.h"

/* Appends the batch as a request, and clears it; nothing if there are no samples. */
int pyroscope__encode(struct batch *batch, struct buf *out);

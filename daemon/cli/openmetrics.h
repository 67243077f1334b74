/* SPDX-License-Identifier: MIT */
/* The daemon's health for Prometheus. */
#pragma once

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* `status` and `sessions` of the two answers (docs/protocol.md). To stdout. */
void openmetrics__print(json_t *status, json_t *sessions);

/* SPDX-License-Identifier: MIT */
/* The container that a process is in: the text of /proc/PID/cgroup -> OpenTelemetry's `container.id`. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define CONTAINER_ID_LEN 64 /* SHA-256 in hex: containerd, CRI-O, Docker, Podman */

/* false, and "": none is named. `text` need not end in NUL, and may be cut anywhere. */
bool container__id(const char *text, size_t len, char ret[CONTAINER_ID_LEN + 1]);

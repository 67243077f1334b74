/* SPDX-License-Identifier: MIT */
/* Notifies the service manager, as sd_notify(3) does, without its library. Does nothing without $NOTIFY_SOCKET. */
#pragma once

#include <stdint.h>

/* Call it once, before any fork: removes $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID from the environment. */
void notify__begin(void);
/* The daemon is ready. */
void notify__ready(void);
/* The daemon is stopping. */
void notify__stopping(void);
/* Call it in each round of the main loop: sends a watchdog message if one is due. Returns when the next one is,
 * CLOCK_MONOTONIC ns; UINT64_MAX: never. */
uint64_t notify__alive(void);

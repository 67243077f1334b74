/* SPDX-License-Identifier: MIT */
/* What the service manager is told of the daemon: sd_notify(3), without its library. Nothing happens where it did not ask ($NOTIFY_SOCKET). */
#ifndef CPROFD_BROKER_NOTIFY_H
#define CPROFD_BROKER_NOTIFY_H

#include <stdint.h>

/* Once, before anything is forked: takes $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID out of the environment. */
void notify__begin(void);
/* It serves from now on. */
void notify__ready(void);
/* It ends from now on. */
void notify__stopping(void);
/* In each turn of the loop: says that it goes round, when that is due. When it is due next, CLOCK_MONOTONIC ns; UINT64_MAX: never. */
uint64_t notify__alive(void);

#endif

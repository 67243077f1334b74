/* SPDX-License-Identifier: MIT */
/* What include/cprofd/host.h reads memory and pools through in user space, for each thread. */
#include "cprofd/host.h"

_Thread_local struct host_reader *host_reader_current;
_Thread_local const struct host_pool *host_pools_current;
_Thread_local uint32_t host_pools_n;

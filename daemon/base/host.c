/* SPDX-License-Identifier: MIT */
#include "cprofd/host.h"

_Thread_local struct host_reader *host_reader_current;
_Thread_local const struct host_pool *host_pools_current;
_Thread_local uint32_t host_pools_n;

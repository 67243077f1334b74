/* SPDX-License-Identifier: MIT */
/* Offsets of this process's time namespace, read once, before main(). */
#include "clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cleanup.h"

int64_t clock__monotonic_ahead, clock__boottime_ahead;

static bool same(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* /proc/self/timens_offsets has lines "monotonic SECONDS NANOSECONDS", "boottime ...". They describe the namespace of
 * the process's children, which differs from its own after unshare(). Kernels without time namespaces have no such
 * file. */
__attribute__((constructor)) static void read_offsets(void)
{
	bool own = same("/proc/self/ns/time", "/proc/self/ns/time_for_children");
	_cleanup_fclose_ FILE *file = own ? fopen("/proc/self/timens_offsets", "re") : NULL;
	long long seconds, ns;
	char clock[16];

	while (file && fscanf(file, "%15s %lld %lld", clock, &seconds, &ns) == 3) {
		int64_t *ahead = !strcmp(clock, "monotonic") ? &clock__monotonic_ahead :
				 !strcmp(clock, "boottime")  ? &clock__boottime_ahead :
							       NULL;

		if (ahead)
			*ahead = seconds * 1000000000 + ns;
	}
}

# SPDX-License-Identifier: MIT
"""A time of day that is set while a program runs, for that program alone."""
import os
import subprocess

SOURCE = """
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *ret)
{
	int err = ((int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime"))(id, ret);
	if (id == CLOCK_REALTIME && !access(getenv("STEP"), F_OK))
		ret->tv_sec += 7200;
	return err;
}
"""


def stepped(folder):
    """(environment, path): while there is a file of that path, it is two hours later."""
    library, step = os.path.join(folder, "clock.so"), os.path.join(folder, "step")
    subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-x", "c", "-", "-o", library], input=SOURCE.encode(), check=True)
    return {"LD_PRELOAD": library, "STEP": step}, step

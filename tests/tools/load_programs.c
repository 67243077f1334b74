/* SPDX-License-Identifier: MIT */
/* Loads the sampler as each kind of session has it, and tells what the verifier had to look at.
 *
 *   load_programs        one line for each program of each session, to stdout:
 *                        "loaded native=full children=1 program=sample insns=21744"
 *                        and one for each session:
 *                        "session native=full children=1 ms=48.1", or "refused ...: why" after the verifier's words
 *
 * The number is the kernel's own (bpf_prog_info.verified_insns): instructions that the verifier went through on
 * all paths together, of which it allows 1,000,000. Exit status 1 when a session was refused. Needs root.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "broker/load.h"

#define FDS_MAX 256

static const char *const modes[] = {
	[BROKER_NATIVE_OFF] = "off",
	[BROKER_NATIVE_LEAF] = "leaf",
	[BROKER_NATIVE_FULL] = "full",
};

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A map's descriptor would be taken for a program's by the call that tells of both. */
static bool is_program(int fd)
{
	char path[64], what[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, what, sizeof(what) - 1) > 0 && strstr(what, "bpf-prog");
}

/* The programs that this process holds are those of the session. */
static unsigned print_programs(const char *session)
{
	unsigned found = 0;
	int fd;

	for (fd = 3; fd < FDS_MAX; fd++) {
		struct bpf_prog_info info = {};
		uint32_t size = sizeof(info);

		if (!is_program(fd) || bpf_obj_get_info_by_fd(fd, &info, &size))
			continue;
		printf("loaded %s program=%s insns=%u\n", session, info.name, info.verified_insns);
		found++;
	}
	return found;
}

static int try_session(uint32_t native, bool children, bool wall)
{
	struct load_options options = {.native = native, .follow_children = children, .wall = wall};
	enum broker_error error = BROKER_ERROR_OK;
	struct sampler *sampler = NULL;
	char session[64];
	double begin;
	int err;

	snprintf(session, sizeof(session), "native=%s children=%d%s", modes[native], children, wall ? " wall=1" : "");
	begin = now_ms();
	err = sampler__load(&options, &sampler, &error);
	if (!err) {
		printf("session %s ms=%.1f\n", session, now_ms() - begin);
		err = print_programs(session) ? 0 : -ENOENT;
		sampler__free(sampler);
	} else {
		/* Once more, for the verifier's words. */
		options.verbose = true;
		if (!sampler__load(&options, &sampler, &error))
			sampler__free(sampler);
	}
	if (err)
		printf("refused %s: %s (%s)\n", session, broker_error__sentence(error), strerror(-err));
	fflush(stdout);
	return err;
}

int main(void)
{
	int status = 0;
	uint32_t native;

	for (native = BROKER_NATIVE_OFF; native <= BROKER_NATIVE_FULL; native++) {
		if (try_session(native, false, false))
			status = 1;
		if (try_session(native, true, false))
			status = 1;
		if (try_session(native, true, true))
			status = 1;
	}
	return status;
}

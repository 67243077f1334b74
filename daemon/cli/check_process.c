/* SPDX-License-Identifier: MIT */
/* `cprofd check PID`: is this process a supported Python, and may we read its memory?
 *
 * The process is identified here, with the rights of this process, by the functions that the engine uses
 * later (target/). So the answer is that of a session without a daemon; a daemon may be allowed more. */
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/process.h"
#include "cli/check.h"
#include "target/process.h"

/* The name of the user who owns /proc/PID, which is the process's effective user; "uid 1234" if the user
 * database has no such user, as in containers. A process that is not dumpable belongs to root there. */
static void owner_of(pid_t pid, char *ret, size_t size)
{
	const struct passwd *entry;
	struct stat status;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &status) < 0) {
		snprintf(ret, size, "?");
		return;
	}
	entry = getpwuid(status.st_uid);
	if (entry)
		snprintf(ret, size, "%s", entry->pw_name);
	else
		snprintf(ret, size, "uid %u", status.st_uid);
}

/* Names the file that holds the interpreter: libpython3.x.so if it is mapped, else the program itself. */
static void check_binary(struct check_list *list, const struct target_process *process)
{
	const char *found = NULL;
	size_t i, len = 0;

	for (i = 0; i < process->maps.n && !found; i++) {
		const char *name = mapping__name(&process->maps.items[i], &len);

		/* libpython3.so is the forwarding library of the stable ABI (PEP 384): it has no interpreter
		 * in it. */
		if (len > 9 && !memcmp(name, "libpython", 9) &&
		    !memmem(name, len, "python3.so", 10))
			found = process->maps.items[i].path, len = process->maps.items[i].path_len;
	}
	if (found)
		check__add(list, "its interpreter", CHECK_OK, "shared: %.*s", (int)len, found);
	else
		check__add(list, "its interpreter", CHECK_OK,
			   "static: in the program itself, or in a library of another name");
}

/* Three rows: version, file, and where the layout of its structures comes from. For an unsupported or foreign
 * process there is one row, with the reason. */
static void check_python(struct check_list *list, pid_t pid, const struct process_fds *fds,
			 const struct process_stat *stat)
{
	/* The key ties what is read to one execution of a program: an exec in between changes arg_start or
	 * start_data, and the identification fails instead of mixing two programs. */
	struct image_key key = {.arg_start = stat->arg_start, .start_data = stat->start_data};
	struct target_process process = {};
	struct target_problem problem = {};
	struct image image;
	struct check_row *row;
	char version[32] = "";
	int major = 0, minor = 0;
	int err = target_process__init(&process, pid, fds->mem, fds->maps, key);

	if (!err)
		err = target__identify(&process, &image, &key, version, &problem);
	else
		problem.kind = TARGET_PROBLEM_GONE;
	if (err) {
		row = check__add(list, "its Python", CHECK_MISSING, "%s%s%s",
				 target_problem__sentence(problem.kind),
				 *problem.detail ? ": " : "", problem.detail);
		check__help(row, "", err == -EAGAIN ? "try again in a moment" : "");
	} else {
		check__add(list, "its Python", CHECK_OK, "CPython %s", version);
		check_binary(list, &process);
		sscanf(version, "%d.%d", &major, &minor);
		/* _Py_DebugOffsets is in each interpreter since 3.13 (CPython 3.13:
		 * Include/internal/pycore_runtime.h; 3.14: Include/internal/pycore_debug_offsets.h). It does
		 * not have all members that we need. */
		check__add(list, "its layout", CHECK_OK, "%s",
			   minor >= 13 ? "from the process (_Py_DebugOffsets), the rest from "
					 "the tables"
				       : "from the tables, which were made from CPython's headers");
	}
	target_process__free(&process);
}

void check__process(struct check_list *list, pid_t pid)
{
	struct process_fds fds = PROCESS_FDS_NONE;
	struct process_stat stat;
	enum broker_error error;
	struct check_row *row;
	char owner[64], exe[PATH_MAX], path[64], why[256];
	const char *hint;
	ssize_t len;
	int err = process__stat(pid, &stat);

	if (err || stat.kernel_thread) {
		error = err ? process__error(err) : BROKER_ERROR_KERNEL_THREAD;
		row = check__add(list, "process", CHECK_MISSING, "%d: %s", pid,
				 broker_error__sentence(error));
		check__help(row, "", broker_error__hint(error));
		return;
	}
	owner_of(pid, owner, sizeof(owner));
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	len = readlink(path, exe, sizeof(exe) - 1);
	exe[len > 0 ? len : 0] = '\0';
	check__add(list, "process", CHECK_OK, "%d of %s%s%s", pid, owner, *exe ? ": " : "", exe);
	err = process__open(pid, &fds, &stat);
	if (err) {
		error = process__error(err);
		hint = broker_error__hint(error);
		if (error != BROKER_ERROR_NOT_YOURS || !(forbidden__to_root(pid, why, sizeof(why), &hint) || forbidden__to_user(pid, why, sizeof(why), &hint)))
			snprintf(why, sizeof(why), "%s", broker_error__sentence(error));
		row = check__add(list, "may it be read", CHECK_MISSING, "%s", why);
		check__help(row, "", hint);
		return;
	}
	check__add(list, "may it be read", CHECK_OK, "yes");
	check_python(list, pid, &fds, &stat);
	process__close(&fds);
}

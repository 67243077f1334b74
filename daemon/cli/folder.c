/* SPDX-License-Identifier: MIT */
#include "cli/folder.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/user.h"

bool folder__names(const char *name, const char *end)
{
	static const char form[] = "cprofd-00000000T000000.000Z-";
	size_t i;

	for (i = 0; form[i]; i++)
		if (form[i] == '0' ? !isdigit((unsigned char)name[i]) : name[i] != form[i])
			return false;
	name += i;
	i = strspn(name, "0123456789");
	return i && !strcmp(name + i, end);
}

int folder__open(const char *path)
{
	int err = user__enter(user__calling()), fd = -1;

	if (err)
		return err;
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		err = -errno;
	if (!err)
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!err && fd < 0)
		err = -errno;
	user__leave(user__calling());
	return err ?: fd;
}

void folder__name(const char *path, pid_t pid, uint64_t now, uint64_t *named, char ret[PATH_MAX])
{
	char utc[32];
	struct tm parts;
	time_t seconds;

	if (now <= *named)
		now = *named + 1;
	*named = now;
	seconds = (time_t)(now / 1000);
	strftime(utc, sizeof(utc), "%Y%m%dT%H%M%S", gmtime_r(&seconds, &parts));
	snprintf(ret, PATH_MAX, "%s%scprofd-%s.%03uZ-%d" FOLDER_END, strcmp(path, ".") ? path : "", strcmp(path, ".") ? "/" : "", utc, (unsigned)(now % 1000), pid);
}

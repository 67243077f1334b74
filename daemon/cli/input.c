#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/user.h"

int input__open(const char *path)
{
	const struct user *user = user__calling();
	int fd;

	if (!strcmp(path, "-"))
		return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	if (user__enter(user))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	user__leave(user);
	return fd;
}

void input__tell_failure(int err, const char *path)
{
	if (err == -EBADMSG)
		say__failure("`cprofd attach -o NAME.cprof` writes recordings",
			     "%s is not a recording, or it is damaged", path);
	else if (err == -EPROTONOSUPPORT)
		say__failure("use the cprofd that made it, or a newer one",
			     "%s was made by a version of cprofd that this one does not understand",
			     path);
	else if (err == -ESPIPE)
		say__failure("give it a file", "%s is a pipe, and --skip-first reads a recording twice", path);
	else
		say__failure("", "%s cannot be read: %s", path, strerror(-err));
}

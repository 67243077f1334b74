/* Where unwind tables are kept from session to session. The engine runs as the user whose processes it looks
 * at; whoever may write there chooses what stacks look like, so it has to be that user alone.
 *
 * Of the daemon: systemd's CacheDirectory=, in which each user makes a folder of their own (it is sticky, as
 * /var/tmp is); homes are read-only for the daemon. Else $XDG_CACHE_HOME or ~/.cache (XDG Base Directory
 * Specification). An engine that runs as nobody, for root, keeps nothing: many programs are nobody. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "broker/privileges.h"
#include "serve/engine.h"

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static bool is_own(int fd)
{
	struct stat stat;

	return fd >= 0 && !fstat(fd, &stat) && stat.st_uid == geteuid() && !(stat.st_mode & 022);
}

/* A folder of ours in `directory` (not taken), made if it is not there. */
static int enter(int directory, const char *name)
{
	int fd;

	if (directory < 0 || (mkdirat(directory, name, 0700) && errno != EEXIST))
		return -1;
	fd = openat(directory, name, DIRECTORY | O_NOFOLLOW);
	if (fd >= 0 && !is_own(fd)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int open_home(void)
{
	const char *given = getenv("XDG_CACHE_HOME");
	const struct passwd *entry;
	_cleanup_close_ int home = -1;

	if (given && *given == '/') {
		home = open(given, DIRECTORY);
		return is_own(home) ? take_fd(&home) : -1;
	}
	entry = getpwuid(geteuid());
	if (!entry || !entry->pw_dir || *entry->pw_dir != '/')
		return -1;
	home = open(entry->pw_dir, DIRECTORY);
	return is_own(home) ? enter(home, ".cache") : -1;
}

int cache_dir__open(void)
{
	const char *given = getenv("CACHE_DIRECTORY");
	_cleanup_close_ int parent = -1;
	char name[32] = "cprofd";

	if (geteuid() == PRIVILEGES_NOBODY)
		return -1;
	if (given && *given == '/') {
		parent = open(given, DIRECTORY);
		snprintf(name, sizeof(name), "%u", (unsigned)geteuid());
	} else {
		parent = open_home();
	}
	return enter(parent, name);
}

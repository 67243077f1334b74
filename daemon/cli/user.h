/* The calling user: who ran sudo, or who we are. Files are opened and commands
 * are started in this user's name. */
#ifndef CPROFD_CLI_USER_H
#define CPROFD_CLI_USER_H

#include <stdbool.h>
#include <sys/types.h>

struct user {
	bool other;          /* not who this process runs as: it is under sudo */
	pid_t parent;        /* of the process that asked first: sudo, if it started us */
	uid_t uid;
	gid_t gid;
	const char *name, *home, *shell; /* "" when the data base does not know */
	gid_t groups[64];
	int n_groups;
};

/* Found once and kept. */
const struct user *user__calling(void);

/* Takes the user's identity for what is opened until user__leave(). The process
 * keeps its saved ids. -errno. */
int user__enter(const struct user *user);
void user__leave(const struct user *user);

/* Becomes the user for good, with the environment that sudo was called with. In
 * a child before exec. -errno. */
int user__become(const struct user *user);

#endif

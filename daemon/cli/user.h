/* SPDX-License-Identifier: MIT */
/* The calling user: who ran sudo, or else who runs this process. Files are opened and commands are started with this
 * user's rights. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The calling user; static, never freed. Without sudo all of it is this process's own. */
struct user {
	bool other;          /* differs from this process's user: it runs under sudo */
	bool root;           /* this process began as root */
	pid_t parent;        /* of this process when first asked: sudo, if it started us */
	uid_t uid;
	gid_t gid;
	const char *name, *home, *shell; /* "" if the user database has no such user */
	/* supplementary groups, of sudo's user; else only gid */
	gid_t groups[64];
	int n_groups;
};

/* Determined at the first call and cached: call it before fork() if the child needs it. */
const struct user *user__calling(void);

/* Takes the user's effective ids for what is opened until user__leave(); the saved ids stay root's. After
 * user__drop() it does nothing. -errno. */
int user__enter(const struct user *user);
void user__leave(const struct user *user);

/* Becomes the user for good, with the environment that sudo was called with. For a child before exec. -errno. */
int user__become(const struct user *user);

/* Gives up this process's rights for good, before it reads data that a target influenced. Under sudo it becomes the
 * user; otherwise it keeps its uid; in both cases it loses its capabilities. Only if root writes into somebody
 * else's directory (user__writes_in), it keeps CAP_DAC_OVERRIDE and CAP_FOWNER, which renaming and removing the file
 * there need. -errno. */
int user__drop(const struct user *user);
/* The same, but becomes whoever this process is, groups too. As root only. -errno. */
int user__drop_to(pid_t pid);
/* A file will be renamed or removed in this directory after user__drop(). */
void user__writes_in(int directory);

/* SPDX-License-Identifier: MIT */
/* The calling user: who ran sudo, or who we are. Files are opened and commands
 * are started in this user's name. */
#ifndef CPROFD_CLI_USER_H
#define CPROFD_CLI_USER_H

#include <stdbool.h>
#include <sys/types.h>

struct user {
	bool other;          /* not who this process runs as: it is under sudo */
	bool root;           /* this process began as root */
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
 * keeps its saved ids. After user__drop() it has that identity anyway. -errno. */
int user__enter(const struct user *user);
void user__leave(const struct user *user);

/* Becomes the user for good, with the environment that sudo was called with. In
 * a child before exec. -errno. */
int user__become(const struct user *user);

/* This process gives its rights up for good, before it reads what a target had a hand in: under sudo it becomes the
 * user, without any capability; else it stays who it is, without any. Only root who writes into somebody else's folder
 * (user__writes_in) keeps CAP_DAC_OVERRIDE and CAP_FOWNER, which naming and removing the file there take. -errno. */
int user__drop(const struct user *user);
/* A folder in which a file is to be renamed or removed after that. */
void user__writes_in(int directory);

#endif

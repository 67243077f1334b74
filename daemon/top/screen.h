/* SPDX-License-Identifier: MIT */
/* The full screen of `cprofd top`: draws a table (top.h) by ncurses, and takes keys.
 *
 * One screen a process. What comes from the target is shown with its control characters replaced. */
#ifndef CPROFD_TOP_SCREEN_H
#define CPROFD_TOP_SCREEN_H

#include "top/top.h"

#define SCREEN_PATTERN_MAX 64

struct screen {
	enum top_view view;
	enum top_sort sort;
	char pattern[SCREEN_PATTERN_MAX]; /* "": all rows */
	bool typing;        /* keys go into the pattern */
	bool paused, help, quit;
	bool reset;         /* asked for; the caller does it, and clears it */
	uint32_t first;     /* row at the top */
	uint64_t seconds;   /* since the begin, for the head */
};

/* Takes the terminal; the screen may be prepared before. 0, -ENOTTY, -ENOENT: TERM names no terminal that is known. */
int screen__open(void);
/* Gives it back as it was. Harmless when it is not open. */
void screen__close(void);
/* 0, or -errno. */
int screen__draw(struct screen *screen, struct top *top);
/* Takes all keys that were pressed. True: something changed. */
bool screen__keys(struct screen *screen);

#endif

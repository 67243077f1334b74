/* SPDX-License-Identifier: MIT */
/* The full screen of `cprofd top`: draws a table (top.h) with ncurses, and reads keys.
 *
 * One screen per process. Control characters in text from the target are replaced. */
#pragma once

#include "top/top.h"

#define SCREEN_PATTERN_MAX 64

/* What the user has chosen. Zero-initialised: functions by %Own. */
struct screen {
	enum top_view view;
	enum top_sort sort;
	char pattern[SCREEN_PATTERN_MAX]; /* "": all rows */
	bool typing;        /* keys go into the pattern */
	bool paused, help, quit;
	bool reset;         /* requested by a key; the caller does it and clears this */
	/* row at the top; clamped when drawn, as the number of rows changes */
	uint32_t first;
	uint64_t seconds;   /* since the start, for the head */
};

/* Takes over the terminal. 0, -ENOTTY, or -ENOENT: the type in TERM is unknown. */
int screen__open(void);
/* Restores the terminal. Harmless if it is not open. */
void screen__close(void);
/* 0, or -errno. */
int screen__draw(struct screen *screen, struct top *top);
/* Handles all keys that were pressed. True: there were some. */
bool screen__keys(struct screen *screen);

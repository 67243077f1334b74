/* SPDX-License-Identifier: MIT */
/* Draws the live view with ncurses: a head, a table, a line of keys. All figures come from top.c.
 *
 *     cprofd top: 4242 python3 svd.py
 *     0:12  11988 samples, 0 lost  999 Hz of 999  3 threads on 1.02 CPUs
 *     compiling: svd(float64) > lowering > InstCombine
 *     compiler native 61.2 %, interpreter 22.4 %, GC 3.1 %
 *        %Own  %Total   OwnTime TotalTime  functions (812)
 *       12.3%   40.1%     1.48s     4.81s  run_pass (/usr/.../compiler_machinery.py:285)
 *     f functions  l lines  ...  q quit
 *
 * Everything is drawn anew each time; ncurses sends only what has changed to the terminal. Names come from
 * the target: all text goes through to_wide(). */
#include "top/screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <ncursesw/ncurses.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#define HEAD_LINES 4 /* above the table's own head */
/* Longer text is cut: no terminal shows more. */
#define CELLS_MAX 512
#define CLASSES_SHOWN 8

static bool is_open;
static wchar_t ellipsis = L'…'; /* a terminal without UTF-8 has none */

static const char *const view_names[] = {
#define VIEW_NAME(id, key, name) name,
	TOP_VIEWS(VIEW_NAME)
#undef VIEW_NAME
};
static const char view_keys[] = {
#define VIEW_KEY(id, key, name) key,
	TOP_VIEWS(VIEW_KEY)
#undef VIEW_KEY
};

int screen__open(void)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return -ENOTTY;
	setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "UTF-8"))
		ellipsis = L'~';
	/* Not initscr(), which would end the program if TERM is unknown. */
	if (!newterm(NULL, stdout, stdin))
		return -ENOENT;
	is_open = true;
	/* ms to wait after an Esc for the rest of a key's sequence. */
	set_escdelay(25);
	cbreak();
	noecho();
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	curs_set(0);
	return 0;
}

void screen__close(void)
{
	if (is_open)
		endwin();
	is_open = false;
}

/* --- words --- */

/* Non-printable characters, such as an escape sequence in a name, become question marks. A byte that is
 * no character in the locale's encoding becomes one, too, and decoding goes on after it. */
static void to_wide(const char *text, wchar_t ret[CELLS_MAX])
{
	mbstate_t state = {};
	size_t n = 0;

	while (*text && n + 1 < CELLS_MAX) {
		wchar_t c;
		size_t len = mbrtowc(&c, text, strlen(text), &state);

		if (len == (size_t)-1 || len == (size_t)-2) {
			memset(&state, 0, sizeof(state));
			len = 1;
			c = L'?';
		}
		ret[n++] = iswprint((wint_t)c) ? c : L'?';
		text += len;
	}
	ret[n] = L'\0';
}

/* Prints at most `width` columns; longer text ends in an ellipsis. Returns the columns used. */
static int put(int y, int x, int width, const char *text)
{
	wchar_t wide[CELLS_MAX];
	int columns = 0;
	size_t n;

	if (width <= 0)
		return 0;
	to_wide(text, wide);
	for (n = 0; wide[n]; n++) {
		/* 2 for wide characters (CJK), 0 for combining ones. */
		int more = wcwidth(wide[n]) > 0 ? wcwidth(wide[n]) : 0;

		if (columns + more > width)
			break;
		columns += more;
	}
	if (wide[n] && n) {
		/* In place of the last character that fits; the width may be off by one after a wide one. */
		wide[n - 1] = ellipsis;
		wide[n] = L'\0';
	}
	mvaddnwstr(y, x, wide, (int)n);
	return columns;
}

/* The same, but longer text loses its beginning: the end of a path says which file it is. */
static int put_end(int y, int x, int width, const char *text)
{
	wchar_t wide[CELLS_MAX];
	int columns = 0;
	size_t n, from;

	to_wide(text, wide);
	from = n = wcslen(wide);
	while (from && columns + (wcwidth(wide[from - 1]) > 0 ? wcwidth(wide[from - 1]) : 0) <= width) {
		from--;
		columns += wcwidth(wide[from]) > 0 ? wcwidth(wide[from]) : 0;
	}
	if (width <= 0 || from == n)
		return 0;
	if (from)
		wide[from] = ellipsis;
	mvaddnwstr(y, x, wide + from, (int)(n - from));
	return columns;
}

static int columns_of(const char *text)
{
	wchar_t wide[CELLS_MAX];
	int columns = 0;

	to_wide(text, wide);
	for (size_t i = 0; wide[i]; i++)
		columns += wcwidth(wide[i]) > 0 ? wcwidth(wide[i]) : 0;
	return columns;
}

static int putf(int y, int x, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int putf(int y, int x, const char *format, ...)
{
	char text[CELLS_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return put(y, x, COLS - x, text);
}

/* --- the screen --- */

static void draw_head(const struct screen *screen, const struct top_head *head)
{
	int x;

	attron(A_BOLD);
	x = putf(0, 0, "cprofd top: %d ", head->pid);
	attroff(A_BOLD);
	put(0, x, COLS - x, head->command);
	x = putf(1, 0, "%llu:%02llu  %llu samples, %llu lost  ", (unsigned long long)screen->seconds / 60,
		 (unsigned long long)screen->seconds % 60, (unsigned long long)head->samples,
		 (unsigned long long)head->lost);
	x += putf(1, x, "%.0f Hz of %u  %u thread%s on %.2f CPUs", head->reached, head->rate, head->threads,
		  head->threads == 1 ? "" : "s", head->cpus);
	if (head->gap)
		x += putf(1, x, "  %llu events too fast for this terminal", (unsigned long long)head->gap);
	attron(A_BOLD);
	if (head->ended)
		putf(1, x, "  ended: %s", *head->detail ? head->detail : head->reason);
	else if (screen->paused)
		putf(1, x, "  paused");
	attroff(A_BOLD);
	if (*head->unit)
		putf(2, 0, "compiling: %s", head->unit);
}

static int draw_classes(struct top *top)
{
	const struct top_row *rows;
	uint32_t n, i;
	double all = 0;
	int x = 0, err = top__rows(top, TOP_CLASS, TOP_OWN_NOW, "", &rows, &n);

	for (i = 0; i < n && !err; i++)
		all += rows[i].now[0];
	/* `all` is positive if any row has time, so nothing is divided by 0. */
	for (i = 0; i < n && !err && i < CLASSES_SHOWN && rows[i].now[0] > 0; i++)
		x += putf(3, x, "%s%s %.1f %%", x ? ", " : "", rows[i].name, 100 * rows[i].now[0] / all);
	return err;
}

/* Titles end where the figures of draw_row() end: the widths are those of its format. */
static void draw_titles(const struct screen *screen, int y, uint32_t n)
{
	static const char *const titles[TOP_SORT_COUNT] = {"%Own", "%Total", "OwnTime", "TotalTime"};
	static const int widths[TOP_SORT_COUNT] = {8, 8, 10, 10};
	int x = 0, i;

	attron(A_REVERSE);
	mvhline(y, 0, ' ', COLS);
	for (i = 0; i < TOP_SORT_COUNT; i++) {
		attr_t emphasis = i == (int)screen->sort ? A_BOLD | A_UNDERLINE : A_NORMAL;

		x += widths[i];
		attron(emphasis);
		put(y, x - (int)strlen(titles[i]), COLS, titles[i]);
		attroff(emphasis);
	}
	x += putf(y, x, "  %s (%u)", view_names[screen->view], n);
	if (screen->typing || *screen->pattern)
		putf(y, x, "  with /%s%s", screen->pattern, screen->typing ? "_" : "");
	attroff(A_REVERSE);
}

/* A name leaves this part of the row to its location, if that needs so much. */
#define LOCATION_PART 2 / 5

/* Name and location share what the figures leave. The location gets at most LOCATION_PART of it, and less if
 * it is short; the name gets the rest. */
static void draw_row(const struct screen *screen, int y, const struct top_row *row)
{
	char location[CELLS_MAX] = "";
	int x, room, needed;

	x = putf(y, 0, "%7.1f%%%7.1f%%%9.2fs%9.2fs  ", 100 * row->now[0], 100 * row->now[1],
		 (double)row->since[0] / 1e9,
		 (double)row->since[1] / 1e9);
	if (row->line && *row->place)
		snprintf(location, sizeof(location), "%s:%u", row->place, row->line);
	else if (*row->place)
		snprintf(location, sizeof(location), "%s", row->place);
	else if (row->line && screen->view == TOP_THREAD)
		snprintf(location, sizeof(location), "%u", row->line);
	needed = *location ? columns_of(location) + 3 : 0; /* " (", ")" */
	room = (COLS - x) * LOCATION_PART;
	x += put(y, x, COLS - x - (needed < room ? needed : room), row->name);
	if (!*location || COLS - x < 5)
		return;
	attron(A_DIM);
	x += put(y, x, COLS - x, " (");
	x += put_end(y, x, COLS - x - 1, location);
	put(y, x, COLS - x, ")");
	attroff(A_DIM);
}

static void draw_help(void)
{
	static const char *const lines[] = {
		"f l c t k u   functions, lines, C callees, threads, classes, compile units",
		"L             functions <-> lines",
		"1 2 3 4       order by %Own, %Total, OwnTime, TotalTime",
		"/             only rows containing this text (Enter: keep, Esc: all)",
		"up, down, PgUp, PgDn, Home   scroll",
		"p, space      pause: the table stays, sampling goes on",
		"r, R          reset OwnTime and TotalTime",
		"q, Ctrl-C     quit",
		"",
		"%Own and %Total: of one CPU, in the last second.",
		"OwnTime and TotalTime: of CPU, since the start or the last reset.",
		"Own: it was the innermost frame (exclusive, in reports).",
		"Total: it was anywhere in the stack (inclusive).",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		put(HEAD_LINES + 2 + (int)i, 2, COLS - 2, lines[i]);
}

int screen__draw(struct screen *screen, struct top *top)
{
	static const char keys[] =
		"f functions  l lines  c C callees  t threads  k classes  u units | "
		"1-4 order  / find  p pause  r reset  ? help  q quit";
	/* For narrow terminals. */
	static const char few_keys[] = "f l c t k u views  1-4 order  / find  p pause  r reset  ? help  q quit";
	/* Lines for rows: all but the head, the titles and the line of keys. */
	int room = LINES - HEAD_LINES - 2, y, err;
	const struct top_row *rows;
	struct top_head head;
	uint32_t n, i;

	erase();
	top__head(top, &head);
	draw_head(screen, &head);
	err = draw_classes(top);
	err = err ?: top__rows(top, screen->view, screen->sort, screen->pattern, &rows, &n);
	if (err)
		return err;
	/* The list may have become shorter, by a pattern or another view. */
	if (screen->first >= n)
		screen->first = n ? n - 1 : 0;
	draw_titles(screen, HEAD_LINES, n);
	if (screen->help)
		draw_help();
	else
		for (i = screen->first, y = 0; i < n && y < room; i++, y++)
			draw_row(screen, HEAD_LINES + 1 + y, &rows[i]);
	attron(A_DIM);
	put(LINES - 1, 0, COLS, COLS > (int)strlen(keys) ? keys : few_keys);
	attroff(A_DIM);
	refresh();
	return 0;
}

/* --- keys --- */

/* A key while a pattern is typed. Only ASCII: a pattern is compared byte by byte. */
static void type(struct screen *screen, int key)
{
	size_t len = strlen(screen->pattern);

	if (key == '\n' || key == KEY_ENTER) {
		screen->typing = false;
	/* Esc */
	} else if (key == 27) {
		screen->typing = false;
		*screen->pattern = '\0';
	} else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
		screen->pattern[len ? len - 1 : 0] = '\0';
	} else if (key >= ' ' && key < 127 && len + 1 < sizeof(screen->pattern)) {
		screen->pattern[len] = (char)key;
		screen->pattern[len + 1] = '\0';
	}
	screen->first = 0;
}

/* The end of the list is checked when it is drawn, where its length is known. */
static void scroll_by(struct screen *screen, int rows)
{
	int64_t to = (int64_t)screen->first + rows;

	screen->first = to > 0 ? (uint32_t)to : 0;
}

static void command(struct screen *screen, int key)
{
	int page = LINES - HEAD_LINES - 2;
	/* Function keys of ncurses are above 255. */
	const char *view = key > 0 && key < 127 ? memchr(view_keys, key, sizeof(view_keys)) : NULL;

	if (view) {
		screen->view = (enum top_view)(view - view_keys);
		screen->first = 0;
	}
	/* Any key leaves the help, and does what it does. */
	if (key != '?' && key != 'h')
		screen->help = false;
	switch (key) {
	case 'L':
		screen->view = screen->view == TOP_LINE ? TOP_FUNCTION : TOP_LINE;
		break;
	case '1' ... '4':
		screen->sort = (enum top_sort)(key - '1');
		break;
	case '/':
		screen->typing = true;
		*screen->pattern = '\0';
		break;
	case 27:
		*screen->pattern = '\0';
		break;
	case 'p':
	case ' ':
		screen->paused = !screen->paused;
		break;
	case 'r':
	case 'R':
		screen->reset = true;
		break;
	case '?':
	case 'h':
		screen->help = !screen->help;
		break;
	case 'q':
		screen->quit = true;
		break;
	case KEY_DOWN:
		scroll_by(screen, 1);
		break;
	case KEY_UP:
		scroll_by(screen, -1);
		break;
	case KEY_NPAGE:
		scroll_by(screen, page);
		break;
	case KEY_PPAGE:
		scroll_by(screen, -page);
		break;
	case KEY_HOME:
		screen->first = 0;
		break;
	default:
		break;
	}
}

bool screen__keys(struct screen *screen)
{
	bool any = false;
	int key;

	/* ERR: no more keys; getch() does not wait (nodelay). A resized window is a key, too: KEY_RESIZE. */
	while ((key = getch()) != ERR) {
		any = true;
		if (screen->typing && key != KEY_RESIZE)
			type(screen, key);
		else
			command(screen, key);
	}
	return any;
}

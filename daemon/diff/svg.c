/* SPDX-License-Identifier: MIT */
/* The flame graph of both sides together, the outermost frame on top. A frame's width is the mean of both sides, so
 * frames of one side alone are visible, too. Red: more than before; blue: less; grey: not certain. */
#include "export/svg.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/stream.h"
#include "diff/internal.h"

struct picture {
	const struct diff *diff;
	uint32_t depth; /* levels that were drawn, for the height */
	struct buf frames, text;
};

static double shown(const struct diff *diff, double value)
{
	return diff->per == DIFF_SHARE ? 100 * value : value / 1e6;
}

/* Three states: it differs, and the more it changed the darker; it does not, or is not sure; nothing is known
 * about it. */
static void colour_of(const struct comparison *c, char *out, size_t size)
{
	double most = fmax(c->before, c->after), part = most > 0 ? fabs(c->change) / most : 0;

	if (!c->differs)
		snprintf(out, size, "%s", c->margin < 0 ? "hsl(45,10%,93%)" : "hsl(45,30%,86%)");
	else
		snprintf(out, size, "hsl(%u,80%%,%.0f%%)", c->change > 0 ? 4u : 214u, 78 - 30 * part);
}

/* The tooltip of a frame: both values, the change, and how sure it is. */
static int put_words(const struct diff *diff, const struct diff_row *row, struct buf *out)
{
	const struct comparison *c = &row->comparison;
	const char *unit = diff->per == DIFF_SHARE ? "%" : "ms", *of = diff->per == DIFF_SHARE ? " points" : " ms";
	double low, high;
	int err = buf__printf(out, "%.3f %s before, %.3f %s after: %+.3f%s", shown(diff, c->before), unit, shown(diff, c->after), unit,
			      shown(diff, c->change), of);

	if (row->too_few)
		return err ?: buf__puts(out, "; too few samples to compare");
	if (c->margin < 0)
		return err ?: buf__puts(out, "; how sure that is, is not known");
	comparison__range(c, diff__most(diff), &low, &high);
	return err ?: buf__printf(out, "; %s, %+.3f to %+.3f", c->differs ? c->change > 0 ? "surely more" : "surely less" : "not sure",
				  shown(diff, low), shown(diff, high));
}

static int put_frame(void *of, uint32_t id, double x, double width, uint32_t depth)
{
	struct picture *picture = of;
	const struct diff *diff = picture->diff;
	const struct diff_row *row = &diff->flame[id];
	struct buf *out = &picture->frames;
	struct diff_key key = {.name = "all", .module = ""};
	char colour[32];
	int err;

	if (id != BRANCH_ROOT)
		key = diff__key(diff, flame__branch(diff, id).row);
	colour_of(&row->comparison, colour, sizeof(colour));
	err = buf__puts(out, "<g><title>") ?: svg__put_xml(out, key.name) ?: buf__puts(out, "\n");
	if (*key.module)
		err = err ?: svg__put_xml(out, key.module) ?: buf__puts(out, "\n");
	return err ?: put_words(diff, row, out) ?: svg__put_frame(out, x, width, SVG_TOP + depth * SVG_ROW, colour, key.name);
}

static double width_of(void *of, uint32_t id)
{
	return flame__width(((const struct picture *)of)->diff, id);
}

static int put_frames(struct picture *picture)
{
	const struct svg_tree tree = {&picture->diff->branches, picture->diff->least, width_of, put_frame};

	return svg__layout(&tree, picture, &picture->depth);
}

static int put_names(const struct diff *diff, bool after, struct buf *out)
{
	uint32_t i, n = 0;
	int err = 0;

	for (i = 0; i < diff->read && !err; i++)
		if (diff->recordings[i].after == after)
			err = buf__puts(out, n++ ? ", " : "") ?: buf__puts(out, diff->recordings[i].name);
	return err;
}

static int put_head(const struct picture *picture, struct buf *out)
{
	const struct diff *diff = picture->diff;
	_cleanup_(buf__free) struct buf title = {};
	bool collector = false;
	int err = buf__puts(&title, "from ") ?: put_names(diff, false, &title) ?: buf__puts(&title, " to ") ?: put_names(diff, true, &title);

	for (uint32_t i = 0; i < diff->read; i++)
		collector |= diff->recordings[i].collector > 0;
	err = err ?: buf__append(&title, "", 1) ?: svg__put_begin(out, SVG_TOP + (picture->depth + 2) * SVG_ROW, title.data);
	err = err ?: buf__printf(out,
				 "</text>\n<text x=\"4\" y=\"36\">%s of %s time%s; red: surely more (%.6g %%), blue: surely less, else not sure; "
				 "width: the mean of both",
				 diff->per == DIFF_SHARE ? "shares" : "ms a compile", diff->wall ? "wall" : "CPU", collector ? " without " CLASS_COLLECTOR : "",
				 100 * diff->options->level);
	return err ?: svg__put_tools(out);
}

static int draw(struct picture *picture)
{
	struct buf *out = &picture->text;
	int err = put_frames(picture) ?: put_head(picture, out);

	err = err ?: buf__append(out, picture->frames.data ? picture->frames.data : "", picture->frames.len);
	return err ?: svg__put_end(out);
}

static int write_out(const struct buf *text, FILE *out)
{
	return stream__write(out, text->data, text->len) ?: stream__flush(out);
}

int diff__svg(const struct diff *diff, FILE *out)
{
	struct picture picture = {.diff = diff};
	int err = buf__puts(&picture.text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");

	err = err ?: draw(&picture) ?: write_out(&picture.text, out);
	buf__free(&picture.frames);
	buf__free(&picture.text);
	return err;
}

/* Names in the text come from the recording: escaped line by line, as svg__put_xml() turns line ends into
 * blanks. */
static int put_lines(struct buf *out, char *words)
{
	char *line = words, *end;
	int err = 0;

	for (; (end = strchr(line, '\n')) && !err; line = end + 1) {
		*end = '\0';
		err = svg__put_xml(out, line) ?: buf__puts(out, "\n");
	}
	return err;
}

/* A page with the picture, and the text of the comparison below it. */
int diff__html(const struct diff *diff, FILE *out)
{
	struct picture picture = {.diff = diff};
	_cleanup_free_ char *words = NULL;
	size_t len;
	FILE *memory = open_memstream(&words, &len);
	int err = memory ? diff__text(diff, memory) : -ENOMEM;

	if (memory)
		fclose(memory);
	err = err ?: buf__printf(&picture.text,
				 "<!DOCTYPE html>\n<html lang=\"en\" data-width=\"%u\" data-letter=\"%.1f\">\n<head><meta charset=\"utf-8\">"
				 "<title>cprofd diff</title></head>\n<body>\n",
				 SVG_WIDTH, SVG_CHAR);
	err = err ?: draw(&picture) ?: buf__puts(&picture.text, "<pre>\n");
	err = err ?: put_lines(&picture.text, words);
	err = err ?: buf__puts(&picture.text, "</pre>\n</body>\n</html>\n") ?: write_out(&picture.text, out);
	buf__free(&picture.frames);
	buf__free(&picture.text);
	return err;
}

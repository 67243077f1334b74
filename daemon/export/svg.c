/* SPDX-License-Identifier: MIT */
/* A flame graph as one SVG file, the outermost frame on top, as py-spy draws it. Without its script it is
 * still a picture; with it, a click zooms and the box searches. Widths are CPU time (in wall mode, wall
 * time); idle time is left out as in collapsed stacks.
 *
 *     model -> stack_sums (by thread, stack) -> branches (a tree, equal stacks joined) -> rectangles
 *
 *     <g><title>run_pass
 *     numba/core/compiler_machinery.py:285
 *     1.234 s, 15.54 %</title><rect x="12.0000" y="95" width="186.4800" height="16" fill="hsl(205,65%,70%)"/>
 *     <text x="15.0000" y="107">run_pass</text></g>
 *
 * Names come from the target: everything that is text goes through svg__put_xml(). */
#include "export/svg.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/safe_text.h"
#include "base/stream.h"
#include "export/formats.h"
#include "export/stack_sums.h"

/* With more frames than this browsers become slow, sooner in a page that has other content. The narrowest are left
 * out. */
#define FRAMES_MAX 20000u
#define FRAMES_MAX_INLINE 6000u

/* A node of the picture: a frame of a stack, or above stacks a process or a thread, where these are shown. */
struct branch {
	uint32_t parent, what; /* what: a frame, or one of the two below */
};
#define IS_THREAD 0x80000000u
#define IS_PROCESS 0x40000000u
#define BRANCH_ROOT 0u

struct svg {
	struct model model;
	struct sums threads, sums;
	struct intern branches; /* struct branch; a parent's id is below its children's */
	struct buf ns;		/* uint64_t for each branch, including its descendants */
	uint64_t least;		/* narrower branches are left out */
	uint32_t depth, top; /* top: px above the outermost frame */
	struct buf text, path;
};

static int branch_id(struct svg *svg, uint32_t parent, uint32_t what, uint32_t *ret)
{
	const struct branch branch = {parent, what};

	return intern__id(&svg->branches, &branch, sizeof(branch), ret) ?: buf__at(&svg->ns, sizeof(uint64_t), *ret) ? 0 : -ENOMEM;
}

static struct branch branch_of(const struct svg *svg, uint32_t id)
{
	return ITEM(svg->branches.keys, const struct branch, id);
}

static uint64_t *ns_of(struct svg *svg, uint32_t id)
{
	return (uint64_t *)svg->ns.data + id;
}

static int add_stack(struct svg *svg, const struct stack_key *key, uint64_t ns)
{
	const struct model *model = &svg->model;
	const struct model_thread *thread = model__thread(model, key->thread);
	uint32_t at = BRANCH_ROOT;
	int err = 0;

	if (model__processes_shown(model) > 1)
		err = branch_id(svg, at, IS_PROCESS | thread->process, &at);
	if (model->options->thread_names)
		err = err ?: branch_id(svg, at, IS_THREAD | thread->id, &at);
	err = err ?: model__path(model, key->stack, &svg->path);
	err = err ?: limits__walk(2 * svg->path.len / sizeof(uint32_t)); /* to the root, and from there */
	for (size_t depth = svg->path.len / sizeof(uint32_t); depth-- && !err;)
		err = branch_id(svg, at, ITEM(svg->path, uint32_t, depth), &at);
	if (!err)
		*ns_of(svg, at) += ns;
	return err;
}

/* Builds all branches, then adds each one's time to its parent: ids go up from parent to child, so one pass
 * backwards does. */
static int grow(struct svg *svg)
{
	uint32_t i, root;
	int err = branch_id(svg, UINT32_MAX, UINT32_MAX, &root);

	for (i = 0; i < sums__n(&svg->sums) && !err; i++) {
		struct stack_key key = stack_sums__key(&svg->sums, i);

		err = add_stack(svg, &key, sums__times(&svg->sums, i)->wall);
	}
	for (i = svg->branches.n; !err && --i > BRANCH_ROOT;)
		*ns_of(svg, branch_of(svg, i).parent) += *ns_of(svg, i);
	return err;
}

/* Finds the least width that leaves few enough frames, from a quarter of a pixel up. */
static void prune(struct svg *svg, uint32_t max)
{
	uint32_t i, n;

	svg->least = *ns_of(svg, BRANCH_ROOT) / (4 * SVG_WIDTH) + 1;
	/* A quarter more in each round: some tens of rounds, until few enough are left. It ends, as at last
	 * only the root is as wide as that. */
	for (;; svg->least += svg->least / 4 + 1) {
		for (i = 0, n = 0; i < svg->branches.n; i++)
			n += *ns_of(svg, i) >= svg->least;
		if (n <= max)
			return;
	}
}

/* --- text --- */

int svg__put_xml(struct buf *out, const char *text)
{
	int err = 0;

	/* XML 1.0, section 2.2: no control characters but tab and line ends, and not U+FFFE and U+FFFF, not
	 * even escaped. */
	for (; *text && !err; text++) {
		if (*text == '&')
			err = buf__puts(out, "&amp;");
		else if (*text == '<')
			err = buf__puts(out, "&lt;");
		else if (*text == '>')
			err = buf__puts(out, "&gt;");
		else if (*text == '"')
			err = buf__puts(out, "&quot;");
		else if ((unsigned char)*text < ' ')
			err = buf__puts(out, " ");
		else if (!strncmp(text, "\xef\xbf\xbe", 3) || !strncmp(text, "\xef\xbf\xbf", 3))
			err = buf__puts(out, "?"), text += 2; /* U+FFFE, U+FFFF */
		else
			err = buf__append(out, text, 1);
	}
	return err;
}

int svg__put_label(struct buf *out, const char *name, double width)
{
	/* Letters that fit, with 3 px at each side. */
	int room = (int)((width - 6) / SVG_CHAR), letters = 0;
	const char *at, *cut = name;
	char label[4 * SVG_WIDTH / 6 + 8];

	for (at = name; *at; at++) {
		letters += ((unsigned char)*at & 0xc0) != 0x80;
		if (letters <= room - 1)
			cut = at + 1;
	}
	if (room < 3)
		return 0;
	if (letters <= room)
		return svg__put_xml(out, name);
	while (utf8__continues(*cut)) /* to the end of a UTF-8 character */
		cut++;
	snprintf(label, sizeof(label), "%.*s", (int)(cut - name), name);
	return svg__put_xml(out, label) ?: buf__puts(out, "\xe2\x80\xa6");
}

/* Hue by kind, lightness by a hash of the name (FNV-1a): equal names have equal colours in all pictures. */
static void colour_of(uint8_t kind, const char *name, char *out, size_t size)
{
	static const struct {
		unsigned hue, saturation;
	} colours[] = {
		[FUNCTION_PYTHON] = {205, 65}, [FUNCTION_NATIVE] = {28, 80},
		[FUNCTION_KERNEL] = {350, 60}, [FUNCTION_NOTE] = {0, 0},
		[FUNCTION_JIT] = {130, 45},    [FUNCTION_INTERPRETER] = {50, 70},
		[FUNCTION_CALL] = {175, 55},
	};
	uint32_t hash = 0x811c9dc5;

	kind = kind < sizeof(colours) / sizeof(colours[0]) ? kind : FUNCTION_NATIVE;
	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x01000193;
	snprintf(out, size, "hsl(%u,%u%%,%u%%)", colours[kind].hue, colours[kind].saturation, 64 + (hash >> 16) % 18);
}

static void time_words(uint64_t ns, char *out, size_t size)
{
	if (ns >= 1000000000)
		snprintf(out, size, "%.3f s", (double)ns / 1e9);
	else
		snprintf(out, size, "%.3f ms", (double)ns / 1e6);
}

/* --- frames --- */

/* A truncated text may end within a UTF-8 character: remove its bytes. */
static void end_at_letter(char *text, size_t size)
{
	size_t len = strlen(text);

	if (len < size - 1)
		return;
	while (len && utf8__continues(text[len - 1]))
		text[--len] = '\0';
	if (len && (unsigned char)text[len - 1] >= 0xc0)
		text[len - 1] = '\0';
}

/* The name of a branch, and its "file:line". Returns the kind, for the colour. */
static uint8_t describe(const struct svg *svg, uint32_t what, char name[512], char location[1024])
{
	const struct model *model = &svg->model;
	struct model_frame frame;

	*location = '\0';
	if (what & IS_THREAD) {
		const struct model_thread *thread = model__thread(model, what & ~IS_THREAD);

		snprintf(name, 512, "%s (%d)", thread->name, thread->tid);
		return FUNCTION_NOTE;
	}
	if (what & IS_PROCESS) {
		const struct model_process *process = model__process(model, what & ~IS_PROCESS);

		snprintf(name, 512, "%s (%d)", process->name, process->pid);
		return FUNCTION_NOTE;
	}
	frame = model__frame(model, what);
	snprintf(name, 512, "%s", frame.name);
	if (*frame.file && frame.line)
		snprintf(location, 1024, "%s:%u", frame.file, frame.line);
	else
		snprintf(location, 1024, "%s", frame.file);
	end_at_letter(name, 512);
	end_at_letter(location, 1024);
	return frame.kind;
}

int svg__put_frame(struct buf *out, double x, double width, unsigned y, const char *colour, const char *name)
{
	int err = buf__printf(out,
			      "</title><rect x=\"%.4f\" y=\"%u\" width=\"%.4f\" height=\"%u\" fill=\"%s\"/>"
			      "<text x=\"%.4f\" y=\"%u\">",
			      x, y, width, SVG_ROW - 1, colour, x + 3, y + 12);

	return err ?: svg__put_label(out, name, width) ?: buf__puts(out, "</text></g>\n");
}

static int put_rect(void *of, uint32_t id, double x, double width, uint32_t depth)
{
	struct svg *svg = of;
	const uint64_t ns = *ns_of(svg, id), all = *ns_of(svg, BRANCH_ROOT);
	struct buf *out = &svg->text;
	char name[512] = "all", location[1024] = "", duration[32], colour[32];
	uint8_t kind = FUNCTION_NOTE;
	int err;

	if (id != BRANCH_ROOT)
		kind = describe(svg, branch_of(svg, id).what, name, location);
	time_words(ns, duration, sizeof(duration));
	colour_of(kind, name, colour, sizeof(colour));
	err = buf__puts(out, "<g><title>") ?: svg__put_xml(out, name);
	if (*location)
		err = err ?: buf__puts(out, "\n") ?: svg__put_xml(out, location);
	err = err ?: buf__printf(out, "\n%s, %.2f %%", duration, all ? 100.0 * (double)ns / (double)all : 0);
	return err ?: svg__put_frame(out, x, width, svg->top + depth * SVG_ROW, colour, name);
}

struct spot {
	double x; /* where the next child begins */
	uint32_t depth;
	bool shown;
};

int svg__layout(const struct svg_tree *tree, void *of, uint32_t *ret_depth)
{
	_cleanup_free_ struct spot *spots = calloc(tree->branches->n, sizeof(*spots));
	const double all = tree->width(of, 0);
	int err;

	*ret_depth = 0;
	if (!spots)
		return -ENOMEM;
	if (all <= 0)
		return 0;
	spots[0].shown = true;
	err = tree->put(of, 0, 0, SVG_WIDTH, 0);
	for (uint32_t i = 1; i < tree->branches->n && !err; i++) {
		size_t len;
		struct spot *parent = &spots[*(const uint32_t *)intern__key(tree->branches, i, &len)];
		double width = tree->width(of, i) / all * SVG_WIDTH;

		/* Its descendants are narrower than it, so they are not shown either. */
		if (!parent->shown)
			continue;
		/* A child that is not shown still takes its width, so that the others stay where they belong. */
		spots[i] = (struct spot){parent->x, parent->depth + 1, tree->width(of, i) >= tree->least};
		parent->x += width;
		if (!spots[i].shown)
			continue;
		*ret_depth = spots[i].depth > *ret_depth ? spots[i].depth : *ret_depth;
		err = tree->put(of, i, spots[i].x, width, spots[i].depth);
	}
	return err;
}

static double width_of(void *of, uint32_t id)
{
	return (double)*ns_of(of, id);
}

static int put_frames(struct svg *svg)
{
	const struct svg_tree tree = {&svg->branches, (double)svg->least, width_of, put_rect};

	return svg__layout(&tree, svg, &svg->depth);
}

/* The line below the title: what the picture shows, and what is left out. */
static int put_words(const struct svg *svg, struct buf *out)
{
	const struct model *model = &svg->model;
	uint64_t all = *(const uint64_t *)svg->ns.data;
	struct export_report sums = {};
	char duration[32], quiet[32];
	int err;

	time_words(all, duration, sizeof(duration));
	model__report(model, &sums);
	time_words(sums.quiet_wall, quiet, sizeof(quiet));
	err = buf__printf(out, "%s of %s time%s; frames below %.3f %% are left out", duration,
			   model->wall_mode ? "wall" : "CPU",
			   model->filter || model->options->thread || model->options->process || model->options->from || model->options->to
				   ? ", filtered"
				   : "",
			   all ? 100.0 * (double)svg->least / (double)all : 0);
	if (sums.quiet_threads && !model->options->thread_names)
		err = err ?: buf__printf(out, ", and %u thread%s that hardly ran (%s)", sums.quiet_threads, sums.quiet_threads == 1 ? "" : "s",
					 quiet);
	return err;
}

static unsigned height_of(const struct svg *svg) { return svg->top + (svg->depth + 2) * SVG_ROW; }

int svg__put_begin(struct buf *out, unsigned height, const char *title)
{
	int err = buf__printf(out,
			      "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"flame\" width=\"%u\" height=\"%u\" "
			      "viewBox=\"0 0 %u %u\" data-width=\"%u\" data-letter=\"%.1f\">\n<style>%s</style>\n"
			      "<text id=\"title\" x=\"4\" y=\"18\">",
			      SVG_WIDTH, height, SVG_WIDTH, height, SVG_WIDTH, SVG_CHAR, svg_style.text);

	return err ?: svg__put_label(out, title, 84 * SVG_CHAR); /* the search box is beside it */
}

int svg__put_tools(struct buf *out)
{
	return buf__puts(out, "</text>\n<text id=\"found\" x=\"4\" y=\"53\"></text>\n<text id=\"status\" x=\"4\" y=\"70\"></text>\n"
			      "<text id=\"reset\" x=\"1110\" y=\"50\" style=\"display:none\">reset zoom</text>\n"
			      "<foreignObject x=\"944\" y=\"4\" width=\"252\" height=\"26\">"
			      "<input xmlns=\"http://www.w3.org/1999/xhtml\" id=\"search\" placeholder=\"search (/), Esc resets\"/>"
			      "</foreignObject>\n<g id=\"frames\">\n");
}

int svg__put_end(struct buf *out)
{
	int err = buf__puts(out, "</g>\n<script><![CDATA[\n");

	return err ?: buf__puts(out, svg_script.text) ?: buf__puts(out, "]]></script>\n</svg>\n");
}

static int put_head(const struct svg *svg, struct buf *out)
{
	const struct model *model = &svg->model;
	int err = buf__puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");

	err = err ?: svg__put_begin(out, height_of(svg), model->command);
	err = err ?: buf__printf(out, " (%d)</text>\n<text x=\"4\" y=\"36\">", model->pid);
	err = err ?: put_words(svg, out);
	return err ?: svg__put_tools(out);
}

static int write_out(const struct buf *text, FILE *out)
{
	return stream__write(out, text->data, text->len);
}

/* The frames first: the head needs the height. */
static int write_file(struct svg *svg, FILE *out)
{
	_cleanup_(buf__free) struct buf head = {};
	int err = put_frames(svg) ?: svg__put_end(&svg->text);

	return err ?: put_head(svg, &head) ?: write_out(&head, out) ?: write_out(&svg->text, out);
}

/* For the HTML report, whose head already has the style, the script and the search box. */
static int write_element(struct svg *svg, FILE *out)
{
	_cleanup_(buf__free) struct buf head = {};
	int err = put_frames(svg) ?: buf__puts(&svg->text, "</g>\n</svg>\n");

	err = err ?: buf__puts(&head, "<p class=\"note\">") ?: put_words(svg, &head);
	err = err ?: buf__printf(&head,
				 ".</p>\n<svg id=\"flame\" width=\"100%%\" height=\"%u\" viewBox=\"0 0 %u %u\" "
				 "data-width=\"%u\" data-letter=\"%.1f\">\n<g id=\"frames\">\n",
				 height_of(svg), SVG_WIDTH, height_of(svg), SVG_WIDTH, SVG_CHAR);
	return err ?: write_out(&head, out) ?: write_out(&svg->text, out);
}

/* `top` 0: the element of a page. */
static int draw(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret,
		uint32_t top, int (*write)(struct svg *svg, FILE *out))
{
	struct svg *svg = calloc(1, sizeof(*svg));
	int err;

	if (!svg)
		return -ENOMEM;
	svg->top = top;
	err = model__init_detailed(&svg->model, options);
	svg->model.slice = stack_sums__slice;
	svg->model.ctx = &svg->threads;
	svg->model.with_units = options->units;
	err = err ?: model__read(&svg->model, recording_fd, &ret->missing);
	err = err ?: stack_sums__join(&svg->threads, &svg->model, &svg->sums) ?: grow(svg);
	if (!err) {
		prune(svg, top ? FRAMES_MAX : FRAMES_MAX_INLINE);
		err = write(svg, out);
	}
	model__report(&svg->model, ret);
	model__free(&svg->model);
	sums__free(&svg->threads);
	sums__free(&svg->sums);
	intern__free(&svg->branches);
	buf__free(&svg->ns);
	buf__free(&svg->text);
	buf__free(&svg->path);
	free(svg);
	return err;
}

int export__svg(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret)
{
	return draw(recording_fd, options, out, ret, SVG_TOP, write_file);
}

int svg__inline(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret)
{
	return draw(recording_fd, options, out, ret, 0, write_element);
}

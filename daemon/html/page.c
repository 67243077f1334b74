/* SPDX-License-Identifier: MIT */
/* Writes the page: its head, its sections in order, and the data for the scripts.
 *
 *     <head>     Content-Security-Policy, style sheets
 *     <header>   about.c
 *     <nav>      links to the sections
 *     <main>     time line (drawn by time_line.js), tables (tables.c), sources (source.c), flame graph (export/svg.c)
 *     <script type="application/json" id="data">     the JSON
 *     <script>   tables.js, time_line.js, svg.js
 *
 * Nothing is loaded from elsewhere: the file works from a disk, in a mail, behind a firewall. */

#include "base/cleanup.h"
#include "base/stream.h"
#include "export/formats.h"
#include "html/html.h"

struct page {
	/* the recording, seekable; borrowed */
	int fd;
	const struct export_options *options;
	struct export_report *report;
	FILE *out;
	struct buf text; /* not written to `out` yet */
};

/* Before the flame graph, which writes to the stream itself, and at the end. */
static int flush(struct page *page)
{
	int err = page->text.failed ? -ENOMEM : stream__write(page->out, page->text.data, page->text.len);

	buf__clear(&page->text);
	return err;
}

static void put_script(struct buf *out, const struct asset *script)
{
	buf__printf(out, "<script>%s</script>\n", script->text);
}

/* default-src 'none': no network, no images, no frames. Scripts and styles are allowed by their hashes alone, so an
 * injected <script> or style attribute would not run. This is why widths are attributes of SVG elements and not
 * styles. */
void html__policy(struct buf *out)
{
	buf__printf(out, "default-src 'none'; base-uri 'none'; form-action 'none'; style-src '%s' '%s'; script-src '%s' '%s' '%s'", svg_style.hash,
		    html_style.hash, html_tables.hash, html_time_line.hash, svg_script.hash);
}

static void put_head(struct buf *out, const json_t *report)
{
	buf__puts(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
	buf__puts(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"");
	html__policy(out);
	buf__puts(out, "\">\n");
	buf__puts(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		       "<meta name=\"color-scheme\" content=\"light dark\">\n"
		       "<meta name=\"generator\" content=\"cprofd@" CPROFD_VERSION "\">\n<title>");
	html__text(out, get__text(json_array_get(json_object_get(report, "recordings"), 0), "command"));
	buf__printf(out, " - cprofd</title>\n<style>%s</style>\n<style>%s</style>\n</head>\n<body>\n", svg_style.text,
		    html_style.text);
}

/* A section for the time line, which its script draws. Everything else can be read without JavaScript. */
static void put_time_line(struct buf *out, const json_t *report)
{
	const json_t *line = json_object_get(report, "timeline");

	if (!json_array_size(json_object_get(line, "names")))
		return;
	buf__puts(out, "<section id=\"time-line\">\n<h2>Time line</h2>\n"
		       "<noscript><p class=\"note\">The time line needs JavaScript; the tables below do not.</p></noscript>\n");
	if (get__number(line, "below_ns")) {
		buf__puts(out, "<p class=\"note\">What took less than ");
		html__duration(out, get__number(line, "below_ns"));
		buf__puts(out, " is left out here: there were ");
		html__count(out, get__number(line, "spans"));
		buf__puts(out, " compiles, phases and passes.</p>\n");
	}
	buf__puts(out, "</section>\n");
}

static int put_flame_graph(struct page *page)
{
	struct buf *out = &page->text;

	buf__puts(out, "<section id=\"flame-graph\">\n<h2>Flame graph</h2>\n"
		       "<p class=\"tools\"><input id=\"search\" type=\"search\" placeholder=\"search (/), Esc resets\" aria-label=\"search in the flame graph\"> "
		       "<button id=\"reset\" type=\"button\">reset zoom</button> <span id=\"found\" role=\"status\"></span></p>\n"
		       "<p class=\"legend\"><span><b class=\"swatch f-python\"></b>Python</span> <span><b class=\"swatch f-native\"></b>native</span> "
		       "<span><b class=\"swatch f-call\"></b>builtin</span> <span><b class=\"swatch f-jit\"></b>JIT</span> "
		       "<span><b class=\"swatch f-interpreter\"></b>interpreter</span> <span><b class=\"swatch f-kernel\"></b>kernel</span></p>\n");
	if (lseek(page->fd, 0, SEEK_SET) < 0)
		return -errno;
	/* The export reads the recording again, in its own order. */
	return flush(page) ?: svg__inline(page->fd, page->options, page->out, page->report) ?: buf__puts(out, "</section>\n");
}

/* A callback for json_dump_callback(). jansson calls it with pieces of the text, cut anywhere; html__data()
 * looks at single bytes, so that does not matter. */
static int put_data(const char *text, size_t len, void *out)
{
	html__data(out, text, len);
	return ((struct buf *)out)->failed ? -1 : 0;
}

static int put_page(struct page *page, const json_t *report)
{
	struct buf *out = &page->text;
	int err;

	put_head(out, report);
	buf__puts(out, "<header>\n");
	about__put(out, report);
	buf__puts(out, "</header>\n<nav aria-label=\"sections\">\n");
	if (json_array_size(json_object_get(json_object_get(report, "timeline"), "names")))
		buf__puts(out, "<a href=\"#time-line\">Time line</a>\n");
	tables__links(out, report);
	source__link(out, report);
	buf__puts(out, "<a href=\"#flame-graph\">Flame graph</a>\n</nav>\n<main>\n");
	put_time_line(out, report);
	err = flush(page);
	if (err)
		return err;
	tables__put(out, report);
	source__put(out, report);
	err = put_flame_graph(page);
	buf__puts(out, "</main>\n<footer><p class=\"note\">Made by cprofd " CPROFD_VERSION
		       ". How things are counted: <code>cprofd help report</code>. The data of this page are in it as JSON, "
		       "in the element <code>#data</code>.</p></footer>\n<script type=\"application/json\" id=\"data\">");
	/* Also after an error: the caller throws the file away. */
	if (json_dump_callback(report, put_data, out, HTML_JSON))
		err = err ?: -ENOMEM;
	buf__puts(out, "</script>\n");
	put_script(out, &html_tables);
	put_script(out, &html_time_line);
	put_script(out, &svg_script);
	buf__puts(out, "</body>\n</html>\n");
	return err ?: flush(page);
}

/* The recording is read several times, so input from a pipe is copied to a file first. */
static int copy_pipe(int recording_fd, FILE **ret)
{
	char bytes[65536];
	ssize_t n;

	/* Without a name, and gone when it is closed. */
	*ret = tmpfile();
	if (!*ret)
		return -errno;
	while ((n = read(recording_fd, bytes, sizeof(bytes))) > 0)
		if (fwrite(bytes, 1, (size_t)n, *ret) != (size_t)n)
			return -errno;
	return n < 0 || fflush(*ret) ? -errno : 0;
}

int export__html(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret)
{
	struct page page = {.fd = recording_fd, .options = options, .report = ret, .out = out};
	_cleanup_fclose_ FILE *copy = NULL;
	json_t *data = NULL;
	int err = 0;

	if (lseek(recording_fd, 0, SEEK_CUR) < 0) {
		err = copy_pipe(recording_fd, &copy);
		page.fd = copy ? fileno(copy) : -1;
	}
	err = err ?: data__make(page.fd, options, ret, &data) ?: put_page(&page, data);
	json_decref(data);
	buf__free(&page.text);
	return err;
}

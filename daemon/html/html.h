/* SPDX-License-Identifier: MIT */
/* The HTML report: one file that a browser opens without a network. It is made from the report's JSON
 * (docs/report.md) with the key "timeline" added. Tables are written as HTML, so that they can be read without
 * JavaScript; the JSON is embedded in the page, for its scripts and for other programs.
 *
 * Text from the target (names, paths, command lines) may be hostile. It enters the page only through html__text()
 * and html__data() (and their counterparts in the flame graph). As a second defence, the page's
 * Content-Security-Policy allows only its own scripts.
 *
 * Writers append to a buffer, whose `failed` says that memory ran out. Private to this directory, but for html__policy()
 * and html_style. Threading: none kept. Errors: -errno. */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "export/svg.h"
#include "export/export.h"

/* Limits of the page; the page says what they cut off. */
#define HTML_REPORT_MAX (4u << 20) /* bytes of the report's JSON */
#define HTML_ROWS_MAX 500u	    /* of a table */
#define HTML_TREE_MAX 2000u	    /* rows of the tree of compiles */
#define HTML_SOURCES_MAX 100u	    /* functions whose sources are listed */
#define HTML_SPANS_MAX 100000u	    /* compiles, phases and passes of the time line */

/* How JSON is written; shares have nine digits. */
#define HTML_JSON (JSON_COMPACT | JSON_REAL_PRECISION(9))

/* page.css, tables.js, time_line.js */
extern const struct asset html_style, html_tables, html_time_line;

/* The page's Content-Security-Policy. */
void html__policy(struct buf *out);

/* words.c: text and numbers for people. html__text() escapes for element content and quoted attributes; it is
 * the only way into the page for text that is not ours. */
void html__text(struct buf *out, const char *text);
/* JSON text, escaped for the inside of a <script>. */
void html__data(struct buf *out, const char *json, size_t len);
void html__duration(struct buf *out, uint64_t ns);       /* "55.5 ms" */
void html__percent(struct buf *out, double share);       /* "12.3 %" */
void html__count(struct buf *out, uint64_t count);       /* "7,931" */
/* A name on one line: what does not fit ends in an ellipsis, and a tooltip has all of it. `signature` NULL: none. */
void html__name(struct buf *out, const char *name, const char *signature);
/* The end of a path and the line, "numba/core/typed_passes.py:98"; the tooltip has the whole path. Nothing without a
 * file. */
void html__location(struct buf *out, const char *file, uint64_t line);

/* Members of a JSON object; "" and 0 if missing. The JSON is made by this program, so a missing member is a
 * bug here, not of the input; the page is written nevertheless. */
const char *get__text(const json_t *object, const char *key);
uint64_t get__number(const json_t *object, const char *key);
double get__share(const json_t *object, const char *key);

/* time_line.c: the value of "timeline" (docs/report.md). Reads the recording. Appends to *out. *ret: what
 * model__report() says. */
int time_line__json(int recording_fd, const struct export_options *options, struct buf *out, struct export_report *ret);

/* data.c: the data of the page. The recording must be seekable; it is read several times. *ret is the
 * caller's; NULL after an error. */
int data__make(int recording_fd, const struct export_options *options, struct export_report *ret_report, json_t **ret);

/* about.c: the head of the page. */
void about__put(struct buf *out, const json_t *report);

/* tables.c: a section for each table that has rows, and the links to them. */
void tables__links(struct buf *out, const json_t *report);
void tables__put(struct buf *out, const json_t *report);
const json_t *tables__find(const json_t *report, const char *by); /* NULL: it is not there, or empty */
/* Cells. `which`: "exclusive" or "inclusive"; writes the time, and its share with a bar. `whole`: the share whose
 * bar fills the cell. */
void tables__time(struct buf *out, const json_t *row, const char *which, double whole);
void tables__elapsed(struct buf *out, const json_t *row);
void tables__calls(struct buf *out, const json_t *row);

/* source.c: the sources of the functions that were compiled, as a heat map, and the link to them; nothing without
 * "sources". */
void source__link(struct buf *out, const json_t *report);
void source__put(struct buf *out, const json_t *report);

/* tree.c: the rows of the tree of compiles. */
void tables__tree(struct buf *out, const json_t *table);

/* threads.c: classes of time. A stripe shows the parts `rows` of `total` ns, in the order of `order`. */
void tables__swatch(struct buf *out, const char *class_name);
void tables__stripe(struct buf *out, const json_t *order, const json_t *rows, uint64_t total);
void tables__threads(struct buf *out, const json_t *table, const json_t *classes);

/* SPDX-License-Identifier: MIT */
/* The HTML report: one file that a browser opens by itself, without a network. It is made of the report's JSON
 * (docs/report.md) with the key "timeline" added: the tables are written out of it, so that they can be read without
 * JavaScript, and it is in the page as a whole, for the scripts and for other programs.
 *
 * What comes from the target (names, paths, command lines) is hostile. It goes into the page through html__text() and
 * html__data() alone (and the flame graph's like of them); besides, the page's policy lets no script run but its own.
 *
 * Writers append to a buffer, whose `failed` tells of want of memory. Private to this folder.
 * Threading: none kept. Errors: -errno. */
#ifndef CPROFD_HTML_H
#define CPROFD_HTML_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "export/asset.h"
#include "export/export.h"

/* Bounds of the page, which says what they cut. */
#define HTML_REPORT_MAX (4u << 20) /* bytes of the report's JSON */
#define HTML_ROWS_MAX 500u	    /* of a table */
#define HTML_TREE_MAX 2000u	    /* rows of the tree of compiles */
#define HTML_SPANS_MAX 100000u	    /* compiles, phases and passes of the time line */

/* How the data are written; shares have nine digits. */
#define HTML_JSON (JSON_COMPACT | JSON_REAL_PRECISION(9))

extern const struct asset html_style, html_tables, html_time_line;

/* words.c: words and numbers for people. */
void html__text(struct buf *out, const char *text);
/* JSON text for the inside of a <script>. */
void html__data(struct buf *out, const char *json, size_t len);
void html__duration(struct buf *out, uint64_t ns);       /* "55.5 ms" */
void html__percent(struct buf *out, double share);       /* "12.3 %" */
void html__count(struct buf *out, uint64_t count);       /* "7,931" */
/* "numba/core/typed_passes.py:98", the whole path for who points at it. Nothing when there is no file. */
/* One line: what does not fit ends in an ellipsis, and a tooltip has the whole. `signature`: NULL: it has none. */
void html__name(struct buf *out, const char *name, const char *signature);
void html__place(struct buf *out, const char *file, uint64_t line);

/* Of a JSON object; "" and 0 where there is none. */
const char *get__text(const json_t *object, const char *key);
uint64_t get__number(const json_t *object, const char *key);
double get__share(const json_t *object, const char *key);

/* time_line.c: the value of "timeline" (docs/report.md), of a recording that is read for it. */
int time_line__json(int recording_fd, const struct export_options *options, struct buf *out, struct export_report *ret);

/* data.c: the page's data. The recording can seek, and is read twice. */
int data__make(int recording_fd, const struct export_options *options, struct export_report *ret_report, json_t **ret);

/* about.c: what was recorded, and what was lost. */
void about__put(struct buf *out, const json_t *report);

/* tables.c: a section for each table that has something to tell, and the links to them. */
void tables__links(struct buf *out, const json_t *report);
void tables__put(struct buf *out, const json_t *report);
const json_t *tables__find(const json_t *report, const char *by); /* NULL: it is not there, or empty */
/* Cells. `which`: "exclusive" or "inclusive", and its share; `whole`: the share that has a bar as long as the cell. */
void tables__time(struct buf *out, const json_t *row, const char *which, double whole);
void tables__elapsed(struct buf *out, const json_t *row);
void tables__calls(struct buf *out, const json_t *row);

/* tree.c: the rows of the tree of compiles. */
void tables__tree(struct buf *out, const json_t *table);

/* threads.c: classes of time. A stripe's parts are `rows`, in the order of `order`, of `total` ns. */
void tables__swatch(struct buf *out, const char *class_name);
void tables__stripe(struct buf *out, const json_t *order, const json_t *rows, uint64_t total);
void tables__threads(struct buf *out, const json_t *table, const json_t *classes);

#endif

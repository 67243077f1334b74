/* SPDX-License-Identifier: MIT */
/* Repeats: compiles of functions that were compiled before in the same process, as far as the recording goes
 * back. Says why, as far as it can be known, and what a cache would have saved.
 *
 *     f(int64)   first compile, no row
 *     f(float64) "new types"
 *     f(int64)   "same types", or "other object" if the function object is known to be another one
 *     f(int64)   "meanwhile", if it begins before the compile of the same in another thread has ended
 *
 * A function is the same by process, file, line, name and compiler; a signature is its text. What the
 * compiler itself compared is not known here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/internal.h"


#define REASON_NAME(id, name, words) name,
const char *const reason_names[REASON_COUNT] = {REPORT_REASONS(REASON_NAME)};
#define REASON_WORDS(id, name, words) words,
const char *const reason_words[REASON_COUNT] = {REPORT_REASONS(REASON_WORDS)};

/* What was compiled so far, in the recording that is being read. Three steps, each refining the one before by
 * its id. */
struct compiled_before {
	struct intern functions;  /* process, definition, compiler and name */
	struct intern signatures; /* function's id, signature */
	/* signature's id, and the number of the function object (unit_call.object) that was compiled for it */
	struct intern objects;
	struct buf lasts;	  /* struct last by signature */
};
struct last {
	uint64_t end; /* end of its last compile */
	bool failed, unknown; /* failed: that one failed; unknown: the object of some compile is unknown */
};

/* "<string>", "<lambda>": code that has no file, so its name and line identify nothing. */
static bool is_generated(const char *file)
{
	return *file == '<';
}

/* Texts are separated by their NULs, so that no two lists of texts give the same key. */
static int key_of(struct buf *key, uint32_t number, const char *const *texts, size_t n)
{
	int err;

	buf__clear(key);
	err = buf__append(key, &number, sizeof(number));
	for (size_t i = 0; i < n && !err; i++)
		err = buf__append(key, texts[i], strlen(texts[i]) + 1);
	return err;
}

/* Was this signature compiled before for the same object? REASON_AGAIN if objects are unknown. */
static int judge_object(struct compiled_before *before, struct buf *key, uint32_t signature, uint32_t object, enum reason *ret)
{
	const uint32_t objects = before->objects.n;
	struct last *last = &ITEM(before->lasts, struct last, signature);
	uint32_t id;
	int err;

	*ret = REASON_AGAIN;
	/* `unknown` stays set: an object that is unknown may have been any, so "other object" can never be
	 * said again of this signature. */
	if (!object) {
		last->unknown = true;
		return 0;
	}
	buf__clear(key);
	err = buf__append(key, &signature, sizeof(signature)) ?: buf__append(key, &object, sizeof(object));
	err = err ?: intern__id(&before->objects, key->data, key->len, &id);
	if (!err && before->objects.n == objects)
		*ret = REASON_DISPATCHER;
	else if (!err && !last->unknown)
		*ret = REASON_OBJECT;
	return err;
}

/* Finds why something was compiled again; -ENOENT: it is the first compile. Compiles come in the order of their
 * begin but may overlap (threads). If an equal compile is still running when this one begins, no cache could have
 * had its result: that is MEANWHILE, not AGAIN. */
static int find_reason(struct compiled_before *before, const struct row_key *row, uint32_t process,
		       const struct compile *compile, uint32_t object, enum reason *ret)
{
	const uint32_t functions = before->functions.n, signatures = before->signatures.n;
	const char *const function[] = {row->name, row->file, row->module}, *const signature[] = {
										    row->detail};
	const struct last now = {compile->end, compile->failed, false};
	struct last *last;
	_cleanup_(buf__free) struct buf key = {};
	uint32_t id;
	enum reason by = REASON_AGAIN;
	int err = key_of(&key, process, function, 3) ?: buf__append(&key, &row->line, sizeof(row->line));

	err = err ?: intern__id(&before->functions, key.data, key.len, &id);
	err = err ?: key_of(&key, id, signature, 1) ?: intern__id(&before->signatures, key.data, key.len, &id);
	/* intern__id() hands out ids in order: this one is new. */
	if (!err && id == signatures)
		err = buf__append(&before->lasts, &now, sizeof(now));
	err = err ?: judge_object(before, &key, id, object, &by);
	if (err)
		return err;
	/* A new function, so this compile is its first. */
	if (before->functions.n > functions)
		return -ENOENT;
	last = &ITEM(before->lasts, struct last, id);
	if (!*row->file ||
	    is_generated(row->file)) /* other functions may have the same name and line */
		*ret = REASON_UNKNOWN;
	else if (id == signatures)
		*ret = REASON_TYPES;
	else
		*ret = compile->begin < last->end ? REASON_MEANWHILE : last->failed ? REASON_FAILED : by;
	/* The latest end of all compiles of this signature: they may overlap. */
	if (last->end < compile->end) {
		last->end = compile->end;
		last->failed = compile->failed;
	}
	return 0;
}

struct stage_times *repeats__stages(const struct report *report, uint32_t row, uint32_t file)
{
	return &ITEM(report->repeated, struct stage_times, (size_t)row * report->files + file);
}

const struct compiler *repeats__compiler(const struct report *report, const char *name)
{
	return report->options->rules ? rules__compiler_named(report->options->rules, name) : NULL;
}

static int add_row(struct report *report, const struct row_key *key, const struct compile *compile,
		   const struct times *inclusive, uint32_t *ret)
{
	struct table *table = &report->tables[REPORT_REPEAT];
	struct row_times *times;
	int err = table__row(table, key, ret)
			  ?: buf__lengthen(&report->repeated, (size_t)rows__n(&table->rows) * report->files * sizeof(struct stage_times));

	if (err)
		return err;
	times = table__times(table, *ret, report->read);
	times__count(times, 1, compile->begin);
	times__add(&times->exclusive, &compile->self);
	times__add(&times->inclusive, inclusive);
	for (uint32_t i = 0; i < RULES_STAGES_MAX; i++)
		times__add(&repeats__stages(report, *ret, report->read)->times[i],
			   &compile->stages[i]);
	return 0;
}

static int add_compile(struct report *report, struct compiled_before *before, uint32_t number,
		       uint32_t *rows, const struct times *inclusive)
{
	const struct compile *compile = &ITEM(report->each, struct compile, number - 1);
	const struct model_thread *thread = model__thread(report->model, compile->thread);
	struct unit_tree *tree = &report->model->units;
	struct unit_node node = unit_tree__node(tree, unit_tree__final(tree, compile->node));
	struct row_key key = units__key(&node);
	enum reason reason;
	int err;

	/* Functions without a name cannot be compared. */
	if (!*node.name || !thread->shown)
		return 0;
	err = find_reason(before, &key, thread->process, compile, unit_tree__call(tree, compile->call)->object, &reason);
	if (err)
		return err == -ENOENT ? 0 : err;
	key.kind = (uint8_t)reason;
	err = add_row(report, &key, compile, inclusive, &rows[number - 1]);
	/* add_row() has added the inclusive time, but an outer compile of the same row contains it: taken
	 * back. */
	if (!err && compiles__in_its_row(report, number, rows)) {
		struct times *sum = &table__times(&report->tables[REPORT_REPEAT], rows[number - 1],
						  report->read)
					     ->inclusive;

		sum->cpu -= inclusive->cpu;
		sum->wall -= inclusive->wall;
	}
	return err;
}

int repeats__add(struct report *report, const struct times *inclusive)
{
	uint32_t i, n = LENGTH(report->each, struct compile);
	struct compiled_before before = {};
	_cleanup_free_ uint32_t *rows = malloc((n + 1) * sizeof(*rows));
	int err = rows ? 0 : -ENOMEM;

	if (rows)
		memset(rows, 0xff, (n + 1) * sizeof(*rows)); /* ROW_NONE */
	for (i = 0; i < n && !err; i++)
		err = add_compile(report, &before, i + 1, rows, &inclusive[i]);
	intern__free(&before.functions);
	intern__free(&before.signatures);
	intern__free(&before.objects);
	buf__free(&before.lasts);
	return err;
}

/* SPDX-License-Identifier: MIT */
/* Collapsed stacks, as flamegraph.pl, gprof2dot, inferno and speedscope read them. One line for each distinct stack:
 *
 *   main (a.py:3);compile (b.py:7);LLVMPY_RunPass 51234
 *
 * The frames, outermost first, and a whole number: CPU time in microseconds, so that weights stay true where samples
 * were late or lost. Idle time is included only with -i, as in py-spy. A line's rounding error is carried to the
 * next line, so the sum stays exact.
 *
 * Each line repeats all names above it: an hour of deep native stacks would be half a gigabyte, that no reader opens. So
 * that the file fits, light stacks are folded into their callers, as for speedscope. */

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/stream.h"
#include "export/formats.h"
#include "export/speedscope.h"
#include "export/stack_sums.h"

/* The text of a frame; ';' and control characters, which would end the frame or the line, are replaced. */
static int put_words(struct buf *out, const char *words)
{
	size_t from = out->len, i;
	int err = buf__puts(out, words);

	for (i = from; i < out->len; i++) {
		char c = out->data[i];

		/* A blank in a name is harmless: readers take the number after the last one. */
		out->data[i] = c == ';' ? ':' : (unsigned char)c < ' ' ? ' ' : c;
	}
	return err;
}

/* As py-spy writes it: name (file:line). */
static int put_frame(struct buf *out, const struct model_frame *frame)
{
	int err = put_words(out, frame->name);

	if (!frame->file[0])
		return err;
	err = err ?: buf__puts(out, " (") ?: put_words(out, frame->file);
	if (frame->line)
		err = err ?: buf__printf(out, ":%u", frame->line);
	return err ?: buf__puts(out, ")");
}

/* Frames outside of the stack: the process if there are several, the thread with --threads. */
static int put_roots(struct buf *out, const struct model *model, const struct model_thread *thread)
{
	const struct model_process *process = model__process(model, thread->process);
	int err = 0;

	/* Only if it distinguishes anything: most recordings have one process. */
	if (model__processes_shown(model) > 1)
		err = put_words(out, process->name) ?: buf__printf(out, " (%d);", process->pid);
	if (model->options->thread_names)
		err = err ?: put_words(out, thread->name) ?: buf__printf(out, " (%d);", thread->tid);
	return err;
}

/* Text of frames that were already written: each is part of many stacks. */
struct frame_texts {
	struct buf text;
	struct buf ends; /* struct piece by frame id: its range in `text`; 0, 0: not made yet */
	struct buf path; /* scratch */
	uint64_t bytes;	 /* written so far, for limits__output() */
};

struct piece {
	size_t from, to;
};

static int text_of(struct frame_texts *words, const struct model *model, uint32_t id, struct piece *ret)
{
	struct piece *piece = buf__at(&words->ends, sizeof(*piece), id);
	int err = piece ? 0 : -ENOMEM;

	/* With its ';', so that a stack is a row of copies. Never empty, so `to` is not 0 once it was made. */
	if (piece && !piece->to) {
		struct model_frame frame = model__frame(model, id);

		piece->from = words->text.len;
		err = put_frame(&words->text, &frame) ?: buf__puts(&words->text, ";");
		piece->to = words->text.len;
	}
	if (!err)
		*ret = *piece;
	return err;
}

/* The frames of a stack, outermost first. */
static int put_stack(struct buf *out, const struct model *model, uint32_t stack, struct frame_texts *words)
{
	struct buf *path = &words->path;
	struct piece piece;
	int err = model__path(model, stack, path);
	size_t depth = path->len / sizeof(uint32_t);

	err = err ?: limits__walk(depth);
	while (depth-- && !err) {
		err = text_of(words, model, ITEM(*path, uint32_t, depth), &piece);
		/* Each line repeats all names: a small recording of deep stacks could fill a disk. */
		err = err ?: limits__output(words->bytes + out->len);
		err = err ?: buf__append(out, words->text.data + piece.from, piece.to - piece.from);
	}
	if (!err && path->len)
		out->data[out->len - 1] = ' '; /* in place of the last ';' */
	return err;
}

/* Of each node, the bytes of its line's frames. */
static int measure(const struct model *model, struct frame_texts *words, uint64_t *ret_length)
{
	struct piece piece;
	int err = 0;

	for (uint32_t i = MODEL_ROOT + 1; i < model->nodes.n && !err; i++) {
		struct model_node node = model__node(model, i);

		err = text_of(words, model, node.frame, &piece);
		ret_length[i] = err ? 0 : ret_length[node.parent] + piece.to - piece.from;
	}
	return err;
}

/* The sums of folded stacks, and the bytes of their lines. */
static int fold_all(const struct model *model, const struct sums *all, const uint32_t *fold, const uint64_t *length, struct sums *ret, uint64_t *ret_bytes)
{
	_cleanup_(buf__free) struct buf roots = {};
	int err = 0;

	sums__free(ret);
	*ret_bytes = 0;
	for (uint32_t i = 0; i < sums__n(all) && !err; i++) {
		struct stack_key key = stack_sums__key(all, i);

		key.stack = fold[key.stack];
		err = sums__add(ret, &key, sizeof(key), sums__times(all, i));
	}
	for (uint32_t i = 0; i < sums__n(ret) && !err; i++) {
		struct stack_key key = stack_sums__key(ret, i);

		buf__clear(&roots);
		err = put_roots(&roots, model, model__thread(model, key.thread));
		*ret_bytes += roots.len + length[key.stack] + 12; /* 12: the weight, and the end of the line */
	}
	return err;
}

/* From one sample up, doubling, until the lines fit. */
static int fit(const struct model *model, const struct sums *all, struct frame_texts *words, struct sums *ret, uint64_t *ret_below)
{
	uint64_t max = model->options->max_bytes ?: COLLAPSED_BYTES_MAX, bytes;
	uint32_t nodes = model->nodes.n;
	_cleanup_free_ uint64_t *length = calloc(nodes, sizeof(*length)), *subtree_ns = calloc(nodes, sizeof(*subtree_ns));
	_cleanup_free_ uint32_t *fold = calloc(nodes, sizeof(*fold));
	int err = length && subtree_ns && fold ? measure(model, words, length) : -ENOMEM;

	for (uint32_t i = 0; i < sums__n(all) && !err; i++)
		subtree_ns[stack_sums__key(all, i).stack] += sums__times(all, i)->wall;
	if (!err)
		merge__add_up(model, subtree_ns);
	for (*ret_below = 0; !err; *ret_below = *ret_below * 2 ?: model->period) {
		merge__fold(model, subtree_ns, *ret_below, fold);
		err = fold_all(model, all, fold, length, ret, &bytes);
		if (bytes <= max || *ret_below > subtree_ns[MODEL_ROOT])
			break;
	}
	return err;
}

static int write_lines(const struct model *model, const struct sums *all, FILE *out, uint64_t *ret_below)
{
	uint64_t before = 0, total = 0, us;
	_cleanup_(sums__free) struct sums sums = {};
	struct frame_texts words = {};
	struct buf text = {};
	int err = fit(model, all, &words, &sums, ret_below);

	for (uint32_t i = 0; i < sums__n(&sums) && !err; i++, before = total) {
		struct stack_key key = stack_sums__key(&sums, i);

		/* `wall` of a slice is its length: for a stack with CPU time, that CPU time. */
		total += sums__times(&sums, i)->wall;
		/* Differences of rounded sums: they add up to the rounded total, and each is off by less than
		 * 1 us. */
		us = total / 1000 - before / 1000;
		if (!us)
			continue;
		buf__clear(&text);
		err = put_roots(&text, model, model__thread(model, key.thread));
		err = err ?: put_stack(&text, model, key.stack, &words);
		err = err ?: buf__printf(&text, "%llu\n", (unsigned long long)us);
		err = err ?: stream__write(out, text.data, text.len);
		words.bytes += text.len;
	}
	buf__free(&text);
	buf__free(&words.text);
	buf__free(&words.ends);
	buf__free(&words.path);
	return err;
}

int export__collapsed(int recording_fd, const struct export_options *options, FILE *out,
		      struct export_report *ret)
{
	struct model model;
	_cleanup_(sums__free) struct sums threads = {}, lines = {};
	uint64_t below = 0;
	int err = model__init(&model, options);

	model.slice = stack_sums__slice;
	model.ctx = &threads;
	model.with_units = options->units;
	err = err ?: model__read(&model, recording_fd, &ret->missing);
	err = err ?: stack_sums__join(&threads, &model, &lines) ?: write_lines(&model, &lines, out, &below);
	model__report(&model, ret);
	ret->folded_below = below;
	model__free(&model);
	return err;
}

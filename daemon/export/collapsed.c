/* Collapsed stacks, as flamegraph.pl, gprof2dot, inferno and speedscope read them:
 * one line for each distinct stack, frames joined by ';' outermost first, a
 * space, and a whole number. The number is CPU time in microseconds, so that
 * weights stay true where samples were late or lost; idle time is in it with
 * -i only, as in py-spy. What rounding takes from one line it gives to another. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/formats.h"
#include "export/model.h"

struct sums {
	struct intern keys; /* struct sum_key */
	struct buf ns;	    /* uint64_t for each */
};

struct sum_key {
	uint32_t thread, stack;
};

static int add_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ns)
{
	struct sums *sums = model->ctx;
	const struct sum_key key = {thread->id, stack};
	const uint64_t none = 0;
	uint32_t id;
	int err;

	if (!model->options->idle && (stack == model->idle || stack == model->not_recorded))
		return 0;
	err = intern__id(&sums->keys, &key, sizeof(key), &id);
	if (!err && id * sizeof(none) == sums->ns.len)
		err = buf__append(&sums->ns, &none, sizeof(none));
	if (!err)
		((uint64_t *)sums->ns.data)[id] += ns;
	return err;
}

/* One frame's words: what would end the frame or the line is replaced. */
static int put_words(struct buf *out, const char *words)
{
	int err = 0;

	for (; *words && !err; words++) {
		char c = *words == ';' ? ':' : (unsigned char)*words < ' ' ? ' ' : *words;

		err = buf__append(out, &c, 1);
	}
	return err;
}

/* py-spy's form: name (file:line). */
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

static int put_roots(struct buf *out, const struct model *model, const struct model_thread *thread)
{
	const struct model_process *process = model__process(model, thread->process);
	int err = 0;

	if (model__processes_shown(model) > 1)
		err = put_words(out, process->name) ?: buf__printf(out, " (%d);", process->pid);
	if (model->options->thread_names)
		err = err ?: put_words(out, thread->name) ?: buf__printf(out, " (%d);", thread->tid);
	return err;
}

/* Outermost first; `path` is scratch. */
static int put_stack(struct buf *out, const struct model *model, uint32_t stack, struct buf *path)
{
	size_t depth;
	int err = 0;

	buf__clear(path);
	while (stack != MODEL_ROOT && !err) {
		struct model_node node = model__node(model, stack);

		err = buf__append(path, &node.frame, sizeof(node.frame));
		stack = node.parent;
	}
	for (depth = path->len / sizeof(uint32_t); depth-- && !err;) {
		struct model_frame frame = model__frame(model, ((uint32_t *)path->data)[depth]);

		err = put_frame(out, &frame) ?: buf__puts(out, depth ? ";" : " ");
	}
	return err;
}

/* Without -t, threads and images of a process that have a stack in common make
 * one line: the lines of equal text are found by their text. */
static int fold_lines(struct model *model, struct sums *sums, struct intern *lines, struct buf *ns)
{
	const uint64_t none = 0;
	struct buf text = {}, path = {};
	uint32_t i, id;
	int err = 0;

	for (i = 0; i < sums->keys.n && !err; i++) {
		struct sum_key key = ((struct sum_key *)sums->keys.keys.data)[i];
		struct model_thread *thread = model__thread(model, key.thread);

		if (!thread->shown)
			continue;
		buf__clear(&text);
		err = put_roots(&text, model, thread) ?: put_stack(&text, model, key.stack, &path);
		err = err ?: intern__id(lines, text.data, text.len, &id);
		if (!err && id * sizeof(none) == ns->len)
			err = buf__append(ns, &none, sizeof(none));
		if (!err)
			((uint64_t *)ns->data)[id] += ((uint64_t *)sums->ns.data)[i];
	}
	buf__free(&text);
	buf__free(&path);
	return err;
}

static int write_lines(const struct intern *lines, const struct buf *ns, FILE *out)
{
	uint64_t before = 0, total = 0, us;
	uint32_t i;

	for (i = 0; i < lines->n; i++) {
		size_t len;
		const char *text = intern__key(lines, i, &len);

		total += ((const uint64_t *)ns->data)[i];
		us = total / 1000 - before / 1000;
		before = total;
		if (us && (fwrite(text, 1, len, out) != len ||
			   fprintf(out, "%llu\n", (unsigned long long)us) < 0))
			return errno ? -errno : -EIO;
	}
	return 0;
}

int export__collapsed(int recording_fd, const struct export_options *options, FILE *out,
		      struct export_report *ret)
{
	struct model model;
	struct sums sums = {};
	struct intern lines = {};
	struct buf ns = {};
	int err = model__init(&model, options);

	model.slice = add_slice;
	model.ctx = &sums;
	err = err ?: model__read(&model, recording_fd);
	err = err ?: fold_lines(&model, &sums, &lines, &ns) ?: write_lines(&lines, &ns, out);
	model__report(&model, ret);
	intern__free(&lines);
	intern__free(&sums.keys);
	buf__free(&sums.ns);
	buf__free(&ns);
	model__free(&model);
	return err;
}

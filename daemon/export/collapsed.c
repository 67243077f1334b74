/* Collapsed stacks, as flamegraph.pl, gprof2dot, inferno and speedscope read them:
 * one line for each distinct stack, frames joined by ';' outermost first, a
 * space, and a whole number. The number is CPU time in microseconds, so that
 * weights stay true where samples were late or lost; idle time is in it with
 * -i only, as in py-spy. What rounding takes from one line it gives to another. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/formats.h"
#include "export/model.h"

struct sums {
	struct intern keys; /* struct sum_key */
	struct buf ns;	    /* uint64_t for each */
};

struct sum_key {
	uint32_t thread, stack;
};

static int add_ns(struct sums *sums, uint32_t thread, uint32_t stack, uint64_t ns)
{
	const struct sum_key key = {thread, stack};
	const uint64_t none = 0;
	uint32_t id;
	int err = intern__id(&sums->keys, &key, sizeof(key), &id);

	if (!err && id * sizeof(none) == sums->ns.len)
		err = buf__append(&sums->ns, &none, sizeof(none));
	if (!err)
		((uint64_t *)sums->ns.data)[id] += ns;
	return err;
}

static int add_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ns)
{
	if (!model->options->idle && (stack == model->idle || stack == model->not_recorded))
		return 0;
	return add_ns(model->ctx, thread->id, stack, ns);
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

/* Without -t, threads of a process that have a stack in common make one line. */
static int join_threads(const struct model *model, const struct sums *sums, struct sums *ret)
{
	const struct sum_key *key = (const struct sum_key *)sums->keys.keys.data;
	const uint64_t *ns = (const uint64_t *)sums->ns.data;
	_cleanup_free_ uint32_t *first = NULL; /* thread of each process that stands for it */
	uint32_t i;
	int err = 0;

	first = calloc(model->process_keys.n + 1, sizeof(*first));
	if (!first)
		return -ENOMEM;
	for (i = model__threads(model); i--;)
		first[model__thread(model, i)->process] = i;
	for (i = 0; i < sums->keys.n && !err; i++) {
		const struct model_thread *thread = model__thread(model, key[i].thread);
		uint32_t line = model->options->thread_names ? thread->id : first[thread->process];

		if (thread->shown)
			err = add_ns(ret, line, key[i].stack, ns[i]);
	}
	return err;
}

static int write_lines(const struct model *model, const struct sums *sums, FILE *out)
{
	const struct sum_key *key = (const struct sum_key *)sums->keys.keys.data;
	uint64_t before = 0, total = 0, us;
	struct buf text = {}, path = {};
	uint32_t i;
	int err = 0;

	for (i = 0; i < sums->keys.n && !err; i++, before = total) {
		total += ((const uint64_t *)sums->ns.data)[i];
		us = total / 1000 - before / 1000;
		if (!us)
			continue;
		buf__clear(&text);
		err = put_roots(&text, model, model__thread(model, key[i].thread));
		err = err ?: put_stack(&text, model, key[i].stack, &path);
		err = err ?: buf__printf(&text, "%llu\n", (unsigned long long)us);
		if (!err && fwrite(text.data, 1, text.len, out) != text.len)
			err = errno ? -errno : -EIO;
	}
	buf__free(&text);
	buf__free(&path);
	return err;
}

int export__collapsed(int recording_fd, const struct export_options *options, FILE *out,
		      struct export_report *ret)
{
	struct model model;
	struct sums threads = {}, lines = {};
	int err = model__init(&model, options);

	model.slice = add_slice;
	model.ctx = &threads;
	err = err ?: model__read(&model, recording_fd);
	err = err ?: join_threads(&model, &threads, &lines) ?: write_lines(&model, &lines, out);
	model__report(&model, ret);
	intern__free(&threads.keys);
	intern__free(&lines.keys);
	buf__free(&threads.ns);
	buf__free(&lines.ns);
	model__free(&model);
	return err;
}

/* SPDX-License-Identifier: MIT */
/* speedscope's file format (https://www.speedscope.app/file-format-schema.json): one `sampled` profile per
 * thread, one of all threads, and `evented` profiles of compiles.
 *
 *     {"$schema":..., "activeProfileIndex":0, "cprofd":{...},
 *      "shared":{"frames":[{"name":"main","file":"svd.py","line":3},...]},
 *      "profiles":[
 *      {"type":"sampled","name":"python3 (4242)","unit":"nanoseconds","startValue":0,"endValue":8120000000,
 *       "samples":[[0,4,7],[0,4],...],"weights":[1001000,2003000,...]},
 *      {"type":"evented",...,"events":[{"type":"O","frame":12,"at":1000},{"type":"C","frame":12,"at":9000},...]}]}
 *
 * Samples are arrays of frame numbers, outermost first. The files of this exporter: speedscope_fit.c chooses
 * what fits, speedscope_head.c writes what comes before the profiles, speedscope_units.c the evented ones. */

#include "base/array.h"
#include "base/cleanup.h"
#include "base/stream.h"
#include "events/json.h"
#include "export/formats.h"
#include "export/speedscope.h"

/* State of writing. The two arrays of a profile are two runs over the same slices, with another visitor each. */
struct writer {
	struct merge_visitor visitor;
	struct speedscope *file;
	struct buf text;
	uint32_t *path;	     /* scratch: frames of a stack, innermost first */
	uint32_t path_max;
	/* before the next item: "" or "," */
	const char *separator;
	/* the first error: merge visitors cannot return one */
	int err;
};

int speedscope__flush(const struct speedscope *file, struct buf *text, size_t least)
{
	int err = text->len < least ? 0 : stream__write(file->out, text->data, text->len);

	if (text->len >= least)
		buf__clear(text);
	return err;
}

static void flush_text(struct writer *writer, size_t least)
{
	writer->err = writer->err ?: speedscope__flush(writer->file, &writer->text, least);
}

static void put(struct writer *writer, int err)
{
	if (!writer->err)
		writer->err = err;
}

static void write_stack(struct merge_visitor *self, uint32_t stack, uint64_t ns)
{
	struct writer *writer = (struct writer *)self;
	uint32_t depth = 0;

	for (; stack != MODEL_ROOT && !writer->err; depth++) {
		struct model_node node = model__node(writer->file->model, stack);

		if (ARRAY_RESERVE(writer->path, depth, writer->path_max)) {
			writer->err = -ENOMEM;
			return;
		}
		writer->path[depth] = writer->file->number[node.frame];
		stack = node.parent;
	}
	put(writer, buf__puts(&writer->text, writer->separator));
	put(writer, buf__puts(&writer->text, "["));
	while (depth--) {
		put(writer, json__u64(&writer->text, writer->path[depth]));
		put(writer, buf__puts(&writer->text, depth ? "," : ""));
	}
	put(writer, buf__puts(&writer->text, "]"));
	writer->separator = ",";
	flush_text(writer, SPEEDSCOPE_TEXT);
}

static void write_weight(struct merge_visitor *self, uint32_t stack, uint64_t ns)
{
	struct writer *writer = (struct writer *)self;

	put(writer, buf__puts(&writer->text, writer->separator));
	put(writer, json__u64(&writer->text, ns));
	writer->separator = ",";
	flush_text(writer, SPEEDSCOPE_TEXT);
}

/* One of the two arrays of a profile. `before` and `after`: ns in which the thread did not exist; they get an empty
 * stack. */
static void write_array(struct writer *writer, const char *key, struct model_thread *const *threads,
			uint32_t n, uint64_t bin, uint64_t before, uint64_t after)
{
	put(writer, buf__printf(&writer->text, "\"%s\":[", key));
	writer->separator = "";
	if (before)
		writer->visitor.slice(&writer->visitor, MODEL_ROOT, before);
	put(writer, merge__run(writer->file->merge, threads, n, bin, &writer->visitor));
	if (after)
		writer->visitor.slice(&writer->visitor, MODEL_ROOT, after);
	put(writer, buf__puts(&writer->text, "]"));
}

static uint64_t slices_ns(const struct model_thread *thread)
{
	struct slices_cursor cursor = SLICES(&thread->slices);
	struct slice slice;
	uint64_t ns = 0;

	while (slices__next(&cursor, &slice))
		ns += slice.ns;
	return ns;
}

/* All profiles of a file have the same start and end, so that speedscope shows them on the same axis. */
static void write_profile(struct writer *writer, const char *name,
			  struct model_thread *const *threads, uint32_t n, uint64_t bin,
			  uint64_t before, uint64_t ns, uint64_t after)
{
	uint64_t end = before + ns + after;

	put(writer, buf__puts(&writer->text, "{\"type\":\"sampled\",\"name\":"));
	put(writer, json__string(&writer->text, name));
	put(writer, buf__printf(&writer->text,
				",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":%llu,\n",
				(unsigned long long)end));
	writer->visitor.slice = write_stack;
	write_array(writer, "samples", threads, n, bin, before, after);
	put(writer, buf__puts(&writer->text, ",\n"));
	writer->visitor.slice = write_weight;
	write_array(writer, "weights", threads, n, bin, before, after);
	put(writer, buf__puts(&writer->text, "}"));
	flush_text(writer, 0);
}

static int thread_title(const struct speedscope *file, const struct model_thread *thread, const char *before,
			struct buf *ret)
{
	const struct model_process *process = model__process(file->model, thread->process);
	int err;

	buf__clear(ret);
	err = buf__puts(ret, before);
	if (model__processes_shown(file->model) > 1)
		err = err ?: buf__printf(ret, "%s (%d) ", process->name, process->pid);
	err = err ?: buf__printf(ret, "%s (%d)", thread->name, thread->tid);
	return err ?: buf__append(ret, "", 1);
}

/* An evented profile of the thread's compiles, if it has any. */
static void write_units(struct writer *writer, uint32_t index, struct buf *title)
{
	if (!speedscope__has_spans(writer->file, index))
		return;
	put(writer, buf__puts(&writer->text, ",\n{\"type\":\"evented\",\"name\":"));
	put(writer, thread_title(writer->file, writer->file->threads[index], "compile units: ", title));
	put(writer, json__string(&writer->text, title->data));
	put(writer, buf__printf(&writer->text, ",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":%llu,\n\"events\":[",
				(unsigned long long)writer->file->to));
	put(writer, speedscope__put_spans(writer->file, index, &writer->text));
	put(writer, buf__puts(&writer->text, "]}"));
	flush_text(writer, 0);
}

static int write_profiles(struct speedscope *file)
{
	struct writer writer = {.file = file, .separator = ""};
	struct model_thread **ran;
	struct buf title = {};
	uint64_t all = 0;
	uint32_t i, n = 0;

	ran = calloc(file->n, sizeof(struct model_thread *));
	if (!ran)
		return -ENOMEM;
	for (i = 0; i < file->n; i++)
		if (!file->threads[i]->quiet) {
			all += slices_ns(file->threads[i]);
			ran[n++] = file->threads[i];
		}
	if (file->n > 1 && n) {
		write_profile(&writer, n == file->n ? "all threads" : "all threads that ran", ran, n, speedscope_bin_all(file->bin), 0, all,
			      0);
		put(&writer, buf__puts(&writer.text, ",\n"));
	}
	free(ran);
	for (i = 0; i < file->n; i++) {
		struct model_thread *thread = file->threads[i];
		uint64_t ns = slices_ns(thread), begin = model__begin(file->model, thread);

		put(&writer, thread_title(file, thread, "", &title));
		if (!writer.err)
			write_profile(&writer, title.data, &thread, 1, file->bin, begin, ns,
				      file->to - begin - ns);
		put(&writer, buf__puts(&writer.text, i + 1 < file->n ? ",\n" : ""));
	}
	for (i = 0; i < file->n; i++)
		write_units(&writer, i, &title);
	put(&writer, buf__puts(&writer.text, "\n]}\n"));
	flush_text(&writer, 0);
	buf__free(&writer.text);
	buf__free(&title);
	free(writer.path);
	return writer.err;
}

static int write_file(struct speedscope *file)
{
	return stream__write(file->out, file->head.data, file->head.len) ?: write_profiles(file);
}

/* All profiles end at the same time, that of the last one. */
static int set_end(struct speedscope *file)
{
	file->to = model__to(file->model) - model__from(file->model);
	for (uint32_t i = 0; i < file->n; i++) {
		uint64_t end = model__begin(file->model, file->threads[i]) + slices_ns(file->threads[i]);

		/* The slices of a thread may reach beyond the end of the session by the resolution of clocks. */
		file->to = end > file->to ? end : file->to;
	}
	return 0;
}

static int allocate(struct speedscope *file)
{
	file->fold = calloc(file->model->nodes.n, sizeof(uint32_t));
	file->cost = calloc(file->model->nodes.n, sizeof(uint64_t));
	file->number = calloc(file->model->frames.n, sizeof(uint32_t));
	file->frames = calloc(file->model->frames.n, sizeof(uint32_t));
	if (!file->fold || !file->cost || !file->number || !file->frames)
		return -ENOMEM;
	return merge__new(file->model, file->fold, &file->merge);
}

int export__speedscope(int recording_fd, const struct export_options *options, FILE *out,
		       struct export_report *ret)
{
	struct model model;
	struct speedscope file = {.model = &model, .options = options, .out = out};
	int err = model__init(&model, options);

	/* Spans need every call, with its begin and end. */
	model.with_units = model.units.keep = true;
	err = err ?: model__read(&model, recording_fd, &ret->missing);
	err = err ?: model__order(&model, &file.threads, &file.n);
	err = err ?: set_end(&file) ?: speedscope__units(&file) ?: allocate(&file);
	err = err ?: merge__subtree_ns(&model, file.threads, file.n, &file.subtree_ns);
	err = err ?: speedscope__fit(&file) ?: write_file(&file);
	model__report(&model, ret);
	ret->bin = file.bin;
	ret->folded_below = file.below;
	merge__free(file.merge);
	free(file.threads);
	free(file.subtree_ns);
	free(file.fold);
	free(file.cost);
	free(file.number);
	free(file.frames);
	buf__free(&file.head);
	unit_spans__free(&file.spans);
	unit_frames__free(&file.unit_frames);
	model__free(&model);
	return err;
}

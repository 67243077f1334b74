/* SPDX-License-Identifier: MIT */
/* Makes the file fit its size limit. A speedscope sample is an array of frame numbers, so each sample of a deep
 * stack costs hundreds of bytes. The size is computed before anything is written, for bins of several lengths, and
 * the shortest bin that fits is taken. If even the longest is too much, light stacks are folded into their callers. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/speedscope.h"

/* 0: no bins, only neighbours. The last one keeps a time line that is worth looking at: an hour has 360 bins
 * of 10 s. */
static const uint64_t bins[] = {0,	  5 * MS,   10 * MS, 20 * MS, 50 * MS, 100 * MS,
				200 * MS, 500 * MS, S,	     2 * S,   5 * S,   10 * S};
#define BIN_LAST (sizeof(bins) / sizeof(bins[0]) - 1)

/* Length of a number as text. */
static unsigned digits(uint64_t n)
{
	unsigned count = 1;

	while (n >= 10) {
		n /= 10;
		count++;
	}
	return count;
}

/* --- frame numbers: the most used frames get the shortest --- */

static int compare_use(const void *left, const void *right, void *arg)
{
	const uint64_t *use = arg;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	if (use[a] != use[b])
		return use[a] > use[b] ? -1 : 1;
	return a < b ? -1 : a > b;
}

/* Counts how often each frame will be written, numbers frames by that, and computes the cost of each stack. */
static int number_frames(struct speedscope *file)
{
	uint32_t nodes = file->model->nodes.n, frames = file->model->frames.n, i;
	_cleanup_free_ uint64_t *use = calloc(frames, sizeof(*use));
	_cleanup_free_ uint64_t *slices = calloc(nodes, sizeof(*slices));
	struct unit_span span;

	if (!use || !slices)
		return -ENOMEM;
	for (i = 0; i < file->n; i++) {
		struct slices_cursor cursor = SLICES(&file->threads[i]->slices);
		struct slice slice;

		while (slices__next(&cursor, &slice))
			slices[file->fold[slice.stack]]++;
	}
	for (i = nodes - 1; i > MODEL_ROOT; i--) {
		struct model_node node = model__node(file->model, i);

		use[node.frame] += slices[i];
		/* Now the number of stacks that contain the node: each of them will write its frame. */
		slices[node.parent] += slices[i];
	}
	for (i = 0; unit_spans__from(&file->spans, i, &span); i = span.call + 1) /* each span is two events */
		use[speedscope__span_frame(file, &span)] += 2;
	file->frames_n = 0;
	for (i = 0; i < frames; i++)
		if (use[i])
			file->frames[file->frames_n++] = i;
	qsort_r(file->frames, file->frames_n, sizeof(uint32_t), compare_use, use);
	/* UINT32_MAX: not in the file. Such a frame is in no stack that is written. */
	memset(file->number, 0xff, frames * sizeof(uint32_t));
	for (i = 0; i < file->frames_n; i++)
		file->number[file->frames[i]] = i;
	file->cost[MODEL_ROOT] = 0;
	for (i = 1; i < nodes; i++) {
		struct model_node node = model__node(file->model, i);

		/* Digits and a comma for each frame of the stack. */
		file->cost[i] = file->cost[node.parent] + digits(file->number[node.frame]) + 1;
	}
	return 0;
}

/* --- how large the file would be --- */

/* A visitor that only counts bytes, by the cost of each stack. */
struct measure {
	struct merge_visitor visitor;
	const uint64_t *cost;
	uint64_t bytes;
};

static void measure_slice(struct merge_visitor *self, uint32_t stack, uint64_t ns)
{
	struct measure *measure = (struct measure *)self;

	/* The brackets around the frames; the weight and its comma. */
	measure->bytes += measure->cost[stack] + 2 + digits(ns) + 1;
}

static int measure_all(struct speedscope *file, uint64_t bin, uint64_t *ret)
{
	struct measure measure = {{measure_slice}, file->cost, 0};
	struct unit_span span;
	int err = 0;

	for (uint32_t i = 0; unit_spans__from(&file->spans, i, &span); i = span.call + 1)
		/* Two events; 34 bytes of each are not numbers. */
		measure.bytes += 2 * (34 + digits(file->number[speedscope__span_frame(file, &span)]) + digits(span.end));
	for (uint32_t i = 0; i < file->n && !err; i++) {
		const struct model_thread *thread = file->threads[i];

		err = merge__run(file->merge, &file->threads[i], 1, bin, &measure.visitor);
		/* 300: the JSON around the arrays; 6: a byte of a name may become \uXXXX. */
		measure.bytes += 300 + 6 * strlen(thread->name) +
				 6 * strlen(model__process(file->model, thread->process)->name);
	}
	if (file->n > 1 && !err)
		err = merge__run(file->merge, file->threads, file->n, speedscope_bin_all(bin),
				 &measure.visitor);
	*ret = measure.bytes + file->head.len + 500;
	return err;
}

/* A short bin that fits, by bisection. It is the shortest one if longer bins give smaller files, as they do but for a
 * few bytes where one is no multiple of the other (20 and 50 ms). What is taken was measured in any case. */
static int fit_bins(struct speedscope *file, uint64_t max, bool *ret_fits)
{
	/* The longest bin is tried first: if even that does not fit, no other is tried. */
	size_t low = 0, high = BIN_LAST, try = BIN_LAST;
	uint64_t bytes = 0;
	int err = number_frames(file);

	*ret_fits = false;
	while (!err) {
		file->bin = bins[try];
		err = speedscope__head(file) ?: measure_all(file, file->bin, &bytes);
		if (bytes <= max) {
			*ret_fits = true;
			high = try;
		} else if (!*ret_fits) {
			return err;
		} else {
			low = try + 1;
		}
		if (low == high)
			break;
		try = low + (high - low) / 2;
	}
	file->bin = bins[high];
	return err ? err : speedscope__head(file);
}

/* Chooses bin and fold; what cannot fit at all is written as small as possible. Folding starts before the order of
 * time is lost completely: bins stop at 10 s. */
int speedscope__fit(struct speedscope *file)
{
	uint64_t max = file->options->max_bytes ? file->options->max_bytes : EXPORT_BYTES_MAX;
	bool fits = false;
	int err = 0;

	while (!err && !fits) {
		merge__fold(file->model, file->subtree_ns, file->below, file->fold);
		err = fit_bins(file, max, &fits);
		if (fits || file->below > file->subtree_ns[MODEL_ROOT])
			break;
		/* From one sample up, doubling: some twenty rounds at most, each with some passes over the
		 * slices. */
		file->below = file->below ? file->below * 2 : file->model->period;
	}
	return err;
}

/* SPDX-License-Identifier: MIT */
/* Locals of the frames that rules select (PART_VALUES), of a thread that sleeps. The sampler copies them as it takes a
 * sample, but not before it was told which: that is after the first sample with such a frame. If that one is of a thread
 * that fell asleep, or slept when the session began, there is no other until it is awake: its compile may be over then,
 * and could not be told from the next one at its place. What it sleeps with does not change, so it is read here. */
#include "base/cleanup.h"
#include "cprofd/pywalk.h"
#include "cprofd/py/object.h"
#include "python/walk.h"
#include "serve/engine.h"
#include "target/process.h"

/* The objects that rules ask for. What cannot be read is left out: then its frame has no values. */
static int put_objects(struct host_reader *memory, const struct image *image, const uint64_t *objects, uint32_t n, struct buf *out, uint16_t *parts)
{
	struct host_reader *before = host_reader_current;
	struct part_object part = {};
	int err = 0, size;

	host_reader_current = memory;
	for (uint32_t i = 0; !err && i < n; i++) {
		size = py_object(image, objects[i], &part);
		err = size ? buf__append(out, &part, (size_t)size) : 0;
		*parts += !err && size;
	}
	host_reader_current = before;
	return err;
}

int values__put(struct session *session, struct python_walker *python, struct host_reader *memory, const struct image *image,
		const struct py_frame *frames, uint32_t n, uint64_t own, struct buf *out, uint16_t *parts)
{
	uint64_t objects[SAMPLE_OBJECTS_MAX];
	uint32_t n_objects = 0;
	struct part_values part = {.part = {.kind = PART_VALUES}, .flags = VALUES_ASLEEP, .own = own};
	size_t at = out->len;
	int err = buf__append(out, &part, sizeof(part));

	for (uint32_t i = 0; !err && i < n && part.n < VALUES_FRAMES_MAX; i++) {
		struct locals_capture capture;
		struct frame_values values;

		if (!session_units__capture(session, frames[i].code, &capture))
			continue;
		python_walker__locals(python, i, capture.slots, &values);
		err = buf__append(out, &values, FRAME_VALUES_HEAD + values.n * sizeof(*values.words));
		part.n++;
		for (uint32_t word = 0; word < values.n; word++)
			if (capture.copies >> word & 1 && n_objects < SAMPLE_OBJECTS_MAX)
				objects[n_objects++] = values.words[word] & ~7ull;
	}
	if (err || !part.n) {
		out->len = err ? out->len : at;
		return err;
	}
	part.part.size = (uint32_t)(out->len - at);
	memcpy(out->data + at, &part, sizeof(part));
	++*parts;
	return put_objects(memory, image, objects, n_objects, out, parts);
}

/* Is the stack the one of the sample? */
static bool is_same(const struct part_py_frames *python, const struct python_frames *walked)
{
	bool same = !walked->loss && python->n == walked->n;

	for (uint32_t i = 0; same && i < walked->n; i++)
		same = python->frames[i].code == walked->frames[i].code && python->frames[i].offset == walked->frames[i].offset;
	return same;
}

static int read_values(struct session *session, const struct tracee *tracee, struct memory_reader *memory, const struct sample *sample, struct buf *out)
{
	const struct record_sample *record = sample->record;
	const struct dump_thread thread = asleep__thread(&record->header.task, sample->wait->own);
	struct record_sample head = *record;
	struct python_walker *python;
	struct python_frames walked = {};
	int err = python_walker__new(&memory->reader, &tracee->image, &python);

	err = err ?: python_walker__walk(python, &thread, NULL, &walked);
	if (!err && !is_same(sample->python, &walked))
		err = -ESTALE;
	err = err ?: buf__append(out, record, record->header.size);
	err = err ?: values__put(session, python, &memory->reader, &tracee->image, walked.frames, walked.n, sample->wait->own, out, &head.parts);
	if (!err) {
		head.header.size = (uint32_t)out->len;
		memcpy(out->data, &head, sizeof(head));
	}
	free(walked.frames);
	python_walker__free(python);
	return err;
}

int values__of_sleeping(struct session *session, const struct tracee *tracee, const struct sample *sample, struct buf *out)
{
	struct memory_reader memory = memory_reader__of(tracee->mem);
	_cleanup_close_ int schedstat = proc__open_task(&sample->record->header.task, "schedstat");
	int err;

	if (schedstat < 0 || !asleep__slept(schedstat, sample->record))
		return -EAGAIN;
	err = read_values(session, tracee, &memory, sample, out);
	return err ?: asleep__slept(schedstat, sample->record) ? 0 : -EAGAIN;
}

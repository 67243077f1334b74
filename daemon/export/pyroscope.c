/* SPDX-License-Identifier: MIT */
/* A series has labels of its process, and one profile: what Pyroscope's own clients send.
 *
 *     series      __name__="process_cpu", service_name, hostname, container_id
 *       sample    an id, and a pprof profile, gzip'ed: times cpu and wall, labels class, compiler and phase
 *
 * Of labels the store makes series again, so those of a sample have few values, and a process number is none. A compile is a frame instead (options.units):
 * its name and its signature are searched and summed up as functions are. */
#include "export/pyroscope.h"

#include <errno.h>
#include <inttypes.h>

#include "export/pprof.h"
#include "export/protobuf.h"
#include "export/stack_sums.h"

enum { REQUEST_SERIES = 1 };
enum { SERIES_LABEL = 1, SERIES_SAMPLE };
enum { LABEL_NAME = 1, LABEL_VALUE };
enum { SAMPLE_PROFILE = 1, SAMPLE_ID };

static int add_label(struct buf *series, const char *name, const char *value)
{
	struct buf label = {};
	int err = protobuf__bytes(&label, LABEL_NAME, name, strlen(name)) ?: protobuf__bytes(&label, LABEL_VALUE, value, strlen(value));

	err = err ?: protobuf__bytes(series, SERIES_LABEL, label.data, label.len);
	buf__free(&label);
	return err;
}

static int add_labels(const struct batch *batch, uint32_t id, struct buf *series)
{
	const struct model_process *process = model__process(&batch->model, id);
	char service[256];
	int err;

	batch__service(batch, process, service, sizeof(service));
	err = add_label(series, "__name__", "process_cpu") ?: add_label(series, "service_name", service);
	err = err ?: batch->resource.host ? add_label(series, "hostname", batch->resource.host) : 0;
	return err ?: *process->container ? add_label(series, "container_id", process->container) : 0;
}

/* The samples of one process, summed up. */
static int add_sums(const struct batch *batch, const struct batch_process *process, struct sums *sums)
{
	int err = 0;

	for (uint32_t i = 0; i < process->n && !err; i++) {
		const struct stack_key *key = batch__key(batch, &process->series[i]);
		const struct observation *observation;
		struct times times = {};

		for (uint32_t at = process->series[i].first; at; at = observation->next) {
			observation = &ITEM(batch->observations, struct observation, at - 1);
			times.cpu += observation->cpu;
			times.wall += observation->wall;
		}
		err = key ? sums__add(sums, key, sizeof(*key), &times) : 0;
	}
	return err;
}

static int add_profile(struct batch *batch, const struct batch_process *process, const struct batch_span *span, struct buf *series)
{
	const struct pprof_about about = {.from = span->from, .to = span->to, .series = true};
	struct buf sample = {};
	struct sums sums = {};
	char *profile = NULL, uuid[37];
	size_t len = 0;
	uint64_t id[2];
	FILE *file = open_memstream(&profile, &len);
	int err = file ? add_sums(batch, process, &sums) : -ENOMEM;

	err = err ?: pprof__write(&batch->model, &sums, &about, file);
	if (file && fclose(file) && !err)
		err = -errno;
	batch__id(batch, process->id, 0, id);
	snprintf(uuid, sizeof(uuid), "%08" PRIx64 "-%04" PRIx64 "-8%03" PRIx64 "-8%03" PRIx64 "-%012" PRIx64, id[0] >> 32, id[0] >> 16 & 0xffff, id[0] & 0xfff,
		 id[1] >> 48 & 0xfff, id[1] & 0xffffffffffff);
	err = err ?: protobuf__bytes(&sample, SAMPLE_PROFILE, profile, len) ?: protobuf__bytes(&sample, SAMPLE_ID, uuid, strlen(uuid));
	err = err ?: protobuf__bytes(series, SERIES_SAMPLE, sample.data, sample.len);
	buf__free(&sample);
	sums__free(&sums);
	free(profile);
	return err;
}

int pyroscope__encode(struct batch *batch, struct buf *out)
{
	struct batch_span span = batch__span(batch);
	struct batch_process process = {};
	struct buf series = {};
	int err = 0;

	if (!batch__samples(batch))
		return 0;
	batch__order(batch);
	while (!err && batch__next(batch, &process)) {
		buf__clear(&series);
		err = add_labels(batch, process.id, &series) ?: add_profile(batch, &process, &span, &series);
		err = err ?: protobuf__bytes(out, REQUEST_SERIES, series.data, series.len);
	}
	err = err ?: out->len > INT32_MAX ? -EFBIG : 0;
	buf__free(&series);
	batch__clear(batch);
	return err;
}

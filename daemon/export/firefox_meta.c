/* SPDX-License-Identifier: MIT */
/* What is said of the whole file: how it was recorded, what was lost, the categories and their colours. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "events/json.h"
#include "export/firefox.h"

/* Firefox Profiler has a closed list of colours. A class that is not here is grey. */
static const struct {
	const char *class_name, *color;
} colors[] = {
	{"interpreter", "yellow"}, {"C call", "lightblue"}, {"compiler native", "orange"}, {"JIT code", "green"},
	{"JIT dispatch", "brown"}, {"import", "purple"},    {"kernel", "red"},		   {"GC", "magenta"},
	{"waiting", "transparent"}, {"ready", "lightred"},  {"without the GIL", "transparent"},
};

static const char *color_of(const char *class_name)
{
	for (size_t i = 0; i < sizeof(colors) / sizeof(colors[0]); i++)
		if (!strcmp(colors[i].class_name, class_name))
			return colors[i].color;
	return "darkgrey";
}

/* Time by frame and category: of stacks whose leaf it is, and of all that it is on. */
struct frame_times {
	uint64_t *self, *all;
	uint32_t n; /* categories */
};

/* A frame that is on a stack twice gets its time twice: it decides no more than a colour. */
static void add_place(const struct firefox *firefox, uint32_t place, uint64_t ns, struct frame_times *times)
{
	struct firefox_place key = firefox__place(firefox, place);
	struct model_node node;
	bool leaf = true;

	for (; key.stack != MODEL_ROOT; key.stack = node.parent, leaf = false) {
		node = model__node(&firefox->model, key.stack);
		times->all[(size_t)node.frame * times->n + key.category] += ns;
		if (leaf)
			times->self[(size_t)node.frame * times->n + key.category] += ns;
	}
}

static uint32_t heaviest(const uint64_t *times, uint32_t n)
{
	uint32_t category, best = FIREFOX_OTHER;

	/* A recording has some twenty classes; of more, the later ones colour no callers. */
	for (category = 0; category < n && category <= UINT8_MAX; category++)
		if (times[category] > times[best])
			best = category;
	return best;
}

/* A frame that was a leaf is as a caller what it mostly is itself: Firefox Profiler shows a function whose stacks differ
 * in category in grey. */
int firefox__categories(struct firefox *firefox)
{
	uint32_t frames = firefox->model.frames.n, i;
	struct frame_times times = {.n = firefox->model.classes.names.n + 1};
	_cleanup_free_ uint64_t *self = calloc((size_t)frames * times.n + 1, sizeof(uint64_t));
	_cleanup_free_ uint64_t *all = calloc((size_t)frames * times.n + 1, sizeof(uint64_t));
	_cleanup_free_ uint64_t *places = calloc(firefox->places.n + 1, sizeof(uint64_t));

	if (!self || !all || !places || buf__lengthen(&firefox->categories, frames))
		return -ENOMEM;
	times.self = self;
	times.all = all;
	for (i = 0; i < firefox->n; i++) {
		struct slices_cursor cursor = SLICES(firefox__rows(firefox, firefox->threads[i]));
		struct slice row;

		while (slices__next(&cursor, &row))
			places[row.stack] += row.ns;
	}
	for (i = 0; i < firefox->places.n; i++)
		add_place(firefox, i, places[i], &times);
	for (i = 0; i < frames; i++)
		ITEM(firefox->categories, uint8_t, i) = (uint8_t)(heaviest(self + (size_t)i * times.n, times.n)
								  ?: heaviest(all + (size_t)i * times.n, times.n));
	return 0;
}

static void put_categories(struct firefox *firefox)
{
	firefox__put(firefox, "\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]}");
	for (uint32_t i = 0; i < firefox->model.classes.names.n; i++) {
		const char *name = class_names__name(&firefox->model.classes, i);

		firefox__put(firefox, ",\n{\"name\":");
		firefox__string(firefox, name);
		firefox__put(firefox, ",\"color\":\"%s\",\"subcategories\":[\"Other\"]}", color_of(name));
	}
	firefox__put(firefox, "]");
}

/* The threads that are shown at first: all but quiet ones. */
static void put_visible(struct firefox *firefox)
{
	uint32_t i, n = 0;

	firefox__put(firefox, "\"initialVisibleThreads\":[");
	for (i = 0; i < firefox->n; i++)
		if (!firefox->threads[i]->quiet)
			firefox__item(firefox, n++, i);
	firefox__put(firefox, "]");
}

/* A section of "More info": what was lost, as that is a part of the truth. */
static void put_ledger(struct firefox *firefox)
{
	const struct model *model = &firefox->model;

	firefox__put(firefox, "\"extra\":[{\"label\":\"Recording\",\"entries\":[");
	firefox__put(firefox, "{\"label\":\"Samples\",\"format\":\"integer\",\"value\":%llu}", (unsigned long long)model->samples);
	firefox__put(firefox, ",{\"label\":\"Whole stacks\",\"format\":\"integer\",\"value\":%llu}", (unsigned long long)model->whole);
	if (model->native)
		firefox__put(firefox, ",{\"label\":\"Whole native stacks\",\"format\":\"integer\",\"value\":%llu}",
			     (unsigned long long)model->native_whole);
	for (uint32_t i = 0; i < model->loss_names.n; i++) {
		size_t len;

		firefox__put(firefox, ",{\"format\":\"integer\",\"value\":%llu,\"label\":",
			     (unsigned long long)ITEM(model->loss_counts, const uint64_t, i));
		firefox__string(firefox, intern__key(&model->loss_names, i, &len));
		firefox__put(firefox, "}");
	}
	firefox__put(firefox, "]}]");
}

void firefox__meta(struct firefox *firefox)
{
	const struct model *model = &firefox->model;
	uint64_t from = model__from(model);

	firefox__put(firefox, "{\"version\":24,\"preprocessedProfileVersion\":%d,\"product\":", FIREFOX_VERSION);
	firefox__string(firefox, model->command);
	firefox__put(firefox, ",\"importedFrom\":\"cprofd " CPROFD_VERSION "\",\"interval\":");
	firefox__ms(firefox, model->period);
	firefox__put(firefox, ",\"startTime\":");
	firefox__ms(firefox, model->realtime ? model->realtime + from : 0);
	firefox__put(firefox, ",\"profilingStartTime\":0,\"profilingEndTime\":");
	firefox__ms(firefox, model__to(model) - from);
	firefox__put(firefox, ",\n\"processType\":0,\"stackwalk\":1,\"platform\":\"Linux\",\"oscpu\":\"Linux x86_64\",");
	firefox__put(firefox, "\"symbolicated\":true,\"symbolicationNotSupported\":true,\"sourceCodeIsNotOnSearchfox\":true,");
	firefox__put(firefox, "\"usesOnlyOneStackType\":true,\"keepProfileThreadOrder\":true,\"extensions\":{\"id\":[],\"name\":[],");
	firefox__put(firefox, "\"baseURL\":[],\"length\":0},\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"},\n");
	put_visible(firefox);
	firefox__put(firefox, ",\n");
	put_categories(firefox);
	firefox__put(firefox, ",\n");
	firefox__schema(firefox);
	firefox__put(firefox, ",\n");
	put_ledger(firefox);
	firefox__put(firefox, ",\n\"cprofd\":{");
	firefox->err = firefox->err ?: about__members(&firefox->text, model);
	firefox__put(firefox, "}}");
}

/* SPDX-License-Identifier: MIT */
/* What exporters ask of a model that was read: the order of its threads for display, the window, the totals. */
#include <errno.h>
#include <stdlib.h>

#include "base/order.h"
#include "export/model.h"

struct model_process *model__process(const struct model *model, uint32_t process)
{
	return (struct model_process *)model->processes.data + process;
}

struct model_thread *model__thread(const struct model *model, uint32_t i)
{
	return ITEM(model->threads, struct model_thread *, i);
}

uint32_t model__threads(const struct model *model)
{
	return (uint32_t)(model->threads.len / sizeof(struct model_thread *));
}

uint32_t model__processes_shown(const struct model *model) { return model->processes_shown; }

uint64_t model__from(const struct model *model) { return model->options->from; }

/* Never before model__from(): a window that begins after the end is empty. */
uint64_t model__to(const struct model *model)
{
	uint64_t to = model->options->to;

	to = to && to < model->finish ? to : model->finish;
	return to > model->options->from ? to : model->options->from;
}

uint64_t model__begin(const struct model *model, const struct model_thread *thread)
{
	uint64_t from = model__from(model);

	return thread->begin > from ? thread->begin - from : 0;
}

/* The attached process first, of each process the main thread first, then by CPU time. */
static int compare(const void *left, const void *right, void *arg)
{
	const struct model_thread *a = *(struct model_thread *const *)left;
	const struct model_thread *b = *(struct model_thread *const *)right;
	const struct model *model = arg;
	const struct model_process *pa = model__process(model, a->process);
	const struct model_process *pb = model__process(model, b->process);

	if (a->process != b->process) {
		if ((pa->pid == model->pid) != (pb->pid == model->pid))
			return pa->pid == model->pid ? -1 : 1;
		return a->process < b->process ? -1 : 1;
	}
	if ((a->tid == pa->pid) != (b->tid == pb->pid))
		return a->tid == pa->pid ? -1 : 1;
	return ORDER(b->cpu, a->cpu) ?: ORDER(a->id, b->id);
}

int model__order(const struct model *model, struct model_thread ***ret, uint32_t *ret_n)
{
	uint32_t i, n = model__threads(model);
	struct model_thread **order = calloc(n + 1, sizeof(*order));

	if (!order)
		return -ENOMEM;
	*ret_n = 0;
	for (i = 0; i < n; i++)
		if (model__thread(model, i)->listed)
			order[(*ret_n)++] = model__thread(model, i);
	qsort_r(order, *ret_n, sizeof(*order), compare, (void *)model);
	*ret = order;
	return 0;
}

void model__report(const struct model *model, struct export_report *ret)
{
	/* All but `missing`, which model__read() may have filled in. */
	*ret = (struct export_report){.span = model->finish, .cut = model->cut, .no_waits = model->options->idle && !model->waits_asked, .missing = ret->missing};
	for (uint32_t i = 0; i < model__threads(model); i++) {
		const struct model_thread *thread = model__thread(model, i);

		if (!thread->shown)
			continue;
		ret->threads += !thread->counted;
		ret->samples += thread->samples;
		ret->wall += thread->wall;
		ret->cpu += thread->cpu;
		ret->quiet_threads += thread->quiet;
		ret->quiet_wall += thread->quiet ? thread->wall : 0;
	}
}

int model__path(const struct model *model, uint32_t stack, struct buf *path)
{
	int err = 0;

	buf__clear(path);
	while (stack != MODEL_ROOT && !err) {
		struct model_node node = model__node(model, stack);

		err = buf__append(path, &node.frame, sizeof(node.frame));
		stack = node.parent;
	}
	return err;
}

/* Frames and stacks: ids of the epoch -> ids of the model, in the projection
 * asked for. Two frames that would be shown alike are one. */
#include <errno.h>
#include <string.h>

#include "export/model.h"

#define LENGTH(buf, type) ((uint32_t)((buf).len / sizeof(type)))
#define ITEM(buf, type, i) (((type *)(buf).data)[i])

/* Key of a function or frame: line, then name and file with their NULs. */
static int frame_id(struct model *model, struct intern *intern, const char *name, const char *file,
		    uint32_t line, uint32_t *ret)
{
	struct buf *key = &model->scratch;

	buf__clear(key);
	if (buf__append(key, &line, sizeof(line)) || buf__append(key, name, strlen(name) + 1) ||
	    buf__append(key, file, strlen(file) + 1))
		return -ENOMEM;
	return intern__id(intern, key->data, key->len, ret);
}

static struct model_frame frame_of(const struct intern *intern, uint32_t id)
{
	struct model_frame frame = {};
	size_t len;
	const char *key = intern__key(intern, id, &len);

	memcpy(&frame.line, key, sizeof(frame.line));
	frame.name = key + sizeof(frame.line);
	frame.file = frame.name + strlen(frame.name) + 1;
	return frame;
}

struct model_frame model__frame(const struct model *model, uint32_t id)
{
	struct model_frame frame = frame_of(&model->frames, id);
	uint32_t column = ITEM(model->columns, uint32_t, id);

	frame.column = column == UINT32_MAX ? 0 : column;
	return frame;
}

/* One line may be met at several columns: then it has none to show. */
static int note_column(struct model *model, uint32_t frame, uint32_t column)
{
	uint32_t none = 0, *at;

	while (LENGTH(model->columns, uint32_t) <= frame)
		if (buf__append(&model->columns, &none, sizeof(none)))
			return -ENOMEM;
	at = &ITEM(model->columns, uint32_t, frame);
	if (!column || (*at && *at != column))
		*at = UINT32_MAX;
	else
		*at = column;
	return 0;
}

int projection__node(struct model *model, uint32_t parent, uint32_t frame, uint32_t *ret)
{
	const struct model_node node = {parent, frame};

	return intern__id(&model->nodes, &node, sizeof(node), ret);
}

struct model_node model__node(const struct model *model, uint32_t stack)
{
	return ITEM(model->nodes.keys, struct model_node, stack); /* all keys have this size */
}

int projection__note(struct model *model, const char *words, uint32_t *ret)
{
	uint32_t frame;
	int err = frame_id(model, &model->frames, words, "", 0, &frame);

	if (!err)
		err = note_column(model, frame, 0);
	return err ? err : projection__node(model, MODEL_ROOT, frame, ret);
}

int projection__functions(struct model *model, const struct event_rows *rows)
{
	const struct function_row *row = rows->rows;
	uint32_t i, id;
	int err = 0;

	for (i = 0; i < rows->n && !err; i++, row++) {
		const char *file = row->file[0] ? row->file : row->module;

		err = frame_id(model, &model->functions, row->name, file, row->line, &id);
		if (!err)
			err = buf__append(&model->epoch_functions, &id, sizeof(id));
	}
	return err;
}

int projection__frames(struct model *model, const struct event_rows *rows)
{
	const struct frame_row *row = rows->rows;
	bool lines = model->options->lines;
	uint32_t i, id;
	int err = 0;

	for (i = 0; i < rows->n && !err; i++, row++) {
		uint32_t function = ITEM(model->epoch_functions, uint32_t, row->function);
		struct model_frame shown = frame_of(&model->functions, function);

		if (lines && row->line)
			shown.line = row->line;
		err = frame_id(model, &model->frames, shown.name, shown.file, shown.line, &id);
		if (!err)
			err = note_column(model, id, lines ? row->column : 0);
		if (!err)
			err = buf__append(&model->epoch_frames, &id, sizeof(id));
	}
	return err;
}

int projection__stacks(struct model *model, const struct event_rows *rows)
{
	const struct stack_row *row = rows->rows;
	uint32_t i, id;
	int err = 0;

	for (i = 0; i < rows->n && !err; i++, row++) {
		err = projection__node(model, ITEM(model->epoch_stacks, uint32_t, row->parent),
			      ITEM(model->epoch_frames, uint32_t, row->frame), &id);
		if (!err)
			err = buf__append(&model->epoch_stacks, &id, sizeof(id));
	}
	return err;
}

/* SPDX-License-Identifier: MIT */
/* Ids of the epoch -> ids of the model, for frames and stacks, as functions or as lines. Frames that look the
 * same when shown are one frame.
 *
 *     epoch 1: function 7 = run_pass, numba/core/...:285        model: function 3
 *     epoch 2: function 2 = run_pass, numba/core/...:285        model: function 3
 *
 * Content decides, not ids. Keys are packed texts in interns (base/intern.h), whose ids are the model's ids. */
#include <errno.h>
#include <string.h>

#include "export/hlo.h"
#include "export/model.h"
#include "export/shown.h"


/* Are interpreter frames folded here? Readers that drop the tree after each epoch (model->epoch) do it themselves. */
static bool folds(const struct model *model)
{
	return model->options->fold_interpreter && !model->epoch;
}

/* Of a function, and of its frames. */
struct trait {
	uint8_t kind, visibility; /* enum function_kind, enum visibility */
};

/* What identifies a function, or a frame of a model that is not detailed. */
struct shown_function {
	uint32_t line;
	uint8_t kind;
	const char *name, *file, *module;
};

/* The head of such a key; name, file and module follow, each with its NUL. It has lengths, because strlen() over
 * 16,000 frames with names of 16,000 bytes would be slow. */
struct shown_head {
	uint32_t line, name, file; /* bytes of the strings, with their NUL */
	uint8_t kind;
} __attribute__((packed));

static int shown_id(struct model *model, struct intern *intern, const struct shown_function *shown_function, uint32_t *ret)
{
	const struct shown_head head = {shown_function->line, (uint32_t)strlen(shown_function->name) + 1, (uint32_t)strlen(shown_function->file) + 1, shown_function->kind};
	struct buf *key = &model->scratch;

	buf__clear(key);
	if (buf__append(key, &head, sizeof(head)) || buf__append(key, shown_function->name, head.name) ||
	    buf__append(key, shown_function->file, head.file) || buf__append(key, shown_function->module, strlen(shown_function->module) + 1))
		return -ENOMEM;
	return intern__id(intern, key->data, key->len, ret);
}

/* The reverse. The strings point into the key: valid until a function or frame is added. */
static struct shown_function shown_of(const struct intern *intern, uint32_t id)
{
	struct shown_head head;
	struct shown_function shown_function = {};
	size_t len;
	const char *key = intern__key(intern, id, &len);

	memcpy(&head, key, sizeof(head));
	shown_function.line = head.line;
	shown_function.kind = head.kind;
	shown_function.name = key + sizeof(head);
	shown_function.file = shown_function.name + head.name;
	shown_function.module = shown_function.file + head.file;
	return shown_function;
}

/* What identifies a frame of a detailed model: function id and current line. */
struct frame_key {
	uint32_t function, line;
};

/* Detailed: function and line. Otherwise the frame is a function whose line is the current one, so that two
 * functions of one name and line are one frame. */
static int frame_id(struct model *model, uint32_t function, uint32_t line, uint32_t *ret)
{
	const struct frame_key key = {function, line};
	struct shown_function shown_function;

	if (model->detailed)
		return intern__id(&model->frames, &key, sizeof(key), ret);
	shown_function = shown_of(&model->functions, function);
	shown_function.line = line ? line : shown_function.line;
	return shown_id(model, &model->frames, &shown_function, ret);
}

struct model_frame model__frame(const struct model *model, uint32_t id)
{
	uint32_t column = ITEM(model->columns, uint32_t, id);
	struct model_frame frame = {.column = column == UINT32_MAX ? 0 : column};
	struct frame_key key = {};
	struct shown_function shown_function;

	if (model->detailed) {
		/* Keys of one size lie in one array, in the order of ids. */
		key = ITEM(model->frames.keys, struct frame_key, id);
		shown_function = shown_of(&model->functions, key.function);
	} else {
		shown_function = shown_of(&model->frames, id);
	}
	frame.name = shown_function.name;
	frame.file = shown_function.file[0] ? shown_function.file : shown_function.module;
	frame.line = key.line ? key.line : shown_function.line;
	frame.function = key.function;
	frame.first_line = shown_function.line;
	frame.source = shown_function.file;
	frame.module = shown_function.module;
	frame.kind = shown_function.kind;
	return frame;
}

/* A line that is seen at several columns has no column to show (UINT32_MAX). */
static int note_column(struct model *model, uint32_t frame, uint32_t column)
{
	uint32_t *at = buf__at(&model->columns, sizeof(*at), frame);

	if (!at)
		return -ENOMEM;
	/* 0 is "none yet" in the array, so a frame without a column must be UINT32_MAX, too. */
	if (!column || (*at && *at != column))
		*at = UINT32_MAX;
	else
		*at = column;
	return 0;
}

int projection__node(struct model *model, uint32_t parent, uint32_t frame, uint32_t *ret)
{
	const struct model_node node = {parent, frame};

	/* Within one epoch nearly each pair of parent and frame comes once, so a tree that is dropped with it needs no
	 * index. */
	if (model->epoch) {
		*ret = model->nodes.n++;
		return buf__append(&model->nodes.keys, &node, sizeof(node));
	}
	return intern__id(&model->nodes, &node, sizeof(node), ret);
}

struct model_node model__node(const struct model *model, uint32_t stack)
{
	return ITEM(model->nodes.keys, struct model_node, stack); /* all keys have this size */
}

bool model__is_alone(const struct model *model, uint32_t stack)
{
	struct model_node node;

	if (stack == MODEL_ROOT || model__frame(model, model__node(model, stack).frame).kind != FUNCTION_INTERPRETER)
		return false;
	/* As long as the stack. Only stacks whose leaf is an interpreter frame get here. */
	for (; stack != MODEL_ROOT; stack = node.parent) {
		node = model__node(model, stack);
		if (model__frame(model, node.frame).kind == FUNCTION_PYTHON)
			return false;
	}
	return true;
}

int projection__note(struct model *model, const char *words, uint32_t *ret)
{
	uint32_t frame;
	int err = projection__label(model, words, "", 0, &frame);

	return err ? err : projection__node(model, MODEL_ROOT, frame, ret);
}

int projection__label(struct model *model, const char *name, const char *file, uint32_t line, uint32_t *ret)
{
	const struct shown_function shown_function = {line, model->detailed ? FUNCTION_NOTE : 0, name, file, ""};
	uint32_t function;
	int err = shown_id(model, &model->functions, &shown_function, &function);

	return err ?: frame_id(model, function, 0, ret) ?: note_column(model, *ret, 0);
}

/* A function as it is shown: JIT code of XLA under the name of its operation, with --hlo. */
static struct shown_function shown_at(const struct export_options *options, const struct function_row *row)
{
	const struct hlo_op *op = options->hlo && row->kind == FUNCTION_JIT ? hlo__find(options->hlo, row->name) : NULL;

	/* File and line of the operation in the user's program, in place of none. */
	if (op)
		return (struct shown_function){op->line, row->kind, op->name, op->file, row->module};
	return (struct shown_function){row->line, row->kind, row->name, row->file, row->module};
}

int projection__functions(struct model *model, const struct event_rows *rows)
{
	const struct function_row *row = rows->rows;
	uint32_t i, id;
	int err = 0;

	for (i = 0; i < rows->n && !err; i++, row++) {
		const struct trait trait = {row->kind, model->hide ? hide__function(model->hide, row) : VISIBILITY_SHOWN};
		struct shown_function shown_function = shown_at(model->options, row);

		/* Module and kind are not shown, so they must not distinguish. */
		if (!model->detailed) {
			shown_function.file = *shown_function.file ? shown_function.file : shown_function.module;
			shown_function.module = "";
			shown_function.kind = 0;
		}
		err = shown_id(model, &model->functions, &shown_function, &id);
		err = err ?: buf__append(&model->epoch_function_traits, &trait, sizeof(trait));
		err = err ?: buf__append(&model->epoch_functions, &id, sizeof(id));
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

		err = buf__append(&model->epoch_frame_traits, &ITEM(model->epoch_function_traits, struct trait, row->function), sizeof(struct trait));
		err = err ?: frame_id(model, function, lines ? row->line : 0, &id) ?: note_column(model, id, lines ? row->column : 0);
		err = err ?: buf__append(&model->epoch_frames, &id, sizeof(id));
	}
	return err;
}

/* A stack as the parent of others. */
struct base {
	uint32_t node; /* without frames that are hidden or folded */
	bool shown;    /* it has a frame that is not hidden */
	bool python;   /* ... and one of them is a Python frame */
	bool import;   /* its leaf is of the import machinery, and hidden */
};

int projection__root(struct model *model)
{
	const struct base base = {.node = MODEL_ROOT};
	const uint32_t root = MODEL_ROOT;

	return buf__append(&model->epoch_bases, &base, sizeof(base)) ?: buf__append(&model->epoch_stacks, &root, sizeof(root));
}

/* `node` is what samples of this stack are counted for; `base.node` is what later stacks build on. They differ
 *
 *     for a hidden frame:         time is the caller's, or that of "(hidden)", where all of the stack is hidden
 *     for an interpreter frame:   it is shown as the leaf of a stack without Python, but never inside of a stack */
static int add_stack(struct model *model, const struct stack_row *row)
{
	const struct base parent = ITEM(model->epoch_bases, struct base, row->parent);
	const struct trait trait = ITEM(model->epoch_frame_traits, struct trait, row->frame);
	struct base base = parent;
	uint32_t node = parent.node;
	int err = 0;

	base.import = trait.visibility == VISIBILITY_IMPORT || (trait.visibility == VISIBILITY_MACHINE && parent.import);
	if (trait.visibility == VISIBILITY_HIDDEN || base.import) {
		node = parent.shown ? ITEM(model->epoch_stacks, uint32_t, row->parent) : model->hidden;
	} else {
		base.shown = true;
		base.python |= trait.kind == FUNCTION_PYTHON;
		if (!folds(model) || frame__is_shown(trait.kind, !parent.python))
			err = projection__node(model, parent.node, ITEM(model->epoch_frames, uint32_t, row->frame), &node);
		if (!folds(model) || trait.kind != FUNCTION_INTERPRETER)
			base.node = node;
	}
	return err ?: buf__append(&model->epoch_bases, &base, sizeof(base)) ?: buf__append(&model->epoch_stacks, &node, sizeof(node));
}

int projection__stacks(struct model *model, const struct event_rows *rows)
{
	const struct stack_row *row = rows->rows;
	int err = 0;

	for (uint32_t i = 0; i < rows->n && !err; i++)
		err = add_stack(model, &row[i]);
	return err;
}

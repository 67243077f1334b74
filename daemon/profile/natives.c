/* Functions and frames of native code: what a look-up said of an address, kept as rows. */
#include <errno.h>
#include <string.h>

#include "profile/tables.h"

/* A module's name is most often that of one of the functions met last. */
#define RECENT 16u

static const uint8_t kinds[] = {
	[PLACE_UNKNOWN] = FUNCTION_NATIVE,
	[PLACE_LIBRARY] = FUNCTION_NATIVE,
	[PLACE_INTERPRETER] = FUNCTION_INTERPRETER,
	[PLACE_JIT] = FUNCTION_JIT,
	[PLACE_VDSO] = FUNCTION_NATIVE,
	[PLACE_KERNEL] = FUNCTION_KERNEL,
};

static const char *keep(struct tables *tables, const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy;

	if (size == 1)
		return "";
	copy = arena__take(&tables->strings, size);
	return copy ? memcpy(copy, text, size) : NULL;
}

static const char *keep_module(struct tables *tables, const char *name)
{
	uint32_t i;

	for (i = tables->n_natives; i && tables->n_natives - i < RECENT; i--)
		if (!strcmp(tables->natives[i - 1].module, name))
			return tables->natives[i - 1].module;
	return keep(tables, name);
}

static int add_native(struct tables *tables, const struct place *place, uint32_t *ret_function)
{
	struct function function = {.key = place->function,
				    .module = place->module + 1,
				    .state = FUNCTION_CODE,
				    .since = tables->tick,
				    .code = tables->n_natives};
	struct native native = {.name = keep(tables, place->name),
				.module = keep_module(tables, place->module_name),
				.file = "",
				.start = place->start,
				.kind = kinds[place->kind <= PLACE_KERNEL ? place->kind : 0]};
	int err = native.name && native.module ? 0 : -ENOMEM;

	native.lines_asked = !tables->places->line || place->kind == PLACE_KERNEL;
	if (!err)
		err = array__reserve((void **)&tables->natives, sizeof(native), tables->n_natives,
				     &tables->natives_capacity);
	if (err)
		return err;
	tables->natives[tables->n_natives] = native;
	*ret_function = tables->n_functions;
	err = tables__add_function(tables, &function);
	tables->n_natives += !err;
	return err;
}

int tables__native(struct tables *tables, const struct place *place, uint32_t *ret_frame)
{
	struct function *found = tables__find_function(tables, place->module + 1, place->function);
	uint64_t offset = place->vaddr - place->start;
	struct frame_row row = {};
	int err = 0;

	if (found)
		row.function = (uint32_t)(found - tables->functions);
	else
		err = add_native(tables, place, &row.function);
	if (err)
		return err;
	row.offset = offset <= INT32_MAX ? (int32_t)offset : INT32_MAX;
	*ret_frame = tables__find_frame(tables, row.function, row.offset);
	if (*ret_frame != UINT32_MAX)
		return 0;
	*ret_frame = tables->n_frames;
	return tables__add_frame(tables, &row, tables->places->line ? FRAME_WAITING : FRAME_KNOWN);
}

bool tables__native_lines(struct tables *tables, struct function *function)
{
	struct native *native = &tables->natives[function->code];
	const char *file = NULL, *kept;
	uint32_t line = 0, column = 0;
	int err;

	if (native->lines_asked)
		return true;
	err = tables->places->line(tables->places, function->module - 1, native->start, &file,
				   &line, &column);
	if (err == -EAGAIN)
		return false;
	native->lines_asked = true;
	kept = !err && file ? keep(tables, file) : NULL;
	if (kept) {
		native->file = kept;
		native->line = line;
	}
	return true;
}

bool tables__native_line(const struct tables *tables, const struct function *function,
			 struct frame_row *row)
{
	const struct native *native = &tables->natives[function->code];
	const char *file = NULL;
	uint32_t line = 0, column = 0;
	int err;

	err = tables->places->line(tables->places, function->module - 1,
				   native->start + (uint32_t)row->offset, &file, &line, &column);
	/* A line of another file (an inlined function's) would be shown in this one. */
	if (!err && file && line && !strcmp(file, native->file)) {
		row->line = line;
		row->column = column;
	}
	return err != -EAGAIN;
}

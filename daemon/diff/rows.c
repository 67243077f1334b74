/* SPDX-License-Identifier: MIT */
/* Identifies rows on both sides: the key of a row is its name and module.
 *
 *     by (4 bytes) line (4) name NUL module NUL detail NUL
 *     function run_pass of numba.core.compiler_machinery: equal in two versions of Numba, wherever they are installed */
#include <errno.h>
#include <string.h>

#include "diff/internal.h"
#include "export/places.h"


/* The fixed part of a key. Not aligned inside of the intern: copied out. */
struct head {
	uint32_t by, line;
};

int diff__row(struct diff *diff, const struct diff_key *key, uint32_t *ret)
{
	const struct head head = {key->by, key->line};
	_cleanup_(buf__free) struct buf text = {};
	int err = buf__append(&text, &head, sizeof(head));

	err = err ?: diff__put_name(&text, key->name);
	err = err ?: buf__append(&text, key->module, strlen(key->module) + 1);
	err = err ?: diff__put_name(&text, key->detail);
	return err ?: intern__id(&diff->keys, text.data, text.len, ret);
}

struct diff_key diff__key(const struct diff *diff, uint32_t row)
{
	struct diff_key key = {};
	struct head head;
	size_t len;
	const char *at = intern__key(&diff->keys, row, &len);

	memcpy(&head, at, sizeof(head));
	key.by = (enum report_by)head.by;
	key.line = head.line;
	key.name = at + sizeof(head);
	key.module = key.name + strlen(key.name) + 1;
	key.detail = key.module + strlen(key.module) + 1;
	return key;
}

uint32_t *diff__cached(struct buf *cache, uint32_t id)
{
	return buf__at(cache, sizeof(uint32_t), id);
}

/* The row of a frame in this table, cached for the recording: keys are built once for each frame. */
int diff__row_of_frame(struct diff *diff, enum report_by by, uint32_t id, uint32_t *ret)
{
	uint32_t *known = diff__cached(&diff->of_frame[by], id);
	struct model_frame frame;
	char module[1024];
	struct diff_key key = {.by = by, .name = module, .module = "", .detail = ""};
	int err;

	if (!known)
		return -ENOMEM;
	if (*known) {
		*ret = *known - 1;
		return 0;
	}
	frame = model__frame(diff->model, id);
	if (by == REPORT_PACKAGE)
		place__package(frame.kind, frame.source, frame.module, module, sizeof(module));
	else
		place__module(frame.kind, frame.source, frame.module, module, sizeof(module));
	/* A path names a file, so rows of files match only if they are installed at the same place. */
	if (by == REPORT_FILE)
		key.name = *frame.file ? frame.file : PLACE_NOTES;
	if (by == REPORT_FUNCTION || by == REPORT_LINE) {
		key.name = frame.name;
		key.module = module;
		key.line = by == REPORT_LINE ? frame.line : 0;
	}
	err = diff__row(diff, &key, ret);
	*known = err ? 0 : *ret + 1;
	return err;
}

int diff__row_of_class(struct diff *diff, uint32_t id, uint32_t *ret)
{
	const struct diff_key key = {REPORT_CLASS, 0, class_names__name(&diff->model->classes, id),
				     "", ""};
	uint32_t *known = diff__cached(&diff->of_class, id);
	int err = 0;

	if (!known)
		return -ENOMEM;
	if (!*known) {
		err = diff__row(diff, &key, ret);
		*known = err ? 0 : *ret + 1;
		return err;
	}
	*ret = *known - 1;
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* Most text is valid and is taken as it is; the rest is copied character by character. */
#include "base/json_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/safe_text.h"

json_t *json__text(const char *text)
{
	return json__textn(text, strlen(text));
}

json_t *json__textn(const char *text, size_t size)
{
	const char *end = text + size;
	_cleanup_(buf__free) struct buf valid = {};
	json_t *json = json_stringn(text, size);
	uint32_t character;
	size_t len;

	if (json)
		return json;
	for (; text < end; text += len ? len : 1) {
		len = utf8__character(text, (size_t)(end - text), &character);
		if (len ? buf__append(&valid, text, len) : buf__puts(&valid, UTF8_REPLACEMENT))
			return NULL;
	}
	return json_stringn(valid.data, valid.len);
}

json_t *json__load(const char *text, size_t len, size_t flags, json_error_t *error)
{
	json_t *json;

	errno = 0;
	json = json_loadb(text, len, flags, error);
	if (!json || errno != ENOMEM)
		return json;
	json_decref(json);
	if (error)
		snprintf(error->text, sizeof(error->text), "out of memory");
	return NULL;
}

static void judge(json_t **into, int err)
{
	if (!err)
		return;
	json_decref(*into);
	*into = NULL;
}

void json__set(json_t **into, const char *key, json_t *value)
{
	judge(into, json_object_set_new(*into, key, value));
}

void json__append(json_t **into, json_t *value)
{
	judge(into, json_array_append_new(*into, value));
}

void json__update(json_t **into, json_t *keys)
{
	judge(into, json_object_update(*into, keys));
	json_decref(keys);
}

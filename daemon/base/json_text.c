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
	const char *end = text + strlen(text);
	_cleanup_(buf__free) struct buf valid = {};
	json_t *json = json_string(text);
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

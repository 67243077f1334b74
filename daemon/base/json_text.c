/* SPDX-License-Identifier: MIT */
/* Most text is valid and is taken as it is; the rest is copied character by character. */
#include "base/json_text.h"

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

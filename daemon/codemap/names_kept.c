/* SPDX-License-Identifier: MIT */
/* In a stored file: head, rows, texts. It is used as it was read, once all of it was checked: kept__find() checks the
 * identity of the files that the names are of, unpack() that rows ascend and that each text ends. */
#include "codemap/known_names.h"

#include <string.h>

#include "base/array.h"
#include "base/order.h"
#include "base/search.h"
#include "weave/weave.h"

#define KIND "names"
#define VERSION 1u /* raise it when the format changes, or how names are shown */
#define KEPT_MAX (6u << 20)
#define ROWS_MAX 65536u
/* So many new names are worth storing: a quarter of those that there are, and these. */
#define NEWS_SHARE 4u
#define NEWS_MIN 16u

struct pack_head {
	uint32_t version, n;
};

static int unpack(struct kept_names *ret, const char *data, size_t len)
{
	struct pack_head head;
	size_t texts;

	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, data, sizeof(head));
	if (head.version != VERSION || !head.n || head.n > ROWS_MAX ||
	    len - sizeof(head) <= head.n * sizeof(*ret->rows) || data[len - 1])
		return -EBADMSG;
	ret->rows = (const struct kept_name *)(data + sizeof(head));
	ret->texts = data + sizeof(head) + head.n * sizeof(*ret->rows);
	texts = len - sizeof(head) - head.n * sizeof(*ret->rows);
	for (uint32_t i = 0; i < head.n; i++)
		if (ret->rows[i].text >= texts || (i && ret->rows[i - 1].start >= ret->rows[i].start))
			return -EBADMSG;
	ret->n = head.n;
	return 0;
}

void kept_names__open(const struct symbol_file *file, int folder, struct kept_names *ret)
{
	struct kept_data data;

	*ret = (struct kept_names){};
	if (folder <= 0 || symbol_file__key(file, &ret->key)) {
		ret->key = (struct kept_key){};
		return;
	}
	if (kept__find(folder, KIND, &ret->key, KEPT_MAX, &data))
		return;
	ret->bytes = data.bytes;
	unpack(ret, data.data, data.len);
}

const char *kept_names__find(const struct kept_names *kept, uint64_t start)
{
	uint32_t at = SEARCH(i, kept->n, kept->rows[i].start < start);

	return at < kept->n && kept->rows[at].start == start ? kept->texts + kept->rows[at].text : NULL;
}

/* --- at the end of a session --- */

struct name {
	uint64_t start;
	const char *text;
};

struct names_array {
	struct name *items;
	uint32_t n, capacity;
	size_t bytes; /* when they are stored */
};

/* As many as a file may have. */
static int add(struct names_array *array, uint64_t start, const char *text)
{
	size_t size = sizeof(struct kept_name) + strlen(text) + 1;

	if (array->n == ROWS_MAX || array->bytes + size > KEPT_MAX - sizeof(struct kept_key) - sizeof(struct pack_head))
		return 0;
	array->bytes += size;
	return ARRAY_ADD(array->items, array->n, array->capacity, ((struct name){start, text}));
}

static int pack(struct names_array *array, struct buf *to)
{
	const struct pack_head head = {VERSION, array->n};
	struct kept_name row = {};
	int err = buf__append(to, &head, sizeof(head));

	qsort(array->items, array->n, sizeof(*array->items), order__u64);
	for (uint32_t i = 0; !err && i < array->n; i++) {
		row.start = array->items[i].start;
		err = buf__append(to, &row, sizeof(row));
		row.text += strlen(array->items[i].text) + 1;
	}
	for (uint32_t i = 0; !err && i < array->n; i++)
		err = buf__append(to, array->items[i].text, strlen(array->items[i].text) + 1);
	return err;
}

/* New ones first: of old ones what there is room for. */
static int gather(const struct kept_names *kept, const struct known_names *known, uint32_t module,
		  struct names_array *ret)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < known->n; i++)
		if (known->rows[i].module == module && known->rows[i].role == WEAVE_CODE)
			err = add(ret, known->rows[i].start, known->rows[i].name);
	if (!err && ret->n < NEWS_MIN + kept->n / NEWS_SHARE)
		return -ENOENT;
	for (uint32_t i = 0; !err && i < kept->n; i++)
		err = add(ret, kept->rows[i].start, kept->texts + kept->rows[i].text);
	return err;
}

void kept_names__store(const struct kept_names *kept, const struct symbol_file *file, int folder,
		       const struct known_names *known, uint32_t module)
{
	struct names_array names = {};
	_cleanup_(buf__free) struct buf data = {};
	struct kept_key now;

	if (kept->key.file.inode && !gather(kept, known, module, &names) && !symbol_file__key(file, &now) &&
	    !memcmp(&now, &kept->key, sizeof(now)) && !pack(&names, &data))
		kept__put(folder, KIND, &kept->key, &data);
	free(names.items);
}

void kept_names__free(struct kept_names *kept)
{
	free(kept->bytes);
}

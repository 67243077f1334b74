/* SPDX-License-Identifier: MIT */
/* Parser of /proc/PID/maps (maps.h). Example of a line (proc(5)): addresses, permissions, offset in the file, device,
 * inode, path:
 *
 *    7f2a1c000000-7f2a1c028000 r-xp 00026000 08:01 131203  /usr/lib/libc.so.6
 *
 * The path is chosen by the target: it may contain spaces, " (deleted)", or look like another line, but no newline,
 * which the kernel escapes. A line that does not parse is counted and skipped. */
#include "target/maps.h"

#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/blocking.h"
#include "base/buf.h"
#include "base/search.h"

/* A position in the line; `bad` stays set once something did not fit, so that it is checked only once, at the end. */
struct cursor {
	const char *at, *end;
	bool bad;
};

/* Without strtoull(): the text is not NUL-terminated, and no sign or space is accepted. */
static uint64_t number(struct cursor *c, unsigned base, uint64_t max)
{
	const char *from = c->at;
	uint64_t value = 0;
	unsigned digit;

	for (; c->at < c->end; c->at++) {
		char ch = *c->at;

		if (ch >= '0' && ch <= '9')
			digit = (unsigned)(ch - '0');
		else if (base == 16 && ch >= 'a' && ch <= 'f')
			digit = (unsigned)(ch - 'a' + 10);
		else
			break;
		if (value > (max - digit) / base) {
			c->bad = true;
			return 0;
		}
		value = value * base + digit;
	}
	if (c->at == from)
		c->bad = true;
	return value;
}

static void expect(struct cursor *c, char ch)
{
	if (c->at < c->end && *c->at == ch)
		c->at++;
	else
		c->bad = true;
}

/* One letter of the permissions. */
static uint32_t flag(struct cursor *c, char yes, char no, uint32_t bit)
{
	char ch = c->at < c->end ? *c->at++ : 0;

	if (ch != yes && ch != no)
		c->bad = true;
	return ch == yes ? bit : 0;
}

/* start-end perms offset major:minor inode   path */
static bool parse_line(const char *line, size_t len, struct mapping *m)
{
	static const char deleted[] = " (deleted)";
	struct cursor c = {.at = line, .end = line + len};
	size_t cut = sizeof(deleted) - 1;

	*m = (struct mapping){};
	m->start = number(&c, 16, UINT64_MAX);
	expect(&c, '-');
	m->end = number(&c, 16, UINT64_MAX);
	expect(&c, ' ');
	m->flags |= flag(&c, 'r', '-', MAPPING_READ);
	m->flags |= flag(&c, 'w', '-', MAPPING_WRITE);
	m->flags |= flag(&c, 'x', '-', MAPPING_EXEC);
	m->flags |= flag(&c, 's', 'p', MAPPING_SHARED);
	expect(&c, ' ');
	m->offset = number(&c, 16, UINT64_MAX);
	expect(&c, ' ');
	m->major = (uint32_t)number(&c, 16, UINT32_MAX);
	expect(&c, ':');
	m->minor = (uint32_t)number(&c, 16, UINT32_MAX);
	expect(&c, ' ');
	m->inode = number(&c, 10, UINT64_MAX);
	if (c.bad || m->end <= m->start || (c.at < c.end && *c.at != ' '))
		return false;
	while (c.at < c.end && *c.at == ' ')
		c.at++;
	len = (size_t)(c.end - c.at);
	m->path = c.at;
	if (len > cut && !memcmp(c.end - cut, deleted, cut)) {
		m->flags |= MAPPING_DELETED;
		len -= cut;
	}
	m->path_len = len > UINT32_MAX ? UINT32_MAX : (uint32_t)len;
	return true;
}

int maps__parse(const char *text, size_t len, struct maps *ret)
{
	const char *at = text, *end = text + len, *newline;
	struct mapping *items = NULL;
	uint32_t capacity = 0;
	uint64_t last = 0;

	*ret = (struct maps){};
	for (; at < end; at = newline + 1) {
		newline = memchr(at, '\n', (size_t)(end - at));
		if (!newline) {
			ret->truncated = true;
			break;
		}
		if (ARRAY_RESERVE(items, (uint32_t)ret->n, capacity)) {
			free(items);
			*ret = (struct maps){};
			return -ENOMEM;
		}
		/* The kernel writes one page of text at a time. Between two pages the target may map and unmap, so a
		 * range may come twice: only ascending lines count. */
		if (parse_line(at, (size_t)(newline - at), &items[ret->n]) &&
		    items[ret->n].start >= last)
			last = items[ret->n++].end;
		else
			ret->bad++;
	}
	ret->items = items;
	return 0;
}

int maps__read(int fd, struct maps *ret)
{
	_cleanup_(buf__free) struct buf text = {};
	ssize_t got = 1;
	int err = 0;

	*ret = (struct maps){};
	/* The file offset is shared by all holders of this fd: rewind. */
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	while (got && !err) {
		/* Some 3,000 lines at first. */
		err = text.len >= MAPS_TEXT_MAX ? -EFBIG : buf__reserve(&text, text.len ? 1 : 256u << 10);
		got = err ? 0 : blocking__read(fd, text.data + text.len, text.capacity - text.len);
		if (got > 0)
			text.len += (size_t)got;
		else if (got != -EINTR)
			err = err ?: (int)got;
	}
	/* An empty file: the process has no memory any more, or runs another image. */
	err = err ?: (text.len ? 0 : -ESRCH);
	err = err ?: maps__parse(text.data, text.len, ret);
	ret->text = err ? NULL : take_ptr(text.data);
	return err;
}

void maps__free(struct maps *maps)
{
	free(maps->items);
	free(maps->text);
	*maps = (struct maps){};
}

/* Binary search for the first mapping that ends behind the address. */
const struct mapping *maps__find(const struct maps *maps, uint64_t address)
{
	size_t low = SEARCH(i, maps->n, address >= maps->items[i].end);

	return low < maps->n && address >= maps->items[low].start ? &maps->items[low] : NULL;
}

const char *mapping__name(const struct mapping *mapping, size_t *ret_len)
{
	const char *slash = mapping->path_len ? memrchr(mapping->path, '/', mapping->path_len) : NULL;
	const char *name = slash ? slash + 1 : mapping->path;

	*ret_len = mapping->path_len - (size_t)(name - mapping->path);
	return name;
}

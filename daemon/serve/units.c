/* SPDX-License-Identifier: MIT */
/* Compile units of a session: connects units (which decides what a compile is, from rules) with the sampler and the
 * target's memory.
 *
 *    code object of a rule's function -> ring__capture_locals(): which locals the sampler captures
 *    sample with values               -> units__sample(), which reads the objects behind these values (names, types)
 *
 * Objects are read through a small cache of pages: one value takes dozens of reads of some bytes, close together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "serve/engine.h"
#include "target/process.h"
#include "units/units.h"

#define PAGE 4096u
#define PAGES 64u
/* Bytes before the code object type in the interpreter's data that never change, either: other types, small integers,
 * names. The smallest interpreter has more data than that there. */
#define STILL_BEFORE (9u << 18)

/* A direct-mapped cache: page number n is in entry n % PAGES. */
struct pages {
	uint64_t since;		 /* when the first was read */
	uint64_t numbers[PAGES]; /* + 1; 0: none */
	uint8_t bytes[PAGES][PAGE];
};

/* Two caches. `pages` holds what may change: it is valid for samples that are older than its first page. `still` holds
 * the interpreter's own image, where the objects that values lead to (types, small integers, names) never change after
 * they were made; it is read again each second. */
struct page_reader {
	struct host_reader reader;
	const struct tracee *of;
	int mem;
	uint64_t still_from, still_end; /* addresses */
	struct pages pages, still;
};

struct session_units {
	struct units *units;
	struct page_reader memory;
	uint64_t captured; /* until then the sampler did not know of all locals that it is to copy */
};

static const uint8_t *page_of(struct page_reader *self, uint64_t number)
{
	bool is_still = number * PAGE >= self->still_from && number * PAGE < self->still_end;
	struct pages *pages = is_still ? &self->still : &self->pages;
	uint32_t at = (uint32_t)(number % PAGES);

	if (pages->numbers[at] == number + 1)
		return pages->bytes[at];
	pages->numbers[at] = 0;
	if (process_memory__read(self->mem, pages->bytes[at], PAGE, number * PAGE))
		return NULL;
	pages->numbers[at] = number + 1;
	return pages->bytes[at];
}

static void clear_pages(struct pages *pages)
{
	memset(pages->numbers, 0, sizeof(pages->numbers));
	pages->since = engine__now();
}

/* A page that was read BEFORE the sample may lack what the sample points to, so everything older is dropped. A page
 * that was read after it may have changed as well; that is the same race as without a cache, and units checks what it
 * reads. */
static void refresh(struct page_reader *self, const struct tracee *tracee, uint64_t time)
{
	const struct image *image = &tracee->image;
	bool other = self->of != tracee || self->mem != tracee->mem;

	if (other || time >= self->pages.since)
		clear_pages(&self->pages);
	if (other || time >= self->still.since + SCHEDULE_STILL_NS) {
		clear_pages(&self->still);
		self->still_end = image->runtime + image->runtime_size;
		self->still_from = image->code_type < image->runtime ? image->code_type : image->runtime;
		self->still_from -= self->still_from < STILL_BEFORE ? self->still_from : STILL_BEFORE;
	}
	self->of = tracee;
	self->mem = tracee->mem;
}

/* Addresses of the kernel's half (negative) are refused: a hostile object could point anywhere. A read that fails is
 * not cached. */
static int read_memory(struct host_reader *reader, void *dst, size_t size, uint64_t address)
{
	struct page_reader *self = (struct page_reader *)reader;
	uint8_t *to = dst;

	if ((int64_t)address <= 0 || (int64_t)(address + size) <= 0)
		return -EFAULT;
	while (size) {
		size_t in = address % PAGE, len = PAGE - in < size ? PAGE - in : size;
		const uint8_t *page = page_of(self, address / PAGE);

		if (!page)
			return -EFAULT;
		memcpy(to, page + in, len);
		to += len;
		address += len;
		size -= len;
	}
	return 0;
}

int session_units__open(struct session *session)
{
	struct session_units *own = calloc(1, sizeof(*own));
	int err = own ? units__new(session->rules, &session->sink, &own->units) : -ENOMEM;

	session->units = own;
	if (err) {
		session_units__close(session);
		return err;
	}
	own->memory.reader.read = read_memory;
	units__asleep(own->units, asleep__still);
	return 0;
}

void session_units__close(struct session *session)
{
	if (session->units)
		units__free(session->units->units);
	free(session->units);
	session->units = NULL;
}

struct event_sink *session_units__sink(struct session *session)
{
	return units__sink(session->units->units);
}

void session_units__code(struct session *session, const struct record_code *code)
{
	const struct tracee *tracee = tracee__find(session, (int32_t)code->header.task.tgid);
	/* The record does not say it: where both names are one object, as a function's of a module, it has one of them. */
	const bool qualified = tracee && tracee->image.layout.code_qualname != PY_ABSENT;
	struct locals_capture capture;

	if (!units__code(session->units->units, code, qualified, &capture))
		return;
	ring__capture_locals(session->ring, &capture);
	session->units->captured = engine__now();
	watch__thread(session, &code->header, true);
}

/* A pid or an address now belongs to another image: what was cached is not used. */
void session_units__other_memory(struct session *session)
{
	session->units->memory.of = NULL;
}

bool session_units__capture(struct session *session, uint64_t key, struct locals_capture *ret)
{
	return units__capture(session->units->units, key, ret);
}

/* Is it of a thread that fell asleep in a function of a rule, before the sampler was told what to copy? */
static bool lacks_values(struct session *session, const struct sample *sample)
{
	struct locals_capture capture;
	bool lacks = false;

	if (!(sample->record->flags & SAMPLE_OFF_CPU) || !sample->wait || !sample->python || sample->python->part.loss ||
	    sample->record->header.time > session->units->captured)
		return false;
	for (uint32_t i = 0; !lacks && i < sample->python->n; i++)
		lacks = session_units__capture(session, sample->python->frames[i].code, &capture);
	return lacks;
}

/* With the values that the sampler did not copy, if the thread still sleeps. */
static int sample_without_values(struct session *session, const struct sample *sample)
{
	struct tracee *tracee = lacks_values(session, sample) ? tracee__find(session, (int32_t)sample->record->header.task.tgid) : NULL;
	_cleanup_(buf__free) struct buf out = {};
	struct sample made;

	if (sample->python && sample->python->n)
		watch__thread(session, &sample->record->header, false);
	if (!tracee || !tracee->image.runtime || tracee->mem < 0 || values__of_sleeping(session, tracee, sample, &out))
		return units__sample(session->units->units, sample, NULL, NULL);
	record__parse((const void *)out.data, &made);
	return made.values ? session_units__sample(session, &made) : units__sample(session->units->units, sample, NULL, NULL);
}

/* Values of a process that is not identified cannot be read: there is no layout. Without its memory there are the copies that the sample
 * has: of the last samples before a process ended nothing else is left. */
int session_units__sample(struct session *session, const struct sample *sample)
{
	struct page_reader *memory = &session->units->memory;
	const struct py_path *paths;
	struct tracee *tracee;
	uint32_t n;
	int err;

	if (units__count(session->units->units) >= UNITS_EPOCH_MAX)
		profile__end_epoch(session->profile);
	if (!sample->values)
		return sample_without_values(session, sample);
	tracee = tracee__of(session, &sample->record->header.task);
	if (!tracee || !tracee->image.runtime)
		return 0;
	watch__thread(session, &sample->record->header, true);
	refresh(memory, tracee, sample->record->header.time);
	err = units__sample(session->units->units, sample, &memory->reader, &tracee->image.layout);
	paths = units__paths(session->units->units, &n);
	for (uint32_t i = 0; i < n; i++)
		ring__put_path(session->ring, &paths[i]);
	return err;
}

uint32_t session_units__unnamed(struct session *session)
{
	return session->units ? units__unnamed(session->units->units) : 0;
}

struct host_reader *session_units__pages(struct session *session, const struct tracee *tracee, uint64_t time)
{
	struct page_reader *memory = &session->units->memory;

	refresh(memory, tracee, time);
	return &memory->reader;
}

int session_units__replay(struct session *session, struct event_sink *sink)
{
	return session->units ? units__replay(session->units->units, sink) : 0;
}

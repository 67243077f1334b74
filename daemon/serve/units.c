/* SPDX-License-Identifier: MIT */
/* Compile units of a session: rules, marks for the sampler, and the target's memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/engine.h"
#include "target/process.h"
#include "units/units.h"

#define PAGE 4096u
#define PAGES 64u
/* What values are of in the interpreter's own image: types, small integers, names. None of these changes once it is made. */
#define STILL_BEFORE (9u << 18) /* bytes in front of the types' data: the smallest interpreter has more there */

struct pages {
	uint64_t since;		 /* when the first was read */
	uint64_t numbers[PAGES]; /* + 1; 0: none */
	uint8_t bytes[PAGES][PAGE];
};

/* Reading one value takes dozens of words that lie together, and the next one's types are the same: pages are kept for
 * the samples that are older than they, those of the interpreter's image for a second. */
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

static void forget_pages(struct pages *pages)
{
	memset(pages->numbers, 0, sizeof(pages->numbers));
	pages->since = engine__now();
}

/* What it has was read after the sample was taken, but for what does not change. */
static void refresh(struct page_reader *self, const struct tracee *tracee, uint64_t time)
{
	const struct image *image = &tracee->image;
	bool other = self->of != tracee || self->mem != tracee->mem;

	if (other || time >= self->pages.since)
		forget_pages(&self->pages);
	if (other || time >= self->still.since + SCHEDULE_STILL_NS) {
		forget_pages(&self->still);
		self->still_end = image->runtime + image->runtime_size;
		self->still_from = image->code_type < image->runtime ? image->code_type : image->runtime;
		self->still_from -= self->still_from < STILL_BEFORE ? self->still_from : STILL_BEFORE;
	}
	self->of = tracee;
	self->mem = tracee->mem;
}

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
	if (err)
		session_units__close(session);
	else
		own->memory.reader.read = read_memory;
	return err;
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
	struct locals_capture capture;

	if (units__code(session->units->units, code, &capture))
		ring__capture_locals(session->ring, &capture);
}

void session_units__other_memory(struct session *session)
{
	session->units->memory.of = NULL;
}

int session_units__sample(struct session *session, const struct sample *sample)
{
	struct page_reader *memory = &session->units->memory;
	struct tracee *tracee;

	if (units__count(session->units->units) >= UNITS_EPOCH_MAX)
		profile__end_epoch(session->profile);
	if (!sample->values)
		return units__sample(session->units->units, sample, NULL, NULL);
	tracee = tracee__find(session, (int32_t)sample->record->header.task.tgid);
	if (!tracee || !tracee->image.runtime)
		return 0;
	refresh(memory, tracee, sample->record->header.time);
	return units__sample(session->units->units, sample, tracee->mem < 0 ? NULL : &memory->reader,
			     &tracee->image.layout);
}

bool session_units__locals_capture(const struct session *session, uint64_t key, struct locals_capture *ret)
{
	return units__locals_capture(session->units->units, key, ret);
}

struct host_reader *session_units__pages(struct session *session, const struct tracee *tracee, uint64_t time)
{
	struct page_reader *memory = &session->units->memory;

	refresh(memory, tracee, time);
	return &memory->reader;
}

struct host_reader *session_units__memory(struct session *session, const struct tracee *tracee)
{
	struct page_reader *memory = &session->units->memory;
	const struct image *image = &tracee->image;
	uint32_t i;

	refresh(memory, tracee, engine__now());
	/* The state of the first thread lies in the interpreter's image, too. */
	for (i = 0; i < PAGES; i++)
		if (memory->still.numbers[i] * PAGE > image->runtime && (memory->still.numbers[i] - 1) * PAGE < image->runtime + image->runtime_size)
			memory->still.numbers[i] = 0;
	return &memory->reader;
}

int session_units__replay(struct session *session, struct event_sink *sink)
{
	return session->units ? units__replay(session->units->units, sink) : 0;
}

/* SPDX-License-Identifier: MIT */
/* The places in Python code that called native code: what their instructions say, and what was called there. A Numba
 * compile has some 3,000. Example: site {key of f, offset 34}: CALL, names ("append", "rows"), own 1, learned
 * "list.append".
 *
 * Reading one takes some reads of the target's memory (python/site.c), so it is done when callee.c needs it, and
 * once; instructions that CPython has not specialised yet are read again later. All are dropped at SITES_MAX, not at
 * a new epoch: what code says does not depend on ids. */
#include <stdio.h>
#include <stdlib.h>

#include "classes/bytecode.h"
#include "profile/internal.h"

#define SITES_MAX 16384u /* 2 MB; then all are forgotten */

enum site_state { SITE_NEW, SITE_READ, SITE_UNREADABLE };

static uint64_t hash_of(const struct profile *profile, uint64_t key, int32_t offset)
{
	return hash__pair(&profile->tables.seed, key, (uint32_t)offset);
}

static bool hash_call(const void *holder, uint32_t row, uint64_t *ret)
{
	const struct profile *profile = holder;

	*ret = hash_of(profile, profile->sites.rows[row].key, profile->sites.rows[row].offset);
	return true;
}

static struct site *known_site(struct sites *sites, const struct py_frame *frame, uint64_t hash)
{
	uint32_t row = SLOTS_FIND(&sites->by_call, i, hash,
				  sites->rows[i].key == frame->code && sites->rows[i].offset == frame->offset);

	return row == SLOTS_NONE ? NULL : &sites->rows[row];
}

void sites__calls_python(struct profile *profile, const struct py_frame *frame)
{
	struct site *site = known_site(&profile->sites, frame, hash_of(profile, frame->code, frame->offset));

	if (site)
		site->python = true;
}

struct site *sites__of(struct profile *profile, const struct py_frame *frame)
{
	struct sites *sites = &profile->sites;
	uint64_t hash = hash_of(profile, frame->code, frame->offset);
	struct site *known = known_site(sites, frame, hash);

	if (known)
		return known;
	if (sites->n >= SITES_MAX)
		sites__clear(sites);
	return SLOTS_ADD(&sites->by_call, hash_call, profile, sites->rows, sites->n, sites->capacity,
			 (struct site){.key = frame->code, .offset = frame->offset}) ? NULL : &sites->rows[sites->n - 1];
}

/* --- what the instructions say --- */

/* Copies the answer; names become interned texts, which live as long as the sites. Names that find no memory are
 * left out, and `own` with them. */
static void take(struct profile *profile, struct site *site, const struct call_site *decoded)
{
	site->kind = decoded->kind;
	site->exact = decoded->exact;
	site->own = decoded->own;
	site->owner = decoded->owner;
	site->of_global = decoded->of_global;
	site->builtin = decoded->builtin;
	site->inlines = decoded->inlines;
	site->callee = decoded->callee;
	site->function = decoded->function;
	for (site->n = 0; site->n < decoded->n; site->n++)
		if (!(site->names[site->n] = texts__keep(&profile->sites.texts, decoded->names[site->n])))
			break;
	if (site->own > site->n)
		site->own = 0;
}

void sites__read(struct profile *profile, const struct record_header *header, struct site *site, bool again)
{
	struct call_sites *call_sites = profile->options.call_sites;
	struct call_site decoded;
	uint32_t serial;

	if ((site->state == SITE_READ && !again) || site->offset < 0 || !call_sites)
		return;
	/* What cannot be read now may be later: it is tried again, at longer and longer intervals. */
	if (site->state == SITE_UNREADABLE) {
		site->failed++;
		if (site->failed & (site->failed - 1))
			return;
	}
	serial = codes__find(profile->codes, site->key);
	if (serial == CODE_NONE)
		return; /* it may come */
	site->state = call_sites->read(call_sites, header, site->key, codes__get(profile->codes, serial)->address,
				   (uint32_t)site->offset, &decoded)
			      ? SITE_UNREADABLE
			      : SITE_READ;
	if (site->state == SITE_READ)
		take(profile, site, &decoded);
}

const char *sites__ufunc(struct profile *profile, const struct record_header *header, struct site *site)
{
	struct call_sites *call_sites = profile->options.call_sites;
	const char *owner = site->owner && site->owner <= site->n ? site->names[site->owner - 1] : NULL;
	char name[64], text[80];

	if (site->object || !site->exact || !site->own || !call_sites || (owner ? !site->of_global : site->builtin == BUILTIN_ATTRIBUTE))
		return site->object;
	/* A module may get it later: asked again, at longer and longer intervals. */
	if (site->objects < UINT16_MAX)
		site->objects++;
	if (site->objects & (site->objects - 1) || call_sites->ufunc(call_sites, header, owner, site->names[site->own - 1], name, sizeof(name)))
		return NULL;
	snprintf(text, sizeof(text), "<ufunc '%s'>", name);
	site->object = texts__keep(&profile->sites.texts, text);
	return site->object;
}

size_t sites__bytes(const struct sites *sites)
{
	return sites->capacity * sizeof(*sites->rows) + sites->by_call.capacity * sizeof(uint32_t) + texts__bytes(&sites->texts);
}

void sites__clear(struct sites *sites)
{
	free(sites->rows);
	free(sites->by_call.slots);
	texts__free(&sites->texts);
	*sites = (struct sites){.builtins = sites->builtins};
}

/* What native code was called for: the callee at each place of a stack where a Python frame called native code.
 * docs/classes.md has the rule. */
#include <string.h>

#include "classes/bytecode.h"
#include "profile/internal.h"

enum site_state { SITE_NEW, SITE_READ, SITE_UNREADABLE };

/* Kept by its place: another one may take it. */
static struct site *site_of(struct profile *profile, const struct py_frame *frame)
{
	uint64_t hash = hash__pair(&profile->tables.seed, frame->code, (uint32_t)frame->offset);
	struct site *site = &profile->stack->sites[hash % KNOWN_SITES];

	if (site->key != frame->code || site->offset != frame->offset)
		*site = (struct site){.key = frame->code, .offset = frame->offset};
	return site;
}

static const struct place_site *read_site(struct profile *profile, const struct record_task *task, struct site *site)
{
	struct places *places = profile->options.places;
	uint32_t serial;

	if (site->state == SITE_NEW && site->offset >= 0 && places->site) {
		serial = codes__find(profile->codes, site->key);
		if (serial == CODE_NONE)
			return &site->at; /* it may come */
		site->state = places->site(places, task, site->key, codes__get(profile->codes, serial)->address,
					   (uint32_t)site->offset, &site->at)
				      ? SITE_UNREADABLE
				      : SITE_READ;
	}
	return &site->at;
}

static const char *last_part(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

static bool loads(const struct place_site *site, const char *name, size_t size)
{
	uint32_t i;

	for (i = 0; i < site->n; i++)
		if (strlen(site->names[i]) == size && !memcmp(site->names[i], name, size))
			return true;
	return false;
}

/* Is what it belongs to named as well: "zlib" of "zlib.crc32"? */
static bool owner_loaded(const struct place_site *site, const char *name)
{
	const char *last = last_part(name);

	return last > name && loads(site, name, (size_t)(last - 1 - name));
}

/* The candidate whose name is loaded last before the instruction. */
static const char *by_name(const struct callables *callables, const struct callable *callable,
			   const struct place_site *site)
{
	const char *found = NULL;
	uint32_t i, j;

	for (i = 0; !found && i < site->n; i++)
		for (j = 0; j < callable->n; j++) {
			const char *name = callables->candidates[callable->first + j].name;

			if (callables->candidates[callable->first + j].deep == CANDIDATE_CALLED ||
			    strcmp(last_part(name), site->names[i]) || (found && !owner_loaded(site, name) &&
			    (owner_loaded(site, found) || strlen(name) >= strlen(found))))
				continue;
			found = name;
		}
	return found;
}

/* The only name among those that are nearest, or NULL; of slots alone, or of all others; `called`: those of slots that
 * call it, too. */
static const char *only(const struct callables *callables, const struct callable *callable, bool slots, bool called)
{
	const struct candidate *found = NULL;
	bool several = false;
	uint32_t i;

	for (i = 0; i < callable->n; i++) {
		const struct candidate *candidate = &callables->candidates[callable->first + i];

		if (slots != (candidate->kind == CALLABLE_SLOT) || (!called && candidate->deep == CANDIDATE_CALLED) ||
		    class__forwards(candidate->name) != FORWARDS_NOT ||
		    (found && candidate->deep > found->deep))
			continue;
		if (found && candidate->deep == found->deep && strcmp(candidate->name, found->name)) {
			several = true;
			continue;
		}
		if (!found || candidate->deep < found->deep)
			several = false;
		found = candidate;
	}
	return found && !several ? found->name : NULL;
}

/* What a function without a name of its own is taken for. */
enum trust {
	TRUST_NAMES,    /* what the bytecode names */
	TRUST_JUMPS,    /* or the only one that jumps to it */
	TRUST_EXPORTED, /* even if others may call it */
};

/* What Python code calls this function, called from there; NULL: it cannot be told, or is none. `direct`: the
 * instruction called it. */
static const char *name_of(const struct callable *callable, const struct place_site *site, bool direct, enum trust trust)
{
	const struct callables *callables = callable->of;
	const char *name = site->kind == OPCODE_CALL ? by_name(callables, callable, site) : NULL;

	if (name || callable->name)
		return name ? name : callable->name;
	if (direct && site->kind == OPCODE_OPERATOR)
		return callable->exported && trust == TRUST_NAMES ? NULL : only(callables, callable, true, trust != TRUST_NAMES);
	if (direct && trust == TRUST_NAMES)
		return NULL;
	return callable->exported && trust != TRUST_EXPORTED ? NULL : only(callables, callable, false, false);
}

static bool is_callable(const struct callable *callable)
{
	return callable && callable->kind != CALLABLE_COLLECTOR;
}

/* The same place calls the same, nearly always. */
static void learn(struct site *site, const char *name)
{
	if (site->learned && strcmp(site->learned, name))
		site->several = true;
	site->learned = name;
}

/* The body of a function that calls what it was given, if only that one jumps to it; or NULL. Else what it calls on its way,
 * to convert an argument, would pass for what Python code called. */
static const char *forwarder(const struct callable *callable)
{
	const char *found = NULL;
	uint32_t i;

	if (callable->name || callable->exported)
		return NULL;
	for (i = 0; i < callable->n; i++) {
		const struct candidate *candidate = &callable->of->candidates[callable->first + i];

		if (found && strcmp(found, candidate->name))
			return NULL;
		found = candidate->name;
	}
	return found && class__forwards(found) == FORWARDS_SHOWN ? found : NULL;
}

/* From the outside. *ret_slot: the outermost is a slot. */
static const char *choose(struct profile *profile, struct site *site, const struct record_task *task, uint32_t begin,
			  uint32_t end, enum trust trust, bool *ret_slot)
{
	struct stack *stack = profile->stack;
	const char *name, *outermost = NULL;
	bool wanted = true, direct = true;
	uint32_t i;

	*ret_slot = false;
	for (i = end; i > begin; i--) {
		const struct callable *callable = stack->callables[stack->items[i - 1].index];
		const char *through = is_callable(callable) ? forwarder(callable) : NULL;
		uint8_t forwards = through ? FORWARDS_SHOWN : is_callable(callable) ? callable->forwards : FORWARDS_NOT;

		stack->chosen[i - 1 - begin] = NULL;
		if (!is_callable(callable) || !(wanted || forwards))
			continue;
		if (forwards == FORWARDS_SILENTLY) {
			wanted = true;
			continue;
		}
		name = through ? through : name_of(callable, read_site(profile, task, site), direct, trust);
		if (!name)
			continue;
		if (outermost) {
			stack->chosen[i - 1 - begin] = name;
		} else {
			outermost = name;
			*ret_slot = callable->name && callable->kind == CALLABLE_SLOT;
		}
		wanted = forwards;
		direct = false;
	}
	return outermost;
}

void callee__choose(struct profile *profile, const struct record_task *task, const struct py_frame *frame, uint32_t begin,
		    uint32_t end, const char **ret_outermost)
{
	struct site *site = site_of(profile, frame);
	bool slot;
	const char *outermost = choose(profile, site, task, begin, end, TRUST_NAMES, &slot);
	uint8_t kind = outermost && !slot ? OPCODE_OTHER : read_site(profile, task, site)->kind;

	if (slot && kind == OPCODE_CALL && !(outermost = choose(profile, site, task, begin, end, TRUST_EXPORTED, &slot)))
		outermost = choose(profile, site, task, begin, end, TRUST_NAMES, &slot);
	if (outermost)
		learn(site, outermost);
	/* On the way there, or back: arguments are packed, frames of the interpreter's alone are there. */
	else if (site->learned && !site->several && kind != OPCODE_OTHER)
		outermost = site->learned;
	else if (kind != OPCODE_OTHER)
		outermost = choose(profile, site, task, begin, end, TRUST_JUMPS, &slot);
	*ret_outermost = outermost;
}

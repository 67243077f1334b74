/* SPDX-License-Identifier: MIT */
/* Locals capture: which code objects does a rule name, and which of their locals must the sampler copy at each tick?
 *
 * The answer is computed once for each code object, when its record comes (units__code). Example: a rule of Numba says
 * `name = self.func_id.func_qualname`; the local `self` is slot 0 of the frame, so word 0 of each capture is `self`,
 * and read.c follows the attributes from there. */
#include <string.h>

#include "collect/collect.h"
#include "name/text.h"
#include "units/internal.h"

#define NAMES_MAX RECORD_VARIABLES_MAX
#define WORD_NONE 255u
#define PATH_NONE 255u

/* Local variables of one code object, decoded. `text` has the bytes; `names` points into it. */
struct names {
	struct buf text;
	const char *names[NAMES_MAX];
	/* the variable is in a cell: a closure uses it, so its slot holds the cell and not the value */
	bool cells[NAMES_MAX];
	bool arguments[NAMES_MAX]; /* of these, those that lie there themselves at first */
	uint32_t n;
};

static int put_string(const struct part_string *string, struct buf *out)
{
	int err = text__from_unicode(string->data, part_string__bytes(string), string->kind, string->ascii, out);

	return err ? err : buf__append(out, "", 1);
}

/* The names of the local variables. record__check() has checked the part's own size, not the strings inside it. */
static void read_names(const struct part_variables *part, struct names *ret)
{
	const char *at = (const char *)(part + 1), *end = (const char *)part + part->part.size;
	size_t starts[NAMES_MAX];
	uint32_t i;

	for (i = 0; i < part->n && i < NAMES_MAX; i++) {
		const struct part_string *string = (const void *)at;

		if ((size_t)(end - at) < sizeof(*string) || string->part.size < sizeof(*string) ||
		    string->part.size > (size_t)(end - at))
			break;
		starts[i] = ret->text.len;
		ret->cells[i] = string->variable & VARIABLE_CELL;
		ret->arguments[i] = string->variable & VARIABLE_ARGUMENT;
		if (put_string(string, &ret->text))
			break;
		at += string->part.size;
	}
	ret->n = i;
	/* Pointers only now: the buffer may have moved while it grew. */
	for (i = 0; i < ret->n; i++)
		ret->names[i] = ret->text.data + starts[i];
}

/* The slot of the local with this name, as struct locals_capture has it. Before CPython 3.11 an argument that a closure
 * uses (a cell) has two slots, and the first one is unset: take the last. */
static uint8_t slot_of(const struct names *names, const char *name)
{
	for (uint32_t i = names->n; i-- > 0;)
		if (!strcmp(names->names[i], name))
			return (uint8_t)(names->cells[i] ? i | VALUE_SLOT_CELL : i);
	return VALUE_SLOT_NONE;
}

/* Arguments are the first variables of a code object. */
static bool is_argument(const struct names *names, const char *name, uint32_t arguments)
{
	for (uint32_t i = 0; i < arguments && i < names->n; i++)
		if (!strcmp(names->names[i], name))
			return true;
	return false;
}

/* From CPython 3.11 on an argument that a closure uses lies in its slot itself until the function's first instructions
 * (COPY_FREE_VARS, and a MAKE_CELL for each cell) make a cell of it; each has 2 bytes. Taken for a cell, it would give a wrong
 * word. A collection of garbage may run in a MAKE_CELL, as long as it takes. Returns the offset from which on the slot has a
 * cell; 0: it is none of an argument. */
static uint16_t made_at(const struct names *names, uint8_t slot)
{
	uint32_t at = slot & ~VALUE_SLOT_CELL, before = 0;

	if (slot == VALUE_SLOT_NONE || !(slot & VALUE_SLOT_CELL) || !names->arguments[at])
		return 0;
	for (uint32_t i = 0; i < at; i++)
		before += names->cells[i];
	return (uint16_t)(2 * (before + 2));
}

/* The word that captures this slot; a free one is assigned. WORD_NONE: all are in use. */
static uint8_t word_of(struct rule_code *rule_code, uint8_t slot)
{
	for (uint8_t i = 0; i < FRAME_VALUES_WORDS; i++) {
		if (rule_code->slots[i] == VALUE_SLOT_NONE)
			rule_code->slots[i] = slot;
		if (rule_code->slots[i] == slot)
			return i;
	}
	return WORD_NONE;
}

static bool is_special(const char *attribute)
{
	size_t len = strlen(attribute);

	return len > 4 && !strncmp(attribute, "__", 2) && !strcmp(attribute + len - 2, "__");
}

/* Is it attributes of a local that name something, and not what functions and classes have (`func.__qualname__`)? These live
 * long. So does what has lines, which are read of nearly every sample. */
static bool is_path(const struct rule *rule, const struct source *source)
{
	bool path = source->kind == SOURCE_VALUE && source->n > 1 && !rule->lasting && rule->kind != RULE_LINE;

	for (uint32_t i = 0; path && i < source->n; i++)
		path = source->steps[i].kind == STEP_NAME;
	return path && !is_special(source->steps[1].name);
}

/* Has the tick follow it, if there is room; else it is read at the poll. */
static void add_path(struct rule_code *rule_code, uint32_t source, uint8_t word)
{
	for (uint32_t i = 0; i < CAPTURE_PATHS; i++)
		if (!capture_path(rule_code->copies, i)) {
			rule_code->copies |= (uint16_t)((word + 1u) << capture_path_shift(i));
			rule_code->paths[source] = (uint8_t)i;
			return;
		}
}

/* Assigns a word to each local that the rule's sources begin with. False: the rule needs no local. Sources of
 * name, signature and definition share words: `self.a | self.b` needs only `self`. */
static bool place_words(const struct rule *rule, const struct names *names, uint32_t arguments, struct rule_code *ret)
{
	const struct choices *all[3] = {&rule->name, &rule->signature, &rule->defined};
	uint32_t i, j;

	memset(ret->slots, VALUE_SLOT_NONE, sizeof(ret->slots));
	memset(ret->words, WORD_NONE, sizeof(ret->words));
	memset(ret->paths, PATH_NONE, sizeof(ret->paths));
	for (i = 0; i < 3; i++)
		for (j = 0; j < all[i]->n; j++) {
			const struct source *source = &all[i]->sources[j];
			uint8_t slot = VALUE_SLOT_NONE, word;

			if (source->kind == SOURCE_VALUE)
				slot = slot_of(names, source->steps[0].name);
			if (slot == VALUE_SLOT_NONE)
				continue;
			ret->words[i * RULES_CHOICES_MAX + j] = word = word_of(ret, slot);
			if (word != WORD_NONE)
				ret->made[word] = made_at(names, slot);
			if (source__is_local(source) && word != WORD_NONE && (source->symbol || !rule->lasting))
				ret->copies |= (uint16_t)(1u << word);
			if (i < 2 && word != WORD_NONE && is_path(rule, source))
				add_path(ret, i * RULES_CHOICES_MAX + j, word);
			if (word != WORD_NONE && is_argument(names, source->steps[0].name, arguments))
				ret->arguments |= (uint8_t)(1u << word);
		}
	return ret->slots[0] != VALUE_SLOT_NONE;
}

/* Evaluates the sources that need only the function's own name (@function, @class ...), once for all samples. */
static void keep_own(struct units *units, const struct rule *rule, const char *name, struct rule_code *ret)
{
	const struct choices *all[2] = {&rule->name, &rule->signature};
	char text[RULES_WORD_MAX];
	uint32_t i, j;

	for (i = 0; i < 2; i++)
		for (j = 0; j < all[i]->n; j++)
			if (all[i]->sources[j].kind != SOURCE_TEXT && !source__text(&all[i]->sources[j], name, text, sizeof(text)))
				ret->own[i * RULES_CHOICES_MAX + j] = units__text(units, text, strlen(text));
}

/* A callback of slots__reserve(), to hash a row again when the index grows. */
static bool hash_rule_code(const void *holder, uint32_t i, uint64_t *ret)
{
	const struct units *units = holder;

	*ret = hash__pair(&units->seed, units->rule_codes[i].key, 0);
	return true;
}

const struct rule_code *captures__find(const struct units *units, uint64_t key)
{
	uint32_t row = SLOTS_FIND(&units->by_key, i, hash__pair(&units->seed, key, 0), units->rule_codes[i].key == key);

	return row == SLOTS_NONE ? NULL : &units->rule_codes[row];
}

/* False without memory: then the unit has no name. */
static bool capture(struct units *units, const struct rule_code *rule_code)
{
	return !SLOTS_ADD(&units->by_key, hash_rule_code, units, units->rule_codes, units->n_rule_codes, units->rule_codes_capacity, *rule_code);
}

/* --- functions, by their variables --- */

/* 64 bits of a keyed hash (base/hash.h) stand for the function: a target cannot provoke collisions. */
static uint64_t hash_function(const struct units *units, const char *name, const char *file, uint32_t line)
{
	return hash__pair(&units->seed, hash__bytes(&units->seed, name, strlen(name)),
			  hash__bytes(&units->seed, file, strlen(file)) + line);
}

static bool hash_function_rule(const void *holder, uint32_t i, uint64_t *ret)
{
	*ret = ((const struct units *)holder)->function_rules[i].hash;
	return true;
}

static const struct function_rule *find_function_rule(const struct units *units, uint64_t hash)
{
	uint32_t row = SLOTS_FIND(&units->by_function, i, hash, units->function_rules[i].hash == hash);

	return row == SLOTS_NONE ? NULL : &units->function_rules[row];
}

/* Remembers the answer for captures__rule(). Without memory it is left out: the function's name alone decides then. */
static void keep_function_rule(struct units *units, uint64_t hash, uint32_t rule, bool valued)
{
	if (!find_function_rule(units, hash))
		(void)SLOTS_ADD(&units->by_function, hash_function_rule, units, units->function_rules, units->n_function_rules,
				units->function_rules_capacity, (struct function_rule){hash, rule, valued});
}

uint32_t captures__rule(const struct units *units, const char *name, const char *file, uint32_t line, bool *ret_valued)
{
	const struct function_rule *known = NULL;

	if (units->n_function_rules)
		known = find_function_rule(units, hash_function(units, name, file, line));
	*ret_valued = !known || known->valued;
	return known ? known->rule : rules__python(units->rules, file, name, NULL);
}

/* A code object of a phase that a unit has at most once; read.c looks for it in each record. */
static void keep_once(struct units *units, uint64_t key)
{
	for (uint32_t i = 0; i < units->n_once; i++)
		if (units->once[i] == key)
			return;
	units->once[units->n_once++] = key;
}

/* The text of a symbol is copied by the sampler; else what the values point to has to be read. */
static uint16_t wakes_of(const struct rule *rule)
{
	const struct choices *all[3] = {&rule->name, &rule->signature, &rule->defined};
	uint32_t i, j;

	for (i = 0; i < 3; i++)
		for (j = 0; j < all[i]->n; j++)
			if (all[i]->sources[j].kind == SOURCE_VALUE && !all[i]->sources[j].symbol)
				return rule->lasting ? CAPTURE_WAKES_ONCE : CAPTURE_WAKES_CALLS;
	return CAPTURE_WAKES_NEVER;
}

/* What the sampler needs: the slots to copy, those whose objects it copies, too, and whether values wake. */
static void fill_capture(const struct units *units, const struct rule_code *rule_code, struct locals_capture *ret)
{
	*ret = (struct locals_capture){.key = rule_code->key,
				       .copies = rule_code->copies,
				       .wakes = wakes_of(rules__get(units->rules, rule_code->rule))};
	memcpy(ret->slots, rule_code->slots, sizeof(ret->slots));
}

bool units__code(struct units *units, const struct record_code *code, bool qualified, struct locals_capture *ret)
{
	const struct record_part *name = record__part(code, PART_QUALNAME), *file = record__part(code, PART_FILE);
	const struct record_part *variables = record__part(code, PART_VARIABLES);
	struct rule_code rule_code = {.key = code->key};
	const struct rule_code *known = captures__find(units, code->key);
	struct names names = {};
	struct buf *text = units->scratch;
	uint64_t hash, *unruled;
	bool wanted = false;

	/* The kernel sends a code object again when its cache was full. */
	if (known) {
		fill_capture(units, known, ret);
		return true;
	}
	if (!name)
		name = record__part(code, PART_NAME);
	/* The sampler could not read a part: the name alone decides, in captures__rule(). */
	if (!name || !file || !variables || name->loss || file->loss || variables->loss)
		return false;
	buf__clear(&text[0]);
	buf__clear(&text[1]);
	if (put_string((const void *)name, &text[0]) || put_string((const void *)file, &text[1]))
		return false;
	hash = hash_function(units, text[0].data, text[1].data, code->first_line);
	unruled = &units->unruled[hash % UNRULED_MAX];
	if (*unruled == hash)
		return false;
	/* Most code objects match no rule by name: stop before their variables are decoded. A name that may be the last part of another
	 * one is judged below, where the answer is kept: who asks by name alone later does not know whether it is qualified. */
	rule_code.rule = rules__python(units->rules, text[1].data, text[0].data, NULL);
	if (rule_code.rule == RULE_NONE) {
		*unruled = hash;
		return false;
	}
	read_names((const void *)variables, &names);
	rule_code.rule = rules__python(units->rules, text[1].data, text[0].data,
				    &(struct rule_variables){names.names, names.n, qualified});
	if (rule_code.rule != RULE_NONE && rules__get(units->rules, rule_code.rule)->once && units->n_once < ONCE_MAX)
		keep_once(units, code->key);
	if (rule_code.rule != RULE_NONE && place_words(rules__get(units->rules, rule_code.rule), &names, code->arg_count, &rule_code)) {
		keep_own(units, rules__get(units->rules, rule_code.rule), text[0].data, &rule_code);
		wanted = capture(units, &rule_code);
	}
	keep_function_rule(units, hash, rule_code.rule, wanted);
	if (wanted)
		fill_capture(units, &rule_code, ret);
	buf__free(&names.text);
	return wanted;
}

bool units__capture(const struct units *units, uint64_t key, struct locals_capture *ret)
{
	const struct rule_code *known = captures__find(units, key);

	if (known)
		fill_capture(units, known, ret);
	return known;
}

/* SPDX-License-Identifier: MIT */
/* Values of frames: what the rules' sources give for the locals that the sampler captured.
 *
 * A record has copies of the objects that locals hold themselves, and of those that their attributes lead to, once the
 * tick knows the way there (PART_OBJECT). The way is found here, when such an object is read first: its loads (struct py_path)
 * are the same for other objects of the class. What is read here may be another call's by then, so it is no name: that comes
 * with the next ticks. All else must be read when the record comes, as the objects may be freed at any time; the sample event,
 * which says where the frames are in the stack, comes up to seconds later. So each record's frames wait in a ring
 * (struct waiting) until tree.c takes them by thread and time. A thread that shows the same frames again
 * costs no reading.
 *
 *     record at 5.000 s:  frame 0x7f..10  self=0x7f..a0  -> "svd", "(float64,)"     read now: units__sample()
 *     event  at 5.000 s:  stack main > compile > lower   -> which unit?             later: read__take()
 *
 * The target runs on while its objects are read, and may be hostile: each pointer is only an address for
 * memory->read(), which fails where nothing is mapped, and python/values.h bounds what is followed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/collect.h"
#include "symbols/symbols.h"
#include "python/values.h"
#include "units/internal.h"

#define BACKOFF_MAX 1023
#define WAITING_FIRST 1024u
_Static_assert(VALUES_TEXT_MAX <= OBJECT_TEXT, "a copy has all that is read of a text");
/* ns: without a record for longer than this, a frame at the same address may be another call: read it again */
#define REUSED_MAX 50000000u

/* Replaces the text from `begin` on by the symbol in it, demangled: what stands between the first and the last single
 * quote, or all of it. */
static void put_symbol(struct buf *out, size_t begin)
{
	const char *text = out->data + begin, *end = out->data + out->len, *first, *last;
	struct buf name = {};

	first = memchr(text, '\'', out->len - begin);
	last = first ? memrchr(text, '\'', out->len - begin) : NULL;
	if (first != last) {
		text = first + 1;
		end = last;
	}
	if (!symbol__display(text, (size_t)(end - text), true, &name)) {
		out->len = begin;
		buf__append(out, name.data, name.len);
	}
	buf__free(&name);
}

/* Reads target memory: from the copies that the record carries where they cover the address, else as it is now. */
struct record_reader {
	struct host_reader reader;
	struct host_reader *now;
	const struct part_object *object;
};

/* Copies from a range of bytes that lies at `from` in the target. 0; -ENODATA: the address is outside of it, -EFAULT: the end is. An
 * address before the range wraps to a large number, and so is outside of it, too. */
static int read_range(const uint8_t *bytes, size_t len, uint64_t from, void *dst, size_t size, uint64_t address)
{
	uint64_t at = address - from;

	if (at >= len)
		return -ENODATA;
	if (size > len - at)
		return -EFAULT;
	memcpy(dst, bytes + at, size);
	return 0;
}

static int read_record(struct host_reader *reader, void *dst, size_t size, uint64_t address)
{
	const struct record_reader *self = (const void *)reader;
	const struct part_object *object = self->object;
	size_t head = object->apart ? object->begin : object->part.size - OBJECT_FIXED;
	int err = read_range(object->bytes, head, object->address, dst, size, address);

	if (err == -ENODATA && object->apart)
		err = read_range(object->bytes + object->begin, object->end - object->begin, object->apart, dst, size, address);
	return err == -ENODATA ? self->now->read(self->now, dst, size, address) : err;
}

/* The text of an object that the record has a copy of: as it was at the tick, as it is gone soon, mostly. NULL: there is none. */
static int read_copy(const struct values *values, const struct part_object *object, struct buf *out)
{
	static const struct source itself = {.kind = SOURCE_VALUE, .n = 1};
	struct record_reader memory = {.reader = {.read = read_record}, .now = values->memory, .object = object};
	struct values recorded = {.memory = &memory.reader, .layout = values->layout};

	if (!object)
		return -ENODATA;
	return object->flags & OBJECT_IS_TEXT ? values__put_text(&recorded, object->address, out) : values__text(&recorded, object->address, &itself, out);
}

/* What attributes lead to: of the record's copy. Without one the way there is looked for, for the ticks that follow: then -EAGAIN, as
 * what is there now may be of another call. But a thread that sleeps since is in the same call, and it may have no other sample. */
static int read_path(struct units *units, struct values *values, const struct sample *sample, const struct rule_code *rule_code,
		     const struct frame_values *frame, uint32_t path, uint64_t word, const struct source *source, struct buf *out)
{
	const struct part_object *object = sample__object_of_path(sample, frame->frame, path);
	struct py_path found;
	size_t begin = out->len;
	int err;

	if (object) {
		err = read_copy(values, object, out);
		return err && err != -ENODATA ? -EAGAIN : err; /* something is there, of a type that cannot be read now */
	}
	err = values__text_and_path(values, word, source, out, &found);
	if (err || !found.n)
		return err;
	found.key = py_path_key(rule_code->key, path, found.steps[0].value);
	if (units->n_paths < UNITS_PATHS_MAX)
		units->paths[units->n_paths++] = found;
	if (sample->values->flags & VALUES_ASLEEP || (sample->record->flags & SAMPLE_OFF_CPU && units->asleep && units->asleep(sample->record)))
		return 0;
	out->len = begin;
	return -EAGAIN;
}

/* The text of source number `i` of the rule code. `word & ~7`: new CPythons keep flags in the low bits of a reference (_PyStackRef). */
static int read_source(struct units *units, struct values *values, const struct sample *sample, const struct rule_code *rule_code, uint32_t i,
		       const struct frame_values *frame, const struct source *source, struct buf *out)
{
	const uint64_t word = frame->words[rule_code->words[i]];
	size_t begin = out->len;
	int err;

	if (rule_code->paths[i] < CAPTURE_PATHS)
		err = read_path(units, values, sample, rule_code, frame, rule_code->paths[i], word, source, out);
	else if (source__is_local(source) && rule_code->copies >> rule_code->words[i] & 1)
		err = read_copy(values, sample__object(sample, word & ~7ull), out);
	else
		err = values__text(values, word, source, out);
	if (!err && source->symbol)
		put_symbol(out, begin);
	return err;
}

/* The mask of one word; none for WORD_NONE. */
static uint8_t word_bit(uint8_t word)
{
	return word < FRAME_VALUES_WORDS ? (uint8_t)(1u << word) : 0;
}

static uint8_t path_bit(uint8_t path)
{
	return path < CAPTURE_PATHS ? (uint8_t)(1u << (FRAME_VALUES_WORDS + path)) : 0;
}

/* Does source number `i` give something? What cannot be read, as the object or the process is gone, is not there if it never was;
 * else it may be there, and what the rule names next would be a wrong name. */
static bool reads(struct units *units, const struct rule_code *rule_code, uint32_t i, int err, bool *unknown)
{
	bool *gave = &units->rule_codes[rule_code - units->rule_codes].gave[i];

	if (err == -ENODATA || (err && err != -EAGAIN && !*gave))
		return false;
	*gave = true;
	*unknown |= err != 0;
	return true;
}

/* Appends the first choice of `a | b + c | d` that gives a text; none, if what one before it gives is not known yet. `first`: the place
 * of its sources in the rule code. *asked: mask of the words that the answer depends on, so those of failed choices, too. */
static bool read_choice(struct units *units, struct values *values, const struct sample *sample, const struct choices *choices,
			const struct rule_code *rule_code, uint32_t first, const struct frame_values *frame, struct buf *out, uint8_t *asked)
{
	const uint8_t *words = rule_code->words + first;
	const uint32_t *own = rule_code->own + first;
	uint32_t i = 0;
	bool unknown = false; /* what one of them gives, for now; the others' ways are looked for all the same */

	buf__clear(out);
	while (i < choices->n) {
		const struct source *source = &choices->sources[i];
		bool found = source->kind == SOURCE_TEXT && !buf__puts(out, source->text);

		*asked |= word_bit(words[i]) | path_bit(rule_code->paths[first + i]);
		if (source->kind == SOURCE_VALUE && words[i] < FRAME_VALUES_WORDS)
			found = reads(units, rule_code, first + i, read_source(units, values, sample, rule_code, first + i, frame, source, out), &unknown);
		else if (own[i])
			found = !buf__puts(out, texts__get(&units->texts, own[i]));
		if (found && !source->joined)
			return !unknown;
		i = found ? i + 1 : choices__next(choices, i);
		if (!found)
			buf__clear(out);
	}
	return false;
}

/* A value without a name most often never gets one: back off, 1, 3, 7 ... 1023 samples between two tries. */
static bool to_be_read(struct value *value)
{
	if (value->named)
		return false;
	if (!value->skip)
		return true;
	value->skip--;
	return false;
}

/* Reads name, signature and definition of one frame, by its rule. If the name, or the signature of a compile, could not
 * be read, ret->skip says how many samples to skip before the next try. */
static void read_value(struct units *units, const struct rule_code *rule_code, const struct frame_values *frame,
		       const struct sample *sample, struct host_reader *memory, const struct py_layout *layout, struct value *ret)
{
	const struct rule *rule = rules__get(units->rules, rule_code->rule);
	const struct compiler *compiler = rules__compiler(units->rules, rule->compiler);
	struct values values = {.memory = memory, .layout = layout, .classes = &units->classes, .process = units->process};
	struct buf *out = &units->scratch[0];
	char name[RULES_WORD_MAX];
	uint32_t i;

	ret->asked = 0;
	ret->named = read_choice(units, &values, sample, &rule->name, rule_code, 0, frame, out, &ret->asked);
	if (ret->named && out->len < sizeof(name) && rule->kind != RULE_UNIT && rule->kind != RULE_LINE) {
		memcpy(name, out->data, out->len);
		name[out->len] = '\0';
		compiler__polish(compiler, name);
		ret->name = units__text(units, name, strlen(name));
	} else if (ret->named) {
		ret->name = units__text(units, out->data, out->len);
	}
	if (read_choice(units, &values, sample, &rule->signature, rule_code, RULES_CHOICES_MAX, frame, out, &ret->asked))
		ret->signature = units__text(units, out->data, out->len);
	else if (rule->signature.n && rule->kind != RULE_PHASE)
		ret->named = false;
	for (i = 0; i < rule->defined.n; i++) {
		uint8_t word = rule_code->words[2 * RULES_CHOICES_MAX + i];

		ret->asked |= word_bit(word);
		buf__clear(out);
		if (word < FRAME_VALUES_WORDS &&
		    !values__defined(&values, frame->words[word], &rule->defined.sources[i], out, &ret->line)) {
			ret->file = units__text(units, out->data, out->len);
			break;
		}
	}
	/* The object that names the unit is the local with which the first source of its name begins. Never
	 * 0: | 1. */
	i = rule->name.sources[0].kind == SOURCE_VALUE ? rule_code->words[0] : FRAME_VALUES_WORDS;
	if (ret->named && rule->kind == RULE_UNIT && i < FRAME_VALUES_WORDS)
		ret->object = (uint32_t)hash__pair(&units->seed, frame->words[i] & ~7ull, 1) | 1;
	if (!ret->named)
		ret->skip = ret->backoff = (uint16_t)(ret->backoff < BACKOFF_MAX ? 2 * ret->backoff + 1 : BACKOFF_MAX);
}

/* The same, but what lasts is read once. */
static void read_or_recall(struct units *units, const struct rule_code *rule_code, const struct frame_values *frame, const struct seen_frame *seen,
			   const struct sample *sample, struct host_reader *memory, const struct py_layout *layout, struct value *ret)
{
	struct lasting_value *lasting;
	uint64_t hash;

	if (!rules__get(units->rules, rule_code->rule)->lasting) {
		read_value(units, rule_code, frame, sample, memory, layout, ret);
		return;
	}
	hash = hash__pair(&units->seed, hash__pair(&units->seed, units->process, rule_code->key), seen->words) | 1;
	lasting = &units->lasting[(hash >> 32) % LASTING_MAX];
	if (lasting->hash == hash) {
		*ret = lasting->value;
		return;
	}
	read_value(units, rule_code, frame, sample, memory, layout, ret);
	if (ret->named)
		*lasting = (struct lasting_value){hash, *ret};
}

/* Linear: threads that compile are few. */
static struct reading *find_reading(struct units *units, uint32_t tid)
{
	for (uint32_t i = 0; i < units->n_readings; i++)
		if (units->readings[i].tid == tid)
			return &units->readings[i];
	return NULL;
}

static struct reading *reading_of(struct units *units, const struct record_task *task)
{
	struct reading *reading = find_reading(units, task->tid);

	if (!reading) {
		if (ARRAY_RESERVE(units->readings, units->n_readings, units->readings_capacity))
			return NULL;
		reading = &units->readings[units->n_readings++];
		*reading = (struct reading){.tid = task->tid};
	}
	if (reading->process_start != task->process_start)
		reading->n = 0; /* the kernel reused the thread id */
	reading->process_start = task->process_start;
	return reading;
}

/* The value of a copy: characters, digits, or which object of which type. Never 0, even without the low bits: that means "unset". */
static uint64_t hash_object(const struct units *units, const struct part_object *object, uint64_t word)
{
	return hash__pair(&units->seed, word, hash__bytes(&units->seed, object->bytes + object->begin, object->end - object->begin)) | 8;
}

/* What paths lead to; 0: nothing, or the tick does not know the way. False: there was no room for all. */
static bool path_words(const struct units *units, const struct sample *sample, const struct rule_code *rule_code, const struct frame_values *frame,
		       uint64_t ret[static CAPTURE_PATHS])
{
	for (uint32_t i = 0; i < CAPTURE_PATHS; i++) {
		const struct part_object *object = capture_path(rule_code->copies, i) ? sample__object_of_path(sample, frame->frame, i) : NULL;

		ret[i] = object ? hash_object(units, object, object->flags & OBJECT_IS_TEXT ? 0 : object->address) : 0;
		if (!object && capture_path(rule_code->copies, i) && sample->values->flags & VALUES_OBJECTS_CUT)
			return false;
	}
	return true;
}

/* The words of a frame, by what they tell: another object may lie at the same address as the last one. False: a copy is missing. */
static bool content_words(const struct units *units, const struct sample *sample, const struct rule_code *rule_code, const struct frame_values *frame,
			  uint64_t ret[static UNIT_WORDS])
{
	for (uint32_t i = 0; i < FRAME_VALUES_WORDS; i++) {
		const uint64_t word = frame->words[i];
		const struct part_object *object;

		ret[i] = word;
		if (!(rule_code->copies >> i & 1) || !(word & ~7ull))
			continue;
		object = sample__object(sample, word & ~7ull);
		if (!object)
			return false;
		ret[i] = hash_object(units, object, word);
	}
	return path_words(units, sample, rule_code, frame, ret + FRAME_VALUES_WORDS);
}

/* Never 0, which means "not read". */
static uint64_t hash_words(const struct units *units, const uint64_t *words, uint32_t n)
{
	uint64_t hash = 1;

	for (uint32_t i = 0; i < n; i++)
		hash = hash__pair(&units->seed, hash, words[i]);
	return hash | 1;
}

/* Of the paths that the value depends on: others come and go with what the tick has learnt. 0: one is not known. */
static uint64_t hash_paths(const struct units *units, const uint64_t words[static UNIT_WORDS], uint8_t asked)
{
	uint64_t hash = 1;

	for (uint32_t i = FRAME_VALUES_WORDS; i < UNIT_WORDS; i++) {
		if (!(asked >> i & 1))
			continue;
		if (!words[i])
			return 0;
		hash = hash__pair(&units->seed, hash, words[i]);
	}
	return hash | 1;
}

/* A bit for each word whose variable is unset. */
static uint8_t unset_words(const struct rule_code *rule_code, const struct frame_values *frame)
{
	uint8_t unset = 0;

	for (uint32_t i = 0; i < FRAME_VALUES_WORDS; i++)
		if (rule_code->slots[i] != VALUE_SLOT_NONE && !(frame->words[i] & ~7ull))
			unset |= (uint8_t)(1u << i);
	return unset;
}

/* What was read where a cell is not made yet is no value: the local counts as unset. Returns the mask of such words. */
static uint8_t unmade_words(const struct rule_code *rule_code, int32_t offset, struct frame_values *frame)
{
	uint8_t unmade = 0;

	for (uint32_t i = 0; i < FRAME_VALUES_WORDS; i++)
		if (offset < rule_code->made[i]) {
			frame->words[i] = 0;
			frame->unread &= (uint8_t)~(1u << i);
			unmade |= (uint8_t)(1u << i);
		}
	return unmade;
}

/* Are the words the same, but for locals that were unset before and that the name does not depend on? */
static bool same_but_unset(const uint64_t *before, uint8_t asked, const uint64_t *now)
{
	for (uint32_t i = 0; i < UNIT_WORDS; i++)
		if (before[i] != now[i] && ((before[i] & ~7ull) || asked >> i & 1))
			return false;
	return true;
}

/* The same call in the sample before. Its values were read then, and the frame has held references to the objects
 * since, so they are still right. A name survives when further locals are set: a second read might come too late.
 * Called from elsewhere it is another call, whose words may point to new objects in the memory of freed ones: a unit of
 * its own for tree.c, too, which sees that by the lines of the callers. */
static const struct seen_frame *seen_before(const struct reading *reading, const struct seen_frame *frame,
					    const uint64_t words[static UNIT_WORDS])
{
	for (uint32_t i = 0; i < reading->n; i++)
		if (reading->frames[i].address == frame->address && reading->frames[i].key == frame->key &&
		    (reading->frames[i].called_from == frame->called_from || !frame->called_from || !reading->frames[i].called_from) &&
		    (reading->frames[i].words == frame->words ||
		     (reading->frames[i].value.named && same_but_unset(reading->words[i], reading->frames[i].value.asked, words))))
			return &reading->frames[i];
	return NULL;
}

static bool is_in(const uint64_t *keys, uint32_t n, uint64_t key)
{
	for (uint32_t i = 0; i < n; i++)
		if (keys[i] == key)
			return true;
	return false;
}

/* Never 0, which means "not known". A target that made two places alike would have a wrong name, of its own. */
static uint64_t mix_frame(uint64_t places, const struct py_frame *frame)
{
	places = (places ^ frame->code) * 0x9e3779b97f4a7c15ull;
	places = ((places >> 32 ^ places) + (uint32_t)frame->offset) * 0xbf58476d1ce4e5b9ull;
	return places | 1;
}

/* Has a phase that a unit has only once begun again? Then the frame that looks like the unit of the record before is a
 * new call. tree.c finds that out, too, but seconds later: the values must be read now, while the objects exist. */
static bool begun_again(const struct units *units, struct reading *reading, const struct part_py_frames *python)
{
	uint64_t now[HAD_MAX];
	uint32_t n = 0, i;
	bool again = false;

	for (i = 0; units->n_once && i < python->n && n < HAD_MAX; i++)
		if (is_in(units->once, units->n_once, python->frames[i].code))
			now[n++] = python->frames[i].code;
	for (i = 0; i < n; i++)
		if (!is_in(reading->now, reading->n_now, now[i]) && is_in(reading->had, reading->n_had, now[i]))
			again = true;
	if (again)
		reading->n_had = 0;
	for (i = 0; i < n; i++)
		if (reading->n_had < HAD_MAX && !is_in(reading->had, reading->n_had, now[i]))
			reading->had[reading->n_had++] = now[i];
	memcpy(reading->now, now, n * sizeof(*now));
	reading->n_now = n;
	return again;
}

/* --- frames of records that wait --- */

/* Reference counted: successive records of a thread mostly have equal frames. Only `frames` is passed around. */
struct shared_frames {
	uint64_t holds;
	struct seen_frame frames[];
};

static struct seen_frame *frames__new(const struct seen_frame *frames, uint32_t n)
{
	struct shared_frames *shared = malloc(sizeof(*shared) + (n + 1) * sizeof(*frames));

	if (!shared)
		return NULL;
	shared->holds = 1;
	memcpy(shared->frames, frames, n * sizeof(*frames));
	return shared->frames;
}

static struct shared_frames *shared_of(struct seen_frame *frames)
{
	return (void *)((char *)frames - offsetof(struct shared_frames, frames));
}

static struct seen_frame *frames__share(struct seen_frame *frames)
{
	shared_of(frames)->holds++;
	return frames;
}

static void frames__drop(struct seen_frame *frames)
{
	if (frames && !--shared_of(frames)->holds)
		free(shared_of(frames));
}

/* Of a thread that was switched out, the record is kept for its place: events of off-CPU time there come later, some
 * until the next record of that place. */
static struct waiting *off_cpu_place(struct reading *reading, uint64_t key)
{
	struct waiting *all = reading->off_cpu, *oldest = all;

	for (uint32_t i = 0; i < OFF_CPU_MAX; i++) {
		if (all[i].frames && all[i].key == key)
			return &all[i];
		if (all[i].time < oldest->time)
			oldest = &all[i];
	}
	return oldest;
}

/* Removes the oldest record. */
static void drop_first(struct units *units)
{
	struct waiting *first = &units->waiting[units->waiting_first];
	struct reading *reading = first->off_cpu ? find_reading(units, first->tid) : NULL;
	struct waiting *place = reading ? off_cpu_place(reading, first->key) : NULL;

	if (place) {
		frames__drop(place->frames);
		*place = *first;
	} else {
		frames__drop(first->frames);
	}
	first->frames = NULL;
	units->waiting_first = (units->waiting_first + 1) % units->waiting_capacity;
	units->n_waiting--;
}

/* The ring is unrolled into the larger array: the oldest record comes first again. */
static bool grow_waiting(struct units *units)
{
	uint32_t capacity = units->waiting_capacity ? units->waiting_capacity * 2 : WAITING_FIRST, i;
	struct waiting *grown;

	if (capacity > UNITS_WAITING_MAX || !(grown = calloc(capacity, sizeof(*grown))))
		return false;
	for (i = 0; i < units->n_waiting; i++)
		grown[i] = units->waiting[(units->waiting_first + i) % units->waiting_capacity];
	free(units->waiting);
	units->waiting = grown;
	units->waiting_first = 0;
	units->waiting_capacity = capacity;
	return true;
}

/* The ring is full: the oldest record loses its values, and its unit perhaps its name. */
static struct waiting *wait_for(struct units *units, struct seen_frame *frames, uint64_t time)
{
	struct waiting *waiting, *before;
	uint32_t at;

	if (units->n_waiting == units->waiting_capacity && !grow_waiting(units)) {
		if (!units->n_waiting)
			return NULL;
		drop_first(units);
	}
	/* One of a thread that has slept since the session began is older than others that came before. */
	for (at = units->n_waiting++; at; at--) {
		waiting = &units->waiting[(units->waiting_first + at) % units->waiting_capacity];
		before = &units->waiting[(units->waiting_first + at - 1) % units->waiting_capacity];
		if (before->time <= time)
			break;
		*waiting = *before;
	}
	waiting = &units->waiting[(units->waiting_first + at) % units->waiting_capacity];
	*waiting = (struct waiting){.frames = frames__share(frames), .time = time};
	return waiting;
}

/* Unpacks the captured frames of a record, innermost first; words that a frame does not have are 0. Returns the number
 * of frames; a part that does not fit its own size (it comes from the ring) ends there. */
static uint32_t take_part(const struct part_values *part, struct frame_values ret[static VALUES_FRAMES_MAX])
{
	const uint8_t *at = (const void *)(part + 1);
	size_t left = part->part.size - sizeof(*part), size;
	uint32_t n;

	for (n = 0; n < part->n && n < VALUES_FRAMES_MAX && left >= FRAME_VALUES_HEAD; n++) {
		ret[n] = (struct frame_values){};
		memcpy(&ret[n], at, FRAME_VALUES_HEAD);
		size = FRAME_VALUES_HEAD + ret[n].n * sizeof(ret[n].words[0]);
		if (ret[n].n > FRAME_VALUES_WORDS || size > left)
			break;
		memcpy(ret[n].words, at + FRAME_VALUES_HEAD, size - FRAME_VALUES_HEAD);
		at += size;
		left -= size;
	}
	return n;
}

int units__sample(struct units *units, const struct sample *sample, struct host_reader *memory,
		  const struct py_layout *layout)
{
	const struct part_py_frames *python = sample->python;
	const struct record_header *header = &sample->record->header;
	struct frame_values values[VALUES_FRAMES_MAX];
	struct seen_frame frames[VALUES_FRAMES_MAX];
	uint64_t words[VALUES_FRAMES_MAX][UNIT_WORDS];
	struct reading *reading;
	struct waiting *waiting;
	uint32_t i, n_values, n = 0, outer = python ? python->n : 0;
	uint64_t called_from = 1;
	bool again, whole;

	if (!sample->values || !python) {
		/* No frame of a rule is on the stack now: the old ones ended, and their addresses may be used again. */
		reading = python && !python->part.loss ? find_reading(units, header->task.tid) : NULL;
		if (reading)
			reading->n = 0;
		return 0;
	}
	n_values = take_part(sample->values, values);
	reading = reading_of(units, &header->task);
	if (!reading)
		return -ENOMEM;
	units->process = hash__pair(&units->seed, header->task.process_start,
				    header->task.tgid | (uint64_t)header->task.exec << 32);
	again = begun_again(units, reading, python);
	if (header->time - reading->time > REUSED_MAX)
		reading->n = 0;
	reading->time = header->time;
	for (i = n_values; i-- > 0;) { /* outermost first */
		const struct seen_frame *before;
		const struct rule_code *rule_code;
		struct seen_frame *to = &frames[n];
		uint8_t unset, unmade;

		/* The record's own numbers are not trusted. */
		if (values[i].frame >= python->n)
			continue;
		rule_code = captures__find(units, python->frames[values[i].frame].code);
		if (!rule_code)
			continue;
		memset(to, 0, sizeof(*to)); /* padding too: frames are compared with memcmp() */
		while (outer > values[i].frame + 1u)
			called_from = mix_frame(called_from, &python->frames[--outer]);
		to->called_from = python->part.loss ? 0 : called_from; /* the outermost frames may be missing */
		unmade = unmade_words(rule_code, python->frames[values[i].frame].offset, &values[i]);
		whole = content_words(units, sample, rule_code, &values[i], words[n]);
		to->key = rule_code->key;
		to->rule = rule_code->rule;
		to->outside = python->n - 1 - values[i].frame;
		n++;
		/* Locals that could not be read, or other slots than this rule asks for: no values. */
		if (!whole || values[i].unread || memcmp(values[i].slots, rule_code->slots, sizeof(rule_code->slots)) != 0)
			continue;
		to->address = values[i].address;
		to->words = hash_words(units, words[n - 1], UNIT_WORDS);
		to->locals = hash_words(units, words[n - 1], FRAME_VALUES_WORDS);
		unset = unset_words(rule_code, &values[i]);
		to->unset = unset & (~rule_code->arguments | unmade);
		to->deleted = unset & rule_code->arguments & ~unmade;
		before = again && rules__get(units->rules, rule_code->rule)->kind == RULE_UNIT ? NULL : seen_before(reading, to, words[n - 1]);
		if (before)
			to->value = before->value;
		if (memory && to_be_read(&to->value)) {
			read_or_recall(units, rule_code, &values[i], to, sample, memory, layout, &to->value);
			to->value.read = header->time;
		}
		to->paths = hash_paths(units, words[n - 1], to->value.asked);
	}
	/* A new allocation only if something changed: most ticks show the same frames as the one before. */
	if (!reading->shared || reading->n != n || memcmp(reading->shared, frames, n * sizeof(*frames)) != 0) {
		frames__drop(reading->shared);
		reading->shared = frames__new(frames, n);
	}
	memcpy(reading->frames, frames, n * sizeof(*frames));
	memcpy(reading->words, words, n * sizeof(*words));
	reading->n = n;
	waiting = reading->shared ? wait_for(units, reading->shared, header->time) : NULL;
	if (!waiting)
		return -ENOMEM;
	waiting->tid = header->task.tid;
	waiting->n = n;
	waiting->off_cpu = sample->record->flags & SAMPLE_OFF_CPU;
	waiting->key = sample->wait ? sample->wait->key : 0;
	waiting->python = python->n;
	return 0;
}

/* Events come in order of time: a record older than the current event's was dropped as a sample, or its event came. */
static void drop_before(struct units *units, uint64_t time)
{
	while (units->n_waiting && units->waiting[units->waiting_first].time < time)
		drop_first(units);
}

/* Of the records that wait. */
static const struct waiting *find_waiting(const struct units *units, uint32_t tid, uint64_t time, bool off_cpu)
{
	for (uint32_t i = 0; i < units->n_waiting; i++) {
		const struct waiting *waiting = &units->waiting[(units->waiting_first + i) % units->waiting_capacity];

		if (waiting->time > time)
			break;
		if (waiting->time == time && waiting->tid == tid && waiting->off_cpu == off_cpu)
			return waiting;
	}
	return NULL;
}

const struct waiting *read__off_cpu(struct units *units, uint32_t tid, uint64_t taken, uint64_t time)
{
	const struct reading *reading = find_reading(units, tid);

	drop_before(units, time);
	for (uint32_t i = 0; reading && i < OFF_CPU_MAX; i++)
		if (reading->off_cpu[i].frames && reading->off_cpu[i].time == taken)
			return &reading->off_cpu[i];
	/* A wait's event may have an earlier time than its stack (profile/waits.c). */
	return find_waiting(units, tid, taken, true);
}

const struct waiting *read__take(struct units *units, uint32_t tid, uint64_t time)
{
	drop_before(units, time);
	return find_waiting(units, tid, time, false);
}

void read__free(struct units *units)
{
	uint32_t i, place;

	for (i = 0; i < units->waiting_capacity; i++)
		frames__drop(units->waiting[i].frames);
	for (i = 0; i < units->n_readings; i++) {
		for (place = 0; place < OFF_CPU_MAX; place++)
			frames__drop(units->readings[i].off_cpu[place].frames);
		frames__drop(units->readings[i].shared);
	}
	free(units->waiting);
	free(units->readings);
}

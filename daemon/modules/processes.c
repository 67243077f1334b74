/* SPDX-License-Identifier: MIT */
/* Processes: what they map, read anew when it may have changed. process->code[] has executable mappings only, in two
 * parts: those that were there at the last reading, in order of address, then those that are gone (for KEPT_NS, since
 * samples of before still come).
 *
 * Each has a time of birth and of death, so that "what was at this pc at that time?" has one answer, although it is
 * asked up to some seconds later. These times are exact where the sampler reported a mapping (changes.c); else they are
 * those of our readings. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/blocking.h"
#include "modules/internal.h"

#define READ_NS (1000 * MS)   /* without a reason */
#define READ_SHARE 400u       /* ... of all processes together: no more than this part of the time */
#define PAUSE_FIRST (20 * MS) /* after a pc in no mapping; doubles while that stays so */
#define PAUSE_LAST (500 * MS)
#define KEPT_NS (5000 * MS)
#define GONE_MAX 1024u

/* --- mappings --- */

/* Is it the same mapping as at the last reading? A file is known by its inode, as a path may name another one by
 * now. */
static bool same(const struct code *code, const struct mapping *m)
{
	const struct file *file = code->file;

	return code->start == m->start && code->end == m->end && code->offset == m->offset &&
	       (file ? file->image || (file->inode == m->inode && file->major == m->major &&
				       file->minor == m->minor)
		     : !m->inode);
}

/* A mapping that is new. Its birth is the time of the report that its room was given away, if there was one; else that
 * of the last reading. */
static void add_code(struct modules *modules, struct modules_process *process,
		     const struct mapping *m, struct code *to, uint64_t born)
{
	*to = (struct code){.start = m->start, .end = m->end, .offset = m->offset, .born = born};
	to->file = files__get(modules, process, m);
	to->born = changes__taken(process, m->start, m->end, born);
	to->exact = to->born != born;
	to->seen_at_poll = process->polls;
}

/* Makes process->code[] anew from what was read: mappings that were there before keep their entry (with its times), new
 * ones are added, and those that are missing go behind, the newest first, at most GONE_MAX. Both lists are sorted by
 * address, so one pass is enough. */
static int merge(struct modules *modules, struct modules_process *process, const struct maps *maps,
		 uint64_t now)
{
	/* A new mapping came after the last reading began; a report of the sampler may know it better. */
	uint64_t born = process->read_at;
	bool files = false;
	struct code *fresh;
	uint32_t n = 0, gone, old = 0, i;
	size_t k, executable = 0;

	for (k = 0; k < maps->n; k++)
		executable += maps->items[k].flags & MAPPING_EXEC ? 1 : 0;
	if (executable > MODULES_MAPPINGS_MAX)
		executable = MODULES_MAPPINGS_MAX;
	process->polls++;
	fresh = calloc(executable + process->n + process->n_gone + 1, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	for (k = 0; k < maps->n && n < executable; k++) {
		const struct mapping *m = &maps->items[k];

		if (!(m->flags & MAPPING_EXEC) || m->start >> 63)
			continue;
		while (old < process->n && process->code[old].start < m->start)
			old++;
		if (old < process->n && same(&process->code[old], m) &&
		    !(process->code[old].file && process->code[old].file->state == FILE_NEW)) {
			fresh[n++] = process->code[old];
			process->code[old].died = 1; /* moved */
		} else {
			add_code(modules, process, m, &fresh[n], born);
			files |= fresh[n++].file != NULL;
		}
	}
	gone = n;
	for (i = 0; i < process->n + process->n_gone && gone < n + GONE_MAX; i++) {
		if (i < process->n && process->code[i].died)
			continue;
		if (!process->code[i].file) /* a JIT's: its objects have times of their own */
			continue;
		fresh[gone] = process->code[i];
		if (i < process->n) {
			files = true;
			fresh[gone].died = changes__left(process, fresh[gone].start,
							 fresh[gone].end, born);
			if (fresh[gone].died == born) /* it was only unmapped */
				fresh[gone].died = now;
		}
		gone++;
	}
	free(process->code);
	process->code = fresh;
	process->n = n;
	process->n_gone = gone - n;
	process->file_answers += files;
	process->dirty |= files; /* no list has other code */
	modules->answers++;
	return 0;
}

/* Hash of the executable mappings; *ret_files: of those of files alone. Most readings find nothing new: the hash tells
 * that without a merge. 0 means "not known" elsewhere, so it is never returned. A target may construct two sets of
 * mappings with the same hash: then its own names are wrong, and nobody else's. FNV-1a's constants. */
static uint64_t hash_code(const struct maps *maps, uint64_t *ret_files)
{
	uint64_t hash = 0xcbf29ce484222325ull, one;

	*ret_files = 1;
	for (size_t i = 0; i < maps->n; i++) {
		const struct mapping *m = &maps->items[i];

		if (!(m->flags & MAPPING_EXEC) || m->start >> 63)
			continue;
		one = (((0xcbf29ce484222325ull ^ m->start) * 0x100000001b3ull ^ m->end) *
			       0x100000001b3ull ^
		       m->offset ^ m->inode << 20 ^ m->minor) *
		      0x9e3779b97f4a7c15ull;
		hash = (hash ^ one) * 0x100000001b3ull;
		if (m->inode)
			*ret_files = (*ret_files ^ one) * 0x100000001b3ull;
	}
	return hash ? hash : 1;
}

static void find_interpreter(struct modules *modules, struct modules_process *process,
			     const struct maps *maps)
{
	const struct file *before = process->interpreter;
	const struct mapping *m = process->runtime ? maps__find(maps, process->runtime) : NULL;

	/* _PyRuntime may lie in .bss, behind what is mapped of the file. */
	for (size_t at = m ? (size_t)(m - maps->items) : 0; m && !m->inode && at > 0; at--)
		m = &maps->items[at - 1];
	if (!m || !m->inode)
		return;
	for (uint32_t i = 0; i < process->n; i++) {
		const struct file *file = process->code[i].file;

		if (file && file->inode == m->inode && file->major == m->major &&
		    file->minor == m->minor)
			process->interpreter = file;
	}
	modules->answers += process->interpreter != before;
	process->file_answers += process->interpreter != before;
}

/* A file that could not be opened by one mapping is opened by another. */
static void ask_again(struct modules_process *process)
{
	for (uint32_t i = 0; i < process->n; i++) {
		struct file *file = process->code[i].file;

		if (!file || file->state != FILE_NEW || file->pid)
			continue;
		file->pid = process->pid;
		file->start = process->code[i].start;
		file->end = process->code[i].end;
	}
}

/* Most often only code of a JIT came or went: no names are needed for that, and reading without names is cheaper
 * (maps__read_code()). False: they have to be read with names. */
static bool read_code(const struct modules_process *process, struct maps *ret)
{
	uint64_t files;

	if (!process->files_hash || (process->runtime && !process->interpreter) ||
	    maps__read_code(process->maps, ret))
		return false;
	hash_code(ret, &files);
	if (ret->n && files == process->files_hash)
		return true;
	maps__free(ret);
	return false;
}

/* Reads the mappings once, and takes over what changed. */
static void poll_mappings(struct modules *modules, struct modules_process *process, uint64_t now)
{
	struct maps maps = {};
	/* The times of this reading itself, as `now` may be some time ago: a mapping must not seem to be younger than
	 * the reading that found it. */
	uint64_t hash, files, begin = modules__clock(), end;
	int err = 0;
	bool code_alone = read_code(process, &maps);

	if (!code_alone)
		err = maps__read(process->maps, &maps);
	end = modules__clock();
	if (!err && maps.n) {
		hash = hash_code(&maps, &files);
		if (hash == process->maps_hash) {
			process->files_hash = files;
		} else if (!merge(modules, process, &maps, end)) {
			process->maps_hash = hash;
			process->files_hash = files;
			process->pause = 0;
		}
		if (!code_alone)
			find_interpreter(modules, process, &maps);
	}
	ask_again(process);
	if (process->jit && now > KEPT_NS)
		jit__done(process->jit, now - KEPT_NS);
	process->read_at = begin;
	process->read_end = end;
	process->poll_soon = changes__settle(process, begin);
	process->poll_ns = modules__clock() - begin;
	maps__free(&maps);
}

/* The broker says that it cannot open this file: is it mapped there still? */
bool processes__maps(const struct modules *modules, const struct file *file)
{
	const struct modules_process *process = modules->processes;
	struct maps maps = {};
	bool there = false;

	while (process && (process->pid != file->pid || process->maps < 0))
		process = process->next;
	if (process && !maps__read(process->maps, &maps)) {
		const struct mapping *m = maps__find(&maps, file->start);

		there = m && m->inode == file->inode && m->major == file->major &&
			m->minor == file->minor;
	}
	maps__free(&maps);
	return there;
}

/* Segments of a file become known when the worker has read it, after its mappings. */
static void bias_all(struct modules_process *process)
{
	for (uint32_t i = 0; i < process->n; i++) {
		struct code *code = &process->code[i];

		if (code->file && !code->biased && code->file->segments.n &&
		    !segments__bias(&code->file->segments, code->offset, code->start, &code->bias))
			code->biased = true;
	}
}

/* --- life --- */

/* Its salt makes addresses of two processes (or of two images of one) different keys in the sampler's cache of
 * rules. */
struct modules_process *processes__add(struct modules *modules, int32_t pid,
				       const struct image_key *key, uint64_t opened)
{
	struct modules_process *process;

	if (modules->n_processes == MODULES_PROCESSES_MAX)
		return NULL;
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	process->id = ++modules->last_process;
	process->pid = pid;
	process->key = *key;
	process->mem = memory_reader__of(-1);
	process->maps = -1;
	process->opened = opened;
	process->salt = (modules->salts += 0x9e3779b97f4a7c15ull) | 1;
	process->next = modules->processes;
	modules->processes = process;
	process->next_of_pid = modules->of_pid[(uint32_t)pid % MODULES_BUCKETS];
	modules->of_pid[(uint32_t)pid % MODULES_BUCKETS] = process;
	modules->n_processes++;
	room__open(modules);
	return process;
}

void modules_process__memory(struct modules_process *process, int mem, int maps)
{
	process->mem.fd = fcntl(mem, F_DUPFD_CLOEXEC, 3);
	process->maps = fcntl(maps, F_DUPFD_CLOEXEC, 3);
	process->poll_soon = true;
}

struct modules_process *modules__open_process(struct modules *modules, int32_t pid,
					      const struct image_key *key, int mem, int maps,
					      uint64_t now)
{
	struct modules_process *process = processes__add(modules, pid, key, now);

	if (!process)
		return NULL;
	modules_process__memory(process, mem, maps);
	poll_mappings(modules, process, now);
	files__ask(modules);
	jit_files__scan(modules, process, now);
	return process;
}

void modules_process__runtime(struct modules_process *process, uint64_t address)
{
	process->runtime = address;
	process->files_hash = process->poll_ns = 0;
	process->poll_soon = true; /* the next tick finds the module */
}

static void close_files(struct modules_process *process)
{
	if (process->mem.fd >= 0)
		blocking__close(process->mem.fd);
	if (process->maps >= 0)
		blocking__close(process->maps);
	process->mem.fd = process->maps = -1;
	jit_files__close(process);
}

/* Its image is gone (exit, exec). It is kept for KEPT_NS, for samples that were taken before. */
void modules__close_process(struct modules *modules, struct modules_process *process, uint64_t now)
{
	if (process->closed)
		return;
	jit_files__poll(modules, process, now); /* its last words */
	process->closed = now;
	lists__drop(modules, process, now);
	close_files(process);
}

/* Nobody keeps a pointer to a closed process: others refer to it by its number (id). */
static void free_process(struct modules *modules, struct modules_process *process, uint64_t now)
{
	struct modules_process **at = &modules->processes;

	while (*at != process)
		at = &(*at)->next;
	*at = process->next;
	for (at = &modules->of_pid[(uint32_t)process->pid % MODULES_BUCKETS]; *at != process; at = &(*at)->next_of_pid)
		;
	*at = process->next_of_pid;
	modules->n_processes--;
	close_files(process);
	objects__free(modules, process, now);
	jit_files__free(modules, process, now);
	jit__free(process->jit);
	free(process->code);
	free(process);
}

void processes__undo(struct modules *modules, struct modules_process *process, uint64_t now)
{
	free_process(modules, process, now);
}

void processes__dirty(struct modules *modules)
{
	for (struct modules_process *process = modules->processes; process; process = process->next)
		process->dirty = true;
}

/* Is there a reason to read the mappings, and is it affordable? 500 mappings take 300 us. */
static bool is_due(const struct modules *modules, const struct modules_process *process, uint64_t now)
{
	uint64_t since = now > process->read_at ? now - process->read_at : 0;
	uint64_t rest = modules->n_processes * process->poll_ns * READ_SHARE;

	if (!polls__affordable(process, now))
		return false;
	return process->poll_soon || since >= (rest > READ_NS ? rest : READ_NS) ||
	       (process->asked_for > process->read_at && since >= process->pause);
}

/* What is ready is published; its JIT's lists may wait. */
void modules_process__poll(struct modules *modules, struct modules_process *process, uint64_t now)
{
	if (process->maps < 0 || process->closed)
		return;
	poll_mappings(modules, process, now);
	files__ask(modules);
	bias_all(process);
	lists__publish(modules, process, now);
}

/* Order: mappings first, since a JIT's list lies in them; then JIT objects; then both are published. */
static void tick(struct modules *modules, struct modules_process *process, uint64_t now)
{
	if (process->maps >= 0 && is_due(modules, process, now)) {
		if (process->asked_for > process->read_at) {
			process->pause = process->pause ? process->pause * 2 : PAUSE_FIRST;
			if (process->pause > PAUSE_LAST)
				process->pause = PAUSE_LAST;
		}
		poll_mappings(modules, process, now);
	}
	if (process->dirty)
		bias_all(process);
	if (process->mem.fd >= 0)
		objects__poll(modules, process, now);
	lists__publish(modules, process, now);
}

void processes__tick(struct modules *modules, uint64_t now)
{
	struct modules_process *process, *next;

	for (process = modules->processes; process; process = next) {
		next = process->next;
		if (!process->closed)
			tick(modules, process, now);
		else if (now > process->closed + KEPT_NS)
			free_process(modules, process, now);
	}
}

void processes__free(struct modules *modules)
{
	while (modules->processes)
		free_process(modules, modules->processes, 0);
}

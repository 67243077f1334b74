/* SPDX-License-Identifier: MIT */
/* Lines, in the namer's thread: module by module. All addresses of a module that were asked for are answered
 * together, in order of address, since a unit of debug information is read whole for one address as for a hundred;
 * then the module pauses, so that questions gather (next_pause()). */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "codemap/namer.h"
#include "base/schedule.h"

static void find(struct names *names, struct line_job *job)
{
	struct source_line line;

	job->error = symbol_file__line(names->work, job->vaddr, &line);
	if (job->error)
		return;
	job->line = line.line;
	job->column = line.column;
	job->file = line.file ? strdup(line.file) : NULL;
	if (!job->file || !job->line)
		job->error = -ENOENT;
}

/* By address: what was read of a unit serves all that are in it. */
static struct line_job *merge(struct line_job *a, struct line_job *b)
{
	struct line_job *merged = NULL, **at = &merged;

	while (a && b) {
		struct line_job **first = a->vaddr <= b->vaddr ? &a : &b;

		*at = *first;
		*first = (*first)->next;
		at = &(*at)->next;
	}
	*at = a ? a : b;
	return merged;
}

/* A merge sort of a list: runs[i] is empty or a sorted list of 2^i jobs. */
static struct line_job *sort(struct line_job *jobs)
{
	struct line_job *runs[32] = {}, *rest, *run;
	unsigned i;

	for (; jobs; jobs = rest) {
		rest = jobs->next;
		jobs->next = NULL;
		for (i = 0, run = jobs; i < 31 && runs[i]; i++) {
			run = merge(runs[i], run);
			runs[i] = NULL;
		}
		runs[i] = run;
	}
	for (i = 0, run = NULL; i < 32; i++)
		run = merge(runs[i], run);
	return run;
}

/* With the lock held: the module whose lines were asked for, and may be read now; all of them. */
static struct names *next_names(struct names *all, struct line_job **ret_jobs, uint64_t *ret_wait)
{
	uint64_t time = clock__now();

	for (struct names *names = all; names; names = names->next) {
		if (!names->asked || names->state != NAMES_READ)
			continue;
		if (names->download_state == DOWNLOAD_WANTED || names->download_state == DOWNLOAD_RUNS)
			continue; /* poll_downloads() watches these */
		if (time < names->lines_again && !names->namer->hurry) {
			if (names->lines_again < *ret_wait)
				*ret_wait = names->lines_again;
			continue;
		}
		*ret_jobs = names->asked;
		names->asked = NULL;
		return names;
	}
	return NULL;
}

/* Pauses double, since most functions are sampled early in a session; packed debug information may take at most a
 * fifth of the time. */
static uint64_t next_pause(struct names *names, uint64_t took)
{
	uint64_t pause = names->lines_pause ? 2 * names->lines_pause : SCHEDULE_LINES_PAUSE_NS;

	names->lines_pause = pause < SCHEDULE_LINES_PAUSE_MAX_NS ? pause : SCHEDULE_LINES_PAUSE_MAX_NS;
	return 4 * took > names->lines_pause ? 4 * took : names->lines_pause;
}

/* If the module has no debug information but debuginfod may have it, the jobs go back to `asked` and wait for the
 * download; otherwise all are done, with an error or without. */
bool lines__work(struct namer *namer, struct names *all, uint64_t *ret_wait)
{
	struct line_job *jobs, *last;
	struct names *names;
	uint64_t begin, took;
	int err = -ENOENT;

	pthread_mutex_lock(&namer->lock);
	names = next_names(all, &jobs, ret_wait);
	pthread_mutex_unlock(&namer->lock);
	if (!names)
		return false;
	begin = clock__now();
	if (names->work)
		err = symbol_file__open_lines(names->work);
	if (err == -ENOENT && names->work && names->kind == NAMES_FILE)
		download__want(names, true);
	jobs = sort(jobs);
	for (last = jobs;; last = last->next) {
		last->error = err;
		if (!err)
			find(names, last);
		if (!last->next)
			break;
	}
	symbol_file__close_lines(names->work);
	took = clock__now() - begin;
	if (!err)
		names->lines_again = begin + took + next_pause(names, took);
	pthread_mutex_lock(&namer->lock);
	names->no_lines = err && names->download_state != DOWNLOAD_WANTED;
	if (names->download_state == DOWNLOAD_WANTED) { /* once more, with what comes */
		last->next = names->asked;
		names->asked = jobs;
	} else {
		last->next = names->done;
		names->done = jobs;
	}
	names->lines_sought = true;
	namer__notify(namer);
	pthread_mutex_unlock(&namer->lock);
	return true;
}

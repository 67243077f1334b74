/* Lines, in the namer's thread: module by module, since libdw holds much for each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "serve/namer_internal.h"

void lines__rest(struct namer *namer)
{
	unsigned i;

	for (i = 0; i < NAMER_LINES_FILES; i++)
		if (namer->open_lines[i])
			symbol_file__close_lines(namer->open_lines[i]->work);
	memset(namer->open_lines, 0, sizeof(namer->open_lines));
}

void lines__forget(struct namer *namer, struct names *names, struct symbol_file *old)
{
	unsigned i;

	symbol_file__close_lines(old);
	for (i = 0; i < NAMER_LINES_FILES; i++)
		if (namer->open_lines[i] == names)
			namer->open_lines[i] = NULL;
}

/* It is used now: who was not for longest has to go. */
static void use(struct namer *namer, struct names *names)
{
	unsigned i = 0;

	while (i < NAMER_LINES_FILES - 1 && namer->open_lines[i] != names)
		i++;
	if (namer->open_lines[i] && namer->open_lines[i] != names)
		symbol_file__close_lines(namer->open_lines[i]->work);
	for (; i; i--)
		namer->open_lines[i] = namer->open_lines[i - 1];
	namer->open_lines[0] = names;
}

static void find(struct names *names, struct line_job *job)
{
	const struct source_line *lines;
	size_t n;

	job->error = symbol_file__lines(names->work, job->vaddr, &lines, &n);
	if (job->error)
		return;
	/* Of the function itself: of what was inlined into it, the call. */
	job->line = lines[n - 1].line;
	job->column = lines[n - 1].column;
	job->file = lines[n - 1].file ? strdup(lines[n - 1].file) : NULL;
	if (!job->file || !job->line)
		job->error = -ENOENT;
}

static bool is_due(const struct names *names)
{
	return names->asked && names->state == NAMES_READ && names->download_state != DOWNLOAD_WANTED &&
	       names->download_state != DOWNLOAD_RUNS;
}

/* Whose lines are asked for; those that are open come first. */
static struct names *next_names(const struct namer *namer, struct names *all)
{
	struct names *names;
	unsigned i;

	for (i = 0; i < NAMER_LINES_FILES; i++)
		if (namer->open_lines[i] && is_due(namer->open_lines[i]))
			return namer->open_lines[i];
	for (names = all; names; names = names->next)
		if (is_due(names))
			return names;
	return NULL;
}

bool lines__work(struct namer *namer, struct names *all)
{
	struct line_job *jobs = NULL, *last;
	struct names *names;
	int err = -ENOENT;

	pthread_mutex_lock(&namer->lock);
	names = next_names(namer, all);
	if (names) {
		jobs = names->asked;
		names->asked = NULL;
	}
	pthread_mutex_unlock(&namer->lock);
	if (!names)
		return false;
	if (names->work) {
		use(namer, names);
		err = symbol_file__open_lines(names->work);
		if (err == -ENOENT && names->kind == NAMES_FILE)
			download__want(names, true);
	}
	for (last = jobs;; last = last->next) {
		last->error = err;
		if (!err)
			find(names, last);
		if (!last->next)
			break;
	}
	pthread_mutex_lock(&namer->lock);
	if (names->download_state == DOWNLOAD_WANTED) { /* once more, with what comes */
		last->next = names->asked;
		names->asked = jobs;
	} else {
		last->next = names->done;
		names->done = jobs;
	}
	pthread_mutex_unlock(&namer->lock);
	return true;
}

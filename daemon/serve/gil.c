/* SPDX-License-Identifier: MIT */
/* Finds where the GIL's state lies, for processes whose first search failed. The sampler compares the address that a
 * thread waits at with it, to know a wait for the GIL; needed for wall mode, --idle and --gil only.
 *
 * The state is found by its form (python/gil.h), with the help of a thread that holds it. An interpreter that is just
 * starting has no thread yet, or a thread and no GIL. So the search is repeated each SCHEDULE_GIL_NS,
 * SCHEDULE_GIL_POLLS times at most; once found, the address goes into the sampler's map of images. */
#include "serve/engine.h"
#include "python/gil.h"
#include "target/process.h"

void gil__poll(struct session *session, uint64_t now)
{
	struct target_process process;
	uint64_t address;

	if (!(session->request.wall || session->request.idle || session->request.gil))
		return;
	for (struct tracee *t = session->tracees; t; t = t->next) {
		if (t->dead || t->mem < 0 || t->state != TRACEE_KNOWN || !t->image.runtime || t->gil_sure || t->gil_polls >= SCHEDULE_GIL_POLLS || now < t->gil_due)
			continue;
		t->gil_due = now + SCHEDULE_GIL_NS;
		t->gil_polls++;
		if (target_process__init(&process, t->pid, t->mem, t->maps, t->key))
			continue;
		address = gil__address(&process.reader, &t->image, &t->gil_sure);
		target_process__free(&process);
		if (!address || address == t->image.gil)
			continue;
		t->image.gil = address;
		images__put(session->images, session->ring, &t->key, &t->image);
	}
}

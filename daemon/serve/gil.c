/* Where the GIL's state lies: an interpreter that begins has no thread yet by which it is found. */
#include "serve/engine.h"
#include "target/gil.h"
#include "target/process.h"

#define LOOK_NS 100000000ull   /* so often ... */
#define LOOKS 50u              /* ... so many times */

void gil__look(struct session *session, uint64_t now)
{
	struct target_process process;

	if (!(session->request.wall || session->request.idle || session->request.gil) || session->gil_looks >= LOOKS || now < session->gil_due)
		return;
	session->gil_due = now + LOOK_NS;
	session->gil_looks++;
	for (struct tracee *t = session->tracees; t; t = t->next) {
		if (t->dead || t->mem < 0 || t->state != TRACEE_KNOWN || !t->image.runtime || t->image.gil ||
		    target_process__init(&process, t->pid, t->mem, t->maps, t->key))
			continue;
		t->image.gil = gil__address(&process.reader, &t->image);
		target_process__free(&process);
		if (t->image.gil)
			images__put(session->images, &t->key, &t->image);
	}
}

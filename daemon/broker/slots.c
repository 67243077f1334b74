/* SPDX-License-Identifier: MIT */
/* The engine's side of a dump's slots (include/cprofd/dump.h). The maps are mapped shared; a slot's state is changed by
 * one store each:
 *
 *    FREE --dump_slots__want()--> WANTED --sampler--> BUSY --sampler--> DONE --dump_slots__want(), again()--> WANTED
 *
 * so no lock is needed between the two sides. */
#include "broker/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "base/blocking.h"
#include "base/cleanup.h"

/* Bytes of rows in one pass: more than 900,000 threads. */
#define ROWS_BYTES_MAX (64u << 20)

struct dump_slots {
	int iterator, wanted;
	struct dump_slot *slots; /* shared with the BPF programs */
	/* The thread for which each slot was requested; 0: none. */
	uint32_t tids[DUMP_SLOTS];
	/* The rows of the last pass; grows as needed. */
	char *rows;
	size_t capacity;
};

int dump_slots__new(int iterator, int slots, int wanted, struct dump_slots **ret)
{
	struct dump_slots *self = calloc(1, sizeof(*self));
	void *memory;

	if (!self)
		return -ENOMEM;
	self->iterator = fcntl(iterator, F_DUPFD_CLOEXEC, 3);
	self->wanted = fcntl(wanted, F_DUPFD_CLOEXEC, 3);
	memory = mmap(NULL, sizeof(*self->slots) * DUMP_SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, slots, 0);
	if (memory != MAP_FAILED)
		self->slots = memory;
	if (self->iterator < 0 || self->wanted < 0 || !self->slots) {
		int err = -errno;

		dump_slots__free(self);
		return err;
	}
	*ret = self;
	return 0;
}

void dump_slots__free(struct dump_slots *self)
{
	if (!self)
		return;
	if (self->slots)
		munmap(self->slots, sizeof(*self->slots) * DUMP_SLOTS);
	if (self->iterator >= 0)
		close(self->iterator);
	if (self->wanted >= 0)
		close(self->wanted);
	free(self->rows);
	free(self);
}

int dump_slots__pass(struct dump_slots *self, const struct dump_thread **ret_rows, uint32_t *ret_n)
{
	_cleanup_close_ int fd = bpf_iter_create(self->iterator);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	for (;;) {
		if (self->capacity - len < 4096) {
			size_t capacity = self->capacity ? self->capacity * 2 : 16384;
			char *rows = capacity <= ROWS_BYTES_MAX ? realloc(self->rows, capacity) : NULL;

			if (!rows)
				return -ENOMEM;
			self->rows = rows;
			self->capacity = capacity;
		}
		/* The iterator may copy memory of the target, and so hang in a page fault. */
		n = blocking__read(fd, self->rows + len, self->capacity - len);
		if (n == -EAGAIN || n == -EINTR)
			continue;
		if (n < 0)
			return (int)n;
		if (!n)
			break;
		len += (size_t)n;
	}
	*ret_rows = (const struct dump_thread *)self->rows;
	*ret_n = (uint32_t)(len / sizeof(**ret_rows));
	return 0;
}

static void set_state(struct dump_slot *slot, uint32_t state)
{
	__atomic_store_n(&slot->state, state, __ATOMIC_RELEASE);
}

/* The old entry is deleted first: the kernel side must not fill the slot for two threads. */
int dump_slots__want(struct dump_slots *self, uint32_t i, uint32_t tid)
{
	struct dump_slot *slot = &self->slots[i];


	if (self->tids[i])
		bpf_map_delete_elem(self->wanted, &self->tids[i]);
	/* A tick on another CPU may still be filling it, which takes some 50 us. */
	for (unsigned waits = 0; waits < 100 && __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == DUMP_BUSY; waits++)
		usleep(100);
	self->tids[i] = tid;
	if (!tid)
		return 0;
	slot->tries = 0;
	slot->n_codes = 0;
	set_state(slot, DUMP_WANTED);
	return bpf_map_update_elem(self->wanted, &tid, &i, BPF_ANY) ? -errno : 0;
}

void dump_slots__again(struct dump_slots *self, uint32_t i)
{
	set_state(&self->slots[i], DUMP_WANTED);
}

const struct dump_slot *dump_slots__done(const struct dump_slots *self, uint32_t i)
{
	const struct dump_slot *slot = &self->slots[i];

	return self->tids[i] && __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == DUMP_DONE ? slot : NULL;
}

/* SPDX-License-Identifier: MIT */
/* The queue of items (internal.h), in chunks: no item moves, and the memory of those that left serves those that come.
 * A chunk that is new has to be faulted in, which is most of what it costs. */
#include <errno.h>
#include <stdlib.h>

#include "profile/internal.h"

size_t queue__bytes(const struct queue *queue)
{
	return (size_t)(queue->n_chunks + queue->n_spare) * QUEUE_CHUNK * sizeof(struct item) +
	       queue->capacity * sizeof(*queue->chunks);
}

/* Room for twice as many chunks. */
static int grow(struct queue *queue)
{
	struct queue fresh = *queue;

	fresh.capacity = queue->capacity ? queue->capacity * 2 : 4;
	fresh.chunks = calloc(fresh.capacity, sizeof(*fresh.chunks));
	if (!fresh.chunks)
		return -ENOMEM;
	for (uint64_t number = queue->first - queue->first % QUEUE_CHUNK; number < queue->end; number += QUEUE_CHUNK)
		*queue__chunk(&fresh, number) = *queue__chunk(queue, number);
	free(queue->chunks);
	*queue = fresh;
	return 0;
}

/* A chunk for the items from queue->end on. */
static int add_chunk(struct queue *queue)
{
	struct item *chunk;
	int err = queue->n_chunks == queue->capacity ? grow(queue) : 0;

	if (err)
		return err;
	chunk = queue->n_spare ? queue->spare[--queue->n_spare] : malloc(QUEUE_CHUNK * sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	*queue__chunk(queue, queue->end) = chunk;
	queue->n_chunks++;
	return 0;
}

int queue__append(struct queue *queue, const struct item *item, uint64_t *ret_number)
{
	int err = queue->end % QUEUE_CHUNK ? 0 : add_chunk(queue);

	if (err)
		return err;
	*queue__item(queue, queue->end) = *item;
	*ret_number = queue->end++;
	return 0;
}

void queue__drop(struct queue *queue)
{
	struct item *chunk = *queue__chunk(queue, queue->first);

	if (++queue->first % QUEUE_CHUNK)
		return;
	queue->n_chunks--;
	if (queue->n_spare < QUEUE_SPARE)
		queue->spare[queue->n_spare++] = chunk;
	else
		free(chunk);
}

void queue__free(struct queue *queue)
{
	uint64_t number = queue->first - queue->first % QUEUE_CHUNK;

	for (; queue->n_chunks; queue->n_chunks--, number += QUEUE_CHUNK)
		free(*queue__chunk(queue, number));
	while (queue->n_spare)
		free(queue->spare[--queue->n_spare]);
	free(queue->chunks);
}

/* A growing byte buffer. Zero-initialised is empty; owned by its holder.
 * After a failed append the buffer is unchanged and `failed` stays set. */
#ifndef CPROFD_BUF_H
#define CPROFD_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *data;
	size_t len, capacity;
	bool failed;
};

int buf__append(struct buf *buf, const void *data, size_t len);
int buf__puts(struct buf *buf, const char *string);
int buf__printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
int buf__reserve(struct buf *buf, size_t more);
/* Drops the first `len` bytes. */
void buf__consume(struct buf *buf, size_t len);
void buf__clear(struct buf *buf);  /* keeps the memory */
void buf__free(struct buf *buf);   /* leaves it empty */

#endif

/* Where an ELF file's bytes come from: an fd (read by pread, never mapped: a file
 * that shrinks under a mapping is a SIGBUS) or memory. */
#ifndef CPROFD_SYMBOLS_BYTES_H
#define CPROFD_SYMBOLS_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct elf_bytes {
	int fd;              /* owned; -1: memory */
	uint8_t *data;       /* owned */
	uint64_t size;
	struct timespec changed; /* mtime when it was opened */
};

#define ELF_BYTES_NONE {.fd = -1}

int elf_bytes__init_fd(struct elf_bytes *bytes, int fd); /* takes fd over if it returns 0 */
void elf_bytes__init_memory(struct elf_bytes *bytes, uint8_t *data, size_t len); /* takes over */
void elf_bytes__free(struct elf_bytes *bytes);
/* All of it or an error: -ENODATA beyond the end, -EIO. */
int elf_bytes__read(const struct elf_bytes *bytes, uint64_t at, void *dst, size_t len);
/* At most `len` bytes: what there is. *ret_len is 0 at and beyond the end. */
int elf_bytes__read_some(const struct elf_bytes *bytes, uint64_t at, void *dst, size_t len,
			 size_t *ret_len);
/* Was it written to since it was opened? */
bool elf_bytes__stale(const struct elf_bytes *bytes);

#endif

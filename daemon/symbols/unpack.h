/* SPDX-License-Identifier: MIT */
/* Any part of a stream that zlib packed (RFC 1950, 1951), without the whole of it in memory: the stream is unpacked
 * in order, into a window. On the way the decoder's state at some places is kept, and what lies behind the window is
 * reached from the last of these places before it. zlib's examples/zran.c does so between blocks; in sections that
 * pack well a block unpacks to 160 KB, so places are within blocks, too: there the block's header is read again, for
 * its codes, before the stream is entered.
 *
 * Caller: debug_bytes.c, for one packed section of debug information. An instance belongs to one thread at a time;
 * kept_bytes alone is shared. Cost of a question: unpacking from the nearest place before it. */
#pragma once

#include "elf/bytes.h"

#define UNPACK_WINDOW (256u << 10)    /* its later half at least is there, so that going back a little is cheap */
#define UNPACK_STEP (8u << 10)
#define UNPACK_POINTS_MAX 48u          /* some 10 KB each, packed themselves */
#define UNPACK_SPAN_MIN (64u << 10)    /* bytes from one to the next, at least */
#define UNPACK_KEPT_MAX (1u << 20)     /* of streams that fit into a window: they stay unpacked, this much of all */

struct unpack;
/* The packed stream (with zlib's header of two bytes) lies at `offset` for `packed` bytes; `size` when unpacked.
 * -EBADMSG: it is no such stream. `bytes` is borrowed. */
int unpack__new(const struct elf_bytes *bytes, uint64_t offset, uint64_t packed, uint64_t size, struct unpack **ret);
struct unpack *unpack__free(struct unpack *unpack); /* NULL */
/* The unpacked bytes around `at`: *ret_data has *ret_len of them from *ret_at on, valid until the next call.
 * *work falls by what was unpacked, to 0 at the least; -EFBIG: it was 0. */
int unpack__window(struct unpack *unpack, uint64_t at, uint64_t *work, const uint8_t **ret_data, uint64_t *ret_at,
		   uint32_t *ret_len);
/* Gives back all but the places that are kept, and small streams. */
void unpack__rest(struct unpack *unpack);

/* Writes all of it to a file, unpacked. -EBADMSG: the stream is damaged, or not of `size` bytes. */
int unpack__write(const struct unpack *unpack, int fd);

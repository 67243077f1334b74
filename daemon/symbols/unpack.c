/* SPDX-License-Identifier: MIT */
/* zlib inflates from the front. Every so many bytes of output the state is kept (the bit of the input, 32 KB of
 * dictionary), and a later read begins at the last such point before it. See unpack.h for why points lie within
 * blocks, too. */
#include "symbols/unpack.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

#include "base/cleanup.h"
#include "base/file.h"
#include "base/kept.h"

#define INPUT (16u << 10)
#define DISTANCE (32u << 10) /* as far back as deflate's references go (RFC 1951) */

/* Of z_stream.data_type (zlib.h, inflate()). */
#define BITS_LEFT 63
#define LAST_BLOCK 64
#define BETWEEN_BLOCKS 128
#define BEHIND_HEADER 256

/* A bit of the packed stream: deflate's codes begin at any bit. zlib is given whole bytes, so a place is the next
 * byte, and how many high bits of the byte before it are still to be read (inflatePrime()). */
struct place {
	uint64_t in; /* of the next byte */
	int bits;    /* of the byte before it that are not used yet */
};

/* Where the stream can be entered. For that zlib needs the position, the 32 KB of output before it (`before`:
 * deflate refers back to them) and, within a block, the block's codes, which stand in its header. `before` is packed
 * by zstd, to some 10 KB. */
struct point {
	struct place at, header; /* header: of the block; the same between blocks */
	uint64_t out; /* of what comes out */
	unsigned len, packed;
	uint8_t before[]; /* what the stream may refer to: `packed` bytes, `len` of them unpacked */
};

/* A decoder that runs, some 300 KB. Freed by unpack__rest(), unless the whole stream fits into the window and is
 * kept unpacked. */
struct run {
	z_stream z;
	struct place header; /* of the block that it is in */
	uint64_t in, out; /* bytes of the file that zlib was given; bytes that came out */
	uint64_t window_at;
	bool kept; /* all of the stream is in the window, and stays */
	ZSTD_CCtx *packer; /* of places; NULL: none was kept. A new one for each would have its pages mapped each time. */
	uint8_t input[INPUT], window[UNPACK_WINDOW];
};

static uint64_t kept_bytes; /* of all streams that are kept so */

struct unpack {
	const struct elf_bytes *bytes;
	uint64_t begin, end; /* in the file */
	uint64_t size, span;
	struct run *run; /* or NULL */
	struct point *points[UNPACK_POINTS_MAX]; /* by their places */
	unsigned n_points;
};

int unpack__new(const struct elf_bytes *bytes, uint64_t offset, uint64_t packed, uint64_t size, struct unpack **ret)
{
	struct unpack *unpack;
	uint8_t header[2];

	if (!elf_bytes__has(bytes, offset, packed) || packed < sizeof(header) ||
	    elf_bytes__read(bytes, offset, header, sizeof(header)))
		return -EBADMSG;
	/* RFC 1950: deflate, and no dictionary that somebody else has. */
	if ((header[0] & 15) != 8 || header[1] & 0x20)
		return -EBADMSG;
	unpack = calloc(1, sizeof(*unpack));
	if (!unpack)
		return -ENOMEM;
	unpack->bytes = bytes;
	unpack->begin = offset + sizeof(header);
	unpack->end = offset + packed;
	unpack->size = size;
	unpack->span = size / UNPACK_POINTS_MAX + 1;
	if (unpack->span < UNPACK_SPAN_MIN)
		unpack->span = UNPACK_SPAN_MIN;
	*ret = unpack;
	return 0;
}

static void free_run(struct unpack *unpack)
{
	struct run *run = unpack->run;

	if (!run)
		return;
	if (run->kept)
		__atomic_sub_fetch(&kept_bytes, unpack->size, __ATOMIC_RELAXED);
	else
		inflateEnd(&run->z);
	ZSTD_freeCCtx(run->packer);
	free(run);
	unpack->run = NULL;
}

/* Keeps the unpacked stream if all of it is in the window. False: it is not, or other streams have used up
 * UNPACK_KEPT_MAX. */
static bool keep_whole(struct unpack *unpack)
{
	struct run *run = unpack->run;

	if (run->kept)
		return true;
	if (run->window_at || run->out < unpack->size)
		return false;
	if (__atomic_add_fetch(&kept_bytes, unpack->size, __ATOMIC_RELAXED) > UNPACK_KEPT_MAX) {
		__atomic_sub_fetch(&kept_bytes, unpack->size, __ATOMIC_RELAXED);
		return false;
	}
	inflateEnd(&run->z);
	ZSTD_freeCCtx(run->packer);
	run->packer = NULL;
	run->kept = true;
	return true;
}

void unpack__rest(struct unpack *unpack)
{
	if (unpack && unpack->run && !keep_whole(unpack))
		free_run(unpack);
}

struct unpack *unpack__free(struct unpack *unpack)
{
	if (!unpack)
		return NULL;
	free_run(unpack);
	for (unsigned i = 0; i < unpack->n_points; i++)
		free(unpack->points[i]);
	free(unpack);
	return NULL;
}

/* The place `bits` bits before what zlib has consumed. */
static struct place place_of(const struct run *run, unsigned bits)
{
	bits += (unsigned)run->z.data_type & BITS_LEFT;
	return (struct place){run->in - run->z.avail_in - bits / 8, (int)(bits % 8)};
}

static int feed(struct unpack *unpack)
{
	struct run *run = unpack->run;
	size_t got = unpack->end - run->in < INPUT ? (size_t)(unpack->end - run->in) : INPUT;

	if (!got || elf_bytes__read(unpack->bytes, run->in, run->input, got))
		return -EBADMSG;
	run->in += got;
	run->z.next_in = run->input;
	run->z.avail_in = (uInt)got;
	return 0;
}

/* Sets the decoder to a place: drops what it has of the input, and gives it the bits that belong to the byte before. */
static int go_to(struct unpack *unpack, const struct place *place)
{
	struct run *run = unpack->run;
	uint8_t byte;

	run->in = place->in;
	run->z.next_in = NULL;
	run->z.avail_in = 0;
	inflatePrime(&run->z, -1, 0);
	if (!place->bits)
		return 0;
	if (elf_bytes__read(unpack->bytes, place->in - 1, &byte, 1))
		return -EIO;
	inflatePrime(&run->z, place->bits, byte >> (8 - place->bits));
	return 0;
}

/* As inflate(), which stops at a certain place of a block (`stop`, a flag of data_type). If zlib gets there with the
 * bits that it holds already it reports Z_BUF_ERROR, no progress; here that is success. */
static int inflate_to(z_stream *z, int flush, int stop)
{
	int state = inflate(z, flush);

	return state == Z_BUF_ERROR && z->data_type & stop ? Z_OK : state;
}

/* The codes of the block. */
static int read_header(struct unpack *unpack)
{
	z_stream *z = &unpack->run->z;
	int err = 0;

	z->next_out = unpack->run->window;
	z->avail_out = 1;
	do {
		err = z->avail_in ? 0 : feed(unpack);
		if (!err && inflate_to(z, Z_TREES, BEHIND_HEADER) != Z_OK)
			err = -EBADMSG;
	} while (!err && !(z->data_type & BEHIND_HEADER));
	return err;
}

/* From a kept point. Within a block: read the block's header first, for its codes, then jump to the place. The
 * dictionary comes last. A stored point that is wrong gives wrong bytes, which
 * the DWARF reader treats like any others; it cannot lead out of the stream or of the window. */
static int enter_at(struct unpack *unpack, const struct point *point)
{
	uint8_t before[DISTANCE];
	int err;

	if (ZSTD_decompress(before, sizeof(before), point->before, point->packed) != point->len)
		return -EIO;
	err = go_to(unpack, &point->header);
	if (!err && (point->header.in != point->at.in || point->header.bits != point->at.bits))
		err = read_header(unpack) ?: go_to(unpack, &point->at);
	if (!err)
		inflateSetDictionary(&unpack->run->z, before, point->len);
	return err;
}

/* Begins at the last point before `at`, or at the beginning. */
static int enter(struct unpack *unpack, uint64_t at)
{
	const struct point *point = NULL;
	struct run *run;

	for (unsigned i = 0; i < unpack->n_points && unpack->points[i]->out <= at; i++)
		point = unpack->points[i];
	run = unpack->run;
	/* The decoder may be as near as the best place, or nearer. */
	if (run && run->out <= at && run->out >= (point ? point->out : 0))
		return 0;
	if (run) { /* its memory is there already */
		inflateReset(&run->z);
	} else {
		run = malloc(sizeof(*run));
		if (!run)
			return -ENOMEM;
		run->z = (z_stream){};
		run->kept = false;
		run->packer = NULL;
		if (inflateInit2(&run->z, -15) != Z_OK) {
			free(run);
			return -ENOMEM;
		}
		unpack->run = run;
	}
	run->header = point ? point->header : (struct place){.in = unpack->begin};
	run->out = run->window_at = point ? point->out : 0;
	return point ? enter_at(unpack, point) : go_to(unpack, &run->header);
}

/* Keeps this place, if it is `span` bytes behind the last one. inflateMark() (zlib.h) says how far into a code or a
 * copy the decoder is: the upper bits count the input bits that belong to the current code, the lower ones the bytes
 * of a repeated string that are out already. The place is in front of both. Without memory there is one place less. */
static void keep(struct unpack *unpack)
{
	struct run *run = unpack->run;
	const struct point *last = unpack->n_points ? unpack->points[unpack->n_points - 1] : NULL;
	uint8_t before[DISTANCE], packed[ZSTD_COMPRESSBOUND(DISTANCE)];
	long mark = inflateMark(&run->z);
	unsigned copied = (unsigned)mark & 0xffff; /* of what is repeated here, before this place */
	bool between = (run->z.data_type & (BETWEEN_BLOCKS | LAST_BLOCK)) == BETWEEN_BLOCKS;
	struct point *point;
	size_t size;
	uInt len = 0;

	if (run->out < (last ? last->out : 0) + unpack->span || unpack->n_points == UNPACK_POINTS_MAX)
		return;
	if (!between && mark >> 16 < 0) /* bytes that are not packed */
		return;
	if (inflateGetDictionary(&run->z, before, &len) != Z_OK || copied > len)
		return;
	if (!run->packer)
		run->packer = ZSTD_createCCtx();
	size = run->packer ? ZSTD_compressCCtx(run->packer, packed, sizeof(packed), before, len - copied, 1) : 0;
	if (!size || ZSTD_isError(size))
		return;
	point = malloc(sizeof(*point) + size);
	if (!point)
		return;
	point->at = place_of(run, between ? 0 : (unsigned)(mark >> 16));
	point->header = run->header;
	point->out = run->out - copied;
	point->len = len - copied;
	point->packed = (unsigned)size;
	memcpy(point->before, packed, size);
	unpack->points[unpack->n_points++] = point;
}

/* Unpacks the next step into the window, of which the later half stays when it is full. Z_BLOCK makes inflate()
 * return at each end of a block, where a header begins and a place is simplest. -EBADMSG: the stream is damaged, or
 * ends before `size`. */
static int next(struct unpack *unpack)
{
	struct run *run = unpack->run;
	uint64_t left = unpack->size - run->out, begin = run->out, have = run->out - run->window_at;
	int state = Z_OK;

	if (have == UNPACK_WINDOW) {
		have = UNPACK_WINDOW / 2;
		memcpy(run->window, run->window + UNPACK_WINDOW - have, have);
		run->window_at = run->out - have;
	}
	run->z.next_out = run->window + have;
	run->z.avail_out = left < UNPACK_STEP ? (uInt)left : UNPACK_STEP;
	while (run->z.avail_out && state == Z_OK) {
		if (!run->z.avail_in && feed(unpack))
			return -EBADMSG;
		state = inflate_to(&run->z, Z_BLOCK, BETWEEN_BLOCKS);
		run->out = run->window_at + (uint64_t)(run->z.next_out - run->window);
		if (state != Z_OK)
			break;
		if ((run->z.data_type & (BETWEEN_BLOCKS | LAST_BLOCK)) == BETWEEN_BLOCKS)
			run->header = place_of(run, 0);
		if ((run->z.data_type & BETWEEN_BLOCKS) || !run->z.avail_out)
			keep(unpack);
	}
	return run->out > begin ? 0 : -EBADMSG;
}

/* Charges *work by steps of output, whatever was asked for. After an error the decoder's state is unknown: it is
 * dropped, and the next question begins at a place again. */
int unpack__window(struct unpack *unpack, uint64_t at, uint64_t *work, const uint8_t **ret_data, uint64_t *ret_at,
		   uint32_t *ret_len)
{
	struct run *run = unpack->run;
	int err = 0;

	if (at >= unpack->size)
		return -EBADMSG;
	if (!run || at < run->window_at || at >= run->out)
		err = enter(unpack, at);
	run = unpack->run;
	while (!err && run->out <= at) {
		if (!*work)
			return -EFBIG;
		err = next(unpack);
		*work -= *work < UNPACK_STEP ? *work : UNPACK_STEP;
	}
	if (err) {
		free_run(unpack);
		return err;
	}
	*ret_data = run->window;
	*ret_at = run->window_at;
	*ret_len = (uint32_t)(run->out - run->window_at);
	return 0;
}

/* --- all of it --- */

#define WHOLE_INPUT (64u << 10)
#define WHOLE_OUTPUT (256u << 10)

struct whole {
	z_stream z;
	uint8_t input[WHOLE_INPUT], output[WHOLE_OUTPUT];
};

/* The next part of the stream, whose packed bytes go on at *in. Returns how many bytes came out. */
static int64_t inflate_some(const struct unpack *unpack, struct whole *whole, uint64_t *in)
{
	int state = Z_OK;

	whole->z.next_out = whole->output;
	whole->z.avail_out = WHOLE_OUTPUT;
	while (state == Z_OK && whole->z.avail_out) {
		size_t left = unpack->end - *in < WHOLE_INPUT ? (size_t)(unpack->end - *in) : WHOLE_INPUT;

		if (!whole->z.avail_in && left) {
			if (elf_bytes__read(unpack->bytes, *in, whole->input, left))
				return -EIO;
			*in += left;
			whole->z.next_in = whole->input;
			whole->z.avail_in = (uInt)left;
		}
		state = inflate(&whole->z, Z_NO_FLUSH);
	}
	return state == Z_OK || state == Z_STREAM_END ? (int64_t)WHOLE_OUTPUT - whole->z.avail_out : -EBADMSG;
}

static int write_by_pieces(const struct unpack *unpack, int fd)
{
	struct whole *whole = malloc(sizeof(*whole));
	uint64_t in = unpack->begin, out = 0;
	int64_t n = 0;
	int err = 0;

	if (!whole)
		return -ENOMEM;
	whole->z = (z_stream){};
	if (inflateInit2(&whole->z, -15) != Z_OK)
		err = -ENOMEM;
	for (; !err && out < unpack->size; out += (uint64_t)n) {
		n = inflate_some(unpack, whole, &in);
		if (n <= 0 || (uint64_t)n > unpack->size - out)
			err = n < 0 ? (int)n : -EBADMSG;
		else
			err = file__write(fd, whole->output, (size_t)n);
	}
	inflateEnd(&whole->z);
	free(whole);
	return err;
}

#ifdef HAVE_LIBDEFLATE
/* A third of zlib's time, but all bytes have to be in memory. -ENOMEM: they have no room, or are far more than there is to
 * unpack. */
static int write_at_once(const struct unpack *unpack, int fd)
{
	size_t packed = (size_t)(unpack->end - unpack->begin), size = (size_t)unpack->size;
	_cleanup_free_ uint8_t *from = packed / 2 <= size ? malloc(packed + 1) : NULL, *to = from ? malloc(size + 1) : NULL;
	struct libdeflate_decompressor *decoder = to ? libdeflate_alloc_decompressor() : NULL;
	int err = decoder ? 0 : -ENOMEM;

	if (!err && elf_bytes__read(unpack->bytes, unpack->begin, from, packed))
		err = -EIO;
	if (!err && libdeflate_deflate_decompress(decoder, from, packed, to, size, NULL) != LIBDEFLATE_SUCCESS)
		err = -EBADMSG;
	libdeflate_free_decompressor(decoder);
	return err ?: file__write(fd, to, size);
}
#else
static int write_at_once(const struct unpack *unpack, int fd)
{
	return -ENOMEM;
}
#endif

int unpack__write(const struct unpack *unpack, int fd)
{
	int err = write_at_once(unpack, fd);

	return err == -ENOMEM ? write_by_pieces(unpack, fd) : err;
}

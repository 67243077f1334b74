/* SPDX-License-Identifier: MIT */
/* zlib's stream, written to a FILE a chunk at a time. */
#include "export/gzip.h"

#include "base/stream.h"

int gzip__begin(struct gzip *gzip, int level)
{
	/* 15: a window of 32 kB, the largest; + 16: write a gzip header. */
	if (deflateInit2(&gzip->zip, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	gzip->begun = true;
	return 0;
}

/* Z_NO_FLUSH may keep everything inside zlib, Z_FINISH writes it all. The loop goes on while the output chunk
 * was filled up. */
static int deflate_all(struct gzip *gzip, const void *data, size_t len, int flush)
{
	unsigned char chunk[1 << 14];
	int status, err;

	gzip->zip.next_in = (unsigned char *)data;
	gzip->zip.avail_in = (unsigned int)len; /* a message, or a chunk of text: far below 4 GB */
	do {
		gzip->zip.next_out = chunk;
		gzip->zip.avail_out = sizeof(chunk);
		status = deflate(&gzip->zip, flush);
		if (status == Z_STREAM_ERROR)
			return -EIO;
		err = stream__write(gzip->out, (const char *)chunk, sizeof(chunk) - gzip->zip.avail_out);
	} while (!err && !gzip->zip.avail_out);
	return err;
}

int gzip__write(struct gzip *gzip, const void *data, size_t len)
{
	return gzip->begun ? deflate_all(gzip, data, len, Z_NO_FLUSH) : stream__write(gzip->out, data, len);
}

int gzip__end(struct gzip *gzip)
{
	return gzip->begun ? deflate_all(gzip, NULL, 0, Z_FINISH) : 0;
}

void gzip__free(struct gzip *gzip)
{
	if (gzip->begun)
		deflateEnd(&gzip->zip);
	gzip->begun = false;
}

int gzip__all(FILE *out, int level, const void *data, size_t len)
{
	struct gzip gzip = {.out = out};
	int err = gzip__begin(&gzip, level) ?: gzip__write(&gzip, data, len) ?: gzip__end(&gzip);

	gzip__free(&gzip);
	return err;
}

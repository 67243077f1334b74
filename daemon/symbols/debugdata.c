/* SPDX-License-Identifier: MIT */
/* .gnu_debugdata ("MiniDebugInfo", Fedora): an ELF file with function symbols alone, packed by xz, in a section of
 * the stripped file.
 *
 * Unpacking is bounded in output (DEBUGDATA_MAX) and in the decoder's memory (MEMORY_MAX, as the stream's header
 * chooses the size of its dictionary): a hostile stream of some KB may expand to terabytes. */
#include "symbols/debugdata.h"

#include <lzma.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define MEMORY_MAX (80u << 20) /* xz -9 needs 65 MB */
#define STEP (256u << 10)

/* The output grows by doubling. LZMA_FINISH: all input is there, so that a stream without an end is an error, not a
 * wait. */
int debugdata__unpack(const uint8_t *data, size_t len, uint8_t **ret, size_t *ret_len)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	_cleanup_(buf__free) struct buf out = {};
	lzma_ret result;
	int err = 0;

	if (lzma_stream_decoder(&stream, MEMORY_MAX, 0) != LZMA_OK)
		return -ENOMEM;
	stream.next_in = data;
	stream.avail_in = len;
	do {
		size_t step = out.len < STEP ? STEP : out.len;

		err = out.len + step > DEBUGDATA_MAX ? -EFBIG : buf__reserve(&out, step);
		if (err)
			break;
		stream.next_out = (uint8_t *)out.data + out.len;
		stream.avail_out = step;
		result = lzma_code(&stream, LZMA_FINISH);
		out.len += step - stream.avail_out;
	} while (result == LZMA_OK);
	lzma_end(&stream);
	if (!err && result != LZMA_STREAM_END)
		err = result == LZMA_MEM_ERROR ? -ENOMEM : -EBADMSG;
	if (err)
		return err;
	*ret_len = out.len;
	*ret = (uint8_t *)take_ptr(out.data);
	return 0;
}

int debugdata__read(const struct elf_image *image, uint8_t **ret, size_t *ret_len)
{
	uint32_t number = elf_image__section(image, ".gnu_debugdata");
	_cleanup_free_ uint8_t *packed = NULL;
	const Elf64_Shdr *section;
	int err;

	if (!number)
		return -ENOENT;
	section = &image->sections[number];
	if (section->sh_type == SHT_NOBITS || !section->sh_size)
		return -EBADMSG;
	if (section->sh_size > DEBUGDATA_PACKED_MAX)
		return -EFBIG;
	packed = malloc(section->sh_size);
	if (!packed)
		return -ENOMEM;
	err = elf_bytes__read(image->bytes, section->sh_offset, packed, section->sh_size);
	if (err)
		return err == -ENODATA ? -EBADMSG : err;
	return debugdata__unpack(packed, section->sh_size, ret, ret_len);
}

/* SPDX-License-Identifier: MIT */
/* The pieces of code that .eh_frame describes, sorted by address: functions, and halves of functions that a
 * compiler moved away. Those begin with another CFA than a function that was just called, which is how is_entry()
 * knows them.
 *
 * Which code belongs together is needed where symbols are missing: a piece is the unit that eval_ranges.c and
 * classes/ reason about. Sources: LSB 5.0, 10.6.1 (.eh_frame), and daemon/unwind/cfi.h, which decodes the entries.
 * All bytes are the target's. */
#include "weave/frames.h"

#include <string.h>

#include "base/array.h"
#include "base/order.h"
#include "base/search.h"

/* The entry at offset `at`: its bytes after length and id. False: the section ends here, or is damaged. */
static bool entry_at(const struct code_frames *frames, uint64_t at, struct cfi_bytes *ret,
		     uint32_t *ret_id)
{
	const struct elf_section *section = &frames->elf.eh_frame;
	uint64_t length, head = 4;
	uint32_t word;

	if (at > section->size || section->size - at < 8)
		return false;
	memcpy(&word, frames->bytes + at, 4);
	length = word;
	if (word == UINT32_MAX) { /* a length of 64 bits follows */
		if (section->size - at < 16)
			return false;
		memcpy(&length, frames->bytes + at + 4, 8);
		head = 12;
	}
	if (length > section->size - at - head)
		return false;
	ret->at = frames->bytes + at + head;
	ret->end = ret->at + length;
	ret->address = section->address + at + head;
	*ret_id = 0;
	if (length < 4)
		return true; /* a terminator; other objects' entries may follow */
	memcpy(ret_id, ret->at, 4);
	ret->at += 4;
	ret->address += 4;
	return true;
}

static bool read_cie(const struct code_frames *frames, uint64_t at, struct cfi_cie *ret)
{
	const struct cfi_section section = {.elf = &frames->elf};
	struct cfi_bytes bytes;
	uint32_t id;

	if (!entry_at(frames, at, &bytes, &id) || id || bytes.at >= bytes.end)
		return false;
	cie__parse(&section, bytes, ret);
	return !ret->bad;
}

static int add_piece(struct code_frames *frames, const struct code_piece *piece)
{
	return ARRAY_ADD(frames->pieces, frames->n, frames->capacity, *piece);
}

static int compare(const void *left, const void *right)
{
	const struct code_piece *a = left, *b = right;

	return ORDER(a->start, b->start) ?: ORDER(a->entry, b->entry);
}

static int read_pieces(struct code_frames *frames)
{
	const struct cfi_section section = {.elf = &frames->elf};
	struct cfi_cie cie;
	uint64_t at = 0, cie_at = UINT64_MAX, here;
	struct code_piece piece;
	struct cfi_bytes bytes;
	bool cie_good = false;
	uint32_t id;
	int err = 0;

	for (; !err && entry_at(frames, at, &bytes, &id);
	     at = (uint64_t)(bytes.end - frames->bytes)) {
		if (!id)
			continue;
		here = (uint64_t)(bytes.at - frames->bytes) - 4;
		if (id > here)
			continue;
		if (cie_at != here - id) {
			cie_at = here - id;
			cie_good = read_cie(frames, cie_at, &cie);
		}
		piece = (struct code_piece){.entry = (uint32_t)at, .cie = (uint32_t)cie_at};
		if (cie_good && !fde__parse(&section, &cie, &bytes, &piece.start, &piece.size) &&
		    piece.size && piece.start <= UINT64_MAX - piece.size)
			err = add_piece(frames, &piece);
	}
	if (frames->n)
		qsort(frames->pieces, frames->n, sizeof(*frames->pieces), compare);
	return err;
}

int code_frames__open(const struct elf_bytes *source, struct code_frames *ret)
{
	const struct elf_section *section = &ret->elf.eh_frame;
	int err;

	*ret = (struct code_frames){};
	err = elf_frames__open(source, &ret->elf);
	if (err)
		return err;
	if (!section->size || ret->elf.relocations)
		return -ENODATA;
	if (section->size > CODE_FRAMES_BYTES)
		return -E2BIG;
	ret->bytes = malloc(section->size);
	if (!ret->bytes)
		return -ENOMEM;
	err = elf_bytes__read(source, section->offset, ret->bytes, section->size);
	err = err ?: read_pieces(ret);
	if (err)
		code_frames__free(ret);
	return err;
}

void code_frames__free(struct code_frames *frames)
{
	free(frames->bytes);
	free(frames->pieces);
	*frames = (struct code_frames){};
}

const struct code_piece *code_frames__find(const struct code_frames *frames, uint64_t vaddr)
{
	uint32_t low = SEARCH(i, frames->n, frames->pieces[i].start <= vaddr);

	if (!low || vaddr - frames->pieces[low - 1].start >= frames->pieces[low - 1].size)
		return NULL;
	return &frames->pieces[low - 1];
}

/* Collects what the first row of an entry says, for code_frames__is_entry(). */
struct first_row {
	struct cfi_rows rows;
	uint64_t start;
	bool entry;
};

static int take_row(struct cfi_rows *self, uint64_t pc, const struct cfi_cie *cie,
		    const struct cfi_state *state, int why)
{
	struct first_row *first = (struct first_row *)self;

	if (pc != first->start)
		return 1;
	first->entry = state && state->cfa == CFA_REGISTER &&
		       machine__slot(state->reg) == CFI_SP && state->offset == MACHINE_ENTRY_CFA;
	return 0; /* a later row at the same byte replaces it */
}

bool code_frames__is_entry(const struct code_frames *frames, const struct code_piece *piece)
{
	const struct cfi_section section = {.elf = &frames->elf};
	struct first_row first = {.rows = {.row = take_row}, .start = piece->start, .entry = true};
	struct cfi_bytes bytes;
	struct cfi_cie cie;
	uint64_t start, size;
	uint32_t id;

	if (read_cie(frames, piece->cie, &cie) && entry_at(frames, piece->entry, &bytes, &id) &&
	    !fde__parse(&section, &cie, &bytes, &start, &size))
		fde__run(&section, &cie, bytes, start, size, &first.rows);
	return first.entry;
}

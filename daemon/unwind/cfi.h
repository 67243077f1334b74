/* SPDX-License-Identifier: MIT */
/* Call frame information (DWARF 5, 6.4; LSB 5.0, 10.6): parsing of entries (CIE, FDE), and the interpreter of their
 * instructions. The interpreter's state, and the walker's rule that follows from it, are in arch/rule.h. */
#pragma once

#include "arch/rule.h"
#include "unwind/elf.h"

/* Bytes of an entry; `address` is the ELF address of the first. */
struct cfi_bytes {
	const uint8_t *at, *end;
	uint64_t address;
};

/* A CIE, its instructions already run. */
struct cfi_cie {
	/* Its offset in the section + 1; 0: none. FDEs refer to their CIE by the offset. */
	uint64_t id;
	/* Factors of advances, and of offsets from the CFA. */
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding; /* DW_EH_PE_* of addresses in its FDEs */
	bool augmented;	  /* FDEs have a length-prefixed augmentation */
	bool signal;
	bool bad; /* its FDEs cannot be used */
	struct cfi_state initial;
};

/* A section of entries. */
struct cfi_section {
	const struct elf_frames *elf;
	bool debug; /* .debug_frame: CIE pointers and addresses are encoded differently */
};

/* Receives the rows of a function: `state` holds from `pc` on. `state` NULL: unknown, for the reason `why`. If there is `rule`,
 * it is called in place of `row` for a state whose rule is one word (machine__plain()). */
struct cfi_rows {
	int (*row)(struct cfi_rows *self, uint64_t pc, const struct cfi_cie *cie,
		   const struct cfi_state *state, int why);
	int (*rule)(struct cfi_rows *self, uint64_t pc, uint64_t rule);
};

/* `entry`: after the length and the CIE id. */
void cie__parse(const struct cfi_section *section, struct cfi_bytes entry, struct cfi_cie *ret);
/* The range of a function; moves `entry` to its instructions. -EBADMSG: not usable. */
int fde__parse(const struct cfi_section *section, const struct cfi_cie *cie,
	       struct cfi_bytes *entry, uint64_t *ret_start, uint64_t *ret_size);
/* Runs the instructions of a function: 0, or what `rows` returned. */
int fde__run(const struct cfi_section *section, const struct cfi_cie *cie, struct cfi_bytes bytes,
	     uint64_t start, uint64_t size, struct cfi_rows *rows);

/* DW_CFA_def_cfa_expression, DW_CFA_expression. */
void expression__cfa(const uint8_t *at, const uint8_t *end, struct cfi_state *state);
void expression__location(const uint8_t *at, const uint8_t *end, struct cfi_location *place);

/* LEB128 numbers. On failure *at moves beyond `end`. */
static inline __attribute__((always_inline)) uint64_t cfi_leb(const uint8_t **at, const uint8_t *end, bool is_signed)
{
	uint64_t value = 0;
	unsigned shift = 0;
	const uint8_t *p = *at;

	while (p < end) {
		uint8_t byte = *p++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (!(byte & 0x80)) {
			if (is_signed && byte & 0x40 && shift < 64)
				value |= ~0ull << shift;
			*at = p;
			return value;
		}
	}
	*at = end + 1;
	return 0;
}

static inline uint64_t cfi_uleb(const uint8_t **at, const uint8_t *end)
{
	return cfi_leb(at, end, false);
}

static inline int64_t cfi_sleb(const uint8_t **at, const uint8_t *end)
{
	return (int64_t)cfi_leb(at, end, true);
}

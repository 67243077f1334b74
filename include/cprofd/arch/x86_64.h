/* SPDX-License-Identifier: MIT */
/* Unwinding on x86-64: the registers, and the encoding of rules. Included by arch.h only; another machine gets a
 * file of its own with the same names.
 *
 * A rule is a word that says how to find a frame's caller:
 *
 *   bits  0-31  signed: CFA = register + this
 *        32-47  signed: rbp is saved at CFA + this; 0: rbp is unchanged
 *        48-51  DWARF number of that register
 *        52-55  UNWIND_KIND_*
 *        56     UNWIND_SIGNAL: the caller was interrupted, it did not call
 *        57-63  rbx is saved at CFA - 8 * this; 0: rbx is unchanged; UNWIND_BASE_LOST
 *
 * The return address is at CFA - 8, and the caller's rsp is the CFA (psABI x86-64, 3.2.2 and 3.7). 99.9 % of a real
 * library's rows are of this kind, PLAIN. Kind LONG is followed by a second word:
 *
 *   bits  0-15  signed: added to what was read, with UNWIND_LONG_DEREF
 *        16-31  signed: offset of the return address
 *        32-35  register of the return address
 *        36-38  UNWIND_PLACE_* of the return address
 *        40-43  register of rbp; its offset is that of the first word
 *        44-46  UNWIND_PLACE_* of rbp
 *        48     UNWIND_LONG_DEREF: CFA = *(register + offset) + bits 0-15
 *
 * Only rbp and rbx are tracked from frame to frame. The lazy binding of glibc's loader (_dl_runtime_resolve)
 * addresses its frame by rbx during a call; as hardly any other code does, only the address where it was saved is
 * kept, and it is read when needed. All other registers are known in the interrupted frame, which is where compilers
 * need them: with a realigned stack the CFA is r10 or r13 in the first instructions of a function, before it can
 * call anything, and *(rbp + n) afterwards. */
#pragma once

#include "cprofd/host.h"
#include "cprofd/loss.h"

/* DWARF numbers (psABI x86-64, figure 3.36). */
#define UNWIND_REGISTERS 17u
#define UNWIND_BASE 3u
#define UNWIND_BP 6u
#define UNWIND_SP 7u
#define UNWIND_PC 16u
/* General registers, for code that goes over all of them. */
#define UNWIND_GENERAL 16u
/* Those that a callee keeps, by bit (psABI, 3.2.1). */
#define UNWIND_KEPT (1u << UNWIND_BASE | 1u << UNWIND_BP | 1u << 12 | 1u << 13 | 1u << 14 | 1u << 15)
/* Bytes below a leaf function's stack pointer that a signal's handler leaves alone (psABI, 3.2.2). */
#define UNWIND_RED_ZONE 128u

enum unwind_kind {
	UNWIND_KIND_PLAIN = 0,
	UNWIND_KIND_NONE = 1,        /* no call frame information for this code */
	UNWIND_KIND_END = 2,         /* the return address is undefined: the thread's entry function */
	UNWIND_KIND_PLT = 3,         /* the CFA is 8 more from byte n of each 16-byte entry; n in bits 32-47 */
	UNWIND_KIND_CONTEXT = 4,     /* a signal frame: all registers, from rsp + offset on */
	UNWIND_KIND_LONG = 5,
	UNWIND_KIND_UNSUPPORTED = 6, /* bits 0-31: enum unwind_unsupported */
	UNWIND_KIND_COUNT
};

enum unwind_location {
	UNWIND_PLACE_SAME = 0,
	UNWIND_PLACE_CFA = 1,        /* in memory at CFA + offset */
	UNWIND_PLACE_MEMORY = 2,     /* in memory at register + offset */
	UNWIND_PLACE_REGISTER = 3,   /* in the register */
	UNWIND_PLACE_LOST = 4,
	UNWIND_PLACE_COUNT
};

#define UNWIND_SIGNAL (1ull << 56)
/* If one of these bits is set, the rule is not PLAIN, or the caller was interrupted. */
#define UNWIND_UNUSUAL (15ull << 52 | UNWIND_SIGNAL)
#define UNWIND_LONG_DEREF (1ull << 48)

#define UNWIND_RULE(kind, reg, offset, saved)                                                      \
	((__u64)(__u32)(offset) | (__u64)(__u16)(saved) << 32 | (__u64)((reg) & 15) << 48 |        \
	 (__u64)(kind) << 52)
#define UNWIND_RULE_NONE UNWIND_RULE(UNWIND_KIND_NONE, 0, 0, 0)
#define UNWIND_RULE_END UNWIND_RULE(UNWIND_KIND_END, 0, 0, 0)
#define UNWIND_RULE_UNSUPPORTED(why) UNWIND_RULE(UNWIND_KIND_UNSUPPORTED, 0, why, 0)
#define UNWIND_LONG(outer, ra_location, ra_reg, ra_offset, bp_location, bp_reg, deref)                   \
	((__u64)(__u16)(outer) | (__u64)(__u16)(ra_offset) << 16 | (__u64)((ra_reg) & 15) << 32 |  \
	 (__u64)(ra_location) << 36 | (__u64)((bp_reg) & 15) << 40 | (__u64)(bp_location) << 44 |        \
	 ((deref) ? UNWIND_LONG_DEREF : 0))

#define unwind_rule_kind(rule) ((__u32)((rule) >> 52) & 15)
#define unwind_rule_register(rule) ((__u32)((rule) >> 48) & 15)
#define unwind_rule_offset(rule) ((__s64)(__s32)(rule))
/* The same rule with another offset. */
#define unwind_rule_moved(rule, offset) (((rule) & ~0xffffffffull) | (__u32)(offset))
#define unwind_rule_base(rule) ((__u32)((rule) >> 57))
#define UNWIND_BASE_LOST 127u
#define unwind_rule_saved(rule) ((__s64)(__s16)((rule) >> 32))

/* A rule packed into 23 bits, for the cache of rules; 0: a rare rule that does not fit.
 *
 *   bits  0-12  offset / 8          PLAIN
 *        13-16  -saved / 8
 *        17     the register: rbp, or rsp
 *        18-21  as bits 57-63, but 15 for UNWIND_BASE_LOST
 *
 *        22     set: any other
 *        19-21  kind
 *        18     UNWIND_SIGNAL
 *        14-17  register
 *        10-13  saved
 *         0-9   offset
 */
#define UNWIND_PACKED_BITS 23
#define UNWIND_PACKED_OTHER (1u << 22)
#define UNWIND_PACKED_LOST 15u
#define unwind_packed_offset(packed) ((__u64)((packed) & 0x1fff) << 3)
#define unwind_packed_saved(packed) (-(__s64)((packed) >> 10 & 0x78))
#define unwind_packed_by_bp(packed) ((packed) >> 17 & 1)
#define unwind_packed_base(packed) ((packed) >> 18 & 15)

HOST_INLINE __u64 unwind_rule_unpack(__u32 packed)
{
	__u64 base = unwind_packed_base(packed);

	if (packed & UNWIND_PACKED_OTHER)
		return UNWIND_RULE(packed >> 19 & 7, packed >> 14, packed & 0x3ff, packed >> 10 & 15) |
		       (packed & 1u << 18 ? UNWIND_SIGNAL : 0);
	return UNWIND_RULE(UNWIND_KIND_PLAIN, UNWIND_SP - unwind_packed_by_bp(packed), unwind_packed_offset(packed),
			   unwind_packed_saved(packed)) |
	       (base == UNWIND_PACKED_LOST ? UNWIND_BASE_LOST : base) << 57;
}

HOST_INLINE __u32 unwind_rule_pack(__u64 rule)
{
	__u32 base = unwind_rule_base(rule), packed;

	packed = ((__u32)rule >> 3 & 0x1fff) | ((__u32)-unwind_rule_saved(rule) >> 3 & 15) << 13 |
		 (unwind_rule_register(rule) == UNWIND_BP) << 17 | (base == UNWIND_BASE_LOST ? UNWIND_PACKED_LOST : base & 15) << 18;
	if (unwind_rule_unpack(packed) == rule)
		return packed;
	packed = UNWIND_PACKED_OTHER | (unwind_rule_kind(rule) & 7) << 19 | (rule & UNWIND_SIGNAL ? 1u << 18 : 0) |
		 unwind_rule_register(rule) << 14 | ((__u32)unwind_rule_saved(rule) & 15) << 10 | ((__u32)rule & 0x3ff);
	return unwind_rule_unpack(packed) == rule ? packed : 0;
}

/* The beginning of x86-64's struct sigcontext (asm/sigcontext.h), as DWARF numbers: its words are copied into the
 * registers in one read. It is at offset 40 of the ucontext. */
#define UNWIND_CONTEXT_OFFSET 40
#define UNWIND_CONTEXT_WORDS 17u
#define UNWIND_CONTEXT_ORDER {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16}

/* libffi's closures, through which callbacks of ctypes and cffi go, have no call frame information, or are in memory
 * that no list covers:
 *
 *   ffi_prep_closure_loc()    endbr64; lea -11(%rip), %r10; jmp *7(%rip)
 *   trampoline_code_table     endbr64; sub $16, %rsp; two words into it by way of r10; jmp *%r10
 *   ffi_closure_unix64_alt    endbr64; mov 8(%rsp), %r10; add $16, %rsp; jmp
 *
 * So have CPython's trampolines (sys.activate_stack_trampoline); the files that name them come too late for a walk where
 * a program turns them off and on, and each time has new memory for them:
 *
 *   _Py_trampoline_func_start 3.12   sub $8, %rsp; call *%rcx; add $8, %rsp; ret
 *                             3.13   push %rbp; mov %rsp, %rbp; call *%rcx; pop %rbp; ret
 *
 * (endbr64 is optional.) Their instructions are recognised by the 8 bytes before the program counter and 16 from it.
 * Sources: libffi 3.4 and 3.5, src/x86/ffi64.c and src/x86/unix64.S; CPython's Python/asm_trampoline.S. */
struct unwind_stub {
	__u64 rule, bytes[3], mask[3];
};
#define UNWIND_STUBS 23u
#define UNWIND_STUBS_CALLED 21u /* from here on: at a return address */
#define ANY 256
#define UNWIND_BYTES(a, b, c, d, e, f, g, h) \
	(UNWIND_BYTE(a) | UNWIND_BYTE(b) << 8 | UNWIND_BYTE(c) << 16 | UNWIND_BYTE(d) << 24 | UNWIND_BYTE(e) << 32 | \
	 UNWIND_BYTE(f) << 40 | UNWIND_BYTE(g) << 48 | UNWIND_BYTE(h) << 56)
#define UNWIND_NOTHING (ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY)
#define UNWIND_BYTE(byte) ((__u64)(byte) & 255)
#define UNWIND_MASK(a, b, c, d, e, f, g, h) \
	UNWIND_BYTES(UNWIND_KNOWN(a), UNWIND_KNOWN(b), UNWIND_KNOWN(c), UNWIND_KNOWN(d), UNWIND_KNOWN(e), UNWIND_KNOWN(f), \
		     UNWIND_KNOWN(g), UNWIND_KNOWN(h))
#define UNWIND_KNOWN(byte) ((byte) == ANY ? 0 : 255)
#define UNWIND_STUB(cfa, before, from, on) UNWIND_STUB_SAVED(cfa, 0, before, from, on)
#define UNWIND_STUB_SAVED(cfa, saved, before, from, on) \
	{UNWIND_RULE(UNWIND_KIND_PLAIN, UNWIND_SP, cfa, saved), {UNWIND_BYTES before, UNWIND_BYTES from, UNWIND_BYTES on}, {UNWIND_MASK before, UNWIND_MASK from, UNWIND_MASK on}}

/* clang-format off */
static const struct unwind_stub unwind_stubs[UNWIND_STUBS] = {
	UNWIND_STUB(8, UNWIND_NOTHING,
		(0xf3, 0x0f, 0x1e, 0xfa, 0x4c, 0x8d, 0x15, 0xf5), (0xff, 0xff, 0xff, 0xff, 0x25, 0x07, 0x00, 0x00)),
	UNWIND_STUB(8, UNWIND_NOTHING,
		(0x4c, 0x8d, 0x15, 0xf5, 0xff, 0xff, 0xff, 0xff), (0x25, 0x07, 0x00, 0x00, 0x00, ANY, ANY, ANY)),
	UNWIND_STUB(8, (0xfa, 0x4c, 0x8d, 0x15, 0xf5, 0xff, 0xff, 0xff),
		(0xff, 0x25, 0x07, 0x00, 0x00, 0x00, ANY, ANY), UNWIND_NOTHING),
	UNWIND_STUB(8, UNWIND_NOTHING,
		(0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x10), (0x4c, 0x89, 0x14, 0x24, 0x4c, 0x8b, 0x15, ANY)),
	UNWIND_STUB(8, UNWIND_NOTHING,
		(0x48, 0x83, 0xec, 0x10, 0x4c, 0x89, 0x14, 0x24), (0x4c, 0x8b, 0x15, ANY, ANY, ANY, ANY, 0x4c)),
	UNWIND_STUB(24, (ANY, ANY, ANY, ANY, 0x48, 0x83, 0xec, 0x10),
		(0x4c, 0x89, 0x14, 0x24, 0x4c, 0x8b, 0x15, ANY), (ANY, ANY, ANY, 0x4c, 0x89, 0x54, 0x24, 0x08)),
	UNWIND_STUB(24, (0x48, 0x83, 0xec, 0x10, 0x4c, 0x89, 0x14, 0x24),
		(0x4c, 0x8b, 0x15, ANY, ANY, ANY, ANY, 0x4c), (0x89, 0x54, 0x24, 0x08, 0x4c, 0x8b, 0x15, ANY)),
	UNWIND_STUB(24, UNWIND_NOTHING,
		(0x4c, 0x89, 0x54, 0x24, 0x08, 0x4c, 0x8b, 0x15), (ANY, ANY, ANY, ANY, 0x41, 0xff, 0xe2, ANY)),
	UNWIND_STUB(24, (ANY, ANY, ANY, 0x4c, 0x89, 0x54, 0x24, 0x08),
		(0x4c, 0x8b, 0x15, ANY, ANY, ANY, ANY, 0x41), (0xff, 0xe2, ANY, ANY, ANY, ANY, ANY, ANY)),
	UNWIND_STUB(24, (0x08, 0x4c, 0x8b, 0x15, ANY, ANY, ANY, ANY),
		(0x41, 0xff, 0xe2, ANY, ANY, ANY, ANY, ANY), UNWIND_NOTHING),
	UNWIND_STUB(24, UNWIND_NOTHING,
		(0xf3, 0x0f, 0x1e, 0xfa, 0x4c, 0x8b, 0x54, 0x24), (0x08, 0x48, 0x83, 0xc4, 0x10, 0xe9, ANY, ANY)),
	UNWIND_STUB(24, UNWIND_NOTHING,
		(0x4c, 0x8b, 0x54, 0x24, 0x08, 0x48, 0x83, 0xc4), (0x10, 0xe9, ANY, ANY, ANY, ANY, ANY, ANY)),
	UNWIND_STUB(24, (ANY, ANY, ANY, 0x4c, 0x8b, 0x54, 0x24, 0x08),
		(0x48, 0x83, 0xc4, 0x10, 0xe9, ANY, ANY, ANY), UNWIND_NOTHING),
	UNWIND_STUB(8, (0x8b, 0x54, 0x24, 0x08, 0x48, 0x83, 0xc4, 0x10),
		(0xe9, ANY, ANY, ANY, ANY, ANY, ANY, ANY), UNWIND_NOTHING),
	UNWIND_STUB(8, UNWIND_NOTHING,
		(0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83), (0xc4, 0x08, 0xc3, ANY, ANY, ANY, ANY, ANY)),
	UNWIND_STUB(16, (ANY, ANY, ANY, ANY, 0x48, 0x83, 0xec, 0x08),
		(0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3, ANY), UNWIND_NOTHING),
	UNWIND_STUB(8, (0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08),
		(0xc3, ANY, ANY, ANY, ANY, ANY, ANY, ANY), UNWIND_NOTHING),
	UNWIND_STUB(8, UNWIND_NOTHING,
		(0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3), UNWIND_NOTHING),
	UNWIND_STUB_SAVED(16, -16, (ANY, ANY, ANY, ANY, ANY, ANY, ANY, 0x55),
		(0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3, ANY), UNWIND_NOTHING),
	UNWIND_STUB_SAVED(16, -16, (ANY, ANY, ANY, ANY, 0x55, 0x48, 0x89, 0xe5),
		(0xff, 0xd1, 0x5d, 0xc3, ANY, ANY, ANY, ANY), UNWIND_NOTHING),
	UNWIND_STUB(8, (ANY, 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d),
		(0xc3, ANY, ANY, ANY, ANY, ANY, ANY, ANY), UNWIND_NOTHING),
	UNWIND_STUB(16, (ANY, ANY, 0x48, 0x83, 0xec, 0x08, 0xff, 0xd1),
		(0x48, 0x83, 0xc4, 0x08, 0xc3, ANY, ANY, ANY), UNWIND_NOTHING),
	UNWIND_STUB_SAVED(16, -16, (ANY, ANY, 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1),
		(0x5d, 0xc3, ANY, ANY, ANY, ANY, ANY, ANY), UNWIND_NOTHING),
};
/* clang-format on */
#undef ANY

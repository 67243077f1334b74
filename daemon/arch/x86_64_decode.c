/* SPDX-License-Identifier: MIT */
#if defined(__x86_64__)
/* Instructions of x86-64, as far as they move the stack pointer, save registers or lead elsewhere:
 *
 *    55              push %rbp                {CODE_PUSH, .from = 6}
 *    48 89 e5        mov %rsp, %rbp           {CODE_MOVE, .to = 6, .from = 7}
 *    48 83 ec 18     sub $24, %rsp            {CODE_LEA, .to = 7, .from = 7, .value = -24}
 *    ff 24 c5 ...    jmp *table(,%rax,8)      {CODE_AWAY, .table = true}
 *
 * Zydis decodes. Everything else is CODE_OTHER, with the registers and the memory that Zydis says are written, so an
 * instruction that is not known here can only make a state weaker. */
#include "arch/operation.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdlib.h>

struct code_decoder {
	ZydisDecoder zydis;
};

/* What Zydis returns: 10 operands at most, with the implicit ones. */
struct instruction {
	ZydisDecodedInstruction head;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

int code_decoder__new(struct code_decoder **ret)
{
	struct code_decoder *decoder = calloc(1, sizeof(*decoder));

	if (!decoder)
		return -ENOMEM;
	if (ZYAN_FAILED(ZydisDecoderInit(&decoder->zydis, ZYDIS_MACHINE_MODE_LONG_64,
					 ZYDIS_STACK_WIDTH_64))) {
		free(decoder);
		return -ENOTSUP;
	}
	*ret = decoder;
	return 0;
}

void code_decoder__free(struct code_decoder *decoder)
{
	free(decoder);
}

/* The DWARF number of a register, or of the one that it is a part of. psABI, figure 3.36: DWARF numbers the first eight
 * registers in another order than their encoding. */
static uint8_t number_of(ZydisRegister reg)
{
	static const uint8_t numbers[8] = {0, 2, 1, 3, 7, 6, 4, 5};
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15)
		return CODE_NONE;
	whole -= ZYDIS_REGISTER_RAX;
	return whole < 8 ? numbers[whole] : (uint8_t)whole;
}

/* A write of a part of a register is not followed: the value is anything afterwards. */
static bool is_64(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       operand->reg.value >= ZYDIS_REGISTER_RAX && operand->reg.value <= ZYDIS_REGISTER_R15;
}

/* [register + constant], 8 bytes, in the flat address space. */
static bool is_word(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY && operand->size == 64 &&
	       operand->mem.index == ZYDIS_REGISTER_NONE &&
	       operand->mem.segment != ZYDIS_REGISTER_FS &&
	       operand->mem.segment != ZYDIS_REGISTER_GS &&
	       operand->mem.base >= ZYDIS_REGISTER_RAX && operand->mem.base <= ZYDIS_REGISTER_R15;
}

static bool is_number(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

/* Also implicit operands: `cpuid`, `mul` and others name registers that are not in their text. */
static void take_writes(const struct instruction *in, struct code_op *op)
{
	for (unsigned i = 0; i < in->head.operand_count; i++) {
		const ZydisDecodedOperand *o = &in->operands[i];

		if (!(o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		if (o->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			uint8_t reg = number_of(o->reg.value);

			if (reg != CODE_NONE)
				op->writes |= (uint16_t)(1u << reg);
		} else if (o->type == ZYDIS_OPERAND_TYPE_MEMORY &&
			   o->mem.index == ZYDIS_REGISTER_NONE &&
			   o->mem.type == ZYDIS_MEMOP_TYPE_MEM) {
			op->store = number_of(o->mem.base);
			op->value = o->mem.disp.value;
			op->size = o->size / 8 > 255 ? 255 : (uint8_t)(o->size / 8);
		}
	}
}

/* A target in the instruction itself is relative to the next one; op->value counts from the function's first byte. */
static void take_target(const struct instruction *in, struct code_op *op, uint32_t at)
{
	if (is_number(&in->operands[0]) && in->operands[0].imm.is_relative) {
		op->near = true;
		op->value = (int64_t)at + op->length + in->operands[0].imm.value.s;
	}
}

/* A move of a part of a register, or of memory with an index, stays CODE_OTHER. */
static void take_move(const struct instruction *in, struct code_op *op)
{
	const ZydisDecodedOperand *to = &in->operands[0], *from = &in->operands[1];

	if (is_64(to) && is_64(from)) {
		op->kind = CODE_MOVE;
		op->to = number_of(to->reg.value);
		op->from = number_of(from->reg.value);
	} else if (is_64(to) && is_word(from)) {
		op->kind = CODE_LOAD;
		op->to = number_of(to->reg.value);
		op->from = number_of(from->mem.base);
		op->value = from->mem.disp.value;
	} else if (is_word(to) && is_64(from)) {
		op->kind = CODE_STORE;
		op->to = number_of(to->mem.base);
		op->from = number_of(from->reg.value);
		op->value = to->mem.disp.value;
	}
}

/* An address relative to rip, or with an index, stays CODE_OTHER. */
static void take_lea(const struct instruction *in, struct code_op *op)
{
	const ZydisDecodedOperand *to = &in->operands[0], *from = &in->operands[1];

	if (!is_64(to) || from->mem.index != ZYDIS_REGISTER_NONE ||
	    from->mem.base < ZYDIS_REGISTER_RAX || from->mem.base > ZYDIS_REGISTER_R15)
		return;
	op->kind = CODE_LEA;
	op->to = number_of(to->reg.value);
	op->from = number_of(from->mem.base);
	op->value = from->mem.disp.value;
}

/* add, sub, and, or, cmp, xor. */
static void take_arithmetic(const struct instruction *in, struct code_op *op)
{
	const ZydisDecodedOperand *to = &in->operands[0], *from = &in->operands[1];
	uint8_t reg =
		to->type == ZYDIS_OPERAND_TYPE_REGISTER ? number_of(to->reg.value) : CODE_NONE;

	/* A page is touched, or it is a barrier: lock or $0, (%rsp). */
	if (in->head.mnemonic == ZYDIS_MNEMONIC_OR && is_number(from) && !from->imm.value.u &&
	    reg == CODE_NONE)
		op->kind = CODE_NOTHING;
	if (reg == CODE_NONE)
		return;
	if (in->head.mnemonic == ZYDIS_MNEMONIC_XOR || in->head.mnemonic == ZYDIS_MNEMONIC_SUB) {
		if (to->size >= 32 && from->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    to->reg.value == from->reg.value) {
			op->kind = CODE_ZERO;
			op->to = reg;
			return;
		}
	}
	if (!is_64(to))
		return;
	if (in->head.mnemonic == ZYDIS_MNEMONIC_CMP && is_64(from)) {
		op->kind = CODE_COMPARE;
		op->to = reg;
		op->from = number_of(from->reg.value);
		if (op->to != UNWIND_SP && op->from != UNWIND_SP)
			op->kind = CODE_NOTHING;
	} else if (is_number(from) && in->head.mnemonic == ZYDIS_MNEMONIC_AND) {
		op->kind = CODE_ALIGN;
		op->to = reg;
	} else if (is_number(from) && (in->head.mnemonic == ZYDIS_MNEMONIC_ADD ||
				       in->head.mnemonic == ZYDIS_MNEMONIC_SUB)) {
		op->kind = CODE_LEA;
		op->to = op->from = reg;
		op->value = from->imm.value.s;
		if (in->head.mnemonic == ZYDIS_MNEMONIC_SUB)
			op->value = -op->value;
	}
}

static void take_push(const struct instruction *in, struct code_op *op)
{
	const ZydisDecodedOperand *what = &in->operands[0];

	if (in->head.operand_width != 64)
		return; /* 2 bytes: rsp is written, and not followed */
	op->kind = CODE_PUSH;
	if (is_64(what)) {
		op->from = number_of(what->reg.value);
	} else if (is_word(what)) {
		op->kind = CODE_PUSH_LOAD;
		op->from = number_of(what->mem.base);
		op->value = what->mem.disp.value;
	}
}

/* pop into memory is CODE_OTHER: it writes rsp, which is not known afterwards. Compilers do not use it. */
static void take_pop(const struct instruction *in, struct code_op *op)
{
	if (in->head.operand_width != 64 || in->operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY)
		return;
	op->kind = CODE_POP;
	if (is_64(&in->operands[0]))
		op->to = number_of(in->operands[0].reg.value);
}

/* What is computed by a sum, or read at an index, may be an address out of a table. */
static bool is_of_table(const struct instruction *in)
{
	const ZydisDecodedOperand *from = &in->operands[1];

	if (in->head.operand_count < 2 || in->head.mnemonic == ZYDIS_MNEMONIC_SUB)
		return false;
	if (from->type == ZYDIS_OPERAND_TYPE_MEMORY)
		return from->mem.index != ZYDIS_REGISTER_NONE;
	return in->head.mnemonic == ZYDIS_MNEMONIC_ADD && is_64(from);
}

/* An indirect jump may be a tail call, or go through a table: op->table says what it looks like. */
static void take_jump(const struct instruction *in, struct code_op *op, uint32_t at)
{
	op->kind = CODE_JUMP;
	take_target(in, op, at);
	if (op->near)
		return;
	op->kind = CODE_AWAY;
	op->writes = 0;
	op->table = false;
	if (is_64(&in->operands[0]))
		op->from = number_of(in->operands[0].reg.value);
	else if (in->operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY)
		op->table = in->operands[0].mem.index != ZYDIS_REGISTER_NONE;
}

/* Changes op->kind if the instruction is of a kind that is followed. */
static void take_special(const struct instruction *in, struct code_op *op, uint32_t at)
{
	switch (in->head.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
		take_move(in, op);
		return;
	case ZYDIS_MNEMONIC_LEA:
		take_lea(in, op);
		return;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_AND:
	case ZYDIS_MNEMONIC_OR:
	case ZYDIS_MNEMONIC_XOR:
	case ZYDIS_MNEMONIC_CMP:
		take_arithmetic(in, op);
		return;
	case ZYDIS_MNEMONIC_PUSH:
		take_push(in, op);
		return;
	case ZYDIS_MNEMONIC_PUSHFQ:
		op->kind = CODE_PUSH;
		return;
	case ZYDIS_MNEMONIC_POP:
		take_pop(in, op);
		return;
	case ZYDIS_MNEMONIC_POPFQ:
		op->kind = CODE_POP;
		return;
	case ZYDIS_MNEMONIC_LEAVE:
		if (in->head.operand_width == 64)
			op->kind = CODE_LEAVE;
		return;
	case ZYDIS_MNEMONIC_ENTER:
		if (in->head.operand_width == 64 && !in->operands[1].imm.value.u) {
			op->kind = CODE_ENTER;
			op->value = (int64_t)in->operands[0].imm.value.u;
		}
		return;
	/* A call's own writes (its return address) are undone when it returns. */
	case ZYDIS_MNEMONIC_CALL:
		op->kind = CODE_CALL;
		op->writes = 0;
		take_target(in, op, at);
		return;
	case ZYDIS_MNEMONIC_JMP:
		take_jump(in, op, at);
		return;
	case ZYDIS_MNEMONIC_RET:
		op->kind = CODE_RETURN;
		op->value = is_number(&in->operands[0]) ? in->operands[0].imm.value.s : 0;
		return;
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_INT3:
		op->kind = CODE_STOP;
		return;
	default:
		break;
	}
	/* All conditional jumps, also loop and jrcxz. */
	if (in->head.meta.category == ZYDIS_CATEGORY_COND_BR) {
		op->kind = CODE_BRANCH;
		op->unequal = in->head.mnemonic == ZYDIS_MNEMONIC_JNZ;
		take_target(in, op, at);
	} else if (in->head.meta.category == ZYDIS_CATEGORY_NOP ||
		   in->head.meta.category == ZYDIS_CATEGORY_WIDENOP ||
		   in->head.mnemonic == ZYDIS_MNEMONIC_ENDBR64) {
		op->kind = CODE_NOTHING;
	} else if (in->head.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
		   in->head.meta.category == ZYDIS_CATEGORY_RET ||
		   in->head.mnemonic == ZYDIS_MNEMONIC_IRETQ) {
		op->kind = CODE_STOP; /* far jumps and returns are not followed */
	}
}

void code_decoder__run(const struct code_decoder *decoder, const uint8_t *bytes, uint32_t len,
		       uint32_t at, struct code_op *ret)
{
	struct instruction in;

	*ret = (struct code_op){.kind = CODE_BAD,
				.length = 1,
				.to = CODE_NONE,
				.from = CODE_NONE,
				.store = CODE_NONE};
	if (len > ZYDIS_MAX_INSTRUCTION_LENGTH)
		len = ZYDIS_MAX_INSTRUCTION_LENGTH;
	/* The longest instruction has 15 bytes; what does not decode within `len` is CODE_BAD, of one byte. */
	if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder->zydis, bytes, len, &in.head, in.operands)))
		return;
	ret->kind = CODE_OTHER;
	ret->length = in.head.length;
	take_writes(&in, ret);
	ret->table = is_of_table(&in);
	take_special(&in, ret, at);
}
#endif

#include "classes/bytecode.h"

#include <string.h>

static void add_name(struct bytecode_site *site, uint32_t name)
{
	memmove(site->names + 1, site->names, sizeof(site->names) - sizeof(site->names[0]));
	site->names[0] = name;
	site->n += site->n < BYTECODE_NAMES;
}

void bytecode__site(uint32_t minor, const uint8_t *code, uint32_t size, uint32_t offset, struct bytecode_site *ret)
{
	uint32_t at, next, argument = 0;

	*ret = (struct bytecode_site){};
	if (minor < OPCODE_FIRST || minor >= OPCODE_FIRST + OPCODE_VERSIONS)
		return;
	for (at = 0; size >= 2 && at <= size - 2; at = next) {
		const struct opcode *opcode = &opcodes[minor - OPCODE_FIRST][code[at]];

		argument = argument << 8 | code[at + 1];
		next = at + 2 + 2 * opcode->caches;
		if (offset < next) {
			ret->kind = opcode->kind == OPCODE_CALL || opcode->kind == OPCODE_OPERATOR ? opcode->kind : OPCODE_OTHER;
			return;
		}
		if (opcode->kind == OPCODE_EXTENDED)
			continue;
		if (opcode->kind >= OPCODE_NAME && opcode->kind <= OPCODE_NAME_2)
			add_name(ret, argument >> (opcode->kind - OPCODE_NAME));
		argument = 0;
	}
}

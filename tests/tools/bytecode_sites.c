/* SPDX-License-Identifier: MIT */
/* What classes/bytecode.h says of calls: lines "MINOR HEX OFFSET..." on stdin; of each offset "EXACT NAME", a number of co_names or
 * -1, on a line of stdout. For tests/live/callees.py --names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "classes/bytecode.h"

static uint32_t from_hex(const char *hex, size_t n, uint8_t *code)
{
	size_t i;
	unsigned byte;

	for (i = 0; i + 1 < n && sscanf(hex + i, "%2x", &byte) == 1; i += 2)
		code[i / 2] = (uint8_t)byte;
	return (uint32_t)(i / 2);
}

int main(void)
{
	struct bytecode_site site;
	size_t capacity = 0;
	char *line = NULL, *word, *rest;
	uint8_t *code;
	uint32_t size, minor;

	while (getline(&line, &capacity, stdin) > 0) {
		minor = (uint32_t)strtoul(strtok_r(line, " \n", &rest), NULL, 10);
		word = strtok_r(NULL, " \n", &rest);
		if (!word)
			return 1;
		code = malloc(strlen(word) / 2 + 1);
		if (!code)
			return 1;
		size = from_hex(word, strlen(word), code);
		while ((word = strtok_r(NULL, " \n", &rest))) {
			bytecode__site(minor, code, size, (uint32_t)strtoul(word, NULL, 10), &site);
			printf("%d %d\n", site.kind == OPCODE_CALL && site.exact, site.named ? (int)site.own : -1);
		}
		free(code);
	}
	free(line);
	return 0;
}

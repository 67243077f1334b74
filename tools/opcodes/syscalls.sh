#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes daemon/arch/x86_64_syscalls.c from the kernel's header: syscalls.sh /usr/include/x86_64-linux-gnu/asm/unistd_64.h
set -eu
echo "/* SPDX-License-Identifier: MIT */"
echo "/* Made by tools/opcodes/syscalls.sh from asm/unistd_64.h. Numbers never change. */"
printf '#if defined(__x86_64__)\n#include "arch/arch.h"\n\n/* clang-format off */\nstatic const char *const names[] = {'
awk '$1 == "#define" && $2 ~ /^__NR_/ { sub(/^__NR_/, "", $2); printf("%s[%d] = \"%s\",", n++ % 5 ? " " : "\n\t", $3, $2) }' "$1"
printf '\n};\n/* clang-format on */\n\n'
cat <<'C'
const char *machine__syscall_name(uint32_t number)
{
	return number < sizeof(names) / sizeof(names[0]) ? names[number] : NULL;
}
#endif
C

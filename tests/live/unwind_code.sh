#!/bin/sh
# SPDX-License-Identifier: MIT
# run-live: beside
# Code that is followed as if it had no call frame information, against what its call frame information says (libdw): at
# each instruction of the machine's libraries (CPROFD_ELFS: files and folders; without it some that differ most). And the
# walk through a program that has none, which is `tests/live/native.py`'s.
here=$(dirname "$0")
tools=$here/../../build/tests/tools
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

report()
{
	if [ "$1" = 0 ]; then
		passed=$((passed + 1))
		echo "ok $2"
	else
		failed=$((failed + 1))
		echo "FAILED $2"
	fi
}

libs=/usr/lib/x86_64-linux-gnu
python=$(readlink -f /usr/bin/python3)
find ${CPROFD_ELFS:-$(ls -d "$python" $libs/libc.so.6 $libs/libm.so.6 $libs/ld-linux-x86-64.so.2 $libs/libstdc++.so.6* \
	$libs/libpython3.*.so.1.0 $libs/libLLVM-1*.so.1 $libs/libcrypto.so.3 $libs/libgcrypt.so.20* $libs/openblas*/libopenblas*.so \
	/usr/lib/python3/dist-packages/numpy/core /usr/lib/python3/dist-packages/scipy/linalg \
	/usr/lib/python3/dist-packages/llvmlite 2>/dev/null)} -type f \( -perm -u+x -o -name '*.so*' \) |
	"$tools/code_compare" > "$work/log"
status=$?
grep '^  ' "$work/log" | head -n 20
grep -E '^[0-9]+ files|^unsupported' "$work/log"
report $status "what code says of its frames is what libdw says"

# Most of it must be known, too.
share=$(sed -n 's/^[0-9]* files.*equal \([0-9]*\)\..*/\1/p' "$work/log")
[ "${share:-0}" -ge 98 ]
report $? "at $share % of the instructions it is known"

# Functions of which not even the beginning is known.
ls -d $libs/libc.so.6 $libs/libm.so.6 $libs/libgcrypt.so.20 2>/dev/null | "$tools/code_compare" -f > "$work/log"
status=$?
grep '^  ' "$work/log" | head -n 20
grep -E '^[0-9]+ files|^of [0-9]+ places|^unsupported' "$work/log"
report $status "what is found without a name says what libdw says"

# A function without call frame information, compiled with and without it: the tables hold for the same addresses.
cat > "$work/a.c" <<'C'
#include <alloca.h>
#include <string.h>
int f(int n) { char *room = alloca(n); memset(room, n, n); return n ? f(n - 1) + room[0] : 0; }
int g(int n, int (*h)(int)) { return h(n) + f(n) + h(n + 1); }
int k(int n, int (*h)(int)) { switch (n) { case 0: return h(1); case 1: return h(5) + 1; case 2: return g(n, h); case 3: return h(9) * 2;
	case 4: return h(3) - n; case 5: return 7; } return 0; }
C
gcc -O2 -fpic -shared -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions -o "$work/bare.so" "$work/a.c" &&
	"$tools/unwind_bench" "$work/bare.so" > "$work/bench" && grep -q functions "$work/bench"
report $? "a library without call frame information has a table"

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]

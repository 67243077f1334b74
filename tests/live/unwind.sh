#!/bin/sh
# SPDX-License-Identifier: MIT
# run-live: beside
# Native unwinding against libdw and libunwind: tables of the machine's ELF files row by row (CPROFD_ELFS:
# files and folders, default some libraries that differ most), a child at each of its instructions, and the
# stepper in the kernel. Needs root (BPF).
here=$(dirname "$0")
tools=$here/../../build/tests/tools
object=$here/../../build/tests/bpf/unwind.bpf.o
work=$(mktemp -d)
log=$work/log
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# report STATUS NAME
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
find ${CPROFD_ELFS:-$(ls -d "$python" $libs/libc.so.6 $libs/libm.so.6 $libs/ld-linux-x86-64.so.2 $libs/libLLVM-1*.so.1 \
	$libs/libstdc++.so.6* $libs/libcrypto.so.3 $libs/libgcrypt.so.20* /usr/lib/python3/dist-packages/numpy/core \
	/usr/lib/python3/dist-packages/scipy/linalg /usr/lib/python3/dist-packages/llvmlite 2>/dev/null)} -type f \( -perm -u+x -o -name '*.so*' \) |
	"$tools/unwind_compare" > "$log"
status=$?
grep -E '^  |wrong [1-9]|missing [1-9]|too much [1-9]' "$log" | head -n 40
grep -E '^[0-9]+ files|^unsupported|^files without' "$log"
report $status "tables are libdw's"

"$tools/unwind_live"
report $? "a stepped child's stacks are libunwind's"

"$tools/unwind_bpf" "$object"
report $? "stacks in the kernel are libunwind's"

# As a JIT compiler registers its objects: sections have addresses, .eh_frame is not relocated. The
# oracle is the linker, which places the same sections there.
gcc -O2 -c -o "$work/a.o" -x c - <<'C'
int f(int n) { char room[n]; room[0] = n; return n ? f(n - 1) + room[0] : 0; }
int g(int n, int (*h)(int)) { return h(n) + f(n) + h(n + 1); }
C
ld -e 0 -Ttext=0x7f0000001000 --section-start=.eh_frame=0x7f0000003000 -o "$work/linked" "$work/a.o" &&
	objcopy --change-section-address .text=0x7f0000001000 \
		--change-section-address .eh_frame=0x7f0000003000 "$work/a.o" "$work/loaded" &&
	"$tools/unwind_compare" --same "$work/linked" "$work/loaded" 
report $? "the table of an object that was only loaded is that of the linked one"

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]

#!/bin/sh
# SPDX-License-Identifier: MIT
# run-live: beside
# Each interpreter found is identified from outside and compared with what it says
# of itself: version, address of _PyRuntime, address of PyCode_Type. Then what
# must be refused by name: Python 2.7, 3.6, a process that is no Python.
#   identify.sh [IDENTIFY]      default: build/tests/tools/identify. Needs root.
here=$(dirname "$0")
identify=${1:-$here/../../build/tests/tools/identify}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# start INTERPRETER ARGS..: its pid in $pid, its first line of output in $said
start()
{
	rm -f "$work/pipe"
	mkfifo "$work/pipe"
	"$@" > "$work/pipe" &
	pid=$!
	read -r said < "$work/pipe"
}

stop()
{
	kill "$pid"
	wait "$pid" 2>/dev/null
}

# A build without ctypes (no libffi) is asked for what nm tells of it.
truth='
import subprocess, sys, time, types
v = sys.version_info
text = "%d.%d.%d" % v[:3]
text += {"alpha": "a%d", "beta": "b%d", "candidate": "rc%d"}[v[3]] % v[4] if v[3] != "final" else ""
text += "t" if "t" in getattr(sys, "abiflags", "") else ""
try:
    import ctypes
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
except ImportError:
    header = subprocess.check_output(["readelf", "-hW", sys.executable]).decode()
    nm = subprocess.check_output(["nm", sys.executable]).decode()
    runtime = [int(line.split()[0], 16) for line in nm.splitlines() if line.endswith(" _PyRuntime")][0]
    if "Type:" in header and "DYN" in header:
        runtime += int(open("/proc/self/maps").readline().split("-")[0], 16)
print("%s runtime 0x%x code_type 0x%x" % (text, runtime, id(types.CodeType)))
sys.stdout.flush()
time.sleep(300)
'

"$here/pythons.sh" > "$work/pythons"
while read -r name path; do
	start "$path" -c "$truth"
	found=$("$identify" "$pid" 2> "$work/time")
	stop
	if [ -n "$said" ] && [ "$found" = "$said" ]; then
		echo "ok $name: $found ($(cat "$work/time"))"
	else
		echo "FAILED $name ($path): found '$found', is '$said'"
		failed=1
	fi
done < "$work/pythons"
[ -s "$work/pythons" ] || { echo "FAILED: no interpreter found"; failed=1; }

# refused PID WORDS
refused()
{
	found=$("$identify" "$1" 2>/dev/null)
	if [ $? = 1 ] && case $found in *"$2"*) ;; *) false ;; esac; then
		echo "ok refused: $found"
	else
		echo "FAILED: '$found' instead of a refusal with '$2'"
		failed=1
	fi
}

"$here/pythons.sh" --all | while read -r name path; do
	case $name in 2.*|3.[0-7].*) echo "$name $path" ;; esac
done > "$work/old"
[ -s "$work/old" ] || echo "skipped: no CPython before 3.8 is here to be refused"
while read -r name path; do
	start "$path" -c 'import sys, time; print("up"); sys.stdout.flush(); time.sleep(300)'
	refused "$pid" "$name"
	stop
done < "$work/old"
start sh -c 'echo up; exec sleep 300'
while [ "$(cat /proc/$pid/comm)" != sleep ]; do sleep 0.05; done # the exec
refused "$pid" "no CPython"
stop
if [ "$(cat /proc/2/comm 2>/dev/null)" = kthreadd ]; then refused 2 "kernel thread"; else echo "skipped: no kernel thread is seen here"; fi
exit $failed

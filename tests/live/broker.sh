#!/bin/sh
# SPDX-License-Identifier: MIT
# run-live: beside
# What the broker gives, and to whom: an engine that only asks (broker_probe) runs
# as `nobody` for root and as a user without privileges, against processes of
# both, against children, kernel threads and processes that are not there.
#   broker.sh [BROKER_PROBE]    default: build/tests/tools/broker_probe. Needs root.
probe=${1:-$(dirname "$0")/../../build/tests/tools/broker_probe}
uid=64999 # a number without a name will do
work=$(mktemp -d)
trap 'rm -rf "$work"; kill $pids 2>/dev/null' EXIT
failed=0
pids=

# For the background only: the shell becomes the command, so that $! is its pid.
as_user() { exec setpriv --reuid=$uid --regid=$uid --clear-groups "$@"; }

# expect NAME STATUS WORDS ARGS..: the probe's exit status, and a line of its output
expect()
{
	name=$1 status=$2 words=$3
	shift 3
	timeout 60 "$probe" "$@" > "$work/out"
	got=$?
	if [ $got = "$status" ] && grep -q "$words" "$work/out"; then
		echo "ok $name"
	else
		echo "FAILED $name: exit status $got, expected $status and '$words':"
		grep -v ': ok$' "$work/out"
		failed=1
	fi
}

# until TRIES.. CONDITION: half a minute at most
until_() { i=0; while ! "$@" && [ $i -lt 600 ]; do sleep 0.05; i=$((i + 1)); done; }
is() { [ "$(cat /proc/$1/comm 2>/dev/null)" = sleep ] && [ -z "${2-}" -o "$(stat -c %u /proc/$1 2>/dev/null)" = "${2-}" ]; }
has_children() { [ "$(cat /proc/$1/task/$1/children 2>/dev/null | wc -w)" = 2 ]; }

sleep 300 & of_root=$!
as_user sleep 300 & of_user=$!
# As ssh-agent and gpg-agent do: PR_SET_DUMPABLE 0.
as_user /usr/bin/python3 -c 'import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print("hidden", flush=True); time.sleep(300)' > "$work/hidden" & hidden=$!
# A setuid program is its owner's, whoever started it.
chmod 711 "$work"
install -m 4755 "$(command -v sleep)" "$work/sleep"
as_user "$work/sleep" 300 & setuid=$!
sh -c 'sleep 300 & sleep 300 & wait' & parent=$!
pids="$of_root $of_user $hidden $setuid $parent"
until_ is $of_root; until_ is $of_user $uid; until_ is $setuid; until_ [ -s "$work/hidden" ]; until_ has_children $parent
pids="$pids $(cat /proc/$parent/task/$parent/children 2>/dev/null)"

expect "root, its own process" 0 "RESUME: ok" $of_root
expect "root, each mapped file" 0 '^files: \([1-9][0-9]*\) of \1 ' -f $of_root
expect "root, with pools for unwind tables" 0 "RESUME: ok" -n $of_root
expect "a user, with pools for unwind tables" 0 "RESUME: ok" -n -u $uid $of_user
expect "root, a user's process" 0 "RESUME: ok" $of_user
expect "a user, its own process" 0 "RESUME: ok" -u $uid $of_user
expect "a user, each mapped file" 0 '^files: \([1-9][0-9]*\) of \1 ' -f -u $uid $of_user
expect "a user, root's process" 1 "belongs to someone else" -u $uid $of_root
expect "a user, pid 1" 1 "belongs to someone else" -u $uid 1
expect "a user, a process that hides" 1 "belongs to someone else" -u $uid $hidden
expect "a user, a setuid program" 1 "belongs to someone else" -u $uid $setuid
expect "root, a process that its client did not name" 1 "did not name" -a $of_root
expect "a user, who has to name none" 0 "RESUME: ok" -a -u $uid $of_user
expect "root, children that run already" 0 "^child" -s $parent
expect "no such process" 1 "no such process" 999999999
if [ "$(cat /proc/2/comm 2>/dev/null)" = kthreadd ]; then expect "a kernel thread" 1 "kernel thread" 2; else echo "skipped: no kernel thread is seen here"; fi
kill $of_user; wait $of_user 2>/dev/null
expect "a process that ended" 1 "no such process" -u $uid $of_user
# A file system that does not answer: what is asked for before and after it is served in time.
if [ -c /dev/fuse ] && [ -d /sys/fs/fuse ]; then
	mkdir "$work/mount"
	python3 "$(dirname "$0")/mute_files.py" "$work/mount" > "$work/mute" & mute=$!
	pids="$pids $mute"
	until_ [ -s "$work/mute" ]
	expect "a file system that is mute" 0 "^files: .* in [0-9]\{1,4\}\.[0-9] ms" -f "$(cat "$work/mute")"
	timeout 60 "$probe" -f "$(cat "$work/mute")" > "$work/out"
	if grep -q "/mount/file: .*timed out" "$work/out"; then
		echo "ok its file is given up"
	else
		echo "FAILED its file is given up:"; cat "$work/out"; failed=1
	fi
	kill $mute; wait $mute 2>/dev/null
	umount -l "$work/mount" 2>/dev/null
else
	echo "skipped: no FUSE here"
fi
exit $failed

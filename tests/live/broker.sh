#!/bin/sh
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
	"$probe" "$@" > "$work/out"
	got=$?
	if [ $got = "$status" ] && grep -q "$words" "$work/out"; then
		echo "ok $name"
	else
		echo "FAILED $name: exit status $got, expected $status and '$words':"
		grep -v ': ok$' "$work/out"
		failed=1
	fi
}

sleep 60 & of_root=$!
as_user sleep 60 & of_user=$!
# As ssh-agent and gpg-agent do: PR_SET_DUMPABLE 0.
as_user /usr/bin/python3 -c 'import ctypes, time; ctypes.CDLL(None).prctl(4, 0); time.sleep(60)' & hidden=$!
# A setuid program is its owner's, whoever started it.
chmod 711 "$work"
install -m 4755 "$(command -v sleep)" "$work/sleep"
as_user "$work/sleep" 60 & setuid=$!
sh -c 'sleep 60 & sleep 60 & wait' & parent=$!
pids="$of_root $of_user $hidden $setuid $parent"
sleep 0.3
pids="$pids $(cat /proc/$parent/task/$parent/children 2>/dev/null)"

expect "root, its own process" 0 "RESUME: ok" -f $of_root
expect "root, a user's process" 0 "RESUME: ok" $of_user
expect "a user, its own process" 0 "RESUME: ok" -f -u $uid $of_user
expect "a user, root's process" 1 "belongs to someone else" -u $uid $of_root
expect "a user, pid 1" 1 "belongs to someone else" -u $uid 1
expect "a user, a process that hides" 1 "belongs to someone else" -u $uid $hidden
expect "a user, a setuid program" 1 "belongs to someone else" -u $uid $setuid
expect "root, children that run already" 0 "^child" -s $parent
expect "no such process" 1 "no such process" 999999999
expect "a kernel thread" 1 "kernel thread" 2
kill $of_user; wait $of_user 2>/dev/null
expect "a process that ended" 1 "no such process" -u $uid $of_user
exit $failed

#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs tests one by one. A test passes when its exit status is 0, its last line is
# "N passed, N failed, N skipped" with nothing failed, and something passed or was
# skipped by name. (Of one without that line, lines "ok ..." or "... ok" and "FAILED ..." or
# "... FAILED" are counted, and "skip...".)
# Their output is shown when they fail, or with V=1; build/artifacts/*.log keeps it.
# A test that has a line "run-live: beside" expects nothing of how often or how fast something is sampled: it runs beside the
# others, two at a time, and gives way to them.
# What failed runs again at the end, by itself, and counts as it ends then: a busy machine is no fault of the program. The
# output shows both. Not where a line "run-live: once" says that it must never happen, and not when more than three failed.
set -u
cd "$(dirname "$0")/.."
# A test is root's own: under sudo the program would write as the caller into the tests' folders, and start targets
# as somebody who cannot read root's interpreters. Tests about sudo become this caller by themselves.
if [ "${SUDO_UID:-0}" != 0 ]; then
	export CPROFD_TEST_UID=$SUDO_UID CPROFD_TEST_GID=${SUDO_GID:-$SUDO_UID} CPROFD_TEST_USER=${SUDO_USER:-}
fi
unset SUDO_UID SUDO_GID SUDO_USER SUDO_COMMAND SUDO_HOME
# Root's byte code has no place in somebody's tree.
export PYTHONDONTWRITEBYTECODE=1
logs=build/artifacts/live
mkdir -p $logs
declare -A passed failed skipped
bad=()

# A test whose mode bits were lost, or that is not in the list, would not run, and nobody would miss it.
for program in tests/live/*.py tests/live/*.sh; do
	[ "$(head -c 2 "$program")" = '#!' ] || continue
	[ -x "$program" ] || { echo "run-live: $program is a program, but not executable: chmod +x" >&2; exit 1; }
	grep -q "^${program#tests/live/} " tests/live/LIST || echo "run-live: $program is not in tests/live/LIST, so it does not run" >&2
done
[ $# -gt 0 ] || { echo "run-live: no test was found" >&2; exit 1; }

log_of() { echo "$logs/$(basename "$(dirname "$1")")-$(basename "$1").log"; }

# Its output to its log; beside that its status, the seconds that it took, and those of CPU: of a shell of its own, as the time of
# what runs beside it would be added where that is waited for.
run()
{
	local log status TIMEFORMAT='%0R %0U %0S'
	log=$(log_of "$1")
	rm -f "$log.status"
	(time timeout --kill-after=10 900 "$1" >"$log" 2>&1) 2>"$log.times"
	status=$?
	echo "$status $(tail -n 1 "$log.times")" >"$log.status"
	rm -f "$log.times"
}

tell()
{
	local log line status seconds user system p f s
	log=$(log_of "$1")
	read -r status seconds user system <"$log.status" || status=1
	line=$(tail -n 1 "$log")
	if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
		p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}
	else
		p=$(grep -cE '^ok | ok$' "$log") f=$(grep -cE '^FAILED| FAILED$' "$log") s=$(grep -ci '^skip' "$log")
		[ "$status" != 0 ] || [ "$p" != 0 ] || { f=1; echo "run-live: $1 tells of no result" >>"$log"; }
	fi
	[ "$status" = 0 ] || [ "$f" != 0 ] || f=1
	[ "$p$s" != 00 ] || [ "$f" != 0 ] || f=1
	[ "${V:-0}" != 1 ] || cat "$log"
	printf '  %-7s %-36s %s passed, %s failed, %s skipped (%d s, %d of CPU)\n' "$([ "$f" = 0 ] && echo LIVE || echo FAILED)" \
		"$1" "$p" "$f" "$s" "${seconds:-0}" $((user + system))
	[ "$s" = 0 ] || grep -i '^skip' "$log" | sed 's/^/          /'
	if [ "$f" != 0 ]; then
		bad+=("$1")
		# What failed, wherever it stands, and the end.
		[ "${V:-0}" = 1 ] || { head -n -60 "$log" | grep -E -A 6 '^FAILED| FAILED$'; tail -n 60 "$log"; }
		[ "$status" != 124 ] || echo "          it took more than 15 minutes"
	fi
	passed[$1]=$p failed[$1]=$f skipped[$1]=$s
}

# Each of those that run beside, unless another shell has taken it.
run_beside()
{
	local test
	for test in "${beside[@]}"; do
		mkdir "$(log_of "$test").taken" 2>/dev/null && run "$test"
	done
}

beside=() alone=()
for test in "$@"; do
	if grep -q 'run-live: beside' "$test"; then beside+=("$test"); else alone+=("$test"); fi
done
rm -rf $logs/*.taken
if [ ${#beside[@]} -gt 0 ]; then
	for lane in 1 2; do
		run_beside &
		renice -n 10 -p $! >/dev/null
	done
	trap 'kill $(jobs -p) 2>/dev/null' EXIT
fi
for test in "${alone[@]}"; do
	run "$test"
	tell "$test"
done
wait
rm -rf $logs/*.taken
for test in "${beside[@]}"; do tell "$test"; done

few=$((${#bad[@]} <= 3))
for test in "${bad[@]}"; do
	log=$(log_of "$test")
	# Once more what failed, at the end, where whoever reads a long output looks first.
	echo "  $test:"
	grep -E -A 3 '^FAILED| FAILED$' "$log" | cut -c 1-500
	[ $few = 1 ] && ! grep -q 'run-live: once' "$test" || continue
	mv "$log" "${log%.log}.first.log"
	run "$test"
	tell "$test"
done

sum() { local IFS=+; echo $(($*)); }
of_all=$(sum "${failed[@]}")
echo "$(sum "${passed[@]}") passed, $of_all failed, $(sum "${skipped[@]}") skipped"
[ "$of_all" = 0 ] && [ "$(sum "${passed[@]}")" -gt 0 ]

#!/bin/bash
# Runs tests one by one. A test passes when its exit status is 0, its last line is
# "N passed, N failed, N skipped" with nothing failed, and something passed or was
# skipped by name. (Of one without that line, lines "ok ..." or "... ok" and "FAILED ..." or
# "... FAILED" are counted, and "skip...".)
# Their output is shown when they fail, or with V=1; build/artifacts/*.log keeps it.
set -u
cd "$(dirname "$0")/.."
# Root's byte code has no place in somebody's tree.
export PYTHONDONTWRITEBYTECODE=1
logs=build/artifacts/live
mkdir -p $logs
passed=0 failed=0 skipped=0 bad=

# A test whose mode bits were lost would not be found, and nobody would miss it.
for program in tests/live/*; do
	if [ "$(head -c 2 "$program")" = '#!' ] && [ ! -x "$program" ]; then
		echo "run-live: $program is a program, but not executable: chmod +x" >&2
		exit 1
	fi
done
[ $# -gt 0 ] || { echo "run-live: no test was found" >&2; exit 1; }
for test in "$@"; do
	name=$(basename "$(dirname "$test")")-$(basename "$test")
	log=$logs/$name.log
	begin=$SECONDS
	if [ "${V:-0}" = 1 ]; then
		timeout --kill-after=10 900 "$test" 2>&1 | tee "$log"
		status=${PIPESTATUS[0]}
	else
		timeout --kill-after=10 900 "$test" >"$log" 2>&1
		status=$?
	fi
	line=$(tail -n 1 "$log")
	if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
		p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}
	else
		p=$(grep -cE '^ok | ok$' "$log") f=$(grep -cE '^FAILED| FAILED$' "$log") s=$(grep -ci '^skip' "$log")
		[ $status != 0 ] || [ "$p" != 0 ] || { f=1; echo "run-live: $test tells of no result" >>"$log"; }
	fi
	[ $status = 0 ] || [ "$f" != 0 ] || f=1
	[ "$p$s" != 00 ] || [ "$f" != 0 ] || f=1
	printf '  %-7s %-36s %s passed, %s failed, %s skipped (%d s)\n' "$([ "$f" = 0 ] && echo LIVE || echo FAILED)" \
		"$test" "$p" "$f" "$s" $((SECONDS - begin))
	[ "$s" = 0 ] || grep -i '^skip' "$log" | sed 's/^/          /'
	if [ "$f" != 0 ]; then
		bad="$bad $test"
		[ "${V:-0}" = 1 ] || tail -n 60 "$log"
		[ $status != 124 ] || echo "          it took more than 15 minutes"
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ -z "$bad" ] && [ $failed = 0 ] && [ $passed -gt 0 ]

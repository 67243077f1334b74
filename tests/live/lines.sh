#!/bin/sh
# SPDX-License-Identifier: MIT
# run-live: beside
# Line tables: our decoder against each interpreter found (pythons.sh), on the code objects of each
# CPROFD_LINES_EVERYth file (5) of its standard library; make check-matrix takes all. Exit code 1 on any difference.
#
#	tests/live/lines.sh [NAME...]     only these, e.g. 3.11.7
#
# CHECK_CFLAGS: how to build the checker, e.g. with sanitizers.
set -u
here=$(dirname "$0")
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
check="$work/lines_check"

# The decoder alone: it needs nothing else of the tree.
${CC:-gcc} -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror ${CHECK_CFLAGS:--O2} \
	-I"$root/include" -I"$root/daemon" \
	"$root/tests/tools/lines_check.c" "$root/daemon/name/lines.c" -o "$check" || exit 1

"$here/pythons.sh" >"$work/pythons"
[ -s "$work/pythons" ] || { echo "lines: no CPython found" >&2; exit 1; }

# label, interpreter and its arguments
compare()
{
	label=$1
	shift
	# A failing oracle must fail the test, though the checker is last in the pipe.
	result=$({ "$@" || echo "$?" >"$mine.failed"; } | "$check") && [ ! -e "$mine.failed" ] && verdict=ok || verdict=FAILED
	echo "$label: $result $verdict"
}

of_interpreter()
{
	compare "$name ($path)" "$path" -I "$here/lines_oracle.py" "-${CPROFD_LINES_EVERY:-5}"
	# Tables stripped of their columns use other forms.
	case "$name" in
	3.8* | 3.9* | 3.10*) ;;
	*) compare "$name no_debug_ranges" "$path" -I -X no_debug_ranges "$here/lines_oracle.py" json asyncio ;;
	esac
}

# As many at a time as there are CPUs.
cpus=$(nproc)
ran=0
while read -r name path; do
	if [ $# -gt 0 ]; then
		case " $* " in *" $name "*) ;; *) continue ;; esac
	fi
	ran=$((ran + 1))
	mine=$work/$ran
	of_interpreter >"$mine.log" &
	[ $((ran % cpus)) != 0 ] || wait
done <"$work/pythons"
wait
[ "$ran" -gt 0 ] || { echo "lines: none of '$*' was found" >&2; exit 1; }
failed=0 i=0
while [ "$i" -lt "$ran" ]; do
	i=$((i + 1))
	cat "$work/$i.log"
	if [ ! -s "$work/$i.log" ] || grep -qv ' ok$' "$work/$i.log"; then
		failed=1
	fi
done
exit "$failed"

#!/bin/bash
# SPDX-License-Identifier: MIT
# `make demo`: a real Numba compile of np.linalg.svd and list.sort, over and over,
# profiled while it runs: ten seconds by function, ten by line, and once from the
# first instruction. The recordings, a page for a browser and a file for speedscope of each are written into the
# current directory.
set -eu
tree=$(cd "$(dirname "$0")/.." && pwd)
cprofd=$(realpath "${CPROFD:-$tree/build/cprofd}")
python=/usr/bin/python3
seconds=${DEMO_SECONDS:-10}

if [ "$(id -u)" != 0 ] && ! "$cprofd" status >/dev/null 2>&1; then
	echo "demo: profiling takes root here (or a running daemon): sudo make demo" >&2
	exit 1
fi
# The compile runs as whoever called sudo.
as_user=
[ "${SUDO_UID:-0}" = 0 ] || as_user="setpriv --reuid=$SUDO_UID --regid=$SUDO_GID --init-groups --"
work=$(mktemp -d)
target=
cleanup() {
	[ -z "$target" ] || kill "$target" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
[ -z "$as_user" ] || chown "$SUDO_UID" "$work"
# Numba keeps nothing between the rounds; only its own cache would, and it is not asked for.
loop="$tree/tests/targets/numba_loop.py"

say() { printf '\n== %s\n' "$*"; }

say "In three minutes: demo.record.html, a page to open in a browser, and demo.*.speedscope.json for https://www.speedscope.app"
say "A Numba compile starts: np.linalg.svd and list.sort, afresh in each round"
$as_user $python "$loop" >"$work/rounds" 2>"$work/errors" &
target=$!
for _ in $(seq 600); do
	grep -q ready "$work/rounds" && break
	kill -0 "$target" 2>/dev/null || { cat "$work/errors" >&2; exit 1; }
	sleep 0.1
done
grep -q ready "$work/rounds" || { echo "demo: Numba did not get ready within a minute" >&2; exit 1; }

# A recording can be looked at in every way later; -o FILE.speedscope.json makes the one file.
for what in functions lines; do
	options=
	[ $what = functions ] || options=--lines
	say "cprofd attach $target -d $seconds -o demo.$what.cprof; cprofd convert demo.$what.cprof $options"
	"$cprofd" attach "$target" -d "$seconds" -o demo.$what.cprof
	"$cprofd" convert demo.$what.cprof $options
done
kill "$target"
wait "$target" 2>/dev/null || true
target=

say "cprofd record -- python3 numba_loop.py 1: a fresh process, where everything is compiled for the first time"
"$cprofd" record -o demo.record.cprof -- $python "$loop" 1 >"$work/rounds"
"$cprofd" convert demo.record.cprof -o demo.record.html
"$cprofd" convert demo.record.cprof
say "cprofd report demo.record.cprof --by=unit -n 10: compiles, and the lines that caused them"
"$cprofd" report demo.record.cprof --by=unit -n 10
say "Done. Open $PWD/demo.record.html in a browser; drop a .speedscope.json on https://www.speedscope.app; look at the recordings with
   \`${cprofd#"$PWD/"} report FILE.cprof\` (\`make install\` puts cprofd into the PATH)"
ls -l demo.*.html demo.*.speedscope.json demo.*.cprof

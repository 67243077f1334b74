#!/bin/sh
# SPDX-License-Identifier: MIT
# run-live: beside
# Profiles in the real speedscope in a real browser; flame graphs and pages in the browser alone.
#
#   tests/browser/run.sh [--hour] [FILE.speedscope.json|FILE.svg|FILE.html ...]
#
# Without FILE, synthetic profiles are made. (Beside a FILE.html lies FILE.report.json, of the same recording; diff.* are of a comparison.) --hour adds an hour at 999 Hz of one thread and of four, which takes minutes.
# What it needs comes from apt (chromium, python3-jsonschema, npm; as root, when missing) and npm (speedscope, into
# build/npm). Prints "N passed, N failed, N skipped"; pictures are in build/artifacts.
set -eu
cd "$(dirname "$0")/../.."
SPEEDSCOPE=1.25.0
site=build/npm/node_modules/speedscope/dist/release
made=build/browser
mkdir -p build/artifacts build/npm $made

skip() {
	echo "skipped: $1" >&2
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

need() { # COMMAND PACKAGE
	command -v "$1" >/dev/null && return
	[ "$(id -u)" = 0 ] && apt-get install -y -q --no-install-recommends "$2" >build/artifacts/apt.log 2>&1 ||
		skip "$1 is missing (apt-get install $2)"
}

need chromium chromium
need npm npm
need cc gcc
need make make
need zstd zstd
# Debian's own python, which Debian's packages are for.
python=$(command -v /usr/bin/python3 || echo python3)
$python -c 'import jsonschema' 2>/dev/null || { [ "$(id -u)" = 0 ] &&
	apt-get install -y -q --no-install-recommends python3-jsonschema >build/artifacts/apt.log 2>&1; } ||
	skip "python3-jsonschema is missing"
grep -qs "\"version\": \"$SPEEDSCOPE\"" build/npm/node_modules/speedscope/package.json ||
	npm install --loglevel=error --no-fund --no-audit --ignore-scripts --prefix build/npm speedscope@$SPEEDSCOPE >build/artifacts/npm.log 2>&1 ||
	skip "npm could not install speedscope (build/artifacts/npm.log)"

hour=
[ "${1-}" != --hour ] || { hour=1; shift; }
if [ $# = 0 ] || [ -n "$hour" ]; then
	make --no-print-directory build/cprofd build/tests/tools/make_recording >build/artifacts/make.log || {
		cat build/artifacts/make.log
		echo "0 passed, 1 failed, 0 skipped"
		exit 1
	}
fi
make_recording=build/tests/tools/make_recording
make_profile() { # NAME ARGS...
	name=$1; shift
	$make_recording "$@" -f speedscope -o "$made/$name.speedscope.json" >"$made/$name.truth.json"
	files="$files $made/$name.speedscope.json"
}
make_page() { # RECORDING NAME [OPTION]
	build/cprofd convert "$1" $3 -o "$made/page-$2.html" 2>/dev/null
	build/cprofd report "$1" --json $3 --by=class,thread,unit,phase,pass,tree,chain,repeat,function,line --phases --top 500 >"$made/page-$2.report.json"
	pages="$pages $made/page-$2.html"
}
if [ $# = 0 ]; then
	files=
	make_profile one-thread -t 1 -s 5 -d 20
	make_profile threads -t 5 -s 10 -d 30 -e 3 -u
	make_profile lines -t 3 -s 5 -d 20 -l
	pictures=
	for name in one threads; do
		$make_recording -t $([ $name = one ] && echo 1 || echo 5) -s 5 -d 20 -f svg -o "$made/$name.svg" >/dev/null
		pictures="$pictures $made/$name.svg"
	done
	pages=
	$make_recording -t 3 -s 2 -d 12 -e 1 -u -o $made/page.cprof >/dev/null
	zstd -dcf $made/page.cprof >$made/page.ndjson
	$python tests/browser/html_test.py --hostile $made/page.ndjson $made/hostile.ndjson
	make_page $made/page.cprof plain ''
	make_page $made/hostile.ndjson hostile ''
	$python tests/browser/html_test.py --sources $made/page.ndjson $made/sources.ndjson $made/source.py
	make_page $made/sources.ndjson sources --annotate
	$python tests/browser/diff_test.py --make $made/before.ndjson $made/after.ndjson $made/diff.truth.json
	for end in svg html speedscope.json; do
		build/cprofd diff $made/before.ndjson $made/after.ndjson -o $made/diff.$end >$made/diff.txt 2>/dev/null
		files="$files $made/diff.$end"
	done
	[ -z "$hour" ] || { make_profile hour -t 1 -s 3600 -d 60 -e 600; make_profile hour-threads -t 4 -s 3600 -d 60 -e 600; }
	set -- $files $pictures $pages
fi
profiles=
for file in "$@"; do
	case $file in
	*.svg | *.html) ;;
	*) profiles="$profiles $file" ;;
	esac
done
[ -z "$profiles" ] || $python tests/browser/check_speedscope.py --schema $profiles || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
# The live page of a real compile: as root, where Numba is.
live=
if [ -z "$hour" ] && [ -n "${pages-}" ] && [ "$(id -u)" = 0 ] && $python -c 'import numba' 2>/dev/null; then
	$python tests/targets/numba_loop.py >build/artifacts/view.target.log &
	live=$!
	trap 'kill $live' EXIT
	CPROFD=build/cprofd CPROFD_SOCKET=none $python tests/browser/view_test.py $live build/artifacts >build/artifacts/view.log 2>&1 || {
		cat build/artifacts/view.log
		echo "0 passed, 1 failed, 0 skipped"
		exit 1
	}
	head -n -1 build/artifacts/view.log
	kill $live
	trap - EXIT
fi
exec $python tests/browser/speedscope_test.py --site $site --artifacts build/artifacts --seconds "$([ -n "$hour" ] && echo 600 || echo 120)" "$@"

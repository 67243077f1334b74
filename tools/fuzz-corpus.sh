#!/bin/sh
# SPDX-License-Identifier: MIT
# What fuzzing gathered -> the inputs that are kept with the source: those that cover the same, the shortest first, at most 40 and
# 40 KB of each target. What was a finding is called found-* and stays.
#
#     fuzz-corpus.sh BUILD GATHERED KEPT [TARGET...]    BUILD/fuzz_x; GATHERED/fuzz_x/...; KEPT/fuzz_x/...
set -eu
build=$1 gathered=$2 kept=$3
shift 3
[ $# -gt 0 ] || set -- $(cd "$gathered" && ls -d fuzz_* | grep -v '[-.]')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for target; do
	mkdir -p "$kept/$target" "$work/$target"
	"$build/$target" -set_cover_merge=1 "$work/$target" "$gathered/$target" "$kept/$target" > "$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
	find "$kept/$target" -type f ! -name 'found-*' -delete
	find "$work/$target" -type f -printf '%s %p\n' | sort -n | awk '(bytes += $1) <= 40000 && ++n <= 40 { print $2 }' |
		while read -r file; do cp "$file" "$kept/$target/$(sha1sum < "$file" | cut -c1-12)"; done
	echo "$target: $(ls "$kept/$target" | wc -l) inputs, $(cat "$kept/$target"/* | wc -c) bytes"
done

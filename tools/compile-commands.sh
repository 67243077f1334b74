#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints compile_commands.json for the sources given after the compile command.
cmd=$1; shift
sep='['
for f in "$@"; do
	printf '%s\n{"directory":"%s","file":"%s","command":"%s"}' "$sep" "$PWD" "$f" "$(printf '%s -c %s' "$cmd" "$f" | sed 's/["\\]/\\&/g')"
	sep=,
done
printf '\n]\n'

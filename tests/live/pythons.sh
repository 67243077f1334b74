#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints "name path" for each CPython to test with, one a line, in this order of
# search; the first of a name wins, and the same binary is not named twice:
#   $CPROFD_PYTHONS       space-separated paths; if set, nothing else is used
#   pyenv's versions, /usr/bin/python3
#   $CPROFD_PYTHONS_LIST  files of lines "name path", ':' between them, '#' for
#                         comments; the name is for people, the interpreter is
#                         asked for its own
# The name is the version as the interpreter gives it, and "t" if it has no GIL,
# "d" if it is a debug build: 3.11.7, 3.14.0t. What follows a '-' in a list's name
# stays, so that builds of one version can stand side by side: 3.13.5-shared.
# Versions before 3.8 only with --all.
set -u

# "path mark" a line
candidates()
{
	if [ -n "${CPROFD_PYTHONS:-}" ]; then
		printf '%s\n' $CPROFD_PYTHONS
		return
	fi
	for path in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
		echo "$path"
	done
	echo /usr/bin/python3
	echo "${CPROFD_PYTHONS_LIST:-}" | tr : '\n' | while read -r list; do
		[ -n "$list" ] || continue
		awk 'NF >= 2 && $1 !~ /^#/ { mark = index($1, "-"); print $2, mark ? substr($1, mark) : "" }' "$list"
	done
}

# Prints nothing for what is not CPython, or does not run.
describe='
import platform, sys
name = "%d.%d.%d" % sys.version_info[:3]
name += {"alpha": "a", "beta": "b", "candidate": "rc"}.get(sys.version_info[3], "")
name += str(sys.version_info[4]) if sys.version_info[3] != "final" else ""
name += "".join(flag for flag in getattr(sys, "abiflags", "") if flag in "td")
if platform.python_implementation() == "CPython":
    print("%d %s" % (sys.version_info[:2] >= (3, 8), name))
'

seen=" "
candidates | while read -r path mark; do
	path=$(readlink -f "$path") && [ -x "$path" ] || continue
	found=$("$path" -I -c "$describe" 2>/dev/null || "$path" -c "$describe" 2>/dev/null) || continue
	name=${found#* }
	[ -n "$name" ] || continue
	[ "${found%% *}" = 1 ] || [ "${1:-}" = --all ] || continue
	case "$seen" in *" $name$mark "*) continue ;; esac
	seen="$seen$name$mark "
	echo "$name$mark $path"
done | sort -V

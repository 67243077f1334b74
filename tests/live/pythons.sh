#!/bin/sh
# Prints "name path" for each CPython to test with, one a line, in this order of
# search; the first of a name wins, and the same binary is not named twice:
#   $CPROFD_PYTHONS       space-separated paths; if set, nothing else is used
#   pyenv's versions, /usr/bin/python3
#   $CPROFD_PYTHONS_LIST  a file of lines "name path", '#' for comments; the name
#                         is for people, the interpreter is asked for its own
# The name is the version as the interpreter gives it, and "t" if it has no GIL,
# "d" if it is a debug build: 3.11.7, 3.14.0t. Versions before 3.8 only with --all.
set -u

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
	if [ -n "${CPROFD_PYTHONS_LIST:-}" ]; then
		awk 'NF >= 2 && $1 !~ /^#/ { print $2 }' "$CPROFD_PYTHONS_LIST"
	fi
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
candidates | while read -r path; do
	path=$(readlink -f "$path") && [ -x "$path" ] || continue
	found=$("$path" -I -c "$describe" 2>/dev/null || "$path" -c "$describe" 2>/dev/null) || continue
	name=${found#* }
	[ -n "$name" ] || continue
	[ "${found%% *}" = 1 ] || [ "${1:-}" = --all ] || continue
	case "$seen" in *" $name "*) continue ;; esac
	seen="$seen$name "
	echo "$name $path"
done | sort -V

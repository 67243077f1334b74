#!/bin/bash
# SPDX-License-Identifier: MIT
# run-live: beside
# Numba's mangled names, decoded, against Numba itself: apt's, and PyPI's newest in a
# virtual environment below build/ (CPROFD_NUMBA_PYTHONS: other interpreters that have Numba).
set -u
cd "$(dirname "$0")/../.." || exit 1
symbolize=$PWD/build/tests/tools/symbolize
passed=0 failed=0 skipped=0
pythons="/usr/bin/python3 ${CPROFD_NUMBA_PYTHONS:-}"

if [ -n "${CPROFD_COMPILERS:-}" ] && [ -z "${CPROFD_NUMBA_PYTHONS:-}" ]; then
	venv=build/numba-venv
	for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[0-3]*/bin/python3; do
		[ -x "$python" ] && newest=$python
	done
	if [ -x $venv/bin/python ] && $venv/bin/python -c 'import numba' 2>/dev/null; then
		pythons="$pythons $venv/bin/python"
	elif [ -n "${newest:-}" ] && "$newest" -m venv $venv && timeout 300 $venv/bin/pip install -q numba; then
		pythons="$pythons $venv/bin/python"
	else
		echo "skip PyPI's Numba: it cannot be installed"
		skipped=1
	fi
fi
for python in $pythons; do
	if ! "$python" -c 'import numba' 2>/dev/null; then
		echo "skip $python: it has no Numba"
		skipped=$((skipped + 1))
	elif timeout 500 "$python" tests/live/numba_names.py "$symbolize" 2>&1; then
		passed=$((passed + 1))
	else
		echo "FAILED $python"
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]

#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the Debian packages given that are not there yet. As root, or with sudo.
set -eu
missing=
for package in "$@"; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
	echo "this is no Debian: install by hand what these packages hold:$missing" >&2
	exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || { echo "run it as root: these packages are missing:$missing" >&2; exit 1; }
	sudo=sudo
fi
echo "  APT    $missing"
$sudo env DEBIAN_FRONTEND=noninteractive sh -c '
	log=$(mktemp)
	size=$(apt-get install --assume-no --no-install-recommends "$@" 2>/dev/null | sed -n "s/^Need to get \(.*\) of archives.*/\1/p")
	echo "          ${size:+$size to fetch: }some minutes"
	# The lists of a fresh machine are empty or old: try, update, try again.
	apt-get install -y -q --no-install-recommends "$@" >"$log" 2>&1 ||
		{ apt-get update -q >"$log" 2>&1 && apt-get install -y -q --no-install-recommends "$@" >>"$log" 2>&1; } ||
		{ tail -30 "$log" >&2; rm -f "$log"; exit 1; }
	rm -f "$log"' deps $missing

#!/bin/sh
# SPDX-License-Identifier: MIT
# Kernels and compilers of other Debian releases, unpacked below DIR; nothing of the system is changed: apt gets
# sources, lists and a cache of its own there.
#   fetch.sh DIR
#     DIR/linux-VERSION/boot/vmlinuz-*   the kernel of Debian's cloud images (BTF, a serial console, no modules needed)
#     DIR/clang-VERSION/clang            a compiler that runs with the libraries of its own release
# What was fetched stays until DIR is removed. The mirror is the system's own, from /etc/apt.
set -eu
mkdir -p "$1"
dir=$(cd "$1" && pwd)
apt=$dir/apt
keys=/usr/share/keyrings/debian-archive-keyring.gpg
# What clang is linked with, besides LLVM: libLLVM's dependencies in the packages of both releases.
libraries="libc6 libstdc++6 libgcc-s1 libedit2 libffi8 libxml2 libz3-4 libzstd1 zlib1g libtinfo6 libbsd0 libmd0 liblzma5 libicu72"

command -v apt-get >/dev/null || { echo "fetch: this is no Debian: kernels and compilers come from its packages" >&2; exit 1; }
# The labels are only known after an update; the address as Debian's mirrors have it will do.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN)/$(LABEL)' 'Created-By: Packages' |
	awk '$2 == "Debian/Debian" || $1 ~ "/debian/?$" { print $1; exit }')
: "${mirror:=http://deb.debian.org/debian}"

# of RELEASE COMMAND..: apt with that release alone.
of()
{
	root=$apt/$1 command=$2
	shift 2
	"$command" -q -o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o Dir::State::lists="$root/lists" -o Dir::State::status="$root/status" -o Dir::Cache="$root/cache" \
		-o Dir::Cache::pkgcache=pkgcache.bin -o Dir::Cache::srcpkgcache=srcpkgcache.bin \
		-o APT::Sandbox::User=root -o APT::Architecture=amd64 "$@"
}

lists()
{
	[ ! -e "$apt/$1/updated" ] || return 0
	mkdir -p "$apt/$1/lists/partial" "$apt/$1/cache/archives/partial"
	: >"$apt/$1/status"
	echo "deb [signed-by=$keys target=Packages] $mirror $1 main" >"$apt/$1/sources.list"
	of "$1" apt-get update >"$apt/$1/update.log" 2>&1 && ! grep -q '^[EW]:' "$apt/$1/update.log" ||
		{ cat "$apt/$1/update.log" >&2; exit 1; }
	touch "$apt/$1/updated"
}

# unpack TO RELEASE PACKAGE..: those of the packages that the release has.
unpack()
{
	to=$1 release=$2
	shift 2
	found=$(of "$release" apt-cache show --no-all-versions "$@" 2>/dev/null | sed -n 's/^Package: //p')
	rm -rf "$to.new"
	mkdir -p "$to.new/debs"
	(cd "$to.new/debs" && of "$release" apt-get download $found) >"$apt/download.log" 2>&1 ||
		{ cat "$apt/download.log" >&2; exit 1; }
	for deb in "$to.new"/debs/*.deb; do
		dpkg-deb -x "$deb" "$to.new"
	done
	rm -rf "$to.new/debs"
}

kernel()
{
	to=$dir/linux-$1 release=$2
	[ ! -d "$to" ] || return 0
	echo "  APT     linux $1 of $release"
	lists "$release"
	image=$(of "$release" apt-cache show --no-all-versions linux-image-cloud-amd64 |
		sed -n 's/^Depends: \(linux-image-[^ ,]*\).*/\1/p')
	case $image in
	linux-image-"$1".*) ;;
	*) echo "fetch: the kernel of $release is no $1 but $image" >&2; exit 1 ;;
	esac
	unpack "$to" "$release" "$image"
	rm -rf "$to.new/lib" "$to.new/usr"
	mv "$to.new" "$to"
}

compiler()
{
	to=$dir/clang-$1 release=$2
	[ ! -d "$to" ] || return 0
	echo "  APT     clang $1 of $release"
	lists "$release"
	unpack "$to" "$release" "clang-$1" "libclang-cpp$1" "libllvm$1" "libclang-common-$1-dev" $libraries
	cat >"$to.new/clang" <<END
#!/bin/sh
here=$to
libs=\$here/usr/lib
exec "\$(find "\$here" -name 'ld-linux-x86-64.so.2' | head -1)" \\
	--library-path "\$here/lib/x86_64-linux-gnu:\$libs/x86_64-linux-gnu:\$libs/llvm-$1/lib" \\
	"\$libs/llvm-$1/bin/clang" -resource-dir "\$libs/llvm-$1/lib/clang/$1" "\$@"
END
	chmod +x "$to.new/clang"
	# Makefile takes what is named *.d below build/ for lists of dependencies.
	rm -rf "$to.new/etc" "$to.new/usr/share" "$to.new/usr/bin" "$to.new"/usr/lib/*/gconv
	mv "$to.new" "$to"
}

kernel 6.1 bookworm
kernel 6.12 trixie
compiler 19 bookworm
compiler 22 trixie

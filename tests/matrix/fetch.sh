#!/bin/sh
# SPDX-License-Identifier: MIT
# Interpreters for `make check-matrix`, below DIR; nothing of the system is changed: apt gets sources, lists and a
# cache of its own there. Needs patchelf, dpkg-dev, gcc, make, musl-tools, zlib1g-dev, libffi-dev.
#   fetch.sh DIR [WHAT..]       only these: a suite, or a name of the builds below
#     DIR/LIST                  "name path" a line, for $CPROFD_PYTHONS_LIST of tests/live/pythons.sh
#     DIR/SUITE                 CPython 3.13 and later of Debian's newer suites, with the libraries of the same suite
#     DIR/3.13t, 3.14t...       built from Debian's source packages: free-threaded
#     DIR/3.13-shared, -static, -musl
# What was made stays until DIR is removed. What cannot be had is named on stderr and left out; the status is 1
# when there is nothing at all. The mirror is the system's own, from /etc/apt.
set -eu
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
wanted=" $* "
apt=$dir/apt
keys=/usr/share/keyrings/debian-archive-keyring.gpg
suites="trixie forky sid experimental"
# Those that the program knows, from 3.13 on: older ones are pyenv's.
minors=$(sed -n 's|^\t/\* \(3\.[1-9][0-9]\): read from.*|\1|p' "$(dirname "$0")/../../daemon/target/py_tables.c" | grep -v '^3\.1[0-2]$' | uniq)
[ -n "$minors" ] || { echo "fetch: daemon/target/py_tables.c names no version" >&2; exit 1; }
# What the make above was told is not for the makes below.
unset MAKEFLAGS MFLAGS MAKELEVEL CC CFLAGS CPPFLAGS LDFLAGS

command -v apt-get >/dev/null || { echo "fetch: this is no Debian: interpreters come from its packages" >&2; exit 1; }
# The labels are only known after an update; the address as Debian's mirrors have it will do.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN)/$(LABEL)' 'Created-By: Packages' |
	awk '$2 == "Debian/Debian" || $1 ~ "/debian/?$" { print $1; exit }')
: "${mirror:=http://deb.debian.org/debian}"

missing()
{
	echo "fetch: not to be had: $*" >&2
}

is_wanted()
{
	[ "$wanted" = "  " ] || case "$wanted" in *" $1 "*) ;; *) return 1 ;; esac
}

# of SUITE COMMAND..: apt with that suite alone, and no package installed: so all that one needs comes along.
of()
{
	root=$apt/$1 command=$2
	shift 2
	# A suite that moves has a Release file whose date may be past; its signature is looked at all the same.
	"$command" -q -o APT::Get::Assume-Yes=true -o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o Dir::State="$root" -o Dir::State::lists="$root/lists" -o Dir::State::status="$root/status" \
		-o Dir::Cache="$root/cache" -o APT::Sandbox::User=root -o APT::Architecture=amd64 \
		-o APT::Default-Release="${root##*/}" -o APT::Install-Recommends=false -o Acquire::Check-Valid-Until=false -o Debug::NoLocking=true "$@"
}

lists()
{
	[ ! -e "$apt/$1/updated" ] || return 0
	mkdir -p "$apt/$1/lists/partial" "$apt/$1/cache/archives/partial"
	: >"$apt/$1/status"
	: >"$apt/$1/sources.list"
	# experimental is no whole release: what its packages need is mostly in sid.
	for of in $1 $([ "$1" != experimental ] || echo sid); do
		for type in "deb Packages" "deb-src Sources"; do
			echo "${type% *} [signed-by=$keys target=${type#* }] $mirror $of main" >>"$apt/$1/sources.list"
		done
	done
	of "$1" apt-get update >"$apt/$1/update.log" 2>&1 && ! grep -q '^[EW]:' "$apt/$1/update.log" ||
		{ grep '^[EW]:' "$apt/$1/update.log" >&2; missing "the lists of $1"; return 1; }
	touch "$apt/$1/updated"
}

# version SUITE PACKAGE: the newest that the suite has; none for a release before the final one, which is refused by
# cprofd itself.
version()
{
	of "$1" apt-cache show --no-all-versions "$2" 2>/dev/null | sed -n 's/^Version: //p' | grep -v '~[abr]' || :
}

# packages SUITE: its interpreters that no suite before it has.
packages()
{
	suite=$1
	[ ! -d "$dir/$suite" ] || return 0
	lists "$suite" || return 0
	chosen=
	for minor in $minors; do
		version=$(version "$suite" "python$minor-minimal")
		[ -n "$version" ] && ! grep -qsxF "$minor $version" "$dir"/*/versions || continue
		chosen="$chosen $minor"
		echo "$minor $version" >>"$apt/$suite/versions"
	done
	mkdir -p "$dir/$suite.new"
	if [ -n "$chosen" ]; then
		echo "  APT     python$chosen of $suite"
		of "$suite" apt-get install --download-only \
			$(for minor in $chosen; do echo "python$minor-minimal libpython$minor-stdlib"; done) \
			>"$apt/$suite/download.log" 2>&1 ||
			{ grep '^E:' "$apt/$suite/download.log" >&2; missing "python$chosen of $suite"; rm -rf "$dir/$suite.new" "$apt/$suite/versions"; return 0; }
		for deb in "$apt/$suite"/cache/archives/*.deb; do
			dpkg-deb -x "$deb" "$dir/$suite.new"
		done
		of "$suite" apt-get clean
		mv "$apt/$suite/versions" "$dir/$suite.new/versions"
		# Their C library is newer than that of the system, so they need its loader, and a libpath that modules
		# inherit: that is RPATH. Through ld.so by hand /proc/PID/exe would be ld.so.
		libraries=$dir/$suite/usr/lib/x86_64-linux-gnu
		for minor in $chosen; do
			patchelf --set-interpreter "$libraries/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$libraries" \
				"$dir/$suite.new/usr/bin/python$minor"
		done
		# Makefile takes what is named *.d below build/ for lists of dependencies.
		rm -rf "$dir/$suite.new/etc" "$dir/$suite.new/var" "$dir/$suite.new/usr/share" "$dir/$suite.new"/usr/lib/*.d "$dir/$suite.new"/usr/lib/*/gconv
	fi
	mv "$dir/$suite.new" "$dir/$suite"
}

# sources MINOR: its tree, in $tree. The pool may lack what a suite's list names: then the next suite's is taken.
sources()
{
	tree=$dir/src/$1
	[ ! -d "$tree" ] || return 0
	mkdir -p "$dir/src/$1.get"
	for suite in $suites; do
		lists "$suite" || continue
		rm -rf "$dir/src/$1.get"/*
		(cd "$dir/src/$1.get" && of "$suite" apt-get source --download-only "python$1/$suite") \
			>"$apt/$suite/source.log" 2>&1 || continue
		dsc=$(echo "$dir/src/$1.get"/*.dsc)
		case $dsc in *~[abr]*) continue ;; esac
		# The signature that counts is that of the list, and apt has looked at it.
		dpkg-source --no-check -x "$dsc" "$tree.new" >"$apt/$suite/source.log" 2>&1 || continue
		echo "  APT     source of python$1 of $suite"
		rm -rf "$dir/src/$1.get"
		mv "$tree.new" "$tree"
		return 0
	done
	rm -rf "$dir/src/$1.get"
	missing "the source of python$1 (tried: $suites)"
	return 1
}

# build NAME MINOR OPTION..: out of its tree, into DIR/NAME.
build()
{
	name=$1 minor=$2
	shift 2
	is_wanted "$name" || return 0
	[ ! -d "$dir/$name" ] || return 0
	sources "$minor" || { missing "$name"; return 0; }
	begin=$(date +%s)
	echo "  BUILD   $name"
	rm -rf "$dir/src/$name.build"
	mkdir -p "$dir/src/$name.build"
	(
		cd "$dir/src/$name.build"
		nice "$tree/configure" --prefix="$dir/$name" --without-ensurepip --disable-test-modules OPT="-DNDEBUG -O2" "$@" &&
		nice make -j2 &&
		nice make altinstall DESTDIR="$dir/src/$name.build/root"
	) >"$dir/src/$name.log" 2>&1 || { tail -3 "$dir/src/$name.log" >&2; missing "$name: $dir/src/$name.log tells why"; return 0; }
	mv "$dir/src/$name.build/root$dir/$name" "$dir/$name"
	rm -rf "$dir/src/$name.build"
	echo "          $(($(date +%s) - begin)) s"
}

# by_musl: a compiler that configure takes for one of musl's. That Debian's is told by its specs only.
by_musl()
{
	mkdir -p "$dir/src"
	cat >"$dir/src/musl-gcc" <<'END'
#!/bin/sh
[ "$*" != --print-multiarch ] || { echo x86_64-linux-musl; exit; }
exec musl-gcc "$@"
END
	chmod +x "$dir/src/musl-gcc"
}

for suite in $suites; do
	! is_wanted "$suite" || packages "$suite"
done
for minor in $minors; do
	build "${minor}t" "$minor" --disable-gil
done
# What no test imports.
few=
for module in _decimal pyexpat _elementtree _sqlite3 _ssl _hashlib _curses _curses_panel _tkinter readline; do
	few="$few py_cv_module_$module=n/a"
done
build 3.13-shared 3.13 --enable-shared LDFLAGS="-Wl,-rpath,$dir/3.13-shared/lib" $few
# Nothing of what it could be linked with is there for musl; pkg-config would tell of what is there for glibc.
by_musl
build 3.13-musl 3.13 CC="$dir/src/musl-gcc" PKG_CONFIG=false $few

# Debian's own are static and stripped; of the free-threaded ones there is none.
for path in "$dir"/3.*t/bin/python3.*t; do
	[ ! -x "$path" ] || [ -x "$path-stripped" ] || strip -o "$path-stripped" "$path"
done
for path in "$dir"/*/usr/bin/python3.1? "$dir"/3.*t/bin/python3.*t "$dir"/3.*t/bin/python3.*t-stripped "$dir"/3.*-*/bin/python3.1?; do
	[ -x "$path" ] || continue
	name=${path#"$dir"/} name=${name%%/*}
	case $path in
	*/usr/bin/*) name=${path##*/python} ;; # no mark: its own version tells it from others
	*-stripped) name=$name-stripped ;;
	esac
	echo "$name $path"
done >"$dir/LIST.new"
mv "$dir/LIST.new" "$dir/LIST"
[ -s "$dir/LIST" ] || { missing "any interpreter"; exit 1; }

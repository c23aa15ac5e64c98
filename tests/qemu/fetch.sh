#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Gets the newest packaged QEMU of Debian's stable release and its backports, unless it is there:
#	fetch.sh [--stable] [x86] [arm]
#
# --stable: that of the release itself, for runs with
# TRACEBRAID_QEMU=build/qemu-stable/qemu-system-x86_64. QEMU and its libraries are unpacked in the
# user's cache; nothing is installed. build/qemu, and build/qemu-arm for arm, is a link to the
# folder of its programs. They run on this machine by the program loader and the libraries of their
# own release, whose paths are written into them.
#
# Where QEMU cannot be had, this prints why, and the reason is in build/qemu.missing: the tests then
# use this machine's own QEMU; that is no error. Nothing is fetched if TRACEBRAID_QEMU is set
# (tests/e2e/qemu.py).
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$(CDPATH='' cd -- "$here/../.." && pwd)/build
kernels=$here/../kernels
cache=$("$kernels/cache.sh")
mkdir -p "$build"

missing() {
	[ -z "$stable" ] || { echo "fetch.sh: no QEMU of the stable release: $*" >&2 && exit 1; }
	echo "fetch.sh: tests use the QEMU of this machine${suffix:+ for arm64}: $*" >&2
	rm -f "$build/qemu-arm"
	[ -n "$suffix" ] || rm -f "$build/qemu"
	[ -n "$suffix" ] || echo "$*" >"$build/qemu.missing"
	exit 0
}

suite() {
	# shellcheck disable=SC2086 # an option, or none
	"$kernels/suite.sh" $stable "$@" 2>"$errors"
}

why() {
	sed 's/^suite.sh: //' "$errors"
}

# Firmware, and the libraries that QEMU itself needs: those of its modules are for displays, sound
# etc.
packages() {
	libraries=$(suite cache depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
		--no-enhances "qemu-system-$1" | sed -n 's/^ *Depends: \(lib.*\|zlib1g\)$/\1/p')
	[ -n "$libraries" ] || return
	echo "qemu-system-$1 qemu-system-data seabios patchelf"
	# shellcheck disable=SC2086 # a list of words
	suite closure 'lib.*|zlib1g' $libraries libstdc++6
}

# QEMU looks for firmware in the folder qemu-bundle beside its program before it does in /usr.
unpack() {
	libs=$root/usr/lib/x86_64-linux-gnu
	loader=$root/usr/lib64/ld-linux-x86-64.so.2
	for deb in $2; do
		dpkg-deb -x "$deb" "$root" || missing "${deb##*/} cannot be unpacked"
	done
	ln -sfn ../.. "$root/usr/bin/qemu-bundle"
	"$loader" --library-path "$libs" "$root/usr/bin/patchelf" --set-interpreter "$loader" --force-rpath \
		--set-rpath "$libs" "$root/usr/bin/$1" || missing "patchelf cannot change $1"
	"$root/usr/bin/$1" --version >/dev/null || missing "$root/usr/bin/$1 does not run"
}

# Packages are looked for once a day.
newest() {
	known=$cache/$link-newest
	if [ -z "$(find "$known" -newermt '-1 day' 2>/dev/null)" ]; then
		found=$(suite cache show --no-all-versions qemu-system-x86) || missing "$(why)"
		found=$(echo "$found" | sed -n 's/^Version: \([0-9]*:\)\?//p')
		[ -n "$found" ] || missing 'the stable release has no package qemu-system-x86'
		echo "$found" >"$known.$$"
		mv "$known.$$" "$known"
	fi
	version=$(cat "$known")
}

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
stable='' link=qemu suffix=''
if [ "${1:-}" = --stable ]; then
	stable=--stable link=qemu-stable
	shift
fi
[ -n "$stable" ] || [ -z "${TRACEBRAID_QEMU:-}" ] || missing "TRACEBRAID_QEMU=$TRACEBRAID_QEMU is set"
[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || missing 'this is not a Debian machine of x86-64'
newest
[ $# != 0 ] || set -- x86
for target; do
	case $target in
	x86) program=qemu-system-x86_64 suffix='' ;;
	arm) program=qemu-system-aarch64 suffix=-arm ;;
	*) echo "fetch.sh: unknown target $target: expected x86 or arm" >&2 && exit 1 ;;
	esac
	root=$cache/qemu-$version$suffix
	mkdir -p "$root"
	exec 9>"$root.lock"
	flock 9
	if [ ! -e "$root/ready-$target" ]; then
		names=$(packages "$target") || missing "$(why)"
		# shellcheck disable=SC2086 # a list of words
		bytes=$(suite cache show --no-all-versions $names | awk '/^Size:/ { sum += $2 } END { print sum }')
		echo "fetching QEMU $version ($program) for tests, once; $((bytes / 1000000)) MB" >&2
		# shellcheck disable=SC2086
		debs=$(suite deb $names) || missing "$(why)"
		unpack "$program" "$debs"
		touch "$root/ready-$target"
		# shellcheck disable=SC2086
		rm -f $debs
	fi
	flock -u 9
	ln -sfn "$root/usr/bin" "$build/$link$suffix"
done
[ -n "$stable" ] || rm -f "$build/qemu.missing"

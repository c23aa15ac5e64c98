#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the test guests' initramfs: busybox, our PID 1, and the files given.
#
# usage: mkinitramfs.sh OUT KREL [FILE...]
#
# FILE.ko goes to /mod (it must be built for KREL), an executable to /bin (one that is not static
# with its program interpreter and libraries), anything else to /data. OUT must lie under build/. BUSYBOX and CC may be set in the environment.
set -eu

die() {
	echo "mkinitramfs: $*" >&2
	exit 1
}

[ $# -ge 2 ] || die "usage: mkinitramfs.sh OUT KREL [FILE...]"
out=$1
krel=$2
shift 2

PATH=$PATH:/usr/sbin:/sbin # where modinfo is, also for ordinary users
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$(CDPATH='' cd -- "$here/../.." && pwd)/build
busybox=${BUSYBOX:-/bin/busybox}
cc=${CC:-gcc}

[ -x "$busybox" ] || die "$busybox is missing: install the package busybox-static"
command -v cpio >/dev/null || die "cpio is missing: install the package cpio"
command -v "$cc" >/dev/null || die "$cc is missing: install the package gcc"

# A static executable names no program interpreter.
is_static() {
	! LC_ALL=C readelf -lW "$1" 2>/dev/null | grep -q 'program interpreter'
}
is_static "$busybox" || die "$busybox is not static: install the package busybox-static"

mkdir -p "$build/e2e" "$(dirname -- "$out")"
case $(realpath -- "$out") in
"$(realpath -- "$build")"/*) ;;
*) die "$out does not lie under build/" ;;
esac

# Several runs may happen at a time, so everything is made aside and renamed into place.
work=$(mktemp -d "$build/e2e/initramfs.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

init=$build/e2e/init
if [ ! -x "$init" ] || [ -n "$(find "$here/init.c" -newer "$init")" ]; then
	"$cc" -static -O2 -Wall -Wextra -o "$work/init.new" "$here/init.c"
	mv "$work/init.new" "$init"
fi

root=$work/root
mkdir -p "$root/bin" "$root/mod" "$root/data" "$root/dev" "$root/proc" "$root/sys" "$root/tmp"
cp "$init" "$root/init"
cp "$busybox" "$root/bin/busybox"
chmod 755 "$root/init" "$root/bin/busybox"

# Where the program looks for them, which is where the host has them.
add_libraries() {
	ldd "$1" >"$work/ldd" || die "the libraries of $1 are not known"
	grep -o '/[^ ]*' "$work/ldd" >"$work/libraries" || die "$1 has no libraries"
	while read -r library; do
		mkdir -p "$root$(dirname -- "$library")"
		cp -L "$library" "$root$library"
	done <"$work/libraries"
}

for file in "$@"; do
	[ -f "$file" ] || die "no such file: $file"
	case $file in
	*.ko)
		magic=$(modinfo -F vermagic "$file")
		[ "${magic%% *}" = "$krel" ] || die "$file is built for ${magic%% *}, not for $krel"
		cp "$file" "$root/mod/"
		;;
	*)
		if [ -x "$file" ]; then
			cp "$file" "$root/bin/"
			is_static "$file" || add_libraries "$file"
		else
			cp "$file" "$root/data/"
		fi
		;;
	esac
done

# Not compressed: reading 2 MB more costs an emulated guest less than inflating them.
(cd "$root" && find . -print0 | LC_ALL=C sort -z | cpio --quiet --null -o -H newc -R 0:0) >"$work/out"
mv "$work/out" "$out"

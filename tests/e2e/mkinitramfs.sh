#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the test guests' initramfs: busybox, our PID 1, and the files given.
#
# usage: mkinitramfs.sh OUT KREL [FILE...]
#
# FILE.ko goes to /mod, stripped (it must be built for KREL), an executable to /bin (a dynamic one
# with its program interpreter and libraries), anything else to /data. OUT must lie under build/.
# BUSYBOX and CC may be set in the environment. For an arm64 kernel the programs are of arm64.
set -eu

die() {
	echo "mkinitramfs: $*" >&2
	exit 1
}

[ $# -ge 2 ] || die "usage: mkinitramfs.sh OUT KREL [FILE...]"
out=$1
krel=$2
shift 2

PATH=$PATH:/usr/sbin:/sbin # modinfo is there, also for ordinary users
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$(CDPATH='' cd -- "$here/../.." && pwd)/build
init=$build/e2e/init
sysroot=''
cc=gcc
cross=''
case $krel in
*-arm64*)
	init=$init-arm64
	sysroot=$build/kernels/sysroot-arm64
	cc=$here/../arm64/cc.sh
	cross=aarch64-linux-gnu-
	;;
esac
busybox=${BUSYBOX:-$sysroot/bin/busybox}
cc=${CC:-$cc}

[ -x "$busybox" ] || die "$busybox is missing: install the package busybox-static"
command -v cpio >/dev/null || die "cpio is missing: install the package cpio"
command -v "$cc" >/dev/null || die "$cc is missing: install the package gcc"

# A static executable has no program interpreter.
is_static() {
	! LC_ALL=C readelf -lW "$1" 2>/dev/null | grep -q 'program interpreter'
}
is_static "$busybox" || die "$busybox is not static: install the package busybox-static"

mkdir -p "$build/e2e" "$(dirname -- "$out")"
case $(realpath -- "$out") in
"$(realpath -- "$build")"/*) ;;
*) die "$out does not lie under build/" ;;
esac

# Several runs may be concurrent, so each file is built under another name and then renamed.
work=$(mktemp -d "$build/e2e/initramfs.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

if [ ! -x "$init" ] || [ -n "$(find "$here/init.c" -newer "$init")" ]; then
	"$cc" -static -O2 -Wall -Wextra -o "$work/init.new" "$here/init.c"
	mv "$work/init.new" "$init"
fi

root=$work/root
mkdir -p "$root/bin" "$root/mod" "$root/data" "$root/dev" "$root/proc" "$root/sys" "$root/tmp"
cp "$init" "$root/init"
cp "$busybox" "$root/bin/busybox"
chmod 755 "$root/init" "$root/bin/busybox"

# What the program interpreter loads for a program.
list() {
	if [ -n "$sysroot" ]; then
		qemu-aarch64 -L "$sysroot" "$sysroot/lib/ld-linux-aarch64.so.1" --list "$1" | sed "s|$sysroot/|/|g"
	else
		ldd "$1"
	fi
}

# At the paths where the program looks for them, which are those of the host, or of the sysroot.
add_libraries() {
	list "$1" >"$work/ldd" || die "cannot list the libraries of $1"
	grep -o '/[^ ]*' "$work/ldd" >"$work/libraries" || die "$1 has no libraries"
	while read -r library; do
		mkdir -p "$root$(dirname -- "$library")"
		cp -L "$sysroot$library" "$root$library"
	done <"$work/libraries"
}

# A module without its debug information: nine tenths of it, which the guest would unpack and read.
# It is kept for the next guest.
add_module() {
	kept=$build/e2e/stripped/$krel/${1##*/}
	if [ ! -e "$kept" ] || [ -n "$(find "$1" -newer "$kept")" ]; then
		mkdir -p "${kept%/*}"
		"${cross}strip" -g -o "$work/module" "$1"
		touch -r "$1" "$work/module"
		mv "$work/module" "$kept"
	fi
	cat "$kept" >"$root/mod/${1##*/}"	# another run may replace it now, which cp refuses
}

for file in "$@"; do
	[ -f "$file" ] || die "no such file: $file"
	case $file in
	*.ko)
		magic=$(modinfo -F vermagic "$file")
		[ "${magic%% *}" = "$krel" ] || die "$file is built for ${magic%% *}, not for $krel"
		add_module "$file"
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

# Uncompressed: for an emulated guest, reading 2 MB more is faster than inflating them.
(cd "$root" && find . -print0 | LC_ALL=C sort -z | cpio --quiet --null -o -H newc -R 0:0) >"$work/out"
mv "$work/out" "$out"

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Makes a kernel for tests from Debian's source, unless it is there already: build.sh uml|debug
#
# build/kernels/KIND is then a link to its kbuild folder, good for "make -C build/kernels/KIND M=...". The
# folder itself lies in the user's cache, under a hash of all that went into it, and survives `make clean`.
# Several may be started at a time. TRACEBRAID_KERNELS overrules where kernels are kept.
set -eu

die() {
	echo "build.sh: $*" >&2
	exit 1
}

# Kernel and modules are made in an environment that the caller's make knows nothing of.
unset MAKEFLAGS MFLAGS MAKELEVEL ARCH KBUILD_OUTPUT O V

kind=${1:-}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$(CDPATH='' cd -- "$here/../.." && pwd)/build
config=$here/$kind.config
package=linux-source-6.1
tarball=/usr/src/$package.tar.xz

case $kind in
uml) arch=um targets='linux modules' image=linux lasts='4 minutes' ;;
debug) arch=x86 targets='bzImage modules' image=arch/x86/boot/bzImage lasts='10 minutes' ;;
*) die "usage: build.sh uml|debug" ;;
esac
[ -f "$tarball" ] || die "$tarball is missing: install the package $package"

version=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null || stat -c %Y.%s "$tarball")
cache=${TRACEBRAID_KERNELS:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/tracebraid/kernels}
if ! mkdir -p "$cache" 2>/dev/null || [ ! -w "$cache" ]; then
	cache=$build/kernels/cache
	mkdir -p "$cache"
fi
# A processor's state may be larger than 6.1 thinks (AMX): UML then ends in its first process.
fixed=arch/x86/um/user-offsets.c
fix='s/HOST_FP_SIZE, 2696/HOST_FP_SIZE, 12288/'
# What no kernel here has, but for what Kconfig reads: a third of it all.
left_out="*/tools/perf/*
*/tools/testing/*
*/Documentation/*.[rsty]*
*/sound/*.[ch]
*/drivers/gpu/*.[ch]
*/drivers/net/*/*.[ch]
*/drivers/media/*.[ch]
*/drivers/staging/*.[ch]
*/drivers/infiniband/*.[ch]
*/drivers/scsi/*.[ch]
*/drivers/iio/*.[ch]
*/drivers/usb/*.[ch]
$package/arch/a*/*.[chS]
$package/arch/[b-tv-w]*/*.[chS]
*.dts
*.dtsi"
hash_of() {
	printf '%s\n' "$@" | sha256sum | cut -c 1-12
}
source=$cache/source-$version-$(hash_of "$fix" "$left_out")
out=$cache/$kind-$version-$(hash_of "$fix" "$left_out" "$(cat "$config")")
log=$out.log

link_to_it() {
	mkdir -p "$build/kernels"
	ln -sfn "$out" "$build/kernels/$kind"
}

# Whatever is ready has its stamp; who comes second waits for who came first.
exec 9>"$cache/lock-$kind"
flock 9
if [ -e "$out/ready" ]; then
	link_to_it
	exit 0
fi

unpack() (
	exec 8>"$cache/lock-source"
	flock 8
	[ ! -e "$source/ready" ] || exit 0
	rm -rf "$source"
	mkdir "$source"
	printf '%s\n' "$left_out" | nice tar -xJf "$tarball" -C "$source" --strip-components=1 --exclude-from=- &&
		sed -i "$fix" "$source/$fixed" &&
		touch "$source/ready"
)

kmake() {
	nice make -C "$source" ARCH="$arch" O="$out" -j"$(nproc)" "$@"
}

# What the fragment asks for and Kconfig does not grant would be missing unseen.
check_config() {
	refused=$(grep -E '^CONFIG_' "$config" | grep -vxFf "$out/.config") || return 0
	echo "Kconfig does not grant:" "$refused"
	return 1
}

# shellcheck disable=SC2086 # the targets are a list of words
make_kernel() {
	mkdir -p "$out" &&
		kmake tinyconfig &&
		cat "$config" >>"$out/.config" &&
		kmake olddefconfig &&
		check_config &&
		kmake $targets &&
		[ -s "$out/$image" ] &&
		# Modules need none of them.
		find "$out" \( -name '*.o' -o -name '*.a' \) -delete
}

echo "building the kernel \"$kind\" ($package $version) for tests, once: some $lasts on two idle cores; log: $log" >&2
if ! { unpack && make_kernel; } >"$log" 2>&1; then
	tail -20 "$log" >&2
	die "no kernel \"$kind\"; all of its log: $log"
fi
touch "$out/ready"
link_to_it

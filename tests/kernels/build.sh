#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds a kernel for tests from Debian's source, unless it exists:
# build.sh uml|debug|arm64-64k [SERIES]
#
# SERIES is that of the installed linux-source, or of one that suite.sh gets, such as 6.12, or "newest": what
# linux-source of stable's backports depends on. build/kernels/KIND, or build/kernels/KIND-SERIES,
# is then a link to its kbuild folder, as for "make -C build/kernels/KIND M=...". The folder itself
# is in the user's cache, under a hash of all its inputs, and survives `make clean`. Of arm64-64k
# the links are as those that fetch.sh makes.
# Several may run at a time.
set -eu

die() {
	echo "build.sh: $*" >&2
	exit 1
}

# Kernel and modules are built in an environment without the variables of the caller's make.
unset MAKEFLAGS MFLAGS MAKELEVEL ARCH KBUILD_OUTPUT O V

kind=${1:-}
cross=''
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$(CDPATH='' cd -- "$here/../.." && pwd)/build
config=$(cat "$here/$kind.config")
series=${2:-$("$here/../packages.sh" --source)}
if [ "$series" = newest ]; then
	series=$("$here/suite.sh" cache show --no-all-versions linux-source |
		sed -n 's/^Depends:.*[ ,]linux-source-\([0-9.]*\).*/\1/p')
	[ -n "$series" ] || die 'linux-source of the stable release and its backports depends on no source'
fi
package=linux-source-$series
tarball=/usr/src/$package.tar.xz
name=$kind${2:+-$2}

case $kind in
uml) arch=um targets='linux modules' image=linux lasts='4 minutes' ;;
debug) arch=x86 targets='bzImage modules' image=arch/x86/boot/bzImage lasts='10 minutes' ;;
arm64-64k)
	arch=arm64 targets='Image modules' image=arch/arm64/boot/Image lasts='6 minutes'
	cross=aarch64-linux-gnu-
	;;
*) die "usage: build.sh uml|debug|arm64-64k [SERIES]" ;;
esac
# Since 6.2 tinyconfig chooses it, and it excludes other options of the fragment.
[ "$series" = 6.1 ] || config="$config
# CONFIG_SLUB_TINY is not set"
# Later kernels have another name for it.
case $series in
6.*) ;;
*) config=$(echo "$config" | sed 's/^CONFIG_PROC_SYSCTL=/CONFIG_SYSCTL=/') ;;
esac

if [ -f "$tarball" ]; then
	version=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null || stat -c %Y.%s "$tarball")
elif [ -n "${2:-}" ]; then
	version=$("$here/suite.sh" cache show --no-all-versions "$package" | sed -n 's/^Version: //p')
	[ -n "$version" ] || die "no $package: Debian's stable release and its backports have none"
else
	die "$tarball is missing: install the package $package"
fi
cache=$("$here/cache.sh")
# A processor's state may be larger than 6.1 assumes (AMX): UML then fails in its first process.
fixed=arch/x86/um/user-offsets.c
fix='s/HOST_FP_SIZE, 2696/HOST_FP_SIZE, 12288/'
# Parts that no kernel here uses, except files that Kconfig reads: a third of the source.
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
"
case $arch in
arm64) fix='' left_out="$left_out$package/arch/[b-z]*/*.[chS]" ;;
*) left_out="$left_out$package/arch/a*/*.[chS]
$package/arch/[b-tv-w]*/*.[chS]" ;;
esac
left_out="$left_out
*.dts
*.dtsi"
hash_of() {
	printf '%s\n' "$@" | sha256sum | cut -c 1-12
}
source=$cache/source-$version-$(hash_of "$fix" "$left_out")
out=$cache/$kind-$version-$(hash_of "$fix" "$left_out" "$config")
log=$out.log

link_to_it() {
	mkdir -p "$build/kernels"
	if [ "$arch" = arm64 ]; then
		release=$(cat "$out/include/config/kernel.release")
		mkdir -p "$out/$release"
		ln -sfn "../$image" "$out/$release/vmlinuz"
		ln -sfn .. "$out/$release/build"
		ln -sfn "$out/$release" "$build/kernels/$release"
		ln -sfn "$release" "$build/kernels/$name"
	else
		ln -sfn "$out" "$build/kernels/$name"
	fi
}

# A finished kernel has a stamp; a second run waits for the first.
exec 9>"$cache/lock-$name"
flock 9
if [ -e "$out/ready" ]; then
	link_to_it
	exit 0
fi

read_tarball() {
	if [ -f "$tarball" ]; then
		cat "$tarball"
	else
		deb=$("$here/suite.sh" deb "$package") && dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/src/$package.tar.xz"
	fi
}

unpack() (
	exec 8>"$cache/lock-source"
	flock 8
	[ ! -e "$source/ready" ] || exit 0
	rm -rf "$source"
	mkdir "$source"
	printf '%s\n' "$left_out" >"$source.left-out"
	read_tarball | nice tar -xJ -C "$source" --strip-components=1 --exclude-from="$source.left-out" &&
		[ -e "$source/Makefile" ] &&
		if [ -n "$fix" ]; then sed -i "$fix" "$source/$fixed"; fi &&
		touch "$source/ready"
)

kmake() {
	nice make -C "$source" ARCH="$arch" CROSS_COMPILE="$cross" O="$out" -j"$(nproc)" "$@"
}

# Options of the fragment that Kconfig drops would otherwise go unnoticed.
check_config() {
	refused=$(echo "$config" | grep -E '^CONFIG_' | grep -vxFf "$out/.config") || return 0
	echo "Kconfig dropped:" "$refused"
	return 1
}

# shellcheck disable=SC2086 # the targets are a list of words
make_kernel() {
	mkdir -p "$out" &&
		kmake tinyconfig &&
		echo "$config" >>"$out/.config" &&
		kmake olddefconfig &&
		check_config &&
		kmake $targets &&
		[ -s "$out/$image" ] &&
		# Modules do not need them.
		find "$out" \( -name '*.o' -o -name '*.a' \) -delete
}

echo "building the kernel \"$name\" ($package $version) for tests, once; takes about $lasts on two idle cores; log: $log" >&2
if ! { unpack && make_kernel; } >"$log" 2>&1; then
	tail -20 "$log" >&2
	die "no kernel \"$name\"; complete log: $log"
fi
touch "$out/ready"
link_to_it

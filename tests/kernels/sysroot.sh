#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Gets the libraries that the agent is compiled with for another architecture, unless they are
# there: sysroot.sh ARCH
#
# They are packages of Debian's stable release, unpacked in the user's cache; nothing is installed.
# build/kernels/sysroot-ARCH is then a link to a folder for the compiler's --sysroot and for
# qemu-user's -L, which has a static busybox too. Where they cannot be had, this prints why and
# fails.
set -eu

arch=${1:?usage: sysroot.sh ARCH}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$(CDPATH='' cd -- "$here/../.." && pwd)/build
cache=$("$here/cache.sh")
packages="$("$here/../packages.sh" --libraries) busybox-static"

# shellcheck disable=SC2086 # a list of words
suite() {
	"$here/suite.sh" --arch "$arch" --stable "$@" $packages
}

plan=$(suite plan)
root=$cache/sysroot-$arch-$(printf '%s\n' "$plan" | sha256sum | cut -c 1-12)
exec 9>"$cache/lock-sysroot-$arch"
flock 9
if [ ! -e "$root/ready" ]; then
	echo "fetching libraries of $arch for tests, once; about 30 MB" >&2
	rm -rf "$root"
	mkdir -p "$root/usr/lib" "$root/usr/bin"
	# As the package base-files has them: a file of /lib must not become a folder of its own.
	ln -s usr/lib "$root/lib"
	ln -s usr/bin "$root/bin"
	suite unpack "$root"
	touch "$root/ready"
fi
mkdir -p "$build/kernels"
ln -sfn "$root" "$build/kernels/sysroot-$arch"

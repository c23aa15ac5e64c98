#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Debian's cross compiler for arm64, with headers and libraries of tests/kernels/sysroot.sh alone:
# cc.sh ARGUMENT...
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)/build/kernels/sysroot-arm64
lib=$root/usr/lib/aarch64-linux-gnu
exec aarch64-linux-gnu-gcc --sysroot="$root" -B"$lib" -L"$lib" \
	-isystem "$root/usr/include/aarch64-linux-gnu" -isystem "$root/usr/include" "$@"

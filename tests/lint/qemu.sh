#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Checks that the rig falls back to this machine's QEMU, and says why, where the newest cannot be
# had.
set -eu
unset TRACEBRAID_QEMU

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests" "$work/build" "$work/bin"
cp -r "$here/qemu" "$here/kernels" "$here/e2e" "$here/packages.sh" "$work/tests/"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/apt-get"
chmod +x "$work/bin/apt-get"

fail() {
	echo "FAIL qemu.sh: $*"
	cat "$work/out"
	exit 1
}

# The rig's line about QEMU has this text.
describe() {
	python3 -B -c "import sys; sys.path.insert(0, '$work/tests/e2e'); import qemu; print(qemu.describe())" >"$work/out" 2>&1 ||
		fail "no description"
	grep -qF "$1" "$work/out" || fail "the rig does not say '$1'"
}

# A link of an earlier run leads to a QEMU; then there is no registry, then the user does not want
# that QEMU.
mkdir "$work/newer"
printf '#!/bin/sh\necho QEMU emulator version 99.1\n' >"$work/newer/qemu-system-x86_64"
chmod +x "$work/newer/qemu-system-x86_64"
ln -s "$work/newer" "$work/build/qemu"
describe "QEMU 99.1 ($work/build/qemu/qemu-system-x86_64)"
! PATH=$work/bin:$PATH TRACEBRAID_KERNELS=$work/cache "$work/tests/qemu/fetch.sh" --stable >"$work/out" 2>&1 ||
	fail "no error without the stable release's QEMU"
describe "QEMU 99.1 ($work/build/qemu/qemu-system-x86_64)"
PATH=$work/bin:$PATH TRACEBRAID_KERNELS=$work/cache "$work/tests/qemu/fetch.sh" >"$work/out" 2>&1 || fail 'ended with an error'
[ "$(wc -l <"$work/out")" = 1 ] || fail 'printed more or less than one line'
describe "this machine's own: apt on this machine has no sources"
TRACEBRAID_QEMU=system "$work/tests/qemu/fetch.sh" >"$work/out" 2>&1 || fail 'ended with an error'
describe "this machine's own: TRACEBRAID_QEMU=system is set"
echo 'ok   the QEMU of the rig'

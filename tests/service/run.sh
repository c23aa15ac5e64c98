#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The service under systemd: run.sh CODENAME. Boots a minimal root of a Debian release, with what
# `make install` has installed, in a container, and runs inside.sh there.
#
# The programs are those of this machine, whatever the release: they were linked to load its
# libraries, which are copied with them. So the release's systemd is tested, not its libraries
# (tests/installed.sh).
# A container has process numbers of its own, so the host is not recorded there, but a guest that
# tests/lint/live_region.c plays. It has no controllers of memory and CPU where this machine's are
# of cgroup version 1. Needs root.
set -eu

tree=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
cd "$tree"
codename=$1
root=build/service/$codename/root console=build/service/$codename/console
archive=$(tests/root.sh "$codename" service minbase systemd,systemd-sysv)

rm -rf --one-file-system "$root"
mkdir -p "$root"
tar -C "$root" -xf "$archive" --exclude='./dev/*'
make install DESTDIR="$tree/$root" PREFIX=/usr KREL=none >build/service/install.log 2>&1 ||
	{ tail -5 build/service/install.log >&2; exit 1; }
cp build/service/tracebraid "$root/usr/bin/"
cp build/service/live_region tests/service/inside.sh tests/service/common.sh "$root/root/"
# Their program interpreter names the folder of the libraries.
interpreter() {
	readelf -lW "$1" | sed -n 's/.*program interpreter: \(.*\)]/\1/p'
}
loader=$(interpreter build/service/tracebraid)
own=$root${loader%/*}
mkdir -p "$own"
cp -L "$(interpreter build/tracebraid)" "$root$loader"
ldd build/tracebraid | sed -n 's/.* => \(\/[^ ]*\).*/\1/p' | xargs cp -L -t "$own"

# Type=exec: a oneshot would keep the boot from being finished.
cat >"$root/etc/systemd/system/inside.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=exec
ExecStart=/bin/sh -c "sh /root/inside.sh >/root/output 2>&1; echo $$? >/root/status; systemctl poweroff"
UNIT
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -s ../inside.service "$root/etc/systemd/system/default.target.wants/inside.service"

# Neither systemd nor D-Bus needs to run on this machine.
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 timeout 600 systemd-nspawn --quiet --register=no --keep-unit \
	--private-network -M "tracebraid-$$" -D "$root" --boot --console=pipe \
	>"$console" 2>&1 </dev/null || true
# --keep-unit leaves two empty groups behind.
for group in /sys/fs/cgroup/unified /sys/fs/cgroup; do
	for name in payload supervisor; do
		[ ! -d "$group/$name" ] ||
			find "$group/$name" -depth -type d -exec rmdir {} \; 2>/dev/null || true
	done
done
fail() {
	echo "FAIL $*; $root and $console are kept" >&2
	exit 1
}
cat "$root/root/output" 2>/dev/null || { tail -20 "$console" >&2; fail "the container did not boot"; }
[ "$(cat "$root/root/status" 2>/dev/null)" = 0 ] || fail "service, $codename"
rm -rf --one-file-system "$root"

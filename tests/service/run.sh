#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The service under systemd: boots a minimal root of this release, with what `make install` has
# installed, in a container, and runs inside.sh there.
#
# A container has process numbers of its own, so the host is not recorded there, but a guest that
# tests/lint/live_region.c plays. It has no controllers of memory and CPU where this machine's are
# of cgroup version 1. Needs root.
set -eu

tree=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
cd "$tree"
root=build/service/root console=build/service/console
# shellcheck disable=SC1091 # the file of this machine
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")

# The packages of the libraries that the agent was linked with.
libraries=$(ldd build/tracebraid | sed -n 's/.* => \(\/[^ ]*\).*/\1/p' | xargs -n 1 readlink -f |
	sed 'p; s|^/usr||' | xargs dpkg -S 2>/dev/null | cut -d : -f 1 | sort -u | tr '\n' ,)
packages=${libraries}systemd,systemd-sysv
id=$(echo "$packages" | sha256sum | cut -c 1-12)
archive=$(tests/root.sh "$codename" "service-$id" minbase "$packages")

rm -rf --one-file-system "$root"
mkdir -p "$root"
tar -C "$root" -xf "$archive" --exclude='./dev/*'
make install DESTDIR="$tree/$root" PREFIX=/usr KREL=none >build/service/install.log 2>&1 ||
	{ tail -5 build/service/install.log >&2; exit 1; }
cp build/live_region tests/service/inside.sh "$root/root/"

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
[ "$(cat "$root/root/status" 2>/dev/null)" = 0 ] || fail "service"
rm -rf --one-file-system "$root"

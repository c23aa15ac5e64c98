#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Has DKMS build and install the driver for each kernel of this guest that has headers:
# dkms_install.sh SOURCES MODULES (/usr/src /lib/modules). The driver that is there is removed only
# when the new one has been built for all of them.
set -u

sources=$1
modules=$2
running=$(uname -r)

fail()
{
	echo "make dkms: $*" >&2
	exit 1
}

# The package of a kernel's headers that follows later kernels, by the release's flavour; nothing
# for other kernels.
meta_package()
{
	echo "$1" | sed -nE 's/^.*-((cloud-|rt-)?(amd64|arm64))$/linux-headers-\1/p'
}

command -v dkms >/dev/null || {
	meta=$(meta_package "$running")
	fail "DKMS is missing: apt install dkms ${meta:-}"
}
[ "$(id -u)" = 0 ] || fail "it writes to $sources and $modules: run it as root"
kernels=$(for build in "$modules"/*/build/.; do
	[ -d "$build" ] && basename "$(dirname "$(dirname "$build")")"
done)
# In an image that is being made, the running kernel is not one of its own.
if [ ! -d "$modules/$running/build/." ] && { [ -d "$modules/$running" ] || [ -z "$kernels" ]; }; then
	meta=$(meta_package "$running")
	echo "make dkms: no headers of the running kernel $running; nothing was changed" >&2
	[ -n "$meta" ] || fail "install them as that kernel was installed; they are found at $modules/$running/build"
	fail "install them, and those of later kernels:
  apt install linux-headers-$running $meta
If the first package is no longer available: apt install $(echo "$meta" | sed 's/headers/image/') $meta, and reboot"
fi

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/src"
version=$(guest_driver/dkms.sh "$work/src") || exit 1
dkms add --dkmstree "$work/tree" --sourcetree "$work/src" -m tracebraid -v "$version" >"$work/log" 2>&1 ||
	{ cat "$work/log" >&2; fail "DKMS does not take the sources; nothing was changed"; }
for krel in $kernels; do
	echo "building for $krel"
	dkms build --dkmstree "$work/tree" --sourcetree "$work/src" -m tracebraid -v "$version" -k "$krel" >"$work/log" 2>&1 || {
		cat "$work/log" "$work"/tree/tracebraid/*/build/make.log >&2
		fail "the driver does not build for $krel; nothing was changed"
	}
done

dkms remove "tracebraid/$version" --all >/dev/null 2>&1
mkdir -p "$sources"
guest_driver/dkms.sh "$sources" >/dev/null || exit 1
for krel in $kernels; do
	echo "installing for $krel"
	dkms install "tracebraid/$version" -k "$krel" >"$work/log" 2>&1 ||
		{ cat "$work/log" >&2; fail "not installed for $krel"; }
done

if mokutil --sb-state 2>/dev/null | grep -q enabled; then
	echo 'Secure Boot is on: the kernel must know the key that DKMS signs with. Once, then reboot and confirm:'
	echo '  mokutil --import /var/lib/dkms/mok.pub'
fi
if grep -qs '^tracebraid ' /proc/modules; then
	echo 'The former driver is still loaded. Next: modprobe -r tracebraid && modprobe tracebraid'
else
	[ -d "$modules/$running" ] || echo "This is for $(echo "$kernels" | tr '\n' ' '), not for the running $running: boot one of them."
	echo 'Next: modprobe tracebraid'
fi
echo "Then, on the host: tracebraid list"

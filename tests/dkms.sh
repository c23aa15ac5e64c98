#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Has DKMS build the driver from its own copy of the sources, in folders of its own: dkms.sh
# KERNEL-RELEASE... Before that: what `make dkms` says and does where something is missing, with a
# dkms that only notes its calls.
set -eu

work=build/dkms
rm -rf "$work"
mkdir -p "$work/tree" "$work/src"
version=$(guest_driver/dkms.sh "$work/src")
work=$(cd "$work" && pwd)

# `make dkms` on a guest that runs kernel $1, with headers of the others; the calls of dkms are in
# $work/calls.
installer() {
	rm -rf "${work:?}/modules" "${work:?}/bin" "${work:?}/calls"
	mkdir -p "$work/bin" "$work/modules/$1"
	touch "$work/calls"
	printf '#!/bin/sh\necho %s\n' "$1" >"$work/bin/uname"
	# shellcheck disable=SC2016
	printf '#!/bin/sh\necho "$*" >>%s/calls\n! [ -e %s/broken ] || [ "$1" != build ]\n' "$work" "$work" >"$work/bin/dkms"
	printf '#!/bin/sh\necho SecureBoot disabled\n' >"$work/bin/mokutil"
	chmod +x "$work"/bin/*
	shift
	for krel in "$@"; do
		mkdir -p "$work/modules/$krel/build"
	done
	PATH=$work/bin:$PATH guest_driver/dkms_install.sh "$work/installed" "$work/modules" >"$work/said" 2>&1
}

expect() {
	grep -q -- "$2" "$1" || { echo "make dkms: no \"$2\" in:" >&2; cat "$1" >&2; exit 1; }
}

# No headers of the running kernel: it says which package, and changes nothing.
for running in 6.1.0-56-cloud-amd64 6.12.48+deb13-amd64; do
	! installer "$running" 6.1.0-1-amd64 || { echo 'make dkms without headers succeeds' >&2; exit 1; }
	expect "$work/said" "apt install linux-headers-$running linux-headers-\(cloud-\)\?amd64$"
	[ ! -s "$work/calls" ] && [ ! -e "$work/installed" ] || exit 1
done
# One that does not build: the former driver stays.
touch "$work/broken"
! installer 6.1.0-1-amd64 6.1.0-1-amd64 || exit 1
expect "$work/said" 'does not build for 6.1.0-1-amd64; nothing was changed'
! grep -q remove "$work/calls" || exit 1
rm "$work/broken"
# Built for all, then installed for all, and what comes next.
installer 6.1.0-1-amd64 6.1.0-1-amd64 6.12.1-amd64 || { cat "$work/said" >&2; exit 1; }
[ "$(cut -d ' ' -f 1 "$work/calls" | tr '\n' ' ')" = 'add build build remove install install ' ]
[ -e "$work/installed/tracebraid-$version/dkms.conf" ]
expect "$work/said" 'Next: modprobe tracebraid'
echo 'ok   make dkms: without headers, broken, installed'

ours() {
	command=$1
	shift
	dkms "$command" --dkmstree "$work/tree" --sourcetree "$work/src" -m tracebraid -v "$version" "$@" \
		>"$work/log" 2>&1 || { cat "$work/log" "$work"/tree/tracebraid/*/build/make.log >&2; exit 1; }
}

ours add
for krel in "$@"; do
	ours build -k "$krel"
	module=$(find "$work/tree/tracebraid/$version/$krel" -name 'tracebraid.ko*')
	[ -n "$(find "$work/tree/tracebraid/$version/$krel" -name 'tracebraid_virtio.ko*')" ] ||
		{ echo "no tracebraid_virtio for $krel" >&2; exit 1; }
	# udev loads the module by this alias when the memory is plugged.
	modinfo -F alias "$module" | grep -q '^pci:v00001AF4d00001110' ||
		{ echo "no alias of ivshmem in $module" >&2; exit 1; }
	[ "$(modinfo -F vermagic "$module" | cut -d' ' -f1)" = "$krel" ] ||
		{ echo "$module is not for $krel" >&2; exit 1; }
	echo "ok   dkms $krel"
done

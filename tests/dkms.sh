#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Has DKMS build the driver from its own copy of the sources, in folders of its own: dkms.sh KERNEL-RELEASE...
set -eu

work=build/dkms
rm -rf "$work"
mkdir -p "$work/tree" "$work/src"
version=$(guest_driver/dkms.sh "$work/src")
work=$(cd "$work" && pwd)

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

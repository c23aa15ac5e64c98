#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Puts the driver into a kernel's own tree, or a later version in its place: kernel_tree.sh LINUX
set -eu

linux=${1:-}
misc=$linux/drivers/misc
if [ ! -f "$misc/Kconfig" ] || [ ! -f "$misc/Makefile" ] || ! grep -qs '^PATCHLEVEL' "$linux/Makefile"; then
	echo "'$linux' is not the source of a kernel: make kernel-tree LINUX=FOLDER" >&2
	exit 1
fi
if ! grep -q '^endmenu' "$misc/Kconfig"; then
	echo "'$misc/Kconfig' has no menu's end, where the driver's options are added" >&2
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(guest_driver/dkms.sh "$work")
rm -rf "$misc/tracebraid"
cp -r "$work/tracebraid-$version" "$misc/tracebraid"
rm "$misc/tracebraid/dkms.conf"
install -m 644 guest_driver/Kconfig "$misc/tracebraid"
# Once; sed writes a new file, so that of a tree with hard links no other one changes.
grep -q tracebraid "$misc/Kconfig" || sed -i '/^endmenu/i source "drivers/misc/tracebraid/Kconfig"' "$misc/Kconfig"
# shellcheck disable=SC2016 # a variable of make's
grep -q tracebraid "$misc/Makefile" || sed -i '$a obj-$(CONFIG_TRACEBRAID)		+= tracebraid/' "$misc/Makefile"
echo "The driver $version is in $misc/tracebraid. Next: CONFIG_TRACEBRAID=y (or =m) in the kernel's configuration"

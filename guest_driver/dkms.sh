#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Copies what DKMS needs of the driver's sources to FOLDER/tracebraid-VERSION: dkms.sh FOLDER
set -eu

version=$(packages/version.sh)
to=$1/tracebraid-$version
rm -rf "$to"
find guest_driver shared include -name '*.[ch]' | while read -r file; do
	install -D -m 644 "$file" "$to/$file"
done
install -m 644 guest_driver/Kbuild "$to"
sed "s/#MODULE_VERSION#/$version/" guest_driver/dkms.conf >"$to/dkms.conf"
echo "$version"

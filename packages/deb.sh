#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the Debian packages of this tree in build/deb: deb.sh [OPTION-OF-dpkg-buildpackage...]
set -eu

version=$(dpkg-parsechangelog -S Version)
source=tracebraid-${version%-*}
folder=build/deb
rm -rf "$folder"
mkdir -p "$folder"
packages/sources.sh "$source" | tar -x -C "$folder"
cd "$folder/$source"
if ! MAKEFLAGS='' dpkg-buildpackage --build=binary --unsigned-changes "$@" >../build.log 2>&1; then
	tail -20 ../build.log >&2
	echo "the packages are not built; the whole output is $folder/build.log" >&2
	exit 1
fi
cd ..
rm -rf "$source"
echo "built:"
for package in *.deb; do
	echo "  $folder/$package"
done

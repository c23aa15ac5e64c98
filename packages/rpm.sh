#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the RPM packages of this tree in build/rpm. On Debian, rpmbuild knows no package of what is
# needed to build them, nor where Fedora's Python looks for modules.
set -eu

version=$(packages/version.sh)
folder=$PWD/build/rpm
rm -rf "$folder"
mkdir -p "$folder/SOURCES"
packages/sources.sh "tracebraid-$version" | gzip -n >"$folder/SOURCES/tracebraid-$version.tar.gz"
sed "s/@VERSION@/$version/" packages/tracebraid.spec.in >"$folder/tracebraid.spec"
if [ -e /etc/debian_version ]; then
	set -- --nodeps --define "python3_sitelib $(/usr/bin/python3 -c '
import sys
print("/usr/lib/python%d.%d/site-packages" % sys.version_info[:2])')"
fi
if ! MAKEFLAGS='' rpmbuild -bb --define "_topdir $folder" "$@" "$folder/tracebraid.spec" >"$folder/build.log" 2>&1; then
	tail -20 "$folder/build.log" >&2
	echo "the packages are not built; the whole output is build/rpm/build.log" >&2
	exit 1
fi
echo "built:"
find "$folder/RPMS" -name '*.rpm' | sort | sed "s|^$PWD/|  |"

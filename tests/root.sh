#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Makes an archive of a minimal root of a Debian release, once, and prints its path:
# root.sh CODENAME NAME VARIANT PACKAGE,...
#
# NAME is that of the archive in the cache (cache.sh), VARIANT that of mmdebstrap. The registry is
# that of this machine's own apt. Needs root and the package mmdebstrap.
set -eu

die() {
	echo "root.sh: $*" >&2
	exit 1
}

[ $# = 4 ] || die "usage: root.sh CODENAME NAME VARIANT PACKAGE,..."
codename=$1 variant=$3 packages=$4
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
archive=$("$here/kernels/cache.sh")/$2-$codename.tar
new=$archive.$$.new.tar

# A release's name takes the place of this machine's own in apt's sources.
sources() {
	# shellcheck disable=SC1091 # the file of this machine
	own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	# shellcheck disable=SC2016 # variables of apt
	apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' | sort -u |
		awk -v own="$own" -v new="$codename" -v keys=/usr/share/keyrings/debian-archive-keyring.gpg \
			'$1 == own || $1 == own "-updates" || $1 == own "-security" {
				sub(own, new, $1); print "deb [signed-by=" keys "] " $2 " " $1 " main" }'
}

if [ ! -e "$archive" ]; then
	command -v mmdebstrap >/dev/null || die 'mmdebstrap is missing: install the package mmdebstrap'
	echo "making a minimal root of $codename, once; about 200 MB" >&2
	sources=$(sources)
	[ -n "$sources" ] || die 'apt on this machine has no sources for the release that it runs: run apt-get update'
	printf '%s\n' "$sources" | mmdebstrap --variant="$variant" --include="$packages" \
		--aptopt='Acquire::Check-Valid-Until "false"' "$codename" "$new" - >"$archive.log" 2>&1 || {
		rm -f "$new"
		tail -5 "$archive.log" >&2
		die "mmdebstrap could not make a root of $codename; see $archive.log"
	}
	mv "$new" "$archive"
fi
echo "$archive"

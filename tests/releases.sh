#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs commands as root in a clone of this tree, on a minimal machine of a Debian release:
# releases.sh CODENAME COMMANDS e.g. releases.sh trixie 'make demo'
#
# The machine is a folder that is created each time, from an archive (root.sh) and packages in the
# cache (cache.sh). It is the root of a mount namespace, because nsenter leaves a plain chroot. It has
# git, make, mount and what apt needs. It shares the kernel, the processes, the network, the cache
# and the additional certificate authorities of this machine, but has a /dev/shm of its own. The
# clone is of the last commit. The folder, build/releases/CODENAME, is kept after a failure; nothing
# is mounted on it any more.
# It has no PID namespace of its own: there the agent refuses to record the host, which cases do,
# because the host's trace has this machine's numbers of processes.
# The registry is that of this machine's own apt. Needs root and the package mmdebstrap.
set -eu

die() {
	echo "releases.sh: $*" >&2
	exit 1
}

[ $# = 2 ] || die "usage: releases.sh CODENAME COMMANDS"
codename=$1
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
tree=$(CDPATH='' cd -- "$here/.." && pwd)
[ "$(id -u)" = 0 ] || die 'run it as root: mounts need that'
cache=$("$here/kernels/cache.sh")
archive=$("$here/root.sh" "$codename" root apt ca-certificates,git,make,mount)
packages=$cache/release-$codename.debs
root=$tree/build/releases/$codename

mkdir -p "$packages/partial"
rm -rf --one-file-system "$root"
mkdir -p "$root"
tar -C "$root" -xf "$archive" --exclude='./dev/*'
cp /etc/resolv.conf "$root/etc/"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"	# no package starts a daemon
chmod +x "$root/usr/sbin/policy-rc.d"
git clone -q --no-hardlinks "$tree" "$root/root/tracebraid"

# A proxy of this machine may sign with an authority of its own.
if [ -d /usr/local/share/ca-certificates ]; then
	cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
	chroot "$root" update-ca-certificates >/dev/null 2>&1
fi

# Its mounts end with this namespace.
# shellcheck disable=SC2016 # expanded by the inner shell
unshare --mount --propagation private sh -euc '
	root=$1 packages=$2 cache=$3
	mount --bind "$root" "$root"
	for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
	mount -t tmpfs -o size=4g tmpfs "$root/dev/shm"
	mount --bind "$packages" "$root/var/cache/apt/archives"
	mkdir -p "$root/root/.cache/tracebraid/kernels"
	mount --bind "$cache" "$root/root/.cache/tracebraid/kernels"
	cd "$root"
	pivot_root . mnt
	exec chroot . /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
		CCACHE_DIR=/root/.cache/tracebraid/kernels/ccache \
		NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt DEBIAN_FRONTEND=noninteractive \
		sh -c "umount --lazy /mnt && cd /root/tracebraid && $4"
' sh "$root" "$packages" "$cache" "$2"
rm -rf --one-file-system "$root"

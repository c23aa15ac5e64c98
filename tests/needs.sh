#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Checks what `make check` needs beside packages, before it begins; prints one line for each lack,
# with its remedy.
set -u

bad=0
lack() {
	echo "make check: $*" >&2
	bad=1
}

[ "$(id -u)" = 0 ] || lack 'not run as root: tests use network and mount namespaces, tracefs and other users'
# Mount namespaces of tests end the propagation of /.
awk '$5 == "/" { found = 1 } END { exit !found }' /proc/self/mountinfo ||
	lack "/ is not a mount point, as in a plain chroot: before entering it, run 'mount --bind DIR DIR'"
[ -c /dev/pts/ptmx ] || lack "/dev/pts is not mounted: run 'mkdir -p /dev/pts && mount -t devpts devpts /dev/pts'"
awk '$5 == "/dev/shm" { found = 1 } END { exit !found }' /proc/self/mountinfo ||
	lack "/dev/shm is not a mount point: run 'mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm'"
exit "$bad"

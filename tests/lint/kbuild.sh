#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Checks that a build of the driver shows its progress, keeps its log, and fails when kbuild does;
# and that it refuses kernels that are too old.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2016 # the inner shell expands it
printed=$("$here/guest_driver/kbuild.sh" "$log" sh -c 'for k in $(seq 25); do echo "  CC [M]  file$k.o"; done; exit 3')
status=$?
want='  KBUILD   10 files compiled
  KBUILD   20 files compiled'
if [ "$status" != 3 ] || [ "$printed" != "$want" ] || [ "$(wc -l <"$log")" != 25 ]; then
	echo "kbuild.sh: status $status, $(wc -l <"$log") lines kept, prints:"
	echo "$printed"
	exit 1
fi
echo 'ok   progress of kbuild'

# What make says of a kernel's version: the driver's Kbuild file has no targets of its own.
says_of() {
	make -f "$here/guest_driver/Kbuild" src=. VERSION="${1%.*}" PATCHLEVEL="${1#*.}" 2>&1
}
for version in 5.19 6.0; do
	case $(says_of $version) in
	*"tracebraid requires a guest kernel of 6.1 or later, and $version is older.  Stop."*) ;;
	*) echo "a kernel of $version is not refused: $(says_of $version)" && exit 1 ;;
	esac
done
for version in 6.1 6.12 7.0; do
	case $(says_of $version) in
	*requires*) echo "a kernel of $version is refused" && exit 1 ;;
	esac
done
echo 'ok   oldest kernel'

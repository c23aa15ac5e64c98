#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Checks that a build of the driver shows how far it is, keeps its log, and fails when kbuild does.
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

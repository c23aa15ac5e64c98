#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Driver and agent of two versions together, in emulated guests: upgrade.sh KERNEL-RELEASE [COMMIT]
# COMMIT has the other version: by default the release before, or without one, the last commit of
# the version before.
set -eu

cd "$(dirname -- "$0")/.."
krel=$1
from=${2:-$(tests/former.sh)}
[ -n "$from" ] || from=$(git log -1 --format=%h -G'^#define BRAID_VERSION' -- shared/version.h)^
commit=$(git rev-parse --short --quiet --verify "$from^{commit}") || {
	echo "check-upgrade: no commit $from here: in a clone with its history, make check-upgrade FROM=COMMIT" >&2
	exit 1
}
former=$PWD/build/upgrade/$commit

[ -e "$former/Makefile" ] || {
	mkdir -p "$former"
	git archive "$commit" | tar -x -C "$former"
}
for tree in "$former" .; do
	"$tree/tests/packages.sh" build driver	# each version needs its own
	if ! {
		MAKEFLAGS='' make -s -C "$tree" -j"$(nproc)" agent &&
			MAKEFLAGS='' make -s -C "$tree" "build/guest-$krel/tracebraid.ko"
	} >"$former/build.log" 2>&1; then
		tail -20 "$former/build.log" >&2
		echo "check-upgrade: $tree does not build; the whole output is $former/build.log" >&2
		exit 1
	fi
done
echo "with: $(git log -1 --format='%h (%cs)' "$commit"), $("$former/build/tracebraid" --version)"
TRACEBRAID_FORMER=$former exec tests/e2e/run.py --no-skip --case 'upgrade-*' --kernel 6.12

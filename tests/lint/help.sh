#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# `make help` runs, fits 80 columns, names every target that is meant for people, and each that it
# names exists: all are dry-run, without the makes that their recipes start.
set -u
cd "$(dirname "$0")/../.." || exit 1
failed=0

fail()
{
	echo "make help: $*" >&2
	failed=1
}

help=$(MAKEFLAGS='' make --no-print-directory help 2>&1) || { echo "$help" >&2; fail "it fails"; }
named=$(echo "$help" | sed -n 's/^  make \([a-z][a-z0-9-]*\) .*/\1/p' | sort -u)
[ "$(echo "$named" | wc -l)" -gt 20 ] || fail "it names fewer than 20 targets"

# shellcheck disable=SC2086 # words
MAKEFLAGS='' make -nk MAKE=: KREL=none DESTDIR=/nonexistent all $named >/dev/null 2>build/help.log ||
	fail "$(cat build/help.log)"

# Those that pages tell people to run.
# shellcheck disable=SC2016
for target in $(git grep -hoE '`make [a-z][a-z0-9-]*`' -- README.md CONTRIBUTING.md docs | tr -d '\140' | sed 's/make //' | sort -u); do
	printf 'help\n%s\n' "$named" | grep -qx "$target" || fail "$target, which a page names, is missing"
done

long=$(echo "$help" | awk 'length > 80')
[ -z "$long" ] || fail "more than 80 columns: $long"

[ $failed = 0 ] && echo "ok   make help: $(echo "$named" | wc -l) targets"
exit $failed

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs unit test programs, as many at a time as there are CPUs, and counts: run.sh PROGRAM...
set -u

# What xargs calls for each: run.sh --one PROGRAM prints its verdict at once. The limit only ends
# what hangs.
if [ "${1-}" = --one ]; then
	# A sanitizer's shadow memory does not suit every random address layout.
	output=$("${0%/*}/limit.sh" 1200 setarch -R "$2")
	status=$?
	nr=$(printf '%s\n' "$output" | grep -c '^ok')
	if [ "$status" = 0 ] && [ "$nr" = 0 ]; then
		output='it ran no test' status=1
	fi
	if [ "$status" = 0 ]; then
		echo "ok   ${2##*/} ($nr)"
	else
		printf 'FAIL %s (status %s)\n%s\n' "${2##*/}" "$status" \
			"$(printf '%s\n' "$output" | tail -40 | sed 's/^/     /')"
	fi
	exit "$status"
fi

verdicts=$(mktemp)
trap 'rm -f "$verdicts"' EXIT
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" "$0" --one 2>/dev/null | tee "$verdicts"
passed=$(grep -c '^ok ' "$verdicts")
echo "$passed passed, $(($# - passed)) failed"
[ "$passed" = $# ]

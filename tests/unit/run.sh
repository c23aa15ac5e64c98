#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs unit test programs and counts: run.sh PROGRAM...
set -u

passed=0 failed=0
for program in "$@"; do
	# A sanitizer's shadow memory does not suit every random address layout.
	if output=$(timeout 300 setarch -R "$program" 2>&1 </dev/null); then
		passed=$((passed + 1))
		echo "ok   ${program##*/} ($(printf '%s\n' "$output" | grep -c '^ok'))"
	else
		failed=$((failed + 1))
		echo "FAIL ${program##*/} (status $?)"
		printf '%s\n' "$output" | tail -40 | sed 's/^/     /'
	fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs each part of a long check, all of them whatever fails, and prints a table of results: matrix.sh PART...
# A PART is the arguments of one make, such as 'check-kunit SERIES=6.12'.
set -u

table='' failed=0
for part; do
	echo "matrix: make $part"
	began=$(date +%s)
	# shellcheck disable=SC2086 # words
	if ${MAKE:-make} $part; then
		result=passed
	else
		result=FAILED
		failed=$((failed + 1))
	fi
	table="$table$(printf '  %-34s %s %6d s' "$part" "$result" $(($(date +%s) - began)))
"
done
printf '\n%s' "$table"
[ "$failed" = 0 ] || echo "matrix: $failed of $# parts failed; each can be repeated by 'make PART'"
[ "$failed" = 0 ]

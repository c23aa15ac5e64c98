#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Counts the instructions for one event, including the loop around it, by callgrind; or of what
# another program does: count.sh METRIC PROGRAM WORD
set -eu

out=$(mktemp)
trap 'rm -f "$out"' EXIT

# count METRIC PROGRAM WORD: prints the average over the events that the program reports.
count() {
	events=$(valgrind --quiet --tool=callgrind --callgrind-out-file="$out" \
		--toggle-collect='braid_count_*' "$2" "$3")
	awk -v name="$1" -v events="$events" \
		'/^(totals|summary):/ { sum = $2 } END { printf "%s\t%.1f\tinstructions\n", name, sum / events }' "$out"
}

if [ $# = 3 ]; then
	count "$@"
	exit
fi
count event_16_bytes_in_ring build/bench_count turns
count event_16_bytes_in_subbuffer build/bench_count fast
count counter_copy_store_counted build/bench_count floor

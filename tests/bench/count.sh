#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Counts the instructions for one event, including the loop around it, by callgrind
set -eu

out=$(mktemp)
trap 'rm -f "$out"' EXIT

# count METRIC WHAT: prints the average over the events that the program reports.
count() {
	events=$(valgrind --quiet --tool=callgrind --callgrind-out-file="$out" \
		--toggle-collect='braid_count_*' build/bench_count "$2")
	awk -v name="$1" -v events="$events" \
		'/^(totals|summary):/ { sum = $2 } END { printf "%s\t%.1f\tinstructions\n", name, sum / events }' "$out"
}

count event_16_bytes_in_ring turns
count event_16_bytes_in_subbuffer fast
count counter_copy_store_counted floor

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Counts instructions for one event, by callgrind: the loop around it included
set -eu

out=$(mktemp)
trap 'rm -f "$out"' EXIT

# count.sh's own helper: METRIC WHAT, the average over what the program says it did.
count() {
	events=$(valgrind --quiet --tool=callgrind --callgrind-out-file="$out" \
		--toggle-collect='braid_count_*' build/bench_count "$2")
	awk -v name="$1" -v events="$events" \
		'/^(totals|summary):/ { sum = $2 } END { printf "%s\t%.1f\tinstructions\n", name, sum / events }' "$out"
}

count event_16_bytes_in_ring turns
count event_16_bytes_in_subbuffer fast
count counter_copy_store_counted floor

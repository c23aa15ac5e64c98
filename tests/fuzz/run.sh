#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs fuzz targets, two at a time: run.sh [--keep] -max_total_time=SECONDS|-runs=NUMBER NAME...
set -u

keep=
[ "$1" = --keep ] && keep=1 && shift
limit=$1
shift

# A long run keeps its corpus and continues from it; a bounded run is always the same, but with --keep.
case $keep$limit in
-runs=*) kept=build/fuzz/short seed=-seed=1 ;;
*) kept=build/fuzz/kept seed='' ;;
esac
[ "$kept" = build/fuzz/kept ] || rm -rf "$kept"

one() {
	program=build/fuzz/$1
	crashes=build/fuzz/crash/$1
	log=build/fuzz/$1.log
	mkdir -p "$crashes" "$kept/$1"
	# A sanitizer's shadow memory conflicts with some random address layouts.
	# shellcheck disable=SC2086 # an empty one adds no argument
	if setarch -R "$program" "$limit" $seed -max_len=16384 -len_control=20 -timeout=25 \
		-rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$crashes/" \
		"$kept/$1" "tests/fuzz/corpus/$1" >"$log" 2>&1 </dev/null; then
		echo "ok   fuzz_$1 ($(sed -n 's/^stat::number_of_executed_units: *//p' "$log") runs)"
		return 0
	fi
	echo "FAIL fuzz_$1"
	grep -vE '^(#[0-9]+|[[:space:]]*NEW_FUNC|INFO:|stat::|MS:|0x|DEDUP|NOTE:|SUMMARY: libFuzzer|artifact_prefix|Base64| +Combine)' "$log" | head -30 | sed 's/^/     /'
	kept_input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
	if [ -n "$kept_input" ]; then
		echo "     input kept; reproduce with: setarch -R $program $kept_input"
	fi
	return 1
}

failed=0 waiting=
for name in "$@"; do
	one "$name" &
	if [ -n "$waiting" ]; then
		wait "$waiting" || failed=$((failed + 1))
	fi
	waiting=$!
done
wait "$waiting" || failed=$((failed + 1))
echo "$(($# - failed)) passed, $failed failed"
[ "$failed" = 0 ]

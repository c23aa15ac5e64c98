#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs fuzz targets, two at a time: run.sh -max_total_time=SECONDS|-runs=NUMBER NAME...
# Or one after the other, each for the same time, in rounds until all have had so many inputs:
# run.sh --inputs=NUMBER NAME...
set -u

round_s=60
limit=$1
shift
inputs=
case $limit in
--inputs=*) inputs=${limit#*=} limit=-max_total_time=$round_s ;;
esac

# The shadow of a large allocation is written, not mapped anew: that took a third of the time.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}clear_shadow_mmap_threshold=100000000"

# A long run keeps its corpus and continues from it; a bounded run is always the same.
case $limit in
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

# Adds what the last run of a target has done to its sums: inputs and seconds.
count() {
	log=build/fuzz/$1.log
	sums=build/fuzz/$1.sums
	ran=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
	read -r sum seconds <"$sums"
	echo "$((sum + ${ran:-0})) $((seconds + $2))" >"$sums"
	total=$((total + ${ran:-0}))
}

in_rounds() {
	total=0 failed=0
	for name in "$@"; do
		echo "0 0" >"build/fuzz/$name.sums"
	done
	while [ "$total" -lt "$inputs" ]; do
		for name in "$@"; do
			began=$(date +%s)
			one "$name" || failed=$((failed + 1))
			count "$name" $(($(date +%s) - began))
		done
		echo "     $total of $inputs inputs"
	done
	for name in "$@"; do
		read -r sum seconds <"build/fuzz/$name.sums"
		echo "     fuzz_$name: $sum inputs, $((sum / (seconds > 0 ? seconds : 1))) a second"
	done
	echo "     $total inputs, $failed findings"
	[ "$failed" = 0 ]
}

if [ -n "$inputs" ]; then
	in_rounds "$@"
	exit
fi

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

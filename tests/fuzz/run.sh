#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs fuzz targets, two at a time: run.sh -max_total_time=SECONDS|-runs=NUMBER NAME...
# Or one after the other, in rounds, until all together have had so many inputs and each of them
# LEAST: a last round has only those that lack some. One with a finding is in no further round:
# run.sh --inputs=NUMBER --least=LEAST NAME...
set -u

round_s=${FUZZ_SECONDS:-60}
limit=$1
shift
inputs=
case $limit in
--inputs=*) inputs=${limit#*=} least=${1#--least=} limit=-max_total_time=$round_s
	shift ;;
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
	# Entropic scheduling takes a third of the time of targets that reach much of the code.
	# A sanitizer's shadow memory conflicts with some random address layouts.
	# shellcheck disable=SC2086 # an empty one adds no argument
	if setarch -R "$program" "$limit" $seed -entropic=0 -max_len=16384 -len_control=20 -timeout=25 \
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

# Runs a target once more, and adds to its sums: inputs, seconds, findings.
add_run() {
	sums=build/fuzz/$1.sums
	began=$(date +%s)
	one "$1"
	finding=$?
	ran=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$1.log")
	read -r sum seconds findings <"$sums"
	seconds=$((seconds + $(date +%s) - began))
	echo "$((sum + ${ran:-0})) $seconds $((findings + finding))" >"$sums"
	total=$((total + ${ran:-0}))
}

# Those of the targets that the next round has.
lacking() {
	for name in "$@"; do
		read -r sum _ findings <"build/fuzz/$name.sums"
		if [ "$findings" = 0 ] &&
		   { [ "$total" -lt "$inputs" ] || [ "$sum" -lt "$least" ]; }; then
			echo "$name"
		fi
	done
}

in_rounds() {
	total=0 failed=0
	for name in "$@"; do
		echo "0 0 0" >"build/fuzz/$name.sums"
	done
	while left=$(lacking "$@") && [ -n "$left" ]; do
		for name in $left; do
			add_run "$name"
		done
		echo "     $total of $inputs inputs; $(lacking "$@" | wc -l) of $# targets go on"
	done
	for name in "$@"; do
		read -r sum seconds findings <"build/fuzz/$name.sums"
		failed=$((failed + findings))
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

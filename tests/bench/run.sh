#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs all benches, keeps the figures, metric<TAB>value<TAB>unit, in build/bench.tsv and, with date
# and commit, in build/bench-history.tsv; and prints them as a table.
# With "short" each bench runs for about a second and only the number of figures is printed:
# `make check` only tests that they, and the table, work.
set -eu

out=build/bench.tsv
history=build/bench-history.tsv
if [ "${1:-}" = short ]; then
	export BRAID_BENCH_SHORT=1
	# Such figures say nothing: they are kept apart.
	history=build/bench-short-history.tsv
	rm -f "$history"
	out=build/bench-short.tsv
fi

{
	build/bench_ring
	tests/bench/count.sh
	tests/bench/lttng.sh
	# shellcheck disable=SC2046 # a list of words
	tests/bench/guest_ring.py $(tests/packages.sh --kernels | cut -f 1 | grep -v rt)
	tests/bench/guest_count.py 6.12
	tests/bench/guest_sample.py 6.12
	tests/bench/guests.py
	build/bench_clock
	build/bench_many
	build/bench_memory
	build/bench_live
	tests/bench/exports.py
} >"$out.new"
mv "$out.new" "$out"
if [ "${1:-}" = short ]; then
	# A second run of the same figures: the first one is its last run.
	tests/bench/table.py "$out" "$history" >/dev/null
	tests/bench/table.py "$out" "$history" >"$out.table"
	grep -q 'walk .* +0\.0 %' "$out.table"
	[ "$(wc -l <"$history")" = $((2 * $(wc -l <"$out"))) ]
	echo "ok   bench: $(wc -l <"$out") figures; 'make bench' measures them"
else
	tests/bench/table.py "$out" "$history"
fi

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs all benches, prints figures and keeps them: metric<TAB>value<TAB>unit in build/bench.tsv
# With "short" each bench runs for about a second and only the number of figures is printed:
# `make check` only tests that they work.
set -eu

out=build/bench.tsv
if [ "${1:-}" = short ]; then
	export BRAID_BENCH_SHORT=1
	out=build/bench-short.tsv
fi

{
	build/bench_ring
	tests/bench/count.sh
	tests/bench/lttng.sh
	# shellcheck disable=SC2046 # a list of words
	tests/bench/guest_ring.py $(tests/packages.sh --kernels | cut -f 1 | grep -v rt)
	tests/bench/exported.py 6.12
	tests/bench/guests.py
	build/bench_clock
	build/bench_many
	tests/bench/exports.py
} >"$out.new"
mv "$out.new" "$out"
if [ "${1:-}" = short ]; then
	echo "ok   bench: $(wc -l <"$out") figures; 'make bench' measures them"
else
	column -t -s "$(printf '\t')" "$out"
fi

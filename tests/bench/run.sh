#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs all benches, shows their figures and keeps them: metric<TAB>value<TAB>unit in build/bench.tsv
set -eu

{
	build/bench_ring
	tests/bench/count.sh
	tests/bench/lttng.sh
	tests/bench/guest_ring.py 6.1 6.12
	tests/bench/guests.py
	build/bench_clock
	build/bench_many
	tests/bench/exports.py
} >build/bench.tsv.new
mv build/bench.tsv.new build/bench.tsv
column -t -s "$(printf '\t')" build/bench.tsv

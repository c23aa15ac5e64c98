#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Opens exported pages in a headless Chromium: run.sh [bench CAPTURE]
set -eu

folder=build/html-test
mkdir -p "$folder"
if ! cmp -s tests/html/package-lock.json "$folder/package-lock.json" ||
	! [ -d "$folder/node_modules" ]; then
	cp tests/html/package.json tests/html/package-lock.json "$folder"
	if ! (cd "$folder" && npm ci --no-audit --no-fund) > "$folder/npm.log" 2>&1; then
		rm -f "$folder/package-lock.json"
		cat "$folder/npm.log" >&2
		exit 1
	fi
fi

if [ "${1:-}" = bench ]; then
	build/tracebraid export --to html "$2" -o "$folder/bench.html"
	exec node tests/html/bench.js "$folder/bench.html"
fi
build/make_big_capture "$folder/big.braid" 24000
build/make_hostile "$folder/hostile.braid"
build/make_hostile "$folder/empty.braid" 0
mkdir -p "$folder/tables"
# shellcheck disable=SC2046 # words
node tests/html/test.js build/tracebraid "$folder/big.braid" "$folder/hostile.braid" "$folder/empty.braid" \
	"$folder" $(tests/library/test_tables.py make "$folder/tables")

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs the parts of a long check, and prints a table of their results and times: parts.sh PART...
# A PART is the arguments of one make, such as 'check-kunit SERIES=6.12'. Parts joined by ' + ' run
# at once; the output of each is printed when it has ended. All parts run, whatever fails. Beside the
# time that a part took is that of the CPUs, which other load on the machine hardly changes.
set -u

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
# Commands in the background ignore Ctrl-C.
trap 'trap "" TERM; kill 0; exit 130' INT TERM
: >"$folder/table"

# Seconds of the CPUs by the output of `times`: of all commands that have ended, in its second line.
cpu_time() {
	awk -F '[ms ]+' 'NR == 2 { printf "%d\n", $1 * 60 + $2 + $3 * 60 + $4 }' "$1"
}

# Part $1, with a file of its own for its times.
run() {
	times >"$2"
	began=$(date +%s) cpu_began=$(cpu_time "$2")
	if eval "make $1"; then
		result=passed
	else
		result=FAILED
		: >"$folder/failed"
	fi
	times >"$2"
	printf '  %-46s %s %5d s %6d s of CPU\n' "$1" "$result" $(($(date +%s) - began)) \
		$(($(cpu_time "$2") - cpu_began)) >>"$folder/table"
}

# Each writes to a file of its own, so that their lines do not mix.
run_at_once() {
	echo "at once: $*"
	rest="$* + " number=0
	while [ -n "$rest" ]; do
		part=${rest%% + *}
		rest=${rest#* + }
		number=$((number + 1))
		(
			run "$part" "$folder/times$number" >"$folder/$number" 2>&1
			flock "$folder/table" cat "$folder/$number"
		) &
	done
	wait
}

for part; do
	case $part in
	*' + '*) run_at_once "$part" ;;
	*) run "$part" "$folder/times" ;;
	esac
done
echo
cat "$folder/table"
[ ! -e "$folder/failed" ] || echo "failed: repeat a part by 'make PART'"
[ ! -e "$folder/failed" ]

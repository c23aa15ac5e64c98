#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs the arm64 unit test programs by qemu-user, and has the agents of both architectures read the
# same captures: run.sh FOLDER-OF-THE-ARM64-BUILD [NAME...] (with names, these tests only)
#
# The tests find a tree as they expect it in the folder "run": the repository's, with programs that call qemu-user as
# its build/. One test runs at a time. tests/arm64/skipped names those that qemu-user cannot run,
# with the reasons.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
top=$(CDPATH='' cd -- "$here/../.." && pwd)
arm=$(CDPATH='' cd -- "$1" && pwd)
shift
export QEMU_LD_PREFIX="$top/build/kernels/sysroot-arm64"
run=$arm/run

# A script that runs a program of arm64, so that a test can start it like one of this machine's. The
# agent confines itself by seccomp, which qemu-user does not have.
wrap() {
	mkdir -p "$(dirname -- "$run/$2")"
	printf '#!/bin/sh\nexec qemu-aarch64 -E LD_PRELOAD=%s %s "$@"\n' "$arm/no_seccomp.so" "$1" >"$run/$2"
	chmod +x "$run/$2"
}

rm -rf "$run"
mkdir -p "$run"
for folder in docs guest_driver host_agent include shared tests; do
	ln -s "$top/$folder" "$run/$folder"
done
wrap "$arm/tracebraid" build/tracebraid
wrap "$arm/tracebraid" build/address/tracebraid
wrap "$arm/make_big_capture" build/make_big_capture
cd "$run" || exit 1

passed=0 failed=0 skipped=0 captures=
if [ $# = 0 ]; then
	captures="arm.braid ${TRACEBRAID_CAPTURES:-}"
	# shellcheck disable=SC2046 # a list of words
	set -- $(cd "$arm/plain" && echo *)
fi
for name; do
	why=$(awk -F '\t+' -v name="$name" '$1 == name { print $2 }' "$here/skipped")
	if [ -n "$why" ]; then
		echo "skip $name: $why"
		skipped=$((skipped + 1))
	elif output=$(tests/unit/limit.sh 900 qemu-aarch64 -E LD_PRELOAD="$arm/no_seccomp.so" "$arm/plain/$name"); then
		echo "ok   $name ($(printf '%s\n' "$output" | grep -c '^ok'))"
		passed=$((passed + 1))
	else
		printf 'FAIL %s (status %s)\n%s\n' "$name" $? "$(printf '%s\n' "$output" | tail -40 | sed 's/^/     /')"
		failed=$((failed + 1))
	fi
done

# verdict NAME COMMAND...
verdict() {
	what=$1
	shift
	if output=$("$@" 2>&1); then
		echo "ok   $what"
		passed=$((passed + 1))
	else
		printf 'FAIL %s\n%s\n' "$what" "$(printf '%s\n' "$output" | head -20 | sed 's/^/     /')"
		failed=$((failed + 1))
	fi
}

# Two programs write the same to their standard output, and exit alike: alike PROGRAM PROGRAM
# ARGUMENT... (verify finds that the clocks of a synthetic capture are wrong, and exits with 1.)
alike() {
	one=$1 other=$2
	shift 2
	"$one" "$@" >ours
	status=$?
	"$other" "$@" >theirs
	[ $? = $status ] && [ -s ours ] && diff ours theirs
}

# Times depend on the moment of the recovery.
events_of() {
	"$1" recover -q -o recovered.braid region >/dev/null && "$native/tracebraid" verify recovered.braid >/dev/null &&
		"$native/tracebraid" report recovered.braid | sed -e '/^# recorded/d' -e 's/ [0-9]*\.[0-9]*: / /' && rm recovered.braid
}

# Live, then as its writer has left it.
region_of_x86() {
	"$native/live_region" region x86 >live &
	writer=$!
	until [ -s live ]; do
		kill -0 $writer || return 1
		sleep 0.05
	done
	build/tracebraid record -q -r "$PWD/region" -t 0.5 -o recorded.braid
	status=$?
	kill $writer
	[ $status = 0 ] && "$native/tracebraid" verify recorded.braid && [ "$("$native/tracebraid" report recorded.braid | wc -l)" -gt 100 ] &&
		events_of build/tracebraid >ours && events_of "$native/tracebraid" >theirs && [ "$(wc -l <ours)" -gt 100 ] && diff ours theirs
}

# Captures that a program of each architecture wrote, read by the agents of both.
native=$top/build
if [ -n "$captures" ]; then
	build/make_big_capture arm.braid 3000 >/dev/null
	"$native/make_big_capture" x86.braid 3000 >/dev/null
	verdict 'captures written on arm64 and x86-64' cmp arm.braid x86.braid
	verdict 'a region of x86-64, recorded on arm64 and recovered on both' region_of_x86
fi
for capture in $captures; do
	for command in 'report' 'report --json' 'stat --json' 'clock' 'verify' 'analyze summary' 'analyze steal'; do
		# shellcheck disable=SC2086 # words
		verdict "$command ${capture##*/} by both agents" alike build/tracebraid "$native/tracebraid" $command "$capture"
	done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

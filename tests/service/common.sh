#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Functions of the scripts that test the service where systemd has booted (inside.sh, machine.sh).
# shellcheck disable=SC2034 # of the scripts
conf=/etc/tracebraid.conf

fail() {
	echo "FAIL $*"
	systemctl status --no-pager --full tracebraid || true
	journalctl --no-pager -o short-precise -n 40 -t tracebraid -u tracebraid || true
	exit 1
}

# By a limit that catches hangs: wait_for WHAT COMMAND...
wait_for() {
	what=$1 tries=${limit:-300}
	shift
	until "$@"; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || fail "no $what"
		sleep 0.2
	done
}

property() {
	systemctl show -P "$1" tracebraid
}

state_is() {
	[ "$(property "$1")" = "$2" ]
}

main_is_not() {
	[ "$(property ActiveState)" = active ] && [ "$(property MainPID)" != "$1" ]
}

# Its lines after those that `mark` has counted. (After a cursor, systemd 252 leaves out the first
# one that -t selects.)
lines() {
	journalctl -q -t tracebraid -o cat
}

mark() {
	marked=$(lines | wc -l)
}

said() {
	lines | tail -n "+$((marked + 1))" | grep -qF "$1"
}

wait_said() {
	wait_for "line in the journal: $1" said "$1"
}

# The children of the main process that were started with a word of their own: recorder, analyst.
child() {
	main=$(property MainPID)
	for status in /proc/[0-9]*/status; do
		pid=${status#/proc/} pid=${pid%/status}
		[ "$(sed -n 's/^PPid:\t//p' "$status" 2>/dev/null)" = "$main" ] || continue
		{ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -q "tracebraid $1" && echo "$pid"
	done
	return 0
}

other_child() {
	now=$(child "$1")
	[ -n "$now" ] && [ "$now" != "$2" ]
}

scrape() {
	# shellcheck disable=SC2016 # bash has sockets
	bash -c 'exec 3<>/dev/tcp/127.0.0.1/9464 &&
		printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && cat <&3' 2>/dev/null
}

has_metric() {
	scrape | grep -q "$1"
}

metric() {
	scrape | tr -d '\r' | sed -n "s/^$1 //p"
}

analyzed_after() {
	now=$(metric tracebraid_analyzed_until_seconds)
	[ -n "$now" ] && [ "${now%.*}" -gt "$1" ]
}

# Until the service has seen so many seconds from now on.
seconds() {
	since=$(metric tracebraid_analyzed_until_seconds)
	wait_for "analysis" analyzed_after "$((${since%.*} + $1))"
}

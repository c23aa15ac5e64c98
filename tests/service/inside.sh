#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# In a container that systemd has booted (run.sh): the installed service starts, reloads, outlives
# the end of each of its processes, and stops.
set -eu

conf=/etc/tracebraid.conf

fail() {
	echo "FAIL $*"
	systemctl status --no-pager --full tracebraid || true
	journalctl --no-pager -o short-precise -n 40 -t tracebraid -u tracebraid || true
	exit 1
}

# By a limit that catches hangs: wait_for WHAT COMMAND...
wait_for() {
	what=$1 tries=300
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
		tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "tracebraid $1" && echo "$pid"
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

# As installed ------------------------------------------------------------------------------------

systemd-sysusers tracebraid.conf
systemd-tmpfiles --create tracebraid.conf
exposure=$(systemd-analyze security --offline=yes --threshold=20 --no-pager \
	/usr/lib/systemd/system/tracebraid.service) ||
	fail "more exposed than 2.0: $(echo "$exposure" | tail -1)"
echo "ok   systemd-analyze security:$(echo "$exposure" | sed -n 's/.*Overall exposure level[^:]*://p')"
verified=$(systemd-analyze verify --man=no tracebraid.service 2>&1 | grep tracebraid) || true
[ -z "$verified" ] || fail "systemd-analyze verify: $verified"
tracebraid serve --check >/dev/null || fail "the installed configuration is not valid"

# The host cannot be recorded here: the service does not pretend that it has begun.
mark
systemctl start --no-block tracebraid
wait_said 'the host cannot be recorded from another PID namespace'
wait_said 'the recorder has ended; it is started again'
state_is ActiveState activating || fail "it has started without a recording"
systemctl stop tracebraid
echo "ok   a recorder that cannot record: said, not ready"

# It starts ---------------------------------------------------------------------------------------

/root/live_region /dev/shm/web1 web1 >/root/live &
guest=$!
wait_for "region" grep -q live /root/live
cat >$conf <<'CONF'
[record]
host-events = none
guests = web1
[metrics]
listen = 127.0.0.1:9464
[snapshots]
directory = /var/lib/tracebraid/snapshots
apart = 0
[watch]
when = lost > 1000000000
CONF
# What hangs is to be found soon.
mkdir -p /run/systemd/system/tracebraid.service.d
printf '[Service]\nWatchdogSec=5s\nRestartSec=100ms\n' \
	>/run/systemd/system/tracebraid.service.d/test.conf
systemctl daemon-reload
mark
systemctl start tracebraid || fail "it does not start"
state_is ActiveState active || fail "it is not active"
state_is StatusText recording || fail "no status text"
[ -n "$(child record)" ] || fail "ready without a recorder"
events='^tracebraid_events_total{guest="web1"} [1-9]'
wait_for "events in the metrics" has_metric "$events"
[ "$(stat -c %U "/proc/$(property MainPID)")" = tracebraid ] || fail "it runs as another user"
echo "ok   starts: ready when it records, metrics of a guest"

# Configuration -----------------------------------------------------------------------------------

good=$(cat $conf)
mark
printf '%s\nwhen = silent > 1s\n[recrd]\nevents = sched\n' "$good" >$conf
systemctl reload tracebraid
line=$(grep -n 'events = sched' $conf | cut -d : -f 1)
wait_said "$conf:$line: unknown section [recrd]; did you mean [record]?; the former configuration stays"
state_is ActiveState active || fail "it has ended after a configuration that is not valid"
mark
printf '%s\nwhen = silent > 1s\n' "$good" >$conf
systemctl reload tracebraid
wait_said 'the configuration was read again'
kill -STOP $guest
wait_said 'web1'
kill -CONT $guest
journalctl -q -o json TRACEBRAID_GUEST=web1 >/root/alarm.json
for field in '"TRACEBRAID_GUEST":"web1"' '"TRACEBRAID_WHAT":"silent"' \
	'"TRACEBRAID_RULE":"silent > 1s"' '"PRIORITY":"4"' '"_SYSTEMD_UNIT":"tracebraid.service"'; do
	grep -qF "$field" /root/alarm.json || fail "no $field in: $(cat /root/alarm.json)"
done
snapshot_there() {
	set -- /var/lib/tracebraid/snapshots/*-web1-silent
	[ -s "$1/summary.txt" ]
}
wait_for "snapshot" snapshot_there
grep -q web1 /var/lib/tracebraid/snapshots/*-web1-silent/why.txt || fail "why.txt"
echo "ok   reload: one that is not valid changes nothing; an alarm with its fields, a snapshot"

# Faults ------------------------------------------------------------------------------------------

for part in record:recorder serve:analyst; do
	mark
	pid=$(child "${part%:*}")
	main=$(property MainPID)
	kill -KILL "$pid"
	wait_said "the ${part#*:} has ended; it is started again"
	wait_for "another ${part#*:}" other_child "${part%:*}" "$pid"
	state_is MainPID "$main" || fail "the service was restarted"
	wait_for "metrics after the end of the ${part#*:}" has_metric "$events"
	echo "ok   SIGKILL of the ${part#*:}: said, and started again"
done

pid=$(property MainPID)
kill -KILL "$pid"
wait_for "restart after SIGKILL" main_is_not "$pid"
wait_for "metrics after a restart" has_metric "$events"
pid=$(property MainPID)
kill -STOP "$pid"
wait_for "end by the watchdog" main_is_not "$pid"
journalctl -q -o cat | grep -q 'tracebraid.service: Watchdog timeout' || fail "no watchdog"
echo "ok   SIGKILL of the service, and one that hangs: restarted"

# It ends -----------------------------------------------------------------------------------------

mark
systemctl stop tracebraid
! said 'has ended' || fail "it takes its own end for a fault"
state_is Result success || fail "result $(property Result)"
state_is ExecMainStatus 0 || fail "status $(property ExecMainStatus)"
[ -z "$(ls -A /run/tracebraid 2>/dev/null)" ] || fail "files are left: $(ls -A /run/tracebraid)"
[ -z "$(find /proc -maxdepth 1 -user tracebraid 2>/dev/null)" ] || fail "processes are left"
echo "ok   stop: clean, nothing left in /run/tracebraid"

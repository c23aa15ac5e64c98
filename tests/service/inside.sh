#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# In a container that systemd has booted (run.sh): the installed service starts, reloads, outlives
# the end of each of its processes, and stops.
set -eu

# shellcheck source=tests/service/common.sh
. "$(dirname "$0")/common.sh"

# As installed ------------------------------------------------------------------------------------

systemd-sysusers tracebraid.conf
systemd-tmpfiles --create tracebraid.conf
exposure=$(systemd-analyze security --offline=yes --threshold=22 --no-pager \
	/usr/lib/systemd/system/tracebraid.service) ||
	fail "more exposed than 2.2: $(echo "$exposure" | tail -1)"
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
wait_for "region" grep -qs live /root/live
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
for part in analyst recorder service; do
	wait_for "metrics of the $part" has_metric "^tracebraid_process_resident_bytes{process=\"$part\"}"
done
echo "ok   starts: ready when it records, metrics of a guest, and of its processes"

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
	[ "${part%:*}" = serve ] || said 'was killed by signal 9' || fail "nothing says that it was killed"
	wait_for "another ${part#*:}" other_child "${part%:*}" "$pid"
	state_is MainPID "$main" || fail "the service was restarted"
	wait_for "metrics after the end of the ${part#*:}" has_metric "$events"
	echo "ok   SIGKILL of the ${part#*:}: said, and started again"
done

pid=$(property MainPID)
mark
kill -KILL "$pid"
wait_for "restart after SIGKILL" main_is_not "$pid"
wait_said 'its window is removed'
wait_for "metrics after a restart" has_metric "$events"
pid=$(property MainPID)
kill -STOP "$pid"
wait_for "end by the watchdog" main_is_not "$pid"
journalctl -q -o cat | grep -q 'tracebraid.service: Watchdog timeout' || fail "no watchdog"
echo "ok   SIGKILL of the service, and one that hangs: restarted"

# A storm of one guest, beside another one --------------------------------------------------------

count() {
	read=$(metric 'tracebraid_events_total{guest="web1"}')
	lost=$(metric 'tracebraid_lost_events_total{guest="web1"}')
}

# On a busy machine the recorder may read a guest's last events later than it expects.
at_rest() {
	count
	former=$((read + lost))
	seconds 4
	count
	[ $((read + lost)) = $former ]
}

offered() {
	offers=$(grep -c offered /root/live1) || true
	kill -USR2 $one
	until [ "$(grep -c offered /root/live1)" != "$offers" ]; do sleep 0.1; done
	sed -n 's/^offered //p' /root/live1 | tail -1
}

accounted() {
	count
	[ $((read + lost - former)) = "$offered" ]
}

systemctl stop tracebraid
kill $guest
rm /dev/shm/web1
printf '%s\nwhen = silent > 1s\nwhen = lost > 0\n' "$good" | sed 's/^guests = .*/guests = web1 web2/' >$conf
/root/live_region /dev/shm/web1 web1 >/root/live1 &
one=$!
/root/live_region /dev/shm/web2 web2 >/root/live2 &
two=$!
wait_for "regions" grep -qs live /root/live1
wait_for "regions" grep -qs live /root/live2
systemctl start tracebraid
wait_for "events of web2" has_metric '^tracebraid_events_total{guest="web2"} [1-9]'
wait_for "events of web1" has_metric '^tracebraid_events_total{guest="web1"} [1-9]'
first=$(offered)
wait_for "a guest at rest" at_rest
mark
kill -USR1 $one
wait_said 'web1 lost'
offered=$(($(offered) - first))
wait_for "account of $offered events" accounted
[ "$(metric tracebraid_captures_skipped_total)" = 0 ] || fail "captures were skipped"
[ "$lost" -gt 0 ] || fail "a storm lost nothing"
[ "$(metric 'tracebraid_lost_events_total{guest="web2"}')" = 0 ] || fail "events of the other guest were lost"
echo "ok   a storm: $offered more events, $read read, $lost lost; the other guest lost none"

# No room for the window --------------------------------------------------------------------------

count_grows() {
	[ "$(metric 'tracebraid_events_total{guest="web2"}')" -gt "$count" ]
}

systemctl stop tracebraid
other='^tracebraid_events_total{guest="web2"} [1-9]'
mkdir /run/tracebraid
mount -t tmpfs -o size=2m tmpfs /run/tracebraid
systemctl start tracebraid
wait_for "events" has_metric "$other"
main=$(property MainPID)
mark
# What the rings hold is read at once; web2 writes on.
kill -USR1 $one
wait_said 'No space left on device'
wait_said 'the recorder has ended; it is started again'
lines | grep -m 1 'No space left on device' | sed 's/^/     /'
mount -o remount,size=64m /run/tracebraid
wait_for "recorder that goes on" other_child record 0
count=$(metric 'tracebraid_events_total{guest="web2"}')
wait_for "events when there is room again" count_grows
state_is MainPID "$main" || fail "the service was restarted"
systemctl stop tracebraid
umount /run/tracebraid
systemctl start tracebraid
echo "ok   no room for the window: said, and recorded again when there is room"
kill $one $two
rm /dev/shm/web1 /dev/shm/web2

# Five hundred guests -----------------------------------------------------------------------------

followed() {
	[ "$(scrape | grep -c '^tracebraid_guest_info')" = 500 ]
}

sed -i '/^guests/d' $conf
/root/live_region /dev/shm rest 500 >/root/live3 &
wait_for "500 regions" grep -qs live /root/live3
systemctl restart tracebraid
wait_for "metrics of 500 guests" followed
[ "$(metric tracebraid_streams_left_out_total)" = 0 ] || fail "guests are left out"
bytes=$(scrape | tr -d '\r' | awk '/^tracebraid_process_resident_bytes/ { sum += $2 }
	END { print sum }')
[ "$bytes" -lt $((256 << 20)) ] || fail "the service's processes need $bytes bytes for 500 guests"
echo "ok   500 guests: followed, in $((bytes >> 20)) MiB"

# It ends -----------------------------------------------------------------------------------------

mark
systemctl stop tracebraid
! said 'has ended' || fail "it takes its own end for a fault"
state_is Result success || fail "result $(property Result)"
state_is ExecMainStatus 0 || fail "status $(property ExecMainStatus)"
[ -z "$(ls -A /run/tracebraid 2>/dev/null)" ] || fail "files are left: $(ls -A /run/tracebraid)"
[ -z "$(find /proc -maxdepth 1 -user tracebraid 2>/dev/null)" ] || fail "processes are left"
echo "ok   stop: clean, nothing left in /run/tracebraid"

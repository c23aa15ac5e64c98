#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# In an emulated host that systemd has booted (machine.sh): README's commands, from `apt install` to
# an alert, then what the service does at its limits.
set -eu

# An emulated CPU is slow.
# shellcheck disable=SC2034 # of common.sh
limit=3000
# shellcheck source=tests/service/common.sh
. "$(dirname "$0")/common.sh"

# Guests ------------------------------------------------------------------------------------------

# A vCPU that is always busy, on CPU 1: guest NAME
guest() {
	taskset 2 qemu-system-x86_64 -accel tcg -machine pc -m 16M -nodefaults -display none \
		-name "$1,debug-threads=on" -bios /root/busy.bin </dev/null &
}

guest web1
guest db1
db1=$!

# README's commands -------------------------------------------------------------------------------

alerts() {
	# shellcheck disable=SC2016 # bash has sockets
	bash -c 'exec 3<>/dev/tcp/127.0.0.1/9090 &&
		printf "GET /api/v1/alerts HTTP/1.0\r\n\r\n" >&3 && cat <&3' 2>/dev/null
}

fires() {
	alerts | grep -o '"summary":"web1: a vCPU was stolen[^"]*"},"state":"firing"' >/root/alert
}

apt-get -q update >/root/apt.log 2>&1 || { cat /root/apt.log; fail "apt update"; }
(cd packages && sh -ex ../readme.sh) >/root/readme.log 2>&1 || { tail -20 /root/readme.log; fail "README's commands"; }
echo "ok   README's commands"
state_is ActiveState active || fail "the service is not active"
wait_for "alert" fires
echo "     $(cat /root/alert)"
grep -q 'most of that by db1"' /root/alert || fail "the alert does not name db1"
journalctl -q -t tracebraid -o cat | grep -m 1 'web1.*db1' || fail "no line in the journal names db1"
echo "ok   an alert names the culprit"

# A full disk -------------------------------------------------------------------------------------

# db1 lets web1 run for longer than the condition looks back, and then takes half of its CPU again.
alarm() {
	kill -STOP $db1
	seconds 4
	mark
	kill -CONT $db1
	wait_said 'stolen'
}

complete() {
	set -- "$snapshots"/*/summary.txt
	[ -s "$1" ]
}

snapshots=/var/lib/tracebraid/snapshots
systemctl stop tracebraid
rm -rf $snapshots
mount -t ext4 /dev/vdb /var/lib/tracebraid
chown tracebraid: /var/lib/tracebraid
sed -i 's/^#apart = .*/apart = 0/; s/^#window = .*/window = 2M/' $conf
systemctl start tracebraid
wait_for "metrics" has_metric '^tracebraid_guest_info'
head -c 64M /dev/zero >/var/lib/tracebraid/filler 2>/dev/null || true
main=$(property MainPID)
alarm
wait_said 'no snapshot is kept: '
lines | grep -m 1 'no snapshot is kept: .*: No space left on device' | sed 's/^/     /' | grep . ||
	fail "the line does not say that the disk is full"
[ -z "$(ls $snapshots)" ] || fail "half a snapshot is kept: $(ls $snapshots/*)"
rm /var/lib/tracebraid/filler
alarm
wait_for "snapshot when there is room again" complete
state_is MainPID "$main" || fail "the service was restarted"
echo "ok   a full disk: said, no half a snapshot; taken again when there is room"

# Limits ------------------------------------------------------------------------------------------

group=/sys/fs/cgroup$(property ControlGroup)
[ "$(cat "$group/memory.max") $(cat "$group/cpu.max")" = "268435456 50000 100000" ] ||
	fail "its limits are not in force: $(cat "$group/memory.max" "$group/cpu.max")"

counter() {
	sed -n "s/^$2 //p" "$group/$1" 2>/dev/null || echo 0
}

counter_above() {
	[ "$(counter "$1" "$2")" -gt "$3" ]
}

# A quota that it needs more than.
throttled=$(counter cpu.stat nr_throttled)
systemctl set-property --runtime tracebraid CPUQuota=5%
wait_for "time without a CPU" counter_above cpu.stat nr_throttled $((throttled + 50))
seconds 2
state_is MainPID "$main" || fail "the service was restarted under its quota"
systemctl set-property --runtime tracebraid CPUQuota=50%
echo "ok   CPU: it goes on under a quota that it needs more than"

# Less memory than it has: the kernel ends the service itself if ending the others does not suffice.
said_of_memory() {
	said 'has ended; it is started again' || said 'its window is removed'
}

mark
systemctl set-property --runtime tracebraid MemoryMax=$(($(cat "$group/memory.current") * 2 / 3))
wait_for "process that the kernel ended" counter_above memory.events oom_kill 0
systemctl set-property --runtime tracebraid MemoryMax=256M
wait_for "line about what was ended" said_of_memory
wait_for "guests after a lack of memory" has_metric '^tracebraid_guest_info{guest="web1"'
seconds 2
echo "ok   memory: what the kernel ends is started again, with a line"

# What is killed is counted -----------------------------------------------------------------------

main=$(property MainPID)
mark
kill -KILL "$main"
wait_for "restart after SIGKILL" main_is_not "$main"
wait_said 'its window is removed'
wait_for "guests after a restart" has_metric '^tracebraid_guest_info{guest="web1"'
[ "$(find /sys/kernel/tracing/instances -mindepth 1 -maxdepth 1 | wc -l)" = 1 ] ||
	fail "instances of tracefs are left: $(ls /sys/kernel/tracing/instances)"
echo "ok   SIGKILL of the service: what is lost is said, no instance of tracefs is left"

# The clock ---------------------------------------------------------------------------------------

main=$(property MainPID)
mark
for step in '+2 hours' '-1 day'; do
	before=$(metric tracebraid_host_events_total)
	date -s "$step" >/dev/null
	seconds 2
	[ "$(metric tracebraid_host_events_total)" -gt "$before" ] || fail "no events after a step of the clock"
	[ "$(metric tracebraid_late_events_total)" = 0 ] || fail "events are late after a step of the clock"
done
[ "$(lines | tail -n "+$((marked + 1))" | grep -cvE 'stolen|no snapshot was taken')" = 0 ] ||
	fail "lines after a step of the clock: $(lines | tail -n "+$((marked + 1))")"
state_is MainPID "$main" || fail "the service was restarted by a step of the clock"
echo "ok   steps of the clock: no event late, no line, no restart"

systemctl stop tracebraid
state_is Result success || fail "result $(property Result)"
[ -z "$(ls /sys/kernel/tracing/instances)" ] || fail "an instance of tracefs is left"
echo "ok   stop: clean"

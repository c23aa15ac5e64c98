#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Completes words as bash does: checks the words offered, and that no name is executed.
# shellcheck disable=SC2016,SC2317 # names are not to be expanded; bash calls the functions
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
trap_file=$(mktemp -u)
agent=$here/../../build/tracebraid
failed=0

# shellcheck disable=SC1091 # checked by itself
. "$here/../../host_agent/tracebraid.bash"

# An agent on a host with malicious names.
fake_agent()
{
	case $* in
	"list --json") printf '{"region":"/dev/shm/web1","guest":"web1","domain":"web1"}\n{"region":"/dev/shm/`touch${IFS}%s`","guest":"x","domain":"$(touch %s)"}\n' "$trap_file" "$trap_file" ;;
	"list -e") printf 'irq:irq_handler_entry\nsched:sched_switch\nsched:sched_wakeup\n' ;;
	"list -e sched:*") printf 'sched:sched_switch\nsched:sched_wakeup\n' ;;
	"clock --json "*) printf '{"streams":[{"stream":"web1"},{"stream":"$(touch %s)"}]}\n' "$trap_file" ;;
	--describe) printf 'command\trecord\tone\ncommand\treport\ttwo\ncommand\tsnapshot\tthree\n' ;;
	"--describe export") "$agent" "$@" | sed '/^form/d'; printf 'form\ttext\tone\nform\thtml\ttwo\n' ;;
	--describe*) "$agent" "$@" ;;
	esac
}
compopt() { :; }

expect()
{
	local want=$1

	shift
	COMP_WORDS=(fake_agent "$@")
	COMP_CWORD=$#
	[ "${*: -1}" != "$0" ] || COMP_CWORD=$(($# - 1))	# a capture follows
	_tracebraid
	if [ "${COMPREPLY[*]}" != "$want" ]; then
		echo "completion of '$*': '${COMPREPLY[*]}', not '$want'"
		failed=1
	fi
}

expect "record report" re
expect "snapshot" sn
expect "--host --host-clock" record --host
expect "-o -q -h --output --quiet --help" snapshot -
expect "host realtime" report --clock ''
expect "auto kvm exchange pairs nominal windows reads" merge --clock-source = ''
expect "events exits" top -s e
expect "states steal stalls" analyze st
expect "snapshot" help sn
expect "qemu:///system qemu:///session" attach -c ''
expect "text html" export --to ''
expect "html" record --to = h
expect "irq sched" record -e ''
expect "sched_switch sched_wakeup" record -e sched :
expect "sched_switch" report -e sched : sched_s
expect "web1" report --stream = w "$0"
expect "x86-tsc" record -C x
expect "web1" record -d w
expect "web1" attach w
expect "web1" record -r w
expect "web1" stat web
expect "/dev/shm/web1" record -r /dev/shm/w
expect "vhost-user:" record -r v
expect '$(touch '"$trap_file"')' attach '$'
expect '/dev/shm/`touch${IFS}'"$trap_file"'`' record -r '/dev/shm/`'
if [ -e "$trap_file" ]; then
	rm -f "$trap_file"
	echo "completion executed a command in a name"
	failed=1
fi

# The agent's own words: all commands, and no option that it refuses.
mapfile -t commands < <("$agent" --help | sed -nE 's/^  ([a-z]+) +.*/\1/p')
COMP_WORDS=("$agent" '') COMP_CWORD=1
_tracebraid
if [ "${COMPREPLY[*]}" != "${commands[*]}" ]; then
	echo "completion offers the commands ${COMPREPLY[*]}"
	failed=1
fi
for command in "${commands[@]}"; do
	COMP_WORDS=("$agent" "$command" -) COMP_CWORD=2
	_tracebraid
	for option in "${COMPREPLY[@]}"; do
		# The first --bogus may be the option's value, the second is an error.
		"$agent" "$command" "$option" --bogus --bogus 2>&1 </dev/null |
			grep -qF "unknown option '$option'" || continue
		echo "completion of $command offers $option, which does not exist"
		failed=1
	done
done
[ "$failed" = 0 ] && echo "ok   completion"
exit "$failed"

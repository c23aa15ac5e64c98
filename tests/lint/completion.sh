#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Completes words as bash would: what is offered, and that no foreign name is run.
# shellcheck disable=SC2016,SC2317 # names are not to be expanded; bash calls the functions
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
trap_file=$(mktemp -u)
failed=0

# shellcheck disable=SC1091 # checked by itself
. "$here/../../host_agent/tracebraid.bash"

# The agent of a host where somebody chose names with care.
fake_agent()
{
	case $* in
	"list --json") printf '{"region":"/dev/shm/web1","guest":"web1","domain":"web1"}\n{"region":"/dev/shm/`touch${IFS}%s`","guest":"x","domain":"$(touch %s)"}\n' "$trap_file" "$trap_file" ;;
	"list -e") printf 'irq:irq_handler_entry\nsched:sched_switch\nsched:sched_wakeup\n' ;;
	"list -e sched:*") printf 'sched:sched_switch\nsched:sched_wakeup\n' ;;
	"clock --json "*) printf '{"streams":[{"stream":"web1"},{"stream":"$(touch %s)"}]}\n' "$trap_file" ;;
	--help) printf 'Usage:\n\n  record   one\n  report   two\n  snapshot three\n\nmore\n' ;;
	"record --help") printf '  -d, --domain DOMAIN  one, --no\n                       of -o OUT\n  --host  two -SECONDS\n' ;;
	"export --help") printf '  -o OUT  one\n\nForms:\n  text    one\n  html    two\n\nThe end\n' ;;
	esac
}
compopt() { :; }

expect()
{
	local want=$1

	shift
	COMP_WORDS=(fake_agent "$@")
	COMP_CWORD=$#
	[ "${*: -1}" != "$0" ] || COMP_CWORD=$(($# - 1))	# a capture stands behind
	_tracebraid
	if [ "${COMPREPLY[*]}" != "$want" ]; then
		echo "completion of '$*': '${COMPREPLY[*]}', not '$want'"
		failed=1
	fi
}

expect "record report" re
expect "snapshot" sn
expect "--domain --host" record --
expect "-d --domain --host" record -
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
	echo "completion ran what a name says"
	failed=1
fi

# What the agent itself has: all commands, and no option that it refuses.
agent=$here/../../build/tracebraid
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
		# The first --bogus may be its value, the second is an error of its own.
		"$agent" "$command" "$option" --bogus --bogus 2>&1 </dev/null |
			grep -qF "'$option' is no option" || continue
		echo "completion of $command offers $option, which is none"
		failed=1
	done
done
[ "$failed" = 0 ] && echo "ok   completion"
exit "$failed"

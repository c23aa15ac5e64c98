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
	"list --json") printf '{"domain":"web1"}\n{"domain":"$(touch %s)"}\n' "$trap_file" ;;
	list) printf 'REGION GUEST\n/dev/shm/web1 x\n/dev/shm/`touch${IFS}%s` x\n' "$trap_file" ;;
	--help) printf '  record  one\n  report  two\n' ;;
	"record --help") printf '  -d, --domain DOMAIN  one\n  --host  two\n' ;;
	esac
}
compopt() { :; }

expect()
{
	local want=$1

	shift
	COMP_WORDS=(fake_agent "$@")
	COMP_CWORD=$#
	_tracebraid
	if [ "${COMPREPLY[*]}" != "$want" ]; then
		echo "completion of '$*': '${COMPREPLY[*]}', not '$want'"
		failed=1
	fi
}

expect "record report" re
expect "--domain --host" record --
expect "x86-tsc" record -C x
expect "web1" record -d w
expect "web1" attach w
expect "/dev/shm/web1" record -r /dev/shm/w
expect "vhost-user:" record -r v
expect '$(touch '"$trap_file"')' attach '$'
expect '/dev/shm/`touch${IFS}'"$trap_file"'`' record -r '/dev/shm/`'
if [ -e "$trap_file" ]; then
	rm -f "$trap_file"
	echo "completion ran what a name says"
	failed=1
fi
[ "$failed" = 0 ] && echo "ok   completion"
exit "$failed"

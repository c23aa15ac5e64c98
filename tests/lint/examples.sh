#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs the man pages' examples with a guest and captures of the names that they use, in their own
# /dev/shm and folder.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
if [ "${1-}" != --inside ]; then
	root=
	[ "$(id -u)" = 0 ] || root=-r
	exec unshare -m $root -- "$0" --inside
fi
mount -t tmpfs none /dev/shm || exit 1
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; cd /; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
mkdir bin
ln -s "$here/build/tracebraid" bin/
# Commands that need a terminal or a network, or may not be there.
printf '#!/bin/sh\ncat\n' >bin/less
printf '#!/bin/sh\ncat\n' >bin/flamegraph.pl
printf '#!/bin/sh\n' >bin/curl
chmod +x bin/*
PATH=$folder/bin:$PATH
failed=0 ran=0 without=0

# The whole messages of examples of a domain, where libvirt does not run or has none: the examples
# were not run.
no_domain="^tracebraid: (cannot connect to libvirt at [^ ]+: Failed to connect socket to '[^']+': No such file or directory|libvirt has no domain '(web|db)1'.*)$"
# Whether an example failed because tests lack what it needs: a traceable host, KVM, a guest's
# events of timers.
lacks()
{
	local want

	case $1 in
	*--host*) want='the host cannot be recorded' ;;
	*exits*) want='no kvm events of the host: exits cannot be analyzed' ;;
	*timer/hrtimer_expire_entry*) want="filter '[^']*': no such event in the trace" ;;
	*) return 1 ;;
	esac
	grep -qE "^tracebraid: $want" errors
}

complain()
{
	echo "$1: '$2' failed${3:+: $3}"
	failed=1
}

# Runs one example with shorter times, but for one before the end: a slow machine does nothing for a
# second. Ends commands that run until they are stopped.
run()
{
	local page=$1 example=$2 line output status

	line=$(sed -E 's/ -t [0-9]+/ -t 0.2/; s/ -i [0-9]+/ -i 0.1/; s/--(since|until) [+][0-9.]+/--\1 +0.1/
		s/--since -[0-9.]+/--since -60/; s/--owner [a-z0-9-]+/--owner '"$(id -u)"'/; s/ &$//' <<<"$example")
	[[ $line =~ ^tracebraid\ (top|clock\ [a-z0-9]+)$ ]] && line="timeout 5 $line"
	output=$(timeout 60 bash -o pipefail -c "$line" 2>errors </dev/null)
	status=$?
	# Without libvirt any domain fails: check at least that it is named like a guest.
	if grep -oE ' (-d|--domain) [^ ]+' <<<"$line" | grep -qvE ' (web|db)1$'; then
		complain "$page" "$example" "-d takes a domain"
	elif grep -q 'unknown option' errors; then
		complain "$page" "$example" "$(cat errors)"
	elif [ "$status" != 0 ] && [[ $(wc -l <errors) == 1 ]] && grep -qE "$no_domain" errors; then
		without=$((without + 1))
		return
	elif [[ $status != 0 && "$status $line" != '124 timeout'* ]] && ! lacks "$line"; then
		complain "$page" "$example" "status $status, $(cat errors)"
	elif [[ $line == *jq* ]] && ! lacks "$line" && [[ -z $output || $output == *null* ]]; then
		complain "$page" "$example" "jq finds: $output"
	fi
	ran=$((ran + 1))
}

# The examples of all pages that begin with one of these words.
examples()
{
	local page

	for page in "$here"/build/man/tracebraid*.1; do
		awk '/^\.Sh EXAMPLES/ { inside = 1; next } /^\.Sh/ { inside = 0 } inside' "$page" |
			sed -nE 's/\\\(aq/'\''/g; s/^[#$] (.*)/\1/p' | grep -E "^tracebraid ($1)( |$)" |
			sed "s|^|${page##*/} |"
	done
}

each()
{
	local page example before=$((ran + without))

	while read -r page example; do
		# A program of another package that is not installed here.
		[[ $example == *jq* ]] && ! command -v jq >/dev/null && continue
		# Files that trace-cmd has not recorded here: it may not trace, or no guest runs it.
		[[ $example =~ (host|trace-web1)\.dat && ! -e ${BASH_REMATCH[0]} ]] && continue
		run "$page" "$example"
	done < <(examples "$1" | grep -vE -e "${2:-^$}")
	[ $((ran + without)) -gt "$before" ] || complain "$1" "${2-}" "there is no such example"
}

# Before a guest exists, while it runs, and after its end.
each create
rm -f /dev/shm/*
: >live
"$here/build/live_region" /dev/shm/web1 web1 >live & guest=$!
until grep -q live live; do
	kill -0 "$guest" 2>/dev/null || { echo "no guest"; exit 1; }
	sleep 0.05
done
trace-cmd record -q -C mono_raw -e sched:sched_switch -o host.dat sleep 0.2 >/dev/null 2>&1 || rm -f host.dat
tracebraid record -q -r web1 -t 0.5 -o slow.braid 2>errors || { cat errors; exit 1; }
cp slow.braid web1.braid
each 'list|stat|verify|clock|top|attach|detach'
each record --snapshot
each pack
each unpack
each recover 'crash'
each 'report|sql|export|merge' 'crash|odd'
tracebraid record -q --snapshot -r web1 -o flight.braid 2>errors.flight & flight=$!
until tracebraid snapshot -o started.braid 2>/dev/null; do
	kill -0 "$flight" 2>/dev/null || { echo "no flight recorder"; exit 1; }
	sleep 0.05
done
each snapshot
each report 'slow|crash'
kill "$flight"
wait "$flight"
kill "$guest"
wait "$guest" 2>/dev/null
cp /dev/shm/web1 web1.core
each recover 'web1\.core'
each report 'slow|odd'
rm -f crash.braid
each recover '/dev/shm'
[ "$failed" = 0 ] && echo "ok   $ran examples of the man pages, $without without a domain not run"
exit "$failed"

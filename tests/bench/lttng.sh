#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs build/bench_lttng under a session daemon of its own, which is always ended with it
set -eu

home=$(mktemp -d)
log=$home/log
export LTTNG_HOME="$home" HOME="$home" LTTNG_UST_REGISTER_TIMEOUT=-1
cp build/bench_lttng "$home"

# Root's programs all share root's daemon; another user has one of its own.
as=
if [ "$(id -u)" = 0 ]; then
	chown -R 65534:65534 "$home"
	as='setpriv --reuid=65534 --regid=65534 --clear-groups'
fi

sessiond=
finish() {
	status=$?
	if [ -n "$sessiond" ]; then
		# Its consumers end with it.
		kill "$sessiond" 2>/dev/null || true
		wait "$sessiond" 2>/dev/null || true
	fi
	[ "$status" = 0 ] || tail -20 "$log" >&2
	rm -rf "$home"
}
trap finish EXIT
trap 'exit 1' INT TERM

# shellcheck disable=SC2086 # a list of words
{
	$as lttng-sessiond --no-kernel &
	sessiond=$!
	until $as lttng --no-sessiond list >/dev/null 2>&1; do
		kill -0 "$sessiond"
		sleep 0.1
	done
	$as lttng --no-sessiond create bench --snapshot --output="$home/snapshots"
	$as lttng --no-sessiond enable-event --userspace 'braid_bench:event'
	$as lttng --no-sessiond start
	$as "$home/bench_lttng" >&3
	$as lttng --no-sessiond destroy
} 3>&1 >"$log" 2>&1

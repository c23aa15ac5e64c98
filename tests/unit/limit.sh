#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs a command for a limited time, and kills what it leaves: limit.sh SECONDS COMMAND...
#
# A program that fails exits where it is, and its children run on. A caller that reads the output
# from a pipe would wait for them, so they write to a file.
set -u

output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
seconds=$1
shift
# A command in the background ignores Ctrl-C, which programs test.
timeout "$seconds" env --default-signal=INT,QUIT "$@" >"$output" 2>&1 </dev/null &
group=$!	# that timeout makes
trap 'kill -s KILL -- "-$group"; exit 130' INT TERM
wait "$group"
status=$?
kill -s KILL -- "-$group" 2>/dev/null
cat "$output"
exit "$status"

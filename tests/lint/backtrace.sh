#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Checks that a backtrace of the kernel shows which functions are the driver's: backtrace.sh
# DRIVER...
set -u

[ $# -gt 0 ] || { echo 'backtrace.sh: no driver is given'; exit 1; }
listing=$(nm -A "$@") || exit 1
found=$(printf '%s\n' "$listing" | awk '$2 ~ /^[tT]$/ && $3 !~ /^(__(pfx|cfi)_)?(braid_|__trace_|(init|cleanup)_module)/')
if [ -n "$found" ]; then
	echo "functions of the driver without braid_:"
	printf '%s\n' "$found"
	exit 1
fi
echo "ok   names of the driver's functions"

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Disassembles a driver: no LOCK prefix and no exiting instruction between a probe and its commit.
# write_path.sh DRIVER
set -eu

driver=$1
# LOCK prefixes and LOCKed exchanges; ports, MSRs, hypercalls, and whatever a hypervisor traps.
forbidden='\<lock\>|\<xchg[bwlq]?\>.*\(|\<(in|out)[bwl]?\> |\<(ins|outs)[bwl]\>|\<(rd|wr)msr\>|\<vmcall\>|\<vmmcall\>|\<cpuid\>|\<hlt\>|\<mwait\>|\<invlpg\>|\<wbinvd\>'

# The probes, and the ring's code that they run for each event. advance() is not included: it is
# called once per sub-buffer, and may use LOCK.
functions=$(nm "$driver" | awk '$2 ~ /^[tT]$/ && $3 ~ /^(braid_probe_|braid_writer_(reserve|publish|drop|plan_stamp|put_stamp)$|braid_buffer_(reserve|commit|write)$|braid_record_event$|braid_note_symbols$|braid_clock_(latch|to)_ns$)/ {print $3}' | sort -u)
count=$(printf '%s\n' "$functions" | grep -c .)
[ "$count" -gt 50 ] || { echo "write_path.sh: only $count functions found in $driver"; exit 1; }

found=$(objdump -d --no-show-raw-insn "$driver" | awk -v names="$functions" '
	BEGIN { n = split(names, list, "\n"); for (k = 1; k <= n; k++) want[list[k]] = 1 }
	/^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); on = name in want; next }
	on { print name ": " $0 }' | grep -E "$forbidden" || true)
if [ -n "$found" ]; then
	echo "the write path contains forbidden instructions:"
	printf '%s\n' "$found" | head -20
	exit 1
fi
echo "ok   write path of ${driver%/*}: $count functions, no LOCK, no exit"

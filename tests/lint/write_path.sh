#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Disassembles a driver: no LOCK, nothing that exits, on the way from a probe to the commit.
# write_path.sh DRIVER
set -eu

driver=$1
# LOCK prefixes and LOCKed exchanges; ports, MSRs, hypercalls, whatever a hypervisor traps.
forbidden='\<lock\>|\<xchg[bwlq]?\>.*\(|\<(in|out)[bwl]?\> |\<(ins|outs)[bwl]\>|\<(rd|wr)msr\>|\<vmcall\>|\<vmmcall\>|\<cpuid\>|\<hlt\>|\<mwait\>|\<invlpg\>|\<wbinvd\>'

# The probes and all of the ring that they run for each event. advance() is not here: it is
# entered once a sub-buffer and may use LOCK.
functions=$(nm "$driver" | awk '$2 ~ /^[tT]$/ && $3 ~ /^(braid_probe_|braid_writer_(reserve|publish|drop|plan_stamp|put_stamp)$|braid_buffer_(reserve|commit|write)$|braid_record_event$|braid_note_symbols$|braid_clock_(latch|to)_ns$)/ {print $3}' | sort -u)
count=$(printf '%s\n' "$functions" | grep -c .)
[ "$count" -gt 50 ] || { echo "write_path.sh: only $count functions found in $driver"; exit 1; }

found=$(objdump -d --no-show-raw-insn "$driver" | awk -v names="$functions" '
	BEGIN { n = split(names, list, "\n"); for (k = 1; k <= n; k++) want[list[k]] = 1 }
	/^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); on = name in want; next }
	on { print name ": " $0 }' | grep -E "$forbidden" || true)
if [ -n "$found" ]; then
	echo "the write path holds what it must not:"
	printf '%s\n' "$found" | head -20
	exit 1
fi
echo "ok   write path of ${driver%/*}: $count functions, no LOCK, nothing that exits"

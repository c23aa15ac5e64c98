#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares vCPUs' states in an export, as another tool prints them, with the state machine:
compare_states.py STATES trace-cmd FILE.dat...
compare_states.py STATES babeltrace2 FOLDER

STATES has a line for each state that a vCPU was in: guest, vCPU, state, ns.
"""

import collections
import re
import subprocess
import sys

TRACE_CMD = re.compile(
    r"tracebraid: .*\[(\d+)\] +(?:[^\d ]\S* +)?(\d+)\.(\d{9}): vcpu_state: +"  # 3.3 shows flags as well
    r"vcpu=(\d+) state=([^=]*) ns=(\d+) task=.* culprit=(.*)$"
)
BABELTRACE = re.compile(
    r"\[(\d+)\.(\d{9})\] (\S+) tracebraid:vcpu_state: \{ cpu_id = (\d+) \}, "
    r'\{ vcpu = (\d+), state = "([^"]*)", ns = (\d+), task = "[^"]*", culprit = "([^"]*)" \}$'
)


def output(*command):
    """The lines that a tool prints; it must succeed."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, encoding="utf-8", errors="surrogateescape", check=True
    )
    return done.stdout.splitlines()


def by_trace_cmd(files):
    """States of guests' files, which are named OUT-GUEST.dat."""
    for file in files:
        guest = file.rsplit("-", 1)[1][: -len(".dat")]
        for line in output("trace-cmd", "report", "-t", "-i", file):
            assert line.startswith("tracebraid:") == ("vcpu_state:" in line), line
            if line.startswith("tracebraid:"):
                match = TRACE_CMD.match(line)
                assert match, line
                cpu, s, ns, *rest = match.groups()
                yield guest, int(cpu), int(s + ns), *rest


def by_babeltrace(folders):
    """States of folders' traces."""
    for line in output("babeltrace2", "--clock-seconds", "--no-delta", *folders):
        if "vcpu_state" in line:
            match = BABELTRACE.match(line)
            assert match, line
            s, ns, guest, cpu, *rest = match.groups()
            yield guest, int(cpu), int(s + ns), *rest


def main():
    """Compares the sums; states of a vCPU follow each other without a gap."""
    want, found, ends, nr = {}, collections.Counter(), {}, 0
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            guest, vcpu, state, ns = line.split("\t")
            want[guest, int(vcpu), state] = int(ns)
    by_tool = {"babeltrace2": by_babeltrace, "trace-cmd": by_trace_cmd}
    states = by_tool[sys.argv[2]](sys.argv[3:])
    for guest, cpu, begin, vcpu, state, ns, culprit in states:
        assert cpu == int(vcpu) and int(ns) > 0
        assert ends.get((guest, cpu), begin) == begin, (guest, cpu, begin, ends)
        assert (culprit == "-") == (state not in ("stolen", "throttled")), (state, culprit)
        ends[guest, cpu] = begin + int(ns)
        found[guest, cpu, state.partition(":")[0]] += int(ns)
        nr += 1
    assert want == found, (want, found)
    print(f"{nr} states")


main()

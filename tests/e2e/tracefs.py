# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's own tracefs as the yardstick: traces in an instance, and compares."""

import collections
import itertools
import re

TRACING = "/sys/kernel/tracing"
INSTANCE = f"{TRACING}/instances/select"
# A task that has a name of its own.
WORK = "for i in 1 2 3 4 5 6 7 8; do sh -c 'echo -n busy > /proc/self/comm; sleep 0.02; sleep 0.01'; done"
# Numbers of both signs, bits, strings in arrays and elsewhere, the task's name; and, or, not.
FILTERS = {
    "sched:sched_switch": 'next_comm == "busy" && next_prio > 100 || prev_comm ~ "b?s[a-z]" && prev_state & 1',
    "sched:sched_wakeup": 'comm == "busy" && !(prio < 100 || target_cpu > 1)',
    "sched:sched_process_exec": 'filename ~ "*/s?l[!a-d]/*" && old_pid != 1',
    "raw_syscalls:sys_exit": 'COMM == "busy" && (ret < 0 || ret >= 2)',
}


def trace_in_guest(guest, filters):
    """Has the guest's tracefs trace events with filters ("": none), in an instance of its own."""
    guest.run(f"mkdir -p {INSTANCE} && echo 4096 > {INSTANCE}/buffer_size_kb")
    for event, text in filters.items():
        folder = f"{INSTANCE}/events/{event.replace(':', '/')}"
        guest.run(f"echo '{text or 0}' > {folder}/filter && echo 1 > {folder}/enable")


def traced_in_guest(guest, path=f"{INSTANCE}/trace"):
    """The events of that instance, or of its trace in a file: {place_of(): texts in order}."""
    found = collections.defaultdict(list)
    for line in guest.run(f"cat {path}", timeout=60).splitlines():
        match = re.match(r".{1,16}-(\d+)\s+\[(\d+)\] \S+\s+[\d.]+: (\w+): (.*)", line)
        if match:
            found[place_of(match[3], match[2], match[1])].append(without_races(match[4].strip()))
    return found


def place_of(event, cpu, pid):
    """
    Where an event has its order: the number of its CPU, and its name. Kernels from 6.13 on can
    preempt a task between two probes of a system call, and move it: such events have an order in
    their task.
    """
    return int(pid if event in ("sys_enter", "sys_exit") else cpu), event


def without_races(text):
    """Without what each probe of an event reads for itself: a task that ends is reaped meanwhile (Z, then X)."""
    return re.sub(r"prev_state=[ZX]\b", "prev_state=Z|X", text)


def text_of(line):
    """An event's text as tracefs prints it, which does not know system calls by name there."""
    fields = line["fields"]
    text = f"NR {fields['id']} = {fields['ret']}" if line["event"] == "sys_exit" else line["text"].strip()
    return without_races(text)


def check_equal(ctx, guest, lines, events, *path):
    """Checks that the events of a report are those of the instance, and returns them as traced_in_guest() does."""
    ours, theirs = collections.defaultdict(list), traced_in_guest(guest, *path)
    for line in lines:
        if line["type"] == "event" and line["stream"] == guest.name:
            ours[place_of(line["event"], line["cpu"], line["pid"])].append(text_of(line))
    for event in events:
        name = event.split(":")[1]
        ctx.check(any(key[1] == name for key in theirs), f"the guest's tracefs has no {event}")
    for key in sorted({*ours, *theirs}):
        for at, (one, other) in enumerate(itertools.zip_longest(ours[key], theirs[key])):
            ctx.equal(one, other, f"event {at} of {key}: ours, and tracefs'")
    return ours

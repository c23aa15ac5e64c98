#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads trace.dat exports with Debian's trace-cmd, whose output must equal the agent's own report."""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

FORMS = ("trace.dat", "trace.dat-v6")
SHOWN = 5
MOST_ID = 32767  # KernelShark reads larger ones as negative
NO_TASK = "-1", "<...>"  # as trace-cmd shows the pid -1
OURS = re.compile(r"(?P<stream>.+?): +(?:(?P<comm>.*)-(?P<pid>-?\d+))?(?: +\[[^]]*/(?:vCPU \d+|all vCPUs)\])? +\[(?P<cpu>\d+|---)\] +(?P<time>\d+\.\d{9}): (?P<rest>.*)")
# 3.3 prints flags between CPU and time.
THEIRS = re.compile(r" *(?P<comm><\.\.\.>|.*)-(?P<pid>-?\d+) +\[(?P<cpu>\d+)\] +(?:\S+ +)?(?P<time>\d+\.\d{9}): (?P<rest>.*)")
OF_TASK = re.compile(r".*-\d+ +\[\d+\] ")
LOST = re.compile(r"LOST (\d+|some) events?")
DROPPED = re.compile(r" *CPU:(\d+) \[(?:(\d+) )?EVENTS DROPPED\]")
# Lines of stacks; an address without a name is printed in different forms.
OUR_FRAME = re.compile(r" => (?:0x)?([^\s+]+)")
THEIR_FRAME = re.compile(r" *=> (\S+)")
OF_FILE = re.compile(r" *(\S+\.dat):(.*)")


class Unreadable(Exception):
    """A program failed, or its output cannot be parsed."""


def run(*command):
    """The output of a command, which must succeed, and print no error if it is trace-cmd."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode or (done.stderr and command[0] == "trace-cmd"):
        raise Unreadable(f"{' '.join(map(str, command))}: status {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode(errors="replace").splitlines()


def split(rest):
    """An event's name and text. Hexadecimal bytes are truncated in a report."""
    name, _, text = rest.partition(":")
    name, text = re.sub(r"\W", "_", name), re.sub(r" \.\.\. \(\d+ bytes\)$", "", " ".join(text.split()))
    if name == "kernel_stack":  # of an unknown stack both have no frames
        name, text = "stack", re.sub(r"^<stack trace > ?", "", text) or "unknown"
    if name == "bprint":  # of an unknown format both print its address
        text = re.sub(r"^\w+: (?:\(NO FORMAT FOUND at )?([0-9a-f]+)\)?$", r"\1", text)
    return name, text


def with_stacks(lines, frame):
    """Appends the frames of a stack, which have lines of their own, to the line of its event."""
    last = None
    for line in lines:
        found = last is not None and frame.match(line)
        if found:
            last += f" => {found[1]}"
            continue
        if last is not None:
            yield last
        last = line
    if last is not None:
        yield last


def ours(lines):
    """Parses a report: (time, stream, CPU, kind, what) of each line, and each event's task."""
    for line in with_stacks(lines, OUR_FRAME):
        m = OURS.fullmatch(line)
        if not m:
            raise Unreadable(f"cannot parse this line of the report: {line}")
        key = m["time"], m["stream"], 0 if m["cpu"] == "---" else int(m["cpu"])
        lost = LOST.match(m["rest"])
        if m["pid"] is not None:
            yield (*key, m["pid"], *split(m["rest"])), m["comm"]
        elif lost:
            yield (*key, "lost", "" if lost[1] == "some" else lost[1], ""), None
        elif m["rest"].startswith("NOTE "):
            yield (*key, NO_TASK[0], "note", m["rest"][len("NOTE "):].strip()), NO_TASK[1]
        else:
            yield (*key, NO_TASK[0], *split(m["rest"])), NO_TASK[1]


def theirs(lines, streams):
    """Parses trace-cmd's output likewise."""
    name, lost = None, None
    for line in with_stacks(lines, THEIR_FRAME):
        m = OF_FILE.fullmatch(line)
        if m:
            name, line = m[1], m[2]
        if re.fullmatch(r" *cpus=\d+", line):
            continue
        m = DROPPED.fullmatch(line)
        if m:
            lost = int(m[1]), m[2] or ""
            continue
        m = THEIRS.fullmatch(line)
        if not m:
            raise Unreadable(f"cannot parse this line of trace-cmd: {line}")
        key = m["time"], streams[name], int(m["cpu"])
        if lost:
            if lost[0] != key[2]:
                raise Unreadable(f"a loss on CPU {lost[0]}, reported before {line}")
            yield (*key, "lost", lost[1], ""), None
            lost = None
        rest = m["rest"]
        if rest.startswith("bytes: "):  # the text contains the event that they belong to
            rest = rest[len("bytes: "):].lstrip()
        if split(rest) != ("note", "events were lost"):
            yield (*key, m["pid"], *split(rest)), m["comm"].strip()


def stacks_of(files, names):
    """The stacks in files, in trace-cmd's order: it prints their frames by a plugin, which it may use for these alone."""
    inputs = [word for path in files for word in ("-i", path)]
    lines = run("trace-cmd", "report", "-t", "-F", "kernel_stack", *inputs)
    if len(files) == 1:
        lines = [f"{files[0].name}:{line}" if OF_TASK.match(line) else line for line in lines]
    return [item for item, _ in theirs(lines, names) if item[4] == "stack"]


def with_frames(items, stacks):
    """Replaces what trace-cmd prints of stacks without its plugins by what it prints with them."""
    left = collections.defaultdict(collections.deque)
    for stack in stacks:
        left[stack[:4]].append(stack)
    for item, comm in items:
        yield (left[item[:4]].popleft() if item[4] == "stack" and left[item[:4]] else item), comm


def in_order(items):
    """Sorts items of the same ns, because their order depends on the order of files, not on the trace."""
    return sorted(items, key=lambda item: (float(item[0][0].split(".")[0]), item[0]))


def same(a, b):
    """Whether two texts are equal; of bytes, one may be a prefix of the other."""
    return a == b or (a[:5] == b[:5] and len(b[5]) >= 1535 and a[5].startswith(b[5]))


def compare(report, found):
    """Compares losses and events in order, and tasks' names (a trace.dat has each task's last); returns complaints."""
    wrong, names, one_name = [], {}, 0
    times = [item[0][0] for item in found]
    if times != sorted(times, key=lambda t: [int(part) for part in t.split(".")]):
        wrong.append("trace-cmd's times decrease")
    report, found = in_order(report), in_order(found)
    if len(report) != len(found):
        wrong.append(f"{len(report)} lines in the report, {len(found)} of trace-cmd")
    for (a, comm), (b, their_comm) in zip(report, found):
        if not same(b, a):
            wrong.append(f"{a}\n  trace-cmd: {b}")
        elif comm is not None:
            names.setdefault(a[1:2] + a[3:4], set()).add((comm, their_comm))
    for task, pairs in names.items():
        if len({b for a, b in pairs}) != 1:
            wrong.append(f"{task} has several names: {pairs}")
        one_name += any(a == b for a, b in pairs)
    if 2 * one_name < len(names):
        wrong.append(f"only {one_name} of {len(names)} tasks have the name that they had")
    return wrong


def read_options(path):
    """A file's options for its identity, its guests, and the shift of its times."""
    options = {"guests": {}, "shift": []}
    lines = run("trace-cmd", "dump", "--options", "-i", path)
    for at, line in enumerate(lines):
        option = re.match(r"\s*\[Option (\w+),", line)
        rows = lines[at + 1:]
        if not option:
            continue
        if option[1] == "TRACEID":
            options["id"] = int(rows[0], 16)
        elif option[1] == "GUEST":
            nr = int(rows[2].split()[0])
            cpus = [list(map(int, row.split("[")[0].split())) for row in rows[3:3 + nr]]
            options["guests"][int(rows[1].split()[0], 16)] = rows[0].rpartition(" [Guest")[0], dict(cpus)
        elif option[1] == "TimeShift":
            options["peer"] = int(rows[0].split()[0], 16)
            shifts = (re.match(r"\s*(-?\d+) (\d+) (\d+) (\d+)\[", row) for row in rows)
            options["shift"] = [m.groups() for m in shifts if m]
            options["shift_cpus"] = int(rows[2].split()[0], 16)
    return options


def check_options(host, guests):
    """Checks the options by which readers match a host with its guests; returns complaints."""
    wrong = []
    h = read_options(host)
    for stream, path in guests.items():
        g = read_options(path)
        if not g["id"] or g["id"] == h["id"] or g.get("peer") != h["id"]:
            wrong.append(f"{stream}: trace ids {g['id']:x}, peer {g.get('peer', 0):x}, host {h['id']:x}")
        if len(g["shift"]) != 2 * g["shift_cpus"] or any(s[:3] != ("0", "1", "0") for s in g["shift"]):
            wrong.append(f"{stream}: not two samples with zero shift per CPU: {g['shift']}")
        if len({s[3] for s in g["shift"]}) != 2:
            wrong.append(f"{stream}: samples with equal times: {g['shift']}")
    return wrong, h


def check_kvm(host, guests, h):
    """Checks the requirements of KernelShark's plot of a vCPU above its host thread; returns complaints."""
    wrong = []
    events = run("trace-cmd", "report", "-N", "-t", "-F", "kvm_entry,kvm_exit", "-i", host)
    ran = {m[1] for m in (re.search(r"-(\d+) +\[\d+\] .*: kvm_entry:", line) for line in events) if m}
    left = {m[1] for m in (re.search(r"-(\d+) +\[\d+\] .*: kvm_exit:", line) for line in events) if m}
    for stream, path in guests.items():
        name, threads = h["guests"].get(read_options(path)["id"], (None, {}))
        if name != stream or sorted(threads) != list(range(len(threads))) or not threads:
            wrong.append(f"{stream}: its host's file has {name} and {threads}")
        idle = [tid for tid in map(str, threads.values()) if tid not in ran or tid not in left]
        if idle:
            wrong.append(f"{stream}: threads {idle} never ran or left it")
    formats = run("trace-cmd", "dump", "--events", "-i", host)
    systems = run("trace-cmd", "dump", "--systems", "-i", host)
    wrong += [f"no {line}" for line in ("name: kvm_entry", "name: kvm_exit", "name: sched_switch") if line not in formats]
    if not any(re.match(r"\s*kvm\b", line) for line in systems):
        wrong.append(f"systems: {systems}")
    ids = [int(m[1]) for m in (re.match(r"ID: (\d+)", line) for line in formats) if m]
    if not ids or max(ids) > MOST_ID or len(ids) != len(set(ids)):
        wrong.append(f"ids: {sorted(ids)}")
    return wrong


def check(agent, capture, form, folder, kvm=False, select=()):
    """Checks one export of a capture; returns complaints."""
    out = pathlib.Path(folder) / "out.dat"
    run(agent, "export", "--to", form, capture, "-o", out, *select)
    report = list(ours(run(agent, "report", "--no-header", capture, *select)))
    streams = {item[0][1] for item in report} - {"host"}
    guests = {stream: out.with_name(f"out-{re.sub('[^-_.A-Za-z0-9]', '_', stream)}.dat") for stream in sorted(streams)}
    files = [out, *guests.values()]
    lines = run("trace-cmd", "report", "-N", "-t", *(word for path in files for word in ("-i", path)))
    names = {out.name: "host", **{path.name: stream for stream, path in guests.items()}}
    if len(files) == 1:
        lines = [f"{out.name}:{line}" for line in lines]
    stacks = stacks_of(files, names) if any(item[4] == "stack" for item, _ in report) else []
    wrong = compare(report, list(with_frames(theirs(lines, names), stacks)))
    found, host_options = check_options(out, guests)
    wrong += found
    if kvm:
        wrong += check_kvm(out, guests, host_options)
    return [f"{form}: {line}" for line in wrong]


def main():
    """Checks the exports of captures in all forms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kvm", action="store_true", help="captures are of guests on KVM, with KVM's host events")
    parser.add_argument("--select", default="", help="options of report and export, as one word")
    parser.add_argument("agent")
    parser.add_argument("captures", nargs="+")
    args = parser.parse_args()
    wrong = []
    for capture in args.captures:
        for form in FORMS:
            with tempfile.TemporaryDirectory() as folder:
                wrong += check(args.agent, capture, form, folder, args.kvm, args.select.split())
    for line in wrong[:SHOWN]:
        print(line)
    sys.exit(f"{len(wrong)} complaints" if wrong else 0)


if __name__ == "__main__":
    try:
        main()
    except Unreadable as why:
        sys.exit(str(why))

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares babeltrace2's output of a CTF export with the report: compare_ctf.py REPORT.json FOLDER

The order is compared too.
"""

import json
import os
import re
import subprocess
import sys

NO_BOUND = 2**63 - 1
MOST_ELEMENTS = 128  # elements of an array in the report
MOST_RAW = 512  # bytes in the report
LINE = re.compile(r"\[(\d+)\.(\d{9})\] (.*?) (\S+): (?=\{)")
LOSS = re.compile(
    r"WARNING: Tracer discarded (\d+) events? between \[\S+\] and \[(\d+)\.(\d{9})\] in trace "
    r'.*? within stream ".*/([^/"]+)/([^/"]+)" \(stream class ID: \d+, stream ID: \d+\)'
)


class Values:
    """Parses babeltrace2's output after an event's name: structures of names and values."""

    WORD = re.compile(r"\w+ = ")
    INDEX = re.compile(r"\[\d+\] = ")
    NUMBER = re.compile(r"-?0x[0-9A-Fa-f]+|-?\d+")
    STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')

    def __init__(self, text):
        self.text, self.at = text, 0

    def take(self, what):
        """Consumes and returns text that matches here, or returns None."""
        match = what.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def skip(self, what):
        """Consumes a text; returns whether it was here."""
        found = self.text.startswith(what, self.at)
        self.at += len(what) if found else 0
        return found

    def value(self):
        """Parses a structure, an array, a string or a number."""
        if self.skip("{ "):
            return self.members("}")
        if self.skip("["):
            return list(self.members("]").values())
        string = self.take(self.STRING)
        if string:
            return re.sub(r"\\(.)", r"\1", string[1])
        number = self.take(self.NUMBER)
        assert number, self.text[self.at :]
        return int(number[0], 0)

    def members(self, end):
        """Parses names or indexes, and values, up to an end."""
        found = {}
        while not self.skip(end):
            name = self.take(self.WORD) or self.take(self.INDEX)
            if not name:
                assert self.skip(" "), self.text[self.at :]
                continue
            assert name[0] not in found, self.text
            found[name[0][:-3]] = self.value()
            self.skip(", ") or self.skip(" ")
        return found

    def all(self):
        """Parses the structures of a line."""
        found = []
        while self.at < len(self.text):
            found.append(self.value())
            self.skip(", ")
        return found


def sanitized(value):
    """A string of the report with question marks for the characters that CTF gets as such."""
    if not isinstance(value, str):
        return value
    return re.sub("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffd]", "?", value)


def expected_fields(event):
    """An event's fields by their names in CTF."""
    found = {}
    for name, value in event["fields"].items():
        name = re.sub(r"[^A-Za-z0-9_]", "_", name) or "field"
        if event["system"] == "sched" and re.fullmatch(r"(.*_)?pid", name):
            name = name[:-3] + "tid"
        found[name] = [sanitized(one) for one in value] if isinstance(value, list) else sanitized(value)
    return found


def expected(report):
    """The report's events, and its losses in the order of streams."""
    events, losses, hosts = [], [], {}
    for line in report:
        one = json.loads(line)
        if one["type"] == "header":
            host = one["host"]
        elif one["type"] == "stream":
            hosts[one["stream"]] = host if one["kind"] == "host" else one["stream"]
        elif one["type"] == "note":
            events.append((one["ns"], hosts[one["stream"]], "note", sanitized(one["text"])))
        elif one["type"] == "event":
            bound = NO_BOUND if one["bound_ns"] is None else one["bound_ns"]
            name = one.get("subevent", one["event"])
            if one["system"] == "raw_syscalls" and name == "sys_exit":
                name = "exit_syscall"
            events.append(
                (one["ns"], hosts[one["stream"]], name, one["cpu"], one.get("pid", -1),
                 one.get("comm", ""), bound, expected_fields(one))
            )
        elif one["type"] == "lost":
            ring = f"{one.get('buffer', 'trace')}_{one['cpu']}"
            losses.append((one["stream"], ring, one["ns"], one["lost"] or 1))
    return events, sorted(losses)


def shown_fields(fields):
    """An event's fields as in the report: shortened, and without the lengths that CTF adds."""
    found = {}
    for name, value in fields.items():
        length = re.fullmatch(r"__(\w+)_len", name)
        if length and isinstance(fields.get(length[1]), list):
            assert value == len(fields[length[1]]), fields
            continue
        if isinstance(value, list):
            value = value[:MOST_ELEMENTS]
        found[name] = value
    raw = found.get("raw")
    if isinstance(raw, str) and len(raw) > 3 * MOST_RAW:
        found["raw"] = raw[: 3 * MOST_RAW - 1] + f" ... ({(len(raw) + 1) // 3} bytes)"
    return found


def origin(folder):
    """The offset of the clocks, which is added to all times."""
    found = set()
    for trace in os.listdir(folder):
        with open(f"{folder}/{trace}/metadata", encoding="ascii") as file:
            match = re.search(r"\toffset_s = (-?\d+);\n\toffset = (\d+);", file.read())
            found.add(int(match[1]) * 10**9 + int(match[2]) if match else 0)
    assert len(found) == 1, found
    return found.pop()


def shown(folder):
    """The events and losses in babeltrace2's output."""
    zero = origin(folder)
    done = subprocess.run(
        ["babeltrace2", "--clock-seconds", "--no-delta", folder],
        capture_output=True, encoding="utf-8", errors="surrogateescape", check=False,
    )
    if done.returncode:
        sys.exit(f"babeltrace2: {done.returncode}\n{done.stderr[-2000:]}")
    events = []
    for line in done.stdout.splitlines():
        match = LINE.match(line)
        values = Values(line[match.end() :]).all()
        if match[4] == "tracebraid:vcpu_state":
            continue  # not recorded, and not in the report; see compare_states.py
        head = (int(match[1] + match[2]) - zero, match[3], match[4])
        if len(values) == 1:
            events.append((*head, values[0]["text"]))
            continue
        packet, context, fields = values if len(values) == 3 else (*values, {})
        events.append(
            (*head, packet["cpu_id"], context["tid"], context["procname"], context["bound_ns"],
             shown_fields(fields))
        )
    losses = []
    for line in done.stderr.splitlines():
        match = LOSS.match(line)
        if not match:
            sys.exit(f"babeltrace2 says: {line}")
        losses.append((match[4], match[5], int(match[2] + match[3]) - zero, int(match[1])))
    return events, sorted(losses)


def main():
    """Prints the first difference."""
    with open(sys.argv[1], encoding="utf-8") as report:
        want_events, want_losses = expected(report)
    events, losses = shown(sys.argv[2])
    for number, (want, have) in enumerate(zip(want_events, events)):
        if want != have:
            sys.exit(f"event {number}:\n  report: {want}\n  CTF:    {have}")
    if len(want_events) != len(events):
        sys.exit(f"{len(want_events)} events in the report, {len(events)} in CTF")
    if want_losses != losses:
        sys.exit(f"losses:\n  report: {want_losses}\n  CTF:    {losses}")
    print(f"{len(events)} events, {sum(one[3] for one in losses)} lost")


main()

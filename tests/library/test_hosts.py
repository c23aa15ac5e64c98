#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Analyses of captures of two hosts: the figures of each host are those of its own capture. If its clock is the
timeline they are equal; else counts are, and durations are up to the other clock's rate and rounding."""

import collections
import json
import pathlib
import re
import subprocess
import tempfile

from kit import AGENT, TOP, equal

HOSTS = ("alpha", "beta")
WORDS = (("window", "migrate", "quotas", "first"), ("window", "losses", "quotas", "reset", "second"))
EVENTS = "6000"
PPM = 100  # by which the hosts' clocks may differ: the capture's 40 and their bound
ASKED = [("states",), ("states", "--by", "task"), ("steal",), ("steal", "--by", "task"), ("steal", "--by", "guest"), ("exits",),
         ("exits", "--by", "task"), ("exits", "--by", "syscall"), ("stalls",), ("wake",), ("wake", "--by", "task"), ("summary",)]
OF_ALL = ("share_ppm",)  # of the time of all hosts
OF_TIMELINE = ("bound_ns",)  # of a guest's clock: includes that of its host
PLACES = ("at_ns", "worst_at_ns", "worst_stall_at_ns", "worst_wakeup_at_ns")  # on the timeline
SLOTS = ("p50_ns", "p99_ns")  # lower edges


def ask(question, *captures):
    """The tables that an analysis prints, by name."""
    analysis, *options = question
    done = subprocess.run([AGENT, "analyze", analysis, "--json", "--top", "10000", *options, *captures], stdout=subprocess.PIPE,
                          text=True, check=True)
    return {key: rows for key, rows in json.loads(done.stdout).items() if key != "missing" and isinstance(rows, list)}


def of_host(tables, host):
    """Rows of a host's guests, with the names that its own capture has for them."""
    found = {}
    for key, rows in tables.items():
        mine = [row for row in rows if f"@{host}" in str(row.get("vcpu", row.get("victim", row.get("guest", ""))))]
        text = json.dumps(mine).replace(f"@{host}", "")
        for other in HOSTS:
            equal(f"@{other}" in text, False, f"{key}: a row of {host} names {other}")
        found[key] = json.loads(text)
    return found


def comparable(row, converted):
    """What is to be equal, and durations."""
    left_out = (*OF_ALL, *((*PLACES, *OF_TIMELINE, *SLOTS) if converted else ()))
    exact, close = {}, {}
    for key, value in row.items():
        if key in left_out:
            continue
        number = isinstance(value, (int, float)) and (key.endswith("_ns") or key.endswith("_ppm") or key == "ns")
        if key == "cause" and converted:
            value = re.sub(r"[\d.]+ (ns|µs|ms|s)\b", "N", value)
        if isinstance(value, list):  # of culprits
            value = sorted(({"culprit": one["culprit"]} if converted else one for one in value), key=str)
        (close if number and converted else exact)[key] = value
    return exact, close


def compare(question, merged, alone, converted):
    """Rows of one host in both."""
    for key, rows in alone.items():
        mine = [comparable(row, converted) for row in merged[key]]
        wanted = [comparable(row, converted) for row in rows]
        what = f"{question} {key}, {'converted' if converted else 'as it is'}"
        equal(len(mine), len(wanted), f"{what}: rows")
        for one in (mine, wanted):
            one.sort(key=lambda pair: (json.dumps(pair[0], sort_keys=True),
                                       *(pair[1].get(name) or 0 for name in sorted(pair[1]))))
        for got, want in zip(mine, wanted):
            equal(got[0], want[0], what)
            for name, value in want[1].items():
                spans = 2 * int(EVENTS)  # that it may be the sum of: each end is rounded
                most = spans if name.endswith("_ns") else 2
                if value is not None:
                    equal(abs(got[1][name] - value) <= most + abs(value) * PPM / 1e6, True,
                          f"{what}: {want[0]}: {name} {got[1][name]} is near {value}")


def export(folder, captures):
    """trace-cmd prints each event of all hosts, with the time that it has on the timeline."""
    subprocess.run([AGENT, "export", "--to", "trace.dat", *captures, "-o", f"{folder}/out.dat"], check=True)
    names = sorted(path.name for path in pathlib.Path(folder).glob("out-*.dat"))
    equal({f"out-{host}.dat" for host in HOSTS} <= set(names), True, f"a file of each host: {names}")
    shown = subprocess.run(["trace-cmd", "report", "-t", *(word for name in names for word in ("-i", name))],
                           cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = collections.Counter()
    for name, cpu, seconds, ns, event in re.findall(
            r"(?m)^ *(out-\S+)\.dat: .*?-\d+ +\[(\d+)\] +(?:[^\d ]\S* +)?(\d+)\.(\d{9}): (\w+):", shown):
        host = re.sub(r"^out-(?:.*_)?(\w+?)(?:\+\d)?$", r"\1", name)
        if event != "note":
            found[host, int(cpu), int(seconds + ns), event] += 1
    done = subprocess.run([AGENT, "sql", "--csv", *captures, "SELECT host, cpu, ns, name FROM events"],
                          stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[1:]
    wanted = collections.Counter((host, int(cpu), int(ns), name) for host, cpu, ns, name in (line.split(",") for line in done))
    equal(found - wanted, collections.Counter(), "events that only trace.dat has")
    equal(wanted - found, collections.Counter(), "events that trace.dat lacks")
    return sum(found.values())


def hosts_of_ctf(folder, captures):
    """The trace of each host has its name."""
    subprocess.run([AGENT, "export", "--to", "ctf", *captures, "-o", f"{folder}/ctf"], check=True)
    texts = [path.read_text(errors="replace") for path in pathlib.Path(folder, "ctf").glob("**/metadata")]
    names = [re.search(r'hostname = "(.*)";(?s:.*)stream_name = "host(?:@|_)(.*)"', text) for text in texts]
    equal(sorted(name.groups() for name in names if name), [(host, host) for host in HOSTS], "names of hosts in CTF")


def main():
    """Makes a capture of each host, and asks for one, and for both in either order."""
    with tempfile.TemporaryDirectory() as folder:
        captures = [f"{folder}/{host}.braid" for host in HOSTS]
        for capture, words in zip(captures, WORDS):
            subprocess.run([TOP / "build/make_big_capture", capture, EVENTS, *words], stdout=subprocess.DEVNULL, check=True)
        rows = 0
        for question in ASKED:
            alone = [ask(question, capture) for capture in captures]
            for first, turned in ((0, captures), (1, captures[::-1])):
                merged = ask(question, *turned)
                for k, host in enumerate(HOSTS):
                    compare(question, of_host(merged, host), alone[k], k != first)
                rows += sum(len(rows) for rows in merged.values())
                equal(sum(len(rows) for rows in merged.values()),
                      sum(len(rows) for tables in alone for rows in tables.values()), f"{question}: rows of both hosts")
        hosts_of_ctf(folder, captures)
        shown = export(folder, captures)
        equal(export(folder, captures[::-1]), shown, "events of both hosts in trace.dat, in either order")
    print(f"ok   {shown} events of two hosts in trace.dat, by trace-cmd")
    print(f"ok   {len(ASKED)} questions about two hosts, in either order: {rows} rows are those of each host's own capture")


if __name__ == "__main__":
    main()

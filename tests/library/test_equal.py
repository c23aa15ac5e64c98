#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""One capture, by all that reads it: the number of events, and time, CPU and next_pid of each sched_switch, are the same
in Python, columns, C, SQL, text, JSON, CTF (by babeltrace2), trace.dat (by trace-cmd), Perfetto (by Google's protobuf),
and in all of these of the packed capture: test_equal.py CAPTURE PRINT, docs/examples/print.c"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from kit import AGENT, TOP, equal

sys.path.insert(0, str(TOP / "tests/unit"))

import tracebraid
import compare_perfetto

FIELD = re.compile(r"next_pid=(\d+)")


def lines_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=True).stdout.splitlines()


def export(form, capture, folder):
    out = pathlib.Path(folder, f"out.{form}")
    subprocess.run([AGENT, "export", "--to", form, "-o", out, capture], stderr=subprocess.DEVNULL, check=True)
    return out


# Each returns the number of events, and (ns, stream, CPU, next_pid) of each sched_switch.

def by_json(capture, _):
    events = [one for one in map(json.loads, lines_of(AGENT, "report", "--json", capture)) if one["type"] == "event"]
    return len(events), [(one["ns"], one["stream"], one["cpu"], one["fields"]["next_pid"]) for one in events
                         if one["event"] == "sched_switch"]


def by_python(capture, _):
    with tracebraid.open(capture) as trace:
        events = [(event.ns, event.stream.name, event.cpu, event["next_pid"] if event.name == "sched_switch" else None)
                  for event in trace.events()]
    return len(events), [one for one in events if one[3] is not None]


def by_columns(capture, _):
    with tracebraid.open(capture) as trace:
        names = [stream.name for stream in trace.streams]
        count = len(trace.columns(["ns"])["ns"])
        found = trace.columns(["ns", "stream", "cpu", "next_pid"], event="sched_switch")
    return count, [(ns, names[stream], cpu, pid) for ns, stream, cpu, pid in zip(*(c.tolist() for c in found.values()))]


def by_sql(capture, _):
    with tracebraid.Database(capture) as database:
        (count,), = database.execute("SELECT count(*) FROM events")
        return count, list(database.execute("SELECT ns, stream, cpu, next_pid FROM sched_switch"))


def by_text(capture, _):
    pattern = re.compile(r"(\S+): .* \[(\d+)\] +(\d+)\.(\d{9}): (\S+): (.*)")
    events = [pattern.fullmatch(line) for line in lines_of(AGENT, "report", "--no-header", capture)]
    events = [match for match in events if match]
    return len(events), [(int(match[3] + match[4]), match[1], int(match[2]), int(FIELD.search(match[6])[1]))
                         for match in events if match[5] == "sched_switch"]


def by_c(capture, _):
    pattern = re.compile(r"(\d+) (\S+) (\d+) .*?-\d+ (\S+): (.*)")
    events = [match for match in map(pattern.fullmatch, lines_of(sys.argv[2], capture)) if match]
    switches = [match for match in events if match[4] == "sched_switch"]
    return len(events), [(int(match[1]), match[2], int(match[3]), int(FIELD.search(match[5])[1])) for match in switches]


def by_ctf(capture, folder):
    pattern = re.compile(r"\[(\d+)\] \(\S+\) (\S+) (\S+): \{ cpu_id = (\d+) \}(.*)")
    hosts = {"host"} if tracebraid.sql(capture, "SELECT 1 FROM streams WHERE stream = 'host'") else set()
    guests = {name for name, in tracebraid.sql(capture, "SELECT stream FROM streams WHERE stream != 'host'")}
    out = export("ctf", capture, folder)
    events = [pattern.fullmatch(line) for line in lines_of("babeltrace2", "--clock-cycles", out)]
    events = [match for match in events if match and match[3] not in ("lost", "note")]
    # The host's stream has the host's name.
    return len(events), [(int(match[1]), match[2] if match[2] in guests or not hosts else "host", int(match[4]),
                          int(re.search(r"next_tid = (\d+)", match[5])[1]))
                         for match in events if match[3] == "sched_switch"]


def by_trace_dat(capture, folder):
    # trace-cmd 3.3 prints flags after the CPU: [000]-0x25
    pattern = re.compile(r".*? \[(\d+)\]\S*\s+(\d+)\.(\d{9}): (\S+): +(.*)")
    out = export("trace.dat", capture, folder)
    count, switches = 0, []
    for file in pathlib.Path(folder).glob("out.trace*.dat"):
        stream = "host" if file == out else file.stem.partition("-")[2]
        for match in filter(None, map(pattern.fullmatch, lines_of("trace-cmd", "report", "-t", "-R", file))):
            count += match[4] not in ("lost", "note")
            if match[4] == "sched_switch":
                switches.append((int(match[2] + match[3]), stream, int(match[1]), int(FIELD.search(match[5])[1])))
    return count, switches


def by_perfetto(capture, folder):
    trace = compare_perfetto.Trace(export("perfetto", capture, folder))
    switches = [(event.ns, trace.names[machine], cpu, event.fields["next_pid"])
                for (machine, cpu), events in trace.events.items() for event in events if event.name == "sched_switch"]
    return sum(map(len, trace.events.values())), switches


def check_host_alone(capture, folder):
    """A trace.dat of the host's events is a trace by itself."""
    def events_of(path, **select):
        with tracebraid.open(path) as trace:
            return [(event.ns, event.cpu, event.pid, event.name, event.text) for event in trace.events(**select)
                    if event.name != "note"]
    out = pathlib.Path(folder, "host.dat")
    subprocess.run([AGENT, "export", "--to", "trace.dat", "--stream=host", "-o", out, capture], stderr=subprocess.DEVNULL,
                   check=True)
    got, wanted = events_of(str(out)), events_of(capture, stream="host")
    equal(len(got), len(wanted), "events of the host in a trace.dat alone")
    for pair in zip(sorted(got), sorted(wanted)):
        equal(*pair, "an event of the host in a trace.dat alone")
    return len(got)


def main():
    capture = str(pathlib.Path(sys.argv[1]).resolve())
    readers = (by_json, by_python, by_columns, by_sql, by_text, by_c, by_ctf, by_trace_dat, by_perfetto)
    with tempfile.TemporaryDirectory() as folder:
        packed = f"{folder}/packed.braid"
        subprocess.run([AGENT, "pack", "-o", packed, capture], stderr=subprocess.DEVNULL, check=True)
        count, switches = by_json(capture, None)
        switches.sort()
        if not switches:
            sys.exit("FAIL the capture has no sched_switch")
        for one in (capture, packed):
            outputs = tempfile.mkdtemp(dir=folder)
            for reader in readers:
                got_count, got = reader(one, outputs)
                if got_count != count:
                    sys.exit(f"FAIL {reader.__name__}: {got_count} events, not {count}")
                differ = [pair for pair in zip(sorted(got), switches) if pair[0] != pair[1]]
                if differ or len(got) != len(switches):
                    sys.exit(f"FAIL {reader.__name__}: {len(got)} switches, not {len(switches)}; {differ[:1]}")
        host = check_host_alone(capture, folder) if any(name == "host" for _, name, *_ in switches) else 0
    print(f"ok   {len(readers)} ways to read a capture, and a packed one, give the same {count} events: times and a field "
          f"of {len(switches)}; a trace.dat of the host alone has its {host}")


if __name__ == "__main__":
    main()

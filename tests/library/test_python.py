#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares what Python sees of a capture with what the program prints, and runs the recipe of docs/python.md:
test_python.py CAPTURE"""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from kit import AGENT, TOP, equal
import numpy
import tracebraid


def printed(*arguments):
    """The objects that the program prints, a line each."""
    text = subprocess.run([AGENT, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def refused(number, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except tracebraid.Error as error:
        equal(error.errno, number, str(error))
        return
    sys.exit(f"FAIL {arguments} {options} was accepted")


def check_items(capture):
    lines = [one for one in printed("report", "--json", capture) if one["type"] in ("event", "lost", "note")]
    with tracebraid.open(capture) as trace:
        count = 0
        for line, item in zip(lines, trace.items(), strict=True):
            count += 1
            equal((item.ns, item.stream.name, item.cpu), (line["ns"], line["stream"], line.get("cpu")), "place")
            if line["type"] == "event":
                equal((item.bound_ns, item.seq, item.pid, item.comm, item.system, item.type.event, item.text),
                      tuple(line[word] for word in ("bound_ns", "seq", "pid", "comm", "system", "event", "text")),
                      "event")
                equal(item.fields, line["fields"], "fields")
            elif line["type"] == "lost":
                equal(item.lost, line["lost"], "loss")
            else:
                equal(item.words, line["text"], "note")
    print(f"ok   Python: {count} items are those of report --json")


def check_columns(capture):
    names = ["ns", "bound_ns", "stream", "cpu", "pid", "seq", "comm", "next_pid", "next_comm"]
    with tracebraid.open(capture) as trace:
        columns = trace.columns(names)
        words = columns.words
        missing = tracebraid.MISSING
        for row, event in enumerate(trace.events()):
            wanted = {"ns": event.ns, "bound_ns": event.bound_ns, "stream": event.stream.number, "cpu": event.cpu,
                      "pid": event.pid, "seq": event.seq, "next_pid": event.fields.get("next_pid", missing)}
            equal({name: int(columns[name][row]) for name in wanted}, wanted, f"row {row}")
            equal(words[columns["comm"][row]], event.comm, "comm")
            next_comm = columns["next_comm"][row]
            equal(None if next_comm == missing else words[next_comm], event.fields.get("next_comm"), "next_comm")
        equal(row + 1, len(columns["ns"]), "rows")
        part = trace.columns(["ns"], event="sched_switch", stream="guest1")
        all_of_it = columns["ns"][(columns["stream"] == 0) & (columns["next_pid"] != missing)]
        equal(bool(numpy.array_equal(part["ns"], all_of_it)), True, "selected rows")
    print(f"ok   Python: {row + 1} rows of {len(names)} columns are those of the events")


def check_analyses(capture):
    with tracebraid.open(capture) as trace:
        for name in ("summary", "steal", "states"):
            wanted = json.loads(subprocess.run([AGENT, "analyze", name, "--json", capture], stdout=subprocess.PIPE,
                                               check=True).stdout)
            equal(trace.analyze(name), wanted, name)
        sums, last = {}, {}
        for span in trace.states():
            key = span["guest"], span["vcpu"]
            equal(span["from_ns"], last.get(key, span["from_ns"]), "start of a span")
            last[key] = span["to_ns"]
            sums[span["state"]] = sums.get(span["state"], 0) + span["to_ns"] - span["from_ns"]
        equal(sum(sums.values()), trace.analyze("summary")["observed_ns"], "sum of all states")
    print("ok   Python: analyses and states")


def check_export(capture):
    """An export returns the numbers of report's lines, and reports its progress."""
    lines = [one for one in printed("report", "--json", capture) if one["type"] in ("event", "lost", "note")]
    events = sum(line["type"] == "event" for line in lines)
    losses = [line["lost"] for line in lines if line["type"] == "lost"]
    counted = sum(lost for lost in losses if lost is not None)
    with tempfile.TemporaryDirectory() as folder:
        large = f"{folder}/large.braid"
        subprocess.run([TOP / "build/make_big_capture", large, "200000"], stdout=subprocess.DEVNULL, check=True)
        with tracebraid.open(capture) as trace:
            totals = trace.export("perfetto", f"{folder}/small.perfetto")
            equal(totals, (events, len(lines), counted, None in losses), "totals")
            equal(trace.export("perfetto", f"{folder}/part.perfetto", event="sched_switch", lines=10)[:2], (10, 10), "part")
        with tracebraid.open(large) as trace:
            calls = []
            trace.export("perfetto", f"{folder}/large.perfetto", progress=lambda *call: calls.append(call))
            equal(len(calls) > 1, True, "calls")
            for (what, done, total), later in zip(calls, calls[1:]):
                equal((what, done <= later[1] <= total), ("merging", True), "progress")
            number = len(calls)
            trace.analyze("summary", progress=lambda *call: calls.append(call))
            equal(len(calls) > number, True, "calls of an analysis")
            equal(all(done <= total for _, done, total in calls), True, "progress of a second pass")

            def interrupt(*_):
                raise KeyboardInterrupt

            try:
                trace.export("perfetto", f"{folder}/interrupted.perfetto", progress=interrupt)
                sys.exit("FAIL an export went on after its progress function had raised an exception")
            except KeyboardInterrupt:
                equal(os.path.exists(f"{folder}/interrupted.perfetto"), False, "output of an interrupted export")
            refused(16, trace.export, "perfetto", f"{folder}/closed.perfetto", progress=lambda *_: trace.close())
            refused(16, trace.analyze, "summary", progress=lambda *_: trace.close())
            number = len(calls)
            trace.export("perfetto", f"{folder}/large.perfetto")
            equal(len(calls), number, "calls of an export without progress")
    print(f"ok   Python: an export of {events} events, and its progress")


def check_errors(capture):
    refused(2, tracebraid.open, "/nonexistent")
    with tracebraid.open(capture) as trace:
        refused(2, lambda: next(trace.events(stream="nobody")))
        refused(22, lambda: next(trace.events(nothing=1)))
        refused(22, trace.analyze, "nothing")
        iteration = trace.items()
        first = next(iteration)
        refused(16, lambda: next(trace.items()))
        next(iteration)
        refused(22, lambda: first.text)
        iteration.close()
        next(trace.items())
    refused(9, lambda: next(trace.items()))
    print("ok   Python: errors")


def check_closed(capture):
    """Nothing of a closed trace is used."""
    trace = tracebraid.open(capture)
    events = trace.events()
    event = next(events)
    trace.close()
    refused(9, lambda: event.text)
    refused(9, lambda: event.vcpu)
    refused(9, next, events)
    refused(9, trace.columns, ["ns"])
    trace.close()
    with tracebraid.open(capture) as trace:
        equal(trace.columns(["words", "ns"], lines=3)["words"].tolist(), [tracebraid.MISSING] * 3, "a column of that name")
    database = tracebraid.Database(capture)
    rows = database.execute("SELECT ns FROM events")
    next(rows)
    database.close()
    refused(9, next, rows)
    print("ok   Python: what is closed fails")


def check_clocks(capture):
    """Epochs are those of `tracebraid clock`."""
    text = subprocess.run([AGENT, "clock", "--json", capture], stdout=subprocess.PIPE, text=True, check=True).stdout
    wanted = {one["stream"]: [(epoch["vcpu"], epoch["number"], epoch["cause"]) for epoch in one["epochs"]]
              for one in json.loads(text)["streams"]}
    with tracebraid.open(capture) as trace:
        found = {stream.name: [(epoch.vcpu, epoch.number, epoch.cause) for epoch in stream.epochs]
                 for stream in trace.streams if not stream.is_host}
    equal(found, wanted, "epochs")
    print(f"ok   Python: epochs of {len(found)} clocks")


def check_accounts(capture):
    """Accounts of filters and probes are those of `tracebraid stat` and of SQL."""
    names = {"filters": ("system", "event", "offered", "filtered", "written", "lost", "unjudged"),
             "probes": ("system", "event", "missed")}
    text = subprocess.run([AGENT, "stat", "--json", capture], stdout=subprocess.PIPE, text=True, check=True).stdout
    with tracebraid.open(capture) as trace, tracebraid.Database(capture) as database:
        for table, columns in names.items():
            wanted = [tuple(row[name] for name in columns) for row in json.loads(text)[table]]
            rows = [row for stream in trace.streams for row in getattr(stream, table)]
            found = [tuple(getattr(row, name) for name in columns) for row in rows]
            equal(found, wanted, f"{table} of Python and stat")
            rows = [tuple(row) for row in database.execute(f"SELECT {', '.join(columns)} FROM {table}")]
            equal(rows, wanted, f"{table} of SQL and stat")
            equal(len(wanted) > 0, True, f"whether the capture has {table}")
    print("ok   Python: accounts of filters and probes")


def check_recipe(capture):
    """Runs the code blocks of docs/python.md, one after the other in one namespace."""
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", (TOP / "docs/python.md").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.symlink(capture, "demo.braid")
        os.environ["MPLBACKEND"] = "Agg"
        names, shown = {}, io.StringIO()
        with contextlib.redirect_stdout(shown):
            for block in blocks:
                exec(compile(block, "docs/python.md", "exec"), names)  # pylint: disable=exec-used # that is the test
        equal("switches in" in shown.getvalue(), True, "the recipe's output")
        equal(pathlib.Path("switches.png").stat().st_size > 1000, True, "the recipe's plot")
    print(f"ok   Python: {len(blocks)} blocks of docs/python.md")


def main():
    capture = str(pathlib.Path(sys.argv[1]).resolve())
    check_items(capture)
    check_columns(capture)
    check_export(capture)
    check_analyses(capture)
    check_closed(capture)
    check_errors(capture)
    check_clocks(capture)
    check_accounts(capture)
    check_recipe(capture)


if __name__ == "__main__":
    main()

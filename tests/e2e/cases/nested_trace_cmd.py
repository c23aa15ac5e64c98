# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases on real KVM of guests that trace-cmd records: its files are read as it reads them."""

import collections
import json
import shlex

import trace_cmd
from harness import case
from nested import judge
from nested.kvm_rig import (CIDS, NAMES, SHOWN, VSOCK_GUEST, Rig, analyze_nested_json, judge_events,
                            read_report)
from nested.machine import load_modules

TRACED = ["-e", "kvm:kvm_entry", "-e", "kvm:kvm_exit", "-e", "sched:sched_switch"]
TRACED_INSIDE = ["-e", "sched:sched_switch", "-e", "sched:sched_wakeup"]
FORMS = ("json", "perfetto", "ctf", "html", "trace.dat")
LEAST_EVENTS = 20  # of each guest
BY_KVM = ("trace-cmd", 1, "KVM's offsets, the same in all samples")
BY_EXCHANGE = ("trace-cmd", None, "trace-cmd's exchange of messages, whose error it does not save")


def record_by_trace_cmd(rig):
    """Has trace-cmd record the host with its guests; returns the files, the host's first."""
    for guest in rig.guests:
        guest.run(load_modules(VSOCK_GUEST))
        settings = "LD_LIBRARY_PATH=/data LD_PRELOAD=/bin/keep_freed"
        agent = guest.bg(f"cd /tmp && exec env {settings} trace-cmd agent --debug")
        # It prints that it listens into a buffer.
        guest.run(f"until ls -l /proc/{agent.pid}/fd | grep -q socket; do usleep 50000; done")
    inside = [word for guest, cid in zip(rig.guests, CIDS)
              for word in ("-A", f"@{cid}", "--name", guest.name, *TRACED_INSIDE)]
    # With --debug it waits longer than 5 s for an answer.
    command = shlex.join(["trace-cmd", "record", "--debug", *TRACED, *inside, "sleep", "2"])
    rig.host.run(f"mkdir /tmp/set && cd /tmp/set && {command} 2>&1", timeout=240)
    files = [rig.ctx.dir / name for name in ("trace.dat", *(f"trace-{name}.dat" for name in NAMES))]
    for path in files:
        rig.host.fetch(f"/tmp/set/{path.name}", path)
    return files


def compare_reports(ctx, files):
    """Compares report's lines with those of trace-cmd; returns the latter's events."""
    report = list(trace_cmd.ours(trace_cmd.run(ctx.agent_path, "report", "--no-header", *files)))
    streams = dict(zip((path.name for path in files), (files[0].name, *NAMES)))
    inputs = [word for path in files for word in ("-i", path)]
    lines = trace_cmd.run("trace-cmd", "report", "-N", "-t", *inputs)
    found = list(trace_cmd.theirs(lines, streams))
    wrong = trace_cmd.compare(report, found)
    ctx.check(not wrong, "\n".join(wrong[:SHOWN]))
    return [item for item, _ in found if item[4] != "lost"]


def check_placed(ctx, files, threads):
    """Checks the guests' streams, and their times against those of the host's kvm events."""
    recording = read_report(ctx, files, threads, [])
    guests = [stream for stream in recording.streams if stream["kind"] == "guest"]
    ctx.equal([stream["stream"] for stream in guests], list(NAMES), "the guests")
    for stream in guests:
        found = (stream["clock"], stream["bound_ns"], stream["reason"])
        # On a busy host trace-cmd may take its second way.
        ctx.check(found in (BY_KVM, BY_EXCHANGE), f"{stream}")
        print(f"     {stream['stream']}: {stream['reason']}")
        ctx.equal([row["tid"] for row in stream["vcpus"]], threads[stream["stream"]], f"{stream}")
    wrong = [line for name in (stream["stream"] for stream in guests if stream["bound_ns"])
             for line in judge_events(recording, name, "windows", judge.check_windows)[1]]
    ctx.check(not wrong, "\n".join(wrong))


def check_sums(ctx, files, found, threads):
    """Checks that analyses and SQL count what trace-cmd printed."""
    exits = collections.Counter(item[3] for item in found if item[4] == "kvm_exit")
    rows = {row["guest"]: row for row in analyze_nested_json(ctx, files, "summary")["guests"]}
    for name in NAMES:
        of_guest = sum(exits[str(tid)] for tid in threads[name])
        ctx.equal(rows[name]["exits"], of_guest, f"exits: {rows[name]}")
        ctx.check(rows[name]["busy_ppm"] > 0 and rows[name]["worst_wakeup_ns"], f"{rows[name]}")
    ctx.equal(analyze_nested_json(ctx, files, "exits")["count"],
              sum(row["exits"] for row in rows.values()), "exits")
    ctx.check(analyze_nested_json(ctx, files, "steal")["stolen_ns"] > 0, "nothing was stolen")
    statement = "SELECT stream, count(*) AS n FROM events GROUP BY stream"
    lines = ctx.run_agent("sql", "--json", *files, statement, timeout=120).stdout.splitlines()
    ctx.equal({row["stream"]: row["n"] for row in map(json.loads, lines)},
              dict(collections.Counter(item[1] for item in found)), "events in SQL")


@case("trace-cmd-nested", usual=("6.1",), possible=("6.1", "6.12", "newest"), needs=("agent",),
      timeout=600, alone=True)
def trace_cmd_nested(ctx):
    """Files of trace-cmd's, host and guests: read as it reads them, at times that KVM proves."""
    rig = Rig(ctx, drivers=False, vsock=True)
    files = record_by_trace_cmd(rig)
    rig.say("recorded")
    found = compare_reports(ctx, files)
    events = collections.Counter(item[1] for item in found)
    print(f"     events {dict(events)}")
    ctx.check(min(events[name] for name in NAMES) >= LEAST_EVENTS, f"too few: {events}")
    check_placed(ctx, files, rig.threads)
    check_sums(ctx, files, found, rig.threads)
    for form in FORMS:
        ctx.run_agent("export", "--to", form, *files, "-o", ctx.dir / f"out.{form}", timeout=120)

# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of the clock on emulated guests: how exact and quick it is, and what a stop, a reset and a death do to it."""

import collections
import json
import math
import re
import time

from harness import case
from kit import (NEEDS, STORM, TREE, check_accounts, check_order, check_storm, events_of, load, offered_by, start_recorder,
                 stop_recorder, storm, up)
from rig import boot_all

# What the product promises of an idle guest.
MEDIAN_BOUND_NS = 10000
MEDIAN_OVER_SHORTEST = 3
FIRST_FIX_NS = 100_000_000
TRIES = 3  # a busy host may come between

SECOND = 1_000_000_000
STOOD_STILL = "the counter stood still"
IN_FLIGHT = 64  # events of a ring that a stop may find begun and not yet counted, in contexts inside each other
# Bursts of events on all CPUs, not too many to judge each.
BURSTS = f"until [ -e /tmp/stop ]; do echo 64 4 > {STORM}/run; usleep 5000; done"


def raw_ns():
    """The clock that a capture's times are of."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def told(ctx, subject, *options):
    """What `tracebraid clock --json` says of a guest or a capture: an object for each stream."""
    return json.loads(ctx.run_agent("clock", "--json", *options, subject).stdout)["streams"]


def complaint(ctx, *arguments):
    """The one line that `tracebraid clock` refuses with."""
    done = ctx.run_agent("clock", *arguments, status=1)
    ctx.equal((done.stdout, done.stderr.count("\n")), ("", 1), f"what is said beside the complaint {done.stderr!r}")
    return done.stderr


def try_often(ctx, measure, good, what):
    """Measures till the figures are good, each time printing them; fails if they never are."""
    for number in range(TRIES):
        figures = measure()
        print(f"     {what}, try {number + 1}: {figures}")
        if good(figures):
            return
    ctx.check(False, f"{what}: never good enough in {TRIES} tries, the last gave {figures}")


def events_in(lines, stream):
    """The events of a stream."""
    return [line for line in lines if line["type"] == "event" and line["stream"] == stream]


def check_rings(ctx, events):
    """Each ring's events are in the order in which they were written."""
    last = {}
    for event in events:
        seq, ns = last.get(event["cpu"], (-1, 0))
        ctx.check(event["seq"] > seq and event["ns"] >= ns, f"{event} is behind number {seq} of {ns} ns")
        last[event["cpu"]] = event["seq"], event["ns"]


# What each vCPU's ring had counted at some moment: what is before that number was written by `before_ns` of host time,
# and what comes behind it was not before `behind_ns`.
Mark = collections.namedtuple("Mark", "written before_ns behind_ns")


def counts(ctx, guest):
    """The events that each vCPU's ring has counted."""
    rings = json.loads(ctx.run_agent("stat", "--json", guest.shm).stdout)["rings"]
    return {ring["cpu"]: ring["written"] for ring in rings if ring["buffer"] == "trace"}


def misplaced(events, marks, moved_ns=0):
    """Events that are surely on the wrong side of a mark, or where there was none, if all were moved by so much."""
    wrong = []
    for event in events:
        early, late = event["ns"] + moved_ns - event["bound_ns"], event["ns"] + moved_ns + event["bound_ns"]
        for mark in marks:
            written = mark.written[event["cpu"]]
            if (early > mark.before_ns and (event["seq"] < written or late < mark.behind_ns) or
                    late < mark.behind_ns and event["seq"] >= written + IN_FLIGHT):
                wrong.append((event, mark))
    return wrong


def check_placed(ctx, events, marks, noticed_ns):
    """No event is on the wrong side of a mark; and some would be, were all moved by noticed_ns."""
    wrong = misplaced(events, marks)
    ctx.check(not wrong, f"{len(wrong)} of {len(events)} events are on the wrong side of a mark: {wrong[:3]}")
    for moved_ns in (-noticed_ns, noticed_ns):
        ctx.check(misplaced(events, marks, moved_ns), f"events moved by {moved_ns} ns are not noticed")


@case("clock-idle", usual=("6.12",), needs=NEEDS)
def clock_idle(ctx):
    """An idle guest's clock is as exact as is promised, live and from a capture; what cannot be told is refused."""
    guest = up(ctx)

    def measure():
        (stream,) = told(ctx, guest.shm, "-t", "4")
        ctx.equal(stream["source"], "exchange", "the clock's source")
        ctx.equal(len(stream["epochs"]), 1, "epochs")
        return {"median": stream["bound_median_ns"], "worst": stream["bound_worst_ns"],
                "shortest": stream["exchange"]["shortest_ns"]}

    try_often(ctx, measure, lambda figures: figures["median"] <= min(
        MEDIAN_BOUND_NS, MEDIAN_OVER_SHORTEST * figures["shortest"]), "bounds and crossings in ns")
    text = ctx.run_agent("clock", "-t", "0.5", guest.shm).stdout
    ctx.check(re.search(r"^host: times are of mono_raw; .*^g1: exchange \(.*\), bound: median [\d.]+ .s, .*"
                        r"^  exchange: \d+ crossings", text, re.MULTILINE | re.DOTALL), f"the text says:\n{text}")

    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    refused = complaint(ctx, guest.shm)
    ctx.check(f"already being recorded, by process {agent.pid};" in refused, f"of a guest that is recorded: {refused}")
    storm(guest, 100)
    stop_recorder(ctx, agent)
    (stream,) = told(ctx, capture)
    ctx.equal((stream["stream"], stream["source"]), ("g1", "exchange"), "the capture's stream and its source")
    ctx.check(re.search(r"^g1: exchange \(.*\), bound: ", ctx.run_agent("clock", capture).stdout, re.MULTILINE),
              "the capture's clock in text")

    for subject in ("no-such-guest", ctx.dir / "no-such.braid"):
        ctx.check(f"{subject}: no such region; `tracebraid list` shows" in complaint(ctx, subject),
                  f"of {subject}: {complaint(ctx, subject)}")
    ctx.check("not a region" in complaint(ctx, guest.console_path), "a file that is neither is taken")
    ctx.check("not a number of seconds" in complaint(ctx, "-t", "soon", guest.shm), "a time that is none is taken")

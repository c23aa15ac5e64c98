#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Follows a recording of a live region, by Python and by docs/examples/follow.c, and compares what they got with the
report of the complete capture: test_follow.py FOLLOW LIVE_REGION"""

import json
import os
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from kit import AGENT, equal
import tracebraid

ENOUGH = 3000  # events, a live region writes 2,000 a second


def record(region, capture, *options):
    """A recording that has begun: its capture has its name."""
    process = subprocess.Popen([AGENT, "record", "-q", "-r", region, "-o", capture, *options])
    while not os.path.exists(capture):
        equal(process.poll(), None, "the recorder's status before it began")
    return process


def stop(process):
    process.send_signal(signal.SIGINT)
    equal(process.wait(), 0, "the recorder's status")


def events_of(capture):
    """(stream, CPU, number in its ring, text) of all events, sorted."""
    text = subprocess.run([AGENT, "report", "--json", capture], stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    return sorted((one["stream"], one["cpu"], one["seq"], one["text"]) for one in lines if one["type"] == "event")


def follows(region, folder, program, *options):
    capture = f"{folder}/followed.braid"
    recorder = record(region, capture, "--prompt", *options)
    printer = subprocess.Popen([program, capture], stdout=subprocess.PIPE, text=True)
    seen, order, late = [], [], 0
    with tracebraid.follow(capture) as trace:
        for event in trace.events():
            seen.append((event.stream.name, event.cpu, event.seq, event.text))
            if event.late:
                late += 1
            else:
                order.append(event.ns)
            if len(seen) == ENOUGH:  # long before the end
                stop(recorder)
        equal([stream.name for stream in trace.streams], ["web1"], "streams")
        equal(trace.streams[0].read is not None, True, "the account at the end")
    equal(len(seen) >= ENOUGH, True, "events")
    equal(order, sorted(order), "order")
    equal(sorted(seen), events_of(capture), "events")
    lines = printer.communicate()[0].splitlines()
    equal(printer.returncode, 0, "status of the example")
    equal(len(lines), len(seen), "lines of the example")
    os.remove(capture)
    print(f"ok   Python, C{', compressed' * bool(options)}: {len(seen)} events while they were recorded, {late} of them late")


def follows_to_a_death(region, folder, *options):
    capture, warnings, seen = f"{folder}/killed.braid", [], []
    recorder = record(region, capture, *options)
    with tracebraid.follow(capture, warn=warnings.append, timeout=6) as trace:
        for event in trace.events():
            seen.append((event.stream.name, event.cpu, event.seq, event.text))
            if len(seen) == ENOUGH:
                recorder.kill()
                recorder.wait()
    equal(sorted(seen), events_of(capture), "events of a recording that was killed")
    equal([line for line in warnings if "killed" in line] != [], True, "the warning")
    os.remove(capture)
    print(f"ok   Python{', compressed' * bool(options)}: {len(seen)} events of a recording that was killed")


def main():
    program, live_region = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        region = f"{folder}/web1"
        with subprocess.Popen([live_region, region, "web1"], stdout=subprocess.PIPE, text=True) as guest:
            try:
                equal(guest.stdout.readline(), "live\n", "the guest")
                follows(region, folder, program)
                follows(region, folder, program, "-z")
                follows_to_a_death(region, folder)
                follows_to_a_death(region, folder, "-z", "--prompt")
            finally:
                guest.kill()


if __name__ == "__main__":
    main()

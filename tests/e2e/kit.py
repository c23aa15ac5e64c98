# SPDX-License-Identifier: GPL-2.0-or-later
"""What cases of driver and agent share: guests with the storm module, recorders, and the judging of what they say."""

import json

NEEDS = ("driver", "agent", "module:storm")
PRIME = 0x9E3779B97F4A7C15
TREE = "/sys/kernel/debug/tracebraid/trace"


def storm(guest, events):
    """Every CPU's task offers so many events, its hrtimer some more; all that were ever offered while on."""
    guest.run(f"echo {events} > /sys/kernel/debug/storm/run", timeout=120)
    return int(guest.run("cat /sys/kernel/debug/storm/offered"))


def up(ctx, name="g1", parameters="", **options):
    """A booted guest with driver and storm module."""
    guest = ctx.guest(name, **options)
    guest.boot()
    load(guest, parameters)
    return guest


def load(guest, parameters=""):
    """Loads driver and storm module."""
    guest.insmod("tracebraid", parameters)
    guest.insmod("storm")


def start_recorder(ctx, *arguments, name=None):
    """The agent, once it records."""
    agent = ctx.agent("record", *arguments, name=name)
    agent.wait_line(r"^Recording", timeout=60)
    return agent


def stop_recorder(ctx, agent):
    """Ends a recording as Ctrl-C does."""
    ctx.equal(agent.stop(timeout=60), 0, f"status of the recorder, which said:\n{agent.output()}\n")


def events_of(ctx, *captures, **options):
    """All lines of the JSON report."""
    done = ctx.run_agent("report", "--json", *captures, timeout=120, **options)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_order(ctx, lines):
    """No line's time is before its predecessor's."""
    times = [line["ns"] for line in lines if line["type"] == "event"]
    ctx.check(all(a <= b for a, b in zip(times, times[1:])), "a line's time is before its predecessor's")


def check_storm(ctx, lines, stream, offered, lost=0):
    """Each storm event is whole and there once; what is missing is as much as was counted as lost."""
    seen = set()
    for line in lines:
        if line["type"] != "event" or line["stream"] != stream or line["event"] != "storm":
            continue
        fields = line["fields"]
        key = fields["cpu"], fields["context"], fields["number"]
        ctx.equal(fields["check"], (key[2] * PRIME + key[0] * 2 + key[1]) % 2**64, f"check word of {key}")
        ctx.check(key not in seen, f"{key} is there twice")
        seen.add(key)
    ctx.equal(len(seen) + lost, offered, f"{stream}: storm events found and lost ({lost})")


def check_accounts(ctx, *captures):
    """stat and verify find nothing wrong; the sums of a whole capture."""
    for capture in captures:
        ctx.run_agent("verify", capture, timeout=120)
    return json.loads(ctx.run_agent("stat", "--json", *captures, timeout=120).stdout)


def region_accounts(ctx, guest):
    """The sums that stat gives of a region, which must add up."""
    sums = json.loads(ctx.run_agent("stat", "--json", guest.shm).stdout)
    ctx.equal(sums["written"], sums["read"] + sums["lost"] + sums["left"], "written = read + lost + left")
    return sums

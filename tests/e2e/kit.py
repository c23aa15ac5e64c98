# SPDX-License-Identifier: GPL-2.0-or-later
"""What cases of driver and agent share: guests with the storm module, recorders, and the judging of what they say."""

import json

NEEDS = ("driver", "agent", "module:storm")
PRIME = 0x9E3779B97F4A7C15
TREE = "/sys/kernel/debug/tracebraid/trace"
STORM = "/sys/kernel/debug/storm"
CONTEXTS = ("task", "hrtimer", "softirq", "nmi")  # by the number that an event of storm carries


def storm(guest, events):
    """Every CPU's task offers so many events, its interrupts some more; all that were ever offered while on.

    events: a number, or two as storm.c has them.
    """
    guest.run(f"echo {events} > {STORM}/run", timeout=120)
    return offered_by(guest)


def offered_by(guest):
    """All events that the storm module ever offered while they were on."""
    return int(guest.run(f"cat {STORM}/offered"))


def nested_in(guest):
    """How often which context recorded an event while another was recording one: {(inner, outer): times}."""
    lines = [line.split() for line in guest.run(f"cat {STORM}/nested").splitlines()]
    return {(inner, outer): int(times) for inner, _, outer, times in lines}


def up(ctx, name="g1", parameters="", **options):
    """A booted guest with driver and storm module."""
    guest = ctx.guest(name, **options)
    guest.boot()
    load(guest, parameters)
    return guest


def load(guest, parameters=""):
    """Loads driver and storm module."""
    # An emulated NMI takes long, and to say so in it is a warning in 6.1 while printk's own event is on.
    guest.run("echo 60000000000 > /sys/kernel/debug/x86/nmi_longest_ns")
    guest.insmod("tracebraid", parameters)
    guest.insmod("storm")


def start_recorder(ctx, *arguments, name=None):
    """The agent, once it records."""
    agent = ctx.agent("record", *arguments, name=name)
    agent.wait_line(r"^Recording", timeout=60)
    return agent


def stop_recorder(ctx, agent, status=0):
    """Ends a recording as Ctrl-C does. status 3: less is recorded than was asked for."""
    ctx.equal(agent.stop(timeout=60), status, f"status of the recorder, which said:\n{agent.output()}\n")


def events_of(ctx, *captures, **options):
    """All lines of the JSON report."""
    done = ctx.run_agent("report", "--json", *captures, timeout=120, **options)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_order(ctx, lines):
    """No line's time is before its predecessor's."""
    times = [line["ns"] for line in lines if line["type"] == "event"]
    ctx.check(all(a <= b for a, b in zip(times, times[1:])), "a line's time is before its predecessor's")


def check_storm(ctx, lines, stream, offered, lost=0):
    """Each storm event is whole, there once and behind its predecessors; what is missing is as much as was lost."""
    seen, last = set(), {}
    for line in lines:
        if line["type"] != "event" or line["stream"] != stream or line["event"] != "storm":
            continue
        fields = line["fields"]
        key = fields["cpu"], fields["context"], fields["number"]
        ctx.equal(fields["check"], (key[2] * PRIME + key[0] * 4 + key[1]) % 2**64, f"check word of {key}")
        ctx.check(key not in seen, f"{key} is there twice")
        seen.add(key)
        ctx.check(last.get(key[:2], 0) < key[2], f"{key} is behind number {last.get(key[:2])}")
        last[key[:2]] = key[2]
    ctx.equal(len(seen) + lost, offered, f"{stream}: storm events found and lost ({lost})")
    return {context: sum(key[1] == number for key in seen) for number, context in enumerate(CONTEXTS)}


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

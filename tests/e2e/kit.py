# SPDX-License-Identifier: GPL-2.0-or-later
"""Helpers of cases with driver and agent: guests with the storm module, recorders, and checks of their output."""

import json
import re

import host
import machines

NEEDS = ("driver", "agent", "module:storm")
# Kernels that suspend their devices for a test, and resume them at once; not those for clouds,
# without CONFIG_PM_DEBUG.
SUSPENDING_KERNELS = (*host.KERNEL_PACKAGES, *(one for one in host.NEWEST_KERNELS if "cloud" not in one), host.DEBUG_KERNEL)
PRIME = 0x9E3779B97F4A7C15
TREE = "/sys/kernel/debug/tracebraid/trace"
STORM = "/sys/kernel/debug/storm"
CONTEXTS = ("task", "hrtimer", "softirq", "nmi")  # by the number in a storm event


def storm(guest, events):
    """Has every CPU's task offer events, and its interrupts some more; returns the total offered so far.

    events: a number, or two as storm.c has them.
    """
    guest.run(f"echo {events} > {STORM}/run", timeout=120)
    return offered_by(guest)


def offered_by(guest):
    """The number of events that the storm module has offered while they were enabled."""
    return int(guest.run(f"cat {STORM}/offered"))


def nested_in(guest):
    """How often each context recorded an event while another was recording one: {(inner, outer): times}."""
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
    # An emulated NMI takes long, and 6.1's message about it is a warning while printk's own event
    # is on.
    if guest.machine is machines.X86:
        guest.run("echo 60000000000 > /sys/kernel/debug/x86/nmi_longest_ns")
    guest.insmod("tracebraid", parameters)
    guest.insmod("storm")


def start_recorder(ctx, *arguments, confirm=True, **options):
    """Starts the agent and waits until it records and, with `confirm`, until each guest has confirmed its events.

    On a loaded machine a guest may be slower than the agent waits: the agent records meanwhile, and says so.
    """
    agent = ctx.agent("record", *arguments, **options)
    agent.wait_line(r"^Recording", timeout=60)
    if confirm:
        wait_confirmed(ctx, agent)
    return agent


def wait_confirmed(ctx, agent):
    """Waits until each guest of a recording has confirmed its events."""
    def confirmed():
        ended, late = agent.rc is not None, unconfirmed(agent.output())
        ctx.check(not (ended and late), f"the recorder ended before its guests confirmed:\n{agent.output()}")
        return not late

    ctx.wait_until(confirmed, "the guests to confirm their events", timeout=60)


def unconfirmed(output):
    """The guests that have not yet confirmed their events, by a recorder's output."""
    late = re.findall(r"^tracebraid: (.*): the guest did not confirm the event change", output, re.MULTILINE)
    return [guest for guest in late if f"{guest}: the guest has now confirmed the event change" not in output]


def record_once(ctx, *arguments, **options):
    """Runs a recording to its end, again until the guest has confirmed its events; returns it as run_agent() does."""
    done = None

    def confirmed():
        nonlocal done
        done = ctx.run_agent("record", *arguments, status=None, **options)
        ctx.check(done.returncode in (0, 3), f"record {arguments} ended with {done.returncode}:\n{done.stderr}")
        return done.returncode == 0

    ctx.wait_until(confirmed, "a recording whose guest has confirmed its events", timeout=120)
    return done


def stop_recorder(ctx, agent, status=0):
    """Ends a recording as Ctrl-C does. status 3: less was recorded than requested."""
    ctx.equal(agent.stop(timeout=60), status, f"status of the recorder, which printed:\n{agent.output()}\n")


def ended_confirmed(agent):
    """Whether the guest answered when its recording ended, so that all its events' types are described."""
    return "did not confirm that its events are disabled" not in agent.output()


def events_of(ctx, *captures, **options):
    """All lines of the JSON report."""
    done = ctx.run_agent("report", "--json", *captures, timeout=120, **options)
    return [json.loads(line) for line in done.stdout.splitlines()]


def read_so_far(ctx, capture):
    """The number of events in a capture that is still being recorded."""
    text = ctx.run_agent("stat", "--json", capture, status=None).stdout
    return sum(ring["found"] for ring in json.loads(text)["rings"]) if text.strip() else 0


def check_order(ctx, lines):
    """Checks that no line's time is before its predecessor's."""
    times = [line["ns"] for line in lines if line["type"] == "event"]
    ctx.check(all(a <= b for a, b in zip(times, times[1:])), "a line's time is before its predecessor's")


def intact_storm(ctx, lines, stream):
    """Checks that each storm event is intact, unique and in order; returns their keys (CPU, context, number)."""
    seen, last = set(), {}
    for line in lines:
        if line["type"] != "event" or line["stream"] != stream or line["event"] != "storm":
            continue
        fields = line["fields"]
        key = fields["cpu"], fields["context"], fields["number"]
        ctx.equal(fields["check"], (key[2] * PRIME + key[0] * 4 + key[1]) % 2**64, f"check word of {key}")
        ctx.check(key not in seen, f"{key} is a duplicate")
        seen.add(key)
        ctx.check(last.get(key[:2], 0) < key[2], f"{key} follows number {last.get(key[:2])}")
        last[key[:2]] = key[2]
    return seen


def check_storm(ctx, lines, stream, offered, lost=0):
    """Checks that each storm event is intact, unique and in order, and that as many are missing as were lost."""
    seen = intact_storm(ctx, lines, stream)
    ctx.equal(len(seen) + lost, offered, f"{stream}: storm events found and lost ({lost})")
    return {context: sum(key[1] == number for key in seen) for number, context in enumerate(CONTEXTS)}


def check_accounts(ctx, *captures):
    """Checks that stat and verify find no error; returns the sums of a complete capture."""
    for capture in captures:
        ctx.run_agent("verify", capture, timeout=120)
    return json.loads(ctx.run_agent("stat", "--json", *captures, timeout=120).stdout)


def lost_by_guests(sums):
    """The lost events of sums of check_accounts(), without the host's: its buffers are for the whole machine."""
    return sum(ring["lost"] for ring in sums["rings"] if ring["stream"] != "host")


def suspend(guest):
    """Suspends all devices of a guest and resumes them, by the kernel's own test mode."""
    guest.run("echo devices > /sys/power/pm_test; echo 0 > /sys/module/suspend/parameters/pm_test_delay; "
              "echo freeze > /sys/power/state")


def migrate(ctx, source, name, *options):
    """Migrates a guest to another QEMU with such options, which is returned; both exist then."""
    socket = f"unix:{ctx.dir}/{name}.sock"
    there = ctx.guest(name, shm=None, mem="256M", qemu_args=("-incoming", socket, *options))
    there.start()
    there.qmp("query-status")
    source.qmp("migrate", uri=socket)
    ctx.wait_until(lambda: source.qmp("query-migrate").get("status") in ("completed", "failed"), "the migration", timeout=120)
    ctx.equal(source.qmp("query-migrate")["status"], "completed", "status of the migration")
    return there


def undrained(guest):
    """How often the driver gave up on an agent that did not run for long: what its rings held then is not counted."""
    return guest.run("dmesg").count("the agent did not drain ")


def region_accounts(ctx, guest):
    """The sums that stat prints for a region, checked to add up."""
    sums = json.loads(ctx.run_agent("stat", "--json", guest.shm).stdout)
    ctx.equal(sums["written"], sums["read"] + sums["lost"] + sums["left"], "written = read + lost + left")
    return sums

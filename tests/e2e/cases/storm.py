# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of the ring under stress: all contexts at once, CPU hotplug, tiny rings and sub-buffers."""

import json

import machines
from harness import case
from kit import (CONTEXTS, NEEDS, STORM, check_accounts, check_order, check_storm, events_of, load, nested_in, offered_by,
                 region_accounts, start_recorder, stop_recorder, storm, up)


def all_nested(guest, wanted):
    """Whether each of the (inner, outer) pairs has occurred."""
    nested = nested_in(guest)
    return all(nested[pair] for pair in wanted)


@case("storm-contexts", usual=("6.1", "newest", "6.12-rt"), needs=NEEDS, arm64=True)
def storm_contexts(ctx):
    """Task, softirq, hrtimer and NMI record at once and nested, while the agent reads: no event is lost."""
    guest = up(ctx)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    # Real-time kernels run softirqs in threads.
    wanted = [("hrtimer", "task"), ("nmi", "task"), ("nmi", "hrtimer")]
    contexts = CONTEXTS
    if not machines.of(ctx.kernel).has_nmi:
        wanted, contexts = wanted[:1], set(CONTEXTS) - {"nmi"}
    for _ in range(10):
        storm(guest, 2000)
        ctx.wait_until(lambda: not region_accounts(ctx, guest)["left"], "the agent to read all events")
    while not all_nested(guest, wanted):
        storm(guest, "2000 4")  # mostly interrupts
    stop_recorder(ctx, agent)
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    found = check_storm(ctx, lines, "g1", offered_by(guest))
    ctx.check(all(found[context] for context in contexts), f"a context recorded nothing: {found}")
    ctx.equal(check_accounts(ctx, capture)["lost"], 0, "lost events")
    print(f"     events {found}; nested {nested_in(guest)}")


@case("storm-shapes", usual=("6.12",), needs=NEEDS, arm64=True)
def storm_shapes(ctx):
    """Nested contexts overrun rings of tiny sub-buffers in each mode: every event is recorded or counted as lost."""
    guest = ctx.guest()
    guest.boot()
    for number, parameters in enumerate(("", "overwrite=1", "absolute=1", "overwrite=1 absolute=1")):
        load(guest, f"subbuf_size=256 ring_size_kb=16 {parameters}")
        capture = ctx.dir / f"{number}.braid"
        agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
        offered = storm(guest, 20000)
        stop_recorder(ctx, agent)
        after = region_accounts(ctx, guest)
        what = parameters or "by default"
        ctx.equal((after["written"], after["left"]), (offered, 0), f"{what}: events written, and left")
        ctx.check(after["lost"] > 100 and after["read"] > 100, f"{what}: the ring was not lapped: {after}")
        lines = events_of(ctx, capture)
        check_order(ctx, lines)
        check_storm(ctx, lines, "g1", offered, after["lost"])
        ctx.equal(check_accounts(ctx, capture)["lost"], after["lost"], f"{what}: lost events in the capture")
        guest.run("rmmod storm && rmmod tracebraid")


@case("storm-hotplug", usual=("6.12-rt",), needs=NEEDS, arm64=True)
def storm_hotplug(ctx):
    """A CPU goes offline and online under the storm: events recorded before are read, and none is lost."""
    guest = up(ctx)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    while int(guest.run(f"cat {STORM}/interrupted")) < 3:
        work = guest.bg(f"echo 10000 20 > {STORM}/run")
        guest.run("echo 0 > /sys/devices/system/cpu/cpu1/online")
        ctx.wait_until(lambda: ring_of(ctx, guest, 1)["left"] == 0, "the agent to read the events left by cpu1")
        gone = ring_of(ctx, guest, 1)
        ctx.equal(gone["written"], gone["read"], "events of cpu1, written and read, while it is offline")
        guest.run("echo 1 > /sys/devices/system/cpu/cpu1/online")
        ctx.equal(work.wait(timeout=120), 0, "status of the storm")
    stop_recorder(ctx, agent)
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    check_storm(ctx, lines, "g1", offered_by(guest))
    ctx.equal(check_accounts(ctx, capture)["lost"], 0, "lost events")


def ring_of(ctx, guest, cpu):
    """The output of stat for a CPU's ring."""
    done = ctx.run_agent("stat", "--json", guest.shm, status=None)
    return json.loads(done.stdout)["rings"][cpu]


@case("storm-lap", usual=("6.12-rt",), needs=("driver", "agent", "module:lap"), arm64=True)
def storm_lap(ctx):
    """Interrupts that would lap the ring over an open reservation are dropped and counted; it is not overwritten."""
    guest = ctx.guest()
    guest.boot()
    for mode in (0, 1):
        guest.insmod("tracebraid")
        guest.insmod("lap", f"overwrite={mode}")
        guest.run("echo 500 > /sys/kernel/debug/lap/run")
        written, dropped = lap_result(guest)
        ctx.check(dropped >= 500, f"{dropped} were dropped")
        sums = region_accounts(ctx, guest)
        ctx.equal((sums["written"], sums["lost"], sums["left"]), (written + dropped, dropped, written),
                  f"overwrite={mode}: events offered, lost and left")
        # A full ring refuses a reservation, or overwrites its oldest events.
        said = guest.sh("for mask in 1 2; do taskset $mask sh -c 'echo 500 > /sys/kernel/debug/lap/run'; done")[1]
        ctx.equal("No space" in said, not mode, f"overwrite={mode}: whether a full ring refused a reservation")
        sums = region_accounts(ctx, guest)
        ctx.equal(sums["written"], sum(lap_result(guest)), f"overwrite={mode}: events offered")
        capture = ctx.dir / f"{mode}.braid"
        # Recording needs an event to enable, but not its records.
        stop_recorder(ctx, start_recorder(ctx, "-r", guest.shm, "-e", "block:block_touch_buffer", "--backlog",
                                          "-o", capture))
        after = region_accounts(ctx, guest)
        ctx.equal((after["read"], after["left"]), (sums["left"], 0), f"overwrite={mode}: events read, and left")
        ctx.equal(check_accounts(ctx, capture)["read"], after["read"], f"overwrite={mode}: events in the capture")
        guest.run("rmmod lap && rmmod tracebraid")


def lap_result(guest):
    """Events written and dropped, as the lap module counts them."""
    words = guest.run("cat /sys/kernel/debug/lap/result").split()
    return int(words[1]), int(words[3])

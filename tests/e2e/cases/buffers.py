# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of buffers that other modules create, change and free."""

import re

from harness import case
from kit import NEEDS, check_accounts, events_of, load, start_recorder, stop_recorder, storm, undrained

ROOT = "/sys/kernel/debug/tracebraid"
DO = "/sys/kernel/debug/buffers/do"
ABSOLUTE, RAW = 2, 4


def do(ctx, guest, words, status=0):
    """Gives the module a command; status 1: it must refuse it."""
    ctx.equal(guest.sh(f"echo {words} > {DO}")[0], status, f"status of {words!r}")


def cpu0(guest, name):
    """The written, read, lost and left counts of a buffer's first ring."""
    line = guest.run(f"cat {ROOT}/{name}/stats").splitlines()[0]
    return tuple(map(int, re.findall(r" (\d+)", line)))


@case("buffers", usual=("6.1",), needs=("driver", "module:buffers"), arm64=True)
def buffers(ctx):
    """A module creates, resizes, empties, swaps and frees buffers: a reset sets the counts to zero; invalid requests are refused."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    guest.insmod("buffers")
    do(ctx, guest, "alloc trace 64", 1)
    do(ctx, guest, "alloc no/name 64", 1)
    do(ctx, guest, "alloc huge 1000000", 1)
    do(ctx, guest, "alloc mine 64")
    do(ctx, guest, "record 10", 1)
    ctx.equal(cpu0(guest, "mine"), (0, 0, 0, 0), "counts while the event is off")
    guest.run(f"echo 1 > {ROOT}/mine/events/numbers/number/enable")
    do(ctx, guest, "record 10")
    ctx.equal(cpu0(guest, "mine"), (10, 0, 0, 10), "counts of ten events")
    do(ctx, guest, "off")
    do(ctx, guest, "record 10", 1)
    do(ctx, guest, "on")
    do(ctx, guest, "resize 256")
    ctx.equal(guest.run(f"cat {ROOT}/mine/buffer_size_kb"), "256\n", "its size")
    do(ctx, guest, "record 5")
    ctx.equal(cpu0(guest, "mine")[0], 15, "events written before and after a resize")
    do(ctx, guest, "resize 10000000", 1)
    do(ctx, guest, "record 5")
    do(ctx, guest, "reset")
    do(ctx, guest, "record 1")
    ctx.equal(cpu0(guest, "mine")[0], 1, "events written after emptying")
    guest.run(f"echo overwrite > {ROOT}/mine/mode")
    guest.run(f"echo absolute > {ROOT}/mine/mode")
    ctx.check("[overwrite]" in guest.run(f"cat {ROOT}/mine/mode"), "the mode did not change")
    ctx.equal(guest.sh(f"echo nonsense > {ROOT}/mine/mode")[0], 1, "status of an invalid mode")
    do(ctx, guest, "record 100000")
    ctx.equal(cpu0(guest, "mine")[0], 100001, "events written, lapped")
    do(ctx, guest, "backup spare 256 3")
    ctx.equal(cpu0(guest, "spare")[0], 0, "events of the backup")
    do(ctx, guest, "swap")
    ctx.equal(cpu0(guest, "spare")[0], 100001, "events of the backup after a swap")
    do(ctx, guest, "record 3")
    ctx.equal(cpu0(guest, "mine")[0], 3, "events of the live buffer")
    do(ctx, guest, "resize 64", 1)
    do(ctx, guest, "free", 1)
    do(ctx, guest, "swap")
    do(ctx, guest, "resize 64")
    do(ctx, guest, "freebackup")
    do(ctx, guest, "free")
    ctx.equal(guest.sh(f"ls {ROOT}/mine")[0], 1, "status of looking for the freed buffer")
    guest.run(f"echo 128 > {ROOT}/trace/buffer_size_kb")
    guest.run(f"echo 1 > {ROOT}/trace/events/sched/enable")
    do(ctx, guest, "alloc mine 64 4")
    do(ctx, guest, "record 7")
    ctx.equal(cpu0(guest, "mine")[0], 7, "events written in a new buffer, in the freed one's ring")
    guest.run("rmmod buffers && rmmod tracebraid")


@case("buffers-recorded", usual=("6.1",), needs=NEEDS + ("module:buffers",), arm64=True)
def buffers_recorded(ctx):
    """Buffers are created, resized, emptied and freed during a recording: each event is in the capture exactly once.

    Unless the agent did not run for so long that the driver gave up on it.
    """
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    guest.insmod("buffers")
    do(ctx, guest, "alloc early 64")
    capture = ctx.dir / "g.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "numbers", "-o", capture)
    expected = []
    for name, flags in (("early", None), ("late", 0), ("late", ABSOLUTE), ("early", 0), ("bytes", RAW)):
        if flags is not None:
            do(ctx, guest, f"alloc {name} 64 {flags}")
        if flags != RAW:
            guest.run(f"echo 1 > {ROOT}/{name}/events/numbers/number/enable")
        for size in 128, 64:
            do(ctx, guest, "record 50")
            do(ctx, guest, f"resize {size}")
        do(ctx, guest, "record 50")
        do(ctx, guest, "free")
        expected.append((name, 150))
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, capture)
    ctx.equal(sums["lost"], 0, "events lost")
    lines = [line for line in events_of(ctx, capture) if line["type"] == "event"]
    numbers = [line["fields"]["n"] for line in lines if line["event"] == "number"]
    ctx.equal(numbers, sorted(set(numbers)), "numbers, in order")
    if not undrained(guest):
        ctx.equal(len(lines), sum(count for _, count in expected), "events in the report")
        ctx.equal(numbers, list(range(1, len(numbers) + 1)), "numbers")
        ctx.equal(sum(line.get("buffer") == "bytes" for line in lines), 150, "events of the buffers that hold bytes")


@case("buffers-raced", usual=("6.1",), needs=("driver", "module:storm"), timeout=300, arm64=True)
def buffers_raced(ctx):
    """Rings are resized, switched, read, emptied and removed concurrently under load: the guest survives."""
    guest = ctx.guest()
    guest.boot()
    load(guest, "ring_size_kb=64")
    here = f"{ROOT}/trace"
    guest.run(f"echo 1 > {here}/events/storm/storm/enable")
    device = guest.run("basename /sys/bus/pci/drivers/tracebraid/0*").strip()
    driver = "/sys/bus/pci/drivers/tracebraid"
    # An operation may be refused while another one is in progress: only the guest's survival
    # matters.
    jobs = [guest.bg(f"for k in $(seq {turns}); do {what}; done 2>/dev/null; true") for turns, what in (
        (30, f"echo 128 > {here}/buffer_size_kb; echo overwrite > {here}/mode; echo 64 > {here}/buffer_size_kb; "
             f"echo consume > {here}/mode"),
        (60, f"head -c 300 {here}/trace > /dev/null; echo 0 > {here}/buffers/enabled; echo 1 > {here}/buffers/enabled"),
        (60, f"cat {here}/stats {here}/per_cpu/cpu*/stats > /dev/null; echo > {here}/trace"),
        (5, f"echo {device} > {driver}/unbind; echo {device} > {driver}/bind; echo 1 > {here}/events/storm/storm/enable"))]
    for _ in range(20):
        storm(guest, 300)
    for job in jobs:
        ctx.equal(job.wait(timeout=200), 0, "status of a loop")
    # After the driver is bound again, all events are off.
    guest.run(f"echo 1 > {here}/buffers/enabled; echo 1 > {here}/events/storm/storm/enable; echo > {here}/trace")
    before = [line.split()[2] for line in guest.run(f"cat {here}/stats").splitlines()]
    storm(guest, 100)
    after = [line.split()[2] for line in guest.run(f"cat {here}/stats").splitlines()]
    ctx.check(all(int(b) > int(a) for a, b in zip(before, after)), f"events written: {before}, then {after}")
    guest.run("rmmod storm && rmmod tracebraid")

# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of ivshmem-doorbell: which side wakes the other, and when it does not."""

from doorbell import Server, device
from harness import case
from kit import (NEEDS, TREE, check_accounts, check_order, check_storm, events_of, load, offered_by, start_recorder,
                 stop_recorder, storm)

MIB = 1 << 20


def interrupts(guest):
    """The number of the device's interrupts in the guest."""
    lines = [line for line in guest.run("cat /proc/interrupts").splitlines() if line.endswith("tracebraid")]
    return sum(int(word) for line in lines for word in line.split()[1:1 + guest.smp])


@case("doorbell-driver", usual=("6.1",), needs=NEEDS, arm64=True)
def doorbell_driver(ctx):
    """The driver rings when asked to, once for each request and ring, and an interrupt makes it read the mailbox."""
    server = Server(ctx.dir / "socket", ctx.dir / "region", 4 * MIB)
    guest = ctx.guest(shm=None, qemu_args=device(ctx.dir / "socket"))
    guest.boot()
    load(guest, "overwrite=1 ring_size_kb=64 ftrace_size_kb=0")
    guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
    rings = guest.smp

    storm(guest, 5000)
    ctx.equal(server.take_rings(), 0, "rings without a request")
    server.ask(125)
    storm(guest, 5000)
    woken = [server.take_rings()]
    ctx.check(1 <= woken[0] <= rings, f"rings for one request: {woken[0]}")
    storm(guest, 5000)
    ctx.equal(server.take_rings(), 0, "more rings for the same request")
    server.ask(1000)
    storm(guest, 5000)
    ctx.check(1 <= server.take_rings() <= rings, "no ring for a second request")
    server.ask(125)
    server.withdraw()
    storm(guest, 5000)
    ctx.equal(server.take_rings(), 0, "rings after the request was withdrawn")

    before = interrupts(guest)
    answered = server.command()
    server.ring()
    ctx.wait_until(answered, "the answer to a command")
    ctx.wait_until(lambda: interrupts(guest) > before, "the interrupt to be counted")
    guest.run("rmmod storm; rmmod tracebraid")
    server.ring()  # no agent runs
    guest.quit()
    server.close()


@case("doorbell", usual=("6.12",), needs=NEEDS, arm64=True)
def doorbell(ctx):
    """The agent is the ivshmem server and records every event; after it has ended, the memory is read by polling."""
    capture, region, socket = ctx.dir / "x.braid", ctx.dir / "region", ctx.dir / "socket"
    agent = start_recorder(ctx, "-r", f"ivshmem-doorbell:{socket},shm={region},name=g1", "-e", "storm", "-o", capture)
    guest = ctx.guest(shm=None, qemu_args=device(socket))
    guest.boot()
    load(guest)
    ctx.wait_until(lambda: guest.run(f"cat {TREE}/events/storm/storm/enable").strip() == "0*",
                   "the agent to turn the event on")
    ctx.check(interrupts(guest) > 0, "the agent has not interrupted the guest")
    offered = storm(guest, 20000)
    stop_recorder(ctx, agent)
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    check_storm(ctx, lines, "g1", offered, check_accounts(ctx, capture)["lost"])

    # QEMU does not connect again.
    agent = start_recorder(ctx, "-r", f"{region},name=g1", "-e", "storm", "-o", ctx.dir / "y.braid")
    storm(guest, 5000)
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, ctx.dir / "y.braid")
    check_storm(ctx, events_of(ctx, ctx.dir / "y.braid"), "g1", offered_by(guest) - offered, sums["lost"])

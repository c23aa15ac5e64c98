# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of the virtio device: the guest shares its own pages, and the agent implements the device."""

import signal

import host
import qemu
import vhost
from harness import case
from kit import (STORM, SUSPENDING_KERNELS, check_accounts, check_order, check_storm, events_of, load, offered_by,
                 read_so_far, start_recorder, stop_recorder, storm, suspend)
from uml import UmlGuest

NOT_GIVEN_BACK = "has not returned the memory"


@case("virtio-uml", kernels=(host.UML_KERNEL,), needs=vhost.VIRTIO_NEEDS)
def virtio_uml(ctx):
    """In user-mode Linux the driver is recorded, unloaded and reloaded: no event is lost, the memory is returned."""
    socket, capture = ctx.dir / "tb.sock", ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", f"vhost-user:{socket}", "-e", "storm", "-o", capture)
    guest = ctx.adopt(UmlGuest(ctx, "uml", devices=((socket, vhost.VIRTIO_ID),)))
    guest.boot()
    guest.insmod("tracebraid")
    guest.insmod("storm")
    for parameter in ("virtio_size_mb=8", ""):
        guest.insmod("tracebraid_virtio", parameter)
        vhost.wait_for_agent(ctx, guest)
        offered = storm(guest, 5000)
        guest.run("rmmod tracebraid_virtio")
    ctx.check(NOT_GIVEN_BACK not in guest.console(), "the agent has not returned the memory")
    ctx.equal(guest.console().count("in 8192 KiB of shared memory"), 1, "times that virtio_size_mb was applied")
    ctx.equal(guest.console().count("virtio0: released"), 2, "times that the device was released")
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, capture)
    ctx.equal(len({ring["incarnation"] for ring in sums["rings"]}), 2, "streams in the capture")
    ctx.equal(sums["lost"], 0, "lost events")
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    found = check_storm(ctx, lines, "uml", offered)
    ctx.check(all(found[context] for context in ("task", "hrtimer", "softirq")), f"contexts found: {found}")


def is_connected(guest):
    """Whether QEMU has a backend."""
    names = [one["filename"] for one in guest.qmp("query-chardev") if one["label"] == "tb"]
    return not names[0].startswith("disconnected")


def missing_of(lines):
    """The number of events that a report states as lost."""
    return sum(line.get("lost") or line.get("events", 0) for line in lines if line["type"] == "lost")


def check_notified(ctx, guest, name):
    """Checks that the agent has interrupted the guest; `name` of the interrupt."""
    counts = guest.run(f"grep {name} /proc/interrupts").split()[1:1 + guest.smp]
    ctx.check(sum(map(int, counts)) > 0, "the agent has not interrupted the guest")


@case("virtio-qemu", usual=("6.12",), needs=vhost.VIRTIO_NEEDS, arm64=True)
def virtio_qemu(ctx):
    """In QEMU, a restarted agent reads the same memory and loses nothing; the rings of a killed guest are read."""
    socket = ctx.dir / "tb.sock"
    captures = [ctx.dir / f"{number}.braid" for number in range(3)]
    options = ("-r", f"vhost-user:{socket}", "-e", "storm")
    agent = start_recorder(ctx, *options, "-o", captures[0])
    guest = vhost.boot(ctx, "g1", socket)
    load(guest)
    vhost.load_virtio(ctx, guest)
    if qemu.block_passes_notifyq(guest.machine.qemu()):
        check_notified(ctx, guest, "virtio0-notify")
    job = guest.bg(f"echo 10000 > {STORM}/run")
    ctx.wait_until(lambda: read_so_far(ctx, captures[0]) > 1000, "1000 events that the first agent has read")
    agent.send_signal(signal.SIGKILL)
    agent.wait(timeout=30)
    ctx.equal(job.wait(timeout=120), 0, "status of the storm")
    offered = storm(guest, 3000)
    agent = start_recorder(ctx, *options, "-o", captures[1])
    # QEMU reconnects after a second.
    ctx.wait_until(lambda: read_so_far(ctx, captures[1]), "the second agent to read")
    guest.run("rmmod tracebraid_virtio")
    ctx.check(NOT_GIVEN_BACK not in guest.console(), "the agent has not returned the memory")

    # Without an agent that returns the pages, the reset releases them.
    vhost.load_virtio(ctx, guest)
    stop_recorder(ctx, agent)
    lines = events_of(ctx, *captures[:2])
    check_order(ctx, lines)
    # Events that the killed agent had read but not written are found by its successor; the rings
    # lost nothing.
    check_storm(ctx, lines, "g1", offered)
    ctx.equal(missing_of(lines), 0, "events missing from both captures together")
    ctx.equal(check_accounts(ctx, captures[1])["lost"], 0, "events that the rings lost")
    guest.run("rmmod tracebraid_virtio")
    ctx.check(NOT_GIVEN_BACK not in guest.console(), "memory that no agent holds was leaked")

    agent = start_recorder(ctx, *options, "-o", captures[2])
    # A driver that starts while QEMU has no backend stops QEMU's attempts to reconnect.
    ctx.wait_until(lambda: is_connected(guest), "QEMU to reconnect to the agent")
    vhost.load_virtio(ctx, guest)
    guest.bg(f"echo 1000000 > {STORM}/run")
    ctx.wait_until(lambda: read_so_far(ctx, captures[2]) > 5000, "5000 more events to be read")
    guest.kill()
    ctx.equal(agent.wait(timeout=60), 0, "status of the recorder, whose only guest has gone")
    sums = check_accounts(ctx, captures[2])
    ctx.check(sums["read"] > 5000, f"too few events of a killed guest were read: {sums}")
    ctx.equal(sums["left"], 0, "events left in a killed guest's region")


@case("virtio-generic", usual=("6.12",), needs=vhost.VIRTIO_NEEDS, arm64=True)
def virtio_generic(ctx):
    """On QEMU's generic front end, one agent records through a reload of the driver and a reset; the guest outlives it."""
    vhost.need_generic(ctx)
    socket, capture = ctx.dir / "tb.sock", ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", f"vhost-user:{socket},name=g1", "-e", "storm", "-o", capture)
    guest = vhost.boot(ctx, "g1", socket, vhost.GENERIC)
    load(guest)
    vhost.load_virtio(ctx, guest, vhost.QEMU_ID)
    check_notified(ctx, guest, "virtio0")  # this front end has one interrupt; no buffer of the controlq has returned yet
    storm(guest, 5000)
    guest.run("rmmod tracebraid_virtio")
    vhost.load_virtio(ctx, guest, vhost.QEMU_ID)
    offered = storm(guest, 5000)
    guest.reset()
    vhost.load_modules(ctx, guest)
    load(guest)
    vhost.load_virtio(ctx, guest, vhost.QEMU_ID)
    offered += storm(guest, 5000)
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, capture)
    ctx.equal(len({ring["incarnation"] for ring in sums["rings"]}), 3, "streams in the capture")
    ctx.equal((sums["read"], sums["lost"], sums["left"]), (offered, 0, 0), "read, lost and left")
    # Without an agent the guest continues, and a reset of the device releases the memory.
    storm(guest, 5000)
    guest.run("rmmod tracebraid_virtio")
    ctx.check(NOT_GIVEN_BACK not in guest.console(), "memory that no agent holds was leaked")


@case("virtio-generic-first", usual=("6.12",), needs=vhost.VIRTIO_NEEDS, arm64=True)
def virtio_generic_first(ctx):
    """QEMU's generic front end refuses to start without an agent, as the documents say."""
    vhost.need_generic(ctx)
    guest = vhost.make_guest(ctx, "g1", ctx.dir / "tb.sock", vhost.GENERIC)
    guest.start()
    ctx.wait_until(lambda: not guest.alive(), "QEMU to end", timeout=60)
    printed = (guest.rundir / "qemu.log").read_text(encoding="utf-8")
    ctx.check("Failed to connect" in printed, f"QEMU printed:\n{printed}")


def qemu_ends(ctx, guest, why):
    """Waits until a guest's QEMU has ended, and checks the reason that it prints."""
    ctx.wait_until(lambda: not guest.alive(), "QEMU to end", timeout=60)
    printed = (guest.rundir / "qemu.log").read_text(encoding="utf-8")
    ctx.check(why in printed, f"QEMU printed:\n{printed}")


@case("virtio-generic-limits", usual=("6.12",), needs=vhost.VIRTIO_NEEDS, arm64=True)
def virtio_generic_limits(ctx):
    """After its agent has ended, QEMU's generic front end does what the documents say, for each of their cases."""
    vhost.need_generic(ctx)
    sockets = [ctx.dir / f"{number}.sock" for number in range(3)]
    agents = [start_recorder(ctx, "-r", f"vhost-user:{socket},name=g{number}", "-e", "storm", "-o", ctx.dir / f"{number}.braid")
              for number, socket in enumerate(sockets)]
    reconnecting = vhost.make_guest(ctx, "g0", sockets[0], vhost.GENERIC, reconnects=True)
    reconnecting.start()
    qemu_ends(ctx, reconnecting, "")

    # While no driver is loaded.
    guest = vhost.boot(ctx, "g1", sockets[1], vhost.GENERIC)
    agents[1].stop()
    qemu_ends(ctx, guest, "memory_region_del_eventfd")

    # A second agent, and then the driver.
    guest = vhost.boot(ctx, "g2", sockets[2], vhost.GENERIC)
    load(guest)
    vhost.load_virtio(ctx, guest, vhost.QEMU_ID)
    agents[2].stop()
    second = start_recorder(ctx, "-r", f"vhost-user:{sockets[2]},name=g2", "-e", "storm", "-o", ctx.dir / "second.braid")
    guest.run("rmmod tracebraid_virtio")
    guest.post(f"insmod /mod/tracebraid_virtio.ko virtio_id={vhost.QEMU_ID}")
    qemu_ends(ctx, guest, "vhost_dev_get_config")
    ctx.equal(second.stop(), 3, f"status of the second agent, which found no driver and printed:\n{second.output()}\n")


@case("virtio-gone", usual=("6.12",), needs=vhost.VIRTIO_NEEDS)
def virtio_gone(ctx):
    """A guest is reset, then its device is unplugged under load: the recording continues, and every event is counted."""
    socket, capture = ctx.dir / "tb.sock", ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", f"vhost-user:{socket}", "-e", "storm", "-o", capture)
    guest = vhost.boot(ctx, "g1", socket)
    load(guest)
    vhost.load_virtio(ctx, guest)
    offered = storm(guest, 5000)
    guest.reset()
    vhost.load_modules(ctx, guest)
    load(guest)
    vhost.load_virtio(ctx, guest)
    job = guest.bg(f"echo 50000 > {STORM}/run")
    ctx.wait_until(lambda: read_so_far(ctx, capture) > offered + 5000, "5000 events of the second boot")
    device = next(one["name"] for one in guest.qmp("qom-list", path="/machine/peripheral-anon")
                  if "vhost-user" in one["type"])
    guest.qmp("device_del", id=f"/machine/peripheral-anon/{device}")
    ctx.wait_until(lambda: "virtio0: released" in guest.console(), "the driver to release the device")
    ctx.equal(job.wait(timeout=120), 0, "status of the storm")
    ctx.check(NOT_GIVEN_BACK not in guest.console(), "the agent has not returned the memory")
    offered += offered_by(guest)
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, capture)
    ctx.equal(len({ring["incarnation"] for ring in sums["rings"]}), 2, "streams in the capture")
    ctx.equal((sums["read"] + sums["lost"], sums["left"]), (offered, 0), "read and lost, and left")


@case("virtio-sleep", usual=("6.1",), possible=SUSPENDING_KERNELS, needs=vhost.VIRTIO_NEEDS)
def virtio_sleep(ctx):
    """A guest sleeps and wakes: its memory is returned before sleep and shared again after it; no event is lost."""
    socket, capture = ctx.dir / "tb.sock", ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", f"vhost-user:{socket}", "-e", "storm", "-o", capture)
    guest = vhost.boot(ctx, "g1", socket)
    load(guest)
    vhost.load_virtio(ctx, guest)
    for _ in range(2):
        storm(guest, 5000)
        suspend(guest)
        vhost.wait_for_agent(ctx, guest)
    offered = storm(guest, 5000)
    guest.run("rmmod tracebraid_virtio")
    ctx.check(NOT_GIVEN_BACK not in guest.console(), "the agent has not returned the memory")
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, capture)
    ctx.equal(len({ring["incarnation"] for ring in sums["rings"]}), 3, "streams in the capture")
    ctx.equal((sums["lost"], sums["left"]), (0, 0), "events lost and left")
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    check_storm(ctx, lines, "g1", offered)


# Fields of a line that differ: names, times, and its number, which also counts events of
# interrupts.
DIFFERS = ("stream", "pid", "ns", "bound_ns", "seq")


def tasks_events(ctx, capture):
    """The events of the storm's tasks by CPU, without the fields that differ between runs."""
    by_cpu = {}
    for line in events_of(ctx, capture):
        if line["type"] == "event" and line["event"] == "storm" and line["fields"]["context"] == 0:
            by_cpu.setdefault(line["cpu"], []).append({key: line[key] for key in line if key not in DIFFERS})
    return by_cpu


@case("transports-equal", usual=("6.1",), needs=vhost.VIRTIO_NEEDS, arm64=True)
def transports_equal(ctx):
    """The same counted work is recorded over ivshmem and over virtio: the captures differ only in names and times."""
    socket, found = ctx.dir / "tb.sock", {}
    for name in ("ivshmem", "virtio"):
        capture = ctx.dir / f"{name}.braid"
        if name == "virtio":
            agent = start_recorder(ctx, "-r", f"vhost-user:{socket}", "-e", "storm", "-o", capture)
            guest = vhost.boot(ctx, name, socket)
            load(guest)
            vhost.load_virtio(ctx, guest)
        else:
            guest = ctx.guest(name)
            guest.boot()
            load(guest)
            agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
        offered = storm(guest, 10000)
        stop_recorder(ctx, agent)
        sums = check_accounts(ctx, capture)
        ctx.equal((sums["read"], sums["lost"], sums["left"]), (offered, 0, 0), f"{name}: read, lost and left")
        found[name] = tasks_events(ctx, capture)
        ctx.equal([len(events) for events in found[name].values()], [10000, 10000], f"{name}: events of the tasks")
        guest.quit()
    for cpu, events in found["ivshmem"].items():
        for one, other in zip(events, found["virtio"][cpu]):
            ctx.equal(other, one, f"an event of CPU {cpu} over virtio, compared with ivshmem")

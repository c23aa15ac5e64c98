# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of the virtio device: the guest shares pages of its own, the agent is the device."""

import json
import signal

import host
from harness import case
from kit import (NEEDS, STORM, TREE, check_accounts, check_order, check_storm, events_of, load, offered_by,
                 start_recorder, stop_recorder, storm)
from uml import UmlGuest

VIRTIO_NEEDS = (*NEEDS, "module:tracebraid_virtio")
VIRTIO_ID = 176
# QEMU 7.2 has no front end for any device, but its one for block devices hands configuration and queues on.
BLOCK_ID = 2
# Loaded in this order; what a kernel has built in is not there.
MODULES = ("drivers/virtio/virtio_ring", "drivers/virtio/virtio", "drivers/virtio/virtio_pci_legacy_dev",
           "drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci")
NOT_GIVEN_BACK = "has not returned the memory"


def wait_for_agent(ctx, guest):
    """Till the agent has turned the storm's event on."""
    ctx.wait_until(lambda: guest.run(f"cat {TREE}/events/storm/storm/enable").strip() == "0*",
                   "the agent to turn the event on", timeout=60)


def boot_virtio(ctx, name, socket):
    """A guest in QEMU with the device, its modules loaded but for the driver's own."""
    modules = [path for path in map(ctx.kernel_module, MODULES) if path]
    mem = host.DEBUG_MEM if ctx.kernel == host.DEBUG_KERNEL else "256M"
    guest = ctx.guest(name, shm=None, initrd=ctx.initrd(*modules), mem=mem, qemu_args=(
        "-object", f"memory-backend-memfd,id=ram,size={mem},share=on", "-machine", "memory-backend=ram",
        "-chardev", f"socket,id=tb,path={socket},reconnect=1",
        "-device", "vhost-user-blk-pci,chardev=tb,num-queues=2"))
    guest.boot()
    load_modules(ctx, guest)
    return guest


def load_modules(ctx, guest):
    """What a virtio device needs of the kernel's own."""
    for path in filter(None, map(ctx.kernel_module, MODULES)):
        guest.insmod(path.stem)


@case("virtio-uml", kernels=(host.UML_KERNEL,), needs=VIRTIO_NEEDS)
def virtio_uml(ctx):
    """User-mode Linux: recorded through the device, unloaded, loaded again; no event is lost, and the memory comes back."""
    socket, capture = ctx.dir / "tb.sock", ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", f"vhost-user:{socket}", "-e", "storm", "-o", capture)
    guest = ctx.adopt(UmlGuest(ctx, "uml", devices=((socket, VIRTIO_ID),)))
    guest.boot()
    guest.insmod("tracebraid")
    guest.insmod("storm")
    for parameter in ("virtio_size_mb=8", ""):
        guest.insmod("tracebraid_virtio", parameter)
        wait_for_agent(ctx, guest)
        offered = storm(guest, 5000)
        guest.run("rmmod tracebraid_virtio")
    ctx.check(NOT_GIVEN_BACK not in guest.console(), "the agent has kept the memory")
    ctx.equal(guest.console().count("in 8192 KiB of shared memory"), 1, "how often virtio_size_mb was heeded")
    ctx.equal(guest.console().count("released"), 2, "how often the memory was released")
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, capture)
    ctx.equal(len({ring["incarnation"] for ring in sums["rings"]}), 2, "streams in the capture")
    ctx.equal(sums["lost"], 0, "lost events")
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    found = check_storm(ctx, lines, "uml", offered)
    ctx.check(all(found[context] for context in ("task", "hrtimer", "softirq")), f"contexts found: {found}")


def load_virtio(ctx, guest):
    """The driver's module for virtio, and the event that the agent turns on."""
    guest.insmod("tracebraid_virtio", f"virtio_id={BLOCK_ID}")
    wait_for_agent(ctx, guest)


def read_so_far(ctx, capture):
    """Events that a capture holds of which the recording goes on."""
    text = ctx.run_agent("stat", "--json", capture, status=None).stdout
    return sum(ring["found"] for ring in json.loads(text)["rings"]) if text.strip() else 0


def is_connected(guest):
    """Whether QEMU has a backend."""
    names = [one["filename"] for one in guest.qmp("query-chardev") if one["label"] == "tb"]
    return not names[0].startswith("disconnected")


def missing_of(lines):
    """Events that a report says were lost."""
    return sum(line.get("lost") or line.get("events", 0) for line in lines if line["type"] == "lost")


@case("virtio-qemu", usual=("6.12",), needs=VIRTIO_NEEDS)
def virtio_qemu(ctx):
    """In QEMU: the agent killed and started again takes up the same memory; it gives it back; a killed guest is read."""
    socket = ctx.dir / "tb.sock"
    captures = [ctx.dir / f"{number}.braid" for number in range(3)]
    options = ("-r", f"vhost-user:{socket}", "-e", "storm")
    agent = start_recorder(ctx, *options, "-o", captures[0])
    guest = boot_virtio(ctx, "g1", socket)
    load(guest)
    load_virtio(ctx, guest)
    interrupts = guest.run("grep virtio0-notify /proc/interrupts").split()[1:1 + guest.smp]
    ctx.check(sum(map(int, interrupts)) > 0, "the agent has not had the guest look")
    job = guest.bg(f"echo 10000 > {STORM}/run")
    ctx.wait_until(lambda: read_so_far(ctx, captures[0]) > 1000, "1000 events that the first agent has read")
    agent.send_signal(signal.SIGKILL)
    agent.wait(timeout=30)
    ctx.equal(job.wait(timeout=120), 0, "status of the storm")
    offered = storm(guest, 10000)
    agent = start_recorder(ctx, *options, "-o", captures[1])
    # QEMU comes back to it after a second.
    ctx.wait_until(lambda: read_so_far(ctx, captures[1]), "the second agent to read")
    guest.run("rmmod tracebraid_virtio")
    ctx.check(NOT_GIVEN_BACK not in guest.console(), "the agent has kept the memory")

    # With nobody there who could give them back, the reset ends it.
    load_virtio(ctx, guest)
    stop_recorder(ctx, agent)
    lines = events_of(ctx, *captures[:2])
    check_order(ctx, lines)
    # What the killed agent had taken and not written is found by its successor; the rings lost nothing.
    check_storm(ctx, lines, "g1", offered)
    ctx.equal(missing_of(lines), 0, "events missing from both captures together")
    ctx.equal(check_accounts(ctx, captures[1])["lost"], 0, "events that the rings lost")
    guest.run("rmmod tracebraid_virtio")
    ctx.check(NOT_GIVEN_BACK not in guest.console(), "memory was lost though nobody has it")

    agent = start_recorder(ctx, *options, "-o", captures[2])
    # A driver that starts while QEMU has no backend ends its tries to find one.
    ctx.wait_until(lambda: is_connected(guest), "QEMU to come back to the agent")
    load_virtio(ctx, guest)
    guest.bg(f"echo 1000000 > {STORM}/run")
    ctx.wait_until(lambda: read_so_far(ctx, captures[2]) > 5000, "5000 more events that were read")
    guest.kill()
    ctx.equal(agent.wait(timeout=60), 0, "status of the recorder, whose only guest has gone")
    sums = check_accounts(ctx, captures[2])
    ctx.check(sums["read"] > 5000, f"of a guest that was killed too little was read: {sums}")
    ctx.equal(sums["left"], 0, "events of a killed guest that were left")


@case("virtio-gone", usual=("6.12",), needs=VIRTIO_NEEDS)
def virtio_gone(ctx):
    """The guest is reset, then the device unplugged in full work: recording goes on, and nothing is lost."""
    socket, capture = ctx.dir / "tb.sock", ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", f"vhost-user:{socket}", "-e", "storm", "-o", capture)
    guest = boot_virtio(ctx, "g1", socket)
    load(guest)
    load_virtio(ctx, guest)
    offered = storm(guest, 5000)
    guest.reset()
    load_modules(ctx, guest)
    load(guest)
    load_virtio(ctx, guest)
    job = guest.bg(f"echo 50000 > {STORM}/run")
    ctx.wait_until(lambda: read_so_far(ctx, capture) > offered + 5000, "5000 events of the second boot")
    device = next(one["name"] for one in guest.qmp("qom-list", path="/machine/peripheral-anon")
                  if "vhost-user" in one["type"])
    guest.qmp("device_del", id=f"/machine/peripheral-anon/{device}")
    ctx.wait_until(lambda: "released" in guest.console(), "the driver to let go of the device")
    ctx.equal(job.wait(timeout=120), 0, "status of the storm")
    ctx.check(NOT_GIVEN_BACK not in guest.console(), "the agent has kept the memory")
    offered += offered_by(guest)
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, capture)
    ctx.equal(len({ring["incarnation"] for ring in sums["rings"]}), 2, "streams in the capture")
    ctx.equal((sums["read"], sums["lost"], sums["left"]), (offered, 0, 0), "read, lost and left")


@case("virtio-sleep", usual=("6.1",), needs=VIRTIO_NEEDS)
def virtio_sleep(ctx):
    """The guest sleeps and wakes: the memory is given back before, and shared anew behind it; nothing is lost."""
    socket, capture = ctx.dir / "tb.sock", ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", f"vhost-user:{socket}", "-e", "storm", "-o", capture)
    guest = boot_virtio(ctx, "g1", socket)
    load(guest)
    load_virtio(ctx, guest)
    for _ in range(2):
        storm(guest, 5000)
        # The kernel's own test: all devices are put to sleep, and at once awake.
        guest.run("echo devices > /sys/power/pm_test; echo 0 > /sys/module/suspend/parameters/pm_test_delay; "
                  "echo freeze > /sys/power/state")
        wait_for_agent(ctx, guest)
    offered = storm(guest, 5000)
    guest.run("rmmod tracebraid_virtio")
    ctx.check(NOT_GIVEN_BACK not in guest.console(), "the agent has kept the memory")
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, capture)
    ctx.equal(len({ring["incarnation"] for ring in sums["rings"]}), 3, "streams in the capture")
    ctx.equal((sums["lost"], sums["left"]), (0, 0), "events lost and left")
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    check_storm(ctx, lines, "g1", offered)


# Of a line: names, times, and its number among events that interrupts recorded in between.
DIFFERS = ("stream", "pid", "ns", "bound_ns", "seq")


def tasks_events(ctx, capture):
    """The events that the storm's tasks recorded, by CPU, without what differs from one run to the next."""
    by_cpu = {}
    for line in events_of(ctx, capture):
        if line["type"] == "event" and line["event"] == "storm" and line["fields"]["context"] == 0:
            by_cpu.setdefault(line["cpu"], []).append({key: line[key] for key in line if key not in DIFFERS})
    return by_cpu


@case("transports-equal", usual=("6.1",), needs=VIRTIO_NEEDS)
def transports_equal(ctx):
    """The same counted work through ivshmem and through virtio: the captures differ in names and times alone."""
    socket, found = ctx.dir / "tb.sock", {}
    for name in ("ivshmem", "virtio"):
        capture = ctx.dir / f"{name}.braid"
        if name == "virtio":
            agent = start_recorder(ctx, "-r", f"vhost-user:{socket}", "-e", "storm", "-o", capture)
            guest = boot_virtio(ctx, name, socket)
            load(guest)
            load_virtio(ctx, guest)
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
            ctx.equal(other, one, f"an event of CPU {cpu} through virtio, as it is through ivshmem")

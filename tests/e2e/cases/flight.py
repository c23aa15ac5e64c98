# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of flight recorders, and of what is recovered of guests that are dead."""

from harness import case
from kit import (NEEDS, TREE, check_accounts, check_order, check_storm, events_of, load, start_recorder, stop_recorder,
                 storm)

FLIGHT_NEEDS = (*NEEDS, "module:subevents", "module:tracebraid_virtio")
# As in virtio.py: QEMU 7.2's front end for block devices hands configuration and queues on.
BLOCK_ID = 2
MODULES = ("drivers/virtio/virtio_ring", "drivers/virtio/virtio", "drivers/virtio/virtio_pci_legacy_dev",
           "drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci")
# Taken without being asked for, as often as there is cause.
EAGER = ("--hold-off=0.001", "--on-count=100")


def missing_of(lines):
    """Events that a report says were lost."""
    return sum(line.get("lost") or line.get("events", 0) for line in lines if line["type"] == "lost")


def without_times(lines):
    """A report's events, for two that place the same guest by different clocks."""
    return sorted(str([line[key] for key in ("cpu", "event", "pid", "seq", "fields")])
                  for line in lines if line["type"] == "event")


def dump(guest, path, **options):
    """What `virsh dump --memory-only` does."""
    guest.qmp("dump-guest-memory", paging=False, protocol=f"file:{path}", **options)
    return path


def recover(ctx, source, name):
    """Recovers, and checks the capture; its lines."""
    capture = ctx.dir / f"{name}.braid"
    ctx.run_agent("recover", source, "-o", capture)
    sums = check_accounts(ctx, capture)
    ctx.equal(sums["left"], 0, f"{name}: events left")
    return events_of(ctx, capture)


@case("flight", usual=("6.1",), needs=FLIGHT_NEEDS)
def flight(ctx):
    """A flight recorder: a snapshot asked for, one for an event; then the guest dies, and the rest is recovered."""
    guest = ctx.guest(initrd=ctx.initrd())
    guest.boot()
    load(guest, "overwrite=1")
    prefix, asked, by_event = ctx.dir / "f.braid", ctx.dir / "asked.braid", ctx.dir / "f-1.braid"
    agent = start_recorder(ctx, "--snapshot", "-r", guest.shm, "-e", "storm", "--on", "module:module_load", *EAGER,
                           "-o", prefix)
    storm(guest, 2000)
    ctx.run_agent("snapshot", "-o", asked, str(agent.pid))
    storm(guest, 2000)
    guest.insmod("subevents")
    agent.wait_line(r"f-1\.braid: .*module:module_load", timeout=30)
    # From here on by the guest's own wish, and nobody is there who takes it.
    guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
    stop_recorder(ctx, agent)
    offered = storm(guest, 2000)
    elf = dump(guest, ctx.dir / "g1.elf")
    guest.kill()

    for capture in (asked, by_event):
        check_accounts(ctx, capture)
    (stream,) = (line for line in events_of(ctx, asked) if line["type"] == "stream")
    ctx.check(stream["clock"] in ("exchange", "kvm"), f"a snapshot's clock: {stream['clock']}")
    rest = recover(ctx, guest.shm, "shm")
    ctx.equal(without_times(recover(ctx, elf, "elf")), without_times(rest), "events in the dump, and in the file")
    lines = events_of(ctx, asked, by_event, ctx.dir / "shm.braid")
    check_order(ctx, lines)
    check_storm(ctx, lines, "g1", offered, missing_of(lines))
    ctx.equal(missing_of(rest), 0, "events lost behind the last snapshot")


@case("flight-dump", usual=("6.1",), needs=FLIGHT_NEEDS)
def flight_dump(ctx):
    """The region is in pages of the guest's own: found in dumps of its memory, ELF and compressed."""
    socket, mem = ctx.dir / "tb.sock", "192M"
    # A guest that is halted for its dump takes its memory back: nothing is to be taken from it then.
    agent = start_recorder(ctx, "--snapshot", "-r", f"vhost-user:{socket}", "-e", "storm", "--on-count=0")
    modules = [path for path in map(ctx.kernel_module, MODULES) if path]
    guest = ctx.guest(shm=None, initrd=ctx.initrd(*modules), mem=mem, qemu_args=(
        "-object", f"memory-backend-memfd,id=ram,size={mem},share=on", "-machine", "memory-backend=ram",
        "-chardev", f"socket,id=tb,path={socket},reconnect=1",
        "-device", "vhost-user-blk-pci,chardev=tb,num-queues=2"))
    guest.boot()
    for path in modules:
        guest.insmod(path.stem)
    load(guest, "overwrite=1")
    guest.insmod("tracebraid_virtio", f"virtio_id={BLOCK_ID}")
    ctx.wait_until(lambda: guest.run(f"cat {TREE}/events/storm/storm/enable").strip() == "0*",
                   "the agent to turn the event on", timeout=60)
    offered = storm(guest, 3000)
    lines = [recover(ctx, dump(guest, ctx.dir / "v.elf"), "elf"),
             recover(ctx, dump(guest, ctx.dir / "v.kdump", format="kdump-zlib"), "kdump")]
    check_storm(ctx, lines[0], "g1", offered)
    ctx.equal(without_times(lines[1]), without_times(lines[0]), "events in the compressed dump, and in the plain one")
    ctx.check("not taken: the limit of --on-count is reached" in agent.output(), "what was left out was not told")
    guest.kill()
    ctx.equal(agent.wait(timeout=60), 0, "status of the recorder, whose only guest has gone")

# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of flight recorders, and of recovery from dead guests."""

import vhost
from harness import case
from kit import (TREE, check_accounts, check_order, check_storm, events_of, load, start_recorder, stop_recorder,
                 storm)

FLIGHT_NEEDS = (*vhost.VIRTIO_NEEDS, "module:subevents")
# Snapshots on events, with almost no minimum interval between them.
EAGER = ("--hold-off=0.001", "--on-count=100")


def missing_of(lines):
    """The number of events that a report states as lost."""
    return sum(line.get("lost") or line.get("events", 0) for line in lines if line["type"] == "lost")


def without_times(lines):
    """A report's events without times, to compare two reports with different clocks of the same guest."""
    return sorted(str([line[key] for key in ("cpu", "event", "pid", "seq", "fields")])
                  for line in lines if line["type"] == "event")


def dump(guest, path, **options):
    """Dumps the guest's memory, as `virsh dump --memory-only` does."""
    guest.qmp("dump-guest-memory", paging=False, protocol=f"file:{path}", **options)
    return path


def recover(ctx, source, name):
    """Runs recover and checks the capture; returns its lines."""
    capture = ctx.dir / f"{name}.braid"
    ctx.run_agent("recover", source, "-o", capture)
    sums = check_accounts(ctx, capture)
    ctx.equal(sums["left"], 0, f"{name}: events left")
    return events_of(ctx, capture)


@case("flight", usual=("6.1",), needs=FLIGHT_NEEDS, arm64=True)
def flight(ctx):
    """A flight recorder takes one snapshot on request and one on an event; recover reads the rest of the dead guest."""
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
    # From here on the guest enables its own events, and no agent reads them.
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
    ctx.equal(missing_of(rest), 0, "events lost after the last snapshot")


@case("flight-dump", usual=("6.1",), needs=FLIGHT_NEEDS, arm64=True)
def flight_dump(ctx):
    """A region in the guest's own pages is found in dumps of its memory, both ELF and compressed."""
    socket = ctx.dir / "tb.sock"
    # A guest that is halted for its dump takes its memory back: no snapshot can be taken of it then.
    agent = start_recorder(ctx, "--snapshot", "-r", f"vhost-user:{socket}", "-e", "storm", "--on-count=0")
    guest = vhost.boot(ctx, "g1", socket, mem="192M")
    load(guest, "overwrite=1")
    vhost.load_virtio(ctx, guest)
    offered = storm(guest, 3000)
    lines = [recover(ctx, dump(guest, ctx.dir / "v.elf"), "elf"),
             recover(ctx, dump(guest, ctx.dir / "v.kdump", format="kdump-zlib"), "kdump")]
    check_storm(ctx, lines[0], "g1", offered)
    ctx.equal(without_times(lines[1]), without_times(lines[0]), "events in the compressed dump, and in the plain one")
    ctx.check("not taken: the limit of --on-count is reached" in agent.output(),
              "the limit of --on-count is not reported")
    guest.kill()
    ctx.equal(agent.wait(timeout=60), 0, "status of the recorder, whose only guest has gone")

# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of flight recorders, and of recovery from dead guests."""

import vhost
from harness import case
from kit import (NEEDS, STORM, TREE, check_accounts, check_order, check_storm, events_of, intact_storm, load,
                 offered_by, start_recorder, stop_recorder, storm, up)

FLIGHT_NEEDS = (*vhost.VIRTIO_NEEDS, "module:subevents")
# Snapshots on events, with almost no minimum interval between them.
EAGER = ("--hold-off=0.001", "--on-count=100")
NESTED = 256  # events at most that count as offered while the event that they interrupted is not committed, or reverse


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
    prefix, asked = ctx.dir / "f.braid", ctx.dir / "asked.braid"
    agent = start_recorder(ctx, "--snapshot", "-r", guest.shm, "-e", "storm", "--on", "module:module_load", *EAGER,
                           "-o", prefix)
    storm(guest, 2000)
    ctx.run_agent("snapshot", "-o", asked, str(agent.pid))
    storm(guest, 2000)
    guest.insmod("subevents")
    agent.wait_line(r"f-\d+\.braid: .*module:module_load", timeout=30)
    # From here on the guest enables its own events, and no agent reads them.
    guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
    stop_recorder(ctx, agent)
    offered = storm(guest, 2000)
    elf = dump(guest, ctx.dir / "g1.elf")
    guest.kill()

    by_event = list(ctx.dir.glob("f-*.braid"))  # several if the guest got no CPU for seconds: of its silence, too
    for capture in (asked, *by_event):
        check_accounts(ctx, capture)
    (stream,) = (line for line in events_of(ctx, asked) if line["type"] == "stream")
    ctx.check(stream["clock"] in ("exchange", "kvm"), f"a snapshot's clock: {stream['clock']}")
    rest = recover(ctx, guest.shm, "shm")
    ctx.equal(without_times(recover(ctx, elf, "elf")), without_times(rest), "events in the dump, and in the file")
    lines = events_of(ctx, asked, *by_event, ctx.dir / "shm.braid")
    check_order(ctx, lines)
    check_storm(ctx, lines, "g1", offered, missing_of(lines))
    ctx.equal(missing_of(rest), 0, "events lost after the last snapshot")


@case("flight-dump", usual=("6.1",), needs=FLIGHT_NEEDS, arm64=True)
def flight_dump(ctx):
    """A region in the guest's own pages is found in dumps of its memory, both ELF and compressed."""
    socket = ctx.dir / "tb.sock"
    # A guest that is halted for its dump takes its memory back: no snapshot can be taken of it
    # then.
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


def copy_running(ctx, guest, name):
    """Recovers the region of a running guest, and checks the copy; returns its events by place, and its sums."""
    capture = ctx.dir / f"{name}.braid"
    running = "the guest is running: later events are not in this capture"
    before = after = None

    def copied():
        nonlocal before, after
        before = offered_by(guest)
        done = ctx.run_agent("recover", guest.shm, "-o", capture)
        after = offered_by(guest)
        return f"g1: {running}" in done.stderr

    ctx.wait_until(copied, "recover to see that the guest runs")  # for a moment only
    sums, lines = check_accounts(ctx, capture), events_of(ctx, capture)
    ctx.check(any(line["type"] == "note" and running in line["text"] for line in lines), "the capture has no note")
    check_order(ctx, lines)
    seen = intact_storm(ctx, lines, "g1")
    ctx.equal((len(seen), sums["left"]), (sums["read"], 0), f"{name}: events read, and left")
    count = sums["before"] + sums["written"]
    ctx.check(before - NESTED <= count <= after + NESTED, f"{name}: {count} of {before} to {after} events")
    return {(line["cpu"], line["seq"]): line["fields"] for line in lines if line["type"] == "event"}, sums


@case("recover-running", usual=("6.1",), needs=NEEDS, arm64=True)
def recover_running(ctx):
    """Copies of a running guest's region, under load and while it is recorded, are valid, and take nothing."""
    guest = up(ctx, parameters="overwrite=1 ring_size_kb=512")
    guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
    work = guest.bg(f"until [ -e /tmp/stop ]; do echo 100 > {STORM}/run; done", timeout=120)
    ctx.wait_until(lambda: offered_by(guest) > 1000, "events")
    copies = [copy_running(ctx, guest, f"alone-{k}") for k in range(3)]
    ctx.check(all(sums["read"] > 0 for _, sums in copies), "a copy without events")

    recording = ctx.dir / "r.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "--backlog", "-o", recording)
    copies += [copy_running(ctx, guest, f"recorded-{k}") for k in range(3)]
    guest.run("touch /tmp/stop")
    ctx.equal(work.wait(timeout=120), 0, "status of the load")
    stop_recorder(ctx, agent)
    sums, lines = check_accounts(ctx, recording), events_of(ctx, recording)
    check_storm(ctx, lines, "g1", offered_by(guest), sums["lost"])
    places = {(line["cpu"], line["seq"]): line["fields"] for line in lines if line["type"] == "event"}
    for events, _ in copies:
        for place in events.keys() & places.keys():
            ctx.equal(events[place], places[place], f"the event at {place}, in a copy and in the recording")
    both = len(set().union(*(events for events, _ in copies[3:])) & places.keys())
    print(f"  events in copies: {[sums['read'] for _, sums in copies]}; {len(places)} recorded, {both} of them copied before")

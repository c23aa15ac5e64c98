# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of recording: guests and their host are recorded and merged, and every event is accounted for."""

import json
import os
import pathlib
import re
import signal

from harness import case
from kit import (NEEDS, TREE, check_accounts, check_order, check_storm, events_of, intact_storm, load, lost_by_guests,
                 record_once, region_accounts, start_recorder, stop_recorder, storm, undrained, up,
                 wait_confirmed)
from rig import boot_all


@case("record", needs=NEEDS, arm64=True)
def record(ctx):
    """Two guests and their host are recorded: events are interleaved in order, none is lost, and all counts add up."""
    guests = [ctx.guest("alpha"), ctx.guest("beta")]
    boot_all(guests)
    for guest in guests:
        load(guest)

    def listed():
        found = json.loads(ctx.run_agent("list", "--json", *(guest.shm for guest in guests)).stdout)
        return [(one["guest"], one["driver"], one["vcpus"]) for one in found]

    # A guest that got no CPU for a second is silent.
    ctx.wait_until(lambda: listed() == [("alpha", "live", 2), ("beta", "live", 2)], "list to show both guests")
    exported, capture = ctx.dir / "x", ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guests[0].shm, "-r", f"{guests[1].shm},name=renamed", "-e", "storm",
                           "-e", "sched:sched_sw*", "--try-host", "--to", "ctf", "-o", exported)
    jobs = [guest.bg("echo 20000 > /sys/kernel/debug/storm/run") for guest in guests]
    for job in jobs:
        ctx.equal(job.wait(timeout=120), 0, "status of the storm")
    stop_recorder(ctx, agent)
    ctx.check({"alpha", "renamed"} <= {path.parent.name for path in exported.glob("*/metadata")},
              "--to ctf did not write a trace of each guest")
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    for guest, stream in zip(guests, ("alpha", "renamed")):
        check_storm(ctx, lines, stream, int(guest.run("cat /sys/kernel/debug/storm/offered")))
        ctx.wait_until(lambda guest=guest: guest.run(f"cat {TREE}/events/sched/sched_switch/enable") == "0\n",
                       "sched_switch to be disabled")
    names = {line["event"] for line in lines if line["type"] == "event" and line["stream"] == "alpha"}
    ctx.equal(names, {"storm", "sched_switch"}, "events recorded of alpha")
    streams = [line["stream"] for line in lines if line["type"] == "event"]
    ctx.check(sum(a != b for a, b in zip(streams, streams[1:])) > 100, "the streams are not interleaved")
    ctx.equal(lost_by_guests(check_accounts(ctx, capture)), 0, "lost events")
    if "host" in agent.output().splitlines()[0] and "without the host" not in agent.output():
        ctx.check("host" in streams, "the report has no event of the host")
    text = ctx.run_agent("report", capture, timeout=120).stdout
    ctx.check("alpha: " in text and "clock exchange" in text, "the text report lacks a stream or its clock")


@case("record-rotate", usual=("6.1",), needs=NEEDS, arm64=True)
def record_rotate(ctx):
    """--rotate: each file is a complete capture, all together are the recording: in order, without a gap or a loss."""
    alpha, beta = ctx.guest("alpha"), ctx.guest("beta")
    boot_all([alpha, beta])
    load(alpha)
    agent = start_recorder(ctx, "--rotate=1M,1h", "-r", alpha.shm, "-r", beta.shm, "-e", "storm", "--try-host",
                           "-o", ctx.dir / "x.braid", confirm=False)

    def files():
        return sorted(ctx.dir.glob("x-*.braid"), key=lambda path: int(path.stem[2:]))

    def grows(reason, act):
        before = len(files())
        act()
        ctx.wait_until(lambda: len(files()) > before, f"a file that begins because {reason}", timeout=60)

    grows("a guest came", lambda: load(beta))
    # A busy host fills a file, too, so that does not say that the guest has come.
    ctx.wait_until(lambda: storm(beta, 1), "beta's storm to be enabled", timeout=60)
    wait_confirmed(ctx, agent)
    offered = {guest.name: storm(guest, 20000) for guest in (alpha, beta)}
    ctx.wait_until(lambda: len(files()) > 3, "files of 1 MiB", timeout=60)
    grows("a signal asks for it", lambda: agent.send_signal(signal.SIGUSR1))
    offered["alpha"] = storm(alpha, 20000)
    stop_recorder(ctx, agent)
    ctx.check(f"{len(files())} files, the last one {files()[-1]}" in agent.output(), f"said: {agent.output()}")
    for path in files():
        check_accounts(ctx, path)
    lines = events_of(ctx, *files())
    check_order(ctx, lines)
    for name, number in offered.items():
        check_storm(ctx, lines, name, number)
    edges = [line["text"] for line in lines if line["type"] == "note" and line["text"].startswith("the recording ")]
    ctx.equal(edges, ["the recording starts", "the recording stops"], "edges of the recording in all files")
    notes = [line["text"] for line in events_of(ctx, files()[1]) if line["type"] == "note"]
    ctx.check({"the recording starts", "the recording stops"} <= set(notes), f"edges of one file: {notes}")

    # A later recording goes on after these numbers, and removes what it is not to keep.
    last = int(files()[-1].stem[2:])
    agent = start_recorder(ctx, "--rotate=1M", "--keep=2", "-r", alpha.shm, "-e", "storm", "-f", "CPU < 99",
                           "-o", ctx.dir / "x.braid")
    before = offered["alpha"]
    offered["alpha"] = storm(alpha, 30000)
    stop_recorder(ctx, agent)
    # A filter's account is not known before the end; each file has a row for it.
    accounts = [[row["offered"] for row in check_accounts(ctx, path)["filters"]] for path in files()]
    ctx.equal(accounts, [[None], [offered["alpha"] - before]], "events offered to the filter, by the files that are left")
    numbers = [int(path.stem[2:]) for path in files()]
    ctx.check(len(numbers) == 2 and numbers[1] == numbers[0] + 1 > last, f"kept: {numbers} after {last}")


@case("record-compressed", usual=("6.1",), needs=NEEDS, arm64=True)
def record_compressed(ctx):
    """-z: a guest and the host are recorded into a packed capture: smaller, every event in it, read as its plain bytes."""
    guest = up(ctx)
    capture, plain, again = ctx.dir / "x.braid", ctx.dir / "plain.braid", ctx.dir / "again.braid"
    agent = start_recorder(ctx, "-z", "-r", guest.shm, "-e", "storm", "--try-host", "-o", capture)
    offered = storm(guest, 20000)
    stop_recorder(ctx, agent)
    ctx.check("MB (before compression) in" in agent.output(), f"of the size: {agent.output()}")
    ctx.equal(lost_by_guests(check_accounts(ctx, capture)), 0, "lost events")
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    check_storm(ctx, lines, "g1", offered)
    ctx.run_agent("unpack", capture, "-o", plain)
    ctx.check(capture.stat().st_size < plain.stat().st_size,
              f"{capture.stat().st_size} bytes are not less than {plain.stat().st_size}")
    ctx.run_agent("pack", plain, "-o", again)
    ctx.check(again.read_bytes() == capture.read_bytes(), "packing the plain capture makes another file")
    ctx.equal(ctx.run_agent("report", "--json", plain).stdout.splitlines()[1:],
              ctx.run_agent("report", "--json", capture).stdout.splitlines()[1:], "report of both")
    for option in ("--live", "--snapshot"):
        done = ctx.run_agent("record", "-z", option, "-r", guest.shm, "-o", capture, status=1)
        ctx.check(f"--compress cannot be combined with {option}" in done.stderr, f"of {option}: {done.stderr}")


def accounts_of(line):
    """The accounting of a stream in a line of JSON or of text."""
    if isinstance(line, str):
        return tuple(map(int, re.search(r"written (\d+) = read (\d+) \+ lost (\d+) \+ left (\d+)", line).groups()))
    return tuple(line[key] for key in ("written", "read", "lost", "left"))


@case("window", usual=("6.12",), needs=NEEDS, arm64=True)
def window(ctx):
    """Events before the start or after the stop are not counted; header, --stats, HTML page and stat agree."""
    guest = up(ctx, parameters="ring_size_kb=64")
    guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
    before = storm(guest, 20000)  # far more than fits in a ring
    guest.run(f"echo 0 > {TREE}/events/storm/storm/enable")
    capture = ctx.dir / "x.braid"
    done = record_once(ctx, "-r", guest.shm, "-e", "storm", "-o", capture, "--", "true")
    ctx.check(re.search(r"g1 +0 events, 0 lost", done.stderr), f"of a command that does nothing: {done.stderr}")
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "--try-host", "-o", capture)
    offered = storm(guest, 500) - before
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, capture)
    lines = events_of(ctx, capture)
    streams = {line["stream"]: accounts_of(line) for line in lines if line["type"] == "stream"}
    ctx.equal(streams["g1"][0], offered, "events that the header says were written")
    recorded = next(line["recorded"] for line in lines if line["type"] == "header")
    (times,) = [(one["start_ns"], one["stop_ns"]) for one in recorded]
    for line in lines:
        if line["type"] == "event":
            bound = line["bound_ns"] or 0
            # The host's tracing starts first.
            ctx.check((line["stream"] == "host" or times[0] - bound <= line["ns"]) and line["ns"] <= times[1] + bound,
                      f"{line} is not within {times}")
    notes = [(line["text"], line["ns"]) for line in lines if line["type"] == "note" and "the recording st" in line["text"]]
    ctx.equal(notes, [("the recording starts", times[0]), ("the recording stops", times[1])], "notes of start and stop")
    found = {name: sum(line["type"] == "event" and line["stream"] == name for line in lines) for name in streams}
    ctx.equal(found, {name: account[1] for name, account in streams.items()}, "events in the report")
    text = ctx.run_agent("report", capture).stdout
    stats = ctx.run_agent("report", "--stats", capture).stdout
    stats_json = json.loads(ctx.run_agent("report", "--stats", "--json", capture).stdout)
    for name, account in streams.items():
        ctx.equal(accounts_of(text[text.index(f"# {name}: Linux"):]), account, f"{name}: accounting in the text")
        ctx.equal(accounts_of(stats[stats.index(f"# {name}: written"):]), account, f"{name}: accounting of --stats")
        one = next(one for one in stats_json["streams"] if one["stream"] == name)
        ctx.equal(accounts_of(one), account, f"{name}: accounting of --stats in JSON")
        rings = [ring for ring in sums["rings"] if ring["stream"] == name]
        ctx.equal(tuple(sum(ring[key] for ring in rings) for key in ("written", "read", "lost", "left")), account,
                  f"{name}: accounting of stat")
    ctx.equal((sums["found"], stats_json["events"]), (sum(found.values()),) * 2, "events of stat and --stats")


@case("no-consumer", usual=("6.12",), needs=NEEDS, arm64=True)
def no_consumer(ctx):
    """Without a reader, the events left and lost are counted exactly in both modes; a later reader gets those left."""
    for name, parameters in (("keep-oldest", "ring_size_kb=64"), ("keep-newest", "ring_size_kb=64 overwrite=1"),
                             ("absolute", "ring_size_kb=64 overwrite=1 absolute=1 subbuf_size=1024")):
        guest = up(ctx, name, parameters)
        guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
        offered = storm(guest, 20000)
        guest.run(f"echo 0 > {TREE}/events/storm/storm/enable")
        sums = region_accounts(ctx, guest)
        ctx.equal(sums["written"], offered, f"{name}: events written")
        ctx.equal(sums["read"], 0, f"{name}: events read without a reader")
        ctx.check(sums["left"] > 100 and sums["lost"] > 100, f"{name}: the ring was not lapped: {sums}")
        ctx.run_agent("verify", guest.shm)

        capture = ctx.dir / f"{name}.braid"
        agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "--backlog", "-o", capture)
        stop_recorder(ctx, agent)
        lines = events_of(ctx, capture)
        after = region_accounts(ctx, guest)
        check_storm(ctx, lines, name, offered, after["lost"])
        ctx.equal(after["left"], 0, f"{name}: events left after all were read")
        check_accounts(ctx, capture)
        guest.quit()


@case("reload", usual=("6.12",), needs=NEEDS, arm64=True)
def reload_under_load(ctx):
    """The driver is unbound and bound again under full load during a recording: each event is read or counted as lost.

    Unless the driver gave up on the agent, which did not run for so long; its log has that then.

    The device is unbound because the storm module holds the driver. Its events patch no code, see docs/testing.md.
    """
    guest = up(ctx)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    work = guest.bg("until [ -e /tmp/stop ]; do echo 5000 4 > /sys/kernel/debug/storm/run; done")
    bus = "/sys/bus/pci/drivers/tracebraid"
    device = guest.run(f"cd {bus} && echo 0000:*").strip()
    for _ in range(3):
        ctx.wait_until(lambda: region_written(ctx, guest) > 2000, "2000 events of this incarnation")
        guest.run(f"echo {device} > {bus}/unbind; echo {device} > {bus}/bind", timeout=120)
    ctx.wait_until(lambda: region_written(ctx, guest) > 2000, "2000 events of the last incarnation")
    guest.run("touch /tmp/stop")
    ctx.equal(work.wait(timeout=120), 0, "status of the load")
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, capture)
    ctx.equal(len({ring["incarnation"] for ring in sums["rings"]}), 4, "streams in the capture")
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    if undrained(guest):
        intact_storm(ctx, lines, "g1")
    else:
        check_storm(ctx, lines, "g1", int(guest.run("cat /sys/kernel/debug/storm/offered")), sums["lost"])


@case("module-reload", usual=("6.1",), needs=("driver", "agent"), arm64=True)
def module_reload(ctx):
    """The driver's module is unloaded and reloaded during a recording: two streams, no event lost."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sched:sched_switch", "-o", capture)
    for last in (False, True):
        ctx.wait_until(lambda: region_written(ctx, guest) > 200, "200 events of this incarnation")
        if not last:
            guest.run("rmmod tracebraid", timeout=120)
            guest.insmod("tracebraid")
    stop_recorder(ctx, agent)
    sums = check_accounts(ctx, capture)
    ctx.equal((len({ring["incarnation"] for ring in sums["rings"]}), sums["lost"]), (2, 0), "streams, lost events")


def region_written(ctx, guest):
    """The number of events that the region's current incarnation has written, or 0 while it is set up."""
    done = ctx.run_agent("stat", "--json", guest.shm, status=None)
    return json.loads(done.stdout)["written"] if done.stdout.strip() else 0


@case("reboot", usual=("6.12",), needs=NEEDS, arm64=True)
def reboot(ctx):
    """The guest reboots during a recording: the recording continues, and both boots are in the capture."""
    guest = up(ctx)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    first = storm(guest, 5000)
    guest.reset()
    load(guest)
    ctx.wait_until(lambda: guest.run(f"cat {TREE}/events/storm/storm/enable").strip() == "0*",
                   "the agent to enable the event again", timeout=60)
    second = storm(guest, 5000)
    stop_recorder(ctx, agent)
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    streams = [line for line in lines if line["type"] == "stream"]
    ctx.equal([one["read"] for one in streams], [first, second], "events of the two boots")
    ctx.equal(check_accounts(ctx, capture)["lost"], 0, "lost events")
    ctx.equal(sum(line["type"] == "event" for line in lines), first + second, "events in the report")


@case("panic", usual=("6.1",), needs=NEEDS, allow=(r"Kernel panic", r"sysrq"), arm64=True)
def panic(ctx):
    """After a guest's panic, an agent that starts only then reads every event that was committed."""
    guest = up(ctx, append="panic=0")
    guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
    offered = storm(guest, 2000)
    guest.post("echo c >/proc/sysrq-trigger")
    ctx.wait_until(lambda: "end Kernel panic" in guest.console(), "the panic on the console")
    capture = ctx.dir / "x.braid"
    ctx.wait_until(lambda: json.loads(ctx.run_agent("list", "--json", guest.shm).stdout)[0]["driver"] == "silent",
                   "list to report the driver as silent")
    agent = start_recorder(ctx, "-r", guest.shm, "-t", "1", "--backlog", "-o", capture, confirm=False)
    ctx.equal(agent.wait(timeout=60), 3, f"status of the recorder, which printed:\n{agent.output()}\n")
    ctx.check("did not confirm the event change" in agent.output(), f"the recorder printed:\n{agent.output()}")
    check_storm(ctx, events_of(ctx, capture), "g1", offered)
    check_accounts(ctx, capture)
    guest.kill()
    ctx.equal(region_accounts(ctx, guest)["left"], 0, "events left in the dead guest's region")


@case("agent-killed", usual=("6.12",), needs=NEEDS, arm64=True)
def agent_killed(ctx):
    """The agent is killed and restarted: no event is in both captures, and the host's tracefs instance is removed."""
    guest = up(ctx)
    captures = [ctx.dir / "1.braid", ctx.dir / "2.braid"]
    options = ("-r", guest.shm, "-e", "storm", "--try-host=sched:sched_wakeup")
    first = start_recorder(ctx, *options, "-o", captures[0])
    job = guest.bg("echo 60000 > /sys/kernel/debug/storm/run")
    # The capture's size does not help here: the host's symbols alone make it large.
    ctx.wait_until(lambda: json.loads(ctx.run_agent("stat", "--json", guest.shm, status=None).stdout)["read"] > 2000,
                   "events that the first agent has read")
    first.send_signal(signal.SIGKILL)
    first.wait(timeout=30)
    second = start_recorder(ctx, *options, "--backlog", "-o", captures[1])
    ctx.equal(job.wait(timeout=120), 0, "status of the storm")
    stop_recorder(ctx, second)
    offered = int(guest.run("cat /sys/kernel/debug/storm/offered"))
    sums = region_accounts(ctx, guest)
    ctx.equal((sums["written"], sums["left"]), (offered, 0), "events written, and left")
    lines = events_of(ctx, *captures)
    check_order(ctx, lines)
    missing = sum(line.get("lost") or line.get("events", 0) for line in lines
                  if line["type"] == "lost" and line["stream"] == "g1")
    ctx.equal(missing, sums["lost"], "events missing from both captures together, and lost by the rings")
    check_storm(ctx, lines, "g1", offered, missing)
    instances = pathlib.Path("/sys/kernel/tracing/instances")
    if instances.is_dir():
        stale = [one for one in os.listdir(instances) if one.split("-")[:2] == ["tracebraid", str(first.pid)]]
        ctx.equal(stale, [], "instances left in the host's tracefs")

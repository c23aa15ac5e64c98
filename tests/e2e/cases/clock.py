# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of the clock on emulated guests: its error and first fix, and the effects of a stop, a reset and a crash."""

import collections
import json
import math
import re
import struct
import time

import cells
import qemu
from harness import case
from kit import (NEEDS, STORM, TREE, check_accounts, check_order, check_storm, events_of, load, offered_by,
                 region_accounts, start_recorder, stop_recorder, storm, up)
from rig import boot_all

SECOND = 1_000_000_000
STOOD_STILL = "the counter stood still"
SAMPLES_OF_BURST = 8  # at most: BRAID_EXCHANGE_BEST of host_agent/clock_sync/exchange.h
ABOUT_NS = 50_000_000  # until a burst succeeds, two poll samples bound how long it stood
RANK = {0: 0, 2: 1, 1: 2, 3: 3}  # of the storm's contexts: a higher level interrupts a lower one
# Bursts of events on all CPUs, few enough that each can be checked.
BURSTS = f"until [ -e /tmp/stop ]; do echo 64 4 > {STORM}/run; usleep 5000; done"


def raw_ns():
    """The current time of the clock that a capture uses."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def clock_json(ctx, subject, *arguments, **options):
    """The output of `tracebraid clock --json` for a guest or a capture: an object for each stream."""
    return json.loads(ctx.run_agent("clock", "--json", *arguments, subject, **options).stdout)["streams"]


def complaint(ctx, *arguments):
    """The one line with which `tracebraid clock` refuses its arguments."""
    done = ctx.run_agent("clock", *arguments, status=1)
    ctx.equal((done.stdout, done.stderr.count("\n")), ("", 1), f"standard output, beside the error {done.stderr!r}")
    return done.stderr


def events_in(lines, stream):
    """A stream's events."""
    return [line for line in lines if line["type"] == "event" and line["stream"] == stream]


def check_rings(ctx, events):
    """Each ring's events are in the order in which they were written."""
    last = {}
    for event in events:
        seq, ns = last.get(event["cpu"], (-1, 0))
        ctx.check(event["seq"] > seq and event["ns"] >= ns, f"{event} follows number {seq} of {ns} ns")
        last[event["cpu"]] = event["seq"], event["ns"]


# Each vCPU ring's event count at some moment: events before that number were written by host time
# `before_ns`, and events from that number on were written at or after `after_ns`.
Mark = collections.namedtuple("Mark", "written before_ns after_ns")


def counts(ctx, guest):
    """The number of events that each vCPU's ring has counted."""
    rings = json.loads(ctx.run_agent("stat", "--json", guest.shm).stdout)["rings"]
    return {ring["cpu"]: ring["written"] for ring in rings if ring["buffer"] == "trace"}


def first_counted_later(events, mark):
    """For each vCPU, the first number that cannot have been in flight at a mark.

    An event that a context has reserved but not committed delays the count of events in contexts that interrupt it.
    """
    ends, outer = {}, {}
    for event in events:
        cpu, rank = event["cpu"], RANK[event["fields"]["context"]]
        if event["seq"] < mark.written[cpu] or cpu in ends:
            continue
        if cpu in outer and rank <= outer[cpu]:
            ends[cpu] = event["seq"]
        outer.setdefault(cpu, rank)
    return {cpu: ends.get(cpu, float("inf")) for cpu in mark.written}


def misplaced(events, marks, moved_ns=0):
    """Events that, moved by moved_ns, are certainly on the wrong side of a mark, or between its two times."""
    wrong = []
    later = [first_counted_later(events, mark) for mark in marks]
    for event in events:
        early, late = event["ns"] + moved_ns - event["bound_ns"], event["ns"] + moved_ns + event["bound_ns"]
        for mark, counted_later in zip(marks, later):
            if (early > mark.before_ns and (event["seq"] < mark.written[event["cpu"]] or late < mark.after_ns) or
                    late < mark.after_ns and event["seq"] >= counted_later[event["cpu"]]):
                wrong.append((event, mark))
    return wrong


def least_noticed(events, marks):
    """The least errors of all times, backward and forward, in ns, that misplaced() would notice: how near to a mark events are.

    On a loaded machine a guest may not run for long before or after a mark.
    """
    backward, forward = [], []
    for mark in marks:
        counted_later = first_counted_later(events, mark)
        for event in events:
            if event["seq"] >= counted_later[event["cpu"]]:
                backward.append(event["ns"] + event["bound_ns"] - mark.after_ns)
            elif event["seq"] < mark.written[event["cpu"]]:
                forward.append(mark.before_ns - event["ns"] + event["bound_ns"])
    return min(backward, default=None), min(forward, default=None)


def check_placed(ctx, events, marks):
    """Checks that no event is on the wrong side of a mark, and that some would be if all were moved enough."""
    wrong = misplaced(events, marks)
    ctx.check(not wrong, f"{len(wrong)} of {len(events)} events are on the wrong side of a mark: {wrong[:3]}")
    backward, forward = least_noticed(events, marks)
    ctx.check(backward is not None and forward is not None, "no event is certainly before a mark, or none after one")
    print(f"     errors of -{backward / 1e6:.3f} and +{forward / 1e6:.3f} ms would be noticed")
    for moved_ns in (-backward - 1, forward + 1):
        ctx.check(misplaced(events, marks, moved_ns), f"events moved by {moved_ns} ns are not noticed")


@case("clock-idle", usual=("6.12",), needs=NEEDS, arm64=True)
def clock_idle(ctx):
    """An idle guest's clock has a bound, live and from a capture; a path or name without a clock is refused."""
    guest = up(ctx)
    (stream,) = clock_json(ctx, guest.shm, "-t", "4")
    ctx.equal(stream["source"], "exchange", "the clock's source")
    ctx.equal(len(stream["epochs"]), 1, "epochs")
    figures = {name: stream[f"bound_{name}_ns"] for name in ("median", "p99", "worst")}
    figures["shortest"] = stream["exchange"]["shortest_ns"]
    print(f"     bounds and shortest round trip in ns: {figures}")
    # Several samples may bound a time better than half of the shortest one does.
    ctx.check(0 < figures["median"] <= figures["p99"] <= figures["worst"] and figures["shortest"] > 0,
              f"bounds and shortest round trip: {figures}")
    text = ctx.run_agent("clock", "-t", "0.5", guest.shm).stdout
    ctx.check(re.search(r"^host: times are of mono_raw; .*^g1: exchange \(.*\), bound: median [\d.]+ .s, .*"
                        r"^  exchange: \d+ round-trip samples",
                        text, re.MULTILINE | re.DOTALL), f"the text says:\n{text}")

    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    refused = complaint(ctx, guest.shm)
    ctx.check(f"already being recorded, by process {agent.pid};" in refused, f"of a guest that is recorded: {refused}")
    storm(guest, 100)
    stop_recorder(ctx, agent)
    (stream,) = clock_json(ctx, capture)
    ctx.equal((stream["stream"], stream["source"]), ("g1", "exchange"), "the capture's stream and its source")
    ctx.check(re.search(r"^g1: exchange \(.*\), bound: ", ctx.run_agent("clock", capture).stdout, re.MULTILINE),
              "the capture's clock in text")

    for subject in ("no-such-guest", ctx.dir / "no-such.braid"):
        ctx.check(f"{subject}: no such file or region; 'tracebraid list' shows" in complaint(ctx, subject),
                  f"of {subject}: {complaint(ctx, subject)}")
    ctx.check("not a region" in complaint(ctx, guest.console_path),
              "a file that is neither region nor capture is accepted")
    ctx.check("expected a duration" in complaint(ctx, "-t", "soon", guest.shm), "an invalid time is accepted")


# A stop
# ------------------------------------------------------------------------------------------------------------

# Host times around a stop: before it was requested, when it was done; before resuming was
# requested, when it was done.
Pause = collections.namedtuple("Pause", "asked stopped resuming resumed mark")


def silences(agent, guest):
    """How often a recorder has reported that a guest is silent: also for one that got no CPU for a while."""
    return agent.output().count(f"{guest.name}: the guest has been silent since")


def pause(ctx, guest, until, what):
    """Stops a guest until until() is true of the time at which it had stopped; returns a Pause."""
    asked = raw_ns()
    guest.stop()
    stopped = raw_ns()
    ctx.wait_until(lambda: until(stopped), what)
    written = counts(ctx, guest)
    resuming = raw_ns()
    guest.cont()
    return Pause(asked, stopped, resuming, raw_ns(), Mark(written, stopped, resuming))


def run_on(ctx, guest, seconds):
    """Waits until a guest has run for so many seconds of its own counter."""
    begun = ctx.wait_until(lambda: cells.poll_sample(guest.shm), "a poll sample of the guest")[1]
    wanted = begun + seconds * cells.counter_hz(guest.shm)
    ctx.wait_until(lambda: (cells.poll_sample(guest.shm) or (0, 0))[1] > wanted, "the guest to continue")


def check_pauses(ctx, capture, lines, stream, pauses):
    """Checks that the clock has one more epoch per stop, and that no event is on the wrong side of a stop."""
    epochs = next(one for one in clock_json(ctx, capture) if one["stream"] == stream)["epochs"]
    ctx.equal([(one["cause"], one["vcpu"]) for one in epochs], [("", None)] + [(STOOD_STILL, None)] * len(pauses),
              f"{stream}'s epochs")
    notes = [line["text"] for line in lines if line["type"] == "note" and line["stream"] == stream and
             line["text"].startswith("clock:")]
    ctx.equal(len(notes), len(pauses), f"notes of {stream}'s clock, {notes}")
    for one, epoch, note in zip(pauses, epochs[1:], notes):
        found = re.search(rf"a new epoch: {STOOD_STILL} for ([\d.]+) s", note)
        ctx.check(found, f"{stream}'s note says {note!r}")
        for stood, what in ((epoch["step_ns"], "epoch"), (float(found[1]) * SECOND, "note")):
            least, most = one.resuming - one.stopped, one.resumed - one.asked
            ctx.check(least - ABOUT_NS <= stood <= most + ABOUT_NS,
                      f"{stream}'s {what} reports {stood} ns for a stop of {least} to {most} ns")
    events = events_in(lines, stream)
    check_rings(ctx, events)
    if pauses:
        check_placed(ctx, events, [one.mark for one in pauses])
    print(f"     {stream}: {len(events)} events; {notes}")


@case("clock-stop", usual=("6.1",), needs=NEEDS, arm64=True)
def clock_stop(ctx):
    """A guest is stopped twice during a recording: each stop starts an epoch; another guest keeps a single epoch."""
    alpha, beta = ctx.guest("alpha"), ctx.guest("beta")
    boot_all([alpha, beta])
    for guest in (alpha, beta):
        load(guest)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", alpha.shm, "-r", beta.shm, "-e", "storm", "-o", capture)
    jobs = [guest.bg(BURSTS) for guest in (alpha, beta)]

    run_on(ctx, alpha, 1)
    before = silences(agent, alpha)
    pauses = [pause(ctx, alpha, lambda _: silences(agent, alpha) > before, "the agent to report it silent")]
    run_on(ctx, alpha, 1.5)
    pauses.append(pause(ctx, alpha, lambda stopped: raw_ns() > stopped + SECOND, "a second of host time"))
    run_on(ctx, alpha, 1.5)
    for guest, job in zip((alpha, beta), jobs):
        guest.run("touch /tmp/stop")
        ctx.equal(job.wait(timeout=120), 0, f"status of {guest.name}'s bursts")
    stop_recorder(ctx, agent)

    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    check_pauses(ctx, capture, lines, "alpha", pauses)
    check_pauses(ctx, capture, lines, "beta", [])
    for guest in (alpha, beta):
        check_storm(ctx, lines, guest.name, offered_by(guest))
    ctx.equal(check_accounts(ctx, capture)["lost"], 0, "lost events")
    for stream in clock_json(ctx, capture):
        figures = {key: stream[key] for key in ("bound_median_ns", "bound_p99_ns", "bound_worst_ns")}
        print(f"     {stream['stream']}: {figures}")
        if stream["stream"] == "beta":
            stood = min(one.resuming - one.stopped for one in pauses)
            ctx.check(stream["bound_median_ns"] < stood // 10 and stream["bound_p99_ns"] < stood // 2,
                      f"beta's clock is affected by alpha's stops of {stood} ns: {figures}")


# A reset
# -----------------------------------------------------------------------------------------------------------

@case("clock-reset", usual=("6.12",), needs=NEEDS, arm64=True)
def clock_reset(ctx):
    """A guest is reset under load: two streams, each with its own clock, one before and one after the reset."""
    guest = up(ctx)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    guest.bg(BURSTS)
    ctx.wait_until(lambda: offered_by(guest) > 5000, "5000 events of the first boot")
    before_reset = raw_ns()
    written = counts(ctx, guest)
    mark = Mark(written, raw_ns(), before_reset)
    ctx.wait_until(lambda: all(now > written[cpu] + 1000 for cpu, now in counts(ctx, guest).items()),
                   "1000 more events of each vCPU")
    asked, epoch = raw_ns(), guest.epoch
    guest.qmp("system_reset")
    guest.wait_event("RESET")
    reset = raw_ns()
    guest.wait_reboot(epoch)
    load(guest)
    ctx.wait_until(lambda: guest.run(f"cat {TREE}/events/storm/storm/enable").strip() == "0*",
                   "the agent to turn the event on again", timeout=60)
    offered = storm(guest, 2000)
    stop_recorder(ctx, agent)

    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    streams = [line for line in lines if line["type"] == "stream"]
    ctx.equal([(one["clock"], one["epochs"]) for one in streams], [("exchange", 1)] * 2, "each boot's clock and epochs")
    ctx.equal([(one["source"], len(one["epochs"])) for one in clock_json(ctx, capture)], [("exchange", 1)] * 2,
              "the same, as `clock` reports")
    notes = [at for at, line in enumerate(lines) if line["type"] == "note" and "the guest rebooted" in line["text"]]
    ctx.equal(len(notes), 1, "notes that the guest rebooted")
    first, second = ([line for line in part if line["type"] == "event"] for part in
                     (lines[:notes[0]], lines[notes[0]:]))
    ctx.equal((len(first), len(second)), tuple(one["read"] for one in streams), "events on either side of that note")
    check_rings(ctx, first)
    check_rings(ctx, second)
    check_storm(ctx, second, "g1", offered)
    check_placed(ctx, first, [mark])
    ends = max(event["ns"] - event["bound_ns"] for event in first)
    begins = min(event["ns"] + event["bound_ns"] for event in second)
    print(f"     the first boot's last event {reset - ends} ns before the reset was done, the second's first one "
          f"{begins - asked} ns after it was asked for; bounds {[one['bound_ns'] for one in streams]}")
    ctx.check(ends <= reset, f"an event of the first boot lies {ends - reset} ns after the reset")
    ctx.check(begins >= asked, f"an event of the second boot lies {asked - begins} ns before the reset")
    check_accounts(ctx, capture)


# A death
# -----------------------------------------------------------------------------------------------------------

# The host's clocks around some of a guest's work: raw time before and after, wall time before and
# after.
Span = collections.namedtuple("Span", "raw_from raw_to wall_from wall_to first last")


def span_of(guest, events, first):
    """Runs the storm; returns a Span with the numbers of the tasks' events."""
    raw_from, wall_from = raw_ns(), time.time_ns()
    storm(guest, events)
    return Span(raw_from, raw_ns(), wall_from, time.time_ns(), first, first + events - 1)


def set_wall_time(guest):
    """Sets a guest's wall time to the host's: it is off by a second or two, because its RTC counts whole seconds."""
    late = 1
    while late > 0.5:  # on a busy machine
        due = math.ceil(time.time() + 0.5)
        guest.run(f"usleep {int((due - time.time()) * 1e6)}; date -s @{due}")
        late = time.time() - due


def check_spans(ctx, events, spans, ends, clock):
    """Checks that each event's time is within a second of its recording; prints the largest error."""
    ctx.check(all(event["bound_ns"] is None for event in events), f"by {clock}, an event has a bound")
    worst = 0
    for one in spans:
        begin, end = (getattr(one, name) for name in ends)
        times = [event["ns"] for event in events if event["fields"]["context"] == 0 and
                 one.first <= event["fields"]["number"] <= one.last]
        ctx.equal(len(times), 2 * (one.last - one.first + 1), f"by {clock}, events of a run")
        worst = max(worst, begin - min(times), max(times) - end)
    print(f"     by {clock}: events off by {worst / SECOND:.3f} s at worst")
    ctx.check(worst < SECOND, f"by {clock}, an event is off by {worst} ns")


@case("clock-dead", usual=("6.1",), needs=NEEDS, arm64=True)
def clock_dead(ctx):
    """A guest that died before an agent started is placed by wall time, within a second and without an error bound."""
    guest = ctx.guest()
    guest.boot()
    set_wall_time(guest)
    load(guest)
    guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
    spans = [span_of(guest, 500, 1)]
    seen = cells.walls(guest.shm)
    ctx.wait_until(lambda: cells.walls(guest.shm) >= seen + 2, "the guest to publish its wall time twice")
    spans.append(span_of(guest, 500, 501))
    offered = offered_by(guest)
    guest.kill()
    before = region_accounts(ctx, guest)
    ctx.run_agent("clock", "-t", "0.5", guest.shm)
    ctx.equal(region_accounts(ctx, guest), before, "the region's accounts after a query of its clock")

    capture = ctx.dir / "x.braid"
    agent = ctx.agent("record", "-r", guest.shm, "-t", "1", "--backlog", "-o", capture)
    ctx.equal(agent.wait(), 3, f"status of the recorder, which printed:\n{agent.output()}\n")
    (stream,) = clock_json(ctx, capture)
    ctx.equal([stream[key] for key in ("source", "bound_median_ns", "bound_p99_ns", "bound_worst_ns")],
              ["pairs", None, None, None], "the clock's source and bounds")
    text = ctx.run_agent("clock", capture).stdout
    for part in ("g1: pairs (no round-trip samples), bound: median unknown", "exchange: unavailable:",
                 "timestamps have no error bound"):
        ctx.check(part in text, f"the text lacks {part!r}:\n{text}")

    for clock, ends in (("host", ("raw_from", "raw_to")), ("realtime", ("wall_from", "wall_to"))):
        lines = events_of(ctx, capture, f"--clock={clock}")
        (stream,) = (line for line in lines if line["type"] == "stream")
        ctx.equal((stream["clock"], stream["bound_ns"]), ("pairs", None), f"by {clock}, the stream's clock and bound")
        check_storm(ctx, lines, "g1", offered)
        check_order(ctx, lines)
        check_rings(ctx, events_in(lines, "g1"))
        check_spans(ctx, events_in(lines, "g1"), spans, ends, clock)
    ctx.equal(check_accounts(ctx, capture)["lost"], 0, "lost events")


# The first fix
# -----------------------------------------------------------------------------------------------------

def wait_unwatched(ctx, guest):
    """Waits until a guest polls for an agent at the low rate that it has without one."""
    seldom = cells.counter_hz(guest.shm) * 40 // 1000
    polls = {}

    def found():
        poll = cells.poll_sample(guest.shm)
        if poll:
            polls[poll[0]] = poll[1]
        return any(polls.get(which + 1, 0) - counter > seldom for which, counter in polls.items())

    ctx.wait_until(found, "two polls that are far apart")


def record_briefly(ctx, guest, capture, seconds):
    """Records the storm's event for a time in which a guest may not confirm it; the status is 3 then."""
    done = ctx.run_agent("record", "-r", guest.shm, "-e", "storm", "-t", seconds, "-o", capture, status=None)
    ctx.check(done.returncode in (0, 3), f"record ended with {done.returncode}:\n{done.stderr}")


@case("clock-first", usual=("6.12",), needs=NEEDS, arm64=True)
def clock_first(ctx):
    """A guest that no agent has measured before gets its first clock fix within a short recording."""
    guest = up(ctx)
    wait_unwatched(ctx, guest)
    capture = ctx.dir / "x.braid"
    record_briefly(ctx, guest, capture, 2)
    (stream,) = clock_json(ctx, capture)
    ctx.equal(stream["source"], "exchange", "the clock's source")
    print(f"     first fix {stream['exchange']['first_fix_ns']} ns after the start, "
          f"median bound {stream['bound_median_ns']} ns")
    ctx.check(stream["exchange"]["first_fix_ns"] and stream["bound_median_ns"], f"the clock: {stream}")


UNSTABLE = "the guest's kernel has marked its TSC unstable"


def check_unstable(ctx, guest, capture, notes):
    """Checks that the kernel log and the capture's clock report it once, and the report in `notes` notes."""
    ctx.equal(guest.run("dmesg").count("tracebraid: this kernel has marked the TSC unstable; "), 1,
              "lines of the driver")
    (stream,) = clock_json(ctx, capture)
    ctx.equal(stream["tsc_unstable"], True, "the clock of the capture in JSON")
    # An emulated counter's model is the host's counter.
    ctx.check(f"\n  {UNSTABLE}; the error bounds do not depend on that\n" in ctx.run_agent("clock", capture).stdout,
              "the clock of the capture")
    ctx.equal(ctx.run_agent("report", capture).stdout.count(f"NOTE {UNSTABLE}; "), notes, "notes")


@case("clock-unstable", usual=("6.12",), needs=NEEDS + ("module:unstable",))
def clock_unstable(ctx):
    """A TSC that the guest's kernel marks unstable, at boot or during a recording, is reported with its clock."""
    guest = up(ctx)
    capture = ctx.dir / "meanwhile.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    storm(guest, 100)
    ctx.check(UNSTABLE not in agent.output(), "a stable TSC is reported as unstable")
    guest.insmod("unstable")
    agent.wait_line(UNSTABLE)
    stop_recorder(ctx, agent)
    check_unstable(ctx, guest, capture, 1)

    guest = up(ctx, "g2", append="tsc=unstable")
    capture = ctx.dir / "before.braid"
    record_briefly(ctx, guest, capture, 0.5)
    check_unstable(ctx, guest, capture, 0)
    (stream,) = clock_json(ctx, guest.shm, "-t", "0.5")
    ctx.equal(stream["tsc_unstable"], True, "the clock of the running guest")


@case("clock-isolated", usual=("6.12",), needs=("driver", "agent"), arm64=True)
def clock_isolated(ctx):
    """The clock exchange does not run on an isolated vCPU, unless the driver's parameter allows it."""
    guest = ctx.guest(append="isolcpus=1 nohz_full=1")
    guest.boot()
    guest.insmod("tracebraid")
    thread = guest.run("for p in /proc/[0-9]*; do read -r c < $p/comm && [ $c = tracebraid ] && echo ${p#/proc/}; done; true").strip()

    def migrations():
        return int(guest.run(f"grep se.nr_migrations /proc/{thread}/sched").split()[-1])

    def moves():
        """Whether the thread moves while each vCPU is asked: the first burst asks any, the next ones a vCPU each."""
        first, seconds, samples = migrations(), 1, 0
        while samples <= 3 * SAMPLES_OF_BURST:  # a busy machine answers few bursts in a second
            ctx.check(seconds <= 64, f"only {samples} round-trip samples in {seconds // 2} s")
            (stream,) = clock_json(ctx, guest.shm, "-t", seconds, timeout=60 + seconds)
            samples, seconds = (stream["exchange"] or {}).get("round_trips", 0), 2 * seconds
        return migrations() > first

    for allowed in (0, 1):
        guest.run(f"echo {allowed} > /sys/module/tracebraid/parameters/clock_isolated")
        ctx.equal(moves(), bool(allowed), f"whether the poll thread has moved, with clock_isolated={allowed}")


# vmclock
# -----------------------------------------------------------------------------------------------------------

DISRUPTED = f"the hypervisor disrupted the counter (vmclock): {STOOD_STILL} for"


def vmclock_guest(ctx, **options):
    """A booted guest with a vmclock device."""
    if not qemu.has_device(qemu.program(), "vmclock"):
        ctx.skip(f"{qemu.describe()} has no device vmclock")
    guest = ctx.guest(qemu_args=("-device", "vmclock"), **options)
    guest.boot()
    return guest


@case("clock-vmclock", usual=("6.1", "newest"), needs=("driver", "agent"))
def clock_vmclock(ctx):
    """The driver reads the vmclock page, on kernels without a driver for it, and beside that of a kernel that has one."""
    own = ctx.kernel_module("drivers/ptp/ptp_vmclock")
    ctx.initrd(*([own] if own else []))
    guest = vmclock_guest(ctx)
    guest.insmod("tracebraid")
    (stream,) = clock_json(ctx, guest.shm, "-t", "0.5")
    # QEMU gives the marker alone: no time, hence no bound.
    marker = stream["vmclock"]["marker"]
    ctx.equal(stream["vmclock"], {"marker": marker, "changes": 0}, "what the page says")
    ctx.equal([one["cause"] for one in stream["epochs"]], [""], "causes of epochs")
    ctx.check(f"\n  vmclock: disruption marker {marker}; the hypervisor gives no time\n" in
              ctx.run_agent("clock", "-t", "0.5", guest.shm).stdout, "the text lacks the marker")
    for first, second in (("tracebraid", "ptp_vmclock"), ("ptp_vmclock", "tracebraid")) * bool(own):
        guest.run(f"rmmod ptp_vmclock 2>/dev/null; rmmod tracebraid; insmod /mod/{first}.ko && insmod /mod/{second}.ko")
        (stream,) = clock_json(ctx, guest.shm, "-t", "0.5")
        page = guest.sh("dd if=/dev/vmclock0 bs=24 count=1 2>/dev/null", text=False)[1]
        ctx.equal(struct.unpack("<16xQ", page)[0], stream["vmclock"]["marker"], f"the kernel's marker, {second} being last")


@case("clock-restore", usual=("newest",), needs=NEEDS)
def clock_restore(ctx):
    """A guest is saved and restored during a recording: vmclock says so, an epoch begins, and no event is misplaced."""
    guest = vmclock_guest(ctx, shm_options=",master=on")
    load(guest)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    job = guest.bg(BURSTS)
    run_on(ctx, guest, 1)
    before = silences(agent, guest)
    guest.stop()
    stopped = raw_ns()
    # The region is restored with the guest, so the agent must have nothing left to take.
    ctx.wait_until(lambda: silences(agent, guest) > before, "the agent to report it silent")
    ctx.wait_until(lambda: not region_accounts(ctx, guest)["left"], "the agent to read all events")
    written = counts(ctx, guest)
    guest.restore(ctx.dir / "snapshots.qcow2")
    resuming = raw_ns()
    guest.cont()
    agent.wait_line(r"the hypervisor disrupted the guest's counter, .*: vmclock's marker changed from 1 to 2")
    run_on(ctx, guest, 1)
    guest.run("touch /tmp/stop")
    ctx.equal(job.wait(timeout=120), 0, "status of the bursts")
    stop_recorder(ctx, agent)

    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    (stream,) = clock_json(ctx, capture)
    ctx.equal([(one["cause"], one.get("disrupted")) for one in stream["epochs"]], [("", None), (STOOD_STILL, True)],
              "the clock's epochs")
    ctx.equal(stream["vmclock"], {"marker": 2, "changes": 1}, "what the page says")
    notes = [line["text"] for line in lines if line["type"] == "note" and DISRUPTED in line["text"]]
    ctx.equal(len(notes), 1, f"notes of the epoch, {notes}")
    stood = float(re.search(rf"{re.escape(DISRUPTED)} ([\d.]+) s", notes[0])[1]) * SECOND
    ctx.check(stood >= resuming - stopped - ABOUT_NS, f"the note reports {stood} ns for a stop of {resuming - stopped} ns")
    events = events_in(lines, "g1")
    check_rings(ctx, events)
    check_placed(ctx, events, [Mark(written, stopped, resuming)])
    check_storm(ctx, lines, "g1", offered_by(guest))
    ctx.equal(check_accounts(ctx, capture)["lost"], 0, "lost events")
    print(f"     {len(events)} events; {notes}")

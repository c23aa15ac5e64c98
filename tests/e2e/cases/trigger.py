# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of triggers in the guest, and of its buffers' shapes, which the host chooses."""

import re

import host
import kit
from harness import case

TASK, HRTIMER, SOFTIRQ, NMI = range(4)
INSIDE = 8  # records at most that a CPU writes after a trigger's: of NMIs, and those that had begun
INSIDE_DEBUG = 500  # likewise on the debug kernel, where many timers interrupt what stops the rings
FIRED = re.compile(r"trigger '(.*)' fired on vCPU (\d+), task (\d+), counter \d+(?:, after ([\d.]+) ms)?$")
MET = re.compile(r"trigger '(.*)': met (\d+) times? = (\d+) fired \+ (\d+) while one had fired(.*)$")


def around(lines, stream):
    """The events of a guest before and after the one that says what fired, which is returned between them."""
    events = [line for line in lines if line["type"] == "event" and line["stream"] == stream]
    (at,) = (k for k, line in enumerate(events) if line["event"] == "trigger")
    return events[:at], events[at], events[at + 1:]


def notes(lines, pattern):
    """What the notes of a report say, of those that match."""
    return [match.groups() for match in (pattern.search(line["text"]) for line in lines if line["type"] == "note")
            if match]


def check_fired(ctx, guest, lines, text, **fields):
    """Checks that a trigger fired once, at a storm event that the capture holds just before; returns its CPU, and what follows."""
    before, fired, after = around(lines, guest.name)
    ((said, cpu, _, _),) = notes(lines, FIRED)
    ctx.equal((said, int(cpu)), (text, fired["cpu"]), "trigger and vCPU of the note")
    # Interrupts may write between a record and its trigger's; what they interrupt does not.
    last = [line["fields"] for line in before if line["cpu"] == fired["cpu"] and line["event"] == "storm"
            and line["fields"]["context"] == fields["context"]][-1:]
    ctx.check(last and fields.items() <= last[0].items(), f"the last event before the trigger's is {last}, not {fields}")
    ((_, met, once, rest, _),) = notes(lines, MET)
    ctx.equal((int(met), int(once)), (1 + int(rest), 1), "met and fired")
    return fired["cpu"], after


def check_inside(ctx, cpu, after):
    """The CPU whose record fired the trigger writes hardly any other."""
    mine, most = sum(line["cpu"] == cpu for line in after), INSIDE_DEBUG if ctx.kernel == host.DEBUG_KERNEL else INSIDE
    ctx.check(mine <= most, f"{mine} of {len(after)} events after the trigger's are of its CPU")


def check_stopped(ctx, lines, events):
    """Other CPUs write until the rings are stopped, for as long as the host gives that one's no time, but not to the storm's end."""
    numbers = [line["fields"]["number"] for line in lines
               if line.get("event") == "storm" and line["fields"]["context"] == TASK]
    ctx.check(events - 1 not in numbers, f"the last of {events} events of a CPU was recorded")


def check_written_again(ctx, guest):
    """Waits until the guest writes its rings: with its own user's events."""
    guest.run(f"echo 1 > {kit.TREE}/events/storm/storm/enable")

    def writes():
        before = kit.offered_by(guest)
        return kit.storm(guest, "200 4") - before >= 200 * 2

    ctx.wait_until(writes, "the guest to write its rings again", timeout=60)
    guest.run(f"echo 0 > {kit.TREE}/events/storm/storm/enable")


@case("select-trigger", needs=kit.NEEDS, arm64=True)
def select_trigger(ctx):
    """Triggers stop the rings' writing at an event of a task, an interrupt and an NMI, at once or after more events."""
    guest = kit.up(ctx)
    for context, number in ((TASK, 300), (HRTIMER, 40)) + ((NMI, 20),) * guest.machine.has_nmi:
        capture = ctx.dir / f"off{context}.braid"
        text = f"storm:storm if context == {context} && number == {number}: traceoff"
        guest.run("rmmod storm")
        guest.insmod("storm")
        agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "-e", "storm", "--trigger", text, "-o", capture)
        kit.storm(guest, "2000 4")
        agent.wait_line(r"its rings are not written until the recording ends", timeout=30)
        kit.stop_recorder(ctx, agent)
        lines = kit.events_of(ctx, capture)
        cpu, after = check_fired(ctx, guest, lines, text, context=context, number=number)
        check_inside(ctx, cpu, after)
        check_stopped(ctx, lines, 2000)
        kit.check_accounts(ctx, capture)
        check_written_again(ctx, guest)

    capture, more = ctx.dir / "stop.braid", 100
    text = f"storm:storm if context == 0 && number == 50 && cpu == 1: stop after {more}"
    guest.run("rmmod storm")
    guest.insmod("storm")
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "-e", "storm", "-T", "--trigger", text, "-o", capture)
    kit.storm(guest, "2000 4")
    ctx.equal(agent.wait(timeout=60), 0, f"status of the recorder, which printed:\n{agent.output()}")
    lines = kit.events_of(ctx, capture)
    _, after = check_fired(ctx, guest, lines, text, context=TASK, number=50, cpu=1)
    ctx.check(more <= len(after), f"{len(after)} events were recorded after the trigger, not {more}")
    check_stopped(ctx, lines, 2000)
    check_written_again(ctx, guest)


@case("select-trigger-first", needs=kit.NEEDS, arm64=True)
def select_trigger_first(ctx):
    """A trigger whose condition holds all the time fires once the recording has started: what led there is recorded."""
    guest = kit.up(ctx)
    text = "storm:storm if context == 0: stop after 10"
    guest.run(f"(while :; do echo 2000 4 > {kit.STORM}/run; done) > /dev/null 2>&1 & echo $! > /tmp/storming")
    for k in range(3):
        capture = ctx.dir / f"{k}.braid"
        done = ctx.run_agent("record", "-r", guest.shm, "-B", "trace", "-e", "storm", "--trigger", text, "-o", capture)
        lines = kit.events_of(ctx, capture)
        fired = [line for line in lines if line.get("event") == "trigger"]
        ctx.equal(len(fired), 1, f"events of the trigger in what was recorded; the recorder printed:\n{done.stdout}{done.stderr}")
        before = [line for line in lines if line.get("event") == "storm" and line["cpu"] == fired[0]["cpu"]
                  and line["ns"] <= fired[0]["ns"]]
        ctx.check(before, "no event led to the trigger's")
    guest.run("kill $(cat /tmp/storming)")


@case("select-trigger-duration", needs=kit.NEEDS, arm64=True)
def select_trigger_duration(ctx):
    """A system call that takes longer than the limit fires; shorter ones do not, and other calls are not recorded."""
    guest = kit.up(ctx, patches_code=True)
    capture = ctx.dir / "x.braid"
    text = "syscalls:sys_enter_clock_nanosleep..sys_exit_clock_nanosleep > 700ms: traceoff"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "-e", "storm", "--trigger", text, "-o", capture)
    guest.run("sleep 0.02; sleep 0.02; sleep 0.02; sleep 1.5", timeout=60)
    agent.wait_line(r"trigger '.*' fired on vCPU", timeout=30)
    kit.stop_recorder(ctx, agent)
    lines = kit.events_of(ctx, capture)
    before, fired, _ = around(lines, guest.name)
    ((said, cpu, pid, ms),) = notes(lines, FIRED)
    ctx.equal((said, int(cpu), int(pid)), (text, fired["cpu"], fired["pid"]), "what the note says")
    ctx.check(700 < float(ms) and 700e6 < fired["fields"]["duration_ns"] < 60e9, f"a duration of {ms} ms")
    calls = [line for line in before if line["event"] in ("sys_enter", "sys_exit")]
    ctx.check(len(calls) >= 8, f"{len(calls)} beginnings and ends before the trigger")
    ctx.equal(len({line["fields"]["id"] for line in calls}), 1, "different system calls in the capture")
    ctx.equal((calls[-1]["event"], calls[-1]["pid"]), ("sys_exit", fired["pid"]), "the last one")
    ((_, met, once, rest, more),) = notes(lines, MET)
    ctx.equal((met, once, rest), ("1", "1", "0"), "met, fired, and missed")
    ctx.check("full" not in more, "the table was full")


@case("select-trigger-snapshot", needs=kit.NEEDS, arm64=True)
def select_trigger_snapshot(ctx):
    """A snapshot that a trigger takes has what led there, of small rings that overwrite; then the recording goes on."""
    guest = kit.up(ctx, parameters="overwrite=1 ring_size_kb=64")
    prefix, asked = ctx.dir / "f.braid", ctx.dir / "asked.braid"
    text = "storm:storm if context == 0 && number == 600 && cpu == 1: snapshot"
    agent = kit.start_recorder(ctx, "--snapshot", "-r", guest.shm, "-B", "trace", "-e", "storm", "--trigger", text,
                               "--hold-off=0.001", "-o", prefix)
    job = guest.bg(f"echo 4000 4 > {kit.STORM}/run")
    agent.wait_line(r"f-\d+\.braid: .*trigger", timeout=60)
    ctx.equal(job.wait(timeout=120), 0, "status of the load")
    (capture,) = (path for path in ctx.dir.glob("f-*.braid") if "trigger" in ctx.run_agent("report", path).stdout)
    lines = kit.events_of(ctx, capture)
    before, fired, after = around(lines, guest.name)
    mine = [line["fields"]["number"] for line in before
            if line["event"] == "storm" and line["cpu"] == 1 and line["fields"]["context"] == TASK]
    ctx.equal(mine, list(range(mine[0], 601)), "numbers of the events that led there")
    ctx.check(len(mine) > 50, f"{len(mine)} events before")
    check_inside(ctx, 1, after)
    # The rings are written again, and the trigger is armed: it is not met any more.
    offered = kit.storm(guest, "300 4")
    ctx.run_agent("snapshot", "-o", asked, str(agent.pid))
    numbers = [line["fields"]["number"] for line in kit.events_of(ctx, asked) if line.get("event") == "storm"]
    ctx.check(numbers and max(numbers) > 600 and offered > 0, "nothing was recorded after the snapshot")
    kit.check_accounts(ctx, capture)
    kit.check_accounts(ctx, asked)
    kit.stop_recorder(ctx, agent)


@case("select-trigger-dead", usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_trigger_dead(ctx):
    """Frozen rings are written again after the recorder was killed; what does not fit is refused in a line."""
    guest = kit.up(ctx)
    capture = ctx.dir / "x.braid"

    def refused(line, *options):
        done = ctx.run_agent("record", "-r", guest.shm, *options, "-o", capture, "-t", "0.1", status=1)
        ctx.check(line in done.stderr, f"{options}: said {done.stderr!r}, not {line!r}")

    refused("needs --snapshot", "--trigger", "storm:storm: snapshot")
    refused("expected traceoff, snapshot or stop", "--trigger", "storm:storm: explode")
    refused("expected EVENT[ if FILTER]: ACTION", "--trigger", "storm")
    refused('no event "storm:strom"', "--trigger", "storm:strom: stop")
    refused("has no field 'nmber'; did you mean 'number'?", "--trigger", "storm:storm if nmber == 1: stop")
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-e", "storm", "--trigger", "storm:storm if number == 99: traceoff",
                               "-o", capture)
    kit.storm(guest, "500 4")
    agent.wait_line(r"its rings are not written until", timeout=30)
    agent.kill()
    check_written_again(ctx, guest)


@case("select-buffer", needs=kit.NEEDS, arm64=True)
def select_buffer(ctx):
    """The host chooses the size, sub-buffers and mode of the guest's rings; what has no room is refused in a line."""
    guest = kit.up(ctx, parameters="ring_size_kb=256")
    capture = ctx.dir / "x.braid"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "-e", "storm", "--buffer-size", "1M",
                               "--subbuf-size", "8K", "--mode", "overwrite", "-o", capture)
    ctx.equal(guest.run(f"cat {kit.TREE}/buffer_size_kb").strip(), "1024", "size of the rings")
    ctx.check("[overwrite]" in guest.run(f"cat {kit.TREE}/mode"), "the mode did not change")
    offered = kit.storm(guest, "2000 4")
    kit.stop_recorder(ctx, agent)
    lines = kit.events_of(ctx, capture)
    kit.check_storm(ctx, lines, guest.name, offered)
    ctx.equal(kit.check_accounts(ctx, capture)["lost"], 0, "lost events")
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "-e", "storm", "--buffer-size", "64M", "--mode",
                               "consume", "-o", capture)
    ctx.check("buffer trace stays as it is: the guest's trace memory has no room" in agent.output(), "no refusal")
    ctx.equal(guest.run(f"cat {kit.TREE}/buffer_size_kb").strip(), "1024", "size of the rings after a refusal")
    before = offered
    offered = kit.storm(guest, "2000 4")
    kit.stop_recorder(ctx, agent)
    kit.check_storm(ctx, kit.events_of(ctx, capture), guest.name, offered - before)
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "-e", "storm", "--mode", "consume", "-o", capture)
    ctx.check("[consume]" in guest.run(f"cat {kit.TREE}/mode"), "the mode did not change back")
    kit.stop_recorder(ctx, agent)

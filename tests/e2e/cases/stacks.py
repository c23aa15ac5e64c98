# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of stacks that are recorded with events."""

import collections
import itertools
import json
import re
import signal
import subprocess

import kit
from harness import case
from tracefs import INSTANCE, trace_in_guest, without_races

# A task that has a name of its own, computes, sleeps and ends.
WORK = ("for i in 1 2 3 4 5 6; do sh -c 'echo -n busy > /proc/self/comm; "
        "k=0; while [ $k -lt 1500 ]; do k=$((k + 1)); done; sleep 0.01; sleep 0.01'; done")
# In tasks and in softirqs; the machine's event of a hard interrupt comes with them.
EVENTS = {
    "sched:sched_switch": 'prev_comm == "busy"',
    "sched:sched_waking": 'COMM == "busy"',
    "irq:softirq_entry": 'COMM == "busy"',
}
DEPTH = 16  # the driver's default
TRACING = re.compile(r"(__traceiter_|trace_event_raw_event_|trace_event_buffer_commit|trace_buffer_unlock_commit)")


class Pairs:
    """Events in the order of their CPU's ring, each with the stack that follows it; an interrupt's are between the two."""

    def __init__(self):
        self.found = collections.defaultdict(list)
        self.waiting = collections.defaultdict(list)

    def event(self, cpu, name, text):
        one = [without_races(text.strip()), None]
        self.found[cpu, name].append(one)
        self.waiting[cpu].append(one)

    def stack(self, cpu, functions):
        if self.waiting[cpu]:
            self.waiting[cpu].pop()[1] = functions


def functions_of(names):
    """A stack without the frames of tracing and without the names of modules."""
    names = [re.sub(r" \[\w+\]$", "", name.strip()) for name in names]
    return list(itertools.dropwhile(TRACING.match, names))


def traced_in_guest(guest):
    """What the guest's tracefs has."""
    pairs, frames, cpu = Pairs(), None, None
    for line in guest.run(f"cat {INSTANCE}/trace", timeout=120).splitlines():
        match = re.match(r".{1,16}-\d+\s+\[(\d+)\] \S+\s+[\d.]+: (.*)", line)
        if frames is not None and line.startswith(" => "):
            frames.append(line[4:])
            continue
        if frames is not None:
            pairs.stack(cpu, functions_of(frames))
            frames = None
        if match and "<stack trace>" in match[2]:
            cpu, frames = int(match[1]), []
        elif match:
            name, _, text = match[2].partition(": ")
            pairs.event(int(match[1]), name.strip(), text)
    if frames is not None:
        pairs.stack(cpu, functions_of(frames))
    return pairs.found


def recorded(ctx, guest, lines):
    """What a report has."""
    pairs = Pairs()
    for line in lines:
        if line["type"] != "event" or line["stream"] != guest.name:
            continue
        if line["event"] == "stack":
            names = line["text"].split(" => ")[1:]
            ctx.check(0 < len(names) <= DEPTH, f"{len(names)} frames: {line}")
            ctx.equal(len(names), len(line["fields"]["stack"]), "functions, and addresses")
            pairs.stack(line["cpu"], names)
        else:
            pairs.event(line["cpu"], line["event"], line["text"])
    return pairs.found


@case("select-stack", kernels=("6.1", "6.12", "6.12-rt", "newest"), usual=("6.1", "6.12", "newest"), needs=kit.NEEDS, arm64=True)
def select_stack(ctx):
    """Each event's stack has the functions that the guest's tracefs has for the same event, in tasks and interrupts."""
    guest = kit.up(ctx, patches_code=True)
    # With PREEMPT_RT softirqs run in tasks of their own.
    events = {event: text for event, text in EVENTS.items() if event != "irq:softirq_entry" or "-rt" not in ctx.kernel}
    events[guest.machine.tick] = 'COMM == "busy"'
    options = [word for event, text in events.items() for word in ("-e", event, "-f", text)]
    trace_in_guest(guest, events)
    guest.run(f"echo 1 > {INSTANCE}/options/stacktrace")
    capture = ctx.dir / "x.braid"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "-T", *options, "-o", capture)
    guest.run(f"echo > {INSTANCE}/trace; {WORK}; echo 0 > {INSTANCE}/tracing_on", timeout=240)
    kit.stop_recorder(ctx, agent)
    theirs = traced_in_guest(guest)
    ours = recorded(ctx, guest, kit.events_of(ctx, capture))
    counts = collections.Counter()
    for key in sorted({*ours, *theirs}):
        for at, (one, other) in enumerate(itertools.zip_longest(ours[key], theirs[key])):
            where = f"event {at} of CPU {key[0]}, {key[1]}"
            ctx.check(one and other, f"{where}: ours {one}, tracefs' {other}")
            ctx.equal(one[0], other[0], f"{where}: ours, and tracefs'")
            ctx.check(one[1] and other[1], f"{where}: no stack: ours {one}, tracefs' {other}")
            own = functions_of(one[1])
            depth = len(own) if len(one[1]) == DEPTH else len(other[1])
            ctx.equal(own, other[1][:depth], f"{where}: functions of ours, and of tracefs' stack")
            counts[key[1]] += 1
    for event in events:
        ctx.check(counts[event.split(":")[1]], f"no {event}")
    print(f"  {dict(counts)}; {json.dumps(max((one[1] for all in ours.values() for one in all), key=len))}")
    text = ctx.run_agent("report", capture).stdout
    ctx.check(re.search(r"^ => \S+\n => \S+$", text, re.MULTILINE), "no lines of a stack in the report")
    kit.check_accounts(ctx, capture)


@case("select-stack-full", usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_stack_full(ctx):
    """What does not fit into the guest's table of stacks is counted, in the recording's output and by `stat`."""
    guest = kit.up(ctx, parameters="stacks=16 stack_depth=8", patches_code=True)
    options = [word for event, text in EVENTS.items() for word in ("-e", event, "-f", text)]
    capture = ctx.dir / "x.braid"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "-T", *options, "-o", capture)
    guest.run(WORK, timeout=240)
    kit.stop_recorder(ctx, agent)
    lines = [line for line in kit.events_of(ctx, capture) if line["type"] == "event" and line["event"] == "stack"]
    unknown = sum(1 for line in lines if not line["fields"]["stack"])
    found = re.search(r"(\d+) stacks are not recorded: the guest could not take them, or its table", agent.output())
    ctx.check(found, f"the output has no account: {agent.output()!r}")
    ctx.check(unknown, f"all stacks of {len(lines)} have found room")
    ctx.equal(int(found[1]), unknown, "stacks by the account, and records without one")
    ctx.equal({line["fields"]["kernel"] == 0 for line in lines if not line["fields"]["stack"]}, {True}, "their number is 0")
    ctx.equal({line["text"] for line in lines if not line["fields"]["stack"]}, {"unknown"}, "their text")
    ids = {line["fields"]["kernel"]: tuple(line["fields"]["stack"]) for line in lines if line["fields"]["stack"]}
    ctx.equal((len(ids), max(map(len, ids.values()))), (16, 8), "distinct stacks, and their depth")
    ctx.equal(json.loads(ctx.run_agent("stat", "--json", guest.shm).stdout)["lost_stacks"], unknown, "stacks lost, by stat")
    kit.check_accounts(ctx, capture)


@case("select-stack-user", kernels=("6.1", "6.12", "6.12-rt", "newest"), usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_stack_user(ctx):
    """User stacks of interrupts have the functions of a program with frame pointers, in the order of its calls."""
    program = ctx.guest_program("shares", "-fno-omit-frame-pointer")
    symbols = sorted((int(line.split()[0], 16), line.split()[2]) for line in
                     subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout.splitlines()
                     if line.split()[-2] in "tT")
    ctx.initrd(program)
    guest = kit.up(ctx, patches_code=True)
    capture = ctx.dir / "x.braid"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "-T", "--user-stacks", "-e", guest.machine.tick,
                               "-f", 'COMM == "shares"', "-e", "sched:sched_switch", "-f", "prev_pid == 0", "-o", capture)
    guest.run("shares 3", timeout=240)
    kit.stop_recorder(ctx, agent)

    def function_at(address):
        return max((one for one in symbols if one[0] <= address), default=(0, "?"))[1]

    lines = [line for line in kit.events_of(ctx, capture) if line["type"] == "event"]
    stacks = [line for line in lines if line["event"] == "stack"]
    idle = [line for line in stacks if line["pid"] == 0]
    ctx.check(idle, "no stack of the idle task")
    ctx.equal({(line["fields"]["user"], line["fields"]["ends"]) for line in idle}, {(0, 0)}, "user stacks of the idle task")
    seen = [[function_at(address) for address in line["fields"]["user_stack"]] for line in stacks if line["comm"] == "shares"]
    halves = [names for names in seen if names[:1] == ["spends_half"]]
    whole = [names for names in halves if names[1:4] == ["calls_two", "turn", "main"]]
    print(f"  {len(seen)} stacks, {len(halves)} of spends_half(), {len(whole)} whole; {halves[:1]}")
    ctx.check(len(halves) > 10 and len(whole) >= 0.9 * len(halves), f"{len(whole)} of {len(halves)} have all callers: {halves[:5]}")
    ctx.check(any(line["event"] == "mapping" and "/bin/shares" in line["text"] for line in lines), "no mapping of the program")
    ctx.check(all(line["text"].endswith(" [ends here]") == (line["fields"]["ends"] > 1) for line in stacks), "marks of ends")
    kit.check_accounts(ctx, capture)


@case("select-stack-dead", usual=("6.12",), needs=kit.NEEDS, arm64=True, allow=(r"Kernel panic", r"sysrq"))
def select_stack_dead(ctx):
    """The stacks of a guest that panicked, whose recorder was killed before, are read from its memory."""
    guest = kit.up(ctx, append="panic=0")
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-T", "-e", "storm", "-o", ctx.dir / "killed.braid")
    agent.send_signal(signal.SIGKILL)
    agent.wait(timeout=30)
    kit.storm(guest, 200)
    guest.post("echo c >/proc/sysrq-trigger")
    ctx.wait_until(lambda: "end Kernel panic" in guest.console(), "the panic on the console")
    capture = ctx.dir / "x.braid"
    ctx.run_agent("recover", guest.shm, "-o", capture)
    lines = [line for line in kit.events_of(ctx, capture) if line["type"] == "event"]
    stacks = [line for line in lines if line["event"] == "stack"]
    ctx.check(stacks and 2 * len(stacks) == len(lines), f"{len(stacks)} stacks among {len(lines)} events")
    ctx.equal({bool(line["fields"]["stack"]) for line in stacks}, {True}, "whether each stack is known")
    ctx.check(len({tuple(line["fields"]["stack"]) for line in stacks}) > 2, "tasks and interrupts have the same stack")
    guest.kill()


@case("select-stack-read", usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_stack_read(ctx):
    """The stacks of a guest whose memory is only read: of what it was told itself, as it runs and when it has stopped."""
    guest = ctx.found_guest(shm=None, mem="512M")
    guest.boot()
    kit.load(guest, "memory_mb=4 event_stacks=sched:sched_switch,sched:sched_waking")
    guest.run(f"echo 1 > {kit.TREE}/events/sched/sched_switch/enable")
    capture, dead = ctx.dir / "x.braid", ctx.dir / "dead.braid"
    agent = kit.start_recorder(ctx, "-r", guest.name, "-T", "-o", capture, confirm=False)
    guest.run("for k in 1 2 3 4 5 6 7 8; do sleep 0.01; done")
    kit.stop_recorder(ctx, agent)
    ctx.check("its memory is only read: only stacks enabled in the guest (event_stacks=, tracebraid-select) are recorded" in agent.output(),
              f"the recorder said {agent.output()!r}")
    guest.qmp("stop")
    ctx.run_agent("recover", guest.name, "-o", dead)
    for file in capture, dead:
        lines = [line for line in kit.events_of(ctx, file) if line["type"] == "event"]
        stacks = [line for line in lines if line["event"] == "stack"]
        ctx.check(stacks, f"{file}: no stack of {len(lines)} events")
        ctx.equal({line["text"].split(" => ")[1] if line["fields"]["stack"] else "" for line in stacks}, {"__schedule"},
                  f"{file}: the innermost functions")

# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of what a guest selects itself, for a host that only reads its memory: tracebraid-select."""

import re

import kit
import machines
from harness import case
from tracefs import FILTERS, INSTANCE, TRACING, WORK, check_equal, trace_in_guest

KERNELS = {"kernels": ("6.1", "6.12", "6.12-rt", "newest"), "usual": ("6.12",), "needs": kit.NEEDS, "arm64": True}
ACCOUNT = re.compile(r"^(\S+): (\d+) offered = (\d+) filtered \+ (\d+) written \+ (\d+) lost$", re.MULTILINE)


def up(ctx, parameters="", **options):
    """A guest without a device, whose program selects."""
    ctx.initrd(machines.of(ctx.kernel).select)
    guest = ctx.found_guest(shm=None, mem="512M", **options)
    guest.boot()
    kit.load(guest, f"transport=memory {parameters}")
    return guest


def quoted(words):
    return " ".join("'" + str(word).replace("'", "'\\''") + "'" for word in words)


def select(guest, *words):
    """Has the guest select; returns what the program printed."""
    return guest.run(f"tracebraid-select {quoted(words)} 2>&1", timeout=120)


def start_recorder(ctx, guest, capture):
    return kit.start_recorder(ctx, "-r", guest.name, "-B", "trace", "-o", capture, confirm=False)


def accounts(guest):
    """What the guest says of its filters: {event: (offered, filtered, written, lost)}."""
    return {match[1]: tuple(map(int, match.groups()[1:])) for match in ACCOUNT.finditer(select(guest, "--show"))}


@case("select-read-filter", **KERNELS)
def select_read_filter(ctx):
    """The records that pass filters that a guest sets itself are those that its tracefs has for the same filters."""
    guest = up(ctx)
    options = [word for event, text in FILTERS.items() for word in ("-e", event, "-f", text)]
    select(guest, *options)
    trace_in_guest(guest, FILTERS)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, guest, capture)
    guest.run(f"echo > {INSTANCE}/trace; {WORK}; echo 0 > {INSTANCE}/tracing_on", timeout=120)
    kit.stop_recorder(ctx, agent)
    ours = check_equal(ctx, guest, kit.events_of(ctx, capture), FILTERS)
    kept = accounts(guest)
    ctx.equal(set(kept) - {"all"}, set(FILTERS), "events whose filter has an account")
    for event, (offered, filtered, written, lost) in kept.items():
        ctx.equal(offered, filtered + written + lost, f"{event}: offered = filtered + written + lost")
        ctx.check(filtered > 0, f"{event}: nothing was filtered")
    print(f"  {sum(map(len, ours.values()))} events; {kept}")
    select(guest, "--reset")
    ctx.equal(select(guest, "--show").strip(), "nothing is selected", "after --reset")


@case("select-read-who", **KERNELS)
def select_read_who(ctx):
    """The events of a task and of all that it forks, and those on one CPU, are those that the guest's tracefs has."""
    guest = up(ctx)
    guest.run("mkfifo /tmp/begin")
    worker = guest.bg("echo $$ > /tmp/pid; read x < /tmp/begin; for i in 1 2 3 4; do sh -c 'sleep 0.01; sleep 0.01'; done; "
                      "echo > /tmp/done; sleep 1000")
    guest.run("until [ -s /tmp/pid ]; do sleep 0.1; done", timeout=60)
    pid = int(guest.run("cat /tmp/pid"))
    events = dict.fromkeys(("sched:sched_switch", "sched:sched_wakeup", "raw_syscalls:sys_exit"), "")
    select(guest, *(word for event in events for word in ("-e", event)), "--children", "-P", pid)
    guest.run(f"mkdir {INSTANCE} && echo 1 > {INSTANCE}/options/event-fork && echo {pid} > {INSTANCE}/set_event_pid")
    trace_in_guest(guest, events)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, guest, capture)
    guest.run(f"echo > {INSTANCE}/trace; echo > /tmp/begin; until [ -e /tmp/done ]; do sleep 0.1; done; sleep 0.1; "
              f"echo 0 > {INSTANCE}/tracing_on", timeout=120)
    kit.stop_recorder(ctx, agent)
    lines = kit.events_of(ctx, capture)
    check_equal(ctx, guest, lines, events)
    ctx.check(len({line["pid"] for line in lines if line.get("event") == "sys_exit"}) > 4, "no children")
    guest.run(f"kill {pid}; cd {INSTANCE} && echo > set_event_pid && echo 0 > events/enable && echo > trace && echo 1 > tracing_on")
    worker.wait(timeout=60)
    # The next selection replaces this one.
    select(guest, "-e", "raw_syscalls:sys_exit", "--comm", "bus?", "--cpus", "1")
    trace_in_guest(guest, {"raw_syscalls:sys_exit": 'COMM ~ "bus?" && CPU == 1'})
    agent = start_recorder(ctx, guest, capture)
    guest.run(f"{WORK}; {WORK}; echo 0 > {INSTANCE}/tracing_on", timeout=60)
    kit.stop_recorder(ctx, agent)
    check_equal(ctx, guest, kit.events_of(ctx, capture), ["raw_syscalls:sys_exit"])


@case("select-read-probe", **KERNELS)
def select_read_probe(ctx):
    """A probe that a guest selects records, with a filter, what its tracefs' kprobe does."""
    guest = up(ctx)
    second = guest.machine.registers[1]
    guest.run(f"echo 'p:kprobes/opens do_sys_openat2 file=+0({second}):ustring' > {TRACING}/kprobe_events")
    select(guest, "--kprobe", f"p:opens do_sys_openat2 file=+0({second}):ustring", "-f", 'file ~ "/tmp/opened*"')
    trace_in_guest(guest, {"kprobes:opens": 'file ~ "/tmp/opened*"'})
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, guest, capture)
    guest.run("for k in 1 2 3 4 5; do echo x > /tmp/opened$k; cat /tmp/opened$k > /tmp/other; done; "
              f"echo 0 > {INSTANCE}/tracing_on; sed 's,/0x[0-9a-f]*,,g' {INSTANCE}/trace > /tmp/traced", timeout=60)
    kit.stop_recorder(ctx, agent)
    check_equal(ctx, guest, kit.events_of(ctx, capture), ["kprobes:opens"], "/tmp/traced")
    guest.run(f"echo 0 > {INSTANCE}/events/kprobes/opens/enable; rmdir {INSTANCE}; echo > {TRACING}/kprobe_events")
    select(guest, "--reset")
    ctx.equal(guest.run(f"ls {kit.TREE}/events/kprobes").split(), ["enable"], "probes after --reset")


@case("select-read-trigger", **KERNELS)
def select_read_trigger(ctx):
    """A trigger that a guest selects freezes its rings; a host that only reads has what led there, and nothing of later."""
    guest = up(ctx)
    select(guest, "-e", "storm", "--trigger", "storm:storm if number == 100 && context == 0: traceoff")
    ctx.check("triggers: armed" in select(guest, "--show"), "no trigger is armed")
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, guest, capture)
    for _ in range(2):
        kit.storm(guest, 1000)
    kit.stop_recorder(ctx, agent)
    lines = [line for line in kit.events_of(ctx, capture) if line["type"] == "event" and line["stream"] == guest.name]
    kit.intact_storm(ctx, lines, guest.name)
    fired = [line for line in lines if line["event"] == "trigger"]
    ctx.equal(len(fired), 1, "events that say that it fired")
    there = [line for line in lines if line["cpu"] == fired[0]["cpu"]]
    ctx.equal(there[-1], fired[0], "the last event of that CPU")
    # An interrupt may record between the two.
    numbers = [line["fields"]["number"] for line in there if line["event"] == "storm" and line["fields"]["context"] == 0]
    ctx.equal(numbers[-1], 100, "the last event of its task")
    shown = select(guest, "--show")
    ctx.check("triggers: fired, rings are frozen" in shown and ", 1 fired" in shown, shown)
    select(guest, "--reset")
    ctx.equal(select(guest, "--show").strip(), "nothing is selected", "after --reset")
    select(guest, "-e", "storm")
    agent = start_recorder(ctx, guest, capture)
    before = kit.offered_by(guest)
    kit.storm(guest, 50)
    kit.stop_recorder(ctx, agent)
    kit.check_storm(ctx, kit.events_of(ctx, capture), guest.name, kit.offered_by(guest) - before)


@case("select-read-sample", **KERNELS)
def select_read_sample(ctx):
    """A guest selects samples and stacks, and the size of its rings, for a host that only reads."""
    guest = up(ctx)
    select(guest, "-e", "sched:sched_switch", "-T", "--sample", 250, "--buffer-size", "512K")
    ctx.equal(guest.run(f"cat {kit.TREE}/buffer_size_kb").strip(), "512", "KiB of each ring")
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, guest, capture)
    guest.run("k=0; while [ $k -lt 30000 ]; do k=$((k + 1)); done; sleep 0.1", timeout=60)
    kit.stop_recorder(ctx, agent)
    lines = [line for line in kit.events_of(ctx, capture) if line["type"] == "event"]
    stacks = [line for line in lines if line["event"] == "stack" and line["fields"]["stack"]]
    samples = [line for line in lines if line["system"] == "sample" and line["event"] == "cpu"]
    print(f"  {len(samples)} samples, {len(stacks)} stacks")
    ctx.check(samples and stacks, f"{len(samples)} samples, {len(stacks)} stacks of {len(lines)} events")
    ctx.equal({line["text"].split(" => ")[1] for line in stacks}, {"__schedule"}, "the innermost functions")


@case("select-read-refused", usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_read_refused(ctx):
    """What cannot be selected is refused in a line, and the former selection stays; the refusal of a host names who has selected."""
    notroot = ctx.guest_program("notroot")
    ctx.initrd(machines.of(ctx.kernel).select, notroot)
    guest = ctx.guest(mem="512M")
    guest.boot()

    def refused(line, *words, user=""):
        text = guest.run(f"{user} tracebraid-select {quoted(words)} 2>&1; echo status $?", timeout=60)
        ctx.check(line in text and text.splitlines()[1:] == ["status 1"], f"{words}: said {text!r}, not {line!r}")

    refused("/dev/tracebraid-select does not exist: load the driver: modprobe tracebraid", "-e", "sched")
    kit.load(guest, "allow=irq")
    refused("no option is given")
    refused("only root can open it", "-e", "sched", user="notroot")
    select(guest, "-e", "storm:storm", "-f", "number & 1")
    refused("sched:sched_switch has no field 'next_pri'; did you mean 'next_prio'?", "-e", "sched:sched_switch", "-f", "next_pri < 1")
    refused("a number, a \"text\" or a field is missing", "-e", "sched:sched_switch", "-f", "next_pid ==")
    refused("no event \"sched:sched_swich\" in this guest; did you mean sched:sched_switch", "-e", "sched:sched_swich")
    refused("a snapshot needs a host that writes", "--trigger", "storm:storm: snapshot")
    ctx.check("storm:storm: " in select(guest, "--show"), "the former selection is gone")
    # What only the driver can tell comes after its end.
    refused("/no/such: no such cgroup", "-e", "sched:sched_switch", "--cgroup", "/no/such")
    ctx.check("nothing is selected" in select(guest, "--show"), "half of what was refused is selected")
    # What fires before the last command is no refusal.
    select(guest, "--trigger", "sched:sched_switch: traceoff")
    ctx.check("triggers: fired, rings are frozen" in select(guest, "--show"), "the trigger is not set, or has not fired")
    # allow= is about hosts, not about the guest's own root, whose selection a host does not change.
    select(guest, "-e", "sched:sched_switch", "-f", "next_pid == 1")
    done = ctx.run_agent("record", "-r", guest.shm, "-e", "irq", "-o", ctx.dir / "x.braid", "-t", "0.3", status=3)
    ctx.check("the guest's own user has selected what is recorded" in done.stderr, done.stderr)
    ctx.check("sched:sched_switch: " in select(guest, "--show"), "the host has ended the selection")
    select(guest, "--reset")
    ctx.run_agent("record", "-r", guest.shm, "-e", "irq", "-o", ctx.dir / "x.braid", "-t", "0.3")
    guest.run("mv /dev/tracebraid-select /dev/aside")
    refused("the loaded driver is too old; update it", "-e", "irq")
    guest.run("mv /dev/aside /dev/tracebraid-select; mount -t securityfs none /sys/kernel/security; "
              "echo confidentiality > /sys/kernel/security/lockdown")
    refused("not in lockdown mode 'confidentiality'", "-e", "irq")

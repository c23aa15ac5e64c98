# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of what a host selects in the guest: filters of events."""

import json
import re

import kit
from harness import case
from tracefs import FILTERS, INSTANCE, TRACING, WORK, check_equal, trace_in_guest

ACCOUNT = re.compile(r"filter of (\S+): (\d+) offered = (\d+) filtered \+ (\d+) written \+ (\d+) lost$")
COUNTS = ("offered", "filtered", "written", "lost")


def accounts(lines):
    """The accounts of filters among a report's lines: {event: (offered, filtered, written, lost)}."""
    found = (ACCOUNT.match(line["text"]) for line in lines if line["type"] == "note")
    return {match[1]: tuple(map(int, match.groups()[1:])) for match in found if match}


def check_same(ctx, capture, kept):
    """Checks that stat and SQL have the accounts of such notes."""
    rows = ctx.run_agent("sql", "--json", capture, "SELECT * FROM filters").stdout.splitlines()
    for filters in kit.check_accounts(ctx, capture)["filters"], map(json.loads, rows):
        found = {f"{row['system']}:{row['event']}": tuple(row[name] for name in COUNTS) for row in filters}
        ctx.equal(found, kept, "accounts as data")


@case("select-filter", needs=kit.NEEDS, arm64=True)
def select_filter(ctx):
    """The records that pass filters in the guest are, event by event, those that its tracefs has for the same filters."""
    guest = kit.up(ctx, patches_code=True)
    options = [word for event, text in FILTERS.items() for word in ("-e", event, "-f", text)]
    trace_in_guest(guest, FILTERS)
    capture = ctx.dir / "x.braid"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", *options, "-o", capture)
    guest.run(f"echo > {INSTANCE}/trace; {WORK}; echo 0 > {INSTANCE}/tracing_on", timeout=120)
    kit.stop_recorder(ctx, agent)
    lines = kit.events_of(ctx, capture)
    ours = check_equal(ctx, guest, lines, FILTERS)
    kept = accounts(lines)
    ctx.equal(set(kept), set(FILTERS), "events whose filter has an account")
    for event, (offered, filtered, written, lost) in kept.items():
        ctx.equal(offered, filtered + written + lost, f"{event}: offered = filtered + written + lost")
        ctx.equal(lost, 0, f"{event}: lost")
        ctx.equal(written, sum(len(texts) for key, texts in ours.items() if key[1] == event.split(":")[1]),
                  f"{event}: written, and events in the capture")
        ctx.check(filtered > 0, f"{event}: nothing was filtered")
    check_same(ctx, capture, kept)


@case("select-refused", usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_refused(ctx):
    """A filter that does not fit is refused in a line; whom it does not concern sees every record."""
    guest = kit.up(ctx, patches_code=True)
    capture = ctx.dir / "x.braid"

    def refused(line, *options):
        done = ctx.run_agent("record", "-r", guest.shm, *options, "-o", capture, "-t", "0.1", status=1)
        ctx.check(line in done.stderr and done.stderr.count("\n") == 1, f"{options}: said {done.stderr!r}, not {line!r}")

    refused("sched:sched_switch has no field 'next_pri'; did you mean 'next_prio'?", "-e", "sched:sched_switch",
            "-f", "next_pri < 1")
    refused("'next_comm' of sched:sched_switch is a string", "-e", "sched:sched_switch", "-f", "next_comm == 1")
    refused("a number, a \"text\" or a field is missing", "-e", "sched:sched_switch", "-f", "next_pid ==")
    refused("a filter follows the -e", "-f", "next_pid == 1", "-e", "sched:sched_switch")
    refused("has no field 'next_pid'", "-e", "storm,sched:sched_switch", "-f", "next_pid == 1")

    # A probe's fields are known once the guest has it: its filter is refused then.
    done = ctx.run_agent("record", "-r", guest.shm, "--kprobe", "p:open vfs_open", "-f", "pth == 1", "-e", "storm",
                         "-o", capture, "-t", "0.1", status=3)
    ctx.check("no event is enabled: " in done.stderr and "has no field 'pth'" in done.stderr and
              "refused some of what was asked" in done.stderr and "did not confirm" not in done.stderr and
              "are not enabled" not in done.stderr, f"said {done.stderr!r}")

    # The last -e that matches decides; the user of the guest, and the next recording, see all.
    even = "number & 1 && context == 0"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-e", "storm:storm", "-f", even, "-o", capture)
    offered = kit.storm(guest, "1000 4")
    kit.stop_recorder(ctx, agent)
    lines = kit.events_of(ctx, capture)
    numbers = [line["fields"]["number"] for line in lines if line.get("event") == "storm"]
    ctx.check(numbers and all(number & 1 for number in numbers), "an even number was recorded")
    (account,) = accounts(lines).values()
    ctx.equal((account[0], account[2]), (offered, len(numbers)), "offered and written, by the account")
    guest.run(f"echo 1 > {kit.TREE}/events/storm/storm/enable")
    before = offered
    for options in ("-f", even), ():
        agent = kit.start_recorder(ctx, "-r", guest.shm, "-e", "storm", *options, "-o", capture)
        offered = kit.storm(guest, "1000 4")
        kit.stop_recorder(ctx, agent)
        kit.check_storm(ctx, kit.events_of(ctx, capture), guest.name, offered - before)
        before = offered
        guest.run(f"echo 0 > {kit.TREE}/events/storm/storm/enable")


@case("select-who", usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_who(ctx):
    """The events of one task are those that the guest's tracefs has of it; and so are those of tasks of a name, on one CPU."""
    guest = kit.up(ctx, patches_code=True)
    guest.run("mkfifo /tmp/begin /tmp/end")
    worker = guest.bg("echo -n busy > /proc/self/comm; echo $$ > /tmp/pid; read x < /tmp/begin; "
                      "for i in 1 2 3 4 5 6 7 8; do sleep 0.02; done; echo > /tmp/done; read x < /tmp/end")
    guest.run("until [ -s /tmp/pid ]; do sleep 0.1; done", timeout=60)
    pid = int(guest.run("cat /tmp/pid"))
    events = dict.fromkeys(("sched:sched_switch", "sched:sched_wakeup", "raw_syscalls:sys_exit"), "")
    options = [word for event in events for word in ("-e", event)]
    capture = ctx.dir / "x.braid"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", *options, "-P", pid, "-o", capture)
    guest.run(f"mkdir {INSTANCE} && echo {pid} > {INSTANCE}/set_event_pid")
    trace_in_guest(guest, events)
    guest.run(f"echo > /tmp/begin; until [ -e /tmp/done ]; do sleep 0.1; done; sleep 0.1; echo 0 > {INSTANCE}/tracing_on",
              timeout=60)
    kit.stop_recorder(ctx, agent)
    lines = kit.events_of(ctx, capture)
    ours = check_equal(ctx, guest, lines, events)
    (account,) = re.findall(r"filter of 3 events: (\d+) offered = (\d+) filtered \+ (\d+) written \+ 0 lost$",
                            agent.output(), re.MULTILINE)
    offered, filtered, written = map(int, account)
    ctx.equal((offered, written), (filtered + written, sum(map(len, ours.values()))), "offered and written")
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "-e", "raw_syscalls:sys_exit", "--comm", "bus?",
                               "--cpus", "1", "-o", capture)
    guest.run(f"cd {INSTANCE} && echo > set_event_pid && echo 0 > events/enable && echo > trace && echo 1 > tracing_on")
    trace_in_guest(guest, {"raw_syscalls:sys_exit": 'COMM ~ "bus?" && CPU == 1'})
    guest.run("echo > /tmp/end", timeout=60)
    ctx.equal(worker.wait(timeout=60), 0, "status of the worker")
    guest.run(f"{WORK}; {WORK}; echo 0 > {INSTANCE}/tracing_on", timeout=60)
    kit.stop_recorder(ctx, agent)
    check_equal(ctx, guest, kit.events_of(ctx, capture), ["raw_syscalls:sys_exit"])


def start_worker(guest, work):
    """Starts a task that does its work between `echo > /tmp/begin` and the file /tmp/done; returns it and its number."""
    guest.run("mkfifo /tmp/begin /tmp/end")
    worker = guest.bg(f"echo $$ > /tmp/pid; read x < /tmp/begin; {work}; echo > /tmp/done; read x < /tmp/end")
    guest.run("until [ -s /tmp/pid ]; do sleep 0.1; done", timeout=60)
    return worker, int(guest.run("cat /tmp/pid"))


def run_worker(ctx, guest, worker, agent):
    """Has the task do its work, while the guest's tracefs traces it, and end after the recording."""
    guest.run(f"echo > {INSTANCE}/trace; echo > /tmp/begin; until [ -e /tmp/done ]; do sleep 0.1; done; sleep 0.1; "
              f"echo 0 > {INSTANCE}/tracing_on", timeout=120)
    kit.stop_recorder(ctx, agent)
    guest.run("echo > /tmp/end", timeout=60)
    ctx.equal(worker.wait(timeout=60), 0, "status of the worker")


@case("select-replace", usual=("6.12",), needs=kit.NEEDS)
def select_replace(ctx):
    """However many filters a command replaces, the guest waits once for its writers, which takes 100 ms."""
    guest = kit.up(ctx, patches_code=True)
    capture = ctx.dir / "x.braid"

    def waits():
        return int(guest.run(f"cat {TRACING}/kprobe_profile").split()[1])

    def record(comm):
        kit.stop_recorder(ctx, kit.start_recorder(ctx, "-r", guest.shm, "-e", "sched", "--comm", comm, "-o", capture))

    record("one")
    guest.run(f"echo p:waits synchronize_rcu > {TRACING}/kprobe_events")
    guest.run(f"echo 1 > {TRACING}/events/kprobes/waits/enable")
    before = waits()
    record("other")
    seen, events = waits() - before, int(guest.run(f"ls -d {TRACING}/events/sched/*/ | wc -l"))
    print(f"  {seen} waits for {events} filters")
    ctx.check(0 < seen < events / 2, f"{seen} waits for {events} filters")
    guest.run(f"echo 0 > {TRACING}/events/kprobes/waits/enable && echo > {TRACING}/kprobe_events")


@case("select-children", kernels=("6.1", "6.12", "6.12-rt", "newest"), usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_children(ctx):
    """The events of a task and of all that it forks are those that the guest's tracefs has with event-fork."""
    guest = kit.up(ctx, patches_code=True)
    worker, pid = start_worker(guest, "for i in 1 2 3 4; do sh -c 'sleep 0.01; (sleep 0.01; sleep 0.02) & wait'; done")
    events = dict.fromkeys(("sched:sched_switch", "sched:sched_wakeup", "sched:sched_wakeup_new", "raw_syscalls:sys_exit"), "")
    options = [word for event in events for word in ("-e", event)]
    capture = ctx.dir / "x.braid"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", *options, "--children", "-P", pid, "-o", capture)
    guest.run(f"mkdir {INSTANCE} && echo 1 > {INSTANCE}/options/event-fork && echo {pid} > {INSTANCE}/set_event_pid")
    trace_in_guest(guest, events)
    run_worker(ctx, guest, worker, agent)
    lines = kit.events_of(ctx, capture)
    ours = check_equal(ctx, guest, lines, events)
    pids = {line["pid"] for line in lines if line.get("event") == "sys_exit"}
    ctx.check(len(pids) > 4, f"tasks: {pids}")
    print(f"  {sum(map(len, ours.values()))} events of {len(pids)} tasks")
    # The next recording does not know them.
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-e", "raw_syscalls:sys_exit", "--children", "-P", 32000, "-o", capture)
    guest.run("true; true")
    kit.stop_recorder(ctx, agent)
    ctx.equal([line for line in kit.events_of(ctx, capture) if line.get("event") == "sys_exit"], [], "events of nobody")


@case("select-cgroup", kernels=("6.1", "6.12", "6.12-rt", "newest"), usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_cgroup(ctx):
    """The events of a cgroup, named by its path or id, are those that the guest's tracefs has of the task in it."""
    guest = kit.up(ctx, patches_code=True)
    guest.run("mount -t cgroup2 none /sys/fs/cgroup && mkdir -p /sys/fs/cgroup/web/one /sys/fs/cgroup/webs")
    events = ("sched:sched_switch", "sched:sched_wakeup", "raw_syscalls:sys_exit")
    options = [word for event in events for word in ("-e", event)]
    capture = ctx.dir / "x.braid"
    done = ctx.run_agent("record", "-r", guest.shm, *options, "--cgroup", "/no/such", "-o", capture, "-t", "0.2", status=3)
    ctx.check("3 events are recorded unfiltered: /no/such: no such cgroup (v2) in the guest\n" in done.stderr, done.stderr)
    for group in "/web", guest.run("stat -c %i /sys/fs/cgroup/web/one").strip():
        guest.run("mkfifo /tmp/none")
        worker, pid = start_worker(guest, "exec 9<> /tmp/none; for i in 1 2 3 4 5 6; do echo x > /tmp/x; read -t 0.02 x <&9; done")
        guest.run(f"echo {pid} > /sys/fs/cgroup/web/one/cgroup.procs; echo $$ > /sys/fs/cgroup/webs/cgroup.procs")
        agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", *options, "--cgroup", group, "-o", capture)
        trace_in_guest(guest, {"sched:sched_switch": f"prev_pid == {pid} || next_pid == {pid}",
                               "sched:sched_wakeup": f"pid == {pid} || common_pid == {pid}",
                               "raw_syscalls:sys_exit": f"common_pid == {pid}"})
        guest.run(f"echo 1 > {INSTANCE}/tracing_on")
        run_worker(ctx, guest, worker, agent)
        check_equal(ctx, guest, kit.events_of(ctx, capture), events)
        guest.run("rm -f /tmp/begin /tmp/end /tmp/done /tmp/pid /tmp/none")

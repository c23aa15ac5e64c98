# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of what the guest's events are made of: ftrace's export, sub-events, print functions."""

import collections
import re

import directory
import kit
from harness import case

TREE = "/sys/kernel/debug/tracebraid"
TRACING = "/sys/kernel/tracing"
CALLS = "raw_syscalls/sys_enter/subevents"


def until(guest, condition):
    """Waits in the guest until a shell condition holds."""
    guest.run(f"until {condition}; do sleep 0.1; done", timeout=60)


def check_exported(ctx, guest, event):
    """The exported event comes to have tracefs's format, in the guest and for the host."""
    ours, theirs = f"{TREE}/ftrace/events/{event}/format", f"{TRACING}/events/{event}/format"
    until(guest, f"cmp -s {ours} {theirs}")
    system, name = event.split("/")
    found = directory.living(guest.shm, "ftrace", system, name)
    ctx.equal(len(found), 1, f"living entries of {event}")
    ctx.equal(found[0].format, guest.run(f"cat {theirs}"), f"format of {event} in the directory")
    ctx.check(f"\nID: {found[0].id}\n" in found[0].format, f"{event} has not the kernel's id")
    return found[0].id


@case("source-export", needs=("driver",))
def source_export(ctx):
    """What the guest's user traces in tracefs is told with tracefs's own formats, also when probes come and go."""
    guest = ctx.guest(thread="single")
    guest.boot()
    guest.insmod("tracebraid")
    guest.run(f"echo hello > {TRACING}/trace_marker")
    check_exported(ctx, guest, "ftrace/print")
    guest.run(f"echo vfs_open > {TRACING}/set_ftrace_filter; echo function > {TRACING}/current_tracer; cat /proc/uptime")
    check_exported(ctx, guest, "ftrace/function")
    guest.run(f"echo nop > {TRACING}/current_tracer; echo > {TRACING}/set_ftrace_filter")
    guest.run(f"echo 1 > {TRACING}/events/sched/sched_process_fork/enable; (true)")
    check_exported(ctx, guest, "sched/sched_process_fork")
    guest.run(f"echo 0 > {TRACING}/events/sched/sched_process_fork/enable")

    text = guest.run(f"cat {TREE}/ftrace/trace")
    for wanted in ("tracing_mark_write: hello", "vfs_open <-path_openat", "sched_process_fork: comm="):
        ctx.check(wanted in text, f"the guest's trace file has no {wanted!r}")

    # A probe; another one in its place, which gets its id; the first again, with other arguments.
    ids = []
    for probe in ("p:first vfs_open", "p:second vfs_open path=%di:u64", "p:first vfs_open file=%si:x64"):
        name = probe[2:].split()[0]
        guest.run(f"echo '{probe}' > {TRACING}/kprobe_events")
        guest.run(f"echo 1 > {TRACING}/events/kprobes/{name}/enable; cat /proc/uptime")
        ids.append(check_exported(ctx, guest, f"kprobes/{name}"))
        guest.run(f"echo 0 > {TRACING}/events/kprobes/{name}/enable; echo > {TRACING}/kprobe_events")
    probes = [entry for entry in directory.read(guest.shm)[2] if entry.system == "kprobes"]
    ctx.check("first" in [entry.name for entry in probes if entry.flags & directory.GONE], "the first probe is not gone")
    alive = [entry.id for entry in probes if not entry.flags & directory.GONE]
    ctx.equal(len(alive), len(set(alive)), "living probes, each with an id of its own")
    if ctx.kernel != "6.1":  # whose ids go up
        ctx.equal(len(set(ids)), 1, "different ids of the probes: this case wants one given again")
    guest.run("rmmod tracebraid")


@case("source-syscalls", needs=("driver",))
def source_syscalls(ctx):
    """Each system call is a sub-event of raw_syscalls's events, with its arguments as tracefs has them."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    used, room, entries = directory.read(guest.shm)
    print(f"  the directory has {used} of {room} bytes, {len(entries)} entries")
    ctx.check("do not all fit" not in guest.run("dmesg"), "the directory has no room for all")
    calls = [entry for entry in entries if entry.flags & directory.SUB and entry.name.startswith("sys_enter_")]
    ctx.check(len(calls) > 300, f"only {len(calls)} system calls are known")
    for call in calls:
        ctx.equal(call.flags >> 8, 8 | 8 << 8, f"place of the number of {call.name}")
    openat = directory.living(guest.shm, "trace", "raw_syscalls", "sys_enter_openat")[0]
    ctx.equal(openat.number, 257, "number of openat")
    ctx.equal(guest.run(f"cat {TREE}/trace/events/{CALLS}/sys_enter_openat/format"), openat.format, "format of openat")
    theirs = guest.run(f"cat {TRACING}/events/syscalls/sys_enter_openat/format")
    for line in theirs.splitlines():
        if line.startswith("\tfield:") and "common_" not in line and "__syscall_nr" not in line:
            ctx.check(line in openat.format, f"openat lacks {line!r}")
    ctx.check("sys_openat(dfd: %lx, filename: %lx" in openat.format, "openat does not print its arguments")


@case("source-subevents", usual=("6.1",), needs=("driver", "module:subevents"))
def source_subevents(ctx):
    """Sub-events come and go while their event is recorded and its records are printed."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    guest.insmod("subevents")
    guest.run(f"echo 1 > {TREE}/trace/events/subevents/event/enable")
    files = guest.run(f"cd {TREE}/trace/events/subevents/event/subevents; grep -H . */number").split()
    ctx.equal(sorted(files), sorted(f"part_{7 * k}/number:{7 * k}" for k in range(16)), "numbers of sub-events")
    guest.run("echo 2000 > /sys/kernel/debug/subevents/record")
    busy = [guest.bg(f"while [ ! -e /tmp/enough ]; do {command}; done")
            for command in (f"cat {TREE}/trace/trace > /tmp/text", "echo 10 > /sys/kernel/debug/subevents/record")]
    for _ in range(5):
        guest.run("echo 4 > /sys/kernel/debug/subevents/flip")
    guest.run("touch /tmp/enough")
    ctx.equal([one.wait() for one in busy], [0, 0], "status of printing and recording")
    whole, part, late = map(int, guest.run("cat /sys/kernel/debug/subevents/printed").split())
    ctx.check(whole and part, f"{whole} printed by the event, {part} by sub-events")
    ctx.equal(late, 0, "records printed by sub-events that were unregistered")
    text = guest.run(f"cat {TREE}/trace/trace")
    ctx.check("part: number=7\n" in text and "part: number=105\n" in text, "sub-events do not print")
    ctx.check("whole: number=112\n" in text and "whole: number=7\n" not in text, "what is no sub-event does not print")
    entries = [entry for entry in directory.read(guest.shm)[2] if entry.name.startswith("part_")]
    ctx.equal(len(entries), 16, "entries of sub-events, which take their own again each time they come")
    alive = [entry for entry in entries if not entry.flags & directory.GONE]
    ctx.equal(sorted(entry.number for entry in alive), [7 * k for k in range(16)], "numbers of living sub-events")
    guest.run("rmmod tracebraid 2>/dev/null || rmmod subevents")
    ctx.equal(directory.living(guest.shm, "trace", "subevents", "part_7"), [], "sub-events of a module that has gone")


LINE = re.compile(r"^\s*.*-(\d+)\s+\[\d+\]\s+\S+\s+[\d.]+: (.*)$")


def texts_of(guest, path, pid):
    """What a trace file says of a process's events, behind their times."""
    found = (LINE.match(line) for line in guest.run(f"cat {path}").splitlines())
    # The driver names an mm by a hash of its own.
    return [re.sub("mm_id=[0-9]+", "mm_id=", line[2]) for line in found if line and int(line[1]) == pid]


@case("source-text", needs=("driver",))
def source_text(ctx):
    """The trace file prints the kernel's events as tracefs does, system calls too."""
    guest = ctx.guest(thread="single")
    guest.boot()
    guest.insmod("tracebraid", "ftrace_size_kb=0")
    systems = ("sched", "kmem", "signal", "task", "exceptions", "filemap")
    for system in systems:
        guest.run(f"echo 1 > {TREE}/trace/events/{system}/enable; echo 1 > {TRACING}/events/{system}/enable")
    guest.run(f"echo 1 > {TREE}/trace/events/raw_syscalls/enable; echo 1 > {TRACING}/events/syscalls/enable")
    pid = int(guest.run("sh -c 'echo $$; cat /proc/uptime > /tmp/uptime; kill -0 $$; (exec true)'").split()[0])
    guest.run(f"echo 0 > {TRACING}/events/enable; echo 0 > {TREE}/trace/events/enable")
    theirs = texts_of(guest, f"{TRACING}/trace", pid)
    ours = texts_of(guest, f"{TREE}/trace/trace", pid)
    ctx.check(len(theirs) > 200, f"tracefs has only {len(theirs)} events of the process")
    ctx.check([text for text in theirs if text.startswith("sys_write(fd: 1")], "no system call is among them")
    names = {text.split(":")[0] for text in theirs if re.match(r"\w+: ", text)}
    ctx.check(names >= {"sched_process_exit", "kmem_cache_alloc", "signal_generate", "task_newtask"}, f"only {names}")
    # The events that the driver leaves out are nobody's fault, nor those around the turning on.
    known = set(guest.run(f"ls {TREE}/trace/events/*/").split())
    theirs = [text for text in theirs if text.startswith("sys_") or text.split(":")[0] in known]
    # An interrupt may come between the two records of one event: their order is no matter.
    missing = collections.Counter(theirs) - collections.Counter(ours)
    ctx.equal(list(missing), [], "texts that tracefs has and the driver has not")


FLAGS = re.compile(r"^\s*.*-(\d+)\s+\[(\d+)\]\s+(\S{5})\s+[\d.]+: (\w+): (.*)$")
RESCHED = 1  # the flags' character that another CPU may change between two records of one event


def flags_of(guest, path):
    """How often a trace file has which event with which flags."""
    # A parent on another CPU may reap a task between the two records of its last switch.
    text = guest.run(f"cat {path}", timeout=180).replace("prev_state=X ", "prev_state=Z ")
    found = (FLAGS.match(line) for line in text.splitlines())
    return collections.Counter((line[4], line[1], line[2], line[5], line[3]) for line in found if line)


def without_resched(counter):
    """The same, whether or not the scheduler was wanted."""
    merged = collections.Counter()
    for (*event, flags), times in counter.items():
        merged[(*event, flags[:RESCHED] + flags[RESCHED + 1:])] += times
    return merged


@case("source-flags", usual=("6.1", "6.12", "6.12-rt"), needs=("driver",))
def source_flags(ctx):
    """An event's context flags are those that tracefs records for the same event."""
    guest = ctx.guest(thread="single")
    guest.boot()
    guest.insmod("tracebraid", "ftrace_size_kb=0")
    events = ("sched/sched_wakeup", "sched/sched_switch", "irq/softirq_entry", "timer/hrtimer_start", "timer/hrtimer_cancel",
              "sched/sched_process_fork", "kmem/kmem_cache_alloc", "signal/signal_generate")
    for event in events:
        guest.run(f"echo 1 > {TREE}/trace/events/{event}/enable; echo 1 > {TRACING}/events/{event}/enable")
    guest.run("for k in 1 2 3 4 5; do usleep 1000; cat /proc/uptime; (true); done | wc -l")
    guest.run(f"echo 0 > {TRACING}/events/enable; echo 0 > {TREE}/trace/events/enable")
    theirs, ours = flags_of(guest, f"{TRACING}/trace"), flags_of(guest, f"{TREE}/trace/trace")
    ctx.check({key[0] for key in theirs} >= {event.split("/")[1] for event in events[:4]}, f"only {len(theirs)} events")
    # Those around the turning on and off are in one of the two alone.
    ctx.equal(dict(list((without_resched(theirs) - without_resched(ours)).items())[:5]), {},
              "flags that tracefs has and the driver has not")
    wanted = sum(times for key, times in theirs.items() if key[-1][RESCHED] != ".")
    agreed = sum(min(times, ours[key]) for key, times in theirs.items() if key[-1][RESCHED] != ".")
    ctx.check(wanted and agreed > wanted * 9 // 10, f"of {wanted} events with a reschedule pending {agreed} agree")


@case("source-export-record", usual=("6.12",), needs=("driver", "agent"))
def source_export_record(ctx):
    """The host records what the guest traces in tracefs, and prints it as tracefs and the guest's trace file do."""
    guest = ctx.guest(thread="single")
    guest.boot()
    guest.insmod("tracebraid")
    capture = ctx.dir / "capture"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-e", "signal", "-o", capture)
    guest.run(f"echo vfs_open > {TRACING}/set_ftrace_filter; echo function > {TRACING}/current_tracer")
    guest.run(f"echo 'p:probe vfs_open number=$comm:string' > {TRACING}/kprobe_events")
    guest.run(f"echo 1 > {TRACING}/events/kprobes/probe/enable; echo 1 > {TRACING}/events/sched/sched_process_exec/enable")
    guest.run(f"echo a mark of ours > {TRACING}/trace_marker; (exec cat /proc/uptime)")
    for event in ("ftrace/print", "ftrace/function", "kprobes/probe", "sched/sched_process_exec"):
        check_exported(ctx, guest, event)
    guest.run(f"echo nop > {TRACING}/current_tracer; echo 0 > {TRACING}/events/enable")
    kit.stop_recorder(ctx, agent)
    report = ctx.run_agent("report", capture).stdout
    for wanted in (r"print: +tracing_mark_write: a mark of ours", r"function: +vfs_open <-- path_openat",
                   r"probe: .*number=\"cat\"", r"sched_process_exec: +filename=/\S+ pid="):
        ctx.check(re.search(wanted, report), f"the report has no {wanted!r}")
    ctx.check(not re.search(r"kworker.*vfs_open", report), "the driver's own work is in the trace")

# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of the sources of a guest's events: ftrace's export, sub-events, print functions."""

import collections
import re

import directory
import host
import kit
import machines
from harness import case
from tracefs import WORK, check_equal

TREE = "/sys/kernel/debug/tracebraid"
TRACING = "/sys/kernel/tracing"
CALLS = "raw_syscalls/sys_enter/subevents"


def until(guest, condition):
    """Waits in the guest until a shell condition holds."""
    guest.run(f"until {condition}; do sleep 0.1; done", timeout=60)


def check_exported(ctx, guest, event):
    """Waits until the exported event has tracefs's format in the guest, and checks that in the directory."""
    ours, theirs = f"{TREE}/ftrace/events/{event}/format", f"{TRACING}/events/{event}/format"
    until(guest, f"cmp -s {ours} {theirs}")
    system, name = event.split("/")
    found = directory.living(guest.shm, "ftrace", system, name)
    ctx.equal(len(found), 1, f"living entries of {event}")
    ctx.equal(found[0].format, guest.run(f"cat {theirs}"), f"format of {event} in the directory")
    ctx.check(f"\nID: {found[0].id}\n" in found[0].format, f"{event} does not have the kernel's id")
    return found[0].id


@case("source-export", needs=("driver",), arm64=True)
def source_export(ctx):
    """Events that a user enables in the guest's tracefs have tracefs's formats, also while probes are replaced."""
    guest = ctx.guest(patches_code=True)
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

    text = guest.read(f"{TREE}/ftrace/trace").decode(errors="replace")
    for wanted in ("tracing_mark_write: hello", "vfs_open <-path_openat", "sched_process_fork: comm="):
        ctx.check(wanted in text, f"the guest's trace file does not contain {wanted!r}")

    # A probe; another that replaces it and gets its id; the first again, with other arguments.
    ids = []
    path, file, _ = machines.of(ctx.kernel).registers
    for probe in ("p:first vfs_open", f"p:second vfs_open path={path}:u64", f"p:first vfs_open file={file}:x64"):
        name = probe[2:].split()[0]
        guest.run(f"echo '{probe}' > {TRACING}/kprobe_events")
        guest.run(f"echo 1 > {TRACING}/events/kprobes/{name}/enable; cat /proc/uptime")
        ids.append(check_exported(ctx, guest, f"kprobes/{name}"))
        guest.run(f"echo 0 > {TRACING}/events/kprobes/{name}/enable; echo > {TRACING}/kprobe_events")
    probes = [entry for entry in directory.read(guest.shm)[2] if entry.system == "kprobes"]
    ctx.check("first" in [entry.name for entry in probes if entry.flags & directory.GONE],
              "the first probe's entry is still live")
    alive = [entry.id for entry in probes if not entry.flags & directory.GONE]
    ctx.equal(len(alive), len(set(alive)), "living probes, each with an id of its own")
    if ctx.kernel != "6.1":  # whose ids only increase
        ctx.equal(len(set(ids)), 1, "different ids of the probes: this case needs one that is reused")
    guest.run("rmmod tracebraid")


@case("source-syscalls", needs=("driver",), arm64=True)
def source_syscalls(ctx):
    """Each system call is a sub-event of raw_syscalls's events, with the same arguments as in tracefs."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    used, room, entries = directory.read(guest.shm)
    print(f"  the directory has {used} of {room} bytes, {len(entries)} entries")
    ctx.check("the event directory has no room" not in guest.run("dmesg"), "the directory is too small for all")
    calls = [entry for entry in entries if entry.flags & directory.SUB and entry.name.startswith("sys_enter_")]
    ctx.check(len(calls) > 300, f"only {len(calls)} system calls are known")
    for call in calls:
        ctx.equal(call.flags >> 8, 8 | 8 << 8, f"offset of the number of {call.name}")
    openat = directory.living(guest.shm, "trace", "raw_syscalls", "sys_enter_openat")[0]
    ctx.equal(openat.number, machines.of(ctx.kernel).openat, "number of openat")
    ctx.equal(guest.run(f"cat {TREE}/trace/events/{CALLS}/sys_enter_openat/format"), openat.format, "format of openat")
    theirs = guest.run(f"cat {TRACING}/events/syscalls/sys_enter_openat/format")
    for line in theirs.splitlines():
        # 7.x adds a copy of the caller's memory, which raw_syscalls' records do not hold.
        theirs_alone = ("common_", "__syscall_nr", "__data_loc char[] __filename_val")
        if line.startswith("\tfield:") and not any(word in line for word in theirs_alone):
            ctx.check(line in openat.format, f"openat lacks {line!r}")
    ctx.check("sys_openat(dfd: %lx, filename: %lx" in openat.format, "openat does not print its arguments")


@case("source-subevents", usual=("6.1",), needs=("driver", "module:subevents"), arm64=True)
def source_subevents(ctx):
    """Sub-events are registered and unregistered while their event is recorded and its records are printed."""
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
    text = guest.read(f"{TREE}/trace/trace").decode(errors="replace")
    ctx.check("part: number=7\n" in text and "part: number=105\n" in text, "sub-events do not print")
    ctx.check("whole: number=112\n" in text and "whole: number=7\n" not in text,
              "records without a sub-event do not print")
    entries = [entry for entry in directory.read(guest.shm)[2] if entry.name.startswith("part_")]
    ctx.equal(len(entries), 16, "entries of sub-events, each of which reuses its own")
    alive = [entry for entry in entries if not entry.flags & directory.GONE]
    ctx.equal(sorted(entry.number for entry in alive), [7 * k for k in range(16)], "numbers of living sub-events")
    guest.run("rmmod tracebraid 2>/dev/null || rmmod subevents")
    ctx.equal(directory.living(guest.shm, "trace", "subevents", "part_7"), [], "sub-events of an unloaded module")


OPENAT = re.compile(r'sys_openat\(dfd: (\d+), filename: (\d+) "')
MEMORY = re.compile(r'( \([0-9a-f:]*(, \.\.\.)?\))?( "[^"]*")?(?=[,)])')


def with_numbers_alone(text):
    """A system call's text of 7.x as older kernels print it: without the caller's memory; openat's without its flags."""
    found = OPENAT.match(text)
    if found:
        return f"sys_openat(dfd: {int(found[1]):x}, filename: {int(found[2]):x}"
    return re.sub(r": 0x(?=[0-9a-f])", ": ", MEMORY.sub("", text)) if text.startswith("sys_") else text


LINE = re.compile(r"^\s*.*-(\d+)\s+\[\d+\]\s+\S+\s+[\d.]+: (.*)$")


def texts_of(guest, path, pid):
    """The texts of a process's events in a trace file, without their times."""
    # An emulated PREEMPT_RT kernel prints slowly.
    found = (LINE.match(line) for line in guest.read(path, timeout=240).decode(errors="replace").splitlines())
    # The driver prints its own hash for an mm pointer.
    return [re.sub("mm_id=[0-9]+", "mm_id=", line[2]) for line in found if line and int(line[1]) == pid]


@case("source-text", needs=("driver",), timeout=600)  # arm64 exports too little to print pages in the guest
def source_text(ctx):
    """The trace file prints the kernel's events, including system calls, as tracefs does."""
    guest = ctx.guest(patches_code=True)
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
    if "__filename_val" in guest.run(f"cat {TRACING}/events/syscalls/sys_enter_openat/format"):
        theirs = [with_numbers_alone(text) for text in theirs]
        ours = [text.partition(", flags")[0] if text.startswith("sys_openat(") else text for text in ours]
    ctx.check(len(theirs) > 200, f"tracefs has only {len(theirs)} events of the process")
    ctx.check([text for text in theirs if text.startswith("sys_write(fd: 1")], "no system call is among them")
    names = {text.split(":")[0] for text in theirs if re.match(r"\w+: ", text)}
    ctx.check(names >= {"sched_process_exit", "kmem_cache_alloc", "signal_generate", "task_newtask"}, f"only {names}")
    # Events that the driver does not offer may be missing, and those around the moment of enabling.
    known = set(guest.run(f"ls {TREE}/trace/events/*/").split())
    private = {"kmem_cache_alloc", "kmem_cache_free", "workqueue_queue_work"}
    ctx.check(known >= private, f"the kernel's BTF does not confirm the layouts for {private - known}")
    theirs = [text for text in theirs if text.startswith("sys_") or text.split(":")[0] in known]
    # An interrupt may occur between the two records of one event: their order does not matter.
    missing = collections.Counter(theirs) - collections.Counter(ours)
    ctx.equal(list(missing), [], "texts in tracefs that are missing in the driver")


@case("source-formats", usual=("6.1", "newest"), needs=kit.NEEDS, arm64=True)
def source_formats(ctx):
    """All formats that a guest has print as libtraceevent prints them, or are known to differ."""
    guest = ctx.guest("alpha")
    guest.boot()
    kit.load(guest)
    capture = ctx.dir / "formats.braid"
    kit.stop_recorder(ctx, kit.start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture))
    done = ctx.run("setarch", "-R", host.BUILD / "address" / "test_formats", capture, timeout=300)
    found = re.search(r"of alpha formats (\d+) compiled", done.stdout)
    ctx.check(found and int(found[1]) > 500, f"too few formats: {done.stdout}")


FLAGS = re.compile(r"^\s*.*-(\d+)\s+\[(\d+)\]\s+(\S{5})\s+[\d.]+: (\w+): (.*)$")
RESCHED = 1  # the flag character that another CPU may change between two records of one event


def flags_of(guest, path):
    """The number of times that a trace file has each event with each set of flags."""
    # A parent on another CPU may reap a task between the two records of its last switch.
    text = guest.read(path, timeout=180).decode(errors="replace").replace("prev_state=X ", "prev_state=Z ")
    found = (FLAGS.match(line) for line in text.splitlines())
    return collections.Counter((line[4], line[1], line[2], line[5], line[3]) for line in found if line)


def without_resched(counter):
    """The same without the flag of a pending reschedule."""
    merged = collections.Counter()
    for (*event, flags), times in counter.items():
        merged[(*event, flags[:RESCHED] + flags[RESCHED + 1:])] += times
    return merged


@case("source-flags", usual=("6.1", "newest"), needs=("driver",), arm64=True)
def source_flags(ctx):
    """An event's context flags equal those that tracefs records for the same event."""
    guest = ctx.guest(patches_code=True)
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
    # Events around the moments of enabling and disabling are in only one of the two.
    ctx.equal(dict(list((without_resched(theirs) - without_resched(ours)).items())[:5]), {},
              "flags in tracefs that are missing in the driver")
    wanted = sum(times for key, times in theirs.items() if key[-1][RESCHED] != ".")
    agreed = sum(min(times, ours[key]) for key, times in theirs.items() if key[-1][RESCHED] != ".")
    ctx.check(wanted and agreed > wanted * 9 // 10, f"of {wanted} events with a reschedule pending {agreed} agree")


@case("source-export-record", usual=("6.12",), needs=("driver", "agent"), arm64=True)
def source_export_record(ctx):
    """The host records events that the guest traces in tracefs, and prints them as the guest's trace file does."""
    guest = ctx.guest(patches_code=True)
    guest.boot()
    guest.insmod("tracebraid")
    capture = ctx.dir / "capture"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-e", "signal,rcu:rcu_utilization", "-o", capture)
    guest.run(f"echo 1 > {TRACING}/events/rcu/rcu_utilization/enable")
    guest.run(f"echo vfs_open > {TRACING}/set_ftrace_filter; echo function > {TRACING}/current_tracer")
    guest.run(f"echo 'p:probe vfs_open number=$comm:string' > {TRACING}/kprobe_events")
    guest.run(f"echo 1 > {TRACING}/events/kprobes/probe/enable; echo 1 > {TRACING}/events/sched/sched_process_exec/enable")
    guest.run(f"echo a mark of ours > {TRACING}/trace_marker; (exec cat /proc/uptime)")
    for event in ("ftrace/print", "ftrace/function", "kprobes/probe", "sched/sched_process_exec",
                  "rcu/rcu_utilization"):
        check_exported(ctx, guest, event)
    guest.run(f"echo nop > {TRACING}/current_tracer; echo 0 > {TRACING}/events/enable")
    kit.stop_recorder(ctx, agent)
    report = ctx.run_agent("report", capture).stdout
    for wanted in (r"print: +tracing_mark_write: a mark of ours", r"function: +vfs_open <-- path_openat",
                   r"probe: .*number=\"cat\"", r"sched_process_exec: +filename=/\S+ pid="):
        ctx.check(re.search(wanted, report), f"the report does not contain {wanted!r}")
    ctx.check(not re.search(r"kworker.*vfs_open", report), "the driver's own work is in the trace")
    # A text that the record points to, of the driver's event and of tracefs's.
    for buffer in ("trace", "ftrace"):
        texts = set(re.findall(r"rcu_utilization: +(.*)", ctx.run_agent("report", "-B", buffer, capture).stdout))
        ctx.check({"Start context switch", "End context switch"} <= texts, f"texts in {buffer}: {sorted(texts)[:9]}")


@case("source-export-last", usual=("6.12",), needs=("driver", "agent"), arm64=True)
def source_export_last(ctx):
    """A recording that is stopped at once after the first event of a new probe has that event's name and fields."""
    guest = ctx.guest(patches_code=True)
    guest.boot()
    guest.insmod("tracebraid")
    # With events of the host, which it disables at the end, and without. Ids of probes are reused.
    for name, events in (("second", ("-e", "signal")), ("last", ())):
        guest.run(f"echo 'p:first_{name} vfs_open' > {TRACING}/kprobe_events")
        guest.run(f"echo 'p:{name} vfs_open number=$comm:string' >> {TRACING}/kprobe_events")
        capture = ctx.dir / name
        agent = kit.start_recorder(ctx, "-r", guest.shm, *events, "-o", capture)
        # The driver has just looked for an unknown event: for the next one it would wait.
        first = f"first_{name}"
        known = f"cmp -s {TREE}/ftrace/events/kprobes/{first}/format {first}/format"
        guest.run(f"cd {TRACING}/events/kprobes; echo 1 > {first}/enable; until {known}; do usleep 1000; done; "
                  f"echo 1 > {name}/enable; cat /proc/uptime; echo 0 > {name}/enable", timeout=60)
        kit.stop_recorder(ctx, agent)
        report = ctx.run_agent("report", capture).stdout
        ctx.check(re.search(rf" {name}: .*number=\"cat\"", report), f"the report has no event of {name}")
        ctx.check(not re.search(r"event-\d+:", report), "the report has events whose format is unknown")
        guest.run(f"echo 0 > {TRACING}/events/enable; echo > {TRACING}/kprobe_events")


# Records of 12 to 64 bytes.
LENGTHS = ("irq:softirq_entry", "rcu:rcu_utilization", "raw_syscalls:sys_exit", "sched:sched_process_exit", "sched:sched_waking",
           "task:task_newtask", "sched:sched_process_fork", "signal:signal_generate", "sched:sched_switch")


@case("source-export-lengths", kernels=("6.1", "6.12", "newest"), usual=("6.12",), needs=kit.NEEDS, arm64=True)
def source_export_lengths(ctx):
    """Records of many lengths that the guest's tracefs exports have, each, the values that its trace has."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    lengths = set()
    for event in LENGTHS:
        fields = re.findall(r"offset:(\d+);\tsize:(\d+);", guest.run(f"cat {TRACING}/events/{event.replace(':', '/')}/format"))
        lengths.add(-(-max(int(offset) + int(size) for offset, size in fields) // 4) * 4)
    print(f"  records of {sorted(lengths)} bytes")
    ctx.check(len(lengths) >= 6 and min(lengths) <= 12 and max(lengths) >= 64, "records have few lengths")
    enable = "; ".join(f"echo 1 > {TRACING}/events/{event.replace(':', '/')}/enable" for event in LENGTHS)
    guest.run(f"echo 0 > {TRACING}/tracing_on; echo 4096 > {TRACING}/buffer_size_kb; {enable}")
    # The driver looks up each event at its first record.
    guest.run(f"echo 1 > {TRACING}/tracing_on; (true); sleep 0.1; echo 0 > {TRACING}/tracing_on")
    for event in LENGTHS:
        check_exported(ctx, guest, event.replace(":", "/"))
    capture = ctx.dir / "capture"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "ftrace", "-o", capture)
    guest.run(f"echo > {TRACING}/trace; echo 1 > {TRACING}/options/event-fork; echo $$ > {TRACING}/set_event_pid; "
              f"echo 1 > {TRACING}/tracing_on; {WORK}; echo 0 > {TRACING}/tracing_on; cat {TRACING}/trace > /tmp/traced", timeout=120)
    kit.stop_recorder(ctx, agent)
    ours = check_equal(ctx, guest, kit.events_of(ctx, capture), LENGTHS, "/tmp/traced")
    print(f"  {sum(map(len, ours.values()))} events")

# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of analyses: causes are planted on real guests, and the answer must name them, and how much they took."""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import cgroup
from harness import case
from kit import NEEDS, events_of, start_recorder, stop_recorder, up

SLICES, SLICE_MS, PAUSE_MS = 20, 20, 20
QUOTA_US, PERIOD_US, PERIODS = 2_000, 50_000, 30  # so little that QEMU reaches it on a busy machine, too
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
WAKES = "/sys/kernel/debug/wakes"
WAKE_UPS = 5  # by each cause
ONLINE, OFFLINE_S = "/sys/devices/system/cpu/cpu1/online", 2
CAUSED, FIRED, WAKING, WOKEN, LEAVES, RUNS = range(6)  # as in wakes.c
CAUSES = ("others", "hypervisor", "vmm", "stolen", "throttled", "asleep", "unknown")  # of a wait, by the analysis
ASLEEP = ("halted_ns", "blocked_ns", "sleeping_ns")

# Takes a CPU by SCHED_FIFO for slices of its own CPU time; prints how much that was in all, in ns,
# and how long the slices were by the clock. The CPU time may be less: it lacks what a hypervisor
# below this machine took from the CPU.
HOG = """
import os, sys, time
with open("/proc/self/comm", "w") as comm:
    comm.write(f"hog-{os.getpid()}")
cpu, slices, slice_ms, pause_ms = map(int, sys.argv[1:])
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
spent, clock = time.thread_time_ns, time.monotonic_ns
print("ready")
sys.stdout.flush()
sys.stdin.readline()
first = spent()
elapsed = 0
for k in range(slices):
    elapsed -= clock()
    until = spent() + slice_ms * 1000000
    while spent() < until:
        pass
    elapsed += clock()
    time.sleep(pause_ms / 1000)
print(spent() - first, elapsed)
sys.stdout.flush()
sys.stdin.readline()
"""


def delay_of(tid):
    """How long a thread was runnable and did not run, up to when it last ran, by the kernel's account."""
    return int(pathlib.Path(f"/proc/{tid}/schedstat").read_text(encoding="ascii").split()[1])


def state_of(tid):
    """A thread's state: "R", "S", "T" when it is stopped."""
    return pathlib.Path(f"/proc/{tid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def idle_of(cpu):
    """How long a host CPU has been idle, in ns, by the kernel's account, which rounds down both of its parts."""
    for line in pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines():
        name, *ticks = line.split()
        if name == f"cpu{cpu}":
            return (int(ticks[3]) + int(ticks[4])) * TICK_NS
    raise KeyError(cpu)


def busy(guest):
    """A task on each vCPU that always has something to execute; returns it."""
    return guest.bg("for mask in 1 2; do taskset $mask sh -c 'while :; do :; done' & done; wait")


def wait_scheduled(ctx, threads):
    """Waits until all threads have been scheduled: in a recording, their states are known then."""
    for tid in threads:
        before = delay_of(tid)
        ctx.wait_until(lambda tid=tid, before=before: delay_of(tid) > before, "a vCPU's thread to be scheduled")


def wait_stall_possible(ctx, guest, threads):
    """Waits until a recording has what a stall needs: each vCPU's state, and an event of the guest on it."""
    wait_scheduled(ctx, threads)
    guest.run("taskset 1 true; taskset 2 true")


def check_sums(ctx, found, mostly_known=True):
    """Checks that the three shares of the vCPUs' time add up, and that most of it is known."""
    parts = [found[key] for key in ("proven_ns", "within_bound_ns", "unknown_ns")]
    ctx.equal(sum(parts), found["observed_ns"], "proven, within the bound and unknown, in ns")
    ctx.check(not mostly_known or found["unknown_ns"] < found["observed_ns"] / 10, f"more than a tenth is unknown: {found}")


def analyze(ctx, capture, name, mostly_known=True):
    """An analysis as JSON, checked for its sums."""
    found = json.loads(ctx.run_agent("analyze", name, "--json", "--top", "100", capture, timeout=120).stdout)
    check_sums(ctx, found, mostly_known)
    return found


def check_stood(ctx, found, longest, least, what):
    """Checks that each vCPU stood still for `least` ns; longest: of each, by the analysis `found`.

    The host's kernel omits a switch now and then (docs/analyze.md): without the one before it, the time is unknown.
    """
    text = f"{what} for {least} ns at least, and by the analysis for {longest} ns"
    print(f"     {text}, unknown for {found['unknown_ns']} ns")
    ctx.check(found["unknown_ns"] < found["observed_ns"] / 2, f"more than half is unknown: {found}")
    ctx.check(max(longest) >= least and min(longest) + found["unknown_ns"] >= least, f"{text}: {found}")


def hog_while(ctx, cpu):
    """Starts a hog; returns it when it waits to begin."""
    hog = subprocess.Popen([sys.executable, "-c", HOG, *map(str, (cpu, SLICES, SLICE_MS, PAUSE_MS))],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ctx.defer(hog.kill)
    ctx.equal(hog.stdout.readline(), "ready\n", "the hog's first line")
    return hog


def check_culprits(ctx, capture):
    """The table of SQL and the analysis agree on what each culprit took of each vCPU. Threads may get other names."""
    query = ("SELECT stream || '/vCPU ' || vcpu AS victim, culprit, sum(duration_ns) AS total_ns "
             "FROM vcpu_state WHERE state = 'stolen' GROUP BY 1, 2")
    of_table, of_rows = collections.Counter(), collections.Counter()
    lines = ctx.run_agent("sql", "--json", capture, query).stdout.splitlines()
    found = json.loads(ctx.run_agent("analyze", "steal", "--by", "task", "--json", capture).stdout)
    for sums, rows in ((of_table, map(json.loads, lines)), (of_rows, found["steal"])):
        for row in rows:
            pid = re.search(r"\[\d+\]$", row["culprit"])
            sums[row["victim"], pid.group() if pid else row["culprit"]] += row["total_ns"]
    ctx.equal(of_rows, of_table, "stolen time by victim and culprit")


def check_top(ctx, capture):
    """What top shows of the capture is what the analysis of states finds."""
    (guest,) = json.loads(ctx.run_agent("top", "--json", capture).stdout)["guests"]
    shown = [(vcpu["run"], vcpu["steal"]) for vcpu in guest["vcpus"]]
    rows = analyze(ctx, capture, "states")["vcpu_states"]
    ran = [sum(row[f"{name}_ns"] or 0 for name in ("guest", "hypervisor", "vmm", "running")) for row in rows]
    found = [(ns / row["observed_ns"], row["stolen_ns"] / row["observed_ns"]) for ns, row in zip(ran, rows)]
    near = [abs(a - b) < 0.00051 for one, other in zip(shown, found) for a, b in zip(one, other)]
    ctx.check(len(shown) == len(found) and all(near), f"top shows {shown}, not {found}")


@case("analyze-steal", usual=("6.12",), needs=NEEDS, arm64=True)
def analyze_steal(ctx):
    """A process that takes a guest's pCPU is named as the culprit, with at least 99 % of the CPU time that it took."""
    guest = up(ctx)
    threads = guest.vcpu_threads()
    cpu = max(os.sched_getaffinity(0))
    for tid in [guest.pid, *threads]:
        os.sched_setaffinity(tid, {cpu})
    load = guest.bg("for n in 1 2; do while :; do :; done & done; wait")
    calm = ctx.dir / "calm.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sched", "--host", "-o", calm)
    time.sleep(1)
    stop_recorder(ctx, agent)
    hog = hog_while(ctx, cpu)
    capture = ctx.dir / "steal.braid"
    outside = [delay_of(tid) for tid in threads]
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sched", "--host", "-o", capture)
    inside = [delay_of(tid) for tid in threads]
    hog.stdin.write("\n")
    hog.stdin.flush()
    took, elapsed = map(int, hog.stdout.readline().split())
    inside = [delay_of(tid) - before for tid, before in zip(threads, inside)]
    stop_recorder(ctx, agent)
    outside = [delay_of(tid) - before for tid, before in zip(threads, outside)]
    load.kill()

    found = analyze(ctx, capture, "steal")
    ctx.check(found["recorder_ns"] is not None, "the capture does not say which threads are the recorder's")
    names = {row["culprit"].rpartition("[")[0] for row in found["steal"] if row["culprit"].endswith(f"[{guest.pid}]")}
    ctx.check(names and all(name.startswith("g1/") for name in names), f"QEMU's main thread is {names}")
    ctx.equal(found["missing"][:-1], [], "what the trace lacks, except for kvm events")
    ctx.equal(sum(row["total_ns"] for row in found["steal"]), found["stolen_ns"], "the sum of the rows, in ns")
    check_culprits(ctx, capture)
    check_top(ctx, capture)
    (row,) = analyze(ctx, capture, "summary")["guests"]
    ctx.equal(row["guest"], "g1", "the only guest")
    # A vCPU that waits for the other one, which the hog holds up, is asleep meanwhile.
    asleep = row["asleep_ppm"] * found["observed_ns"] // 1_000_000
    for k in range(len(threads)):
        rows = [row for row in found["steal"] if row["victim"] == f"g1/vCPU {k}"]
        by_hog = sum(row["total_ns"] for row in rows if row["culprit"].endswith(f"[{hog.pid}]"))
        # Interrupts during the hog's slices are in its CPU time, and rows of their own.
        by_irqs = sum(row["total_ns"] for row in rows if row["culprit"].startswith(("irq ", "softirq ")))
        # The host's kernel omits a switch now and then, and what ran after it is then unknown.
        by_unknown = sum(row["total_ns"] for row in rows if row["culprit"] == "unknown")
        total = sum(row["total_ns"] for row in rows)
        # The kernel accounts for a wait when it is over: one may be missing at each end.
        wait = max(row["duration_ns"] for row in found["longest"])
        print(f"     vCPU {k}: {by_hog / took:.4f} of what the hog took; stolen {total / 1e6:.1f} ms, "
              f"by the kernel's account {inside[k] / 1e6:.1f} to {outside[k] / 1e6:.1f} ms")
        slack = took // 100 + found["unknown_ns"]
        ctx.check(took - slack - asleep - by_irqs - by_unknown <= by_hog <= max(took, elapsed) + slack,
                  f"the hog took {took} ns in {elapsed} ns, and by the analysis {by_hog} ns: {rows[:5]}")
        ctx.check(inside[k] - wait - slack <= total <= outside[k] + wait + slack,
                  f"stolen: {total} ns; by the kernel's account from {inside[k]} to {outside[k]} ns")

    compared = json.loads(ctx.run_agent("analyze", "steal", "--json", "--against", calm, capture).stdout)
    for side in ("now", "other"):
        check_sums(ctx, compared[side])
    (row,) = (row for row in compared["measures"] if row["measure"] == f"stolen by hog-{hog.pid}")
    print(f"     {row['measure']}: {row['other'] / 1e4:.2f} % without it, {row['now'] / 1e4:.2f} % with it, "
          f"change {row['change'] / 1e4:+.2f} % ±{row['interval'] / 1e4:.2f} %")
    ctx.check(row["change"] > 0, f"the hog is not a change: {row}")

    stalls = analyze(ctx, capture, "stalls")
    for row in stalls["stalls"]:
        states = sum(value for key, value in row.items()
                     if key.endswith("_ns") and key not in ("at_ns", "duration_ns", "idle_ns", "stall_ns") and value)
        ctx.equal(states, row["duration_ns"], "the states of a stall, in ns")


@case("analyze-stopped", usual=("6.1",), needs=NEEDS, arm64=True)
def analyze_stopped(ctx):
    """A guest whose QEMU is stopped by a signal is stopped, not stolen, for as long."""
    guest = up(ctx)
    capture = ctx.dir / "stopped.braid"
    load = guest.bg("for n in 1 2; do while :; do :; done & done; wait")
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sched", "--host", "-o", capture)
    threads = guest.vcpu_threads()
    wait_stall_possible(ctx, guest, threads)
    pid = guest.pid
    os.kill(pid, signal.SIGSTOP)
    ctx.wait_until(lambda: all(state_of(tid) == "T" for tid in threads), "the vCPUs' threads to stop")
    began = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    time.sleep(0.3)
    stopped = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - began
    os.kill(pid, signal.SIGCONT)
    ctx.wait_until(lambda: all(state_of(tid) != "T" for tid in threads), "the vCPUs' threads to continue")
    guest.run("true")
    stop_recorder(ctx, agent)
    load.kill()
    found = analyze(ctx, capture, "stalls", mostly_known=False)
    longest = [max((row["stopped_ns"] for row in found["stalls"] if row["vcpu"] == f"g1/vCPU {k}"), default=0)
               for k in range(len(threads))]
    check_stood(ctx, found, longest, stopped, "stopped")


@case("analyze-offline", usual=("6.12",), needs=NEEDS)
def analyze_offline(ctx):
    """A vCPU that its guest takes off is offline for as long, and does not stall; also if that was before."""
    guest = up(ctx)
    captures = [ctx.dir / f"offline{number}.braid" for number in range(2)]
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "--host", "-o", captures[0])
    guest.run("true")
    since = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    guest.run(f"echo 0 > {ONLINE}")
    times = [time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)]
    time.sleep(OFFLINE_S)
    times.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW))
    guest.run(f"echo 1 > {ONLINE}")
    most = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - since
    guest.run("true")
    stop_recorder(ctx, agent)
    said = re.findall(r"cpu_online: +(.*)", ctx.run_agent("report", captures[0]).stdout)
    ctx.equal([what for k, what in enumerate(said) if not k or what != said[k - 1]], ["cpu=1 offline", "cpu=1 online"],
              "what the guest says, and repeats")
    check_offline(ctx, captures[0], times, most)

    guest.run(f"echo 0 > {ONLINE}")
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sched", "--host", "-o", captures[1])
    ctx.wait_until(lambda: "cpu=1 offline" in ctx.run_agent("report", captures[1]).stdout, "the guest to say it again")
    times = [time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)]
    time.sleep(OFFLINE_S)
    times.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW))
    stop_recorder(ctx, agent)
    check_offline(ctx, captures[1], times, None)


def check_offline(ctx, capture, times, most):
    """Checks that vCPU 1 was offline between the two times, but for QEMU's own work in its thread, and in all for no longer
    than `most`; and that no stall counts this time.
    """
    (began, ended), least = times, times[1] - times[0]
    row = analyze(ctx, capture, "states", mostly_known=False)["vcpu_states"][1]
    ctx.equal(sum(value or 0 for key, value in row.items() if key.endswith("_ns") and key != "observed_ns"),
              row["observed_ns"], "the states of vCPU 1, in ns")
    most = most or row["observed_ns"]
    ctx.check(least * 0.9 <= row["offline_ns"] <= most, f"offline for {least} to {most} ns: {row}")
    for stall in analyze(ctx, capture, "stalls", mostly_known=False)["stalls"]:
        common = min(stall["at_ns"] + stall["duration_ns"], ended) - max(stall["at_ns"], began)
        if stall["vcpu"] == "g1/vCPU 1" and common > 0:
            ctx.check(stall["stall_ns"] <= stall["duration_ns"] - common * 0.9, f"offline from {began} to {ended}: {stall}")
    (guest,) = analyze(ctx, capture, "summary", mostly_known=False)["guests"]
    ctx.check(guest["offline_ppm"] > 0, f"the summary has no offline time: {guest}")
    print(f"     offline for {row['offline_ns'] / 1e9:.3f} of {least / 1e9:.3f} to {most / 1e9:.3f} s")


@case("analyze-frozen", usual=("6.12",), needs=NEEDS)
def analyze_frozen(ctx):
    """A guest whose QEMU is frozen by its control group is asleep with work to do, not stolen, for as long."""
    groups = cgroup.groups(ctx, cgroup.Freezer)
    if not groups:
        ctx.skip("no cgroup hierarchy whose groups can be frozen")
    guest = up(ctx)
    threads = guest.vcpu_threads()
    load = busy(guest)
    for number, group in enumerate(groups):
        capture = ctx.dir / f"frozen{number}.braid"
        agent = start_recorder(ctx, "-r", guest.shm, "-e", "sched", "--host", "-o", capture)
        wait_stall_possible(ctx, guest, threads)
        group.add(guest.pid)
        group.freeze()
        ctx.wait_until(group.is_frozen, "QEMU to be frozen")
        began = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        time.sleep(0.3)
        frozen = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - began
        group.release()
        guest.run("true")
        stop_recorder(ctx, agent)
        found = analyze(ctx, capture, "stalls", mostly_known=False)
        longest = [max((sum(row[key] or 0 for key in ASLEEP) for row in found["stalls"]
                        if row["vcpu"] == f"g1/vCPU {k}" and not row["idle_ns"]), default=0) for k in range(len(threads))]
        check_stood(ctx, found, longest, frozen, f"{group}: frozen")
        text = ctx.run_agent("analyze", "stalls", "--top", "100", capture).stdout
        ctx.check("asleep with work to do" in text, f"no vCPU is asleep with work to do in\n{text}")
    load.kill()


def taken(ctx, capture, nr_vcpus, since_ns, until_ns):
    """Of each vCPU, within a time: how long it was stolen or throttled, and how much of that throttled, while its CPU was idle,
    by interrupts, or by what is unknown; and how long it did not wait.
    """
    limits = [f"--{name}={ns // 10**9}.{ns % 10**9:09}" for name, ns in (("since", since_ns), ("until", until_ns))]
    stolen, states = (json.loads(ctx.run_agent("analyze", name, "--json", *limits, capture).stdout)
                      for name in ("steal", "states"))
    found = []
    for k, row in zip(range(nr_vcpus), states["vcpu_states"]):
        mine = {one["culprit"]: one["total_ns"] for one in stolen["steal"] if one["victim"] == f"g1/vCPU {k}"}
        found.append({
            "stolen": row["stolen_ns"] + row["throttled_ns"], "throttled": row["throttled_ns"],
            "nothing": mine.get("nothing (idle CPU)", 0) + row["throttled_ns"], "unknown": row["unknown_ns"],
            "irqs": sum(ns for culprit, ns in mine.items() if culprit.startswith(("irq ", "softirq ", "unknown"))),
            "other": sum(row[key] or 0 for key in (*ASLEEP, "unknown_ns")),
        })
    return found


def leaves_idle(ctx, capture, cpu):
    """Whether a host CPU's switches from its idle task are traced. Under some hypervisors, a kernel omits these switches on
    some CPUs; its idle time for them may then be wrong, too.
    """
    switches = [line["fields"] for line in events_of(ctx, "--stream", "host", "--cpu", str(cpu), "-e", "sched_switch", capture)
                if line["type"] == "event"]
    entered, left = (sum(not switch[pid] for switch in switches) for pid in ("next_pid", "prev_pid"))
    if left >= entered // 2:
        return True
    print(f"     CPU {cpu}: this kernel traced {entered} switches to the idle task and {left} from it: "
          "its account of idle time is not compared")
    return False


@case("analyze-quota", usual=("6.1",), needs=NEEDS)
def analyze_quota(ctx):
    """A guest that a CPU quota throttles waits as long as the kernel says; it is throttled while its CPU is idle."""
    groups = cgroup.groups(ctx, cgroup.Quota)
    if not groups:
        ctx.skip("no cgroup hierarchy whose groups can have a CPU quota")
    quota = groups[0]
    guest = up(ctx)
    threads = guest.vcpu_threads()
    cpu = max(os.sched_getaffinity(0))
    # The kernel counts throttled time by CPU: on one, it is that of the vCPUs.
    for tid in os.listdir(f"/proc/{guest.pid}/task"):
        os.sched_setaffinity(int(tid), {cpu})
    load = busy(guest)
    quota.add(guest.pid)
    quota.limit(100 * PERIOD_US, PERIOD_US)  # never reached: the group is followed at once
    capture = ctx.dir / "quota.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sched", "--host", "-o", capture)
    wait_scheduled(ctx, threads)

    def account():
        """What the kernel has counted, between the times of the host's clock before and after it."""
        began = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        counted = idle_of(cpu), *(delay_of(tid) for tid in threads)
        return began, time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), counted

    first = account()
    quota.limit(QUOTA_US, PERIOD_US)
    ctx.wait_until(lambda: quota.throttled()[0] >= PERIODS, f"{PERIODS} periods in which QEMU is throttled")
    quota.release()
    throttled = quota.throttled()[1]
    last = account()
    wait_scheduled(ctx, threads)
    stop_recorder(ctx, agent)
    load.kill()

    text = ctx.run_agent("analyze", "summary", capture).stdout
    row, = analyze(ctx, capture, "summary")["guests"]
    # On a busy machine there may be no idle time that would show it.
    ctx.check(f"by the CPU quota of /{quota.path.name} (" in text or row["throttled_ppm"] < 10_000,
              f"the summary does not name {quota.path}:\n{text}")
    by_moments = "counts as within bounds" not in text
    by_threads = " throttle_cfs_rq_work\n" in pathlib.Path("/proc/kallsyms").read_text(encoding="ascii")
    ctx.check(not by_moments or os.path.exists("/sys/kernel/tracing/kprobe_events"),
              f"the summary does not say that this is not proven:\n{text}")
    idle, *waited = (after - before for before, after in zip(first[2], last[2]))
    # The kernel accounts for a wait when it is over: one may be missing or too much at each end.
    wait = max(row["duration_ns"] for row in analyze(ctx, capture, "steal")["longest"])
    slack = throttled // 100 + max(wait, 1000 * PERIOD_US)
    idle_is_accounted = leaves_idle(ctx, capture, cpu)
    inner = taken(ctx, capture, len(threads), first[1], last[0])
    outer = taken(ctx, capture, len(threads), first[0], last[1])
    for k, (least, most) in enumerate(zip(inner, outer)):
        print(f"     vCPU {k}: throttled for {throttled / 1e6:.1f} ms and runnable for {waited[k] / 1e6:.1f} ms by the "
              f"kernel's account, stolen {most['stolen'] / 1e6:.1f} ms; CPU {cpu} idle for {idle / 1e6:.1f} ms, "
              f"stolen by nothing {most['nothing'] / 1e6:.1f} ms; slack {slack / 1e6:.1f} ms; unknown for "
              f"{most['unknown'] / 1e6:.1f} ms")
        ctx.check(most["stolen"] >= throttled - throttled // 100 - most["other"],
                  f"vCPU {k} was throttled for {throttled} ns: {most}")
        ctx.check(least["stolen"] - least["irqs"] - slack <= waited[k] <= most["stolen"] + most["unknown"] + slack,
                  f"vCPU {k} was runnable for {waited[k]} ns: {least}, {most}")
        if by_moments:  # proven; of threads, the first one counts
            least_throttled = 0 if by_threads else throttled - throttled // 100 - most["other"]
            ctx.check(least_throttled <= most["throttled"] <= throttled + slack,
                      f"vCPU {k} was throttled for {throttled} ns, by the kernel's own moments: {most}")
            continue
        # A wait for an idle CPU is throttled, but for the switch to the thread at its end.
        ctx.check(most["throttled"] >= most["nothing"] * 8 // 10 - slack, f"vCPU {k} waits for an idle CPU, not throttled: {most}")
        if not idle_is_accounted:
            continue
        # An idle CPU is not idle by the kernel's account while it handles an interrupt, which a
        # hypervisor may prolong.
        apart = slack + 2 * TICK_NS
        ctx.check(least["nothing"] - apart <= idle <= most["nothing"] + most["other"] + most["irqs"] + apart,
                  f"CPU {cpu} was idle for {idle} ns, vCPU {k}: {least}, {most}")


def wake_ups_of(ctx, capture):
    """What the guest itself recorded of each wake-up: by moment, the event's line."""
    found = {}
    for line in events_of(ctx, "-e", "wakes:moment", capture):
        if line["type"] != "event":
            continue
        fields = line["fields"]
        moments = found.setdefault(fields["number"], {})
        if fields["moment"] != CAUSED or FIRED not in moments:
            moments[fields["moment"]] = line
    for number, moments in found.items():
        ctx.equal(sorted(moments), list(range(6)), f"recorded moments of wake-up {number}")
    return list(found.values())


def between(ctx, moments, value, shortest, longest, what):
    """Checks a duration of the analysis, in ns, with two of the guest's clock: each is from one moment to another."""
    own = {moment: line["fields"]["own_ns"] for moment, line in moments.items()}
    least, most = (own[to] - own[start] for start, to in (shortest, longest))
    bound = 2 * max(line["bound_ns"] for line in moments.values())
    ctx.check(least - least // 100 - bound <= value <= most + most // 100 + bound,
              f"{what}: {value} ns, and by the guest from {least} to {most} ns, bound {bound} ns")
    return f"{value / 1e6:.3f} ms of {least / 1e6:.3f} to {most / 1e6:.3f} ms"


def stage_within(ctx, capture, moments, name):
    """A stage's row, of the time of one wake-up only."""
    # An IPI's cause is an event of another vCPU.
    times = moments[CAUSED]["ns"] - moments[CAUSED]["bound_ns"], moments[RUNS]["ns"]
    since, until = (f"{ns // 10**9}.{ns % 10**9:09}" for ns in times)
    found = json.loads(ctx.run_agent("analyze", "wake", "--json", "--cpu", "1", "--since", since, "--until", until,
                                     capture).stdout)
    (row,) = (row for row in found["stages"] if row["stage"] == name)
    return row


@case("analyze-wakes", usual=("6.12",), needs=(*NEEDS, "module:wakes"))
def analyze_wakes(ctx):
    """Wake-ups by timers and IPIs of known moments: each stage takes as long as the guest measured itself."""
    guest = up(ctx)
    guest.insmod("wakes")
    capture = ctx.dir / "wakes.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sched", "-e", "irq", "-e", "irq_vectors", "-e", "wakes",
                           "--host", "-o", capture)
    load = busy(guest)
    for k in range(WAKE_UPS):
        before_us, after_us = 1000 * (1 + k), 1000 * (WAKE_UPS - k)
        for cause in ("timer", "ipi"):
            guest.run(f"taskset 1 sh -c 'echo 1000 {before_us} {after_us} > {WAKES}/{cause}'")
    stop_recorder(ctx, agent)
    load.kill()

    wake_ups = wake_ups_of(ctx, capture)
    ctx.equal(len(wake_ups), 2 * WAKE_UPS, "wake-ups of the guest")
    task = wake_ups[0][RUNS]["pid"]
    found = ctx.run_agent("analyze", "wake", "--json", "--task", task, "--top", "1000", capture).stdout
    waits = json.loads(found)["longest"]
    missing = 0
    for number, moments in enumerate(wake_ups):
        mine = [row for row in waits if moments[WAKING]["ns"] <= row["at_ns"] <= moments[WOKEN]["ns"]]
        ctx.equal(len(mine), 1, f"waits after wake-up {number}, which has {moments}; all: {waits}")
        wait = between(ctx, moments, mine[0]["duration_ns"], (WOKEN, LEAVES), (WAKING, RUNS), "task woken to on CPU")
        parts = sum(mine[0][f"{cause}_ns"] or 0 for cause in CAUSES)
        ctx.equal(parts, mine[0]["duration_ns"], "the causes of the wait, in ns")
        row = stage_within(ctx, capture, moments, "handler to task woken")
        # A call may have been taken by the handler of an earlier one.
        missing += not row["count"]
        stage = row["count"] and between(ctx, moments, row["worst_ns"], (FIRED, WAKING),
                                         (CAUSED, WOKEN if row["count"] == 1 else RUNS), "handler to task woken")
        print(f"     wake-up {number}: {stage} from handler to task woken; {wait} from there to on CPU")
    ctx.check(missing <= 1, f"{missing} wake-ups whose handler is not known")

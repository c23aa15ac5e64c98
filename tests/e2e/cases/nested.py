# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests on real KVM beside their host's own events: a timeline must never contradict what KVM guarantees."""

import json
import shlex
import subprocess
import time

import trace_cmd
from harness import case
from kit import TREE
from nested import judge
from nested.machine import InnerGuest, KvmHost

NAMES = ("alpha", "beta")
PAIRS = "/sys/kernel/debug/pairs"
# Few of the kernel's own: each is code patched while others run it, where QEMU's TCG slips (docs/testing.md).
GUEST_EVENTS = "pairs,sched:sched_switch"
HOST_EVENTS = ",".join(["sched:sched_switch"] + [f"kvm:kvm_{name}" for name in (
    "entry", "exit", "pio", "write_tsc_offset")])
MIN_PAIRS = 5000
# Shares. A reset may come amid a pair of each vCPU; windows may be cut by the recording's ends.
MOST_LEFT_OUT = {"windows": 0.01, "pairs": 0.002}
SHOWN = 5

# Ways to put guests on the host's time, by the options of report that choose them; all must pass all checks.
CLOCK_SOURCES = {"kvm": ("--clock-source=kvm",), "exchange": ("--clock-source=exchange",)}
# What steps one vCPU's counter: no one line per guest can be right, so the exact source alone is held to it.
EXACT_SOURCE = "kvm"


class Rig:
    """The host, its guests, and what a phase does with them."""

    def __init__(self, ctx):
        self.ctx = ctx
        self.began = time.monotonic()
        self.tags = 0
        self.host = ctx.adopt(KvmHost(ctx, NAMES))
        self.host.boot()
        self.host.prepare()
        self.say("the host is up")
        self.guests = [ctx.adopt(InnerGuest(ctx, self.host, name)) for name in NAMES]
        for guest in self.guests:
            guest.start()
        for guest in self.guests:
            guest.boot()
            self.load(guest)
        self.threads = {guest.name: guest.vcpu_threads() for guest in self.guests}
        self.say("the guests are up")

    def say(self, text):
        """One line of progress, for the log and on the host's console."""
        text = f"[{time.monotonic() - self.began:5.1f} s] {text}"
        print(text)
        self.host.run(f"echo {shlex.quote(text)} > /dev/kmsg")

    def load(self, guest):
        """Loads driver and pairs, with a tag that no boot had before."""
        self.tags += 1
        guest.insmod("tracebraid")
        guest.insmod("pairs", f"tag={self.tags}")

    def make_pairs(self, guest, number, burst=10, pause_us=20000):
        """Starts so many on each vCPU; the jobs."""
        return [guest.bg(f"taskset {1 << vcpu:x} sh -c 'echo {number} {burst} {pause_us} > {PAIRS}/run'")
                for vcpu in range(guest.smp)]

    def wait_for(self, jobs):
        for job in jobs:
            self.ctx.equal(job.wait(timeout=60), 0, f"status of pairs of {job.guest.name}")

    def offsets(self):
        """What KVM says to be each vCPU's counter less the host's, by the vCPU's thread."""
        return self.host.run("cd /sys/kernel/debug/kvm; for v in */vcpu*; do echo $(cat $v/pid $v/tsc-offset); done")

    def made(self, guest):
        """Pairs of this boot."""
        return int(guest.run(f"cat {PAIRS}/made"))

    def record(self, name, work):
        """Records all guests and their host while work() is done; the capture."""
        path, copy = f"/tmp/{name}.braid", self.ctx.dir / f"{name}.braid"
        job = self.host.bg(f"exec tracebraid record -e {GUEST_EVENTS} --host={HOST_EVENTS} -o {path}")
        log = f"/tmp/bg.{job.id}"
        self.host.run(f"until grep -q ^Recording {log}; do kill -0 {job.pid} || exit 1; usleep 20000; done")
        work()
        self.host.run(f"kill -INT {job.pid}")
        status = job.wait()
        (self.ctx.dir / f"{name}.log").write_text(job.output(), encoding="utf-8")
        self.ctx.equal(status, 0, f"status of the recorder, which said:\n{job.output()}\n")
        self.host.fetch(path, copy)
        self.host.run(f"rm {path}")
        return copy


# Phases: what happens while all is recorded ------------------------------------------------------------------------

def idle(rig):
    """Nothing but the pairs."""
    rig.wait_for([job for guest in rig.guests for job in rig.make_pairs(guest, 800)])


def loaded(rig):
    """Both CPUs of the host are busy with something else."""
    hogs = [rig.host.bg(f"exec taskset {1 << cpu:x} sh -c 'while :; do :; done'") for cpu in range(rig.host.smp)]
    rig.wait_for([job for guest in rig.guests for job in rig.make_pairs(guest, 300)])
    for hog in hogs:
        hog.kill()


def stopped(rig):
    """One guest is stopped amid its pairs, for as long as the other takes for its own."""
    alpha, beta = rig.guests
    before = rig.made(alpha)
    jobs = rig.make_pairs(alpha, 300)
    rig.ctx.wait_until(lambda: rig.made(alpha) > before + 100, "the first pairs")
    alpha.stop()
    rig.wait_for(rig.make_pairs(beta, 300))
    alpha.cont()
    rig.wait_for(jobs)


def restarted(rig):
    """One guest is reset amid its pairs, boots, and makes some more."""
    alpha, beta = rig.guests
    before = rig.made(alpha)
    rig.make_pairs(alpha, 100000)
    rig.ctx.wait_until(lambda: rig.made(alpha) > before + 300, "the first pairs")
    jobs = rig.make_pairs(beta, 300)
    alpha.reset()
    rig.load(alpha)
    rig.ctx.wait_until(lambda: alpha.run(f"cat {TREE}/events/pairs/after/enable").strip() == "0*",
                       "the agent to turn the events on again", timeout=60)
    rig.wait_for(jobs + rig.make_pairs(alpha, 300))


def stepped(rig):
    """One vCPU's counter is moved on, by less than a millisecond."""
    alpha, beta = rig.guests
    jobs = rig.make_pairs(beta, 200)
    rig.wait_for(rig.make_pairs(alpha, 200))
    alpha.run(f"echo 1 1000000 > {PAIRS}/step")
    rig.wait_for(jobs + rig.make_pairs(alpha, 200))


# Judging ----------------------------------------------------------------------------------------------------------

def read_report(ctx, capture, threads, options):
    """The capture's timeline; the report is read while it is written."""
    argv = [ctx.agent_path, "report", "--json", *options, capture]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as report:
        recording = judge.Recording(report.stdout, threads)
    ctx.equal(report.returncode, 0, f"status of {' '.join(map(str, argv))}")
    return recording


def complaints(what, guest, finding):
    """What is wrong, for people; nothing if nothing is."""
    if not finding.wrong:
        return []
    beyond = sum(wrong[2] for wrong in finding.wrong)
    lines = [f"{what} of {guest}: {len(finding.wrong)} of {finding.judged} are wrong, {beyond} of them by more than "
             "the stated bound; the worst:"]
    return lines + [f"  {text}" for _, text, _ in finding.wrong[:SHOWN]]


def judge_guest(recording, guest):
    """(pairs, complaints) of one guest; prints its figures."""
    wrong, counts = [], {}
    for what, check in (("windows", judge.check_windows), ("pairs", judge.check_pairs)):
        finding = check(recording, guest)
        counts[what] = finding.judged
        print(f"    {guest} {what}: {finding.judged} judged, {finding.by_bound} of them by their bound alone, "
              f"{len(finding.wrong)} wrong, {finding.left_out} left out, room {finding.back} ns back, "
              f"{finding.forth} ns forth")
        wrong += complaints(what, guest, finding)
        if finding.left_out > MOST_LEFT_OUT[what] * finding.judged:
            wrong.append(f"{what} of {guest}: {finding.left_out} could not be judged")
        if not finding.judged:
            wrong.append(f"{what} of {guest}: there are none")
        elif not finding.wrong and not judge.check_teeth(check, recording, guest, finding):
            wrong.append(f"{what} of {guest}: times that are off are not noticed")
    return counts["pairs"], wrong


def judge_capture(ctx, capture, threads, source):
    """(pairs, complaints) of one capture under one clock source."""
    recording = read_report(ctx, capture, threads, CLOCK_SOURCES[source])
    print(f"  {capture.stem}, clock source {source}: host {dict(recording.counts)}")
    for stream in recording.streams:
        print(f"    {stream['stream']}: clock {stream['clock']}, bound {stream['bound_ns']} ns, "
              f"epochs {stream.get('epochs')}, read {stream.get('read')}, lost {stream.get('lost')}")
    wrong = [f"the host's buffers lost {recording.lost()} events"] if recording.lost() else []
    pairs = 0
    for guest in recording.guests():
        number, more = judge_guest(recording, guest)
        pairs, wrong = pairs + number, wrong + more
    return pairs, wrong


def check_clock(ctx, capture):
    """Complaints about the exchange, which is checked against KVM's own offset at each of its samples."""
    if ctx.run_agent("clock", "--help", status=None).returncode:
        return []  # this agent cannot tell
    wrong = []
    told = json.loads(ctx.run_agent("clock", capture, "--json").stdout)
    for stream in told["streams"]:
        cross = stream.get("check")
        print(f"    {stream['stream']}: clock {stream['source']} ({stream['reason']}), exchange {stream.get('exchange')}, "
              f"against kvm {cross}")
        if not cross:
            wrong.append(f"{stream['stream']}: the exchange cannot be checked: {stream}")
            continue
        if cross["violations"]:
            wrong.append(f"{stream['stream']}: the exchange contradicts KVM's offset: {cross}")
    return wrong


# A real-time KVM wants a CPU with a constant TSC, which no emulated one is; the debug kernel has no KVM.
@case("nested-kvm", usual=("6.1",), possible=("6.1", "6.12"), needs=("driver", "agent", "module:pairs"), timeout=400,
      alone=True)
def nested_kvm(ctx):
    """On real KVM: every event of a guest is inside its vCPU's windows, every exit between the events around it."""
    rig = Rig(ctx)
    wrong, pairs = [], dict.fromkeys(CLOCK_SOURCES, 0)
    for phase in (idle, loaded, stopped, restarted, stepped):
        rig.say(f"phase {phase.__name__}: {phase.__doc__}")
        capture = rig.record(phase.__name__, lambda phase=phase: phase(rig))
        rig.say(f"recorded; offsets by thread: {', '.join(rig.offsets().splitlines())}")
        for source in CLOCK_SOURCES:
            number, found = judge_capture(ctx, capture, rig.threads, source)
            pairs[source] += number
            if phase is stepped and source != EXACT_SOURCE:
                print("\n".join(["    not held against it:"] + found if found else []))
                continue
            wrong += [f"{phase.__name__}, clock source {source}: {line}" for line in found]
        found = check_clock(ctx, capture)
        if phase is stepped:  # as said above
            print("\n".join(["    not held against it:"] + found if found else []))
        else:
            wrong += found
        if phase is idle:  # others open it, too, and put the host's threads and the guests' CPUs together
            wrong += [line for form in trace_cmd.FORMS
                      for line in trace_cmd.check(ctx.agent_path, capture, form, ctx.dir, kvm=True)[:SHOWN]]
        rig.say("judged")
    print(f"  pairs in all: {pairs}")
    ctx.check(not wrong, "the timeline is wrong:\n" + "\n".join(wrong))
    ctx.check(min(pairs.values()) >= MIN_PAIRS, f"only {pairs} pairs were made")

# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of vCPU threads: found without KVM, stored in the capture, named at the host's events."""

import re

from harness import case
from kit import NEEDS, events_of, start_recorder, stop_recorder, up

UNKNOWN = "vCPU threads unknown (needs KVM, or QEMU with -name debug-threads=on)"


def threads_of(lines):
    """The vCPU threads of the only guest, as stored in the capture: {vCPU, None for all: thread}."""
    return {row["vcpu"]: row["tid"] for line in lines if line["type"] == "stream" and line["kind"] == "guest"
            for row in line["vcpus"]}


def record(ctx, guest, capture, *more):
    """Records a guest without enabling its events; returns the recorder's output and the report's lines."""
    agent = start_recorder(ctx, "-r", guest.shm, "-o", capture, *more, name=capture.stem)
    guest.run("for n in 1 2 3; do usleep 1000; done")
    stop_recorder(ctx, agent)
    return agent.output(), events_of(ctx, capture)


def check_host(ctx, capture, lines, threads, label):
    """Checks that JSON and text name the vCPU at host events of these threads, and at no others."""
    hosts = [line for line in lines if line["type"] == "event" and line["stream"] == "host"]
    for line in hosts:
        ctx.equal("guest" in line, line["pid"] in threads, f"vCPU of the event {line}")
    marked = [line for line in hosts if "guest" in line]
    ctx.check(marked, "no event of the host belongs to a vCPU")
    text = ctx.run_agent("report", "--no-header", capture, timeout=120).stdout
    found = re.findall(rf"^host: .*-(\d+) +\[{label}\] \[\d+\] ", text, re.M)
    ctx.equal(len(found), len(marked), "lines of the report that name a vCPU")


@case("vcpu-threads", usual=("6.12",), needs=NEEDS, arm64=True)
def vcpu_threads(ctx):
    """With one TCG thread per vCPU, host events of these threads, and no others, name their guest and vCPU."""
    guest = up(ctx)
    capture = ctx.dir / "multi.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sched:sched_switch", "--host=sched:sched_switch", "-o", capture)
    guest.run("for n in 1 2 3; do usleep 1000; done")
    ctx.check(UNKNOWN not in agent.output(), f"the recorder found no threads:\n{agent.output()}")
    threads = guest.vcpu_threads()
    stop_recorder(ctx, agent)
    lines = events_of(ctx, capture)
    ctx.equal(threads_of(lines), dict(enumerate(threads)), "the threads of the vCPUs")
    check_host(ctx, capture, lines, threads, r"g1/vCPU \d")


@case("vcpu-single", usual=("6.1",), needs=NEEDS, arm64=True)
def vcpu_single(ctx):
    """vCPU threads are reported for a QEMU that runs all vCPUs in one thread, and unknown if it names no threads."""
    guest = up(ctx, thread="single")
    capture = ctx.dir / "single.braid"
    output, lines = record(ctx, guest, capture, "--host=sched:sched_switch")
    ctx.check(UNKNOWN not in output, f"the recorder found no thread:\n{output}")
    threads = threads_of(lines)
    ctx.equal(list(threads), [None], "vCPUs with a known thread")
    ctx.equal(set(threads.values()), set(guest.vcpu_threads()), "the thread of all vCPUs")
    check_host(ctx, capture, lines, set(threads.values()), "g1/all vCPUs")

    other = up(ctx, "g2", qemu_args=("-name", "debug-threads=off"))
    output, lines = record(ctx, other, ctx.dir / "unknown.braid")
    if "thread naming is unconditionally enabled" in (other.rundir / "qemu.log").read_text(encoding="utf-8"):
        ctx.equal(threads_of(lines), dict(enumerate(other.vcpu_threads())), "threads of a QEMU that always names them")
        return
    ctx.equal(output.count(f"g2: {UNKNOWN}"), 1, f"lines with that message in:\n{output}\n")
    ctx.equal(threads_of(lines), {}, "known threads")

# SPDX-License-Identifier: GPL-2.0-or-later
"""Which threads of the host are a guest's vCPUs: found without KVM, kept in the capture, named at the host's events."""

import re

from harness import case
from kit import NEEDS, events_of, start_recorder, stop_recorder, up

UNKNOWN = "vCPU threads unknown (needs KVM, or QEMU with -name debug-threads=on)"


def threads_of(lines):
    """The threads of the only guest's vCPUs, as the capture has them: {vCPU, None for all: thread}."""
    return {row["vcpu"]: row["tid"] for line in lines if line["type"] == "stream" and line["kind"] == "guest"
            for row in line["vcpus"]}


def record(ctx, guest, capture, *more):
    """Records a guest of whose rings nothing is asked; the recorder's output and the report's lines."""
    agent = start_recorder(ctx, "-r", guest.shm, "-o", capture, *more, name=capture.stem)
    guest.run("for n in 1 2 3; do usleep 1000; done")
    stop_recorder(ctx, agent)
    return agent.output(), events_of(ctx, capture)


def check_host(ctx, capture, lines, threads, label):
    """Host events of these threads, and no other ones, say so in JSON and text."""
    hosts = [line for line in lines if line["type"] == "event" and line["stream"] == "host"]
    for line in hosts:
        ctx.equal("guest" in line, line["pid"] in threads, f"whether this is a vCPU's: {line}")
    marked = [line for line in hosts if "guest" in line]
    ctx.check(marked, "no event of the host is a vCPU's")
    text = ctx.run_agent("report", "--no-header", capture, timeout=120).stdout
    found = re.findall(rf"^host: .*-(\d+) +\[{label}\] \[\d+\] ", text, re.M)
    ctx.equal(len(found), len(marked), "lines of the report that name a vCPU")


@case("vcpu-threads", usual=("6.12",), needs=NEEDS)
def vcpu_threads(ctx):
    """TCG with a thread for each vCPU."""
    guest = up(ctx)
    capture = ctx.dir / "multi.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sched:sched_switch", "--host=sched:sched_switch", "-o", capture)
    guest.run("for n in 1 2 3; do usleep 1000; done")
    ctx.check(UNKNOWN not in agent.output(), f"the recorder knows no threads:\n{agent.output()}")
    threads = guest.vcpu_threads()
    stop_recorder(ctx, agent)
    lines = events_of(ctx, capture)
    ctx.equal(threads_of(lines), dict(enumerate(threads)), "the threads of the vCPUs")
    check_host(ctx, capture, lines, threads, r"g1/vCPU \d")


@case("vcpu-single", usual=("6.1",), needs=NEEDS)
def vcpu_single(ctx):
    """TCG that runs all vCPUs in one thread; and a QEMU that does not name its threads."""
    guest = up(ctx, thread="single")
    capture = ctx.dir / "single.braid"
    output, lines = record(ctx, guest, capture, "--host=sched:sched_switch")
    ctx.check(UNKNOWN not in output, f"the recorder knows no thread:\n{output}")
    threads = threads_of(lines)
    ctx.equal(list(threads), [None], "the vCPUs whose thread is known")
    ctx.equal(set(threads.values()), set(guest.vcpu_threads()), "the thread of all vCPUs")
    check_host(ctx, capture, lines, set(threads.values()), "g1/all vCPUs")

    other = up(ctx, "g2", qemu_args=("-name", "debug-threads=off"))
    output, lines = record(ctx, other, ctx.dir / "unknown.braid")
    ctx.equal(output.count(f"g2: {UNKNOWN}"), 1, f"lines that say so in:\n{output}\n")
    ctx.equal(threads_of(lines), {}, "threads that are known")

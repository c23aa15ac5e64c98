# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of samples of what vCPUs execute."""

import json

from harness import case
from kit import check_accounts, events_of, lost_by_guests, start_recorder, stop_recorder

NEEDS = ("driver", "agent")
HZ = 200


@case("profile-sample", kernels=("6.1", "6.12", "6.12-rt"), usual=("6.12",), needs=NEEDS, arm64=True)
def profile_sample(ctx):
    """Each CPU is sampled as often as asked, also one that comes later; samples and missed periods add up to the time."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid", f"sample_hz={HZ}")
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sample", "-e", "sched:sched_switch", "--try-host", "-o", capture)
    guest.run("echo 0 > /sys/devices/system/cpu/cpu1/online; sleep 0.1; echo 1 > /sys/devices/system/cpu/cpu1/online")
    # System calls that take their time in the kernel, and a loop in user space.
    guest.run("dd if=/dev/zero of=/dev/null bs=4M count=200 2> /dev/null; k=0; while [ $k -lt 20000 ]; do k=$((k + 1)); done")
    stop_recorder(ctx, agent)
    ctx.equal(lost_by_guests(check_accounts(ctx, capture)), 0, "lost events")
    samples = [line for line in events_of(ctx, capture) if line["type"] == "event" and line["event"] == "cpu"]
    for cpu in (0, 1):
        own = [line for line in samples if line["cpu"] == cpu]
        ctx.check(len(own) > 10, f"{len(own)} samples of CPU {cpu}")
    # CPU 0 was never off. Its first sample has no predecessor, and a timer expires late, but on average as often.
    own = [line for line in samples if line["cpu"] == 0]
    periods = sum(1 + line["fields"]["missed"] for line in own[1:])
    elapsed = (own[-1]["ns"] - own[0]["ns"]) / 1e9 * HZ
    ctx.check(abs(periods - elapsed) <= 2 + 0.02 * elapsed, f"{periods} periods in a time of {elapsed:.1f}")
    users = {line["fields"]["user"] for line in samples}
    ctx.equal(users, {0, 1}, "samples of user and kernel")
    print(f"  {len(samples)} samples, {sum(line['fields']['missed'] for line in samples)} missed; "
          f"{[line['text'] for line in samples if not line['fields']['user']][:2]}")
    check_profile(ctx, capture)


def check_profile(ctx, capture):
    """Checks that a profile's parts add up to the vCPUs' time, in each of its forms."""
    observed = json.loads(ctx.run_agent("analyze", "states", "--json", capture).stdout)["observed_ns"]
    rows = json.loads(ctx.run_agent("analyze", "profile", "--json", capture).stdout)["profile"]
    ctx.equal(sum(row["total_ns"] for row in rows), observed, "sum of the rows")
    lines = [line.rsplit(" ", 1) for line in ctx.run_agent("analyze", "profile", "--folded", capture).stdout.splitlines()]
    ctx.equal(sum(int(ns) for _, ns in lines), observed, "sum of the stacks")
    ctx.equal(len({stack for stack, _ in lines}), len(lines), "lines, each of another stack")
    frames = {frame for stack, _ in lines for frame in stack.split(";")}
    ctx.check({"user space", "[stolen]"} & frames, f"frames: {sorted(frames)[:50]}")

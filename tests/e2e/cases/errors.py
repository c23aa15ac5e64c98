# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of bad input: each is refused with one clear line and status 1, and never crashes the agent."""

import os
import random
import struct

from harness import case
from kit import NEEDS, start_recorder, stop_recorder, storm, up


def refused(ctx, words, *argv, program=None, **options):
    """Runs the agent, which must end with status 1 and one line on stderr that contains `words`."""
    done = ctx.run(*(program or ()), ctx.agent_path, *argv, status=1, **options)
    lines = done.stderr.strip().splitlines()
    ctx.equal(len(lines), 1, f"lines on stderr of {' '.join(map(str, argv))}: {done.stderr!r}; number")
    ctx.check(lines[0].startswith("tracebraid: "), f"the line does not begin with the program's name: {lines[0]}")
    ctx.check(any(word in lines[0] for word in words.split("|")), f"{lines[0]!r} does not contain {words!r}")
    return lines[0]


@case("bad-regions", kernels=("6.1",), needs=("agent",))
def bad_regions(ctx):
    """A path that is not a region, or that the user may not read, is refused with one line and status 1."""
    refused(ctx, "no such file or region|No such file", "stat", ctx.dir / "nowhere")
    refused(ctx, "no such file or region", "record", "-r", ctx.dir / "nowhere", "-t", "1", "-o", ctx.dir / "x")
    noise = ctx.dir / "noise"
    noise.write_bytes(random.Random(1).randbytes(1 << 20))
    refused(ctx, "not a", "stat", noise)
    refused(ctx, "not a", "record", "-r", noise, "-t", "1", "-o", ctx.dir / "x")
    refused(ctx, "not a tracebraid capture", "report", noise)
    small = ctx.dir / "small"
    small.write_bytes(b"x" * 100)
    refused(ctx, "not a|too small|no region|no capture", "stat", small)
    refused(ctx, "regular|not a", "stat", ctx.dir)
    link = ctx.dir / "link"
    link.symlink_to(noise)
    refused(ctx, "link|not a", "record", "-r", link, "-t", "1", "-o", ctx.dir / "x")
    zero = ctx.dir / "zero"
    zero.write_bytes(bytes(16 << 20))
    refused(ctx, "driver", "stat", zero)
    refused(ctx, "unknown command 'recrod'; did you mean 'record'?", "recrod")


@case("bad-captures", usual=("6.1",), needs=NEEDS, arm64=True)
def bad_captures(ctx):
    """Truncated, corrupted and newer captures, a full disk, unknown names and missing permissions are reported."""
    guest = up(ctx)
    capture = ctx.dir / "x.braid"
    line = refused(ctx, "did you mean", "record", "-r", guest.shm, "-e", "sched:sched_swich", "-t", "1",
                   "-o", ctx.dir / "y")
    ctx.check("sched_switch" in line, f"no similar name is suggested: {line}")
    refused(ctx, "ermission", "record", "-r", guest.shm, "-t", "1", "-o", "/tmp/never.braid",
            program=("setpriv", "--reuid", "65534", "--clear-groups"))
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    offered = storm(guest, 3000)
    refused(ctx, "already", "record", "-r", guest.shm, "-t", "1", "-o", ctx.dir / "y")
    stop_recorder(ctx, agent)
    not_written_over(ctx, guest, capture)

    whole = capture.read_bytes()
    bad = ctx.dir / "bad.braid"
    for cut in (len(whole) // 2, len(whole) - 1, 300, 10, 0):
        bad.write_bytes(whole[:cut])
        done = ctx.run_agent("report", bad, status=None, timeout=120)
        ctx.check(done.returncode in (0, 1), f"report of a capture truncated at {cut} ended with {done.returncode}")
        ctx.run_agent("verify", bad, status=1, timeout=120)
    rng = random.Random(2)
    for _ in range(20):
        flipped = bytearray(whole)
        at = rng.randrange(len(whole))
        flipped[at] ^= 1 << rng.randrange(8)
        bad.write_bytes(flipped)
        done = ctx.run_agent("report", bad, status=None, timeout=120)
        ctx.check(done.returncode in (0, 1), f"report of a corrupted capture ended with {done.returncode}")
        # A zero may be of the padding between chunks, which is not read.
        done = ctx.run_agent("verify", bad, status=None if not whole[at] else 1, timeout=120)
        ctx.check(done.returncode in (0, 1), f"verify of a corrupted capture ended with {done.returncode}")

    newer = bytearray(guest.shm.read_bytes())
    struct.pack_into("<H", newer, 8, 99)
    bad.write_bytes(newer)
    refused(ctx, "version", "stat", bad)
    refused(ctx, "version", "record", "-r", bad, "-t", "1", "-o", ctx.dir / "y")
    full_disk(ctx, guest, offered)


def not_written_over(ctx, guest, capture):
    """Checks that a region or a capture is not accepted as output, nor overwritten when standard output is closed."""
    refused(ctx, "region", "record", "-r", guest.shm, "-t", "1", "-o", guest.shm)
    before = capture.read_bytes()
    refused(ctx, "an input file", "report", capture, "-o", capture)
    ctx.equal(capture.read_bytes(), before, "the capture after a report onto itself")
    refused(ctx, "given twice", "record", "-r", guest.shm, "-r", guest.shm, "-t", "1", "-o", ctx.dir / "y")
    refused(ctx, "host", "record", "-r", f"{guest.shm},name=host", "-t", "1", "-o", ctx.dir / "y")
    done = ctx.run("sh", "-c", 'exec "$@" >&- 2>&-', "sh", ctx.agent_path, "record", "-r", guest.shm, "-e", "storm",
                   "-t", "0.2", "-o", ctx.dir / "y", status=None)
    ctx.check(done.returncode in (0, 3), f"a recording without standard output ended with {done.returncode}")
    ctx.equal(guest.shm.read_bytes()[:8], b"TRCBRAID", "the region after a recording with no standard output")
    done = ctx.run("sh", "-c", 'exec "$@" >/dev/full', "sh", ctx.agent_path, "verify", capture, status=1)
    ctx.check("No space" in done.stderr, f"verify into a full device prints no error: {done.stderr!r}")


def full_disk(ctx, guest, offered):
    """Checks that a full disk is reported in one line, and that the part written before can be read."""
    mount = ctx.dir / "disk"
    mount.mkdir()
    ctx.run("mount", "-t", "tmpfs", "-o", "size=1m", "none", mount)
    try:
        agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", mount / "x.braid")
        guest.bg("echo 100000 > /sys/kernel/debug/storm/run")
        ctx.equal(agent.wait(timeout=120), 1, f"status of the recorder, which printed:\n{agent.output()}\n")
        ctx.check("disk is full" in agent.output(), f"the full disk is not reported: {agent.output()}")
        done = ctx.run_agent("report", mount / "x.braid", status=None, timeout=120)
        ctx.check(" storm: " in done.stdout, "the part written before the disk was full cannot be read")
        ctx.check(os.stat(mount / "x.braid").st_size > 100000, "the capture is too short")
    finally:
        ctx.run("umount", "-l", mount)

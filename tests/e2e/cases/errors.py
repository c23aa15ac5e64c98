# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of bad input: each is refused with one clear line and status 1, and never crashes the agent."""

import os
import random
import struct

from harness import case
from kit import NEEDS, start_recorder, stop_recorder, storm, up


def refused(ctx, line, *argv, program=None, **options):
    """Runs the agent, which must end with status 1 and print this line alone on stderr, after its name."""
    done = ctx.run(*(program or ()), ctx.agent_path, *argv, status=1, **options)
    ctx.equal(done.stderr, f"tracebraid: {line}\n", f"stderr of {' '.join(map(str, argv))}")


@case("bad-regions", kernels=("6.1",), needs=("agent",))
def bad_regions(ctx):
    """A path that is not a region, or that the user may not read, is refused with one line and status 1."""
    def record(path, line):
        refused(ctx, line, "record", "-r", path, "-t", "1", "-o", ctx.dir / "x")

    nowhere, noise, small, link, zero = (ctx.dir / name for name in ("nowhere", "noise", "small", "link", "zero"))
    missing = f"{nowhere}: no such file or region; 'tracebraid list' shows the regions"
    refused(ctx, missing, "stat", nowhere)
    record(nowhere, missing)
    noise.write_bytes(random.Random(1).randbytes(1 << 20))
    refused(ctx, f"{noise}: not a tracebraid region", "stat", noise)
    record(noise, f"{noise}: not a tracebraid region")
    refused(ctx, f"'{noise}' is not a tracebraid capture; 'tracebraid record -o FILE' makes one", "report", noise)
    small.write_bytes(b"x" * 100)
    refused(ctx, f"{small}: not a region: too small (size 100)", "stat", small)
    refused(ctx, f"'{ctx.dir}' is not a regular file, so not a capture", "stat", ctx.dir)
    link.symlink_to(noise)
    record(link, f"{link}: not a region: a symbolic link")
    zero.write_bytes(bytes(16 << 20))
    refused(ctx, f"{zero}: no driver has used it yet, and will not use a file that 'tracebraid create' has "
                 "not marked", "stat", zero)
    refused(ctx, "unknown command 'recrod'; did you mean 'record'?", "recrod")


def with_capability(ctx, guest):
    """A user with CAP_DAC_OVERRIDE alone records a guest and the host, where the host has tracefs."""
    if not os.access("/sys/kernel/tracing/instances", os.W_OK):
        return
    capture = ctx.dir / "capable.braid"
    ctx.run("setpriv", "--reuid", "65534", "--clear-groups", "--bounding-set", "-all,+dac_override",
            "--inh-caps", "+dac_override", "--ambient-caps", "+dac_override",
            ctx.agent_path, "record", "-r", guest.shm, "--host", "-t", "0.2", "-o", capture)
    ctx.check("host:" in ctx.run_agent("report", capture).stdout, "the host is not in a recording with CAP_DAC_OVERRIDE")


@case("bad-captures", usual=("6.1",), needs=NEEDS, arm64=True)
def bad_captures(ctx):
    """Truncated, corrupted and newer captures, a full disk, unknown names and missing permissions are reported."""
    guest = up(ctx)
    capture = ctx.dir / "x.braid"
    refused(ctx, 'no event "signal:signal_generat" in g1; did you mean signal:signal_generate or signal:signal_deliver?', "record",
            "-r", guest.shm, "-e", "signal:signal_generat", "-t", "1", "-o", ctx.dir / "y")
    refused(ctx, "g1: the events of signal:signal_generate are in buffer trace, not in ftrace, the only one to be recorded (-B)",
            "record", "-r", guest.shm, "-B", "ftrace", "-e", "signal:signal_generate", "-o", ctx.dir / "y")
    refused(ctx, "probes are in buffer trace, not in ftrace, the only one to be recorded (-B)",
            "record", "-r", guest.shm, "-B", "ftrace", "--kprobe", "p:open vfs_open", "-o", ctx.dir / "y")
    refused(ctx, "record: --cpus: the guest has no CPU of 7: it has CPUs 0 to 1",
            "record", "-r", guest.shm, "--cpus", "7", "-e", "signal", "-o", ctx.dir / "y")
    refused(ctx, f"{guest.shm}: permission denied; run as root or as its owner", "record", "-r", guest.shm, "-t", "1", "-o", "/tmp/never.braid",
            program=("setpriv", "--reuid", "65534", "--clear-groups"))
    with_capability(ctx, guest)
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    offered = storm(guest, 3000)
    refused(ctx, f"{guest.shm}: already being recorded, by process {agent.pid}; stop that recording first",
            "record", "-r", guest.shm, "-t", "1", "-o", ctx.dir / "y")
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
    struct.pack_into("<HH", newer, 8, 99, 0)
    bad.write_bytes(newer)
    line = f"{bad}: version 99.0, but this agent supports 1; use the agent that came with the guest's driver"
    refused(ctx, line, "stat", bad)
    refused(ctx, line, "record", "-r", bad, "-t", "1", "-o", ctx.dir / "y")
    full_disk(ctx, guest, offered)


def not_written_over(ctx, guest, capture):
    """Checks that a region or a capture is not accepted as output, nor overwritten when standard output is closed."""
    refused(ctx, f"cannot create '{guest.shm}': it is a guest's region; use -o to name the capture",
            "record", "-r", guest.shm, "-t", "1", "-o", guest.shm)
    before = capture.read_bytes()
    refused(ctx, f"'{capture}' is an input file: name another output", "report", capture, "-o", capture)
    ctx.equal(capture.read_bytes(), before, "the capture after a report onto itself")
    refused(ctx, f"{guest.shm}: given twice", "record", "-r", guest.shm, "-r", guest.shm, "-t", "1", "-o", ctx.dir / "y")
    refused(ctx, f'{guest.shm}: "host" is reserved for the host; use -r {guest.shm},name=NAME',
            "record", "-r", f"{guest.shm},name=host", "-t", "1", "-o", ctx.dir / "y")
    done = ctx.run("sh", "-c", 'exec "$@" >&- 2>&-', "sh", ctx.agent_path, "record", "-r", guest.shm, "-e", "storm",
                   "-t", "0.2", "-o", ctx.dir / "y", status=None)
    ctx.check(done.returncode in (0, 3), f"a recording without standard output ended with {done.returncode}")
    ctx.equal(guest.shm.read_bytes()[:8], b"TRCBRAID", "the region after a recording with no standard output")
    done = ctx.run("sh", "-c", 'exec "$@" >/dev/full', "sh", ctx.agent_path, "verify", capture, status=1)
    ctx.equal(done.stderr, "tracebraid: cannot write to standard output: No space left on device\n",
              "stderr of verify into a full device")


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

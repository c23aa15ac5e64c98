# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of driver and agent of two versions: this tree's, and that of the folder TRACEBRAID_FORMER, without which there are
none of these cases (tests/upgrade.sh)."""

import contextlib
import os
import pathlib
import re
import shutil
import struct

import kit
from harness import case

FORMER = os.environ.get("TRACEBRAID_FORMER")
MAJOR_AT = 8  # of version_major in the region
FORKS = 50
REFUSED = "a buffer's rings are smaller"  # as docs/format.md says


def refuses_regions():
    """Whether the former agent refuses regions of this driver: readers of minor 0 to 2 do."""
    text = pathlib.Path(FORMER, "include/tracebraid/abi.h").read_text(encoding="utf-8")
    return int(re.search(r"^#define BRAID_VERSION_MINOR\s+(\d+)", text, re.MULTILINE)[1]) < 3


@contextlib.contextmanager
def former_agent(ctx):
    """The context's agent is the former one."""
    ctx.agent_path = pathlib.Path(FORMER, "build/tracebraid")
    try:
        yield
    finally:
        del ctx.agent_path


def both_drivers(ctx):
    """A booted guest with this driver as tracebraid.ko, and the former one as former.ko."""
    driver = ctx.dir / "former.ko"
    shutil.copy(pathlib.Path(FORMER, "build", f"guest-{ctx.krel}", "tracebraid.ko"), driver)
    ctx.initrd(driver)
    guest = ctx.guest()
    guest.boot()
    return guest


def fork(guest):
    """Starts some processes, as many as are checked for."""
    guest.run(f"for n in $(seq {FORKS}); do busybox true; done")


def forks(ctx, capture):
    """The processes that were started, by the context's agent, which also checks the capture; and the report's text."""
    kit.check_accounts(ctx, capture)
    lines = kit.events_of(ctx, capture)
    kit.check_order(ctx, lines)
    return (sum(line.get("event") == "sched_process_exec" for line in lines),
            ctx.run_agent("report", capture, timeout=120).stdout)


def record(ctx, guest, capture, change=None):
    """Records what fork() does in the guest, before and after the change."""
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-e", "sched", "-o", capture)
    fork(guest)
    if change:
        change()
        ctx.wait_until(lambda: guest.run(f"cat {kit.TREE}/events/sched/sched_process_exec/enable") != "0\n",
                       "the agent to enable the events again")
        fork(guest)
    kit.stop_recorder(ctx, agent)


def agent_first(ctx):
    """This agent records a guest with the former driver, which is replaced by this one; the former agent reads that."""
    guest, capture = both_drivers(ctx), ctx.dir / "x.braid"
    guest.insmod("former")

    def upgrade():
        guest.run("rmmod tracebraid")
        guest.insmod("tracebraid")

    record(ctx, guest, capture, upgrade)
    found, text = forks(ctx, capture)
    ctx.check(found >= 2 * FORKS, f"{found} processes of {2 * FORKS} are in the report")
    ctx.check("the driver was unloaded" in text, "the report does not say that the driver was unloaded")
    with former_agent(ctx):
        if refuses_regions():
            done = ctx.run_agent("verify", capture, status=1)
            ctx.check(REFUSED in done.stdout + done.stderr, f"the second stream is not refused: {done.stdout}{done.stderr}")
        else:
            ctx.equal(forks(ctx, capture)[0], found, "processes that the former agent finds in this one's capture")


def driver_first(ctx):
    """The former agent records a guest with this driver, or refuses its region; both agents refuse another major version."""
    guest, capture = both_drivers(ctx), ctx.dir / "x.braid"
    guest.insmod("tracebraid")
    if refuses_regions():
        with former_agent(ctx):
            done = ctx.run_agent("record", "-r", guest.shm, "-e", "sched", "-t", "1", "-o", capture, status=None)
        ctx.check(done.returncode and REFUSED in done.stderr, f"the region is not refused: {done.stderr}")
        print(f"     refused: {done.stderr.strip()}")
    else:
        with former_agent(ctx):
            record(ctx, guest, capture)
            found, _ = forks(ctx, capture)
        ctx.check(found >= FORKS, f"{found} processes of {FORKS} are in the report")
        ctx.equal(forks(ctx, capture)[0], found, "processes that this agent finds in the former one's capture")
    guest.quit()
    region = ctx.dir / "other.shm"
    data = bytearray(guest.shm.read_bytes())
    major, minor = struct.unpack_from("<HH", data, MAJOR_AT)
    struct.pack_into("<H", data, MAJOR_AT, major + 1)
    region.write_bytes(data)
    region.chmod(0o600)
    for agent in (former_agent(ctx), contextlib.nullcontext()):
        with agent:
            done = ctx.run_agent("stat", region, status=1)
        ctx.check(f"version {major + 1}.{minor}, " in done.stderr, f"another major version is not refused: {done.stderr}")
    print(f"     refused: {done.stderr.strip()}")


if FORMER:
    case("upgrade-agent-first", usual=("6.12",), needs=("driver", "agent"))(agent_first)
    case("upgrade-driver-first", usual=("6.12",), needs=("driver", "agent"))(driver_first)

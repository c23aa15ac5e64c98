#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures the agent with two real guests: its share of a core while they idle, its memory under load."""

import sys

sys.dont_write_bytecode = True  # keeps the source tree clean

import json
import os
import pathlib
import re
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import host
import rig
from kit import load
from proc import Proc

SHORT = "BRAID_BENCH_SHORT" in os.environ
REST_S = 1 if SHORT else 10
STORM = 1000 if SHORT else 100000
DIR = host.BUILD / "bench"


def cpu_seconds(pid):
    """The CPU time that a process and its threads have used so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_kib(pid):
    """A process's peak of private memory so far, without the guests' pages that it maps."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(r"RssAnon:\s+(\d+)", text)[1])


def clock(capture):
    """Prints the bounds of the guests' clocks relative to their shortest round trip, and their first fixes."""
    done = subprocess.run([host.BUILD / "tracebraid", "clock", "--json", capture], check=True, capture_output=True)
    for stream in json.loads(done.stdout)["streams"]:
        exchange, name = stream["exchange"], stream["stream"]
        print(f"{name}_median_bound_over_shortest_round_trip\t"
              f"{stream['bound_median_ns'] / exchange['shortest_ns']:.2f}\tratio")
        print(f"{name}_first_fix\t{exchange['first_fix_ns'] / 1e6:.1f}\tms after the start")


def main():
    DIR.mkdir(parents=True, exist_ok=True)
    krel = host.kernel_release(host.find_kernel(host.OLDEST_KERNEL))
    built = host.BUILD / f"guest-{krel}"
    initrd = host.make_initrd(DIR / "initrd.cpio", krel,
                              [built / "tracebraid.ko", built / "tests" / "e2e" / "storm" / "storm.ko"])
    guests = [rig.Guest(name, kernel=host.OLDEST_KERNEL, initrd=initrd, shm=DIR / f"{name}.shm", rundir=DIR / name)
              for name in ("rest1", "rest2")]
    regions = [word for guest in guests for word in ("-r", guest.shm)]
    try:
        rig.boot_all(guests, tries=3)
        for guest in guests:
            load(guest)
        command = [host.BUILD / "tracebraid", "record", *regions, "-e", "storm", "-o", DIR / "x.braid"]
        with Proc(command, DIR / "record.log") as agent:
            agent.wait_line(r"^Recording", timeout=60)
            time.sleep(2)       # the first clock bursts are over: the guests are idle
            before, start = cpu_seconds(agent.pid), time.monotonic()
            time.sleep(REST_S)  # measures over a fixed time
            share = (cpu_seconds(agent.pid) - before) / (time.monotonic() - start)
            print(f"agent_at_rest_two_guests\t{100 * share:.2f}\tpercent of a core")
            first = None
            for _ in range(4):
                for job in [guest.bg(f"echo {STORM} > /sys/kernel/debug/storm/run") for guest in guests]:
                    job.wait(timeout=300)
                first = first or peak_kib(agent.pid)
            print(f"agent_memory_four_storms_over_one\t{peak_kib(agent.pid) / first:.2f}\tratio")
            print(f"agent_private_memory\t{peak_kib(agent.pid)}\tKiB")
            agent.stop(timeout=60)
            clock(DIR / "x.braid")
            print(f"capture\t{(DIR / 'x.braid').stat().st_size / 1e6:.0f}\tMB")
    finally:
        for guest in guests:
            guest.kill()


if __name__ == "__main__":
    main()

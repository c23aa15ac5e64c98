#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The demo: boots two guests, records them and their host, and prints all events as one timeline.

demo.py [--installed]: with the agent of the package and the driver that DKMS built.
"""

import sys

sys.dont_write_bytecode = True  # keeps the source tree clean

import os
import pathlib
import shutil
import subprocess
import time

import host
import kit
import limits
import qemu
import rig
from errors import RigError
from proc import Proc

SECONDS = 5
EVENTS = "sched,irq,timer,signal,task,exceptions"
HEAD_LINES = 8
BUSY_LINES = 16

DIR = host.BUILD / "demo"
INSTALLED = "--installed" in sys.argv[1:]
AGENT = pathlib.Path("/usr/bin/tracebraid") if INSTALLED else host.BUILD / "tracebraid"
CAPTURE = DIR / "demo.braid"
REPORT = DIR / "report.txt"
PAGE = DIR / "demo.html"

_began = time.monotonic()


def say(text):
    """One line of progress, with the seconds since the start."""
    print(f"[{time.monotonic() - _began:5.1f} s] {text}", flush=True)


def shown(path):
    """A path as the user would type it."""
    return path.relative_to(pathlib.Path.cwd()) if path.is_relative_to(pathlib.Path.cwd()) else path


def find_driver(krel):
    """The driver for a kernel: what `make` built, or what DKMS did."""
    if not INSTALLED:
        return host.BUILD / f"guest-{krel}" / "tracebraid.ko"
    found = list(pathlib.Path("/lib/modules", krel, "updates/dkms").glob("tracebraid.ko*"))
    if len(found) != 1:
        raise RigError(f"DKMS has built no driver for {krel}: apt install tracebraid-dkms linux-headers-{krel}")
    if found[0].suffix == ".ko":
        return found[0]
    plain = DIR / "tracebraid.ko"
    with open(plain, "wb") as out:
        subprocess.run(["xz", "-dc", found[0]], stdout=out, check=True)
    return plain


def make_guests():
    """Two guests, not started, each with the driver in its initramfs and shared memory of its own."""
    kernel = host.find_kernel(host.OLDEST_KERNEL)
    krel = host.kernel_release(kernel)
    initrd = host.make_initrd(DIR / "initrd.cpio", krel, [find_driver(krel)])
    accel, why = rig.choose_accel(initrd)
    say(qemu.describe())
    say(why)
    say(f"booting two guests: Linux {krel}, 2 vCPUs and 16 MiB of shared memory each, on {accel}")
    return [rig.Guest(name, kernel=host.OLDEST_KERNEL, initrd=initrd, shm=DIR / f"{name}.shm", rundir=DIR / name, accel=accel)
            for name in ("guest1", "guest2")]


def record(guests):
    """Records the guests under load, and the host if it permits that; returns the recorder's output."""
    regions = [word for guest in guests for word in ("-r", f"{guest.shm},name={guest.name}")]
    with Proc([AGENT, "record", *regions, "-e", EVENTS, "--try-host", "-o", CAPTURE], DIR / "record.log") as recorder:
        recorder.wait_line(r"^Recording", timeout=60)
        # On a busy machine a guest may be slower than the recorder waits.
        deadline = limits.now() + 60
        while kit.unconfirmed(recorder.output()) and recorder.rc is None and limits.now() < deadline:
            time.sleep(0.05)
        say(recorder.output().strip().splitlines()[-1])
        loads = [guest.bg(rig.WORKLOAD) for guest in guests]
        # Only for the recording's duration: no condition depends on it.
        for left in range(SECONDS, 0, -1):
            say(f"both guests under load, {left} s to go")
            time.sleep(1)
        for load in loads:
            load.kill()
        status = recorder.stop(timeout=60)
        if status:
            raise RigError(f"the recorder ended with status {status}:\n{recorder.output()}")
        return recorder.output()


def agent(*args, out=None):
    """Runs the agent; returns its status and output."""
    done = subprocess.run([AGENT, *args], stdout=out or subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode and done.stderr:
        raise RigError(f"tracebraid {args[0]}: {done.stderr.strip()}")
    return done.returncode, done.stdout


def busiest(lines):
    """The index at which consecutive lines change most often from one stream to another."""
    streams = [line.split(":", 1)[0] for line in lines]
    changes = [streams[k] != streams[k - 1] for k in range(1, len(streams))]
    kinds = len({stream for stream in streams if not stream.startswith("#")})
    best, best_at = -1, 0
    for at in range(0, max(1, len(changes) - BUSY_LINES), BUSY_LINES // 2):
        window = sum(changes[at:at + BUSY_LINES]) + 100 * (len(set(streams[at:at + BUSY_LINES])) == kinds)
        if window > best:
            best, best_at = window, at
    return best_at


def show():
    """Writes the report; prints its beginning, a busy part of it, and the accounting."""
    say(f"merging into {shown(REPORT)}")
    agent("report", "-o", str(REPORT), str(CAPTURE))
    lines = REPORT.read_text(encoding="utf-8", errors="replace").splitlines()
    body = next((k for k, line in enumerate(lines) if not line.startswith("#")), len(lines))
    width = shutil.get_terminal_size((160, 24)).columns
    print("\n".join(line[:width] for line in lines[:body + HEAD_LINES]))
    busy = body + busiest(lines[body:])
    print(f"... and its busiest part, from line {busy + 1}:")
    print("\n".join(line[:width] for line in lines[busy:busy + BUSY_LINES]))
    print(f"... {len(lines)} lines in total.\n\nAccounting, ring by ring:")
    status, table = agent("stat", str(CAPTURE))
    print(table)
    if status:
        raise RigError("the accounting does not add up; 'tracebraid verify' shows the details")


def main():
    DIR.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TRACEBRAID_QEMU", qemu.SYSTEM)  # what a user has
    for stale in (CAPTURE, REPORT, PAGE, DIR / "guest1.shm", DIR / "guest2.shm"):
        stale.unlink(missing_ok=True)
    guests = make_guests()
    try:
        rig.boot_all(guests)
        for guest in guests:
            guest.insmod("tracebraid")
        say("both guests are up, tracebraid.ko is loaded in each")
        summary = record(guests)
    finally:
        for guest in guests:
            guest.kill()
    print(summary.partition("\n")[2].rsplit("Next:", 1)[0].strip())
    show()
    print("What happened to the guests, and who took their CPUs (tracebraid analyze summary):")
    print(agent("analyze", "summary", str(CAPTURE))[1])
    say(f"making {shown(PAGE)}")
    agent("export", "--to", "html", str(CAPTURE), "-o", str(PAGE))
    say(f"done. Capture: {shown(CAPTURE)}. Complete report: {shown(REPORT)}. HTML page: {shown(PAGE)}.")
    print(f"Next: open {shown(PAGE)} in a browser; less {shown(REPORT)}; {shown(AGENT)} analyze steal {shown(CAPTURE)}.\n"
          f"{shown(AGENT)} --help lists all commands; README.md explains how to trace a VM of your own.")


if __name__ == "__main__":
    try:
        main()
    except RigError as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit("demo: interrupted")

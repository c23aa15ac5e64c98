#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts the instructions of a tracefs event without and with the driver's export: exported.py KERNEL...

The guest runs with QEMU's -icount, where a nanosecond of the guest's clock is one instruction, even on a busy host.
"""

import sys

sys.dont_write_bytecode = True  # keeps the source tree clean

import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import host
import rig

DIR = host.BUILD / "bench"
EVENT = "syscalls/sys_enter_write"
ON = f"/sys/kernel/tracing/events/{EVENT}/enable"
FORMAT = f"/sys/kernel/debug/tracebraid/ftrace/events/{EVENT}/format"
# The driver's parameters; both rings keep the newest events, as tracefs's does.
EXPORTS = {"off": "overwrite=1 ftrace_size_kb=0", "on": "overwrite=1"}


def writes(guest, number):
    """The instructions of `number` writes of one byte."""
    now = "grep -m1 'now at' /proc/timer_list"
    text = guest.run(f"{now}; dd if=/dev/zero of=/dev/null bs=1 count={number} 2>/dev/null; {now}", timeout=300)
    begin, end = (int(ns) for ns in re.findall(r"now at (\d+)", text))
    return end - begin


def traced(guest, parameters, number):
    """The same with a tracefs event for each write."""
    guest.insmod("tracebraid", parameters)
    guest.run(f"echo 1 > {ON}")
    writes(guest, 10)
    if "ftrace_size_kb" not in parameters:  # the driver looks up a new event once
        guest.run(f"until [ -e {FORMAT} ]; do sleep 0.1; done", timeout=60)
    guest.run("sleep 1")
    found = writes(guest, number)
    guest.run(f"echo 0 > {ON}; rmmod tracebraid")
    return found


def measure(kernel, number):
    """The instructions of one event, with and without the export."""
    krel = host.kernel_release(host.find_kernel(kernel))
    initrd = host.make_initrd(DIR / f"exported-{kernel}.cpio", krel, [host.BUILD / f"guest-{krel}" / "tracebraid.ko"])
    with rig.Guest(f"exported-{kernel}", kernel=kernel, initrd=initrd, shm=DIR / f"exported-{kernel}.shm",
                   rundir=DIR / f"exported-{kernel}", smp=1, accel="tcg,thread=single", cpu="max",
                   qemu_args=("-icount", "shift=0,sleep=off")) as guest:
        guest.boot(tries=3)
        writes(guest, 10)
        plain = writes(guest, number)
        found = {name: (traced(guest, parameters, number) - plain) / number for name, parameters in EXPORTS.items()}
        guest.check_dmesg()
    return found


def main():
    DIR.mkdir(parents=True, exist_ok=True)
    for kernel in sys.argv[1:]:
        found = measure(kernel, 1000 if "BRAID_BENCH_SHORT" in os.environ else 20000)
        series = kernel.replace(".", "_")
        print(f"guest_{series}_exported_over_tracefs_event\t{found['on'] / found['off']:.2f}\tratio")
        print(f"guest_{series}_tracefs_event\t{found['off']:.0f}\tinstructions")
        print(f"guest_{series}_exported_event\t{found['on']:.0f}\tinstructions")


if __name__ == "__main__":
    main()

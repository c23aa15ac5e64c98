#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts instructions in a guest: guest_count.py KERNEL...

Those of a tracefs event without and with the driver's export; and by how much programs are slowed
down by the driver's events, beside the same ones of tracefs. The guest runs with QEMU's -icount,
where a nanosecond of the guest's clock is one instruction, even on a busy host.
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
TRACEFS = "/sys/kernel/tracing"
NATIVE = "/sys/kernel/debug/tracebraid/trace"
EVENT = "syscalls/sys_enter_write"
ON = f"{TRACEFS}/events/{EVENT}/enable"
FORMAT = f"/sys/kernel/debug/tracebraid/ftrace/events/{EVENT}/format"
# The driver's parameters; both rings keep the newest events, as tracefs's does.
EXPORTS = {"off": "overwrite=1 ftrace_size_kb=0", "on": "overwrite=1"}


# Programs, with the events that slow them down. The default events concern no system call. Pipes
# that are soon full make hackbench's tasks switch.
PROGRAMS = {
    "hackbench": ("hackbench -p -g 1 -f 4 -s 4096 -l {} >/dev/null", 1000, ("sched", "irq")),
    "syscall_storm": ("dd if=/dev/zero of=/dev/null bs=1 count={} 2>/dev/null", 20000, ("raw_syscalls",)),
}


def instructions(guest, command):
    """The instructions that a command takes."""
    now = "grep -m1 'now at' /proc/timer_list"
    begin, end = (int(ns) for ns in re.findall(r"now at (\d+)", guest.run(f"{now}; {command}; {now}", timeout=600)))
    return end - begin


def writes(guest, number):
    """The instructions of `number` writes of one byte."""
    return instructions(guest, f"dd if=/dev/zero of=/dev/null bs=1 count={number} 2>/dev/null")


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


def slowed(guest, command, systems):
    """The instructions of a command without events, with those of tracefs, and with the driver's."""
    found = [instructions(guest, command)]
    for tree in TRACEFS, NATIVE:
        for value in 1, 0:
            guest.run("; ".join(f"echo {value} > {tree}/events/{system}/enable" for system in systems))
            if value:
                found.append(instructions(guest, command))
    return found


def slow_downs(guest, share):
    """Of each program: by which share of its instructions it is slowed down by tracefs, and by the driver."""
    guest.insmod("tracebraid", EXPORTS["off"])
    found = {}
    for name, (command, number, systems) in PROGRAMS.items():
        command = command.format(max(number * share // 100, 10))
        instructions(guest, command)
        plain, *others = slowed(guest, command, systems)
        found[name] = [other / plain - 1 for other in others]
    guest.run("rmmod tracebraid")
    return found


def measure(kernel, share):
    """The instructions of an event, with and without the export; and the slow-downs.

    share: of the usual work, in percent.
    """
    krel = host.kernel_release(host.find_kernel(kernel))
    initrd = host.make_initrd(DIR / f"count-{kernel}.cpio", krel,
                              [host.BUILD / f"guest-{krel}" / "tracebraid.ko", "/usr/bin/hackbench"])
    number = 200 * share
    with rig.Guest(f"count-{kernel}", kernel=kernel, initrd=initrd, shm=DIR / f"count-{kernel}.shm",
                   rundir=DIR / f"count-{kernel}", smp=1, accel="tcg,thread=single", cpu="max",
                   qemu_args=("-icount", "shift=0,sleep=off")) as guest:
        guest.boot(tries=3)
        writes(guest, 10)
        plain = writes(guest, number)
        found = {name: (traced(guest, parameters, number) - plain) / number for name, parameters in EXPORTS.items()}
        programs = slow_downs(guest, share)
        guest.check_dmesg()
    return found, programs


def main():
    DIR.mkdir(parents=True, exist_ok=True)
    for kernel in sys.argv[1:]:
        found, programs = measure(kernel, 5 if "BRAID_BENCH_SHORT" in os.environ else 100)
        series = kernel.replace(".", "_")
        print(f"guest_{series}_exported_over_tracefs_event\t{found['on'] / found['off']:.2f}\tratio")
        print(f"guest_{series}_tracefs_event\t{found['off']:.0f}\tinstructions")
        print(f"guest_{series}_exported_event\t{found['on']:.0f}\tinstructions")
        for name, (tracefs, native) in programs.items():
            print(f"guest_{series}_{name}_native_over_tracefs\t{native / tracefs:.2f}\tratio")
            print(f"guest_{series}_{name}_tracefs\t{tracefs * 100:.1f}\t%")
            print(f"guest_{series}_{name}_native\t{native * 100:.1f}\t%")


if __name__ == "__main__":
    main()

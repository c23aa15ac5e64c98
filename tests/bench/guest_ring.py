#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures one event in a real guest, in our ring and in the kernel's own: guest_ring.py KERNEL..."""

import sys

sys.dont_write_bytecode = True  # keeps the source tree clean

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import host
import rig

DIR = host.BUILD / "bench"


def measure(kernel):
    """The module guest_ring's figures on one kernel, by name."""
    krel = host.kernel_release(host.find_kernel(kernel))
    built = host.BUILD / f"guest-{krel}"
    initrd = host.make_initrd(DIR / f"ring-{kernel}.cpio", krel,
                              [built / "tracebraid.ko", built / "tests" / "bench" / "guest_ring" / "guest_ring.ko"])
    with rig.Guest(f"ring-{kernel}", kernel=kernel, initrd=initrd, shm=DIR / f"ring-{kernel}.shm",
                   rundir=DIR / f"ring-{kernel}") as guest:
        guest.boot(tries=3)
        guest.insmod("tracebraid")
        guest.insmod("guest_ring", "batches=10" if "BRAID_BENCH_SHORT" in os.environ else "")
        # The module's own event is disabled at first.
        guest.run("echo 1 > /sys/kernel/debug/tracebraid/trace/events/bench/bench/enable")
        text = guest.run("cat /sys/kernel/debug/guest_ring", timeout=300)
        guest.check_dmesg()
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def main():
    DIR.mkdir(parents=True, exist_ok=True)
    for kernel in sys.argv[1:]:
        found = measure(kernel)
        series = kernel.replace(".", "_")
        if found["refused"]:
            sys.exit(f"guest_ring: not all events were recorded: {found}")
        for name in ("event", "reserve_commit", "write", "record_event"):
            print(f"guest_{series}_{name}_over_kernel_ring\t{found[name] / found['kernel_ring']:.2f}\tratio")
        for name in ("floor", "event", "reserve_commit", "kernel_ring"):
            print(f"guest_{series}_{name}\t{found[name]}\tcounter steps")


if __name__ == "__main__":
    main()

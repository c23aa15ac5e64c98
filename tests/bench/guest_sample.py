#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts the instructions of a sample in a guest, with stacks of a known depth: guest_sample.py KERNEL...

A task spends the same time, in a page fault within a system call, without samples and with them:
with the kernel's stack, and with both. A nanosecond of the guest's clock is one instruction.
"""

import sys

sys.dont_write_bytecode = True  # keeps the source tree clean

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import host
import rig
from guest_count import DIR, instructions
from proc import Proc

DEPTH = 16
HZ = 10000
STEPS = 2000000 if "BRAID_BENCH_SHORT" in os.environ else 40000000
PROGRAM = DIR / "deep"
RUNS = {"none": ("-e", "sched:sched_process_exec"), "kernel": (f"--sample={HZ}",), "both": (f"--sample={HZ}", "--user-stacks")}


def recorded(guest, options):
    """The instructions of the work while it is recorded, and its samples."""
    capture = DIR / "sample.braid"
    with Proc([host.BUILD / "tracebraid", "record", "-r", guest.shm, *options, "-o", capture], DIR / "sample.log") as agent:
        agent.wait_line(r"^Recording", timeout=60)
        guest.run(f"deep {DEPTH} 1000")  # files are read and pages present
        found = instructions(guest, f"deep {DEPTH} {STEPS}")
        agent.stop(timeout=60)
    text = subprocess.run([host.BUILD / "tracebraid", "report", "--json", capture], check=True, capture_output=True).stdout
    lines = (json.loads(line) for line in text.splitlines())
    return found, [line["fields"] for line in lines if line["type"] == "event" and line.get("event") == "cpu" and line["comm"] == "deep"]


def measure(kernel):
    """The instructions of a sample with the kernel's stack, and with both."""
    krel = host.kernel_release(host.find_kernel(kernel))
    built = host.BUILD / f"guest-{krel}"
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-fno-stack-protector", "-static", "-nostdlib", "-o", PROGRAM,
                    ROOT / "tests/bench/deep.c"], check=True)
    initrd = host.make_initrd(DIR / f"sample-{kernel}.cpio", krel,
                              [built / "tracebraid.ko", built / "tests" / "bench" / "guest_ring" / "deep.ko", PROGRAM])
    with rig.Guest(f"sample-{kernel}", kernel=kernel, initrd=initrd, shm=DIR / f"sample-{kernel}.shm",
                   rundir=DIR / f"sample-{kernel}", smp=1, accel="tcg,thread=single", cpu="max",
                   qemu_args=("-icount", "shift=0")) as guest:
        guest.boot(tries=3)
        guest.insmod("tracebraid", "overwrite=1")
        guest.insmod("deep")
        runs = {name: recorded(guest, options) for name, options in RUNS.items()}
        guest.check_dmesg()
    plain, _ = runs.pop("none")
    found = {}
    for name, (all_of_it, samples) in runs.items():
        # The task's start and end have samples, too, a few with a kernel's stack of that depth.
        deep = [one for one in samples if len(one["stack"]) == 8 * (DEPTH - 1)
                and (name != "both" or len(one["user_stack"]) == 8 * DEPTH)]
        if not deep or len(deep) < len(samples) / 2:
            depths = sorted({(len(one["stack"]) // 8, len(one["user_stack"]) // 8) for one in samples})
            sys.exit(f"guest_sample: {len(deep)} of {len(samples)} samples have a stack of {DEPTH}: {depths}")
        found[name] = (all_of_it - plain) / len(samples)
    return found


def instructions_per_us():
    """Those of such code that this machine executes in a microsecond: by the same steps in user space."""
    def figure(*command):
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return float(text.split()[1])

    program = host.BUILD / "bench_sample"
    ns = figure(program)
    return figure(ROOT / "tests/bench/count.sh", "sample", program, "count") / ns * 1000


def main():
    DIR.mkdir(parents=True, exist_ok=True)
    speed = instructions_per_us()
    print(f"sample_steps_speed\t{speed:.0f}\tinstructions per us")
    for kernel in sys.argv[1:]:
        series = kernel.replace(".", "_")
        for name, each in measure(kernel).items():
            print(f"guest_{series}_sample_{name}\t{each:.0f}\tinstructions")
            print(f"guest_{series}_sample_{name}_time\t{each / speed:.2f}\tus")


if __name__ == "__main__":
    main()

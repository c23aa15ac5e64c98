# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits of waits, which only catch hangs: a second counts less while tasks wait for a CPU.

Tests wait for conditions. A limit is in seconds of an otherwise idle machine. On a busy one the same
work takes several times as long without a fault.
"""

import subprocess
import time

PRESSURE = "/proc/pressure/cpu"
WAITING_COUNTS = 0.3  # weight of a second in which some task waited for a CPU
CHECK_S = 1
LEAST_S = 0.01  # shortest sleep of a wait


def _waited():
    """Seconds since boot in which some task waited for a CPU; 0 where the kernel does not count them."""
    try:
        with open(PRESSURE, encoding="ascii") as pressure:
            return int(pressure.readline().rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return 0


def now():
    """Seconds on the clock of limits. The kernel updates its sum in steps, so this may go back by a second or two."""
    return time.monotonic() - (1 - WAITING_COUNTS) * _waited()


def wait(process, timeout):
    """subprocess.Popen.wait() with a timeout on the clock of limits."""
    deadline = now() + timeout
    while True:
        try:
            return process.wait(CHECK_S)
        except subprocess.TimeoutExpired:
            if now() > deadline:
                raise subprocess.TimeoutExpired(process.args, timeout) from None


def run(argv, timeout):
    """Runs a program to its end with its output captured as text; returns its subprocess.CompletedProcess."""
    deadline = now() + timeout
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace") as process:
        try:
            while True:
                try:
                    output, errors = process.communicate(timeout=CHECK_S)
                    return subprocess.CompletedProcess(argv, process.returncode, output, errors)
                except subprocess.TimeoutExpired:
                    if now() > deadline:
                        raise subprocess.TimeoutExpired(argv, timeout) from None
        finally:
            process.kill()

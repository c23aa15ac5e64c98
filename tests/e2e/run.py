#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the end-to-end cases: real kernels in QEMU, the driver in them, the agent on the host."""

import sys

sys.dont_write_bytecode = True  # keeps the source tree clean

import argparse
import collections
import contextlib
import fcntl
import fnmatch
import io
import math
import multiprocessing
import multiprocessing.connection
import os
import re
import resource
import shutil
import signal
import subprocess
import time
import traceback

import harness
import host
import limits
import machines
import qemu
import rig
from errors import COMPLAINTS, KernelUnavailable, GuestNotReady, GuestReset, GuestTimeout


MOST_REPEATS = 2  # of a case that failed by a bug of the emulator
_cases = {}  # by name; complete before processes that run them are forked


class CaseTimeout(Exception):
    """The case as a whole took too long."""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", default=[], metavar="NAME",
                        help="run this case only, or those that a pattern such as 'analyze-*' matches (repeatable)")
    parser.add_argument("--kernel", action="append", default=[],
                        choices=[*harness.ALL_KERNELS, *host.ARM64_KERNELS, host.DEBUG_KERNEL, host.UML_KERNEL, "all"],
                        help="run on this kernel (repeatable), or on all of x86 but the debug one; default: those that "
                             "--list shows")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)) + 1, metavar="N",
                        help="cases to run at a time; default: one more than CPUs, because some wait")
    parser.add_argument("--keep", action="store_true", help="keep the files of cases that passed too")
    parser.add_argument("--no-skip", action="store_true", help="a case that cannot run counts as failed")
    return parser.parse_args()


def select(cases, patterns):
    """The cases whose names match one of the patterns, as a shell matches file names; without patterns, all."""
    found = {pattern: fnmatch.filter(cases, pattern) for pattern in patterns}
    unknown = [pattern for pattern, names in found.items() if not names]
    if unknown:
        sys.exit(f"run.py: no case named {', '.join(unknown)}; --list shows them")
    wanted = {name for names in found.values() for name in names}
    return [one for name, one in cases.items() if not patterns or name in wanted]


def kernels_of(the_case, wanted):
    if not wanted:
        return the_case.kernels
    wanted = {*wanted, *((*harness.ALL_KERNELS, host.UML_KERNEL) if "all" in wanted else ())}
    return [kernel for kernel in the_case.possible if kernel in wanted]


@contextlib.contextmanager
def time_limit(seconds):
    """Interrupts any wait of the case, also for host programs."""
    deadline = limits.now() + seconds

    def expire(*_):
        left = deadline - limits.now()
        if left <= 0:
            raise CaseTimeout(f"the case took more than {seconds} s")
        signal.alarm(math.ceil(left))

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def run_case(the_case, kernel):
    """Runs a case once; returns (verdict, why, context), with context None if none was made."""
    context = None
    try:
        try:
            host.find_kernel(kernel)
        except rig.RigError as error:
            return "skip", str(error), None
        context = harness.Context(the_case, kernel)
        context.check_needs()
        with time_limit(the_case.timeout * (host.DEBUG_PATIENCE if kernel == host.DEBUG_KERNEL else
                                            machines.of(kernel).patience)):
            the_case.function(context)
            context.check_guests()
    except harness.CaseSkipped as why:
        if context:
            context.unavailable = isinstance(why, harness.CaseUnavailable)
        return "skip", str(why), context
    except (harness.CaseFailed, rig.RigError, CaseTimeout, subprocess.TimeoutExpired) as error:
        if context:
            context.stuck_in_boot = isinstance(error, GuestNotReady)
            context.fell = isinstance(error, (GuestReset, GuestTimeout))
        return "FAIL", f"{error}\n  {where(error)}", context
    except Exception:  # a mistake in the case itself: show its author where
        return "FAIL", traceback.format_exc(), context
    finally:
        if context:
            context.slipped = emulator_slipped(context)  # before consoles are removed
            context.close()
    return "ok", "", context


def where(error):
    """The line of the case that failed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/cases/" in frame.filename]
    return f"at {frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else "after the end of the case"


def emulator_slipped(context):
    """Whether a guest failed by a bug of the emulator, or its kernel hung in boot before our code runs."""
    return any(guest.accel == "tcg" and
               (context.stuck_in_boot or re.search(guest.emulator_slips, guest.console()))
               or context.fell and guest.falls_silently and not explains(guest.console())
               for guest in context.guests)


def explains(console):
    """Whether a kernel has printed what is wrong. Its report of a stall explains nothing if the stalled vCPU does not even
    execute an NMI: then the emulator does not run that vCPU.
    """
    asked = re.search(r"Sending NMI from CPU \d+ to CPUs (\d+):", console)
    if asked and f"NMI backtrace for cpu {asked[1]}" not in console:
        console = re.sub(r"(?m)^.*\brcu: .*$", "", console)
    return bool(COMPLAINTS.search(console))


def unavailable(kernel):
    """Whether the machine's registry has no such kernel, which is no fault of the machine."""
    try:
        host.find_kernel(kernel)
    except KernelUnavailable:
        return True
    except rig.RigError:
        pass
    return False


def console_tails(context, why):
    """The consoles of guests that the reason does not already show."""
    for guest in context.guests if context else ():
        if str(guest.console_path) not in why and guest.console():
            print(f"  console of {guest.name} ({guest.console_path}):")
            print("\n".join("    " + line for line in guest.console().splitlines()[-15:]))


def cpu_time():
    """Seconds of the CPUs that this process and what it started have taken, guests included."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage,
                                                             (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def report(the_case, kernel, seconds, result, keep):
    verdict, why, context = result
    head = f"{verdict:4} {the_case.name} [{kernel}]"
    if verdict == "skip":
        print(f"{head}: {why.splitlines()[0]}")
    else:
        print(f"{head} {seconds:.1f} s, {cpu_time():.1f} s of CPU")
    if verdict == "FAIL":
        print("\n".join("  " + line for line in why.rstrip().splitlines()))
        console_tails(context, why)
        if context:
            print(f"  logs: {context.dir}")
    elif context and not keep:
        shutil.rmtree(context.dir, ignore_errors=True)


def run_one(job):
    """Runs a case on a kernel, again after a failure of the emulator; returns (verdict, text that reports it)."""
    (name, kernel), arguments = job
    the_case, began = _cases[name], time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()) as text:
        verdict, why, context = run_case(the_case, kernel)
        for _ in range(MOST_REPEATS):
            if verdict != "FAIL" or not (context and context.slipped):
                break
            print(f"repeated: {name} [{kernel}]: {why.splitlines()[0]}; the emulated kernel hung in boot, or failed by "
                  "a bug of the emulator, see docs/testing.md")
            verdict, why, context = run_case(the_case, kernel)
        if verdict == "skip" and arguments.no_skip and not (unavailable(kernel) or context and context.unavailable):
            verdict = "FAIL"
        report(the_case, kernel, time.monotonic() - began, (verdict, why, context), arguments.keep)
    return verdict, text.getvalue()


def send_result(sender, job):
    """What the process of a case does."""
    try:
        sender.send(run_one(job))
    except KeyboardInterrupt:
        sys.exit(130)


def run_jobs(jobs, at_a_time, count):
    """Runs each case in a process of its own, so that none affects the next, and counts the verdicts.

    Forks in the only thread. multiprocessing.Pool forks in a separate one: if the main thread prints at that moment, the
    child inherits the lock of standard output, locked, and hangs when it prints.
    """
    context = multiprocessing.get_context("fork")
    waiting, running = collections.deque(jobs), {}
    try:
        while waiting or running:
            while waiting and len(running) < at_a_time:
                job = waiting.popleft()
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=send_result, args=(sender, job))
                process.start()
                sender.close()
                running[receiver] = process, job
            for receiver in multiprocessing.connection.wait(running):
                process, ((name, kernel), _) = running.pop(receiver)
                try:
                    verdict, text = receiver.recv()
                except EOFError:
                    verdict, text = "FAIL", f"FAIL {name} [{kernel}]: its process ended without a result\n"
                process.join()
                receiver.close()
                print(text, end="", flush=True)
                count[verdict] += 1
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.join()


@contextlib.contextmanager
def alone():
    """Keeps other runs of this tree away: they would use the same folders."""
    host.RIG_DIR.mkdir(parents=True, exist_ok=True)
    with open(host.RIG_DIR / "lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit("run.py: another run in this tree is active: wait for its end, or use another clone")
        yield


def main():
    arguments = parse_arguments()
    # Ends as on Ctrl-C, so that everything is cleaned up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    _cases.update(harness.load_cases())
    if arguments.list:
        for one in _cases.values():
            print(f"{one.name:24} {','.join(one.kernels):16} {one.summary}")
        return 0
    selected = select(_cases, arguments.case)
    count = {"ok": 0, "FAIL": 0, "skip": 0}
    jobs = [((one.name, kernel), arguments) for one in selected for kernel in kernels_of(one, arguments.kernel)]
    if not jobs:
        sys.exit(f"run.py: none of these cases runs on {', '.join(arguments.kernel)}; --list shows their kernels")
    for path in sorted({machines.of(kernel).qemu() for (_, kernel), _ in jobs}):
        print(qemu.describe(path), flush=True)
    print(rig.choose_accel()[1], flush=True)
    with alone():
        run_jobs([job for job in jobs if not _cases[job[0][0]].alone], arguments.jobs, count)
        run_jobs([job for job in jobs if _cases[job[0][0]].alone], 1, count)
    print(f"{count['ok']} passed, {count['FAIL']} failed, {count['skip']} skipped")
    return 1 if count["FAIL"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except rig.RigError as problem:
        sys.exit(f"run.py: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)

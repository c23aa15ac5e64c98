#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel whose first process loads the test module; judges what its log says.

The kernel is build/kernels/KIND (tests/kernels/build.sh), the module build/kunit-KIND/tracebraid_kunit.ko.
"""

import sys

sys.dont_write_bytecode = True  # the sources' folder stays clean

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import ktap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import errors  # pylint: disable=wrong-import-position
import limits  # pylint: disable=wrong-import-position

MODULE = "tracebraid_kunit.ko"
# The emulated one runs everything under KASAN and lockdep on a machine that may be busy.
TIMEOUT_S = {"uml": 300, "debug": 900}
# init.c's, besides the suites of the module: it says the last word.
OF_INIT = ("debugfs", "unload", "leaks")
LAST_WORD = "init: done"


class Failed(Exception):
    """What there is to say in one line."""


def suites_wanted():
    """Each tests/kunit/test_NAME.c holds the suite NAME: one that is not there has not run."""
    return [path.stem.removeprefix("test_") for path in sorted(HERE.glob("test_*.c"))] + list(OF_INIT)


def run(*argv):
    done = subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode:
        raise Failed(f"{argv[0]} ended with {done.returncode}:\n{done.stdout}")


def make_initrd(folder):
    """init and the module, nothing else."""
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("dev", "proc", "sys"):
        (root / name).mkdir(parents=True)
    run("gcc", "-static", "-O2", "-Wall", "-Wextra", "-Werror", "-o", root / "init", HERE / "init.c")
    shutil.copy(folder / MODULE, root / MODULE)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*"))) + "\n"
    with open(folder / "initrd.cpio", "wb") as out:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"], cwd=root, input=names.encode(),
                       stdout=out, check=True)
    return folder / "initrd.cpio"


def uml_command(kernel, initrd, folder):
    """User-mode Linux: its "physical" memory must not move about, hence setarch; its files go to the folder."""
    return ["setarch", "-R", kernel / "linux", "mem=256M", f"initrd={initrd}", f"uml_dir={folder}/", "con=null",
            "con0=null,fd:1", "ssl=null", "console=tty0", "loglevel=7", "printk.devkmsg=on", "panic=-1"]


def qemu_command(kernel, initrd, _):
    return ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc", "-cpu", "max",
            "-accel", "tcg,thread=multi", "-smp", "2", "-m", "512M", "-serial", "stdio", "-no-reboot",
            "-kernel", kernel / "arch/x86/boot/bzImage", "-initrd", initrd, "-append",
            "console=ttyS0 loglevel=7 printk.devkmsg=on panic=-1 tsc=reliable no_timer_check"]


def boot(argv, log, timeout):
    """Runs the kernel to its end, its console in the file `log`; whether it ended in time."""
    with open(log, "wb") as out:
        kernel = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.STDOUT, start_new_session=True)
        try:
            limits.wait(kernel, timeout)
            return True
        except subprocess.TimeoutExpired:
            return False
        finally:
            # UML's helpers are in its session; all of it goes.
            try:
                os.killpg(kernel.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            kernel.wait()


def judge(log, in_time):
    """(what is wrong, suites): nothing, if all that should have run has passed and the kernel did not complain."""
    suites = ktap.parse(log)
    wrong = []
    for name in suites_wanted():
        wrong += suites[name].complaints() if name in suites else [f"{name} has not run"]
    for name in suites.keys() - set(suites_wanted()):
        wrong += suites[name].complaints()
    wrong += [f"the kernel says: {line.strip()}" for line in log.splitlines() if errors.COMPLAINTS.search(line)]
    if not in_time:
        wrong.append("it did not end in time")
    elif LAST_WORD not in log:
        wrong.append("the kernel ended before its time")
    return wrong, suites


def stop_kernels(signum, _):
    """Ends like Ctrl-C does, so that the kernel goes too."""
    sys.exit(128 + signum)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kernel", choices=TIMEOUT_S, default="uml")
    kind = parser.parse_args().kernel
    signal.signal(signal.SIGTERM, stop_kernels)
    kernel, folder = ROOT / "build/kernels" / kind, ROOT / f"build/kunit-{kind}"
    for path, maker in ((kernel / "ready", f"tests/kernels/build.sh {kind}"), (folder / MODULE, "make check-kunit")):
        if not path.exists():
            raise Failed(f"{path.relative_to(ROOT)} is missing: {maker} makes it")
    log, began = folder / "log", time.monotonic()
    command = uml_command if kind == "uml" else qemu_command
    in_time = boot(command(kernel.resolve(), make_initrd(folder), folder), log, TIMEOUT_S[kind])
    wrong, suites = judge(log.read_text(encoding="utf-8", errors="replace"), in_time)
    cases = sum(suite.cases for suite in suites.values())
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise Failed(f"{re.sub(' +', ' ', wrong[0])}{more}; log: {log.relative_to(ROOT)}")
    skipped = sum(len(suite.skipped) for suite in suites.values())
    print(f"ok   kunit [{kind}]: {cases} cases in {len(suites)} suites"
          f"{f', {skipped} skipped' if skipped else ''} ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    try:
        main()
    except Failed as problem:
        sys.exit(f"FAIL kunit: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)

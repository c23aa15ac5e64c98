#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel whose first process loads the test module, and checks the results in its log.

The kernel is build/kernels/NAME (tests/kernels/build.sh), the module build/kunit-NAME/tracebraid_kunit.ko.
"""

import sys

sys.dont_write_bytecode = True  # keeps the source tree clean

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
import qemu  # pylint: disable=wrong-import-position

MODULE = "tracebraid_kunit.ko"
# The emulated kernel runs everything under KASAN and lockdep on a machine that may be busy.
TIMEOUT_S = {"uml": 300, "debug": 900}
# init.c's suites, besides those of the module; init.c prints the last result.
OF_INIT = ("debugfs", "unload", "leaks")
LAST_WORD = "init: done"


class Failed(Exception):
    """An error of one line."""


def suites_wanted():
    """The names of all suites: each tests/kunit/test_NAME.c contains the suite NAME."""
    return [path.stem.removeprefix("test_") for path in sorted(HERE.glob("test_*.c"))] + list(OF_INIT)


def run(*argv):
    done = subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode:
        raise Failed(f"{argv[0]} ended with {done.returncode}:\n{done.stdout}")


def make_initrd(folder):
    """An initramfs with only init and the module."""
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
    """User-mode Linux: its "physical" memory must be at a fixed address, hence setarch; its files go to the folder."""
    return ["setarch", "-R", kernel / "linux", "mem=256M", f"initrd={initrd}", f"uml_dir={folder}/", "con=null",
            "con0=null,fd:1", "ssl=none", "console=tty0", "loglevel=7", "printk.devkmsg=on", "panic=-1"]


def qemu_command(kernel, initrd, _):
    return [qemu.program(), "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc", "-cpu", "max",
            "-accel", "tcg,thread=multi", "-smp", "2", "-m", "512M", "-serial", "stdio", "-no-reboot",
            "-kernel", kernel / "arch/x86/boot/bzImage", "-initrd", initrd, "-append",
            # KUnit waits for a case without interruption: on a busy machine longer than a hung
            # task's limit.
            "console=ttyS0 loglevel=7 printk.devkmsg=on panic=-1 tsc=reliable no_timer_check "
            "sysctl.kernel.hung_task_timeout_secs=0"]


def boot(argv, log, timeout):
    """Runs the kernel to its end with its console in the file `log`; returns whether it ended in time."""
    with open(log, "wb") as out:
        kernel = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.STDOUT, start_new_session=True)
        try:
            limits.wait(kernel, timeout)
            return True
        except subprocess.TimeoutExpired:
            return False
        finally:
            # UML's helpers are in its session, which is killed as a whole.
            try:
                os.killpg(kernel.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            kernel.wait()


def judge(log, in_time):
    """(errors, suites): no errors if all expected suites have passed and the kernel did not complain."""
    suites = ktap.parse(log)
    wrong = []
    for name in suites_wanted():
        wrong += suites[name].complaints() if name in suites else [f"{name} has not run"]
    for name in suites.keys() - set(suites_wanted()):
        wrong += suites[name].complaints()
    wrong += [f"the kernel says: {line.strip()}" for line in log.splitlines() if errors.COMPLAINTS.search(line)]
    if not in_time:
        wrong.append("the kernel did not end in time")
    elif LAST_WORD not in log:
        wrong.append("the kernel ended early")
    return wrong, suites


def stop_kernels(signum, _):
    """Ends as on Ctrl-C, so that the kernel is ended too."""
    sys.exit(128 + signum)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kernel", default="uml", metavar="KIND[-SERIES]", help=f"KIND is one of {', '.join(TIMEOUT_S)}")
    name = parser.parse_args().kernel
    kind = name.partition("-")[0]
    if kind not in TIMEOUT_S:
        parser.error(f"no kernel {name}")
    signal.signal(signal.SIGTERM, stop_kernels)
    kernel, folder = ROOT / "build/kernels" / name, ROOT / f"build/kunit-{name}"
    for path, maker in ((kernel / "ready", f"tests/kernels/build.sh {name.replace('-', ' ')}"), (folder / MODULE, "make check-kunit")):
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
    print(f"ok   kunit [{name}]: {cases} cases in {len(suites)} suites"
          f"{f', {skipped} skipped' if skipped else ''} ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    try:
        main()
    except Failed as problem:
        sys.exit(f"FAIL kunit: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)

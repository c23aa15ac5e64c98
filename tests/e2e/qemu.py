# SPDX-License-Identifier: GPL-2.0-or-later
"""Which QEMU the rig runs, and what differs between versions of QEMU.

It is the newest that Debian packages for its stable release, got by tests/qemu/fetch.sh; else this machine's own.
TRACEBRAID_QEMU=system in the environment chooses the latter, TRACEBRAID_QEMU=/path/to/qemu-system-x86_64 another one.
"""

import functools
import os
import pathlib
import re
import subprocess

import host
from errors import RigError

NAME = "qemu-system-x86_64"
ARM_NAME = "qemu-system-aarch64"
SYSTEM = "system"
FETCHED = host.BUILD / "qemu" / NAME
_FETCHED_ARM = host.BUILD / "qemu-arm" / ARM_NAME
_MISSING = host.BUILD / "qemu.missing"  # the reason why FETCHED does not exist


def of_machine():
    """The path of this machine's own QEMU."""
    return host.need_program(NAME, "qemu-system-x86")


def program():
    """The path of the QEMU that the rig runs."""
    wanted = os.environ.get("TRACEBRAID_QEMU")
    if wanted and wanted != SYSTEM:
        if not os.access(wanted, os.X_OK):
            raise RigError(f"TRACEBRAID_QEMU={wanted} is not a program: use {SYSTEM} or the path of {NAME}")
        return os.path.abspath(wanted)
    return str(FETCHED) if not wanted and FETCHED.exists() else of_machine()


def arm_program():
    """The path of the QEMU that emulates arm64: the fetched one, that beside the one that is set, or this machine's own."""
    wanted = os.environ.get("TRACEBRAID_QEMU")
    found = pathlib.Path(program()).with_name(ARM_NAME) if wanted else _FETCHED_ARM
    return str(found) if found.exists() else host.need_program(ARM_NAME, "qemu-system-arm")


@functools.lru_cache(maxsize=None)
def _output(path, *arguments):
    done = subprocess.run([path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode:
        raise RigError(f"{path} {' '.join(arguments)} failed: {done.stdout.strip()}")
    return done.stdout


def version(path):
    """The version of a QEMU, as numbers."""
    found = re.search(r"version ([\d.]+)", _output(path, "--version"))
    if not found:
        raise RigError(f"{path} does not print its version")
    return tuple(map(int, found[1].split(".")))


def describe(path=None):
    """One line: which QEMU is used, and why it is not the newest."""
    path, wanted, reason = path or program(), os.environ.get("TRACEBRAID_QEMU"), ""
    if wanted:
        reason = ", this machine's own" if wanted == SYSTEM else ", set by TRACEBRAID_QEMU"
    elif path not in (str(FETCHED), str(_FETCHED_ARM)):
        known = _MISSING.read_text(encoding="utf-8").strip() if _MISSING.exists() else "tests/qemu/fetch.sh gets a newer one"
        reason = f", this machine's own: {known}"
    return f"QEMU {'.'.join(map(str, version(path)))} ({path}{reason})"


def reconnect(path):
    """The option of a socket that makes a QEMU connect again, after a second."""
    return "reconnect-ms=1000" if version(path) >= (9, 2) else "reconnect=1"


def block_passes_notifyq(path):
    """Whether its front end for block devices is known to pass on the feature bit of the virtio device's notifyq."""
    return version(path) < (10, 1)


def sees_patched_code(path):
    """Whether a vCPU of its TCG executes what another vCPU has patched; 7.2's may keep executing the old code."""
    return version(path) >= (11,)


def has_device(path, name):
    """Whether a QEMU has a device."""
    return f'name "{name}"' in _output(path, "-machine", "none", "-device", "help")


def firmware(name):
    """The path of a file of QEMU's firmware."""
    folders = _output(program(), "-L", "help").split()
    found = [path for path in (pathlib.Path(folder, name) for folder in folders) if path.exists()]
    if not found:
        raise RigError(f"{program()} has no firmware {name} in {' '.join(folders)}")
    return found[0]

# SPDX-License-Identifier: GPL-2.0-or-later
"""What a case is written with: the decorator that registers it and the context that it is given."""

import contextlib
import dataclasses
import importlib.util
import lzma
import pathlib
import shutil
import time

import host
import limits
from errors import RigError
from proc import Proc
from rig import Guest

ALL_KERNELS = tuple(host.KERNEL_PACKAGES)
USUAL_KERNELS = ("6.1", "6.12")
CASE_TIMEOUT_S = 300

AGENT = host.BUILD / "tracebraid"

_registry = {}


class CaseFailed(Exception):
    """What the case looked at is not as it must be."""


class CaseSkipped(Exception):
    """The case cannot run here."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A registered case; see case()."""

    name: str
    function: object
    kernels: tuple  # that it runs on unless told otherwise
    possible: tuple  # that it can run on, DEBUG_KERNEL among them
    needs: tuple
    timeout: int
    allow: tuple
    summary: str
    alone: bool


def case(name, kernels=None, usual=None, possible=None, needs=(), timeout=CASE_TIMEOUT_S, allow=(), alone=False):
    """Registers a function as a case: it is called with a Context, and fails by raising.

    kernels: it runs on these alone, whatever is asked for.
    usual: on these unless others are asked for. What hardly differs from one kernel to the next runs on one of them.
    possible: on these alone, if they are asked for; default: all, and DEBUG_KERNEL, which is a 6.1.
    needs: "agent", "driver", "module:NAME" (a test module, or the driver's for virtio); without them it is skipped.
    timeout: seconds for one run of the case, whatever it waits for.
    allow: regular expressions for kernel complaints that are part of the case (see Guest.check_dmesg).
    alone: it needs all CPUs for itself, so it runs behind all others.
    """
    def register(function):
        if name in _registry:
            raise RigError(f"two cases are named {name}")
        summary = (function.__doc__ or "").strip().split("\n")[0]
        can = tuple(kernels or ALL_KERNELS)
        can += (host.DEBUG_KERNEL,) * ("6.1" in can)
        _registry[name] = Case(name, function, tuple(kernels or usual or USUAL_KERNELS), tuple(possible or can),
                               tuple(needs), timeout, tuple(allow), summary, alone)
        return function

    return register


def load_cases():
    """All cases by name, in the order of files and of definition."""
    for path in sorted((host.HERE / "cases").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"cases_{path.stem}", path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return dict(_registry)


class Context:
    """One run of a case on one kernel. Whatever it started is gone when the run ends."""

    def __init__(self, the_case, kernel):
        self.case = the_case
        self.kernel = kernel
        self.dir = host.RIG_DIR / f"{the_case.name}-{kernel}"
        self.krel = host.kernel_release(host.find_kernel(kernel))
        self.guests = []
        self.stuck_in_boot = self.fell = False
        self._procs = []
        self._cleanup = contextlib.ExitStack()
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)

    # What the case may need

    agent_path = AGENT

    @property
    def driver_path(self):
        """The driver for the guest's kernel."""
        return host.BUILD / f"guest-{self.krel}" / "tracebraid.ko"

    def module(self, name):
        """The path of a test module, wherever under build/guest-<release>/ it is."""
        found = sorted((host.BUILD / f"guest-{self.krel}").rglob(f"{name}.ko"))
        if not found:
            raise CaseSkipped(f"{name}.ko is not built for {self.krel}")
        return found[0]

    def kernel_module(self, name):
        """One of the kernel's own modules, as it is loaded; None if it is built in."""
        path = pathlib.Path("/lib/modules", self.krel, "kernel", f"{name}.ko")
        packed, plain = path.with_suffix(".ko.xz"), self.dir / path.name
        if packed.exists():
            plain.write_bytes(lzma.decompress(packed.read_bytes()))
            return plain
        return path if path.exists() else None

    def check_needs(self):
        """Raises CaseSkipped for the first thing that is missing."""
        for need in self.case.needs:
            if need.startswith("module:"):
                self.module(need.partition(":")[2])
            elif need not in ("agent", "driver"):
                raise RigError(f"case {self.case.name} needs {need!r}, which is unknown")
            else:
                path = self.agent_path if need == "agent" else self.driver_path
                if not path.exists():
                    raise CaseSkipped(f"{path.relative_to(host.ROOT)} is not built")

    # Guests and programs

    def initrd(self, *files, driver=None):
        """An initramfs with `files`, and with the driver if the case needs it (or as `driver` says)."""
        if driver is None:
            driver = "driver" in self.case.needs
        modules = [self.module(need.partition(":")[2]) for need in self.case.needs if need.startswith("module:")]
        everything = [*([self.driver_path] if driver else []), *modules, *files]
        return host.make_initrd(self.dir / "initrd.cpio", self.krel, everything)

    def guest(self, name="g1", shm=True, initrd=None, **options):
        """A Guest, not started; `shm`: a path, or True for <dir>/<name>.shm, or None for no shared memory."""
        if initrd is None:
            initrd = self.dir / "initrd.cpio"
            if not initrd.exists():
                self.initrd()
        shm = self.dir / f"{name}.shm" if shm is True else shm
        return self.adopt(Guest(name, kernel=self.kernel, initrd=initrd, shm=shm, rundir=self.dir / name, **options))

    def adopt(self, guest):
        """Takes care of a guest that the case made itself, as of one of guest(); returns it."""
        self.guests.append(guest)
        self._cleanup.enter_context(guest)
        return guest

    def start(self, *argv, name=None, kind=Proc, **options):
        """Starts a program of the host in the background; a Proc, whose log is <dir>/<name>.log."""
        name = name or f"{pathlib.Path(argv[0]).name}-{len(self._procs)}"
        proc = kind(argv, self.dir / f"{name}.log", **options)
        self._procs.append(proc)
        self._cleanup.enter_context(proc)
        return proc

    def agent(self, *arguments, name=None, **options):
        """start() for the agent."""
        return self.start(self.agent_path, *arguments, name=name, **options)

    def run(self, *argv, timeout=60, status=0):
        """Runs a program of the host to its end; its subprocess.CompletedProcess, with text.

        Fails the case unless its exit status is `status` (None: any).
        """
        argv = [str(word) for word in argv]
        done = limits.run(argv, timeout)
        if status is not None and done.returncode != status:
            raise CaseFailed(f"{' '.join(argv)} ended with {done.returncode}, not {status}:\n"
                             f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done

    def run_agent(self, *arguments, **options):
        """run() for the agent."""
        return self.run(self.agent_path, *arguments, **options)

    def defer(self, function, *arguments, **options):
        """Has a function called when the run ends, behind all that is begun later."""
        self._cleanup.callback(function, *arguments, **options)

    # Judging

    def check(self, condition, message):
        """Fails the case unless the condition is true."""
        if not condition:
            raise CaseFailed(message)

    def equal(self, got, want, what):
        """Fails the case unless got == want."""
        if got != want:
            raise CaseFailed(f"{what}: got {_short(got)}, want {_short(want)}")

    def skip(self, why):
        """Ends the case as skipped."""
        raise CaseSkipped(why)

    def wait_until(self, predicate, what, timeout=30):
        """Asks predicate() again and again till it is true; its value. For conditions that nothing announces."""
        deadline = limits.now() + timeout
        while True:
            value = predicate()
            if value:
                return value
            if limits.now() > deadline:
                raise CaseFailed(f"waited {timeout} s for {what}")
            time.sleep(0.05)

    # For the runner

    def check_guests(self):
        """The kernels' complaints fail a case that found nothing wrong itself."""
        for guest in self.guests:
            guest.check_dmesg(self.case.allow)

    def close(self):
        """Ends all that the case started."""
        self._cleanup.close()


def _short(value, limit=300):
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"

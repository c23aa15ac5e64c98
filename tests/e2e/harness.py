# SPDX-License-Identifier: GPL-2.0-or-later
"""The interface of cases: the decorator that registers a case, and the context that it gets."""

import contextlib
import dataclasses
import importlib.util
import lzma
import os
import pathlib
import shutil
import time

import host
import limits
import machines
from errors import RigError
from proc import Proc
from rig import Guest

ALL_KERNELS = tuple(host.KERNEL_PACKAGES) + host.NEWEST_KERNELS
USUAL_KERNELS = ("6.1", "newest")
CASE_TIMEOUT_S = 300

AGENT = host.BUILD / "tracebraid"

_registry = {}


class CaseFailed(Exception):
    """A check of the case failed."""


class CaseSkipped(Exception):
    """The case cannot run here."""


class CaseUnavailable(CaseSkipped):
    """The case needs what this machine may not have, which is no fault: a program of its registry, or memory as it is needed."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A registered case; see case()."""

    name: str
    function: object
    kernels: tuple  # on which it runs by default
    possible: tuple  # on which it can run, including DEBUG_KERNEL
    needs: tuple
    timeout: int
    allow: tuple
    summary: str
    alone: bool


def case(name, kernels=None, usual=None, possible=None, needs=(), timeout=CASE_TIMEOUT_S, allow=(), alone=False,
         arm64=False):
    """Registers a function as a case: it is called with a Context, and fails by raising.

    kernels: it runs on these only, whatever is requested.
    usual: on these unless others are requested. A case that hardly depends on the kernel runs on one.
    possible: on these only, if they are requested; default: all, and DEBUG_KERNEL, which is the oldest.
    A kernel that this machine's release has no package of stands for the oldest that it has.
    arm64: on ARM64_KERNELS, too, if they are requested; "only": on no others.
    needs: "agent", "driver", "module:NAME" (a test module, or the driver's for virtio); without them it is skipped.
    timeout: seconds for one complete run of the case.
    allow: regular expressions for kernel complaints that are part of the case (see Guest.check_dmesg).
    alone: it needs all CPUs for itself, so it runs after all others.
    """
    def register(function):
        if name in _registry:
            raise RigError(f"two cases are named {name}")
        summary = (function.__doc__ or "").strip().split("\n")[0]
        can = _here(kernels or ALL_KERNELS)
        can += (host.DEBUG_KERNEL,) * (host.OLDEST_KERNEL in can)
        ordinary = arm64 != "only"
        can = _here(possible or can) * ordinary + host.ARM64_KERNELS * bool(arm64)
        _registry[name] = Case(name, function, _here(usual or kernels or USUAL_KERNELS) * ordinary, can, tuple(needs),
                               timeout, tuple(allow), summary, alone)
        return function

    return register


def _here(kernels):
    known = (*ALL_KERNELS, host.DEBUG_KERNEL, host.UML_KERNEL)
    return tuple(dict.fromkeys(one if one in known else host.OLDEST_KERNEL for one in kernels))


def load_cases():
    """All cases by name, in the order of their files and definitions."""
    for path in sorted((host.HERE / "cases").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"cases_{path.stem}", path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return dict(_registry)


class Context:
    """One run of a case on one kernel. All that it started is ended with the run."""

    def __init__(self, the_case, kernel):
        self.case = the_case
        self.kernel = kernel
        self.dir = host.RIG_DIR / f"{the_case.name}-{kernel}"
        self.krel = host.kernel_release(host.find_kernel(kernel))
        self.guests = []
        self.stuck_in_boot = self.fell = self.slipped = self.unavailable = False
        self._procs = []
        self._cleanup = contextlib.ExitStack()
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)

    # Requirements of cases

    agent_path = AGENT

    @property
    def driver_path(self):
        """The driver for the guest's kernel."""
        return host.BUILD / f"guest-{self.krel}" / "tracebraid.ko"

    def module(self, name):
        """The path of a test module below build/guest-<release>/."""
        found = sorted((host.BUILD / f"guest-{self.krel}").rglob(f"{name}.ko"))
        if not found:
            raise CaseSkipped(f"{name}.ko is not built for {self.krel}")
        return found[0]

    def kernel_module(self, name):
        """The path of one of the kernel's own modules, uncompressed; None if it is built in."""
        path = host.modules_folder(self.krel) / "kernel" / f"{name}.ko"
        packed, plain = path.with_suffix(".ko.xz"), self.dir / path.name
        built = host.BUILD / "kernels" / self.kernel / f"{name}.ko"
        if built.exists():  # of a kernel that the tests build
            return built
        if packed.exists():
            plain.write_bytes(lzma.decompress(packed.read_bytes()))
            return plain
        return path if path.exists() else None

    def check_needs(self):
        """Raises CaseSkipped for the first missing requirement."""
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

    def guest_program(self, name, *options, source=None):
        """A program for guests, of tests/e2e/<source>.c, by default <name>.c."""
        program = host.build_program(name, "-static", *options, source=source,
                                     cc=machines.of(self.kernel).cc)
        self.check(program, f"tests/e2e/{source or name}.c does not compile")
        return program

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

    def found_guest(self, what="guest", **options):
        """A Guest that the agent finds by its name among all of this machine's: no other case, kernel or run has that name."""
        return self.guest(f"{self.dir.name}-{what}-{os.getpid()}", **options)

    def adopt(self, guest):
        """Manages a guest that the case made itself like one from guest(); returns it."""
        self.guests.append(guest)
        self._cleanup.enter_context(guest)
        return guest

    def start(self, *argv, name=None, kind=Proc, **options):
        """Starts a program on the host in the background; returns a Proc, whose log is <dir>/<name>.log."""
        name = name or f"{pathlib.Path(argv[0]).name}-{len(self._procs)}"
        proc = kind(argv, self.dir / f"{name}.log", **options)
        self._procs.append(proc)
        self._cleanup.enter_context(proc)
        return proc

    def agent(self, *arguments, name=None, **options):
        """start() for the agent."""
        return self.start(self.agent_path, *arguments, name=name, **options)

    def run(self, *argv, timeout=60, status=0):
        """Runs a program on the host to its end; returns its subprocess.CompletedProcess, with text.

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
        """Registers a function to be called when the run ends, in reverse order of registration."""
        self._cleanup.callback(function, *arguments, **options)

    # Checks

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
        """Polls predicate() until it is true; returns its value. For conditions that no event announces."""
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
        """Fails a case that passed if a guest's kernel complained."""
        for guest in self.guests:
            guest.check_dmesg(self.case.allow)

    def close(self):
        """Ends everything that the case started."""
        self._cleanup.close()


def _short(value, limit=300):
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"

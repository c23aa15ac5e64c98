# SPDX-License-Identifier: GPL-2.0-or-later
"""A virtual machine for tests and for the demo: class Guest is one QEMU process with a shell in the guest.

    with Guest("g1", kernel="6.12", shm="build/g1.shm") as guest:
        guest.boot()
        status, output = guest.sh("uname -a")

Every wait is for a condition, fails at once when the guest can no longer fulfil it, and has a limit.
"""

import atexit
import contextlib
import gzip
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import weakref

import host
import limits
import machines
import qemu
from directory import MARK
from errors import (COMPLAINTS, CommandFailed, DmesgError, GuestError, GuestGone, GuestNotReady, GuestReset,
                    GuestTimeout, RigError)
from link import Link

__all__ = ["Guest", "Background", "WORKLOAD", "choose_accel", "boot_all", "RigError", "GuestError", "GuestTimeout",
           "GuestGone", "GuestReset", "CommandFailed", "DmesgError"]

# Generous: emulation on a loaded machine may be ten times slower than on an idle one.
BOOT_TIMEOUT_S = 120
COMMAND_TIMEOUT_S = 60
QMP_TIMEOUT_S = 60

# How long an ordinary kernel may stay silent on KVM before KVM is regarded as unusable.
KVM_SILENCE_S = 8
KVM_BOOT_S = 40

BOOT_ARGS = machines.X86.boot_args

# A load for guests until it is killed: on every vCPU system calls, context switches (pipes), page
# faults and forks (each applet is a process), and timers (short sleeps).
WORKLOAD = """
cpu=0
while [ -d /sys/devices/system/cpu/cpu$cpu ]; do
    mask=$(printf %x $((1 << cpu)))
    taskset $mask sh -c 'while :; do dd if=/dev/zero bs=4k count=200 | md5sum; ls -lR /proc/self; \
dd if=/dev/zero bs=1 count=5000; cat /proc/interrupts; done >/dev/null 2>&1' &
    taskset $mask sh -c 'while :; do usleep 1000; done' &
    cpu=$((cpu + 1))
done
wait
"""

live_guests = weakref.WeakSet()
_chosen_accel = None


@atexit.register
def _killlive_guests():
    for guest in list(live_guests):
        guest.kill()


class Background:
    """A command that runs in a guest while the test continues."""

    def __init__(self, guest, ident, pid):
        self.guest, self.id, self.pid = guest, ident, pid

    @property
    def status(self):
        """None while its end is not yet known, else its exit status or 128 + signal."""
        with self.guest.link.cond:
            return self.guest.link.answers[self.id].status

    def wait(self, timeout=COMMAND_TIMEOUT_S):
        """Waits for its end; returns its status."""
        return self.guest.wait_answer(self.id, "status", timeout, f"the end of background command {self.id}").status

    def kill(self, timeout=COMMAND_TIMEOUT_S):
        """Kills its process group, and waits for its end."""
        if self.status is None:
            self.guest.link.send_raw(f"KILL {self.id}")
        return self.wait(timeout)

    def output(self):
        """Its output so far."""
        return self.guest.run(f"cat /tmp/bg.{self.id}")


class Guest:
    """One QEMU process. Start it in a thread that outlives it: the kernel kills QEMU when that thread ends."""

    show_dmesg = "dmesg"
    # Console messages after a fault of the emulator itself; see docs/testing.md.
    emulator_slips = r"Oops: int3|asm_exc_int3"
    falls_silently = False  # whether an unexplained reset or hang is one, too

    def __init__(self, name, kernel=host.OLDEST_KERNEL, initrd=None, shm=None, shm_size="16M", smp=2, mem=None, accel="auto", thread="multi",
                 patches_code=False, rundir=None, append="", qemu_args=(), cpu=None, pass_fds=(), shm_options=""):
        self.name = name
        self.kernel = host.find_kernel(kernel)
        self.release = host.kernel_release(self.kernel)
        self.rundir = pathlib.Path(rundir or host.RIG_DIR / "guests" / name).resolve()
        self.initrd = initrd
        self.shm = pathlib.Path(shm).resolve() if shm else None
        self.shm_size = shm_size
        self.machine = machines.of(kernel)
        debug = kernel == host.DEBUG_KERNEL
        self.patience = host.DEBUG_PATIENCE if debug else self.machine.patience  # of all waits
        self.smp, self.mem = smp, mem or (host.DEBUG_MEM if debug else self.machine.mem)
        self.accel_wanted, self.accel, self.thread = accel, None, thread
        # It enables tracepoints by the hundred while it is busy, and no agent depends on its
        # atomics (docs/testing.md).
        self.patches_code = patches_code
        self.append, self.qemu_args = append, tuple(qemu_args)
        self.cpu, self.pass_fds = cpu, tuple(pass_fds)  # the model; what qemu_args refer to
        self.shm_options = shm_options  # more properties of the ivshmem device
        self.console_path = self.rundir / "console.log"
        self.process = self.link = None
        self.boot_seconds = None
        self._started_at = None
        self._console_before = 0  # the console's length at the last reset

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    # Life

    def start(self):
        """Starts QEMU without waiting for the guest."""
        if self.process:
            raise RigError(f"guest {self.name} is already started")
        self.rundir.mkdir(parents=True, exist_ok=True)
        if self.initrd is None:
            self.initrd = host.make_initrd(self.rundir / "initrd.cpio", self.release)
        if self.accel is None:
            wanted = self.machine.accel if self.accel_wanted == "auto" else self.accel_wanted
            self.accel = choose_accel(self.initrd)[0] if wanted == "auto" else wanted
        self._make_shm()
        control, qemu_control = socket.socketpair()
        monitor, qemu_monitor = socket.socketpair()
        with qemu_control, qemu_monitor, open(self.rundir / "qemu.log", "ab") as log:
            argv = self._argv(qemu_control.fileno(), qemu_monitor.fileno())
            (self.rundir / "qemu.cmd").write_text(" ".join(map(str, argv)) + "\n", encoding="utf-8")
            self._started_at = time.monotonic()
            self._console_before = len(self.console())
            # A session of its own, so that Ctrl-C reaches us and not QEMU.
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True,
                                            pass_fds=(qemu_control.fileno(), qemu_monitor.fileno(), *self.pass_fds))
        live_guests.add(self)
        self.link = Link(control, monitor)

    def wait_ready(self, timeout=BOOT_TIMEOUT_S):
        """Waits until PID 1 accepts commands; returns Ready(release, ncpu, boot_id)."""
        with self.link.cond:
            ready = self.link.wait(lambda: self.link.ready, limits.now() + timeout * self.patience)
            closed = self.link.closed
        if closed and self._crashed():
            raise GuestNotReady(self._describe("QEMU crashed before the guest was ready"))
        if closed:
            raise self._gone("before it was ready")
        if not ready:
            raise GuestNotReady(self._describe(f"is not ready after {timeout:.0f} s"))
        return ready

    def boot(self, timeout=BOOT_TIMEOUT_S, tries=1):
        """
        start() unless done, and wait_ready(). Resets once, and reports that, if the kernel stays silent. With `tries`,
        QEMU is started again if the guest does not become ready: an emulated kernel hangs in boot now and then.
        """
        for left in reversed(range(tries)):
            try:
                return self._boot_once(timeout)
            except GuestNotReady as error:
                if not left:
                    raise
                print(f"{str(error).splitlines()[0]}: starting it again", file=sys.stderr)
                self.kill()

    def _boot_once(self, timeout):
        if not self.process:
            self.start()
        silence = timeout / 3
        try:
            ready = self.wait_ready(silence)
        except GuestTimeout:
            if not self.alive():
                raise
            if self.console():
                ready = self.wait_ready(timeout - silence)
            else:
                self._report_silence(silence)
                ready = self.reset(timeout - silence)
        self.boot_seconds = time.monotonic() - self._started_at
        return ready

    def _report_silence(self, seconds):
        # Occasionally an emulated CPU hangs before a kernel's first line; no code under test has
        # run yet.
        print(f"guest {self.name}: silent for {seconds:.0f} s, restarting it", file=sys.stderr)

    def reset(self, timeout=BOOT_TIMEOUT_S):
        """Resets the guest and waits for the new boot. Resets once more, and reports that, if the kernel stays silent."""
        epoch, silence = self.epoch, timeout / 3
        self._console_before = len(self.console())
        self.qmp("system_reset")
        try:
            return self.wait_reboot(epoch, silence)
        except GuestTimeout:
            if not self.alive():
                raise
        if not self.console()[self._console_before :]:
            self._report_silence(silence)
            self.qmp("system_reset")
        return self.wait_reboot(epoch, timeout - silence)

    def wait_reboot(self, epoch, timeout=BOOT_TIMEOUT_S):
        """Waits until a boot later than `epoch` (read .epoch before causing the reboot) is ready."""
        deadline = limits.now() + timeout * self.patience
        with self.link.cond:
            again = self.link.wait(lambda: self.link.epoch > epoch, deadline)
            closed = self.link.closed
        if closed:
            raise self._gone("instead of restarting")
        if not again:
            raise GuestTimeout(self._describe(f"has not restarted within {timeout} s"))
        return self.wait_ready(max(deadline - limits.now(), 1))

    def stop(self):
        """Halts all vCPUs until cont()."""
        self.qmp("stop")

    def cont(self):
        self.qmp("cont")

    def restore(self, image):
        """Saves a stopped guest in a new image file as a snapshot, and loads that at once; it stays stopped.

        The ivshmem device must have master=on, else QEMU refuses. Its memory is part of the snapshot: nobody else may
        write to it meanwhile.
        """
        snapshot = {"tag": "now", "vmstate": "snapshots", "devices": ["snapshots"]}
        self._job("blockdev-create", options={"driver": "file", "filename": str(image), "size": 0})
        self.qmp("blockdev-add", driver="file", filename=str(image), **{"node-name": "image"})
        self._job("blockdev-create", options={"driver": "qcow2", "file": "image", "size": 1 << 20})
        self.qmp("blockdev-add", driver="qcow2", file="image", **{"node-name": "snapshots"})
        self._job("snapshot-save", **snapshot)
        self._job("snapshot-load", **snapshot)

    def quit(self, timeout=20):
        """Ends QEMU by its monitor."""
        if not self.process:
            return
        self.link.qmp_send("quit", None)
        try:
            limits.wait(self.process, timeout)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def kill(self):
        """Ends QEMU with SIGKILL if it runs. The guest may be booted again afterwards."""
        if not self.process:
            return
        self.process.kill()
        self.process.wait()
        self.link.join()
        self.process = None
        live_guests.discard(self)

    # In the guest

    def sh(self, command, timeout=COMMAND_TIMEOUT_S, text=True):
        """Runs a shell command; returns (status, output), with output as str, or as bytes without `text`.

        On a timeout the command is killed.
        """
        ident = self._send("RUN", command)
        try:
            answer = self.wait_answer(ident, "status", timeout, f"{command[:80]!r}")
        except GuestTimeout:
            self.link.send_raw(f"KILL {ident}")
            raise
        with self.link.cond:
            del self.link.answers[ident]
        return answer.status, answer.out.decode(errors="replace") if text else answer.out

    def run(self, command, timeout=COMMAND_TIMEOUT_S):
        """Runs a shell command that must succeed; returns its output."""
        status, output = self.sh(command, timeout)
        if status:
            raise CommandFailed(self._describe(f"{command!r} ended with {status}:\n{output.rstrip()}"))
        return output

    def read(self, path, timeout=COMMAND_TIMEOUT_S):
        """The bytes of a file, which pass packed: each byte takes the emulated port 3 us of CPU."""
        status, output = self.sh(f"gzip < {path}", timeout, text=False)
        if status:
            raise CommandFailed(self._describe(f"reading {path} ended with {status}:\n{output.decode(errors='replace')}"))
        return gzip.decompress(output)

    def bg(self, command, timeout=COMMAND_TIMEOUT_S):
        """Starts a shell command in the background; returns a Background."""
        ident = self._send("BG", command)
        return Background(self, ident, self.wait_answer(ident, "pid", timeout, f"the start of {command[:80]!r}").pid)

    def post(self, command):
        """Has a shell command started without waiting for that: a command that ends the guest may do so first."""
        self._send("RUN", command)

    def insmod(self, module, parameters=""):
        """Loads a module that the initramfs has in /mod."""
        self.run(f"insmod /mod/{module}.ko {parameters}")

    # On the host

    @property
    def epoch(self):
        """The number of the guest's restarts since QEMU started."""
        with self.link.cond:
            return self.link.epoch

    @property
    def boot_id(self):
        """The running boot's id, as /proc/sys/kernel/random/boot_id has it."""
        return self.wait_ready().boot_id

    @property
    def pid(self):
        """QEMU's process id."""
        return self.process.pid

    def alive(self):
        """Whether QEMU runs."""
        return bool(self.process) and self.process.poll() is None

    def qmp(self, command, timeout=QMP_TIMEOUT_S, **arguments):
        """Runs one QMP command; returns its result."""
        deadline = limits.now() + timeout
        with self.link.cond:
            self.link.wait(lambda: self.link.qmp_ready, deadline)
        ident = self.link.qmp_send(command, arguments)
        with self.link.cond:
            reply = self.link.wait(lambda: self.link.qmp_reply(ident), deadline)
        if not reply:
            raise self._gone(f"instead of answering {command}") if not self.alive() else GuestTimeout(
                self._describe(f"QEMU has not answered {command} within {timeout} s"))
        if "error" in reply:
            raise RigError(f"guest {self.name}: {command}: {reply['error'].get('desc')}")
        return reply["return"]

    def wait_event(self, name, timeout=QMP_TIMEOUT_S):
        """Waits for a QMP event of this name, which may have arrived before; returns the newest one."""
        def find():
            return next((event for event in reversed(self.link.events) if event["event"] == name), None)

        with self.link.cond:
            event = self.link.wait(find, limits.now() + timeout)
        if not event:
            raise GuestTimeout(self._describe(f"no event {name} within {timeout} s"))
        return event

    def vcpu_threads(self):
        """The host's thread ids of the vCPUs, by vCPU index."""
        return [cpu["thread-id"] for cpu in self.qmp("query-cpus-fast")]

    def console(self):
        """All console output since QEMU was first started."""
        try:
            return self.console_path.read_bytes().decode(errors="replace").replace("\r", "")
        except FileNotFoundError:
            return ""

    def check_dmesg(self, allow=()):
        """Raises DmesgError if the kernel complained, on the console (in any boot) or in dmesg.

        allow: regular expressions; complaints that match one of them are ignored.
        """
        text = self.console()
        if self.alive() and self._answers():
            text += self.run("if [ -w /sys/kernel/debug/kmemleak ]; then echo scan >/sys/kernel/debug/kmemleak; "
                            f"cat /sys/kernel/debug/kmemleak; fi; {self.show_dmesg}", timeout=COMMAND_TIMEOUT_S)
        allowed = [re.compile(pattern) for pattern in allow]
        bad = [line for line in dict.fromkeys(text.splitlines())
               if COMPLAINTS.search(line) and not any(pattern.search(line) for pattern in allowed)]
        if bad:
            raise DmesgError(self._describe("the kernel complained:\n" + "\n".join(bad)))

    # Implementation

    def wait_answer(self, ident, field, timeout, what):
        """Waits until `field` of a command's answer is set; returns the answer."""
        link = self.link
        with link.cond:
            answer = link.answers[ident]
            link.wait(lambda: getattr(answer, field) is not None or answer.error or link.epoch != answer.epoch,
                      limits.now() + timeout * self.patience)
            done, reset, closed = getattr(answer, field) is not None, link.epoch != answer.epoch, link.closed
        if done:
            return answer
        if answer.error:
            raise RigError(f"guest {self.name}: {what}: {answer.error}")
        if reset:
            raise GuestReset(self._describe(f"restarted during {what}"))
        if closed:
            raise self._gone(f"during {what}")
        raise GuestTimeout(self._describe(f"{what} took more than {timeout} s"))

    def _send(self, verb, command):
        if not self.process:
            raise GuestGone(f"guest {self.name} is not running")
        self.wait_ready()
        return self.link.send(verb, command)

    def _job(self, command, timeout=QMP_TIMEOUT_S, **arguments):
        """Runs a QMP command that is a job to its end."""
        deadline = limits.now() + timeout
        self.qmp(command, **{"job-id": "rig"}, **arguments)
        while True:
            (job,) = self.qmp("query-jobs")
            if job["status"] == "concluded":
                break
            if limits.now() > deadline:
                raise GuestTimeout(self._describe(f"QEMU has not done {command} within {timeout} s"))
            time.sleep(0.05)
        self.qmp("job-dismiss", id="rig")
        if "error" in job:
            raise RigError(f"guest {self.name}: {command}: {job['error']}")

    def _answers(self):
        """Whether a command can succeed: not in a guest that is stopped, hung or dead."""
        with self.link.cond:
            if not self.link.ready:
                return False
        if "end Kernel panic" in self.console()[self._console_before :]:
            return False
        if self.qmp("query-status")["status"] != "running":
            return False
        try:
            return self.sh(":", timeout=15)[0] == 0
        except GuestError:
            return False

    def _crashed(self):
        """Whether QEMU, which closed its sockets, ended by a fault of its own."""
        return limits.wait(self.process, 10) in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS)

    def _gone(self, when):
        log = (self.rundir / "qemu.log").read_text(encoding="utf-8", errors="replace")
        return GuestGone(self._describe(f"QEMU ended {when}" + (f"; it printed:\n{log.rstrip()}" if log else "")))

    def _describe(self, what, lines=30):
        """`what` with the end of the console, preceded by complaints that a long backtrace has pushed out of it."""
        console = self.console().splitlines()
        shown = [line for line in console[:-lines] if COMPLAINTS.search(line)][-5:]
        shown += (["..."] if shown else []) + console[-lines:]
        tail = "\n".join("    " + line for line in shown)
        return f"guest {self.name}: {what}\n  console ({self.console_path}):\n{tail or '    (nothing)'}"

    def _make_shm(self):
        if not self.shm:
            return
        size = _bytes(self.shm_size)
        fd = os.open(self.shm, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            have = os.fstat(fd).st_size
            if have == 0:
                os.ftruncate(fd, size)
                os.pwrite(fd, MARK, 0)
            elif have != size:
                raise RigError(f"{self.shm} has {have} bytes, guest {self.name} needs {size}")
        finally:
            os.close(fd)

    def _argv(self, control_fd, monitor_fd):
        machine = self.machine
        thread = self.thread
        if self.patches_code and not qemu.sees_patched_code(machine.qemu()):
            thread = "single"
        append = f"{machine.boot_args} hostname={self.name}"
        if self.accel == "tcg" and machine is machines.X86 and host.tsc_khz():
            # Else the guest measures its TSC, and on a busy host the result is occasionally wrong
            # by a factor of 20.
            append += f" tsc_early_khz={host.tsc_khz()}"
        argv = [host.need_program("setpriv", "util-linux"), "--pdeathsig", "KILL", "--", machine.qemu(),
                "-name", f"{self.name},debug-threads=on", "-nodefaults", "-no-user-config", "-display", "none",
                "-machine", machine.board,
                # With one thread for all vCPUs, TCG's atomics are plain accesses.
                "-accel", f"tcg,thread={thread}" if self.accel == "tcg" else self.accel,
                # Some KVMs offer arch-capabilities and then refuse them, which ends QEMU.
                "-cpu", self.cpu or (machine.cpu if self.accel == "tcg" else "host,arch-capabilities=off"),
                # With one possible CPU, TCG would turn atomics into plain accesses, wrong on shared
                # memory.
                "-smp", f"{self.smp},maxcpus={max(self.smp, 2)}", "-m", self.mem,
                "-chardev", f"file,id=console,path={self.console_path},append=on", "-serial", "chardev:console",
                "-chardev", f"socket,id=control,fd={control_fd}", *machine.control,
                "-chardev", f"socket,id=monitor,fd={monitor_fd}", "-mon", "chardev=monitor,mode=control",
                "-kernel", host.boot_image(self.kernel), "-initrd", self.initrd, "-append", f"{append} {self.append}"]
        if self.shm:
            argv += ["-object", f"memory-backend-file,id=shm,mem-path={self.shm},size={self.shm_size},share=on",
                     "-device", f"ivshmem-plain,memdev=shm{self.shm_options}"]
        return argv + list(self.qemu_args)


def _bytes(size):
    """"16M" in bytes."""
    units = {"K": 10, "M": 20, "G": 30}
    return int(size[:-1]) << units[size[-1]] if size[-1] in units else int(size)


def boot_all(guests, timeout=BOOT_TIMEOUT_S, tries=1):
    """Boots several guests concurrently."""
    for guest in guests:
        guest.start()
    for guest in guests:
        guest.boot(timeout, tries)


def choose_accel(initrd=None):
    """(accelerator, why): KVM if an ordinary kernel boots on it, else TCG.

    Tried once: the result is kept for the process, and in build/e2e/accel for this boot.
    TRACEBRAID_ACCEL=tcg or kvm in the environment overrides it.
    """
    global _chosen_accel
    if _chosen_accel is None:
        _chosen_accel = _accel_from_environment() or _accel_from_cache() or _try_accel(initrd)
    return _chosen_accel


def _accel_from_environment():
    wanted = os.environ.get("TRACEBRAID_ACCEL")
    return (wanted, f"{wanted}: set by TRACEBRAID_ACCEL") if wanted else None


def _accel_from_cache():
    try:
        lines = (host.RIG_DIR / "accel").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    if len(lines) == 3 and lines[2] == host.host_boot_id():
        return lines[0], lines[1]
    return None


def _try_accel(initrd):
    accel, why = _try_kvm(initrd)
    host.RIG_DIR.mkdir(parents=True, exist_ok=True)
    (host.RIG_DIR / "accel").write_text(f"{accel}\n{why}\n{host.host_boot_id()}\n", encoding="utf-8")
    return accel, why


def _try_kvm(initrd):
    """Boots an ordinary kernel: a /dev/kvm that opens may still run only kernels made for it."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg", "kvm: /dev/kvm is missing or not permitted, using tcg"
    available = [kernel for kernel in host.KERNEL_PACKAGES if _has_kernel(kernel)]
    if not available:
        host.find_kernel(host.OLDEST_KERNEL)
    rundir = host.RIG_DIR / f"accel-trial.{os.getpid()}"
    trial = Guest("accel-trial", kernel=available[0], initrd=initrd, accel="kvm", rundir=rundir,
                  append="loglevel=7 earlyprintk=ttyS0")
    verdict = "kvm: an ordinary kernel does not boot on it ({}), using tcg"
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, rundir, ignore_errors=True)
        undo.enter_context(trial)
        trial.start()
        # Polled, because QEMU writes the console to a file.
        silent_until = time.monotonic() + KVM_SILENCE_S
        while trial.alive() and not trial.console() and time.monotonic() < silent_until:
            time.sleep(0.05)
        if not trial.alive():
            return "tcg", verdict.format("QEMU ended")
        if not trial.console():
            return "tcg", verdict.format(f"no output in {KVM_SILENCE_S} s")
        try:
            trial.wait_ready(KVM_BOOT_S)
        except GuestError:
            return "tcg", verdict.format(f"not ready in {KVM_BOOT_S} s")
    return "kvm", "kvm: an ordinary kernel boots on it"


def _has_kernel(kernel):
    try:
        return bool(host.find_kernel(kernel))
    except RigError:
        return False

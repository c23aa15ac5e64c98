# SPDX-License-Identifier: GPL-2.0-or-later
"""A host with real KVM in an emulated machine, with guests of its own.

The host is a Guest whose emulated CPU has SVM; the agent and the packaged QEMU run in it, on KVM. An InnerGuest is
run by that QEMU. Its console, its control port and its monitor use virtio ports of the host, so that a case
controls it like any other Guest.
"""

import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import time

import host
import limits
import qemu
import rig
from errors import COMPLAINTS, GuestGone, GuestTimeout, RigError
from link import Link

PORTS = ("control", "monitor", "console")  # of each inner guest
MEM, INNER_MEM = "1536M", "192M"

# Without XSAVE: the emulator's is incomplete, and the inner kernel warns about it.
CPU = "EPYC,+svm,-xsave"

# Loaded in this order. The virtio ones are for the ports.
VIRTIO_MODULES = tuple(f"drivers/virtio/{name}" for name in (
    "virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci"))
MODULES = (*VIRTIO_MODULES, "drivers/char/virtio_console",
           "virt/lib/irqbypass", "drivers/crypto/ccp/ccp", "arch/x86/kvm/kvm", "arch/x86/kvm/kvm-amd")

# The files that QEMU's "pc" needs to boot a kernel.
FIRMWARE = ("kvmvapic.bin", "linuxboot_dma.bin", "pvh.bin", "bios-256k.bin")

# An exit takes tens of microseconds, and all is emulated, so guests run without what they do not
# need:
#   clocksource=tsc                KVM's clock is the same counter read with more instructions
#   i8042.noaux, 8250.nr_uarts=2   no probing for absent devices
INNER_ARGS = "nokaslr clocksource=tsc i8042.noaux 8250.nr_uarts=2 apparmor=0 audit=0"
# A kernel with TSC adjustment undoes a case's step of the counter.
INNER_CPU = "host,-tsc-adjust"
INNER_MACHINE = "pc,usb=off,smm=off,vmport=off,hpet=off"

SHARED, KERNEL, INITRD, FIRMWARE_DIR = "/dev/shm", "/inner/kernel", "/inner/initrd", "/inner/firmware"
FILES_PORT = 1
CHECK_S = 5  # how often to check that the host still runs


def libraries(program):
    """The shared libraries of a dynamically linked program, and its loader, which finds them."""
    headers = subprocess.run(["readelf", "-lW", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    loader = re.search(r"program interpreter: (/[^]]*)", headers)[1]
    done = subprocess.run([loader, "--list", program], stdout=subprocess.PIPE, text=True, check=True)
    return [word for line in done.stdout.splitlines() for word in line.split() if word.startswith("/")]


def put(tree, path, source):
    to = tree / path.lstrip("/")
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to)  # the target of a link
    shutil.copymode(source, to)


def _make_tree(tree, programs, kernel, initrd):
    for path, program in programs.items():
        put(tree, path, program)
        for library in libraries(program):
            put(tree, library, library)
    for name in FIRMWARE:
        put(tree, f"{FIRMWARE_DIR}/{name}", qemu.firmware(name))
    put(tree, KERNEL, kernel)
    put(tree, INITRD, initrd)


def make_initrd(ctx, modules, programs, inner_initrd):
    """An initramfs for the host: the usual one, followed by one with programs, inner kernel and initramfs."""
    modules = filter(None, map(ctx.kernel_module, modules))
    initrd = host.make_initrd(ctx.dir / "host.cpio", ctx.krel, modules)
    tree = ctx.dir / "tree"
    programs = {"/bin/qemu": qemu.program(), "/bin/tracebraid": ctx.agent_path, **programs}
    _make_tree(tree, programs, host.boot_image(host.find_kernel(ctx.kernel)), inner_initrd)
    names = b"\0".join(str(path.relative_to(tree)).encode() for path in sorted(tree.rglob("*")))
    with open(initrd, "ab") as to:
        to.write(b"\0" * (-to.tell() % 4))
        to.flush()
        subprocess.run(["cpio", "--quiet", "--null", "-o", "-H", "newc", "-R", "0:0"], cwd=tree, input=names, stdout=to,
                       check=True)
    shutil.rmtree(tree)
    return initrd


def load_modules(modules):
    """The command that loads those of a kernel's modules that are not built into it."""
    return "".join(f"[ ! -e /mod/{name}.ko ] || insmod /mod/{name}.ko || exit 1\n" for name in
                   (pathlib.Path(module).name for module in modules))


class _Watched(rig.Guest):
    """A guest whose answers are awaited only while `watched`, the host, has not died."""

    watched = None

    def wait_answer(self, ident, field, timeout, what):
        deadline = limits.now() + timeout
        while True:
            left = deadline - limits.now()
            try:
                return super().wait_answer(ident, field, max(min(left, CHECK_S), 0), what)
            except GuestTimeout:
                if "Kernel panic" in self.watched.console():
                    raise GuestGone(self.watched._describe(f"died during {what} in {self.name}")) from None
                if left <= CHECK_S:
                    raise GuestTimeout(self._describe(f"{what} took more than {timeout} s")) from None


class KvmHost(_Watched):
    """The emulated machine with KVM; `inner` are the names of its guests."""

    # Repeated faults with a wrong GS: rare, and no program in the host can cause them.
    emulator_slips = rf"{COMPLAINTS.pattern}|{rig.Guest.emulator_slips}|stack guard page was hit|corrupted stack end"

    def __init__(self, ctx, inner, inner_initrd, modules=(), programs=None):
        self.inner = list(inner)
        self.modules = [*MODULES, *modules]
        self.ends = {}  # our end of the socket of each port, by (guest, port)
        self.files = ctx.dir / "files"
        theirs = []
        args = ["-device", "virtio-serial-pci", "-chardev", f"file,id=files,path={self.files}",
                "-device", f"virtserialport,chardev=files,nr={FILES_PORT}"]
        for name in self.inner:
            (ctx.dir / name).mkdir(parents=True, exist_ok=True)
            for port in PORTS:
                if port == "console":
                    chardev = f"file,path={ctx.dir / name / 'console.log'}"
                else:
                    self.ends[name, port], end = socket.socketpair()
                    theirs.append(end)
                    chardev = f"socket,fd={end.fileno()}"
                args += ["-chardev", f"{chardev},id={name}-{port}",
                         "-device", f"virtserialport,chardev={name}-{port},nr={self.port_number(name, port)}"]
        self._theirs = theirs
        self.watched = self
        initrd = make_initrd(ctx, self.modules, programs or {}, inner_initrd)
        super().__init__("host", kernel=ctx.kernel, initrd=initrd, rundir=ctx.dir / "host",
                         accel="tcg", cpu=CPU, mem=MEM, append="nokaslr", qemu_args=args,
                         pass_fds=[end.fileno() for end in theirs])

    def port_number(self, name, port):
        """The number of a guest's port on the host's virtio serial device."""
        return FILES_PORT + 1 + self.inner.index(name) * len(PORTS) + PORTS.index(port)

    def start(self):
        super().start()
        for end in self._theirs:
            end.close()

    def prepare(self):
        """Loads KVM, and mounts the usual file systems."""
        self.run(load_modules(self.modules))
        self.run(f"mkdir -p {SHARED} && mount -t tmpfs tmpfs {SHARED}")

    def fetch(self, path, to):
        """Copies a file of the host out of it."""
        began = self.files.stat().st_size
        self.run(f"cat {path} > /dev/vport0p{FILES_PORT}", timeout=120)
        size = int(self.run(f"wc -c < {path}"))
        with open(self.files, "rb") as source, open(to, "wb") as target:
            source.seek(began)
            data = source.read()
            target.write(data)
        if len(data) != size:
            raise RigError(f"{path}: {len(data)} of {size} bytes were copied out of the host")


class InnerGuest(_Watched):
    """A guest of a KvmHost. Its shared memory is a file in the host, named after the guest."""

    # The emulated SVM occasionally ends a guest with a triple fault, or loses an interrupt that
    # would wake it; a kernel that fails by itself prints why.
    falls_silently = True

    # A byte through its serial port takes a millisecond: only lines that look like complaints are
    # read.
    show_dmesg = ("dmesg | grep -iE 'warning|bug|oops|panic|protection|unable|stall|starved|lockup|blocked|corrupt|"
                  "bad page' || :")

    def __init__(self, ctx, outer, name, qemu_args=()):
        super().__init__(name, kernel=ctx.kernel, rundir=ctx.dir / name, accel="kvm",
                         mem=INNER_MEM, append=INNER_ARGS, qemu_args=qemu_args)
        self.outer = self.watched = outer

    def start(self):
        self._started_at = time.monotonic()
        self.outer.run(f"[ -e {SHARED}/{self.name} ] || "
                       f"tracebraid create --size {self.shm_size} {SHARED}/{self.name}")
        self.process = self.outer.bg(f"exec {shlex.join(self._inner_argv())}")
        self.link = Link(self.outer.ends[self.name, "control"], self.outer.ends[self.name, "monitor"])

    def boot(self, timeout=rig.BOOT_TIMEOUT_S):
        """Leaves a silent guest to the runner: its host is as likely to have hung."""
        if not self.process:
            self.start()
        ready = self.wait_ready(timeout / 2)
        self.boot_seconds = time.monotonic() - self._started_at
        return ready

    def alive(self):
        return bool(self.process) and self.outer.alive() and self.process.status is None

    def kill(self):
        """Does nothing: it ends with its host."""
        self.process = None

    def _gone(self, when):
        return GuestGone(self._describe(f"QEMU in the host, or the host, ended {when}"))

    def _inner_argv(self):
        argv = ["qemu", "-L", FIRMWARE_DIR, "-name", self.name, "-nodefaults", "-no-user-config", "-display", "none",
                "-machine", INNER_MACHINE, "-accel", "kvm", "-cpu", INNER_CPU, "-smp", str(self.smp), "-m", self.mem,
                "-kernel", KERNEL, "-initrd", INITRD,
                "-append", f"{rig.BOOT_ARGS} hostname={self.name} {self.append}",
                "-object", f"memory-backend-file,id=shm,mem-path={SHARED}/{self.name},size={self.shm_size},share=on",
                "-device", "ivshmem-plain,memdev=shm"]
        for port in PORTS:
            number = self.outer.port_number(self.name, port)
            # A port can be opened once: "pipe" uses both directions with one open.
            argv += ["-chardev", f"pipe,id={port},path=/dev/vport0p{number}"]
        return argv + ["-serial", "chardev:console", "-serial", "chardev:control",
                       "-mon", "chardev=monitor,mode=control", *self.qemu_args]

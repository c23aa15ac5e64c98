# SPDX-License-Identifier: GPL-2.0-or-later
"""A case's own libvirtd in its own namespaces (class Virt), and its domains as guests (class Domain).

Processes, /dev/shm and libvirt's folders are separate from the host's: a case does not see the host's domains and
regions, and everything of its own is gone when it ends.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import host
import qemu
from errors import RigError
from link import Link
from proc import Proc
from rig import BOOT_ARGS, Guest

FOLDERS = {"run": "/run/libvirt", "lib": "/var/lib/libvirt", "cache": "/var/cache/libvirt", "log": "/var/log/libvirt",
           "etc": "/etc/libvirt", "shm": "/dev/shm"}

# The first process there: PID 1 of its namespace, whose end kills all others. It reaps orphans.
FIRST = """
mount -t tmpfs tmpfs /run
# libvirtd asks QEMU what it can do with KVM, too, which no domain here uses and which may hang in
# an emulated KVM. It asks again for each call while QEMU's user may open /dev/kvm, which does not
# work: so only root may.
if [ -e /dev/kvm ]; then
    : > /run/kvm
    chmod 600 /run/kvm
    mount --bind /run/kvm /dev/kvm
fi
for one in %(folders)s; do
    mkdir -p "${one#*:}"
    mount --bind %(dir)s/"${one%%%%:*}" "${one#*:}"
done
libvirtd -f %(dir)s/etc/libvirtd.conf -p %(dir)s/libvirtd.pid -d || exit
echo up
while :; do sleep 1; done
"""

# A guest's QEMU runs as libvirt's own user; security drivers and cgroups are not available on every
# machine.
QEMU_CONF = """
security_driver = "none"
cgroup_controllers = []
namespaces = []
dynamic_ownership = 0
stdio_handler = "file"
"""

DOMAIN = """
<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{name}</name>
  <memory unit='M'>{mem}</memory>
  <vcpu>2</vcpu>
  <os><type arch='x86_64' machine='{machine}'>hvm</type>
    <kernel>{kernel}</kernel><initrd>{initrd}</initrd><cmdline>{append}</cmdline></os>
  <features><acpi/></features>
  <cpu mode='maximum'/>
  <on_crash>preserve</on_crash>
  <devices>
    <emulator>{emulator}</emulator>
    <serial type='file'><source path='{console}' append='on'/><target port='0'/></serial>
    <serial type='unix'><source mode='connect' path='{control}'/><target port='1'/></serial>
    {devices}
  </devices>
  <qemu:commandline>
    <qemu:arg value='-chardev'/><qemu:arg value='socket,id=rig,path={monitor}'/>
    <qemu:arg value='-mon'/><qemu:arg value='chardev=rig,mode=control'/>
  </qemu:commandline>
</domain>
"""

BRIDGE = """
    <controller type='pci' model='pcie-root'/>
    <controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-to-pci-bridge'/>
"""

STRANGER = "<shmem name='looking-glass'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>"


def first_child(pid):
    """The oldest running child of a process."""
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0])


class InsideProc(Proc):
    """A program in the namespaces; signals go to it, not to its parent nsenter."""

    def send_signal(self, number):
        os.kill(first_child(self.pid), number)

    def helper(self):
        """The helper process that an agent has started."""
        return first_child(first_child(self.pid))

    def kill_helper(self):
        """Kills that helper process."""
        os.kill(self.helper(), signal.SIGKILL)


class Virt:
    """A libvirtd; passes all other calls on to the case's context."""

    def __init__(self, ctx):
        if os.geteuid():
            ctx.skip("namespaces and libvirtd need root")
        host.need_program("libvirtd", "libvirt-daemon-system")
        host.need_program("virsh", "libvirt-clients")
        self._ctx = ctx
        # QEMU's user needs access, which it may not have to the build's folder.
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="tracebraid-virt-"))
        ctx.defer(shutil.rmtree, self.root, ignore_errors=True)
        self.root.chmod(0o755)
        for name in FOLDERS:
            (self.root / name).mkdir()
        (self.root / "shm").chmod(0o1777)
        (self.root / "etc/qemu").mkdir()
        (self.root / "etc/qemu.conf").write_text(QEMU_CONF, encoding="ascii")
        (self.root / "etc/libvirtd.conf").write_text('auth_unix_rw = "none"\n', encoding="ascii")
        folders = " ".join(f"{name}:{path}" for name, path in FOLDERS.items())
        self._first = ctx.start("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec",
                                FIRST % {"folders": folders, "dir": self.root}, name="libvirtd")
        self._first.wait_line("^up$", timeout=60)
        self.first = str(first_child(self._first.pid))
        ctx.wait_until(lambda: (self.root / "run/libvirt-sock").exists(), "libvirtd's socket")

    def __getattr__(self, name):
        return getattr(self._ctx, name)

    def inside(self, *argv):
        """argv wrapped so that it runs in the namespaces."""
        return "nsenter", "-t", self.first, "-m", "-p", "--", *argv

    def agent(self, *arguments, name=None):
        """Starts an agent."""
        return self._ctx.start(*self.inside(self.agent_path, *arguments), name=name, kind=InsideProc)

    def run_agent(self, *arguments, **options):
        """Runs an agent to its end."""
        return self._ctx.run(*self.inside(self.agent_path, *arguments), **options)

    def virsh(self, *arguments, **options):
        """Runs virsh, which must succeed unless `status` says otherwise; returns its output."""
        try:
            return self._ctx.run(*self.inside("virsh", "--quiet", *arguments), **options).stdout
        except subprocess.TimeoutExpired as late:
            # Here, since they are gone once the case has ended; the youngest first.
            shown = self._ctx.run(*self.inside("ps", "-eo", "pid,ppid,stat,wchan:32,time,args", "--sort=-pid"), status=None).stdout
            shown += self._ctx.run(*self.inside("ps", "-eLo", "pid,tid,comm,wchan:32", "--sort=-tid"), status=None).stdout
            raise RigError(f"{late}; its processes:\n{shown}") from late

    def signal_libvirtd(self, name):
        """Sends libvirtd a signal; returns its pid."""
        pid = (self.root / "libvirtd.pid").read_text(encoding="ascii").strip()
        self._ctx.run(*self.inside("kill", f"-{name}", pid))
        return pid

    def restart_libvirtd(self):
        """Stops libvirtd, but not its domains, and restarts it."""
        pid = self.signal_libvirtd("TERM")
        self._ctx.wait_until(lambda: self._ctx.run(*self.inside("kill", "-0", pid), status=None).returncode,
                             "the end of libvirtd")
        self._ctx.run(*self.inside("libvirtd", "-f", self.root / "etc/libvirtd.conf", "-p", self.root / "libvirtd.pid",
                                   "-d"))

    def crash(self, name):
        """Kills a domain's QEMU."""
        self._ctx.run(*self.inside("kill", "-KILL", (self.root / f"run/qemu/{name}.pid").read_text(encoding="ascii")))

    def domain(self, name="g1", machine="pc", devices=""):
        """A Domain, defined but not started."""
        initrd = self._ctx.dir / "initrd.cpio"
        if not initrd.exists():
            self._ctx.initrd()
        return self._ctx.adopt(Domain(self, name, machine, devices, kernel=self._ctx.kernel, initrd=initrd,
                                      rundir=self._ctx.dir / name))


class _Process:
    """A domain's QEMU, which is a child of libvirt, not ours."""

    def __init__(self, domain):
        self.domain = domain

    def poll(self):
        """None while it runs."""
        return 0 if self.domain.link.closed else None

    def kill(self):
        """Destroys the domain, as a power cut does."""
        self.domain.virt.virsh("destroy", self.domain.name, status=None)

    def wait(self, _timeout=None):
        """Waits for the link's thread, which ends when QEMU closes its sockets."""
        self.domain.link.join()


class Domain(Guest):
    """A guest that libvirt runs."""

    def __init__(self, virt, name, machine, devices, **options):
        super().__init__(name, **options)
        self.accel = "tcg"  # a guest that libvirt starts chooses none
        self.virt = virt
        self.rundir.mkdir(parents=True, exist_ok=True)
        self.console_path = virt.root / f"{name}.console"
        self.console_path.touch()
        self.console_path.chmod(0o666)
        self._listeners = []
        for what in ("control", "monitor"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(virt.root / f"{name}.{what}"))
            (virt.root / f"{name}.{what}").chmod(0o666)
            listener.listen()
            listener.settimeout(60)
            self._listeners.append(listener)
        self._define(machine, devices)

    def _define(self, machine, devices):
        root, image = self.virt.root, host.boot_image(self.kernel)
        for source, to in ((image, root / "kernel"), (self.initrd, root / "initrd")):
            if not to.exists():
                shutil.copyfile(source, to)
        append = f"{BOOT_ARGS} hostname={self.name}"
        if host.tsc_khz():
            append += f" tsc_early_khz={host.tsc_khz()}"
        xml = self.rundir / "domain.xml"
        emulator = qemu.of_machine()  # the one that libvirt was packaged with, and whose files its user can read
        xml.write_text(DOMAIN.format(name=self.name, mem=self.mem[:-1], machine=machine, kernel=root / "kernel",
                                     initrd=root / "initrd", append=append, emulator=emulator,
                                     console=self.console_path, control=root / f"{self.name}.control",
                                     monitor=root / f"{self.name}.monitor", devices=devices), encoding="utf-8")
        self.virt.virsh("define", xml)
        log = self.rundir / "qemu.log"
        log.symlink_to(root / f"log/qemu/{self.name}.log")

    def start(self):
        """Starts it by libvirt without waiting for the guest."""
        if self.process:
            raise RigError(f"domain {self.name} is started already")
        self._started_at = time.monotonic()
        self._console_before = len(self.console())
        self.virt.virsh("start", self.name)
        self.link = Link(*(listener.accept()[0] for listener in self._listeners))
        self.process = _Process(self)

    def gone(self):
        """Cleans up after its end, whatever the cause: it may be started again."""
        self.process.wait()
        self.process = None

    def _crashed(self):
        self.virt.wait_until(lambda: "running" not in self.virt.virsh("domstate", self.name), "libvirt to notice QEMU's end")
        return "crashed" in self.virt.virsh("domstate", "--reason", self.name)

    @property
    def region(self):
        """The path of its region's file in the namespaces, as seen from outside."""
        return self.virt.root / "shm" / f"tracebraid-{self.name}"

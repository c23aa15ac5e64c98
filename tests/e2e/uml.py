# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that is user-mode Linux: no QEMU, one CPU, and virtio devices whose backends must be started first."""

import os
import signal
import socket
import subprocess
import time

import host
import rig
from errors import RigError
from link import Link

MEM = "256M"
# Without emulation a verbose console costs little: it prints everything from the start.
ARGS = "loglevel=7 panic=-1 oops=panic panic_on_warn=1"


class UmlGuest(rig.Guest):
    """One user-mode kernel; `devices` are (socket, virtio id)."""

    # Its own fork() walks a process's memory without the required lock, which lockdep reports once.
    allow = (r"suspicious RCU usage",)

    def __init__(self, ctx, name, devices=()):
        super().__init__(name, kernel=host.UML_KERNEL, rundir=ctx.dir / name, initrd=ctx.initrd(), accel="uml", smp=1,
                         mem=MEM)
        self.devices = devices

    def start(self):
        if self.process:
            raise RigError(f"guest {self.name} is started already")
        self.rundir.mkdir(parents=True, exist_ok=True)
        control, theirs = socket.socketpair()
        monitor, unused = socket.socketpair()
        unused.close()
        with theirs, open(self.console_path, "ab") as console, open(self.rundir / "qemu.log", "ab") as log:
            self._started_at = time.monotonic()
            self._console_before = len(self.console())
            self.process = subprocess.Popen(self._uml_argv(theirs.fileno()), stdin=subprocess.DEVNULL, stdout=console,
                                            stderr=log, start_new_session=True, pass_fds=(theirs.fileno(),))
        rig.live_guests.add(self)
        self.link = Link(control, monitor)

    def kill(self):
        """Ends it and all its helpers, which are in its session."""
        if not self.process:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        super().kill()

    def qmp(self, command, timeout=rig.QMP_TIMEOUT_S, **arguments):
        if command == "query-status":
            return {"status": "running"}
        raise RigError(f"guest {self.name}: there is no QEMU to ask for {command}")

    def check_dmesg(self, allow=()):
        super().check_dmesg((*self.allow, *allow))

    def _uml_argv(self, control_fd):
        # Its "physical" memory must be at a fixed address, hence setarch.
        argv = [host.need_program("setpriv", "util-linux"), "--pdeathsig", "KILL", "--", "setarch", "-R",
                self.kernel.resolve(), f"mem={self.mem}", f"initrd={self.initrd}", f"uml_dir={self.rundir}/", f"hostname={self.name}",
                "con=null", "con0=null,fd:1", "ssl=none", f"ssl1=fd:{control_fd},fd:{control_fd}", "console=tty0",
                *ARGS.split()]
        return argv + [f"virtio_uml.device={path}:{number}" for path, number in self.devices]

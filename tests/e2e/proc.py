# SPDX-License-Identifier: GPL-2.0-or-later
"""A program on the host, such as the agent, whose output a test reads line by line."""

import pathlib
import re
import signal
import subprocess
import threading

import limits
from errors import RigError


class ProcError(RigError):
    """A program did not do as expected; the message ends with its last output."""


class Proc:
    """A started program; stdout and stderr go to one log. It is killed with the test's process."""

    def __init__(self, argv, log, env=None, cwd=None):
        self.argv = [str(word) for word in argv]
        self.log = pathlib.Path(log)
        self._cond = threading.Condition()
        self._lines = []
        self._next = 0  # the first line that wait_line has not yet examined
        self._closed = False
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *self.argv], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, cwd=cwd,
                                        start_new_session=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def pid(self):
        """Its process id."""
        return self.process.pid

    @property
    def rc(self):
        """Its exit status (negative: the signal's number); None while it runs."""
        return self.process.poll()

    def output(self):
        """All its output so far."""
        with self._cond:
            return "".join(self._lines)

    def wait_line(self, pattern, timeout=30):
        """Waits for a line that matches `pattern`, after those that earlier calls examined; returns the match."""
        deadline = limits.now() + timeout
        search = re.compile(pattern).search
        with self._cond:
            while True:
                while self._next < len(self._lines):
                    match = search(self._lines[self._next])
                    self._next += 1
                    if match:
                        return match
                left = deadline - limits.now()
                if self._closed or left <= 0:
                    break
                self._cond.wait(max(left, limits.LEAST_S))
            closed = self._closed
        raise ProcError(self._describe(f"ended without a line like {pattern!r}" if closed else
                                   f"has printed no line like {pattern!r} in {timeout} s"))

    def wait(self, timeout=60):
        """Waits for its end; returns its exit status."""
        try:
            status = limits.wait(self.process, timeout)
        except subprocess.TimeoutExpired:
            raise ProcError(self._describe(f"is still running after {timeout} s")) from None
        self._reader.join(5)  # children that are still running may hold the pipe
        return status

    def send_signal(self, number):
        """Sends it a signal."""
        self.process.send_signal(number)

    def stop(self, number=signal.SIGINT, timeout=30):
        """Sends a signal that requests an orderly end, and waits for it; returns its exit status."""
        self.send_signal(number)
        return self.wait(timeout)

    def kill(self):
        """Sends SIGKILL if it runs."""
        self.process.kill()
        self.process.wait()
        self._reader.join(5)

    def _read(self):
        with open(self.log, "ab", buffering=0) as log:
            for line in self.process.stdout:
                log.write(line)
                with self._cond:
                    self._lines.append(line.decode(errors="replace"))
                    self._cond.notify_all()
        with self._cond:
            self._closed = True
            self._cond.notify_all()

    def _describe(self, what, lines=20):
        tail = "".join("    " + line for line in self.output().splitlines(keepends=True)[-lines:])
        return f"{' '.join(self.argv)}: {what}\n  output ({self.log}):\n{tail or '    (nothing)'}"

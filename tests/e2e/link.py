# SPDX-License-Identifier: GPL-2.0-or-later
"""One thread per guest that reads both of its channels: the control port of its PID 1, and QEMU's monitor (QMP)."""

import collections
import json
import re
import selectors
import socket
import threading

import limits

Ready = collections.namedtuple("Ready", "release ncpu boot_id")

# Searched, not matched: bytes of the previous boot may precede it.
_READY = re.compile(rb"READY (\S+) (\d+) (\S+)$")


class Answer:
    """Output received for one command so far."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.out = b""
        self.status = None  # from RC or END
        self.pid = None
        self.error = None


class _Parser:
    """Parses the control port's bytes, and calls `line(bytes)` and `output(id, bytes)`."""

    def __init__(self, line, output):
        self.line, self.output = line, output
        self.reset()

    def reset(self):
        self.buf = bytearray()
        self.want = None  # (id, length) while output is being received

    def feed(self, data):
        self.buf += data
        while True:
            if self.want:
                ident, length = self.want
                if len(self.buf) < length + 1:  # the newline after the bytes belongs to the frame
                    return
                self.output(ident, bytes(self.buf[:length]))
                del self.buf[: length + 1]
                self.want = None
            end = self.buf.find(b"\n")
            if end < 0:
                return
            text = bytes(self.buf[:end])
            del self.buf[: end + 1]
            words = text.split(b" ")
            if words[0] == b"OUT" and len(words) == 3 and words[2].isdigit():
                self.want = (words[1].decode(errors="replace"), int(words[2]))
            else:
                self.line(text)


class Link:
    """The known state of a guest. Fields are read with `cond` held; every change notifies it.

    `epoch` counts the guest's starts: a reset increments it and clears `ready`, which ends all waits for the
    previous boot.
    """

    def __init__(self, control, monitor):
        self.cond = threading.Condition()
        self.control, self.monitor = control, monitor
        self.epoch = 0
        self.ready = None
        self.closed = False
        self.events = []
        self.answers = {}
        self.qmp_ready = False
        self._qmp_replies = {}
        self._qmp_buf = b""
        self._serial = 0
        self._parser = _Parser(self._on_line, self._on_output)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    # Interface

    def send(self, verb, command):
        """Sends a command to PID 1 and returns its id; its output is collected in answers[id]."""
        with self.cond:
            self._serial += 1
            # PID 1 refuses ids of another boot: a command that a dead guest never read must not run
            # in the next.
            ident = f"{self.ready.boot_id[:8]}-{self._serial}"
            self.answers[ident] = Answer(self.epoch)
        self.send_raw(f"{verb} {ident} {command}")
        return ident

    def send_raw(self, text):
        """Sends a newline first, to end a partial line that an earlier boot was sent."""
        try:
            self.control.sendall(b"\n" + text.replace("\n", "\x1e").encode() + b"\n")
        except OSError:
            pass  # QEMU is gone; all waits end with an error

    def qmp_send(self, command, arguments):
        with self.cond:
            self._serial += 1
            ident = self._serial
        message = {"execute": command, "id": ident}
        if arguments:
            message["arguments"] = arguments
        try:
            self.monitor.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass
        return ident

    def qmp_reply(self, ident):
        """The reply if it has arrived, else None. Must hold cond."""
        return self._qmp_replies.pop(ident, None)

    def wait(self, predicate, deadline):
        """Waits until predicate() (called with cond held) is true, the link is closed, or limits.now() is `deadline`.

        Returns the predicate's value.

        Must hold cond.
        """
        while True:
            value = predicate()
            left = deadline - limits.now()
            if value or self.closed or left <= 0:
                return value
            self.cond.wait(max(left, limits.LEAST_S))

    def join(self):
        """Joins the thread, which ends when QEMU closes both sockets: call this after QEMU's end."""
        self._thread.join(10)
        self.control.close()
        self.monitor.close()

    # The thread

    def _run(self):
        sel = selectors.DefaultSelector()
        sel.register(self.control, selectors.EVENT_READ, self._read_control)
        sel.register(self.monitor, selectors.EVENT_READ, self._read_monitor)
        while sel.get_map():
            for key, _ in sel.select():
                with self.cond:
                    if not key.data():
                        sel.unregister(key.fileobj)
                    self.cond.notify_all()
        with self.cond:
            self.closed = True
            self.cond.notify_all()

    @staticmethod
    def _receive(sock):
        """The bytes received; b"" at the end; None if there are none now."""
        try:
            return sock.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _read_control(self):
        data = self._receive(self.control)
        if data:
            self._parser.feed(data)
        return data != b""

    def _on_line(self, text):
        ready = _READY.search(text)
        if ready:
            self.ready = Ready(ready[1].decode(), int(ready[2]), ready[3].decode())
            return
        words = text.decode(errors="replace").split(" ", 2)
        answer = self.answers.get(words[1]) if len(words) == 3 else None
        if not answer:
            return  # of a previous boot, or noise while the serial port is set up
        if words[0] == "ERR":
            answer.error = words[2]
        elif not words[2].isdigit():
            return
        elif words[0] in ("RC", "END"):
            answer.status = int(words[2])
        elif words[0] == "PID":
            answer.pid = int(words[2])

    def _on_output(self, ident, data):
        if ident in self.answers:
            self.answers[ident].out = data

    def _read_monitor(self):
        data = self._receive(self.monitor)
        if data is None:
            return True
        *lines, self._qmp_buf = (self._qmp_buf + data).split(b"\n")
        for line in filter(None, map(bytes.strip, lines)):
            self._on_message(json.loads(line))
        return data != b""

    def _on_message(self, message):
        if "QMP" in message:
            self.monitor.sendall(b'{"execute":"qmp_capabilities"}\n')
        elif "event" in message:
            self.events.append(message)
            if message["event"] == "RESET":
                self._on_reset()
        elif "id" in message:
            self._qmp_replies[message["id"]] = message
        else:
            self.qmp_ready = True  # the answer to qmp_capabilities

    def _on_reset(self):
        """All output of the previous boot is in the socket by now: read it before the new epoch."""
        while self._read_control_once():
            pass
        self._parser.reset()
        self.ready = None
        self.epoch += 1

    def _read_control_once(self):
        data = self._receive(self.control)
        if data:
            self._parser.feed(data)
        return bool(data)

# SPDX-License-Identifier: GPL-2.0-or-later
"""Acts as the server of an ivshmem-doorbell device, for cases that check the driver without an agent."""

import mmap
import os
import socket
import struct
import threading

from directory import MARK, SECTIONS_AT

MAILBOX = 0  # offset of the superblock's section table
COMMAND_SEQ_AT, WAKE_SEQ_AT, WAKE_PERMILLE_AT, WAKE_DOORBELL_AT, DONE_SEQ_AT = 0, 164, 168, 172, 1024
GUEST, AGENT = 0, 1  # peers


def device(path):
    """QEMU's arguments for a device whose server listens at `path`."""
    return ("-chardev", f"socket,id=doorbell,path={path}", "-device", "ivshmem-doorbell,chardev=doorbell,vectors=1")


class Server:
    """Passes memory and an eventfd for each direction to one QEMU; then acts as the host's side of the mailbox."""

    def __init__(self, path, shm, size):
        self.shm = os.open(shm, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self.shm, size)
        os.pwrite(self.shm, MARK, 0)
        self.memory = mmap.mmap(self.shm, size)
        self.rung = os.eventfd(0, os.EFD_NONBLOCK)
        self.guests = os.eventfd(0, os.EFD_NONBLOCK)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._peer = None
        # QEMU blocks until its device has the memory.
        threading.Thread(target=self._greet, daemon=True).start()

    def close(self):
        for fd in (self.shm, self.rung, self.guests):
            os.close(fd)
        self._listener.close()
        if self._peer:
            self._peer.close()
        self.memory.close()

    def _greet(self):
        self._peer, _ = self._listener.accept()
        for number, fds in ((0, []), (GUEST, []), (-1, [self.shm]), (AGENT, [self.rung]), (GUEST, [self.guests])):
            socket.send_fds(self._peer, [struct.pack("<q", number)], fds)

    def _at(self, at):
        return struct.unpack_from("<Q", self.memory, SECTIONS_AT + 16 * MAILBOX)[0] + at

    def _get(self, at):
        return struct.unpack_from("<I", self.memory, self._at(at))[0]

    def _put(self, at, value):
        struct.pack_into("<I", self.memory, self._at(at), value)

    def ask(self, permille):
        """Requests another wake-up."""
        self._put(WAKE_PERMILLE_AT, permille)
        self._put(WAKE_DOORBELL_AT, AGENT << 16)
        self._put(WAKE_SEQ_AT, self._get(WAKE_SEQ_AT) + 1 & 0xffffffff)

    def withdraw(self):
        self._put(WAKE_DOORBELL_AT, 0)

    def take_rings(self):
        """The number of the guest's rings since the last call."""
        try:
            return os.eventfd_read(self.rung)
        except BlockingIOError:
            return 0

    def ring(self):
        """Interrupts the guest."""
        os.eventfd_write(self.guests, 1)

    def command(self):
        """Posts a no-op command; returns a function that checks whether it is answered."""
        seq = self._get(COMMAND_SEQ_AT) + 1 & 0xffffffff
        self._put(COMMAND_SEQ_AT + 4, 0)
        self._put(COMMAND_SEQ_AT, seq)
        return lambda: self._get(DONE_SEQ_AT) == seq

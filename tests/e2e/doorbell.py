# SPDX-License-Identifier: GPL-2.0-or-later
"""Plays the server of an ivshmem-doorbell device, for cases that look at the driver without an agent."""

import mmap
import os
import socket
import struct
import threading

from directory import MARK, SECTIONS_AT

MAILBOX = 0  # of the superblock's sections
COMMAND_SEQ_AT, WAKE_SEQ_AT, WAKE_PERMILLE_AT, WAKE_DOORBELL_AT, DONE_SEQ_AT = 0, 164, 168, 172, 1024
GUEST, AGENT = 0, 1  # peers


def device(path):
    """QEMU's arguments for a device whose server listens there."""
    return ("-chardev", f"socket,id=doorbell,path={path}", "-device", "ivshmem-doorbell,chardev=doorbell,vectors=1")


class Server:
    """Gives one QEMU the memory and an eventfd each way; then it is the host's side of the mailbox."""

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
        # QEMU's device waits for the memory, and so does whoever starts it.
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
        """Asks to be woken, anew."""
        self._put(WAKE_PERMILLE_AT, permille)
        self._put(WAKE_DOORBELL_AT, AGENT << 16)
        self._put(WAKE_SEQ_AT, self._get(WAKE_SEQ_AT) + 1 & 0xffffffff)

    def ask_not(self):
        self._put(WAKE_DOORBELL_AT, 0)

    def take_rings(self):
        """How often the guest has rung since it was last asked for."""
        try:
            return os.eventfd_read(self.rung)
        except BlockingIOError:
            return 0

    def ring(self):
        """Interrupts the guest."""
        os.eventfd_write(self.guests, 1)

    def command(self):
        """Posts "are you there"; a function that tells whether it was answered."""
        seq = self._get(COMMAND_SEQ_AT) + 1 & 0xffffffff
        self._put(COMMAND_SEQ_AT + 4, 0)
        self._put(COMMAND_SEQ_AT, seq)
        return lambda: self._get(DONE_SEQ_AT) == seq

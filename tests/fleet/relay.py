# SPDX-License-Identifier: GPL-2.0-or-later
"""A network that is cut, or slow."""

import select
import socket
import threading
import time


class Relay:
    """Between a host and the server: a network that is cut, or slow."""

    def __init__(self, server):
        self.server = server
        self.credentials = server.credentials
        self.folder = server.folder
        self.cut = self.ends = False
        self.held = 0                           # bytes of the host since the cut ...
        self.delivered = 0                      # ... and those that are at the server
        self.slow_s = 0
        self.sockets = []
        self.late = {}                          # connections of before a cut: until when their bytes are held
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    def url(self):
        """Where it listens."""
        return f"tls://127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self):
        """Takes connections."""
        while not self.ends:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server.port))
            except OSError:
                continue
            self.sockets.append((client, server))
            threading.Thread(target=self.pump, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, False), daemon=True).start()

    @staticmethod
    def take(source):
        """Reads bytes; b"": the sender is gone, perhaps at once."""
        try:
            return source.recv(1 << 16)
        except OSError:
            return b""

    def pump(self, source, to, up):
        """Forwards bytes, in one direction. What the host sends after a cut is delivered late, answers to what it sent before at once."""
        try:
            while data := source.recv(1 << 16):
                more = data
                held = len(data) if up and self.cut else 0
                self.held += held
                while up and self.cut or time.monotonic() < self.late.get(source, 0):
                    # What has been sent is on its way, even if the sender gives the connection up.
                    if more and select.select([source], [], [], 0.02)[0]:
                        more = self.take(source)
                        data += more
                        held += len(more)
                        self.held += len(more)
                    elif not more:
                        time.sleep(0.02)
                time.sleep(self.slow_s)
                to.sendall(data)
                self.delivered += held
        except OSError:
            pass
        try:
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def heal(self):
        """The network is there again: connections end for the client, whose bytes arrive at the server even later."""
        for client, _ in self.sockets:
            self.late[client] = time.monotonic() + 3
            try:
                client.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        self.sockets.clear()
        self.cut = False

    def stop(self):
        """Ends it."""
        self.ends = True
        self.cut = False
        self.listener.close()

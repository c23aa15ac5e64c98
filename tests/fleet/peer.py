# SPDX-License-Identifier: GPL-2.0-or-later
"""A host of the fleet that sends what it likes: NATS' protocol by hand, so that nothing of ours checks it."""

import contextlib
import json
import socket
import ssl
import threading


class Peer:
    """Answers who is there, and each request with the payloads of a function: answers(word, id, body), or None."""

    def __init__(self, server, name, answers, user="agent"):
        self.name = name
        self.answers = answers
        self.heard = []
        user, password = server.credentials[user].read_text().split()
        plain = socket.create_connection(("127.0.0.1", server.port))
        line = b""
        while not line.endswith(b"\r\n"):       # INFO, before TLS
            line += plain.recv(1)
        context = ssl.create_default_context(cafile=server.folder / "ca.pem")
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # as by default from Python 3.13 on
        self.connection = context.wrap_socket(plain, server_hostname="127.0.0.1")
        self.lines = self.connection.makefile("rb")
        self.send("CONNECT " + json.dumps({"verbose": False, "pedantic": False, "user": user, "pass": password, "headers": True,
                                           "no_responders": True}))
        self.send("SUB $SRV.PING.tracebraid 1")
        self.send(f"SUB tracebraid.v1.{name}.* 2")
        if user == "tester":
            self.send("SUB _INBOX_tester.> 3")
        self.send("PING")
        while self.lines.readline() != b"PONG\r\n":
            pass
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def send(self, line):
        """Sends a line of the protocol."""
        self.connection.sendall(line.encode() + b"\r\n")

    def publish(self, subject, data):
        """Publishes bytes."""
        self.connection.sendall(f"PUB {subject} {len(data)}\r\n".encode() + data + b"\r\n")

    def request(self, subject, data, reply):
        """Sends a request whose answers are heard."""
        self.connection.sendall(f"PUB {subject} _INBOX_tester.{reply} {len(data)}\r\n".encode() + data + b"\r\n")

    def heard_of(self, reply):
        """What has been answered to a request."""
        return b"".join(data for subject, data in self.heard if subject == f"_INBOX_tester.{reply}")

    def serve(self):
        """Answers, until the connection is closed."""
        try:
            for line in self.lines:
                words = line.decode().split()
                if words[:1] == ["PING"]:
                    self.send("PONG")
                if words[:1] != ["MSG"]:
                    continue
                data = self.lines.read(int(words[-1]) + 2)[:-2]
                if len(words) == 5:
                    self.answer(words[1], words[3], data)
                else:
                    self.heard.append((words[1], data))
        except (OSError, ValueError):
            pass

    def answer(self, subject, reply, data):
        """Answers one request. Without a function it is no host."""
        if not self.answers:
            return
        if subject.startswith("$SRV"):
            self.publish(reply, json.dumps({"name": "tracebraid", "id": self.name}).encode())
            return
        head, _, body = data.decode().partition("\n\n")
        number = next((line[3:] for line in head.split("\n") if line.startswith("id ")), "")
        for payload in self.answers(subject.rpartition(".")[2], number, body):
            self.publish(reply, payload)

    def close(self):
        """Ends it."""
        with contextlib.suppress(OSError):  # the server may have ended the connection
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()
        self.thread.join()


class Crowd(Peer):
    """Many hosts on one connection."""

    def __init__(self, server, names, answers):
        self.names = set(names)
        super().__init__(server, "*", answers)

    def answer(self, subject, reply, data):
        if subject.startswith("$SRV"):
            answers = [json.dumps({"name": "tracebraid", "id": name}).encode() for name in self.names]
            self.connection.sendall(b"".join(f"PUB {reply} {len(one)}\r\n".encode() + one + b"\r\n" for one in answers))
        elif subject.split(".")[2] in self.names:
            super().answer(subject, reply, data)


def message(kind, number, seq, body=b"", instance="1", **more):
    """A payload as a host sends it."""
    fields = {"kind": kind, "host": "x", "instance": instance, "id": number, "seq": seq, **more}
    return ("tracebraid 1\n" + "".join(f"{key} {value}\n" for key, value in fields.items()) + "\n").encode() + body

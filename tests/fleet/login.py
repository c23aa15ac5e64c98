# SPDX-License-Identifier: GPL-2.0-or-later
"""Logins by NKey whose signature libnats cannot send."""

import socket
import subprocess
import threading

import kit
from kit import must

# An NKey's public key (no server checks it here) and its seed; its signature of this nonce begins
# with 0.
KEY = "U" + "A" * 55
SEED = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"
NONCES = ["nonce72", "nonce73"]


def serve(listener, heard):
    """Asks for a signature of one nonce after the other; refuses each login, and notes what it was."""
    for nonce in NONCES:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            connection.sendall(b'INFO {"server_id":"test","version":"2.9.10","proto":1,"max_payload":1048576,"auth_required":true,'
                               b'"nonce":"%s"}\r\n' % nonce.encode())
            try:
                heard.append(lines.readline())
            except ConnectionResetError:        # closed before it was read
                heard.append(b"")
            if heard[-1]:
                connection.sendall(b"-ERR 'Authorization Violation'\r\n")


def case_signature(fleet):
    """A signature that begins with 0 is not sent: the login is repeated with another nonce."""
    credentials = fleet.folder / "signature.credentials"
    credentials.write_text(f"{KEY}\n{SEED}\n")
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener, heard), daemon=True)
        server.start()
        done = subprocess.run([kit.AGENT, "fleet", "list", "--config=/dev/null", f"--credentials={credentials}",
                               f"--server=nats://127.0.0.1:{listener.getsockname()[1]}"],
                              capture_output=True, text=True, timeout=kit.LIMIT_S, check=False)
        server.join(kit.LIMIT_S)
    must(done.returncode == 1 and "cannot connect" in done.stderr and "Authorization" in done.stderr, done)
    must(len(heard) == 2 and heard[0] == b"" and b'"sig":"' in heard[1], heard)

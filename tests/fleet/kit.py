# SPDX-License-Identifier: GPL-2.0-or-later
"""A fleet on this machine: a real nats-server, and services that record a guest that live_region plays."""

import base64
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

TREE = pathlib.Path(__file__).resolve().parents[2]
AGENT = TREE / "build/tracebraid"
LIMIT_S = 120                           # of a wait, to catch hangs
NAMES = ["rack1-a", "rack1-b", "rack2-c"]

ALLOWED = {
    "agent": ('"_INBOX_agent.>", "tracebraid.v1.alarm", "tracebraid.store.v1.>", '
              '"$JS.API.DIRECT.GET.tracebraid.tracebraid.store.v1.>"', '"$SRV.>", "tracebraid.v1.*.*", "tracebraid.v1.alarm", "_INBOX_agent.>"'),
    "reader": ('"$SRV.PING.tracebraid", "tracebraid.v1.*.status", "tracebraid.v1.*.sql", "tracebraid.v1.*.analyze", '
               '"tracebraid.v1.*.flow", "$JS.API.DIRECT.GET.tracebraid"', '"_INBOX_reader.>"'),
    "tester": ('">"', '">"'),
    "admin": ('"$JS.API.STREAM.CREATE.tracebraid", "$JS.API.STREAM.INFO.tracebraid"', '"_INBOX_admin.>"'),
    "operator": ('"$SRV.>", "tracebraid.v1.>"', '"_INBOX_operator.>"'),
}


class Failure(Exception):
    """A condition that must hold did not."""


def must(condition, what):
    """Fails unless a condition holds."""
    if not condition:
        raise Failure(what)


def wait_for(what, condition):
    """Waits until a condition holds."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.05)
    raise Failure(f"not in {LIMIT_S} s: {what}")


def parent_of(path):
    """The parent of a process by its /proc/PID/stat; 0: it has ended."""
    try:
        return int(path.read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def kill_one(pid):
    """Ends a process at once, if it is there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def crc16(data):
    """CRC-16/XMODEM."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def nkey_encode(raw):
    """An NKey's text."""
    return base64.b32encode(raw + crc16(raw).to_bytes(2, "little")).decode().rstrip("=")


def nkey(path):
    """Writes a user's NKey, public key and seed; returns the public key. Debian packages no tool for that."""
    key = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-outform", "DER"], check=True,
                         capture_output=True).stdout
    public = subprocess.run(["openssl", "pkey", "-inform", "DER", "-pubout", "-outform", "DER"], input=key, check=True,
                            capture_output=True).stdout
    user = 20 << 3
    text = nkey_encode(bytes([user]) + public[-32:])
    seed = nkey_encode(bytes([18 << 3 | user >> 5, (user & 31) << 3]) + key[-32:])
    path.write_text(f"{text}\n{seed}\n")
    path.chmod(0o600)
    return text


def certify(folder):
    """Makes a certificate for 127.0.0.1, and what signs it."""
    for words in [
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=test-ca -days 2 -addext keyUsage=critical,keyCertSign "
            "-keyout ca.key -out ca.pem",
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=127.0.0.1 -keyout server.key -out server.csr",
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.pem"]:
        (folder / "san").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)


class Server:
    """nats-server with TLS on a port that the kernel chooses, which it keeps when it is started again."""

    def __init__(self, folder):
        self.folder = folder
        certify(folder)
        self.port = -1
        self.process = None
        self.credentials = {}
        self.users = []
        self.file_bytes = "1GB"                 # of JetStream
        for name, (publish, subscribe) in ALLOWED.items():
            path = folder / f"{name}.credentials"
            self.credentials[name] = path
            if name == "operator":
                who = f"nkey: {nkey(path)}"
            else:
                path.write_text(f"{name} {name}-secret\n")
                who = f'user: {name}, password: "{name}-secret"'
            responses = ', allow_responses: { max: 100000, expires: "15m" }' if name == "agent" else ""
            self.users.append(f"{{ {who}, permissions: {{ publish: [ {publish} ], subscribe: [ {subscribe} ]{responses} }} }}")

    def start(self):
        """Starts it, and waits until it listens."""
        conf = self.folder / "server.conf"
        conf.write_text(f'listen: "127.0.0.1:{self.port}"\nports_file_dir: "{self.folder}"\n'
                        f'log_file: "{self.folder}/server.log"\n'
                        f'jetstream: {{ store_dir: "{self.folder}/jetstream", max_memory_store: 1MB, max_file_store: {self.file_bytes} }}\n'
                        f'tls {{ cert_file: "{self.folder}/server.pem", key_file: "{self.folder}/server.key" }}\n'
                        'authorization { users: [\n' + "\n".join(self.users) + "\n] }\n")
        for old in self.folder.glob("*.ports"):
            old.unlink()
        with open(self.folder / "server.out", "ab") as out:
            self.process = subprocess.Popen(["nats-server", "-c", conf], stdout=out, stderr=out,
                                            env={**os.environ, "GOMAXPROCS": "2"})
        ports = wait_for("nats-server listens", lambda: list(self.folder.glob("*.ports")))
        urls = wait_for("its ports", lambda: ports[0].read_text() and json.loads(ports[0].read_text()))
        self.port = int(next(iter(urls.values()))[0].rpartition(":")[2])

    def url(self):
        """Where it listens."""
        return f"tls://127.0.0.1:{self.port}"

    def kill(self):
        """Ends it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Host:
    """A service with a name of its own, and the guest that it records."""

    def __init__(self, folder, name, server, more="", window_s=20):
        self.folder = folder / name
        self.name = name
        (self.folder / "run").mkdir(parents=True)
        region = self.folder / f"guest-{name}"
        self.guest = subprocess.Popen([TREE / "build/live_region", region, f"guest-{name}"], stdout=subprocess.PIPE)
        must(self.guest.stdout.readline() == b"live\n", "the guest does not live")
        self.conf = self.folder / "tracebraid.conf"
        self.conf.write_text(
            f"[record]\nhost-events = none\nguests = {region}\nwindow = 4M\nwindow-time = {window_s}s\n"
            f"[metrics]\nlisten = unix:{self.folder}/metrics\n"
            f"[snapshots]\ndirectory = {self.folder}/snapshots\napart = 0\n"
            f"[fleet]\nserver = {server.url()}\nname = {name}\ninbox = _INBOX_agent\n"
            f"credentials = {server.credentials['agent']}\nca = {server.folder}/ca.pem\n{more}")
        self.process = None

    def start(self):
        """Starts the service."""
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([AGENT, "serve", "--config", self.conf], stdout=log, stderr=log,
                                            env={**os.environ, "RUNTIME_DIRECTORY": str(self.folder / "run")})

    def metric(self, name):
        """The sum of a metric's samples; None: there is none."""
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(str(self.folder / "metrics"))
            one.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            text = b"".join(iter(lambda: one.recv(1 << 16), b"")).decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)", text, re.M)
        return sum(map(float, found)) if found else None

    def kill(self):
        """Ends it and what it has started at once, as its service manager does when it was killed."""
        started = [int(path.parent.name) for path in pathlib.Path("/proc").glob("[0-9]*/stat")
                   if parent_of(path) == self.process.pid]
        for pid in [self.process.pid, *started]:
            kill_one(pid)
        self.process.wait()

    def stop_service(self):
        """Ends it."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def stop(self):
        """Ends it, and the guest."""
        self.stop_service()
        self.guest.kill()
        self.guest.wait()


class Fleet:
    """A server, hosts, and requests to them."""

    def __init__(self, folder, names, more="", window_s=20, way=None):
        self.folder = folder
        self.server = Server(folder)
        self.hosts = {}
        try:
            self.server.start()
            for name in names:
                server = way(self.server, name) if way else self.server
                self.hosts[name] = Host(folder, name, server, more, window_s)
                self.hosts[name].start()
        except BaseException:
            self.stop()
            raise

    def command(self, words, user, ca="ca.pem"):
        """The words of `tracebraid fleet` as one of the server's users."""
        # Questions run at idle priority: on a busy machine they take long.
        return [AGENT, "fleet", "--seconds=100", "--timeout=20", *words, "--config=/dev/null", f"--server={self.server.url()}",
                f"--credentials={self.server.credentials[user]}", f"--inbox=_INBOX_{user}", f"--ca={self.server.folder / ca}"]

    def begin(self, *words, user="reader"):
        """Starts it."""
        pipe = subprocess.PIPE
        return subprocess.Popen(self.command(words, user), stdout=pipe, stderr=pipe, text=True)

    def ask(self, *words, user="reader"):
        """Runs it. Returns its status, output and messages."""
        done = subprocess.run(self.command(words, user), capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
        return done.returncode, done.stdout, done.stderr

    def rows(self, *words, status=0, **more):
        """Runs it with --json. Returns the rows."""
        got, out, errors = self.ask(*words, "--json", **more)
        must(got == status, f"{words}: status {got}, not {status}: {errors}{out}")
        return [json.loads(line) for line in out.splitlines()]

    def wait_recording(self, names=None):
        """Waits until all hosts record a guest."""
        def there():
            _, out, _ = self.ask("list", "--json")
            rows = [json.loads(line) for line in out.splitlines()]
            found = {row["host"] for row in rows if row.get("state") == "recording" and row["guests"] == 1}
            return found >= set(names or self.hosts)
        wait_for("all hosts record", there)

    def stop(self):
        """Ends all."""
        for host in self.hosts.values():
            host.stop()
        if self.server.process and self.server.process.poll() is None:
            self.server.kill()                  # one whose disk is full takes no other signal

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Captures go into JetStream while they are written: what is stored is what was recorded, whatever fails meanwhile."""

import base64
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import kit
from kit import must, wait_for
from peer import Peer
from relay import Relay

NAMES = ["store1", "store2"]
SUBJECTS = "tracebraid.store.v1."
CHUNK = 256 << 10
ASK_AGAIN_S = 3
LEAST = 8 << 10                         # bytes that are more than a request
MORE = "stream = all\nstream-sync = 1s\nstream-space = 64M\n"


class Keeper:
    """Keeps all files that a host records, by a link to each, to be compared with what is stored."""

    def __init__(self, host):
        self.window = host.folder / "run/window"
        self.folder = host.folder / "kept"
        self.folder.mkdir()
        self.seen = set()
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.keep, daemon=True)
        self.thread.start()

    def keep(self):
        """Links files, until it ends."""
        while not self.ends.wait(0.02):
            try:
                run = (self.window / "store/run").read_text().strip()
                for path in self.window.glob("window-*.braid"):
                    self.link(path, f"{run}-{int(path.stem.partition('-')[2]):06}")
            except OSError:
                continue
            # A link holds its file, which is not removed then: of a complete file a copy is kept.
            for path in sorted(self.folder.glob("*.link"))[:-1]:
                shutil.copy(path, path.with_suffix(".part"))
                path.with_suffix(".part").rename(path.with_suffix(""))
                path.unlink()

    def link(self, path, name):
        """Links a file, if it was not seen before."""
        if name in self.seen:
            return
        try:
            os.link(path, self.folder / f"{name}.link")
            self.seen.add(name)
        except OSError:                         # it was removed
            pass

    def complete(self):
        """The files that are complete: {name: path}."""
        return {path.name: path for path in self.folder.iterdir() if not path.suffix}

    def stop(self):
        """Ends it."""
        self.ends.set()
        self.thread.join()


class Store:
    """The stream, read by the server's own requests."""

    def __init__(self, server):
        self.server = server
        self.connect()
        self.asked = 0
        self.known = {}                         # messages by their sequence, which do not change

    def connect(self):
        """Another connection."""
        self.peer = Peer(self.server, "reader-of-all", None, user="tester")

    def ask(self, subject, **request):
        """A request of the server's API. A server that has just begun may leave one unanswered, or disconnect."""
        replies, due = [], 0
        data = json.dumps(request).encode() if request else b""

        def answer():
            nonlocal due
            if time.monotonic() >= due:
                self.asked += 1
                replies.append(f"s{self.asked}")
                try:
                    self.peer.request(f"$JS.API.{subject}", data, replies[-1])
                except OSError:
                    self.connect()
                    return None
                due = time.monotonic() + ASK_AGAIN_S
            return next(filter(None, map(self.peer.heard_of, replies)), None)

        return json.loads(wait_for(subject, answer))

    def configure(self, **changes):
        """Changes the stream's configuration."""
        config = {**self.ask("STREAM.INFO.tracebraid")["config"], **changes}
        answer = self.ask("STREAM.UPDATE.tracebraid", **config)
        must("error" not in answer, answer)

    def messages(self):
        """All: [(subject, head, body)], in the order of the stream."""
        state = self.ask("STREAM.INFO.tracebraid")["state"]
        for number in range(state["first_seq"], state["last_seq"] + 1):
            answer = {} if number in self.known else self.ask("STREAM.MSG.GET.tracebraid", seq=number)
            if "message" not in answer:
                continue
            data = base64.b64decode(answer["message"].get("data", ""))
            head, _, body = data.partition(b"\n\n")
            lines = head.decode().splitlines()
            must(lines[0] == "tracebraid 1", lines)
            self.known[number] = (answer["message"]["subject"], dict(line.split(" ", 1) for line in lines[1:]), body)
        self.peer.heard.clear()
        return [self.known[number] for number in sorted(self.known) if number <= state["last_seq"]]

    def captures(self):
        """What is stored, by HOST.NAME: {name: (bytes, end)}. Each piece is there once, in order."""
        found = {}
        for subject, head, body in self.messages():
            must(subject.startswith(SUBJECTS), subject)
            name = subject[len(SUBJECTS):]
            pieces, end, number = found.get(name, (b"", None, 0))
            must(end is None, f"{name}: a message after the end")
            must(int(head["number"]) == number and int(head["from"]) == len(pieces), (name, head, number, len(pieces)))
            must(len(body) <= CHUNK and (head["kind"] == "end") == (not body), (name, head))
            found[name] = (pieces + body, head if head["kind"] == "end" else None, number + 1)
        return {name: (pieces, end) for name, (pieces, end, _) in found.items()}

    def close(self):
        """Ends it."""
        self.peer.close()


class Bed:
    """A fleet whose hosts store all that they record; the second one's network is a relay."""

    def __init__(self, folder):
        self.relay = None
        self.fleet = kit.Fleet(folder, NAMES, MORE, window_s=4, way=self.way)
        self.keepers = {name: Keeper(host) for name, host in self.fleet.hosts.items()}
        self.store = None
        self.checked = set()                    # files that were compared before

    def way(self, server, name):
        """How a host reaches the server."""
        if name == NAMES[0]:
            return server
        self.relay = Relay(server)
        return self.relay

    def check(self, least=0, lost=False):
        """Waits until all complete files have an end in the store; compares them. Returns the bytes that are reported lost."""
        files = {f"{name}.{file}": path for name, keeper in self.keepers.items() for file, path in keeper.complete().items()
                 if f"{name}.{file}" not in self.checked}
        must(len(files) >= least, f"only {len(files)} files")

        def ended():
            stored = self.store.captures()
            return all(stored.get(name, (b"", None))[1] for name in files) and stored
        stored = wait_for("all files are stored", ended)
        missing = 0
        for name, path in files.items():
            data, end = stored[name]
            content = path.read_bytes()
            must(end["lost"] != "unknown" or lost, (name, end))
            gone = len(content) - len(data) if end["lost"] == "unknown" else int(end["lost"])
            must(content.startswith(data) and len(data) + gone == len(content),
                 (name, len(data), gone, len(content)))
            missing += gone
        self.checked |= set(files)
        must(lost or not missing, f"{missing} bytes are lost")
        return missing

    def wait_files(self, more):
        """Waits until each host has recorded so many files more."""
        counts = {name: len(keeper.complete()) for name, keeper in self.keepers.items()}
        wait_for("further files", lambda: all(len(keeper.complete()) >= counts[name] + more
                                              for name, keeper in self.keepers.items()))

    def log(self, name):
        """What a host's service has said."""
        return (self.fleet.hosts[name].folder / "log").read_text()

    def burst(self):
        """Has the guests write many events."""
        for host in self.fleet.hosts.values():
            host.guest.send_signal(signal.SIGUSR1)

    def read(self, *words, user="reader"):
        """Runs a command that reads captures as a user."""
        conf = self.fleet.folder / f"{user}.conf"
        conf.write_text(f"[fleet]\ncredentials = {self.fleet.server.credentials[user]}\ninbox = _INBOX_{user}\n"
                        f"ca = {self.fleet.folder}/ca.pem\n")
        return subprocess.run([kit.AGENT, *words], env={**os.environ, "TRACEBRAID_CONF": str(conf)}, capture_output=True,
                              text=True, timeout=kit.LIMIT_S, check=False)

    def wait_read(self, what, enough, *words):
        """Waits until a command that reads captures prints enough. Returns what it prints."""
        done = None

        def ready():
            nonlocal done
            done = self.read(*words)
            return done.returncode == 0 and enough(done.stdout)
        try:
            wait_for(what, ready)
        except kit.Failure as failure:
            raise kit.Failure(f"{failure}; '{' '.join(words)}' prints: {done.stdout[-800:]}{done.stderr[-800:]}") from failure
        return done.stdout

    def restart(self):
        """Ends the server, and starts it again."""
        self.fleet.server.process.terminate()
        self.fleet.server.process.wait()
        self.fleet.server.start()
        self.store.close()
        self.store = Store(self.fleet.server)

    def stop(self):
        """Ends all."""
        for keeper in self.keepers.values():
            keeper.stop()
        if self.store:
            self.store.close()
        self.fleet.stop()
        self.relay.stop()


def case_made(bed):
    """The store is made by who may; hosts say that they wait for it."""
    wait_for("a line", lambda: all("'tracebraid fleet store --space=SIZE'" in bed.log(name) for name in NAMES))
    status, _, errors = bed.fleet.ask("store", "--space=400M")
    must(status == 1 and "Permissions Violation for Publish" in errors, errors)
    for _ in range(2):
        status, out, errors = bed.fleet.ask("store", "--space=400M", user="admin")
        # Hosts store as soon as there is a store, so it may have something already.
        must(status == 0, (out, errors))
        must(re.match(r"\d+ captures and snapshots, \d+ messages, \S+ of 419MB\n$", out), (out, errors))
    bed.store = Store(bed.fleet.server)
    wait_for("again", lambda: all("fleet's store again" in bed.log(name) for name in NAMES))


def case_streamed(bed):
    """What is stored is what was recorded; files are removed then."""
    bed.wait_files(2)
    bed.check(least=4)
    bed.burst()
    bed.wait_files(4)
    bed.check(least=8)
    for name in NAMES:
        window = bed.fleet.hosts[name].folder / "run/window"
        row = bed.fleet.rows("list", f"--hosts={name}")[0]
        must(row["stored"] > 0 and row["lost"] == 0 and row["waiting"] >= 0, row)
        host = bed.fleet.hosts[name]
        wait_for("metrics of the store", lambda host=host: (host.metric("tracebraid_store_stored_bytes_total") or 0) >= row["stored"])
        must(host.metric("tracebraid_store_lost_bytes_total") == 0, "nothing was lost")
        # What is stored, and not in the window any more, is removed.
        wait_for("files are removed", lambda window=window: len(list((window / "store").glob("*.braid")))
                 <= len(list(window.glob("*.braid"))))


def case_server_killed(bed):
    """The server is killed three times while captures come, and ended once."""
    server = bed.fleet.server
    for _ in range(3):
        bed.burst()
        bed.wait_files(1)
        server.kill()
        bed.wait_files(1)
        server.start()
        bed.wait_files(1)
    bed.burst()
    bed.restart()
    bed.check(least=8)


def case_silent(bed):
    """The server is silent for more than 5 s: this is said, and what it has got meanwhile is stored once."""
    counts = {name: bed.log(name).count("has not answered for 5 s") for name in NAMES}
    bed.burst()
    bed.fleet.server.process.send_signal(signal.SIGSTOP)
    try:
        wait_for("a line", lambda: all(bed.log(name).count("has not answered for 5 s") > counts[name] for name in NAMES))
    finally:
        bed.fleet.server.process.send_signal(signal.SIGCONT)
    bed.wait_files(1)
    bed.check()


def case_cut(bed):
    """The network is cut for longer than the server remembers identifiers; what was sent before arrives later."""
    bed.store.configure(duplicate_window=100_000_000)
    bed.restart()                               # until then it remembers them for as long as before
    for _ in range(3):
        bed.check()
        bed.relay.held = bed.relay.delivered = 0
        bed.relay.cut = True
        bed.burst()
        wait_for("a message is under way", lambda: bed.relay.held > LEAST)
        bed.wait_files(2)
        bed.relay.heal()
        bed.wait_files(1)
        bed.check()
        wait_for("it arrives", lambda: bed.relay.delivered == bed.relay.held)
        bed.wait_files(1)
        bed.store.captures()                    # which is a failure, if one is stored twice


def case_slow(bed):
    """A slow network delays captures, and the recording goes on."""
    bed.relay.slow_s = 0.05
    bed.burst()
    bed.wait_files(2)
    bed.relay.slow_s = 0
    bed.check()


def case_paused(bed):
    """The service is stopped while its recorder goes on: the file that was the newest one is stored to its end, too."""
    host = bed.fleet.hosts[NAMES[0]]
    bed.check()
    host.process.send_signal(signal.SIGSTOP)
    try:
        newest = max(map(int, re.findall(r"window-(\d+)", " ".join(map(str, (host.folder / "run/window").iterdir())))))
        wait_for("it is removed", lambda: not (host.folder / f"run/window/window-{newest}.braid").exists())
    finally:
        host.process.send_signal(signal.SIGCONT)
    bed.wait_files(1)
    bed.check(lost=True)


def case_agent_killed(bed):
    """The service and all its processes are killed: what was recorded before is stored by the next one."""
    host = bed.fleet.hosts[NAMES[1]]
    for _ in range(2):
        bed.burst()
        bed.relay.slow_s = 0.02
        bed.wait_files(1)
        host.kill()
        window = host.folder / "run/window"
        run = (window / "store/run").read_text()
        # Open, so that their inodes are not used again.
        former = [path.open("rb") for path in window.glob("window-*.braid")]
        must(former, "the killed service left no file")
        bed.relay.slow_s = 0
        host.start()
        wait_for("another run", lambda file=window / "store/run", run=run: file.read_text() not in ("", run))
        # A file under the new run's name is of that run.
        found = {path.stat().st_ino for path in window.glob("window-*.braid")}
        must(not found & {os.fstat(file.fileno()).st_ino for file in former}, "a file of the former run")
        for file in former:
            file.close()
        bed.fleet.wait_recording()
        bed.wait_files(1)
    bed.check()


def case_notes(bed):
    """Notes of what is lost are limited, if the server is away for long."""
    folder = bed.fleet.hosts[NAMES[0]].folder / "run/window/store"
    bed.check()
    bed.fleet.server.kill()
    for k in range(1200):
        (folder / f"note-{k:06}.lost").write_text("7\n")
    wait_for("a line", lambda: "lost without a note in the fleet's store: more than 1024 notes wait" in bed.log(NAMES[0]))
    wait_for("they are removed", lambda: len(list(folder.glob("note-*.lost"))) <= 1024)
    must(not (folder / "note-000000.lost").exists() and (folder / "note-001199.lost").exists(), "the oldest ones")
    for path in folder.glob("note-*.lost"):
        path.unlink()
    bed.fleet.server.start()
    bed.store.close()
    bed.store = Store(bed.fleet.server)
    bed.wait_files(1)
    bed.check()


def case_full(bed):
    """The store is full for longer than the host has space: what is lost is said, and stored once there is room."""
    host = bed.fleet.hosts[NAMES[0]]
    host.stop_service()
    conf = host.conf.read_text()
    host.conf.write_text(conf.replace("stream-space = 64M", "stream-space = 1M"))
    used = bed.store.ask("STREAM.INFO.tracebraid")["state"]["bytes"]
    bed.store.configure(max_bytes=used + (1 << 20))
    host.start()
    bed.fleet.wait_recording()
    bed.burst()
    wait_for("a line", lambda: "refuses captures: maximum bytes exceeded" in bed.log(NAMES[0]))
    wait_for("a loss", lambda: "bytes of this capture are lost" in bed.log(NAMES[0]))
    bed.store.configure(max_bytes=800_000_000)
    bed.wait_files(1)
    must(bed.check(lost=True) > 0, "nothing is lost")
    host.stop_service()
    host.conf.write_text(conf)
    host.start()
    bed.fleet.wait_recording()


def case_read(bed):
    """A snapshot of two hosts is read from the store, by every reader, as their files are."""
    status, _, errors = bed.fleet.ask("snapshot", "--hosts=store*", user="operator")
    must(status == 0, errors)
    name = re.search(r"tracebraid report (\S+)' reads it", errors)
    must(name, errors)
    url = name.group(1)
    stored = bed.wait_read("of both hosts", lambda text: all(f"guest-{host}: written" in text for host in NAMES),
                           "report", "--stats", url)
    must("0 lost" in stored, stored)
    marks = {host: bed.store.captures()[f"{host}.{url.rpartition('/')[2]}"][0].decode().splitlines()[1:] for host in NAMES}
    files = [str(bed.keepers[host].complete()[capture])
             for host, captures in marks.items() for capture in captures]
    must(len(files) >= 4, files)
    for words in ["report"], ["report", "--json"], ["analyze", "summary"], ["analyze", "states"], ["report", "--stats"]:
        there, here = bed.read(*words, url), bed.read(*words, *files)
        must((there.returncode, there.stdout) == (here.returncode, here.stdout) and there.stdout,
             (words, there.stdout[-500:], here.stdout[-500:], there.stderr, here.stderr))
    select = "SELECT stream, count(*) AS n, max(ns) - min(ns) AS t FROM events GROUP BY stream ORDER BY stream"
    must(bed.read("sql", "--csv", url, select).stdout == bed.read("sql", "--csv", *files, select).stdout != "", "SQL")
    one = f"{url.rpartition('/')[0]}/store1/{marks['store1'][0]}"
    must("store1" in bed.read("report", "--stats", one).stdout, "a capture of one host")
    must(bed.read("verify", one).returncode == 0, "verify")
    for words, user, why in [
            (["report", url], "agent", "Permissions Violation for Publish"),
            (["report", url.rpartition("/")[0] + "/nonesuch"], "reader", "no snapshot and no capture of this name"),
            (["report", url.rpartition("/")[0]], "reader", "expected nats://HOST:PORT/SNAPSHOT"),
            (["report", url.rpartition("/")[0] + "/a*b"], "reader", "expected the name of a snapshot")]:
        done = bed.read(*words, user=user)
        must(done.returncode == 1 and why in done.stderr and not done.stdout,
             (words, user, done.stderr))
    must(not list(pathlib.Path(os.environ.get("TMPDIR", "/tmp")).glob("tracebraid-??????/store1.*")), "files are left")


def case_hostile(bed):
    """What is not valid in the store is an error, or is named."""
    asker = bed.store.peer
    check = b"check 0123456789abcdef\n"
    head = b"tracebraid 1\nkind %s\nnumber %d\nfrom %d\n"
    for name, pieces, why in [
            ("garbage", [b"\xff\0" * 100], "not a message of the fleet"),
            ("version", [b"tracebraid 2\nkind chunk\n\nx"], "of version 2"),
            ("empty", [head % (b"chunk", 0, 0) + b"\n"], "not a piece"),
            ("large", [head % (b"chunk", 0, 0) + b"\n" + b"x" * (CHUNK + 1)], "not a piece"),
            ("late", [head % (b"chunk", 3, 0) + b"\nx"], "message 0 is missing"),
            ("hole", [head % (b"chunk", 0, 0) + b"\nx", head % (b"chunk", 1, 7) + b"\nx"], "message 1 is missing"),
            ("check", [head % (b"chunk", 0, 0) + b"\nx", head % (b"end", 1, 1) + check + b"\n"], "its checksum"),
            ("lost", [head % (b"end", 0, 0) + b"lost unknown\n\n"], "lost on the host"),
            ("mark", [head % (b"chunk", 0, 0) + b"\ntracebraid-mark 1\n../../etc/passwd\nnonesuch\n"], "nonesuch: not in the store"),
            ("long", [head % (b"chunk", 0, 0) + b"\ntracebraid-mark 1\n" + b"*" * 70000 + b"\nthelast\n"], "thelast: not in the store")]:
        for piece in pieces:
            asker.request(f"{SUBJECTS}forger.{name}", piece, f"forged-{name}")
        wait_for("they are stored", lambda name=name, pieces=pieces: asker.heard_of(f"forged-{name}").count(b'"seq"') == len(pieces))
        done = bed.read("report", f"{bed.fleet.server.url()}/{name}")
        must(done.returncode == 1 and f"{why}" in done.stderr, (name, done.returncode, done.stderr))
    answer = bed.store.ask("STREAM.PURGE.tracebraid", filter=f"{SUBJECTS}forger.>")
    must(answer.get("success"), answer)


def case_asked(bed):
    """With 'stream = asked' nothing is stored but what is asked for, by who may."""
    bed.check()
    host = bed.fleet.hosts[NAMES[0]]
    host.stop_service()
    conf = host.conf.read_text()
    host.conf.write_text(conf.replace("stream = all", "stream = asked"))
    host.start()
    bed.fleet.wait_recording()
    run = (host.folder / "run/window/store/run").read_text().strip()
    bed.wait_files(2)
    must(not [name for name in bed.store.captures() if run in name], "it was not asked")
    status, _, errors = bed.fleet.ask("record", "--hosts=store1")
    must(status == 1 and "Permissions Violation for Publish" in errors and ".record" in errors, errors)
    status, out, errors = bed.fleet.ask("record", "--for=8", "--hosts=store1", "--json", user="operator")
    must(status == 0 and json.loads(out)["host"] == "store1", (out, errors))
    # It is longer than the window: what the recorder has removed meanwhile was linked before.
    must(not list((host.folder / "run/window/store").glob("*.lost")), "a note of a loss")
    url = re.search(r"tracebraid report (\S+)' reads it", errors).group(1)
    report = bed.wait_read("it is stored", bool, "report", "--stats", url)
    seconds = sum(float(line.rpartition(": ")[2].split()[0]) for line in report.splitlines() if line.startswith("# recorded from"))
    must(seconds > 8, report)
    stored = [name for name in bed.store.captures() if run in name]
    bed.wait_files(2)
    must([name for name in bed.store.captures() if run in name] == stored and stored, stored)
    host.stop_service()
    host.conf.write_text(conf)
    host.start()
    bed.fleet.wait_recording()
    wait_for("the last file of that run", lambda: not list(bed.keepers["store1"].folder.glob(f"{run}*.link")))
    bed.checked |= {f"store1.{file}" for file in bed.keepers["store1"].complete() if run in file}


def case_denied(bed):
    """A host that may not store says so; what it records is lost with a word, not in silence."""
    host = bed.fleet.hosts[NAMES[0]]
    host.stop_service()
    conf = host.conf.read_text()
    host.conf.write_text(conf.replace("agent.credentials", "reader.credentials").replace("_INBOX_agent", "_INBOX_reader"))
    host.start()
    wait_for("a line", lambda: 'permission denied by the fleet\'s server: Permissions Violation for Publish to "$JS.API.DIRECT.GET'
             in bed.log(NAMES[0]))
    host.stop_service()
    must("and the fleet's store lacks" in bed.log(NAMES[0]), bed.log(NAMES[0]))
    host.conf.write_text(conf)
    host.start()
    bed.fleet.wait_recording()
    bed.check()


def case_disk_full(bed):
    """The disk below the store is full, of which the server of Debian 12 does not even say that; then it has room again."""
    folder = bed.fleet.folder / "disk"
    disk = folder / "jetstream"
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=True)
    other = None
    try:
        other = Bed(folder)
        case_made(other)
        counts = {name: other.log(name).count("has not answered for 5 s") for name in NAMES}
        for _ in range(3):
            other.burst()
            other.wait_files(1)
        wait_for("a line", lambda: all(other.log(name).count("has not answered for 5 s") > counts[name] or
                                       "refuses captures" in other.log(name) for name in NAMES))
        other.fleet.server.kill()
        subprocess.run(["mount", "-o", "remount,size=400m", disk], check=True)
        other.fleet.server.start()
        other.store.close()
        other.store = Store(other.fleet.server)
        other.wait_files(1)
        other.check()
    finally:
        if other:
            other.stop()
        subprocess.run(["umount", disk], check=True)


def main():
    """Runs all cases, or those that are named after the first two."""
    cases = [(name[5:], function) for name, function in globals().items() if name.startswith("case_")]
    chosen = [case for case in cases if len(sys.argv) < 2 or case[0] in ("made", *sys.argv[1:])]
    with tempfile.TemporaryDirectory(prefix="fleet.") as folder:
        bed = None
        try:
            bed = Bed(pathlib.Path(folder))
            for name, function in chosen:
                began = time.monotonic()
                function(bed)
                print(f"ok   store {name}", flush=True)
                if os.environ.get("V"):
                    print(f"     {time.monotonic() - began:.1f} s", flush=True)
        except Exception:
            for log in sorted(pathlib.Path(folder).glob("*/log")) + [pathlib.Path(folder) / "server.log"]:
                if log.exists():
                    print(f"{log.relative_to(folder)}:\n{log.read_text()[-2000:]}", file=sys.stderr)
            raise
        finally:
            if bed:
                bed.stop()


if __name__ == "__main__":
    main()

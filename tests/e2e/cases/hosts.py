# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of several hosts: recorders whose clocks differ by a known time exchange times, and their captures are merged."""

import base64
import heapq
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import threading
import time

import host
import trace_cmd
from harness import case
from host import make_initrd
from kit import (NEEDS, STORM, TREE, events_of, intact_storm, load, migrate, read_so_far,
                 stop_recorder, storm)
from nested.machine import libraries, put
from rig import boot_all

AHEAD_S = 1000  # of the second host's clock, by a time namespace


class Relay:
    """A network between two recorders on this machine: messages are late, lost, repeated and out of order."""

    def __init__(self, to_port):
        self._in = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._in.bind(("127.0.0.1", 0))
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._out.connect(("127.0.0.1", to_port))
        self.port = self._in.getsockname()[1]
        self._from, self._late, self._random = None, [], random.Random(7)
        self.sent = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self):
        """Ends it."""
        self._ends.set()
        self._thread.join()
        self._in.close()
        self._out.close()

    def _delay(self, there):
        """Asymmetric: 1 ms and more there, 200 µs and more back."""
        return (0.001 if there else 0.0002) + self._random.expovariate(1000)

    def _take(self, there):
        try:
            if there:
                data, self._from = self._in.recvfrom(4096)
            else:
                data = self._out.recv(4096)
        except ConnectionRefusedError:
            return  # nobody listens yet
        copies = self._random.choices((0, 1, 2), (10, 85, 5))[0]
        for _ in range(copies):
            heapq.heappush(self._late, (time.monotonic() + self._delay(there), self.sent, there, data))
            self.sent += 1

    def _run(self):
        while not self._ends.is_set():
            wait = max(0, self._late[0][0] - time.monotonic()) if self._late else 0.05
            ready, _, _ = select.select([self._in, self._out], [], [], min(wait, 0.05))
            for one in ready:
                self._take(one is self._in)
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, there, data = heapq.heappop(self._late)
                try:
                    if there:
                        self._out.send(data)
                    else:
                        self._in.sendto(data, self._from)
                except ConnectionRefusedError:
                    pass


def free_port():
    """A UDP port of this machine that nothing uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start_other(ctx, name, ahead_s, *arguments, **options):
    """A recorder on a host of that name, whose clock is ahead."""
    return ctx.start("unshare", "--uts", "--time", "--monotonic", str(ahead_s), "--fork", "--kill-child", "sh", "-c",
                     'hostname "$0"; exec "$@"', name, str(ctx.agent_path), "record", *map(str, arguments), name=name, **options)


def stop_other(other):
    """Ctrl-C for the recorder, which unshare started."""
    child, = pathlib.Path(f"/proc/{other.pid}/task/{other.pid}/children").read_text(encoding="utf-8").split()
    os.kill(int(child), signal.SIGINT)
    other.wait()


def events_of_host(lines, stream):
    """Events of a stream by place."""
    return {(line["cpu"], line.get("buffer"), line["seq"]): line for line in lines
            if line["type"] == "event" and line["stream"] == stream}


def check_truth(ctx, alone, merged, ahead_s=AHEAD_S, least=500):
    """Each event of another host is where its clock, less what that is ahead, shows it: within the bound."""
    ctx.equal(sorted(set(alone) ^ set(merged))[:3], [], "events that only one report has")
    bounded = {place: line for place, line in merged.items() if line.get("bound_ns") is not None}
    ctx.check(len(bounded) >= least, f"{len(bounded)} events with a bound, of {len(merged)}")
    for place, line in bounded.items():
        off = abs(line["ns"] - (alone[place]["ns"] - ahead_s * 10**9))
        ctx.check(off <= line["bound_ns"], f"{place} is {off} ns off, more than {line['bound_ns']}")


def has_namespaces(ctx):
    """Skips the case where hosts cannot be made."""
    if ctx.run("unshare", "--uts", "--time", "--monotonic", "1", "true", status=None).returncode:
        ctx.skip("this machine has no time namespaces for this user")


@case("hosts", usual=("6.12",), needs=NEEDS)
def hosts(ctx):
    """Two hosts, one of whose clocks is ahead by a known time, over a bad network: each event is within its bound."""
    has_namespaces(ctx)
    first, second = ctx.guest("first"), ctx.guest("second")
    boot_all([first, second])
    for guest in (first, second):
        load(guest)
    port = free_port()
    relay = Relay(port)
    ctx.defer(relay.close)
    captures = [ctx.dir / name for name in ("first.braid", "second.braid")]
    other = start_other(ctx, "other", AHEAD_S, "-r", f"{second.shm},name=web", f"--peer-listen=127.0.0.1:{port}",
                        "-o", captures[1])
    other.wait_line("^Recording", timeout=60)
    agent = ctx.agent("record", "-r", f"{first.shm},name=web", "--peer", f"127.0.0.1:{relay.port}", "--peer-rate", "100", "-o",
                      captures[0])
    agent.wait_line("^Recording", timeout=60)
    ctx.wait_until(lambda: relay.sent > 200, "messages between the recorders")
    for guest in (first, second):
        storm(guest, 2000)
    before = relay.sent
    ctx.wait_until(lambda: relay.sent > before + 200, "more messages")
    stop_other(other)
    agent.stop()
    merged, alone = events_of(ctx, *captures), events_of(ctx, captures[1])
    name, = {line["host"] for line in merged if line["type"] == "host" and line["clock"] != "the timeline"}
    check_truth(ctx, events_of_host(alone, "web"), events_of_host(merged, f"web@{name}"))
    # The same on the other host's clock.
    turned = events_of(ctx, captures[1], captures[0])
    ctx.equal(len([1 for line in turned if line["type"] == "event"]), len([1 for line in merged if line["type"] == "event"]),
              "events on the other clock")
    query = "SELECT count(DISTINCT host) AS hosts, count(*) AS events FROM events"
    rows = json.loads(ctx.run_agent("sql", "--json", *captures, query).stdout)
    ctx.equal(rows, {"hosts": 2, "events": len([1 for line in merged if line["type"] == "event"])}, "SQL's hosts and events")
    # A third one had no contact.
    third = start_other(ctx, "third", 2 * AHEAD_S, "-r", f"{second.shm},name=web", "-t", "1", "-o", ctx.dir / "third.braid")
    third.wait()
    done = ctx.run_agent("report", captures[0], ctx.dir / "third.braid", status=1)
    ctx.check("they exchanged no times" in done.stderr, f"of a host without contact: {done.stderr}")
    ctx.run_agent("report", "--unordered", captures[0], ctx.dir / "third.braid")


def chrony_programs(ctx):
    """chronyd and chronyc: this machine's, or of Debian's package, which is not installed."""
    found = [shutil.which(name, path="/usr/sbin:/usr/bin") for name in ("chronyd", "chronyc")]
    if all(found):
        return found
    if ctx.run("sh", "-c", f"cd {ctx.dir} && apt-get download chrony", status=None).returncode:
        ctx.skip("there is no chrony, and apt cannot get it")
    package, = ctx.dir.glob("chrony_*.deb")
    ctx.run("dpkg-deb", "-x", package, ctx.dir / "chrony")
    return [str(ctx.dir / "chrony/usr" / name) for name in ("sbin/chronyd", "bin/chronyc")]


class Chrony:
    """A host's chronyd, which does not set the clock, and a folder with a chronyc that asks it."""

    def __init__(self, ctx, programs, name, *lines):
        self.folder = ctx.dir / name
        self.folder.mkdir(mode=0o750)
        conf, socket_path = self.folder / "chrony.conf", self.folder / "socket"
        lines = *lines, f"pidfile {self.folder}/pid", f"bindcmdaddress {socket_path}", "cmdport 0", ""
        conf.write_text("\n".join(lines), encoding="utf-8")
        chronyc = self.folder / "chronyc"
        text = f'#!/bin/sh\nexec {programs[1]} -h {socket_path} "$@"\n'
        chronyc.write_text(text, encoding="utf-8")
        chronyc.chmod(0o755)
        self._chronyc, self._ctx = chronyc, ctx
        self.env = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        ctx.start(programs[0], "-x", "-U", "-u", "root", "-d", "-f", str(conf), name=name)

    def tracking(self):
        """What it declares: [] while it does not answer."""
        done = self._ctx.run(str(self._chronyc), "-c", "tracking", status=None)
        return done.stdout.strip().split(",") if not done.returncode else []

    def is_synchronized(self):
        """Whether it has measured."""
        return self.tracking()[-1:] == ["Normal"]


@case("hosts-declared", usual=("6.12",), needs=NEEDS)
def hosts_declared(ctx):
    """Hosts without contact, by what real chronyds declare: each event is within its bound."""
    has_namespaces(ctx)
    programs, port = chrony_programs(ctx), free_port()
    Chrony(ctx, programs, "server", "local stratum 8", "allow 127.0.0.1", f"port {port}")
    client = f"server 127.0.0.1 port {port} minpoll -2 maxpoll -2 iburst", "port 0"
    chronies = [Chrony(ctx, programs, name, *client) for name in ("chrony1", "chrony2")]
    lonely = Chrony(ctx, programs, "lonely", "port 0")
    ctx.wait_until(lambda: all(one.is_synchronized() for one in chronies), "both chronyds")
    ctx.wait_until(lonely.tracking, "the third chronyd")
    first, second = ctx.guest("first"), ctx.guest("second")
    boot_all([first, second])
    for guest in (first, second):
        load(guest)
    captures = [ctx.dir / name for name in ("first.braid", "second.braid", "third.braid")]
    web1, web2 = (f"{guest.shm},name=web" for guest in (first, second))
    other = start_other(ctx, "other", AHEAD_S, "-r", web2, "-o", captures[1], env=chronies[1].env)
    other.wait_line("^Recording", timeout=60)
    agent = ctx.agent("record", "-r", web1, "-o", captures[0], env=chronies[0].env)
    agent.wait_line("^Recording", timeout=60)
    for guest in (first, second):
        storm(guest, 2000)
    stop_other(other)
    agent.stop()
    arguments = "-r", web2, "-t", "1", "-o", captures[2]
    start_other(ctx, "third", 2 * AHEAD_S, *arguments, env=lonely.env).wait()
    merged, alone = events_of(ctx, *captures[:2]), events_of(ctx, captures[1])
    head, = [line for line in merged if line["type"] == "host" and line["clock"] != "the timeline"]
    ctx.equal(head["clock"], "declared by chrony", "the kind of the bound")
    check_truth(ctx, events_of_host(alone, "web"), events_of_host(merged, f"web@{head['host']}"))
    done = ctx.run_agent("report", captures[0], captures[2], status=1)
    ctx.check("is not synchronized; record with" in done.stderr, f"of a host alone: {done.stderr}")


@case("hosts-watch", usual=("6.12",), needs=NEEDS)
def hosts_watch(ctx):
    """watch, like the service, exchanges times with another host: the files of its window are merged with that host's."""
    has_namespaces(ctx)
    first, second = ctx.guest("first"), ctx.guest("second")
    boot_all([first, second])
    for guest in (first, second):
        load(guest)
    port = free_port()
    relay = Relay(port)
    ctx.defer(relay.close)
    capture = ctx.dir / "second.braid"
    other = start_other(ctx, "other", AHEAD_S, "-r", f"{second.shm},name=web", f"--peer-listen=127.0.0.1:{port}", "-o", capture)
    other.wait_line("^Recording", timeout=60)
    agent = ctx.agent("watch", "-r", first.shm, "-e", "storm", "--host", "none", "--peer", f"127.0.0.1:{relay.port}",
                      "--peer-rate", "50", "lost > 1000000")
    agent.wait_line("watching; until Ctrl-C", timeout=60)
    child, = pathlib.Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text(encoding="utf-8").split()[:1]
    words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
    window = pathlib.Path(words[words.index("-o") + 1]).parent
    storm(second, 2000)
    before = relay.sent
    ctx.wait_until(lambda: relay.sent > before + 400, "messages between the recorders")
    os.kill(int(child), signal.SIGUSR1)
    ctx.wait_until(lambda: len(list(window.glob("window-*.braid"))) > 1, "another file of the recording")
    stop_other(other)
    kept = shutil.copy(window / "window-1.braid", ctx.dir)
    agent.stop()
    merged, alone = events_of(ctx, kept, capture), events_of(ctx, capture)
    head, = [line for line in merged if line["type"] == "host" and line["clock"] != "the timeline"]
    ctx.check(head["clock"].startswith("proven given wander"), f"the kind of the bound: {head}")
    check_truth(ctx, events_of_host(alone, "web"), events_of_host(merged, f"web@{head['host']}"))


TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
CHAIN = {"front": 0, "app": AHEAD_S, "db": 2 * AHEAD_S}  # hosts by how far their clocks are ahead; front and db have no contact
STEPS = (("front", "GET /cart"), ("app", "cart of user 7"), ("db", "SELECT 3 rows"), ("app", "3 items"), ("front", "200 OK"))


def record_chain(ctx, guests):
    """A recorder on each host, of which app's exchanges times with both others. Returns them, when they all have."""
    port, agents = free_port(), {}
    for name in ("app", "front", "db"):
        peer = (f"--peer-listen=127.0.0.1:{port}",) if name == "app" else ("--peer", f"127.0.0.1:{port}", "--peer-rate", "100")
        agents[name] = start_other(ctx, name, CHAIN[name], "-r", f"{guests[name].shm},name=web", "-e", "user", "-e", "sched", *peer,
                                   "-o", ctx.dir / f"{name}.braid")
        agents[name].wait_line("^Recording", timeout=60)
    return agents


@case("hosts-chain", usual=("6.12",), needs=NEEDS)
def hosts_chain(ctx):
    """A request crosses guests of three hosts, two of which have no contact: it is in order on one page, within the bounds."""
    has_namespaces(ctx)
    ctx.initrd(host.ROOT / "guest_driver/tracebraid-marker")
    guests = {name: ctx.guest(name) for name in CHAIN}
    boot_all(list(guests.values()))
    for guest in guests.values():
        guest.insmod("tracebraid")
    agents = record_chain(ctx, guests)
    for name, step in STEPS:
        guests[name].run(f"tracebraid-marker --trace-id={TRACE_ID} '{step}'")
    captures = {name: ctx.dir / f"{name}.braid" for name in CHAIN}
    query = f"SELECT host, text FROM events WHERE text LIKE '%trace_id={TRACE_ID}%' ORDER BY ns"
    ctx.wait_until(lambda: "200 OK" in ctx.run_agent("sql", "--json", captures["front"], query).stdout, "the last step in its capture")
    for agent in agents.values():
        stop_other(agent)
    files = list(captures.values())
    lines = events_of(ctx, *files)
    clocks = {line["host"]: line["clock"] for line in lines if line["type"] == "host"}
    ctx.equal(list(clocks), list(CHAIN), "hosts")
    ctx.check("by way of app" in clocks["db"] and "by way of" not in clocks["app"], f"clocks: {clocks}")
    bounds = {line["host"]: line["bound_ns"] for line in lines if line["type"] == "host"}
    ctx.check(bounds["db"] > bounds["app"] > 0, f"bounds add up: {bounds}")
    for name, ahead_s in CHAIN.items():
        alone = events_of_host(events_of(ctx, captures[name]), "web")
        check_truth(ctx, alone, events_of_host(lines, f"web@{name}"), ahead_s, 100)
    for order in (files, files[::-1]):
        rows = [json.loads(row) for row in ctx.run_agent("sql", "--json", *order, query).stdout.splitlines()]
        found = [(row["host"], row["text"].rpartition(f"trace_id={TRACE_ID} ")[2].strip('"')) for row in rows]
        ctx.check([one for one, _ in found] == [name for name, _ in STEPS], f"the request's hosts, in order: {rows}")
        ctx.check(all(step in text for (_, step), (_, text) in zip(STEPS, found)), f"the request's steps: {rows}")
    page = ctx.dir / "request.html"
    ctx.run_agent("export", *files, "--to", "html", "-o", page)
    ctx.check(page.stat().st_size > 10000, "a page of three hosts")
    ctx.run_agent("export", *files, "--to", "trace.dat", "-o", ctx.dir / "out")
    ctx.check(len(list(ctx.dir.glob("out-*.dat"))) >= 6, "files of three hosts and their guests")


def start_beside(ctx, other, *arguments, **options):
    """Another recorder on the host of one that start_other() started."""
    child, = pathlib.Path(f"/proc/{other.pid}/task/{other.pid}/children").read_text(encoding="utf-8").split()
    return ctx.start("nsenter", "--target", child, "--uts", "--time", "--", str(ctx.agent_path), "record", *map(str, arguments),
                     **options)


def check_moved(ctx, files, turned, offered):
    """One guest of two hosts: each event once, and where its own host's capture alone shows it; by the other clock if turned."""
    lines = events_of(ctx, *(files[::-1] if turned else files))
    guests = [line for line in lines if line["type"] == "stream" and line["kind"] == "guest"]
    guest, = [line for line in guests if line["stream"].startswith("web@")]
    ctx.equal(sorted("stays" in line for line in guests), [False, False, True], "a guest on two hosts at a time is two")
    hosts = [stay["host"] for stay in guest["stays"]]
    ctx.check(all(stay["vcpus"] and stay["clock"] for stay in guest["stays"]), f"threads and clocks: {guest['stays']}")
    ctx.equal((len(hosts), hosts[1], guest["epochs"] > 1), (2, "there", True), f"where the guest was: {guest}")
    ctx.equal(guest["stream"], f"web@{hosts[0]}+there", "its name")
    seen = intact_storm(ctx, lines, guest["stream"])
    query = "SELECT coalesce(sum(lost), 0) AS lost FROM losses WHERE stream LIKE 'web@%'"
    lost = json.loads(ctx.run_agent("sql", "--json", *files, query).stdout)["lost"]
    ctx.equal((guest["read"], guest["lost"]), (len(seen), lost), "its account: what both have counts once")
    ctx.equal(len(seen) + lost, offered, f"events seen and lost ({lost})")
    here, there = (events_of_host(events_of(ctx, one), "web") for one in files[:2])
    merged = events_of_host(lines, guest["stream"])
    ctx.check(set(here) & set(there), "no event that both captures have")
    ctx.equal(sorted(set(here) | set(there)), sorted(merged), "events of both captures")
    # What happened before it moved is not known to the other host alone.
    there = {place: line for place, line in there.items() if place not in here}
    for alone, ahead_s in ((here, -AHEAD_S * turned), (there, AHEAD_S * (not turned))):
        ctx.check(len(alone) > 500, f"{len(alone)} events of a host")
        for place, line in alone.items():
            off = abs(merged[place]["ns"] - (line["ns"] - ahead_s * 10**9))
            bounds = (merged[place].get("bound_ns"), line.get("bound_ns"))
            ctx.check(None in bounds or off <= sum(bounds), f"{place} is {off} ns off, more than {bounds}")
    return guest["stream"], hosts


def check_moved_forms(ctx, files, name, hosts):
    """SQL, analyses and exports have one guest, of both hosts."""
    query = f"SELECT host, count(*) AS events FROM events WHERE stream = '{name}' GROUP BY host"
    rows = [json.loads(row) for row in ctx.run_agent("sql", "--json", *files, query).stdout.splitlines()]
    ctx.equal(sorted(row["host"] for row in rows), sorted(hosts), f"hosts of its events: {rows}")
    states = json.loads(ctx.run_agent("analyze", "states", "--json", *files).stdout)["vcpu_states"]
    states = [row for row in states if row["vcpu"].startswith("web@")]
    ctx.equal([row["vcpu"] for row in states], [f"{name}/vCPU {number}" for number in range(len(states))], "vCPUs")
    query = "SELECT vcpu, sum(duration_ns) AS ns, count(DISTINCT host) AS hosts FROM vcpu_state WHERE stream LIKE 'web@%' GROUP BY vcpu"
    rows = [json.loads(row) for row in ctx.run_agent("sql", "--json", *files, query).stdout.splitlines()]
    ctx.equal([(row["ns"], row["hosts"]) for row in rows], [(row["observed_ns"], 2) for row in states], "time of states, and hosts")
    proven = [row["observed_ns"] - row["unknown_ns"] for row in states]
    ctx.check(all(proven), f"nothing is known of a vCPU: {states}")
    for form in ("html", "perfetto", "ctf"):
        ctx.run_agent("export", *files, "--to", form, "-o", ctx.dir / f"moved.{form}", timeout=120)
    ctx.check(name.encode() in (ctx.dir / "moved.perfetto").read_bytes(), "its name in Perfetto's file")
    ctx.run_agent("export", *files, "--to", "trace.dat", "-o", ctx.dir / "dat", timeout=120)
    query = f"SELECT count(*) AS nr FROM events WHERE stream = '{name}'"
    nr = json.loads(ctx.run_agent("sql", "--json", *files, query).stdout)["nr"]
    shown = trace_cmd.run("trace-cmd", "report", "-i", ctx.dir / f"dat-{name.replace('@', '_').replace('+', '_')}.dat")
    shown = [line for line in shown if re.search(r"\] +\S* *\d+\.\d+: ", line)]
    ctx.equal(sum(": note:" not in line for line in shown), nr, "events of trace.dat")
    for host in hosts:
        options = "\n".join(trace_cmd.run("trace-cmd", "dump", "--options", "-i", ctx.dir / f"dat-{host}.dat"))
        ctx.check(name in options, f"the guest among those of {host}: {options}")


@case("hosts-migrate", usual=("6.12",), needs=NEEDS)
def hosts_migrate(ctx):
    """A guest is migrated to another host while it writes: one stream, each event once, by the clock of the host where it was."""
    has_namespaces(ctx)
    guest, idle = (ctx.guest(name, shm=None, mem="256M") for name in ("here", "idle"))
    boot_all([guest, idle])
    for one in (guest, idle):
        load(one)
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    files = [ctx.dir / f"{name}.braid" for name in ("here", "there", "times-here", "times-there")]
    # On each host one recorder exchanges times; another one records the guest while it is there.
    port, idle = free_port(), ("-r", f"pid:{idle.pid},name=idle")
    ends = start_other(ctx, "there", AHEAD_S, *idle, f"--peer-listen=127.0.0.1:{port}", "-o", files[3])
    ends.wait_line("^Recording", timeout=60)
    begins = ctx.agent("record", *idle, "--peer", f"127.0.0.1:{port}", "--peer-rate", "100", "-o", files[2])
    begins.wait_line("^Recording", timeout=60)
    recorder = ctx.agent("record", "-r", f"pid:{guest.pid},name=web", "--host=sched", "-o", files[0])
    recorder.wait_line("^Recording", timeout=60)
    storm(guest, 1000)
    guest.post(f"echo 20000 > {STORM}/run")
    ctx.wait_until(lambda: files[0].stat().st_size > 1 << 20, "events of the storm in the capture", timeout=60)
    there = migrate(ctx, guest, "there", "-S")
    stop_recorder(ctx, recorder)
    ctx.check("was migrated" not in recorder.output(), "the recorder of the first host sees the other one's guest")
    recorder = start_beside(ctx, ends, "-r", f"pid:{there.pid},name=web", "--backlog", "--host=sched", "-o", files[1])
    there.qmp("cont")
    recorder.wait_line("^Recording", timeout=60)
    there.link.ready = guest.link.ready  # it is the same boot
    offered = storm(there, 1000)
    ctx.wait_until(lambda: read_so_far(ctx, files[1]) > 1000, "events of the other host in its capture")
    stop_recorder(ctx, recorder)
    begins.stop()
    stop_other(ends)
    check_moved(ctx, files, True, offered)
    name, known = check_moved(ctx, files, False, offered)
    check_moved_forms(ctx, files, name, known)


def host_initrd(ctx):
    """An initramfs whose guest is a host: it has the agent, and a network card."""
    card = ctx.kernel_module("drivers/net/ethernet/intel/e1000/e1000")
    initrd = make_initrd(ctx.dir / "host.cpio", ctx.krel, [card])
    tree = ctx.dir / "tree"
    for path in ("/bin/tracebraid", *libraries(ctx.agent_path)):
        put(tree, path, ctx.agent_path if path == "/bin/tracebraid" else path)
    names = b"\0".join(str(path.relative_to(tree)).encode() for path in sorted(tree.rglob("*")))
    with open(initrd, "ab") as to:
        to.write(b"\0" * (-to.tell() % 4))
        to.flush()
        cpio = "cpio", "--quiet", "--null", "-o", "-H", "newc", "-R", "0:0"
        subprocess.run(cpio, cwd=tree, input=names, stdout=to, check=True)
    return initrd


def fetch(guest, path, to):
    """Copies a file out of a guest."""
    to.write_bytes(base64.b64decode(guest.run(f"base64 {path}", timeout=120)))


@case("hosts-packets", usual=("6.12",), possible=("6.1", "6.12", "newest"), needs=("agent",))
def hosts_packets(ctx):
    """Packets that two emulated hosts record tie their clocks, and do not contradict messages."""
    initrd, ports = host_initrd(ctx), (free_port(), free_port())
    hosts = []
    for number in (0, 1):
        net = (f"dgram,id=n,local.type=inet,local.host=127.0.0.1,local.port={ports[number]},"
               f"remote.type=inet,remote.host=127.0.0.1,remote.port={ports[1 - number]}")
        hosts.append(ctx.guest(f"host{number}", shm=None, initrd=initrd, mem="1G", qemu_args=(
            "-netdev", net, "-device", f"e1000,netdev=n,romfile=,mac=52:54:00:00:00:0{number}")))
    boot_all(hosts)
    for number, one in enumerate(hosts):
        one.run("mkdir -p /dev/shm; mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || :\n"
                "[ ! -e /mod/e1000.ko ] || insmod /mod/e1000.ko\nip link set lo up\n"
                f"ip addr add 10.9.0.{number + 1}/24 dev eth0 && ip link set eth0 up")
    first, second = hosts
    first.sh("for k in 1 2 3 4 5 6 7 8 9 10; do ping -c 1 -W 2 10.9.0.2 && break; done", timeout=60)
    recorders = []
    for one, peer in zip(hosts, ("--peer=10.9.0.2", "--peer-listen")):
        options = f"{peer} --host=sched:sched_process_exit -o /tmp/host.braid"
        recorders.append(one.bg(f"exec tracebraid record --packets {options} 2>/tmp/log"))
        ctx.wait_until(lambda one=one: "Recording" in one.run("cat /tmp/log"), "a recording")
    server = second.bg("nc -l -p 7000 >/dev/null")
    sockets = "cat /proc/net/tcp /proc/net/tcp6 || :"
    ctx.wait_until(lambda: "1B58" in second.run(sockets), "the server to listen")
    numbers = " ".join(map(str, range(20)))
    first.run(f"for k in {numbers}; do echo $k; sleep 0.1; done | nc 10.9.0.2 7000", timeout=120)
    server.wait()
    for one in hosts:
        one.run("kill -INT $(pidof tracebraid) || :")
    for recorder in recorders:
        ctx.equal(recorder.wait(60), 0, "a recorder's status")
    captures = [ctx.dir / f"{one.name}.braid" for one in hosts]
    for one, capture in zip(hosts, captures):
        fetch(one, "/tmp/host.braid", capture)
    head, = [line for line in events_of(ctx, *captures)
             if line["type"] == "host" and line["clock"] != "the timeline"]
    print(f"     {head}")
    ctx.check("also by packets" in head["clock"], f"the kind of the bound: {head}")
    for one in hosts:
        ctx.equal(one.run("cat /sys/kernel/tracing/dynamic_events"), "", "probes that are left")

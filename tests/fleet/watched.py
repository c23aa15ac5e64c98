# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshots of all hosts when one sees a condition."""

import datetime
import json
import re
import signal

import kit
from kit import NAMES, must, wait_for


def taken_at(path):
    """When a snapshot was begun, in ms, by the name of its folder."""
    return datetime.datetime.strptime(path.parent.name[:19], "%Y%m%dT%H%M%S.%f").timestamp() * 1000


def snapshots(host, name=""):
    """The complete snapshots of a host whose reason begins so."""
    return [why for why in sorted((host.folder / "snapshots").glob("*/why.txt")) if why.read_text().startswith(name)]


def armed(fleet, on, *words, hosts=3):
    """Starts a request that waits for a condition; returns it when all hosts do."""
    asks = fleet.begin("snapshot", f"--on={on}", "--json", *words, user="operator")
    line = asks.stderr.readline()
    if f"{hosts} hosts wait for the condition" not in line:
        asks.kill()
        must(False, line)
    return asks


def fire(fleet, *names):
    """Stops guests, until it is called without them; then it waits until they are not silent any more."""
    for name, host in fleet.hosts.items():
        host.guest.send_signal(signal.SIGSTOP if name in names else signal.SIGCONT)
    wait_for("all give a sign", lambda: names or all((host.metric("tracebraid_guest_silent_seconds") or 0) < 1
                                                     for host in fleet.hosts.values()))


def watched(fleet, asks):
    """The rows, the messages and the new snapshots of a request that was armed: one of each host."""
    out, errors = asks.communicate(timeout=kit.LIMIT_S)
    must(asks.returncode == 0, (out, errors))
    rows = {row["host"]: row["snapshot"] for row in map(json.loads, out.splitlines())}
    must(set(rows) == set(NAMES) and len(out.splitlines()) == 3, (out, errors))
    return errors, {host: fleet.hosts[host].folder / "snapshots" / name / "why.txt" for host, name in rows.items()}


def case_watched(fleet):
    """A condition on one host has all take a snapshot, once; a reader cannot ask for that."""
    status, _, errors = fleet.ask("snapshot", "--on=*/* silent > 1s", "--timeout=60")
    must(status == 1 and "Permissions Violation for Publish" in errors and ".watch" in errors, errors)
    for on, why in [("*/* nonesuch > 1", "'nonesuch' cannot be watched"), ("rack1-a silent > 1s", "expected HOSTS/GUESTS"),
                    ("rack9/* silent > 1s", "no host of the fleet matches 'rack9'")]:
        status, _, errors = fleet.ask("snapshot", f"--on={on}", user="operator")
        must(status == 1 and why in errors, (on, errors))
    status, _, errors = fleet.ask("snapshot", "--on=*/* lost > 1000000", "--for=1", user="operator")
    must(status == 3 and errors.count("no host has seen the condition within 1 s") == 3, errors)
    try:
        asks = armed(fleet, "rack1-a/guest-* silent > 1s")
        fire(fleet, "rack1-a")
        errors, whys = watched(fleet, asks)
        must(errors.startswith("tracebraid: rack1-a: guest-rack1-a has been silent") or
             "rack1-a: guest-rack1-a has been silent" in errors, errors)
        must(whys["rack1-a"].read_text().startswith("guest-rack1-a has been silent for"), whys["rack1-a"].read_text())
        for name in NAMES[1:]:
            must(whys[name].read_text().startswith("rack1-a: guest-rack1-a has been silent for"), whys[name].read_text())
            print(f"     {name} follows {taken_at(whys[name]) - taken_at(whys['rack1-a']):.0f} ms later", flush=True)
        fire(fleet)
        # Both see it, and their snapshots have one name: each host takes one.
        before = {name: len(snapshots(fleet.hosts[name])) for name in NAMES}
        asks = armed(fleet, "rack1-*/* silent > 1s")
        fire(fleet, "rack1-a", "rack1-b")
        watched(fleet, asks)
        after = {name: len(snapshots(fleet.hosts[name])) - 1 for name in NAMES}
        must(after == before, (before, after))
        fire(fleet)
        # Who has asked is killed: the hosts go on. An interrupted request ends that.
        before = {name: len(snapshots(fleet.hosts[name])) for name in NAMES}
        asks = armed(fleet, "rack2-c/* silent > 1s")
        asks.kill()
        asks.communicate()
        fire(fleet, "rack2-c")
        wait_for("all take one", lambda: all(len(snapshots(fleet.hosts[name])) > before[name] for name in NAMES))
        fire(fleet)
        several = [armed(fleet, "*/* lost > 1000000") for _ in range(4)]
        status, _, errors = fleet.ask("snapshot", "--on=*/* lost > 1000000", user="operator")
        must(status == 3 and errors.count("busy: it waits for 4 conditions already") == 3, errors)
        for asks in several:
            asks.send_signal(signal.SIGINT)
            asks.communicate(timeout=kit.LIMIT_S)
        for asks in [armed(fleet, "*/* lost > 1000000") for _ in range(4)]:
            asks.send_signal(signal.SIGINT)
            asks.communicate(timeout=kit.LIMIT_S)
        # The server is away when it happens: the others follow later, and the request reports all.
        before = {name: len(snapshots(fleet.hosts[name])) for name in NAMES}
        asks = armed(fleet, "rack1-a/* silent > 1s")
        fleet.server.kill()
        fire(fleet, "rack1-a")
        wait_for("it takes its own", lambda: len(snapshots(fleet.hosts["rack1-a"])) > before["rack1-a"])
        must(all(len(snapshots(fleet.hosts[name])) == before[name] for name in NAMES[1:]), "without a server")
        fleet.server.start()
        wait_for("the others follow", lambda: all(len(snapshots(fleet.hosts[name])) > before[name] for name in NAMES))
        errors, whys = watched(fleet, asks)
        must("connection to the server was lost" in errors and "connected to the server again" in errors, errors)
        must(errors.count("guest-rack1-a has been silent for") == 1, errors)
        must(all("guest-rack1-a has been silent for" in why.read_text() for why in whys.values()), whys)
        fire(fleet)
    finally:
        fire(fleet)
    fleet.wait_recording()


def case_watched_interrupted(fleet):
    """The server is killed while a request waits: it goes on waiting, or says what it does not know."""
    asks = armed(fleet, "rack1-a/* silent > 1s")
    for _ in range(2):
        fleet.server.kill()
        must("connection to the server was lost" in asks.stderr.readline(), "it is not said")
        fleet.server.start()
        must("connected to the server again" in asks.stderr.readline(), "it is not said")
    try:
        fire(fleet, "rack1-a")
        watched(fleet, asks)
    finally:
        fire(fleet)
    # A host whose process for the fleet was started again has forgotten it.
    asks = armed(fleet, "rack1-a/* lost > 1000000", "--for=10")
    fleet.server.kill()
    fleet.hosts["rack2-c"].kill()
    fleet.hosts["rack2-c"].start()
    fleet.server.start()
    _, errors = asks.communicate(timeout=kit.LIMIT_S)
    must(asks.returncode == 3 and errors.count("no host has seen the condition within 10 s") == 2, errors)
    must("rack2-c: it no longer has the answers to this request" in errors, errors)
    fleet.wait_recording()
    # The server does not come back.
    asks = armed(fleet, "*/* lost > 1000000", "--for=1")
    fleet.server.kill()
    _, errors = asks.communicate(timeout=kit.LIMIT_S)
    fleet.server.start()
    must(asks.returncode == 3 and errors.count("is not known: the server cannot be reached") == 3, errors)
    fleet.wait_recording()


def case_watched_event(fleet):
    """Events of a guest on one host have all take a snapshot; an event that is not recorded is refused."""
    status, _, errors = fleet.ask("snapshot", "--on=*/* test:count", user="operator")
    must(status == 3 and errors.count("test:count is not recorded: name it in 'events' of [record]") == 3, errors)
    status, _, errors = fleet.ask("snapshot", "--on=*/* sched:sched_switch if number >", user="operator")
    must(status == 1 and "number >" in errors, errors)
    condition = "sched:sched_switch > 1500 for 1s if number > 0 && CPU < 2"      # 500 without the burst
    asks = armed(fleet, f"rack1-a/guest-* {condition}")
    fleet.hosts["rack1-a"].guest.send_signal(signal.SIGUSR1)
    _, whys = watched(fleet, asks)
    why = whys["rack1-a"].read_text()
    must(re.fullmatch(r"guest-rack1-a recorded \d+ events within \d\.\d+ s, one of them sched:sched_switch in task \S+\[1\] "
                      r"on vCPU [01] at \d+\.\d{9} " + re.escape(f"({condition})\n"), why), why)
    must(whys["rack2-c"].read_text() == f"rack1-a: {why}", whys["rack2-c"].read_text())

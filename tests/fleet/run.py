#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Three services and a real nats-server: what they answer, who may ask, and what is said when one of them fails."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import kit
import login
import watched
from kit import NAMES, must, wait_for
from peer import Crowd, Peer, message
from watched import taken_at

VALUES = "WITH t(k, x) AS (VALUES (1, 1), (1, 2), (2, NULL), (2, 5), (2, 0.5)) "
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "


def questions(folder):
    """The processes that answer questions on a host's window."""
    found = []
    for line in subprocess.run(["pgrep", "-af", str(folder)], capture_output=True, text=True, check=False).stdout.splitlines():
        if "tracebraid sql" in line and "question-" in line:
            found.append(line)
    return found


def case_list(fleet):
    """Each host is a row, and so is one that was named and is not there."""
    rows = fleet.rows("list")
    must([row["host"] for row in rows] == NAMES, rows)
    must(all(row["guests"] == 1 and row["round_trip_ns"] > 0 for row in rows), rows)
    rows = fleet.rows("list", "--hosts=rack1-*,ghost", status=3)
    must([row["host"] for row in rows] == ["ghost", "rack1-a", "rack1-b"], rows)
    must(rows[0]["error"] == "not connected to the server", rows)
    status, out, _ = fleet.ask("list", "--hosts=ghost,rack2-c")
    must(status == 3 and re.search(r"^ghost +- +not connected", out, re.M), out)


def case_combined(fleet):
    """What is combined is what one database of all rows has."""
    rows = fleet.rows("sql", VALUES + "SELECT k, count(*) AS n, count(x) c, sum(x) s, min(x), max(x) m, avg(x) a, "
                      "round(sum(x) / count(*), 3) r FROM t GROUP BY k HAVING count(*) > 1 ORDER BY m DESC")
    must(rows == [{"k": 2, "n": 9, "c": 6, "s": 16.5, "min(x)": 0.5, "m": 5, "a": 2.75, "r": 1.833},
                  {"k": 1, "n": 6, "c": 6, "s": 9, "min(x)": 1, "m": 2, "a": 1.5, "r": 1}], rows)
    rows = fleet.rows("sql", VALUES + "SELECT host, sum(x) FILTER (WHERE x > 1) AS s FROM t GROUP BY host ORDER BY host")
    must(rows == [{"host": name, "s": 7} for name in NAMES], rows)
    rows = fleet.rows("sql", VALUES + "SELECT DISTINCT x FROM t WHERE x > 0 ORDER BY 1 DESC LIMIT 2 OFFSET 1")
    must(rows == [{"x": 2}, {"x": 1}], rows)
    rows = fleet.rows("sql", VALUES + "SELECT x, 'it''s' AS text FROM t WHERE x = 5 ORDER BY host")
    must(rows == [{"host": name, "x": 5, "text": "it's"} for name in NAMES], rows)
    # A histogram: the counts of equal buckets are added.
    rows = fleet.rows("sql", "WITH t(k, x) AS (VALUES (1, 1), (1, 3), (1, 7), (2, 1500)) SELECT k, (x >= 2) + (x >= 1000) AS bucket, "
                      "count(*) AS n, sum(x) AS s FROM t GROUP BY k, bucket ORDER BY k, bucket")
    must(rows == [{"k": 1, "bucket": 0, "n": 3, "s": 3}, {"k": 1, "bucket": 1, "n": 6, "s": 30}, {"k": 2, "bucket": 2, "n": 3, "s": 4500}], rows)
    rows = fleet.rows("sql", "WITH t(k, x) AS (VALUES (1, 1), (1, 3), (1, 7), (2, 1500), (2, NULL)) SELECT k, histogram(x) AS h, "
                      "histogram_percentile(histogram(x), 50) AS p50, count(x) AS n FROM t GROUP BY k ORDER BY k")
    must(rows == [{"k": 1, "h": "[[1,3],[3,3],[7,3]]", "p50": 3, "n": 9}, {"k": 2, "h": "[[1408,3]]", "p50": 1408, "n": 3}], rows)
    rows = fleet.rows("sql", "SELECT histogram(duration_ns) AS h, count(*) AS n FROM vcpu_state")
    must(sum(count for _, count in json.loads(rows[0]["h"])) == rows[0]["n"], rows)
    rows = fleet.rows("sql", "SELECT stream, count(*) AS n, max(ns) >= min(ns) AS o FROM events GROUP BY stream ORDER BY stream")
    must([row["stream"] for row in rows] == [f"guest-{name}" for name in NAMES] and all(row["n"] > 0 for row in rows), rows)
    few = fleet.rows("sql", "SELECT count(*) AS n FROM events", "--since=-1s")
    many = fleet.rows("sql", "SELECT count(*) AS n FROM events")
    must(0 < few[0]["n"] <= many[0]["n"], (few, many))


def case_refused(fleet):
    """What cannot be combined is refused by its name, before any host is asked."""
    for statement, why in [
            ("SELECT count(DISTINCT x) FROM t", "count(DISTINCT ...) cannot be combined"),
            ("SELECT group_concat(x) FROM t", "group_concat() cannot be combined"),
            ("SELECT x FROM t UNION SELECT 1", "UNION cannot be combined"),
            ("SELECT row_number() OVER () FROM t", "row_number() OVER is not computed across hosts"),
            ("SELECT x, count(*) FROM t", "'x' is neither in an aggregate nor a term of GROUP BY"),
            ("SELECT count(*) + (SELECT 1) FROM t", "a subquery beside aggregates"),
            ("DELETE FROM t", "expected one SELECT"),
            ("SELECT 1; SELECT 2", "; cannot be combined")]:
        status, out, errors = fleet.ask("sql", statement)
        must(status == 1 and why in errors and not out, (statement, status, errors))
    status, _, errors = fleet.ask("sql", "SELECT histogram(-1) FROM events")
    must(status == 3 and errors.count("histogram() counts numbers from 0") == 3, errors)
    status, _, errors = fleet.ask("sql", "SELECT nonesuch FROM events")
    must(status == 1 and errors.count("no such column: nonesuch") == 3, errors)


def case_permissions(fleet):
    """Who may read cannot ask for a snapshot: the server says so, at once. Neither can who is unknown."""
    began = time.monotonic()
    status, _, errors = fleet.ask("snapshot", "--timeout=60")
    must(status == 1 and "Permissions Violation for Publish" in errors and ".snapshot" in errors, errors)
    must(time.monotonic() - began < 60, "a timeout, not an error")
    fleet.server.credentials["nobody"] = fleet.folder / "nobody.credentials"
    fleet.server.credentials["nobody"].write_text("nobody wrong\n")
    status, _, errors = fleet.ask("list", user="nobody")
    must(status == 1 and "cannot connect" in errors and "Authorization" in errors, errors)
    must(fleet.rows("list", user="operator"), "an NKey")
    done = subprocess.run(fleet.command(["list"], "reader", ca="/etc/ssl/certs/ca-certificates.crt"),
                          capture_output=True, text=True, timeout=kit.LIMIT_S, check=False)
    must(done.returncode == 1 and "cannot connect" in done.stderr and "SSL" in done.stderr, done.stderr)


def case_limits(fleet):
    """A statement has limits of rows and time; what asks no longer ends it."""
    status, out, errors = fleet.ask("sql", ENDLESS + "SELECT i FROM n", "--rows=1000", "--json")
    must(status == 3 and len(out.splitlines()) == 3000 and errors.count("more than 1000 rows") == 3, (status, errors))
    status, out, errors = fleet.ask("sql", ENDLESS + "SELECT i, hex(zeroblob(300 + i % 7)) AS x FROM n", "--rows=5000", "--json")
    must(status == 3 and len(out.splitlines()) == 15000 and "not valid" not in errors, (status, errors))
    status, out, errors = fleet.ask("sql", ENDLESS + "SELECT count(*) FROM n", "--seconds=1", "--hosts=rack1-a")
    must(status == 3 and "rack1-a: not finished after 1 s" in errors, (status, errors))
    status, out, errors = fleet.ask("sql", ENDLESS.replace("RECURSIVE", "RECURSIVE m AS MATERIALIZED "
                                    "(SELECT i, randomblob(1000000) AS b FROM n LIMIT 200),")
                                    + "SELECT count(*) FROM m AS one, m AS two", "--hosts=rack1-a")
    must(status == 3 and "rack1-a: out of memory" in errors, (status, out, errors))
    rows = fleet.rows("sql", ENDLESS + "SELECT i FROM n LIMIT 5")
    must(len(rows) == 5, rows)
    asks = fleet.begin("sql", ENDLESS + "SELECT count(*) FROM n")
    wait_for("three questions", lambda: len(questions(fleet.folder)) == 3)
    asks.send_signal(signal.SIGINT)
    asks.communicate(timeout=kit.LIMIT_S)
    must(asks.returncode == 1, "interrupted")
    wait_for("no question", lambda: not questions(fleet.folder))


def case_analyze(fleet):
    """The worst of all hosts, by the analysis' own column."""
    rows = fleet.rows("analyze", "states", "--top=4")
    must(len(rows) == 4 and all(row["host"] in NAMES and row["vcpu"].startswith("guest-") for row in rows), rows)
    status, _, errors = fleet.ask("analyze", "stel")
    must(status == 1 and "did you mean 'steal'" in errors, errors)


def case_profile(fleet):
    """Stacks of all hosts, the host first: each as its host has it. A host without one is a row, too."""
    sent = {"crowd1": b"g1;vCPU 0;sh[7];main 5\ng1;vCPU 0;[halted] 7\n", "crowd2": b"g1;vCPU 0;sh[7];main 11\n", "crowd3": b"",
            "crowd4": b"g1;main 5 ns\n"}

    def answers(name):
        return lambda word, number, body: [message("rows", number, 0, sent[name]), message("end", number, 1)] if sent[name] else [
            message("end", number, 0)]

    peers = [Peer(fleet.server, name, answers(name)) for name in sent]
    try:
        status, out, errors = fleet.ask("analyze", "profile", "--folded", "--hosts=crowd*")
    finally:
        for peer in peers:
            peer.close()
    must(status == 3 and "crowd4: it has sent a stack that is not valid" in errors, (status, errors))
    must(sorted(out.splitlines()) == ["crowd1;g1;vCPU 0;[halted] 7", "crowd1;g1;vCPU 0;sh[7];main 5", "crowd2;g1;vCPU 0;sh[7];main 11",
                                      "crowd3;[no stack] 0"], out)
    status, out, errors = fleet.ask("analyze", "profile", "--folded")
    must(status == 0 and {line.partition(";")[0] for line in out.splitlines()} == set(NAMES), (status, out, errors))
    must(all(re.fullmatch(r"(\S+);guest-\1;vCPU \d+.* \d+", line) for line in out.splitlines()), out)
    rows = fleet.rows("analyze", "profile")
    must({row["host"] for row in rows} == set(NAMES) and all(row["total_ns"] > 0 for row in rows), rows)
    status, _, errors = fleet.ask("analyze", "steal", "--folded")
    must(status == 1 and "steal has no stacks" in errors, errors)


def case_top(fleet):
    """The guests of all hosts, again and again."""
    rows = fleet.rows("top", "--count=2", "--every=3")
    must(sorted(row["host"] for row in rows) == sorted(NAMES * 2), rows)


def case_snapshot(fleet):
    """Snapshots on all hosts, fetched: the files are those of the hosts."""
    rows = fleet.rows("snapshot", user="operator")
    must({row["host"] for row in rows} == set(NAMES), rows)
    to = fleet.folder / "pulled"
    files = fleet.rows("pull", str(to), user="operator")
    must(files and all(row["complete"] for row in files), files)
    for row in rows:
        own = fleet.hosts[row["host"]].folder / "snapshots" / row["snapshot"]
        names = sorted(path.name for path in own.iterdir())
        must(any(name.endswith(".braid") for name in names), names)
        for name in names:
            must((own / name).read_bytes() == (to / row["host"] / row["snapshot"] / name).read_bytes(), name)
        captures = sorted(str(path) for path in (to / row["host"] / row["snapshot"]).glob("*.braid"))
        subprocess.run([kit.AGENT, "verify", captures[0]], check=True, capture_output=True)
    status, _, errors = fleet.ask("pull", str(to))
    must(status == 1 and "Permissions Violation" in errors, errors)


def case_pull_resumed(fleet):
    """The server is killed while a file is fetched: it is complete in the end, byte by byte."""
    folder = fleet.hosts["rack1-a"].folder / "snapshots/20200101T000000.000Z-x-y"
    folder.mkdir(parents=True)
    content = b"".join(k.to_bytes(4, "little") for k in range(16 << 20))
    (folder / "big").write_bytes(content)
    to = fleet.folder / "resumed"
    pull = fleet.begin("pull", "--all", "--hosts=rack1-a", str(to), "--timeout=1", user="operator")
    part = to / "rack1-a" / folder.name / "big.part"
    wait_for("some of the file", lambda: part.exists() and part.stat().st_size > 0)
    fleet.server.kill()
    at = part.stat().st_size if part.exists() else len(content)
    fleet.server.start()
    out, errors = pull.communicate(timeout=kit.LIMIT_S * 3)
    must(pull.returncode == 0, (out, errors))
    must(at == len(content) or "tried again" in errors, "the fault came too late")
    must(part.with_suffix("").read_bytes() == content, "other content")
    (folder / "big").unlink()
    folder.rmdir()
    fleet.wait_recording()


def reconfigure(fleet, confs):
    """Starts the services of hosts again, with other configurations."""
    for host, conf in confs.items():
        host.conf.write_text(conf)
        host.stop_service()
        host.start()
    fleet.wait_recording()


def case_joined(fleet):
    """A condition of one host has the others take a snapshot."""
    first, other = fleet.hosts["rack1-a"], fleet.hosts["rack2-c"]
    former = {host: host.conf.read_text() for host in (first, other)}
    reconfigure(fleet, {other: former[other] + "join = rack1-*\n",
                        first: former[first] + "join = rack2-*\n[watch]\nwhen = silent > 1s\n"})
    before = {host.name: set(host.folder.glob("snapshots/*-joined/why.txt")) for host in (first, other)}
    seen = set(first.folder.glob("snapshots/*-silent/why.txt"))
    first.guest.send_signal(signal.SIGSTOP)
    try:
        found = wait_for("a snapshot there", lambda: list(set(other.folder.glob("snapshots/*-joined/why.txt")) - before[other.name]))
        must(found[0].read_text().startswith("rack1-a: guest-rack1-a"), found[0].read_text())
        own = wait_for("its own", lambda: list(set(first.folder.glob("snapshots/*-silent/why.txt")) - seen))
        print(f"     joined {taken_at(found[0]) - taken_at(own[0]):.0f} ms later", flush=True)
        # It joins the other one, too: no echo, also when the next one is complete.
        fleet.rows("snapshot", "--hosts=rack1-a", user="operator")
        must(set(first.folder.glob("snapshots/*-joined/why.txt")) == before[first.name], "an echo")
    finally:
        first.guest.send_signal(signal.SIGCONT)
    reconfigure(fleet, former)


def answered_by(fleet, answers, *words, user="reader"):
    """What a request prints if a host answers so."""
    peer = Peer(fleet.server, "peer", answers)
    try:
        return fleet.ask(*words, "--hosts=peer", "--timeout=5", user=user)
    finally:
        peer.close()


def case_hostile(fleet):
    """A host that sends what is not valid has failed, by name; nothing else happens."""
    statement = ["sql", "SELECT x, y FROM t", "--json"]
    rows = b"'x','y'\n1,'a\x1b[31mb'\n"
    for why, payloads in {
            "not a message of the fleet": lambda n: [b"\xff\0tracebraid"],
            "of version 2 of the fleet's messages; this is 1": lambda n: [b"tracebraid 2\nkind rows\n\n"],
            "some of its messages were lost": lambda n: [message("rows", n, 0, rows), message("rows", n, 2, b"3,4\n")],
            "two hosts have this name": lambda n: [message("rows", n, 0, rows), message("rows", n, 1, b"3,4\n", "2")],
            "a row is not valid": lambda n: [message("rows", n, 0, b"'x','y'\n1\n"), message("end", n, 1)],
            "it has sent names of columns that are not valid": lambda n: [message("rows", n, 0, b"1,NULL\n")],
            "no answer for 5 s": lambda n: [message("alive", n, 0)],
            "that is it": lambda n: [message("rows", n, 0, rows), message("end", n, 1, error="that is it")]}.items():
        status, out, errors = answered_by(fleet, lambda _, n, __, p=payloads: p(n), *statement)
        must(status in (1, 3) and f"peer: {why}" in errors, (why, status, out, errors))
    status, out, errors = answered_by(fleet, lambda word, n, body: [message("rows", n, 0, rows), message("end", n, 1)],
                                      *statement)
    must((status, json.loads(out)) == (0, {"host": "peer", "x": 1, "y": "a?[31mb"}), (status, out, errors))
    # Its rows are data, whatever they look like; a sum of a host that fails has nothing of it.
    status, out, _ = answered_by(fleet, lambda word, n, body: [message("rows", n, 0, b"'a'\n5\n"),
                                                               message("end", n, 1, error="no")], "sql", "SELECT sum(x) FROM t")
    must(status == 3 and out.split() == ["sum(x)", "-"], (status, out))
    status, out, errors = answered_by(fleet, lambda word, n, body: [message("rows", n, 0, b"'a','b'\n5,6\n"), message("end", n, 1)],
                                      "sql", "SELECT sum(x) FROM t")
    must(status == 3 and "peer: it has sent other columns" in errors, (status, out, errors))


def case_hostile_files(fleet):
    """Names of files stay below the folder; a file that is not what its host said gets no name."""
    to = fleet.folder / "hostile"
    names = ["../up/x", "/etc/passwd", "a/../b", "a/.b", "a/b/c", "a", "s/good", "s/bad"]

    def answers(word, number, body):
        if word == "files":
            listing = "".join(f"{name} 4\n" for name in names) + "s/\x1b 4\n"
            return [message("rows", number, 0, listing.encode()), message("end", number, 1)]
        check = b"2a3cb2a1c5b1d2b3" if body == "s/bad" else b"%016x" % 0xb3a1e1c4e4fd2c0e
        return [message("data", number, 0, b"abcd" + check + (b"more" if body == "s/good" else b"")), message("end", number, 1)]

    status, out, errors = answered_by(fleet, answers, "pull", "--json", str(to), user="operator")
    rows = [json.loads(line) for line in out.splitlines()]
    must(status == 3 and {row["file"] for row in rows} == {"s/good", "s/bad"}, (status, out, errors))
    must(not any(row["complete"] for row in rows), rows)
    found = sorted(str(path.relative_to(to)) for path in to.rglob("*") if path.is_file())
    must(found == ["peer/s/bad.part", "peer/s/good.part"], found)


def case_hostile_requests(fleet):
    """Requests that are not valid are refused; a host answers others meanwhile, and goes on."""
    asker = Peer(fleet.server, "asker", lambda *_: [], user="tester")
    head = b"tracebraid 1\nid %s\n"
    requests = {
        "garbage": ("sql", b"\xff\0" * 1000, b"not a message"),
        "empty": ("status", b"", b"not a message"),
        "version": ("sql", b"tracebraid 9\nid a\n\n", b"of version 9"),
        "noid": ("sql", b"tracebraid 1\n\nSELECT 1", b"no valid id"),
        "badid": ("sql", head % b"a*b" + b"\nSELECT 1", b"no valid id"),
        "long": ("sql", head % b"long" + b"\nSELECT '" + b"x" * 20000 + b"'", b"longer than"),
        "word": ("nonesuch", head % b"word" + b"\n", b"unknown request"),
        "attach": ("sql", head % b"attach" + b"\nATTACH '/etc/passwd' AS p", b"error"),
        "insert": ("sql", head % b"insert" + b"\nINSERT INTO events VALUES (1)", b"error"),
        "dot": ("sql", head % b"dot" + b"\n.read /etc/passwd", b"error"),
        "dash": ("analyze", head % b"dash" + b"\n--output=/tmp/x", b"unknown analysis"),
        "up": ("pull", head % b"up" + b"\n../../../../etc/passwd", b"no such file"),
        "dots": ("pull", head % b"dots" + b"\n20200101T000000.000Z-x-y/../../x", b"no such file"),
        "flow": ("flow", head % b"none" + b"more 99999999999999999999\n\n", None)}
    for name, (word, data, _) in requests.items():
        asker.request(f"tracebraid.v1.rack1-a.{word}", data, name)
    for name, (_, _, answer) in requests.items():
        if answer:
            wait_for(name, lambda name=name, answer=answer: answer in asker.heard_of(name))
    must(b"root:" not in asker.heard_of("up") + asker.heard_of("dots") + asker.heard_of("dot"), "a file was read")
    # More than it does at a time; and a message that nobody has asked for.
    for k in range(12):
        data = head % b"many-%d" % k + b"seconds 5\n\n" + ENDLESS.encode() + b"SELECT count(*) FROM n"
        asker.request("tracebraid.v1.rack1-a.sql", data, f"many{k}")
    wait_for("some are refused", lambda: sum(b"busy" in asker.heard_of(f"many{k}") for k in range(12)) == 4)
    must(fleet.rows("list", "--hosts=rack1-a")[0]["state"] == "recording", "it does not answer")
    for k in range(12):
        asker.publish("tracebraid.v1.rack1-a.flow", head % b"many-%d" % k + b"more 0\n\n")
    wait_for("they are cancelled", lambda: not questions(fleet.folder))
    asker.publish("tracebraid.v1.alarm", b"tracebraid 1\nhost rack1-x\nwhy \x1b[31m\n\n")
    asker.close()
    must(fleet.rows("sql", "SELECT count(*) AS n FROM events", "--hosts=rack1-a")[0]["n"] > 0, "it has ended")


def case_stats(fleet):
    """NATS' statistics of a service: requests, errors and times, of each endpoint."""
    fleet.ask("sql", "SELECT nonesuch FROM events", "--hosts=rack1-a")
    fleet.rows("sql", "SELECT count(*) FROM events", "--hosts=rack1-a")
    asker = Peer(fleet.server, "asker", lambda *_: [], user="tester")
    asker.request("$SRV.STATS.tracebraid.rack1-a", b"", "stats")
    answer = json.loads(wait_for("an answer", lambda: asker.heard_of("stats")))
    asker.close()
    must(answer["type"] == "io.nats.micro.v1.stats_response" and answer["id"] == "rack1-a", answer)
    stats = {one["name"]: one for one in answer["endpoints"]}
    must({"status", "sql", "watch", "flow"} < set(stats), stats)
    one = stats["sql"]
    must(one["num_requests"] > one["num_errors"] > 0 and "no such column: nonesuch" in one["last_error"], one)
    must(0 < one["average_processing_time"] == one["processing_time"] // one["num_requests"], one)
    must(stats["status"]["num_requests"] > 0 == stats["status"]["num_errors"], stats["status"])
    must(stats["status"]["last_error"] == "" and stats["status"]["processing_time"] > 0, stats["status"])


def case_crowd(fleet):
    """A thousand hosts, of which one says nothing."""
    names = [f"crowd{k:04}" for k in range(1000)]

    def answers(word, number, _):
        if word == "status":
            return [message("status", number, 0, version="1.0.0", state="recording", guests=3)]
        return [message("rows", number, 0, b"'sum(x)'\n7\n"), message("end", number, 1)]

    crowd = Crowd(fleet.server, names[:-1], answers)
    try:
        took = []
        for words in ["list", "--json"], ["sql", "SELECT sum(x) AS s FROM t", "--json"]:
            began = time.monotonic()
            status, out, errors = fleet.ask(*words, "--hosts=crowd*")
            took.append(time.monotonic() - began)
            must(status == 0, (status, errors))
        must(json.loads(out) == {"s": 6993}, out)
        print(f"     999 hosts: list in {took[0]:.2f} s, sql in {took[1]:.2f} s", flush=True)
        rows = fleet.rows("list", f"--hosts=crowd*,{names[-1]}", "--timeout=5", status=3)
        must([row["host"] for row in rows] == names and rows[0]["guests"] == 3, len(rows))
        must([row["error"] for row in rows if "error" in row] == ["no answer for 5 s"], rows[-1])
    finally:
        crowd.close()


def free_port():
    """A port that nothing uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def case_document(fleet):
    """docs/fleet.md's way from one host to a fleet, word by word but for the port, with an /etc of its own."""
    section = (kit.TREE / "docs/fleet.md").read_text().partition("## From one host to a fleet")[2].partition("\n## ")[0]
    lines = [line[4:].replace("4222", str(free_port())) for line in section.splitlines() if line.startswith("    ")]
    port = next(line for line in lines if line.startswith("server = ")).rpartition(":")[2]
    server = next(line for line in lines if line.startswith("nats-server")).replace("&", f"--port {port} >server.log 2>&1 &")
    commands = [line for line in lines if line.startswith("tracebraid ")]
    must(len(commands) == 4, lines)
    folder = fleet.folder / "document"
    folder.mkdir()
    host = kit.Host(folder, "one", fleet.server)
    conf = host.conf.read_text().partition("[fleet]")[0]
    conf += "\n".join(line for line in lines if line.startswith(("[fleet]", "server = "))) + "\n"
    shutil.copytree("/etc", folder / "etc", symlinks=True, ignore_dangling_symlinks=True)
    (folder / "etc/tracebraid.conf").write_text(conf)
    script = ["set -eu", "mount --bind etc /etc", server, "server=$!", "tracebraid serve 2>serve.log &",
              "service=$!", "trap 'kill $service; wait $service; kill $server' EXIT",
              "until tracebraid fleet list 2>/dev/null | grep -q ' recording .* 1 '; do sleep 0.1; done", *commands,
              "ls incident/*/*/*.braid"]
    environment = {**os.environ, "PATH": f"{kit.AGENT.parent}:{os.environ['PATH']}", "RUNTIME_DIRECTORY": str(host.folder / "run")}
    try:
        done = subprocess.run(["unshare", "--mount", "sh", "-c", "\n".join(script)], cwd=folder, env=environment,
                              capture_output=True, text=True, timeout=kit.LIMIT_S, check=False)
        must(done.returncode == 0, (done.stdout, done.stderr, (folder / "serve.log").read_text()))
        for found in " recording ", "count(*)", "victim", "-fleet-asked", ".braid":
            must(found in done.stdout, (found, done.stdout, done.stderr))
    finally:
        host.stop()


def case_same_name(fleet):
    """Two hosts of one name: neither is taken for the other."""
    (fleet.folder / "twin").mkdir()
    twin = kit.Host(fleet.folder / "twin", "rack1-a", fleet.server)
    twin.start()
    try:
        wait_for("both are seen", lambda: "two hosts have this name" in fleet.ask("list")[1])
        status, out, errors = fleet.ask("sql", "SELECT count(*) AS n, 1 AS one FROM (SELECT 1) GROUP BY one", "--json")
        must(status == 1 or (status == 3 and '"n":2' in out), (status, out, errors))
    finally:
        twin.stop()
    fleet.wait_recording()


def case_agent_killed(fleet):
    """A host whose service is killed in the middle is named; its rows are in no sum."""
    # Stopped, it starts no process for the question; the process that speaks to the server goes on.
    fleet.hosts["rack1-b"].process.send_signal(signal.SIGSTOP)
    asks = fleet.begin("sql", VALUES + "SELECT sum(x) AS s FROM t", "--json", "--timeout=3")
    time.sleep(1)
    must(asks.poll() is None, "it did not wait for a host that is alive")
    fleet.hosts["rack1-b"].kill()
    out, errors = asks.communicate(timeout=kit.LIMIT_S)
    must(asks.returncode == 3 and "rack1-b: no answer for 3 s" in errors, (asks.returncode, errors))
    must(json.loads(out) == {"s": 17}, out)
    wait_for("its processes end with it", lambda: not questions(fleet.hosts["rack1-b"].folder))
    rows = fleet.rows("list", "--hosts=rack1-b,rack2-c", status=3)
    must(rows[0]["error"] == "not connected to the server", rows)
    fleet.hosts["rack1-b"].start()
    fleet.wait_recording()


def case_server_killed(fleet):
    """The server is killed while rows come: what was lost is said; hosts connect again."""
    asks = fleet.begin("sql", ENDLESS + "SELECT i FROM n", "--rows=3000000", "--json", "--timeout=3")
    must(asks.stdout.readline().startswith('{"host":'), "no row")
    fleet.server.kill()
    status, _, errors = fleet.ask("list")
    must(status == 1 and "cannot connect" in errors, errors)
    log = fleet.hosts["rack1-a"].folder / "log"
    wait_for("a line that says it", lambda: "cannot connect to the fleet's server" in log.read_text())
    fleet.server.start()
    counts = {}
    for line in asks.stdout:
        host = line.split('"')[3]
        counts[host] = counts.get(host, 0) + 1
    errors = asks.stderr.read()
    asks.wait()
    # Each host has sent all that it may, or is named.
    for name in NAMES:
        must(f"{name}: " in errors, (name, counts, errors))
    fleet.wait_recording()
    must(log.read_text().rstrip().rpartition("tracebraid: ")[2].startswith("connected to the fleet"), log.read_text())
    case_list(fleet)


def main():
    """Runs all cases, or those that are named."""
    named = {**globals(), **vars(watched), **vars(login)}
    cases = [(name[5:], function) for name, function in named.items() if name.startswith("case_")]
    chosen = [case for case in cases if len(sys.argv) < 2 or case[0] in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="fleet.") as folder:
        fleet = None
        try:
            fleet = kit.Fleet(pathlib.Path(folder), NAMES)
            fleet.wait_recording()
            for name, function in chosen:
                function(fleet)
                print(f"ok   fleet {name}", flush=True)
        except Exception:
            for log in sorted(pathlib.Path(folder).glob("*/log")) + [pathlib.Path(folder) / "server.log"]:
                if log.exists():
                    print(f"{log.relative_to(folder)}:\n{log.read_text()[-2000:]}", file=sys.stderr)
            raise
        finally:
            if fleet:
                fleet.stop()


if __name__ == "__main__":
    main()

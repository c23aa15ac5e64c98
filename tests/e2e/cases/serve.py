# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of what watches online: conditions, snapshots of what led to them, and the service."""

import collections
import decimal
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import host
from harness import case
from kit import NEEDS, check_accounts, events_of, load, storm, up
from rig import boot_all
from virt import Virt


def busy(guest):
    """Both vCPUs of a guest execute."""
    return guest.bg("for mask in 1 2; do taskset $mask sh -c 'while :; do :; done' & done; wait")


def put_on(cpu, *guests):
    """All threads of their QEMUs run on one CPU of the host."""
    for guest in guests:
        for tid in os.listdir(f"/proc/{guest.pid}/task"):
            os.sched_setaffinity(int(tid), {cpu})


def recorder_of(agent):
    """The process that records for watch."""
    return int(pathlib.Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text(encoding="utf-8").split()[0])


def folder_of(agent):
    """The folder of what watch has recorded."""
    words = pathlib.Path(f"/proc/{recorder_of(agent)}/cmdline").read_bytes().split(b"\0")
    return pathlib.Path(os.fsdecode(words[words.index(b"-o") + 1])).parent


@case("watch", usual=("6.12",), needs=NEEDS)
def watch(ctx):
    """watch names the guest that takes another one's CPU; its snapshot holds what led there, and says the same."""
    alpha, beta = ctx.guest("alpha"), ctx.guest("beta")
    boot_all([alpha, beta])
    for guest in (alpha, beta):
        load(guest)
    put_on(min(os.sched_getaffinity(0)), alpha, beta)
    done = ctx.run_agent("watch", "-r", "nosuch", "lost > 0", status=1)
    ctx.check("nosuch: no such file or region" in done.stderr, f"of a guest that is not there: {done.stderr}")
    folder, hook = ctx.dir / "snapshots", ctx.dir / "hook"
    hook.write_text(f"#!/bin/sh\necho \"$1,$2,$TRACEBRAID_WHY\" >>{ctx.dir}/hooked\n")
    hook.chmod(0o755)
    agent = ctx.agent("watch", "--json", "-r", alpha.shm, "-r", beta.shm, "-e", "sched", "-g", "alpha",
                      "--snapshots", folder, "--exec", hook, "stolen > 20% for 500ms")
    agent.wait_line("watching; until Ctrl-C", timeout=60)
    # A file has just begun: the snapshot has what precedes it, too.
    window = folder_of(agent)
    os.kill(recorder_of(agent), signal.SIGUSR1)
    ctx.wait_until(lambda: len(list(window.glob("window-*.braid"))) > 1, "another file of the recording")
    load_of = [busy(guest) for guest in (alpha, beta)]

    def fired():
        lines = [json.loads(line) for line in agent.output().splitlines() if line.startswith("{")]
        return next((line for line in lines if line["guest"] == "alpha"), None)

    ctx.wait_until(fired, "alpha's stolen time to be reported", timeout=60)
    line = fired()
    print(f"     {line['why']}")
    # On a busy machine threads of the host may have taken more.
    ctx.check(re.search(r"; taken by .*\bbeta \(\d+ %\)", line["why"]), f"the culprit: {line}")
    ctx.equal(line["condition"], "stolen > 20% for 500ms", "the condition")
    ctx.wait_until((ctx.dir / "hooked").exists, "the hook to be run", timeout=60)
    (snapshot,) = folder.iterdir()
    ctx.check((ctx.dir / "hooked").read_text().startswith(f"alpha,stolen > 20% for 500ms,{line['why']}"),
              f"the hook's arguments: {(ctx.dir / 'hooked').read_text()}")
    ctx.equal((snapshot / "why.txt").read_text(), line["why"] + "\n", "why.txt")
    captures = sorted(snapshot.glob("*.braid"), key=lambda path: int(path.stem))
    ctx.check(len(captures) >= 2, f"the snapshot has {captures}")
    for capture in captures:
        check_accounts(ctx, capture)
    stolen = json.loads(ctx.run_agent("analyze", "steal", "--by", "guest", "--json", *captures).stdout)
    took = sum(row["total_ns"] for row in stolen["steal"] if (row["victim"], row["culprit"]) == ("alpha", "beta"))
    ctx.check(took * 20 > sum(row["total_ns"] for row in stolen["steal"] if row["victim"] == "alpha"),
              f"what beta took in the snapshot: {stolen['steal']}")
    ctx.check("alpha" in (snapshot / "summary.txt").read_text(), "summary.txt does not name the guest")
    for one in load_of:
        one.kill()
    ctx.equal(agent.stop(timeout=60), 0, "status of watch")
    ctx.check(not any(pathlib.Path("/run/tracebraid-root").glob(f"watch-{agent.process.pid}*")), "its directory is left")


@case("select-watch", usual=("6.12",), needs=NEEDS, arm64=True)
def select_watch(ctx):
    """What watch and a configuration select is what the guest records: a snapshot has no other event."""
    guest = up(ctx, patches_code=True)
    folder = ctx.dir / "snapshots"

    def refused(line, *options):
        done = ctx.run_agent("watch", "-r", guest.shm, *options, "lost > 0", status=1)
        ctx.check(line in done.stderr and done.stderr.count("\n") == 1, f"{options}: said {done.stderr!r}, not {line!r}")

    refused("a filter follows the -e", "-f", "number & 1")
    refused("--children needs --pid", "--children")
    refused("no field 'nmber'", "-e", "storm", "-f", "nmber & 1")
    agent = ctx.agent("watch", "--json", "-r", guest.shm, "-e", "storm", "-f", "number & 1 && context == 0",
                      "--kprobe", "p:opened do_sys_openat2", "-f", 'COMM == "opener"', "--host", "none",
                      "--snapshots", folder, "--apart", "1ms", "silent > 1s")
    agent.wait_line("watching; until Ctrl-C", timeout=60)

    def worked():
        """Events are enabled in turn, those of the probe last."""
        guest.run("sh -c 'echo -n opener > /proc/self/comm; : < /proc/version'; cat /proc/version > /dev/null")
        storm(guest, "1000 4")
        lines = [line for capture in window.glob("window-*.braid")
                 for line in ctx.run_agent("report", "--json", capture, status=None).stdout.splitlines()]
        return all(any(f'"event":"{name}"' in line for line in lines) for name in ("storm", "opened"))

    window = folder_of(agent)
    ctx.wait_until(worked, "events of both kinds", timeout=60)
    guest.qmp("stop")

    def recorded():
        """The lines of the snapshot that has them. On a busy machine a guest is also silent before."""
        for one in folder.glob("*/summary.txt"):
            captures = sorted(one.parent.glob("*.braid"))
            lines = [line for capture in captures for line in events_of(ctx, capture)]
            if {"storm", "opened"} <= {line.get("event") for line in lines}:
                return lines
        return None

    lines = ctx.wait_until(recorded, "a snapshot with events of both kinds", timeout=60)
    guest.qmp("cont")
    ctx.equal(agent.stop(timeout=60), 0, "status of watch")
    numbers = [line["fields"]["number"] for line in lines if line.get("event") == "storm"]
    ctx.check(numbers and all(number & 1 for number in numbers), f"numbers recorded: {numbers[:9]}")
    ctx.equal({line["comm"] for line in lines if line.get("event") == "opened"}, {"opener"}, "tasks that opened")


@case("select-watch-trigger", usual=("6.1", "6.12"), needs=NEEDS, arm64=True)
def select_watch_trigger(ctx):
    """watch records all that led to a trigger, takes a snapshot that says so, and has the guest write its rings again."""
    guest = up(ctx, parameters="overwrite=1 ring_size_kb=64")
    folder, number = ctx.dir / "snapshots", 9000
    text = f"storm:storm if context == 0 && number == {number} && cpu == 1: snapshot"
    for options, line in ((("--trigger", "storm:storm: stop"), "use snapshot"), (("--trigger", "storm:storm: traceoff"), "use snapshot"),
                          ((), "expected a condition")):
        done = ctx.run_agent("watch", "-r", guest.shm, *options, status=1)
        ctx.check(line in done.stderr and done.stderr.count("\n") == 1, f"{options}: said {done.stderr!r}, not {line!r}")
    agent = ctx.agent("watch", "--json", "-r", guest.shm, "-e", "storm", "--host", "none", "--snapshots", folder, "--trigger", text)
    agent.wait_line("watching; until Ctrl-C", timeout=60)
    window = folder_of(agent)

    def numbers(captures):
        """Of the storm's events in tasks of vCPU 1."""
        lines = [json.loads(line) for capture in captures
                 for line in ctx.run_agent("report", "--json", capture, status=None).stdout.splitlines()]
        return [line["fields"]["number"] for line in lines
                if line.get("event") == "storm" and line["cpu"] == 1 and line["fields"]["context"] == 0]

    # The trigger is set once the events are recorded.
    ctx.wait_until(lambda: storm(guest, "20 4") and numbers(window.glob("window-*.braid")), "events to be recorded", timeout=60)

    def fired():
        """Numbers go on from run to run."""
        storm(guest, "100 4")
        return next((json.loads(line) for line in agent.output().splitlines() if line.startswith("{")), None)

    line = ctx.wait_until(fired, "the trigger's line", timeout=120)
    ctx.check(re.fullmatch(rf"a trigger of {guest.name} fired in task \S+\[\d+\] on vCPU 1 at \d+\.\d{{9}} \({re.escape(text)}\)", line["why"]),
              f"said {line}")
    snapshot, = ctx.wait_until(lambda: [one for one in folder.glob("*-trigger") if (one / "summary.txt").exists()], "the snapshot")
    ctx.equal((snapshot / "why.txt").read_text(), line["why"] + "\n", "why.txt")
    captures = sorted(snapshot.glob("*.braid"), key=lambda path: int(path.stem))
    mine = [one for one in numbers(captures) if one <= number]
    ctx.check(mine and mine[-1] == number, f"the last numbers before the trigger's: {mine[-3:]}")
    led = mine[-100:]
    ctx.equal(led, list(range(led[0], number + 1)), "numbers of the events that led there")
    for capture in captures:
        check_accounts(ctx, capture)
    # The rings are written again.
    ctx.wait_until(lambda: storm(guest, "200 4") and max(numbers(window.glob("window-*.braid")), default=0) > number + 2000,
                   "later events to be recorded", timeout=60)
    ctx.equal(agent.stop(timeout=60), 0, "status of watch")


@case("watch-event", usual=("6.12",), needs=NEEDS)
def watch_event(ctx):
    """An event of a guest is a condition: watch has it recorded, too, and its line names guest, vCPU, task and time."""
    guest = up(ctx, patches_code=True)
    folder = ctx.dir / "snapshots"
    condition = 'sched:sched_process_exit if comm == "opener"'
    for words, line in ((("sched:sched_process_exit more",), "not a valid condition"), (("sched:x if comm ==",), "comm =="),
                        (("sched:a,sched:b",), "expected one event, SYSTEM:EVENT")):
        done = ctx.run_agent("watch", "-r", guest.shm, *words, status=1)
        ctx.check(line in done.stderr and done.stderr.count("\n") == 1, f"{words}: said {done.stderr!r}, not {line!r}")
    agent = ctx.agent("watch", "--json", "-r", guest.shm, "-e", "storm", "--host", "none", "--snapshots", folder, condition)
    agent.wait_line("watching; until Ctrl-C", timeout=60)

    def fired():
        """Other tasks end, too; the event is enabled a while after the start."""
        guest.run("sh -c 'echo -n opener > /proc/self/comm'")
        return next((json.loads(line) for line in agent.output().rpartition("\n")[0].splitlines()
                     if line.startswith("{")), None)

    line = ctx.wait_until(fired, "the line", timeout=60)
    # The task's new name may arrive after the event.
    found = re.fullmatch(rf"{guest.name} recorded sched:sched_process_exit in task \S+\[(\d+)\] on vCPU (\d) at (\d+)\.(\d{{9}}) "
                         rf"\({re.escape(condition)}\)", line["why"])
    ctx.check(found, f"said {line}")
    ctx.equal(line["condition"], condition, "the condition")
    snapshot = min(ctx.wait_until(lambda: [one for one in folder.glob("*-event") if (one / "summary.txt").exists()], "the snapshot"))
    ctx.equal((snapshot / "why.txt").read_text(), line["why"] + "\n", "why.txt")
    ctx.equal(agent.stop(timeout=60), 0, "status of watch")
    lines = [line for capture in sorted(snapshot.glob("*.braid")) for line in events_of(ctx, capture)]
    ends = [line for line in lines if line.get("event") == "sched_process_exit" and line["comm"] == "opener"]
    ctx.check(any((str(line["pid"]), str(line["cpu"])) == found.groups()[:2] for line in ends), f"events in the snapshot: {ends[:3]}")


@case("watch-libvirt", usual=("6.1",), needs=NEEDS)
def watch_libvirt(ctx):
    """While libvirtd restarts, watch goes on with the domains that it knows, and then finds those that start later."""
    virt = Virt(ctx)
    one, late = virt.domain("one"), virt.domain("late")
    one.boot()
    virt.run_agent("attach", "one")
    load(one)
    # In namespaces of its own the host cannot be recorded.
    agent = virt.agent("watch", "--json", "--host", "none", "silent > 1s")
    agent.wait_line("watching; until Ctrl-C", timeout=60)

    def silent(name):
        virt.virsh("suspend", name)
        agent.wait_line(f'"guest":"{name}".*"condition":"silent > 1s"', timeout=60)
        virt.virsh("resume", name)

    silent("one")
    virt.restart_libvirtd()
    late.boot()
    virt.run_agent("attach", "late")
    load(late)
    ctx.wait_until(lambda: virt.run_agent("list", "--json").stdout.count('"driver":"live"') == 2, "both drivers")
    silent("late")
    ctx.check("has ended" not in agent.output(), f"a process was started again: {agent.output()}")
    ctx.equal(agent.stop(timeout=60), 0, "status of watch")


SCRAPE = """\
global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}
rule_files: [ {rules} ]
scrape_configs:
- job_name: tracebraid
  static_configs: [ {{ targets: [ '{target}' ] }} ]
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def get(url, **query):
    """What an address answers; None: nothing yet."""
    try:
        with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query)}" if query else url, timeout=30) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:
        return None


class Prometheus:
    """Debian's server, which scrapes one target each second and evaluates the shipped rules, over 10 s."""

    def __init__(self, ctx, target, *options):
        folder = ctx.dir / ("native" if options else "text")
        folder.mkdir()
        rules = (host.ROOT / "packages/prometheus/tracebraid.rules.yml").read_text()
        (folder / "rules.yml").write_text(rules.replace("[1m]", "[10s]"))
        (folder / "prometheus.yml").write_text(SCRAPE.format(rules=folder / "rules.yml", target=target))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/api/v1"
        ctx.start("/usr/bin/prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                  f"--web.listen-address=127.0.0.1:{port}", *options)

    def ask(self, path, **query):
        """The data of an answer; None: nothing yet."""
        answer = get(f"{self.url}/{path}", **query)
        answer = json.loads(answer) if answer and answer.startswith("{") else {}
        return answer.get("data") if answer.get("status") == "success" else None

    def target(self):
        """What it says of its target, once it has scraped that."""
        targets = (self.ask("targets") or {}).get("activeTargets")
        return targets[0] if targets and targets[0]["health"] != "unknown" else None

    def alert(self, name, guest):
        """The annotation of an alert of a guest, pending or firing."""
        for alert in (self.ask("alerts") or {}).get("alerts", []):
            if (alert["labels"]["alertname"], alert["labels"].get("guest")) == (name, guest):
                return alert["annotations"]["summary"]
        return None


def samples(text):
    """{series: value} of the text form; times in ns."""
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
    return {series: int(decimal.Decimal(value) * (10**9 if re.match(r"\w+_seconds(_total|_sum)?\b", series) else 1))
            for series, value in pairs if value != "+Inf"}


def of_vcpus(found):
    """{(guest, vCPU): ns in all its states}"""
    sums = collections.Counter()
    for series, ns in found.items():
        match = re.match(r'tracebraid_vcpu_seconds_total{guest="(.*)",vcpu="(\d+)"', series)
        if match:
            sums[match.groups()] += ns
    return sums


def check_counters(ctx, agent, url):
    """No counter goes back, and a vCPU's states grow by the time that was analyzed, also where another file begins."""
    until, files = "tracebraid_analyzed_until_seconds", "tracebraid_captures_total"
    first = samples(get(url))
    os.kill(recorder_of(agent), signal.SIGUSR1)

    def later():
        found = samples(get(url))
        another = found[files] > first[files] and found[until] > first[until] + 10**9
        return found if another else None

    second = ctx.wait_until(later, "another file to be analyzed", timeout=60)
    for series, value in first.items():
        if "_total" in series or "_bucket" in series:
            ctx.check(second[series] >= value, f"{series} goes back from {value} to {second[series]}")
    before, after = of_vcpus(first), of_vcpus(second)
    ctx.equal({name for name, _ in after}, {"alpha", "beta"}, "the guests")
    for vcpu, ns in before.items():
        ctx.equal(after[vcpu] - ns, second[until] - first[until], f"growth of the states of {vcpu}")


class Kept:
    """What watch has recorded, and what it said of that: its files, which it removes, and a scrape each second."""

    def __init__(self, agent, url):
        self.folder, self.url = folder_of(agent), url
        self.files, self.scrapes, self.over = {}, [], threading.Event()
        self.thread = threading.Thread(target=self.keep, daemon=True)
        self.thread.start()

    def keep(self):
        due = 0
        while not self.over.wait(0.05):
            for path in self.folder.glob("window-*.braid"):
                number = int(path.stem.split("-")[1])
                if number not in self.files:
                    self.files[number] = open(path, "rb")  # pylint: disable=consider-using-with
            if time.monotonic() >= due:
                due = time.monotonic() + 1
                text = get(self.url)
                self.scrapes += [samples(text)] if text else []

    def end(self, to):
        """All files, in order; once watch has ended."""
        self.over.set()
        self.thread.join()
        paths = []
        for number, file in sorted(self.files.items()):
            paths.append(to / f"kept-{number}.braid")
            paths[-1].write_bytes(file.read())
            file.close()
        return paths

    def first_without(self, totals):
        """The first scrape since which these totals are the same."""
        last = self.scrapes[-1]
        return next(one for one in self.scrapes if all(one[name] == last[name] for name in totals))


def come_to_rest(ctx, guests, kept):
    """All that guests have recorded is analyzed: they are stopped, and give no more."""
    until = "tracebraid_analyzed_until_seconds"
    for guest in guests:
        guest.qmp("stop")
    stopped = kept.scrapes[-1][until]
    ctx.wait_until(lambda: kept.scrapes[-1][until] > stopped + 2 * 10**9, "what the guests have recorded", timeout=60)


# Events that come late, or not at all, count as lost from then on: the analysis of all knows more.
WRONG = ("tracebraid_late_events_total", "tracebraid_host_lost_events_total", "tracebraid_host_uncounted_losses_total")
CULPRITS = {"idle": "nothing (idle CPU)", "recorder": "recorder", "host threads": "the host's threads",
            "interrupts": "interrupts", "unknown": "unknown", "others": "others"}


def by_labels(found, metric, *labels):
    """{values of these labels: value} of a metric's series."""
    sums = collections.Counter()
    for series, value in found.items():
        name, _, rest = series.partition("{")
        if name == metric:
            of = dict(re.findall(r'(\w+)="([^"]*)"', rest))
            sums[tuple(of[label] for label in labels)] += value
    return {key: value for key, value in sums.items() if value}


def growth(first, last, metric, *labels):
    """By how much series have grown, as by_labels()."""
    before = by_labels(first, metric, *labels)
    grown = collections.Counter(by_labels(last, metric, *labels))
    grown.subtract(before)
    return {key: value for key, value in grown.items() if value}


def check_against_analyze(ctx, kept, captures):
    """Counters grow by what analyze finds in the same captures, in the same time, to the nanosecond."""
    first, last = kept.first_without(WRONG), kept.scrapes[-1]
    since, until = (one["tracebraid_analyzed_until_seconds"] for one in (first, last))
    for never in ("captures_skipped", "failed_captures", "capture_faults", "streams_left_out"):
        ctx.equal(last[f"tracebraid_{never}_total"], 0, never)

    def analyze(*what):
        limits = [f"--{name}={ns // 10**9}.{ns % 10**9:09}" for name, ns in (("since", since), ("until", until)) if ns]
        done = ctx.run_agent("analyze", *what, "--json", "--top", "10000", *limits, *captures, timeout=300)
        return json.loads(done.stdout)

    states, steal, wake = analyze("states"), analyze("steal", "--by", "guest"), analyze("wake")
    expected = {(*row["vcpu"].split("/vCPU "), key[:-3]): ns for row in states["vcpu_states"]
                for key, ns in row.items() if key.endswith("_ns") and key != "observed_ns" and ns}
    ctx.equal(growth(first, last, "tracebraid_vcpu_seconds_total", "guest", "vcpu", "state"), expected, "states of vCPUs")
    stolen = {(guest, CULPRITS.get(culprit, culprit)): ns for (guest, culprit), ns in
              growth(first, last, "tracebraid_stolen_seconds_total", "guest", "culprit").items()}
    ctx.equal(stolen, {(row["victim"], row["culprit"]): row["total_ns"] for row in steal["steal"]}, "stolen, by culprit")
    woken = collections.Counter()
    for row in wake["wakeups"]:
        woken[row["vcpu"].split("/")[0],] += row["count"]
    ctx.equal(growth(first, last, "tracebraid_wakeup_seconds_count", "guest"), dict(woken), "wake-ups")
    on_cpu = {(row["guest"],): row["count"] for row in wake["stages"]
              if row["stage"] == "vCPU woken to on CPU" and row["count"]}
    ctx.equal(growth(first, last, "tracebraid_vcpu_wakeup_seconds_count", "guest"), on_cpu, "wake-ups of vCPUs")
    # Of a guest all count, late ones, too.
    stats = json.loads(ctx.run_agent("report", "--stats", "--json", *captures, timeout=300).stdout)
    of_guests = [one for one in stats["streams"] if one["kind"] == "guest"]
    ctx.equal(by_labels(last, "tracebraid_events_total", "guest"),
              {(one["stream"],): sum(event["count"] for event in one["events"]) for one in of_guests}, "events")
    ctx.equal(by_labels(last, "tracebraid_lost_events_total", "guest"),
              {(one["stream"],): one["lost"] for one in of_guests if one["lost"]}, "lost events")
    print(f"     as analyze, in {len(captures)} files, for {sum(expected.values()) / 1e9:.3f} s of vCPUs: "
          f"{len(expected)} states, {len(stolen)} culprits, {sum(woken.values())} wake-ups")


def check_dashboard(ctx, server):
    """Each query of the dashboard is valid, and finds what there is."""
    board = json.loads((host.ROOT / "packages/prometheus/tracebraid-dashboard.json").read_text())
    names = set(server.ask("label/__name__/values"))
    empty = []
    for panel in board["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "10s").replace("$instance", ".*").replace("$guest", ".*")
            ctx.check("$" not in query, f"a variable is not known: {query}")
            now = time.time()
            answer = server.ask("query_range", query=query, start=now - 10, end=now, step=1)
            ctx.check(answer is not None, f"{panel['title']}: not a valid query: {query}")
            (metric,) = re.findall(r"tracebraid_\w+", query)
            ctx.check(metric in names or metric in MAY_LACK, f"{panel['title']}: no metric {metric}")
            if not answer["result"]:
                empty.append(query)
    for query in empty:
        ctx.check(any(metric in query for metric in MAY_LACK) or "throttled" in query, f"nothing found by {query}")


def check_native(ctx, target):
    """A server that stores native histograms gets them: without a bucket's label, and as many as the text counts."""
    server = Prometheus(ctx, target, "--enable-feature=native-histograms")
    query = 'histogram_count(tracebraid_stolen_episode_seconds{guest="alpha"})'
    found = ctx.wait_until(lambda: (server.ask("query", query=query) or {}).get("result"), "a native histogram", timeout=60)
    least = int(found[0]["value"][1])
    count = samples(get(f"http://{target}/metrics"))['tracebraid_stolen_episode_seconds_count{guest="alpha"}']
    ctx.check(0 < least <= count, f"native histogram of {least}, the text has {count}")
    query = 'histogram_quantile(0.99, tracebraid_stolen_episode_seconds{guest="alpha"})'
    quantile = float(server.ask("query", query=query)["result"][0]["value"][1])
    ctx.check(0 < quantile < 60, f"99 % of the episodes are shorter than {quantile} s")


# On a host without KVM there are no exits; without quotas nothing is throttled.
MAY_LACK = ("tracebraid_throttled_seconds_total", "tracebraid_exits_total", "tracebraid_exit_seconds_total")


TAKEN = 'rate(tracebraid_stolen_seconds_total{guest="alpha",culprit_class="guest",culprit="beta"}[10s]) > 0'


@case("prometheus", usual=("6.12",), needs=NEEDS)
def prometheus(ctx):
    """Debian's Prometheus scrapes watch, its alert names who takes a guest's CPU, and the dashboard's queries work.

    The counters equal what analyze finds in the same captures.
    """
    alpha, beta = ctx.guest("alpha"), ctx.guest("beta")
    boot_all([alpha, beta])
    for guest in (alpha, beta):
        load(guest)
    put_on(min(os.sched_getaffinity(0)), alpha, beta)
    target = f"127.0.0.1:{free_port()}"
    agent = ctx.agent("watch", "--listen", target, "-r", alpha.shm, "-r", beta.shm, "-e", "sched", "exits > 1000000000k/s")
    ctx.wait_until(lambda: get(f"http://{target}/metrics"), "metrics", timeout=60)
    kept = Kept(agent, f"http://{target}/metrics")
    server = Prometheus(ctx, target)
    load_of = [busy(guest) for guest in (alpha, beta)]
    ctx.wait_until(server.target, "a scrape", timeout=60)
    # Threads of a loaded machine may take more than beta: the alert names whoever took most.
    alert = ctx.wait_until(lambda: server.alert("TracebraidGuestStolen", "alpha"), "an alert", timeout=120)
    print(f"     {alert}")
    named = re.fullmatch(r"alpha: a vCPU was stolen for [\d.]+% of the last minute, most of that by (.+)", alert)
    ctx.check(named and named[1] != "nobody known", f"the alert's text: {alert}")
    ctx.wait_until(lambda: (server.ask("query", query=TAKEN) or {}).get("result"), "time that beta took", timeout=60)
    scraped = ctx.wait_until(server.target, "its target")
    ctx.equal((scraped["health"], scraped["lastError"]), ("up", ""), "the target")
    (ctx.dir / "metrics").write_text(get(f"http://{target}/metrics"))
    with open(ctx.dir / "metrics", encoding="utf-8") as text:
        checked = subprocess.run(["promtool", "check", "metrics"], stdin=text, capture_output=True, text=True, check=False)
    ctx.equal((checked.returncode, checked.stdout + checked.stderr), (0, ""), "promtool check metrics")
    ctx.run("promtool", "test", "rules", host.ROOT / "tests/service/rules_test.yml")
    check_counters(ctx, agent, f"http://{target}/metrics")
    check_dashboard(ctx, server)
    check_native(ctx, target)
    for one in load_of:
        one.kill()
    come_to_rest(ctx, (alpha, beta), kept)
    ctx.equal(agent.stop(timeout=60), 0, "status of watch")
    captures = kept.end(ctx.dir)
    check_against_analyze(ctx, kept, captures)

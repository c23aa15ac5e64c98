#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The same question in several ways: each figure of `tracebraid analyze --json` is computed again
from the tables of `tracebraid sql`, and compared with Python's, `report --stats` and Perfetto's
slices. All analyses, tables and columns that the program has are; what is compared with nothing is named here,
with the reason: test_tables.py [CAPTURE...]

Without captures it makes its own; several that are joined by a comma are one trace.
test_tables.py make FOLDER creates these captures, and prints them, a line for each trace."""

import bisect
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from kit import AGENT, TOP, equal

sys.path.insert(0, str(TOP / "tests/unit"))

import tracebraid
import compare_perfetto
import profiles
from made import make

TOP_ROWS = "1000"

BY = {"states": ("", "task"), "steal": ("", "task", "guest"), "exits": ("", "task", "syscall"), "wake": ("", "task")}
# Tables and columns of an analysis that nothing else has.
ALONE = {
    ("exits", "by function"): "names of functions come from the capture's symbols; SQL has the address",
    ("wake", "stages"): "moments of interrupts are in no table",
    ("wake", "halt_polling"): "likewise",
    ("wake", "longest", "behind"): "tasks that ran in between are remembered up to a limit",
    ("states", "tasks", "blocked_ns"): "a task that sleeps has no row in task_state",
    ("states", "tasks", "queued_ns"): "a wait that is not over has no row",
    ("states", "tasks", "unknown_ns"): "likewise", ("states", "tasks", "observed_ns"): "likewise",
    ("profile", "samples"): "a sample counts by what its vCPU executed before it",
    ("profile", "periods_off"): "likewise",
    ("stalls", "stalls", "tid"): "tables have vCPUs, not their threads",
    ("exits", "", "near_change_ns"): "it is about the bounds of single events",
    ("summary", "", "host_steal_ns"): "it is of the host, not of its vCPUs", ("*", "", "missing"): "sentences", ("*", "", "within_bound_ns"): "of ends of spans, which may be joined in rows",
    ("*", "", "proven_ns"): "likewise", ("*", "", "recorder_ns"): "its culprits are compared",
    ("*", "exits", "level"): "compared where it is known",
}
MET = set()  # of these
OWNERS = {"recorder"}  # of threads: and guests
NOT_ANALYZED = {  # tables of SQL that no analysis adds up
    "events": "test_equal.py", "losses": "test_python.py: items", "notes": "test_python.py: items", "streams": "test_sql.py",
    "rings": "test_sql.py", "clocks": "test_python.py: epochs", "epochs": "test_python.py: epochs", "recordings": "compared with Python's windows", "filters": "tests/unit/test_accounts.c", "probes": "tests/unit/test_accounts.c",
}
STATES = ("guest", "hypervisor", "VMM", "running", "stolen", "throttled", "halted", "blocked", "sleeping", "stopped", "offline", "unknown")


def ask(analysis, captures, by="", top=()):
    """The object that an analysis prints; none if the trace lacks the events for it."""
    command = [AGENT, "analyze", analysis, "--json", *top, *(["--by", by] if by else []), *captures]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        equal("record" in done.stderr, True, f"{command}: {done.stderr}")
        return None
    return json.loads(done.stdout)


def analyses():
    """What the program's help says of each analysis, by name."""
    text = subprocess.run([AGENT, "analyze", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    text = text.partition("Analyses:\n")[2].partition("\n\n")[0]
    return {name: " ".join(words.split()) for name, words in re.findall(r"(?m)^  (\w+)((?: +\S.*|\n   +\S.*)+)", text)}


class Facts:
    """All rows of SQL's tables of facts."""

    def __init__(self, captures):
        with tracebraid.Database(*captures) as database:
            kinds = {name for name, in database.execute("SELECT DISTINCT name FROM events")}
            self.tables = [name for name in database.tables
                           if name in NOT_ANALYZED or self.columns_of(database, name)]
            seen = collections.Counter()
            self.labels, self.streams = {}, self.rows(database, "streams")
            guests = {one["stream"] for one in self.streams if one["clock"]}
            for one in self.streams:
                kind = not one["clock"]  # a VM without the driver
                seen[one["stream"], kind] += 1
                life = seen[one["stream"], kind]
                self.labels[one["stream_id"]] = one["stream"] + (
                    " (no driver)" if kind and one["stream"] in guests else f" ({life})" if life > 1 else "")
            OWNERS.update(self.labels.values())
            self.states, self.tasks = self.rows(database, "vcpu_state"), self.rows(database, "task_state")
            self.exits, self.wakeups = self.rows(database, "exits"), self.rows(database, "wakeups")
            self.stalls, self.recordings = self.rows(database, "stalls"), self.rows(database, "recordings")
            self.lost = dict(database.execute("SELECT stream_id, sum(lost) FROM losses GROUP BY stream_id"))
            self.sampled = "cpu" in kinds
            self.left = list(database.execute("SELECT guest, vcpu, ns FROM kvm_exit WHERE guest IS NOT NULL")
                             ) if "kvm_exit" in kinds else []
        self.spans = [dict(row) for row in self.states]
        for row in self.states:
            row["culprit"] = row["culprit"] and without_comm(row["culprit"])
        self.states.sort(key=lambda row: (row["stream_id"], row["vcpu"], row["from_ns"]))
        self.episodes = list(self.find_episodes())
        self.functions = tracebraid.Database(*captures)

    def percentiles(self, durations):
        """The median and the 99th percentile, by SQL's functions."""
        return next(iter(self.functions.execute("SELECT histogram_percentile(h, 50), histogram_percentile(h, 99) FROM ("
                                                "SELECT histogram(value) AS h FROM json_each(?))", [json.dumps(durations)])))

    @staticmethod
    def columns_of(database, name):
        """Columns of a table of facts; none of a table of events."""
        rows = database.execute(f'SELECT * FROM "{name}" LIMIT 0')
        return () if "ns" in rows.columns else rows.columns

    def rows(self, database, table):
        columns = self.columns_of(database, table)
        hidden = () if "stream_id" in columns or "stream" not in columns or table == "stalls" else ("stream_id",)
        names = (*columns, *hidden)
        return [dict(zip(names, row)) for row in database.execute(f"SELECT {', '.join(names)} FROM {table}")]

    def guest(self, row):
        return self.labels[row["stream_id"]] if "stream_id" in row else row["stream"]

    def vcpu(self, row):
        return f"{self.guest(row)}/vCPU {row['vcpu']}"

    @staticmethod
    def task(row):
        """As an analysis names it."""
        if row["pid"] is None:
            return row["comm"] or "?"
        return str(row["pid"] or "idle")

    def is_outside(self, from_ns, to_ns):
        """Whether a time, or a part of it, is in no recording."""
        return self.recordings and not any(
            one["start_ns"] <= from_ns and to_ns <= (one["stop_ns"] or to_ns) for one in self.recordings)

    def exits_of(self, label, stream):
        """kvm_exit events of a guest's vCPUs while they were observed."""
        starts = collections.defaultdict(list)
        for row in self.states:
            if self.guest(row) == label:
                starts[row["vcpu"]].append((row["from_ns"], row["to_ns"]))
        count = 0
        for guest, vcpu, ns in self.left:
            at = bisect.bisect(starts[vcpu], (ns, 2 ** 63)) - 1
            count += guest == stream and at >= 0 and ns <= starts[vcpu][at][1]
        return count

    def find_episodes(self):
        """Rows of stolen time that follow each other."""
        episode = []
        for row in self.states:
            if row["state"] != "stolen":
                continue
            if episode and (self.vcpu(episode[-1]), episode[-1]["to_ns"]) != (self.vcpu(row), row["from_ns"]):
                yield episode
                episode = []
            episode.append(row)
        if episode:
            yield episode


def owned(thread):
    """A thread's guest, or the recorder, if it is theirs, and the rest."""
    owner, slash, rest = thread.partition("/")  # names of threads may have one, too
    return (owner + slash, rest) if slash and owner in OWNERS else ("", thread)


def without_comm(name):
    """A task without its name, which may change: an analysis shows the last one, a row that of its time."""
    vcpu, task = re.fullmatch(r"(.*/vCPU \d+: |)(.*)", name).groups()
    owner, task = owned(task)
    match = re.fullmatch(r".*\[(\d+)\]", task)
    return vcpu + owner + match[1] if match else name


def who(culprit):
    """A culprit without its task."""
    return re.sub(r"(/vCPU \d+): .*", r"\1", culprit)


def group(culprit):
    """A culprit as --by guest has it."""
    match = re.match(r"(.*)/vCPU \d+", culprit)
    owner = match[1] if match else owned(culprit)[0].rstrip("/")
    if owner:
        return owner
    if re.match(r"(soft)?irq ", culprit):
        return "interrupts"
    return "the host's threads" if culprit.isdigit() else culprit


def add_up(facts, rows, key, parts):
    """Sums, numbers, percentiles and the worst of rows, by a key: from (duration, start, parts)."""
    found, durations = {}, collections.defaultdict(list)
    for row in rows:
        ns, at, values = parts(row)
        one = found.setdefault(key(row), {"count": 0, "total_ns": 0, "worst_ns": 0, "worst_at_ns": at,
                                          **dict.fromkeys(values, 0)})
        one["count"] += 1
        one["total_ns"] += ns
        durations[key(row)].append(ns)
        if (ns, -at) > (one["worst_ns"], -one["worst_at_ns"]):  # of equal ones the earliest
            one["worst_ns"], one["worst_at_ns"] = ns, at
        for name, value in values.items():
            one[name] += value
    for name, one in found.items():
        one["p50_ns"], one["p99_ns"] = facts.percentiles(durations[name])
    return found


def steal(facts, by):
    victim = facts.guest if by == "guest" else facts.vcpu
    name = {"": who, "task": str, "guest": group}[by]
    shares = []
    for episode in facts.episodes:
        taken = collections.Counter()
        for row in episode:
            taken[name(row["culprit"])] += row["duration_ns"]
        shares += [(episode, culprit, ns) for culprit, ns in taken.items()]
    whole = sum(ns for *_, ns in shares)
    cells = add_up(facts, shares, lambda one: ((facts.task(one[0][0]),) if by == "task" else ()) + (victim(one[0][0]), one[1]),
                   lambda one: (one[2], one[0][0]["from_ns"], {}))
    rows = {key: {**cell, "share_ppm": int(cell["total_ns"] * 1e6 / whole)} for key, cell in cells.items()}
    longest = {}
    for episode in facts.episodes:
        taken = collections.Counter()
        for row in episode:
            taken[name(row["culprit"])] += row["duration_ns"]
        first = episode[0]
        longest[facts.vcpu(first), first["from_ns"]] = {
            "duration_ns": sum(taken.values()), "task": facts.task(first), "culprits": shared(taken)}
    return {"stolen_ns": whole, "episodes": len(facts.episodes)}, {
        "steal": ((("task",) if by == "task" else ()) + ("victim", "culprit"), rows),
        "longest": (("victim", "at_ns"), longest)}


def shared(taken):
    """The 15 that took most, and the others; in an order that does not depend on equal ones."""
    most = sorted(taken.values(), reverse=True)
    return most[:15] + ([sum(most[15:])] if most[15:] else [])


def states(facts, by):
    if by == "task":
        sums = collections.defaultdict(collections.Counter)
        for row in facts.tasks:
            sums[facts.guest(row), row["pid"]][row["state"]] += row["duration_ns"]
        return {}, {"tasks": (("guest", "pid"), {key: {
            "guest_ns": one["guest"], "exited_ns": one["hypervisor"] + one["VMM"], "running_ns": one["running"],
            "stolen_ns": one["stolen"], "throttled_ns": one["throttled"],
            "held_ns": sum(one[state] for state in ("halted", "blocked", "sleeping", "stopped", "offline")),
        } for key, one in sums.items()})}
    sums = collections.defaultdict(collections.Counter)
    for row in facts.states:
        sums[facts.vcpu(row)][row["state"]] += row["duration_ns"]
    return {}, {"vcpu_states": (("vcpu",), {(vcpu,): {
        "observed_ns": sum(one.values()), **{f"{state.lower()}_ns": one[state] for state in STATES}}
        for vcpu, one in sums.items()})}


def exits(facts, by):
    extra = {"": (), "task": (facts.task,), "syscall": (lambda row: row["call"],)}[by]
    names = {"": (), "task": ("task",), "syscall": ("system_call",)}[by]
    cells = add_up(facts, facts.exits, lambda row: tuple(of(row) for of in extra) + (facts.vcpu(row), row["reason"]), lambda row: (
        row["duration_ns"], row["from_ns"], {
            "hypervisor_ns": row["hypervisor_ns"], "vmm_ns": row["vmm_ns"], "stolen_ns": row["stolen_ns"],
            "throttled_ns": row["throttled_ns"], "halted_ns": row["halted_ns"] + row["offline_ns"],
            "blocked_ns": row["blocked_ns"] + row["stopped_ns"] + row["unknown_ns"]}))
    for row in facts.exits:
        equal(sum(value for name, value in row.items() if name.endswith("_ns") and name[:-3].upper() in
                  (state.upper() for state in STATES)), row["duration_ns"], f"sum of the states of {row}")
    return {"count": len(facts.exits), "total_ns": sum(row["duration_ns"] for row in facts.exits)}, {
        "exits": ((*names, "vcpu", "reason"), cells)}


def causes(row):
    """What a task waited for."""
    if row["guest_ns"] is None:
        return {"others_ns": 0, "hypervisor_ns": 0, "vmm_ns": 0, "stolen_ns": 0, "throttled_ns": 0, "asleep_ns": 0,
                "unknown_ns": row["duration_ns"]}
    of = {"others_ns": row["guest_ns"] + row["running_ns"], "hypervisor_ns": row["hypervisor_ns"], "vmm_ns": row["vmm_ns"],
          "stolen_ns": row["stolen_ns"], "throttled_ns": row["throttled_ns"], "unknown_ns": row["unknown_ns"],
          "asleep_ns": sum(row[f"{state}_ns"] for state in ("halted", "blocked", "sleeping", "stopped", "offline"))}
    equal(sum(of.values()), row["duration_ns"], f"sum of the states of {row}")
    return of


def wake(facts, by):
    named = (facts.task,) if by == "task" else ()
    cells = add_up(facts, facts.wakeups, lambda row: (*(of(row) for of in named), facts.vcpu(row)),
                   lambda row: (row["duration_ns"], row["from_ns"], causes(row)))
    longest = {(facts.vcpu(row), facts.task(row), row["from_ns"]): {"duration_ns": row["duration_ns"], **causes(row)}
               for row in facts.wakeups}
    return {"count": len(facts.wakeups), "total_ns": sum(row["duration_ns"] for row in facts.wakeups)}, {
        "wakeups": ((("task",) if by else ()) + ("vcpu",), cells), "longest": (("vcpu", "task", "at_ns"), longest)}


def stalls(facts, _):
    """The states, culprits and length of each stall, from the rows of vcpu_state in that time."""
    found = {}
    of_vcpu = collections.defaultdict(list)
    for row in facts.states:
        of_vcpu[facts.vcpu(row)].append(row)
    ends = {vcpu: [row["to_ns"] for row in rows] for vcpu, rows in of_vcpu.items()}
    for stall in facts.stalls:
        sums, taken = collections.Counter(), collections.Counter()
        vcpu = facts.vcpu(stall)
        for row in of_vcpu[vcpu][bisect.bisect_right(ends[vcpu], stall["from_ns"]):]:
            if row["from_ns"] >= stall["to_ns"]:
                break
            ns = min(row["to_ns"], stall["to_ns"]) - max(row["from_ns"], stall["from_ns"])
            sums[row["state"]] += ns
            idle = row["state"] in ("halted", "offline") or (row["state"] == "sleeping" and row["pid"] == 0)
            sums["idle"] += ns if idle else 0
            if row["state"] == "stolen":
                taken[row["culprit"]] += ns
        found[facts.vcpu(stall), stall["from_ns"]] = {
            "duration_ns": stall["duration_ns"], "task": without_comm(stall["task"]), "idle_ns": sums["idle"],
            "stall_ns": stall["duration_ns"] - sums["idle"], "culprits": shared(taken), "cause": stall["cause"],
            "until_end": stall["until_end"], **{f"{state.lower()}_ns": sums[state] for state in STATES}}
        equal([stall[f"{state.lower()}_ns"] or 0 for state in STATES], [sums[state] for state in STATES], f"states of {stall}")
    return {}, {"stalls": (("vcpu", "at_ns"), found)}


def summary(facts, _):
    found = {}
    cells = steal(facts, "")[1]["steal"][1]
    for stream in facts.streams:
        label = facts.labels[stream["stream_id"]]
        of = [row for row in facts.states if facts.guest(row) == label]
        if not of:
            continue
        ns = collections.Counter()
        for row in of:
            ns[row["state"]] += row["duration_ns"]
        whole, culprits = sum(ns.values()), collections.Counter()
        for (victim, culprit), cell in cells.items():
            if victim.startswith(f"{label}/vCPU ") and culprit not in ("unknown", "others"):
                culprits[culprit] += cell["total_ns"]
        worst = max((row for row in facts.stalls if row["stream"] == label),
                    key=lambda row: (row["stall_ns"], -row["from_ns"]), default=None)
        waits = [row for row in facts.wakeups if facts.guest(row) == label]
        longest = max(waits, key=lambda row: (row["duration_ns"], -row["to_ns"]), default=None)
        found[label,] = {
            "vcpus": stream["cpus"], "exits": facts.exits_of(label, stream["stream"]), "bound_ns": stream["bound_ns"], "lost_events": facts.lost.get(stream["stream_id"], 0),
            **{f"{name}_ppm": int(sum(ns[state] for state in parts) * 1e6 / whole) for name, parts in (
                ("busy", STATES[:4]), ("stolen", ("stolen",)), ("throttled", ("throttled",)),
                ("asleep", STATES[6:10]), ("offline", ("offline",)),
                ("unknown", ("unknown",)))},
            "worst_stall_ns": worst and worst["stall_ns"], "worst_stall_at_ns": worst and worst["from_ns"],
            "worst_wakeup_ns": longest and longest["duration_ns"],
            "worst_wakeup_at_ns": longest and longest["from_ns"],
            "top_culprit": max(culprits, key=culprits.get, default="-") if culprits else "-",
        }
    return {}, {"guests": (("guest",), found)}


def profile(facts, _):
    """What a vCPU executed as a whole: undivided() adds up what samples divide."""

    def what(state, reason, culprit):
        detail = {"hypervisor": reason, "VMM": reason, "throttled": culprit, "stolen": group(culprit or "")}.get(state, "")
        return "[no sample]" if state in ("guest", "running") else f"[{state}] {detail}".rstrip()
    cells = add_up(facts, facts.states, lambda row: (facts.guest(row), what(row["state"], row["reason"], row["culprit"])), lambda row: (row["duration_ns"], 0, {}))
    whole = sum(row["duration_ns"] for row in facts.states)
    figures = {} if facts.sampled else {"samples": 0, "periods_off": 0}
    others = dict.fromkeys(("samples_of_others", "mappings_of_others", "addresses_of_others"), 0)
    return {**others, **figures}, {
        "profile": (("guest", "what"), {key: {**cell, "share_ppm": int(cell["total_ns"] * 1e6 / whole)} for key, cell in cells.items()})}


COMPARED = {one.__name__: one for one in (summary, states, steal, stalls, exits, wake, profile)}
# Which tables of facts these use.
USED = {"vcpu_state", "task_state", "exits", "wakeups", "stalls"}


def alone(*place):
    """Whether a figure is listed as one that nothing else has."""
    for one in ALONE:
        if len(one) == len(place) and all(word in ("*", got) for word, got in zip(one, place)):
            MET.add(one)
            return True
    return False


def plain(name, value):
    """A cell, as computed here."""
    return sorted((one["ns"] for one in value if one["culprit"] != "others"), reverse=True) + [
        one["ns"] for one in value if one["culprit"] == "others"] if name == "culprits" else (
        without_comm(value) if isinstance(value, str) and name != "cause" else value)


def compare_table(where, rows, keys, wanted):
    """All rows, and all columns but those listed."""
    found, merged = {}, 0
    for row in rows:
        row = {name: plain(name, value) for name, value in row.items()}
        if "pid" in keys:
            row["pid"] = int(row.pop("task"))
        key = tuple(row.pop(name) for name in keys)
        merged += key in found
        found[key] = row
    equal(merged, 0, f"{where}: rows of one key")
    analysis, _, table = where.partition(": ")[2].partition(" ")
    # A task may have nothing but a wait that is not over, for instance.
    lacking = {key for key in set(found) - set(wanted)
               if any(value for name, value in found[key].items() if (analysis, table.split()[-1], name) not in ALONE)}
    equal(lacking, set(), f"{where}: rows that SQL lacks")
    if not where.endswith("longest"):
        missing = {key for key in set(wanted) - set(found) if any(wanted[key].values())}
        equal(missing, set(), f"{where}: rows that only SQL has")
    for key, row in found.items():
        if key not in wanted:
            continue
        for name, value in row.items():
            if name not in wanted[key]:
                equal(alone(analysis, table.split()[-1], name), True, f"{where}: column {name} is compared, or listed")
            elif value is None and not wanted[key][name]:
                pass  # the trace cannot show it
            else:
                equal(value, wanted[key][name], f"{where}: {name} of {key}")


def compare_analysis(name, facts, captures, by):
    """One analysis: its tables, and its figures beside them."""
    result = ask(name, captures, by, ("-n", TOP_ROWS))
    scalars, tables = COMPARED[name](facts, by)
    if result is None:
        equal([rows for _, rows in tables.values() if rows], [], f"{name}: rows of what cannot be analyzed")
        return
    whole = {"vcpus": len({facts.vcpu(row) for row in facts.states}),
             "observed_ns": sum(row["duration_ns"] for row in facts.states),
             "unknown_ns": sum(row["duration_ns"] for row in facts.states if row["state"] == "unknown"), **scalars}
    if name == "profile" and facts.sampled:
        rows = profiles.undivided(result["profile"], STATES, whole["observed_ns"])
        result["profile"] = rows
    for key, value in result.items():
        where = f"{name} {'by ' + by + ' ' if by else ''}{key}"
        if key in tables:
            compare_table(f"{captures[0]}: {where}", value, *tables[key])
        elif key in whole:
            equal(value, whole[key], where)
        else:
            equal(alone(name, key) or alone(name, "", key), True, f"{where} is compared, or listed")


def compare_stats(captures, facts):
    """`report --stats`: its times of vCPUs, exits and guests' tasks are those of SQL and of the analyses."""
    command = [AGENT, "report", "--stats", "--json", *captures]
    stats = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    by_task = ask("states", captures, "task", ("-n", TOP_ROWS)) or {"tasks": []}
    off = {(row["guest"], int(without_comm(row["task"]))): (row["queued_ns"], row["blocked_ns"])
           for row in by_task["tasks"]}
    sums, ran = collections.defaultdict(collections.Counter), collections.Counter()
    current, compared, lives = collections.Counter(), collections.Counter(), collections.Counter()
    for row in facts.states:
        sums[facts.vcpu(row)][row["state"]] += row["duration_ns"]
        current[facts.vcpu(row), row["pid"] if row["pid"] is None else row["pid"] > 0] += row["duration_ns"]
    for row in facts.tasks:
        ran[facts.guest(row), row["pid"]] += row["duration_ns"] if row["state"] != "queued" else 0
    left = exits(facts, "")[1]["exits"][1]
    for stream in stats["streams"]:
        lives[stream["stream"], stream["kind"]] += 1
        life = lives[stream["stream"], stream["kind"]]
        label = stream["stream"] + (f" ({life})" if life > 1 else "")
        if stream["kind"] == "vm" and f"{stream['stream']} (no driver)" in facts.labels.values():
            label = f"{stream['stream']} (no driver)"
        if stream["kind"] == "host":
            continue  # its tasks, and vCPUs of no guest, are in no other table
        for one in stream["vcpus"]:
            name = f"{label}/vCPU {one['vcpu']}"
            where, of = f"{captures}: {name}", sums[name]
            equal([one.get("in_guest_ns", 0), one["waited_ns"], one["ran_ns"], one["slept_ns"]],
                  [sum(of[state] for state in states) for states in (
                      ("guest",), ("stolen",), STATES[:4], STATES[6:11])], f"times of {where}")
            equal({row["reason"]: (row["count"], row["away_ns"], row["longest_ns"]) for row in one.get("reasons", ())},
                  {reason: (row["count"], row["total_ns"], row["worst_ns"])
                   for (vcpu, reason), row in left.items() if vcpu == name}, f"exits of {where}")
            compared["exits"] += len(one.get("reasons", ()))
        for cpu in stream["cpus"]:
            name = f"{label}/vCPU {cpu['cpu']}"
            equal((cpu["busy_ns"], cpu["idle_ns"]), (current[name, True], current[name, False]), f"tasks of {name}")
            compared["CPUs"] += 1
        for task in stream["tasks"]:
            key = label, task["pid"]
            equal((task["ran_ns"], task["waited_ns"], task["slept_ns"]), (ran[key], *off[key]), f"{captures}: {key}")
            compared["tasks"] += 1
    equal(sorted(compared), ["CPUs", "exits", "tasks"], f"{captures}: what of --stats was compared")


def compare_python(captures, facts):
    """States and analyses in Python."""
    with tracebraid.open(*captures) as trace:
        for name in analyses():
            printed = ask(name, captures)
            if printed:
                equal(trace.analyze(name), printed, name)
        rows = collections.Counter((row["stream"], row["vcpu"], row["state"], row["from_ns"], row["to_ns"], row["pid"],
                                    row["culprit"] or "", row["reason"] or "") for row in facts.spans)
        spans = collections.Counter((one["guest"], one["vcpu"], one["state"], one["from_ns"], one["to_ns"], one["task"],
                                     one["culprit"], one["reason"]) for one in trace.states())
        equal(spans - rows, collections.Counter(), "spans that only Python has")
        equal(rows - spans, collections.Counter(), "rows that Python lacks")
        equal([(one["start_ns"], one["stop_ns"]) for one in facts.recordings], trace.windows, "recordings")


def compare_perfetto_states(captures, facts, folder):
    """Slices: states, and who took most of a stolen one."""
    out = pathlib.Path(folder, "out.perfetto")
    subprocess.run([AGENT, "export", "--to", "perfetto", "-o", out, *captures], stderr=subprocess.DEVNULL, check=True)
    trace = compare_perfetto.Trace(out)
    found, culprits = collections.Counter(), {}
    for uuid, (_, name) in trace.tracks.items():
        if not name.endswith(", state"):
            continue
        guest, vcpu = name[:-len(", state")].rsplit(" vCPU ", 1)
        begun = None
        for ns, event in sorted(trace.on_track[uuid], key=lambda one: one[0]):
            if event.type == compare_perfetto.SLICE_BEGIN:
                begun = ns, event
            elif event.type == compare_perfetto.SLICE_END:
                state = begun[1].name.partition(":")[0]
                found[guest, int(vcpu), state] += ns - begun[0]
                equal(bool(facts.is_outside(begun[0], ns)), False, f"a slice from {begun[0]} is recorded")
                if state == "stolen":
                    args = {one.name: one.string_value for one in begun[1].debug_annotations}
                    culprits[guest, int(vcpu), begun[0], ns] = args["culprit"]
    wanted = collections.Counter()
    for row in facts.states:
        wanted[facts.guest(row), row["vcpu"], row["state"]] += row["duration_ns"]
    equal((found - wanted, wanted - found), ({}, {}), f"{captures}: states of slices, and of rows")
    stolen = collections.defaultdict(list)
    for row in facts.states:
        if row["state"] == "stolen":
            stolen[facts.guest(row), row["vcpu"]].append(row)
    for (guest, vcpu, begin, end), culprit in culprits.items():
        taken = collections.Counter()
        rows = stolen[guest, vcpu]
        for row in rows[bisect.bisect_left(rows, begin, key=lambda one: one["from_ns"]):]:
            if row["from_ns"] >= end:
                break
            if row["to_ns"] <= end:
                taken[row["culprit"]] += row["duration_ns"]
        culprit = without_comm(culprit)
        where = f"{captures}: culprit of {guest}/vCPU {vcpu} from {begin} to {end}"
        equal(sum(taken.values()), end - begin, where)
        equal(taken[culprit], max(taken.values()), f"{where}: {culprit} of {taken}")


def compare(captures, folder):
    """One trace, in all ways."""
    facts = Facts(captures)
    equal(set(facts.tables) - USED - set(NOT_ANALYZED), set(), "tables of SQL that are neither compared nor listed")
    equal(set(analyses()), set(COMPARED), "analyses that are compared")
    for name in COMPARED:
        for by in BY.get(name, ("",)):
            compare_analysis(name, facts, captures, by)
    outside = [row for rows in (facts.states, facts.tasks, facts.exits, facts.wakeups, facts.stalls)
               for row in rows if facts.is_outside(row["from_ns"], row["to_ns"])]
    equal(outside, [], "rows outside of all recordings")
    compare_stats(captures, facts)
    compare_python(captures, facts)
    compare_perfetto_states(captures, facts, folder)
    profiles.compare(captures, facts, folder)
    return facts


def check_options():
    """--by words that the program has are those that are compared, or listed."""
    for name, text in analyses().items():
        for word in set(re.findall(r"--by (\w+)", text)) - set(BY.get(name, ())):
            equal(alone(name, f"by {word}"), True, f"{name} --by {word} is compared, or listed")


def main():
    if sys.argv[1:2] == ["make"]:
        print("\n".join(map(",".join, make(sys.argv[2]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        traces, most = [one.split(",") for one in sys.argv[1:]] or make(folder), 0
        for captures in traces:
            facts = compare(captures, folder)
            most = max([most] + [len({row["culprit"] for row in episode}) for episode in facts.episodes])
        if len(sys.argv) == 1:
            check_options()
            equal(set(ALONE) - MET, set(), "figures that are listed, but compared, or not there")
            equal(most > 16, True, f"an episode has more than 16 culprits: {most}")
    print(f"ok   {len(COMPARED)} analyses of {len(traces)} traces, SQL, Python, --stats and Perfetto give the same figures")


if __name__ == "__main__":
    main()

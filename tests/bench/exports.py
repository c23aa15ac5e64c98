#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures the agent's output of one large capture: text, analyses, each export form, and the tools that read them."""

import os
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ROOT / "tests" / "bench" / "columns.py"
AGENT = os.environ.get("TRACEBRAID", str(ROOT / "build" / "tracebraid"))
DEMO = ROOT / "build" / "demo" / "demo.braid"  # of make demo
SHORT = "BRAID_BENCH_SHORT" in os.environ
EVENTS = 24_000 if SHORT else 2_400_000
SECONDS = EVENTS / 1_000_000  # of the capture: make_big_capture writes an event each microsecond
ROUNDS = 1 if SHORT else 3
CPUS = os.sched_getaffinity(0)
TWO_CPUS = ("text", "json", "ctf", "perfetto", "html")  # forms that use two


def run(command, nr_cpus=1):
    """
    Runs a command to its end, on one CPU or more. Return: seconds of CPU time, peak MiB, seconds elapsed.
    On one CPU the agent has one thread, so on an idle machine CPU time equals elapsed time.
    """
    if not SHORT:
        os.sync()  # earlier writes are not written back at this command's cost
    os.sched_setaffinity(0, sorted(CPUS)[:nr_cpus])
    begin = time.monotonic()
    with open(os.devnull, "wb") as nowhere:
        child = subprocess.Popen(command, stdout=nowhere, stderr=subprocess.PIPE)
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
    elapsed = time.monotonic() - begin
    os.sched_setaffinity(0, CPUS)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {errors.decode(errors='replace').strip()}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, elapsed


def empty(folder):
    """Replaces a folder with an empty one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def forms():
    """The names of the export forms."""
    text = subprocess.run([AGENT, "export", "--help"], check=True, capture_output=True, text=True).stdout
    return re.findall(r"^  (\S+)", text.partition("\nForms:\n")[2], re.MULTILINE)


def readers(folder):
    """Tools that read our exports back as text: name, and command."""
    host = sorted((folder / "trace.dat").glob("*.dat*"), key=lambda path: len(path.name))
    found = {}
    if host:
        command = ["trace-cmd", "report"]
        for path in host:
            command += ["-i", str(path)]
        found["trace_cmd"] = command
    if (folder / "ctf").exists():
        found["babeltrace2"] = ["babeltrace2", str(folder / "ctf")]
        found["python_babeltrace2"] = [str(COLUMNS), "bt2", str(folder / "ctf")]
    return {name: command for name, command in found.items() if shutil.which(command[0])}


CHUNK = struct.Struct("<IHHIIQQ")  # struct braid_chunk of host_agent/capture/chunk.h
CHUNK_INDEX, CHUNK_INDEX_BLOCKS = 27, 28


def index_share(path):
    """Percent of a capture's bytes that are its index."""
    data, at, found = path.read_bytes(), 0, 0
    while at < len(data):
        _, kind, _, payload_bytes, *_ = CHUNK.unpack_from(data, at)
        size = CHUNK.size + (payload_bytes + 7) // 8 * 8
        found += size if kind in (CHUNK_INDEX, CHUNK_INDEX_BLOCKS) else 0
        at += size
    return 100 * found / len(data)


class Bench:
    """The figures of several rounds."""

    def __init__(self):
        self.seconds, self.memory, self.elapsed = {}, {}, {}
        self.reads_all = set()  # the commands that take all events of the large capture

    def measure(self, name, command, reads_all=True):
        """Runs one round of one command."""
        seconds, memory, _ = run(command)
        if reads_all:
            self.reads_all.add(name)
        self.seconds.setdefault(name, []).append(seconds)
        self.memory[name] = max(memory, self.memory.get(name, 0))

    def measure_both(self, name, make_command):
        """Runs one round of a command on one CPU and on two, which write to different files."""
        for nr_cpus in (1, 2):
            elapsed = run(make_command(nr_cpus), nr_cpus)[2]
            self.elapsed.setdefault(name, {1: [], 2: []})[nr_cpus].append(elapsed)

    def median(self, name):
        """The median of a command's seconds."""
        return statistics.median(self.seconds[name])

    def measure_packing(self, name, capture, folder):
        """Runs one round of packing a capture; files are named as the figures."""
        large = not name
        self.measure(f"{name}pack", [AGENT, "pack", str(capture), "-o", str(folder / f"{name}pack")], large)
        if shutil.which("zstd"):
            self.measure(f"{name}zstd", ["zstd", "-3", "-q", "-f", str(capture), "-o", str(folder / f"{name}zstd")], large)

    def print_packed(self, name, capture, folder):
        """Prints how fast and how small it was packed."""
        for by in (f"{name}pack", f"{name}zstd"):
            if by in self.seconds:
                size = capture.stat().st_size
                print(f"{by}_rate\t{size / 1e6 / self.median(by):.0f}\tMB/s")
                print(f"{by}_ratio\t{size / (folder / by).stat().st_size:.2f}\ttimes smaller")

    def measure_middle(self, capture, cut):
        """Runs one round of a report that begins in the middle, with the index, and with the end cut off that has it."""
        for name, path in (("report_middle", capture), ("report_middle_unindexed", cut)):
            self.measure(name, [AGENT, "report", "--no-header", "--lines=20", f"--since=+{SECONDS / 2}", str(path)], False)

    def print_figures(self):
        """Prints all figures."""
        for name in ("report_middle", "report_middle_unindexed"):
            print(f"{name}_time\t{self.median(name):.3f}\ts")
        for name in self.seconds:
            if name in self.reads_all:
                print(f"{name}_speed\t{EVENTS / 1e6 / self.median(name):.2f}\tM events/s")
            print(f"{name}_peak_memory\t{self.memory[name]:.0f}\tMiB")
        for name, elapsed in self.elapsed.items():
            print(f"{name}_on_two_cpus\t{min(elapsed[2]) / min(elapsed[1]):.2f}\tof one's time")
        for ours, theirs in (("report_text", "trace_cmd"), ("report_text", "babeltrace2"),
                             ("python_columns", "python_babeltrace2")):
            if theirs in self.seconds:
                print(f"{ours}_over_{theirs}\t{self.median(theirs) / self.median(ours):.1f}\ttimes")


def main():
    """Measures round by round, so that a busy machine affects all commands alike."""
    bench = Bench()
    with tempfile.TemporaryDirectory(prefix="bench-exports.", dir=ROOT / "build") as name:
        folder = pathlib.Path(name)
        capture = folder / "big.braid"
        subprocess.run([ROOT / "build" / "make_big_capture", capture, str(EVENTS)], check=True)
        cut = folder / "cut.braid"
        shutil.copyfile(capture, cut)  # not in memory: a child's peak is at least that of its parent
        os.truncate(cut, cut.stat().st_size - CHUNK.size)
        print(subprocess.run([ROOT / "build" / "bench_walk", capture], check=True, text=True,
                             capture_output=True).stdout, end="")
        print(subprocess.run([ROOT / "build" / "bench_flush", capture, folder / "flushed"], check=True, text=True,
                             capture_output=True).stdout, end="")
        for turn in range(ROUNDS):
            bench.measure("report_text", [AGENT, "report", str(capture)])
            bench.measure("report_json", [AGENT, "report", "--json", str(capture)])
            bench.measure("python_columns", [str(COLUMNS), "tracebraid", str(capture)])
            bench.measure("sql_sum", [AGENT, "sql", str(capture), "SELECT sum(cpu), max(ns) FROM events"])
            bench.measure("sql_group", [AGENT, "sql", str(capture), "SELECT name, count(*) FROM events GROUP BY name"])
            bench.measure_packing("", capture, folder)
            if not SHORT and DEMO.exists():
                bench.measure_packing("demo_", DEMO, folder)
            bench.measure("report_packed", [AGENT, "report", str(folder / "pack")])
            bench.measure_middle(capture, cut)
            for analysis in ("summary", "steal"):
                bench.measure(f"analyze_{analysis}", [AGENT, "analyze", analysis, str(capture)])
            for form in forms():
                empty(folder / form)
                bench.measure(f"export_{form}", [AGENT, "export", "--to", form, str(capture), "-o",
                                                 str(folder / form / "out")])
            for form in TWO_CPUS:
                empty(folder / "two")
                bench.measure_both(f"export_{form}", lambda nr, form=form: [
                    AGENT, "export", "--to", form, str(capture), "-o",
                    str(folder / "two" / f"out{nr}") if form == "ctf" else os.devnull])
            for reader, command in readers(folder).items():
                if turn == 0 or not reader.startswith("python"):  # that one takes a minute
                    bench.measure(reader, command)
        bench.print_packed("", capture, folder)
        bench.print_packed("demo_", DEMO, folder)
        print(f"index_share\t{index_share(capture):.2f}\tpercent")
    bench.print_figures()


if __name__ == "__main__":
    main()

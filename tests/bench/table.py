#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints the benches' figures beside limits, peers and the last run's: table.py FIGURES HISTORY

FIGURES has metric<TAB>value<TAB>unit. They are appended to HISTORY, with date and commit. docs/performance.md
explains the columns.
"""

import pathlib
import re
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
MORE, LESS = "≥", "≤"  # which values are good


class Row(NamedTuple):
    """A figure of ours. SERIES in its metric, a kernel's, is the same in those of its peers."""
    label: str
    metric: str
    good: str = LESS
    limit: float = None
    peers: tuple = ()  # of (label, metric), and a metric of ours / theirs if they are measured in turns
    always: bool = True  # False: a short run does not measure it


ROWS = (
    "writing",
    Row("event of 16 bytes", "event_16_bytes", peers=(
        ("LTTng-UST", "lttng_event_16_bytes", "event_over_lttng_event"),
        ("counter, copy, store", "counter_copy_store", "event_over_counter_copy_store"))),
    Row("event, instructions", "event_16_bytes_in_ring", LESS, 72,
        peers=(("counter, copy, store", "counter_copy_store_counted"),)),
    Row("event in the guest", "guest_SERIES_event", peers=(("the kernel's ring", "guest_SERIES_kernel_ring"),
                                                      ("counter, copy, store", "guest_SERIES_floor"))),
    Row("tracefs event, exported", "guest_SERIES_exported_event", peers=(("ftrace alone", "guest_SERIES_tracefs_event"),)),
    Row("sample, both stacks of 16 frames", "guest_SERIES_sample_both",
        peers=(("kernel's stack alone", "guest_SERIES_sample_kernel"),)),
    Row("  converted", "guest_SERIES_sample_both_time", LESS, 3,
        (("kernel's stack alone", "guest_SERIES_sample_kernel_time"),)),
    Row("hackbench, slowed down", "guest_SERIES_hackbench_native",
        peers=(("tracefs", "guest_SERIES_hackbench_tracefs"),)),
    Row("  of what tracefs slows it down", "guest_SERIES_hackbench_native_over_tracefs", LESS, 0.5),
    Row("system calls, slowed down", "guest_SERIES_syscall_storm_native",
        peers=(("tracefs", "guest_SERIES_syscall_storm_tracefs"),)),
    Row("  of what tracefs slows them down", "guest_SERIES_syscall_storm_native_over_tracefs", LESS, 0.5),
    "reading a large capture",
    Row("walk", "walk_speed", MORE, 12),
    Row("text", "report_text_speed", MORE, 5, (("trace-cmd report", "trace_cmd_speed"),
                                               ("babeltrace2", "babeltrace2_speed"))),
    Row("JSON lines", "report_json_speed", MORE, 4),
    Row("CTF", "export_ctf_speed", MORE, 6),
    Row("Perfetto", "export_perfetto_speed", MORE, 5),
    Row("trace.dat", "export_trace.dat_speed", MORE, 9),
    Row("HTML", "export_html_speed", MORE, 2),
    Row("text on two CPUs", "export_text_on_two_cpus", LESS, 0.6),
    Row("JSON lines on two CPUs", "export_json_on_two_cpus", LESS, 0.6),
    Row("CTF on two CPUs", "export_ctf_on_two_cpus", LESS, 0.6),
    Row("Perfetto on two CPUs", "export_perfetto_on_two_cpus", LESS, 0.85),
    Row("HTML on two CPUs", "export_html_on_two_cpus", LESS, 0.9),
    Row("Python, columns", "python_columns_speed", MORE, 2, (("bt2", "python_babeltrace2_speed"),)),
    Row("SQL, sum of a column", "sql_sum_speed", MORE, 2),
    Row("SQL, events by name", "sql_group_speed", MORE, 2),
    "captures for keeping",
    Row("pack", "pack_rate", MORE, 150, (("zstd -3", "zstd_rate"),)),
    Row("packed while it is recorded", "record_packed_rate", MORE, 150,
        (("not packed", "record_write_rate"),)),
    Row("pack, times smaller", "pack_ratio", MORE, peers=(("zstd -3", "zstd_ratio"),)),
    Row("the demo's capture", "demo_pack_ratio", MORE, 4.5, (("zstd -3", "demo_zstd_ratio"),), always=False),
    Row("index, of the capture", "index_share", LESS, 3),
    Row("20 lines from the middle", "report_middle_time", LESS, 1, (("the same without an index", "report_middle_unindexed_time"),)),
    "the agent at rest",
    Row("two guests", "agent_at_rest_two_guests"),
    Row("500 guests", "agent_at_rest_500_guests"),
    Row("watch, host and 100 guests", "watch_at_rest_100_guests", LESS, 1),
    Row("watch, memory for 100 guests", "watch_memory_100_guests", LESS, 50),
    Row("500 guests' own memories", "agent_at_rest_500_own_memories", LESS, 2),
    "record --live, from an event to its line",
    Row("while events flow, median", "live_flow_median", LESS, 5),
    Row("while events flow, 99 %", "live_flow_99", LESS, 5),
    Row("after 0.3 s without one, median", "live_single_median", LESS, 20),
    Row("two idle guests, CPU", "live_at_rest", LESS, 1),
    "guests' own memory",
    Row("region found in 4 GiB", "region_found_in_4_GiB", LESS, 10),
    Row("four storms, over shared regions", "agent_following_own_memory_over_shared", LESS, 1.3),
)


def read_figures(path):
    """The figures: value and unit by metric."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {metric: (float(value), unit) for metric, value, unit in (line.split("\t") for line in lines)}


def read_history(path):
    """The last value of each metric."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {metric: float(value) for _, _, metric, value, _ in (line.split("\t") for line in lines)}


def write_history(path, figures):
    """Appends a run."""
    date = time.strftime("%Y-%m-%d %H:%M")
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty=+"], capture_output=True, text=True,
                          check=False)
    with path.open("a", encoding="utf-8") as file:
        for metric, (value, unit) in figures.items():
            print(date, done.stdout.strip() or "-", metric, f"{value:g}", unit, sep="\t", file=file)


def matches(row, figures):
    """The row's metrics among the figures, each with its SERIES."""
    pattern = re.compile(re.escape(row.metric).replace("SERIES", r"(\d+_\d+)"))
    found = [(metric, pattern.fullmatch(metric)) for metric in figures]
    return [(metric, match[1] if match.lastindex else "") for metric, match in found if match]


def number(value):
    """As many digits as say something."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def change(metric, value, last):
    """Against the last run; "" for the first one."""
    return f"{100 * (value / last[metric] - 1):+.1f} %" if last.get(metric) else ""


def times_better(good, ours, theirs):
    """By how much our figure is better than a peer's: below 1 the peer's is."""
    better, worse = (ours, theirs) if good == MORE else (theirs, ours)
    return f"{number(better / worse)} ×" if worse else "-"


def lines_of(row, figures, last):
    """A row's lines: cells of text. The first one is ours, further ones are of further peers."""
    for metric, text in matches(row, figures):
        value, unit = figures[metric]
        label = f"{row.label}, {text.replace('_', '.')}" if text else row.label
        limit = f"{row.good} {row.limit:g}" if row.limit else ""
        if row.limit:
            limit += "" if (value >= row.limit) == (row.good == MORE) or value == row.limit else " missed"
        ours = [label, f"{number(value)} {unit}", limit, change(metric, value, last)]
        peers = [(name, *(peer.replace("SERIES", text) for peer in metrics)) for name, *metrics in row.peers]
        peers = [peer for peer in peers if peer[1] in figures]
        for name, peer, *ratio in peers:
            theirs = figures[peer][0]
            better = times_better(row.good, *((figures[ratio[0]][0], 1) if ratio else (value, theirs)))
            yield ours + [name, number(theirs), better]
            ours = [""] * len(ours)
        if not peers:
            yield ours + ["", "", ""]


def make_lines(figures, last):
    """All lines of the table; a heading is one cell. A metric that no row has is in the last part."""
    shown = set()
    for row in ROWS:
        if isinstance(row, str):
            yield [row]
            continue
        found = matches(row, figures)
        if not found and row.always:
            sys.exit(f"tests/bench/table.py: no bench prints {row.metric}")
        for metric, text in found:
            shown |= {metric, *(peer.replace("SERIES", text) for _, *metrics in row.peers for peer in metrics)}
        yield from lines_of(row, figures, last)
    yield ["others"]
    for metric, (value, unit) in figures.items():
        if metric not in shown:
            yield [metric, f"{number(value)} {unit}", "", change(metric, value, last), "", "", ""]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    figures, history = read_figures(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[2])
    lines = [["", "ours", "limit", "last run", "peer", "theirs", "better by"],
             *make_lines(figures, read_history(history))]
    widths = [max(len(line[k]) for line in lines if len(line) > 1) for k in range(len(lines[0]))]
    for line in lines:
        if len(line) == 1:
            print(f"\n{line[0]}")
        else:
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    write_history(history, figures)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-or-later
"""Profiles: the stacks and their time in each form."""

import base64
import collections
import json
import pathlib
import re
import subprocess
import zlib

from kit import AGENT, equal

import compare_perfetto


def undivided(rows, states, whole):
    """A profile's rows, those of functions as one for each guest."""
    cells = collections.Counter()
    for row in rows:
        state = row["what"].partition("]")[0].lstrip("[") in states
        cells[row["guest"], row["what"] if state else "[no sample]"] += row["total_ns"]
    return [{"guest": guest, "what": what, "total_ns": ns, "share_ppm": int(ns * 1e6 / whole)}
            for (guest, what), ns in cells.items()]


def stacks_of_page(path):
    """The profile in a page: ns, by the names of a stack's frames; None: the page has none."""
    chunk = re.search(r'data-kind="flame">([^<]*)<', path.read_text())
    if not chunk:
        return None
    packed = zlib.decompress(base64.b64decode(chunk[1] + "=" * (-len(chunk[1]) % 4)), -15)
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            value |= (packed[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if packed[at - 1] < 128:
                return value

    rows, *lengths = [number() for _ in range(6)]
    parents, names, own, combined = [[number() for _ in range(rows)] for _ in range(4)]
    texts, end = [], at + lengths[4]
    while at < end:
        length = number()
        texts.append(packed[at:at + length].decode())
        at += length
    equal(sum(combined), 0, "frames are not combined")
    paths, found = [], collections.Counter()
    for parent, name, ns in zip(parents, names, own):
        paths.append((*(paths[parent - 1] if parent else ()), texts[name]))
        found[paths[-1]] += ns
    return +found


def compare(captures, facts, folder):
    """The stacks of a profile, and their time, in each form: all of the vCPUs' time."""
    def write(*words):
        subprocess.run([AGENT, *words, "-o", out, *captures], stderr=subprocess.DEVNULL, check=True)
        return out
    out = pathlib.Path(folder, "out.profile")
    stacks, found = collections.Counter(), collections.Counter()
    folded = write("analyze", "profile", "--folded").read_text()
    for line in folded.splitlines():
        stack, ns = line.rsplit(" ", 1)
        stacks[tuple(stack.split(";"))] += int(ns)
    whole = sum(row["duration_ns"] for row in facts.states)
    equal(sum(stacks.values()), whole, f"{captures}: time of all stacks")
    scope = json.loads(write("analyze", "profile", "--folded", "--speedscope").read_text())
    frames, (one,) = [frame["name"] for frame in scope["shared"]["frames"]], scope["profiles"]
    for stack, ns in zip(one["samples"], one["weights"]):
        found[tuple(frames[k] for k in stack)] += ns
    equal(found, stacks, f"{captures}: stacks for speedscope")
    page = stacks_of_page(write("export", "--to", "html"))
    equal(page, stacks if facts.sampled else None, f"{captures}: stacks of the page")
    trace = compare_perfetto.Trace(write("export", "--to", "perfetto"))
    equal(trace.profile, stacks if facts.sampled else {}, f"{captures}: stacks for Perfetto")

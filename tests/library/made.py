# SPDX-License-Identifier: GPL-2.0-or-later
"""Captures whose tables are compared."""

import subprocess

from kit import TOP

# What each capture has: the words of make_big_capture. Two are one trace, 10 s apart.
MADE = {
    "usual": [("window",)], "hole": [("window",), ("window", "later")], "reset": [("window", "reset", "migrate")],
    "offline": [("window", "offline", "migrate")], "losses": [("window", "losses", "migrate")],
    "losses, moves unseen": [("window", "losses", "offline", "reset")], "without a start": [("migrate",)],
    "driverless": [("window", "driverless", "migrate")],
    "quotas": [("window", "quotas", "migrate", "reset")], "quotas, moves unseen": [("window", "quotas")], "hosts": [("window", "migrate", "quotas", "first"), ("window", "losses", "reset", "quotas", "second")],
    "samples": [("window", "samples", "migrate", "reset")],
    "samples, twice": [("window", "samples"), ("window", "samples", "later")],
}
EVENTS = "20000"


def make(folder):
    """Creates all captures. Returns those of each trace."""
    traces = []
    for name, parts in MADE.items():
        traces.append([])
        for number, words in enumerate(parts):
            traces[-1].append(f"{folder}/{name.replace(',', '').replace(' ', '-')}{number}.braid")
            subprocess.run([TOP / "build/make_big_capture", traces[-1][-1], EVENTS, *words], check=True)
    return traces

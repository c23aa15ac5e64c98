#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests the judge of nested-kvm with timelines whose verdict is known."""

import sys

sys.dont_write_bytecode = True  # keeps the source tree clean

import json
import unittest

import judge

WINDOW = (1000, 2000)  # of vCPU 0 of g; the pio of pair 7 is at 1500
LATE = 9_000_000
THREADS = {"g": [42]}


def lines(*guest, bound=10):
    """A report: the host's events around the guest's, which are (ns, name)."""
    def event(stream, ns, name, **fields):
        return {"type": "event", "stream": stream, "system": "pairs", "event": name, "ns": ns, "bound_ns": bound,
                "cpu": 0, "seq": ns, "pid": 42, "fields": fields}

    rows = [event("host", 0, "sched_switch"), event("host", WINDOW[0], "kvm_entry", vcpu_id=0),
            event("host", 1500, "kvm_pio", port=judge.PAIR_PORT, val=7), event("host", WINDOW[1], "kvm_exit", vcpu_id=0),
            event("host", LATE, "sched_switch")]
    return [json.dumps(row) for row in rows + [event("g", ns, name, number=7) for ns, name in guest]]


def judged(check, *guest, bound=10, shift=0):
    return check(judge.Recording(lines(*guest, bound=bound), THREADS), "g", shift)


class Windows(unittest.TestCase):
    def test_inside(self):
        finding = judged(judge.check_windows, (1200, "x"))
        self.assertEqual((finding.judged, finding.by_bound, finding.wrong), (1, 0, []))
        self.assertEqual((finding.back, finding.forth), (200, 800))

    def test_outside(self):
        for ns in (995, 2005):  # within the bound, but the bound is narrower than the window
            self.assertEqual(len(judged(judge.check_windows, (ns, "x")).wrong), 1)

    def test_wide_bound_reaches_the_window(self):
        finding = judged(judge.check_windows, (3000, "x"), bound=1100)
        self.assertEqual((finding.judged, finding.by_bound, finding.wrong), (1, 1, []))

    def test_wide_bound_misses_the_window(self):
        finding = judged(judge.check_windows, (3200, "x"), bound=1100)
        self.assertEqual([beyond for _, _, beyond in finding.wrong], [True])


class Pairs(unittest.TestCase):
    def test_between(self):
        finding = judged(judge.check_pairs, (1400, "before"), (1700, "after"))
        self.assertEqual((finding.judged, finding.wrong, finding.back, finding.forth), (1, [], 200, 100))
        self.assertTrue(judge.check_teeth(judge.check_pairs, judge.Recording(
            lines((1400, "before"), (1700, "after")), THREADS), "g", finding))

    def test_after_the_pio(self):
        self.assertEqual(len(judged(judge.check_pairs, (1505, "before"), (1700, "after")).wrong), 1)

    def test_wide_bound(self):
        finding = judged(judge.check_pairs, (1600, "before"), (1700, "after"), bound=150)
        self.assertEqual((finding.judged, finding.by_bound, finding.wrong), (1, 1, []))
        finding = judged(judge.check_pairs, (1660, "before"), (1760, "after"), bound=150)
        self.assertEqual([beyond for _, _, beyond in finding.wrong], [True])

    def test_bound_wider_than_an_exit(self):  # though narrower than the pair: its vCPU was preempted during it
        finding = judged(judge.check_pairs, (1600, "before"), (8_000_000, "after"), bound=20000)
        self.assertEqual((finding.judged, finding.by_bound, finding.wrong), (1, 1, []))


if __name__ == "__main__":
    unittest.main(verbosity=0)

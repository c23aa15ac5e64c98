# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks a timeline against KVM's guarantees, to the nanosecond.

Windows: a vCPU executes only between its thread's kvm_entry and kvm_exit, so every event of the guest lies in such
a window. Pairs: of the three events that nested/pairs.c causes, the host's kvm_pio lies between the guest's two.

An event's stated bound must always hold: its time, plus or minus the bound, reaches the window. Its point time must
lie in the window as well, but only where the bound is narrower than the window or pair and than an exit's duration: a
wider bound, as an overloaded machine causes, does not claim that.
"""

import bisect
import collections
import json

# The fields of a guest's event that are judged; seq distinguishes it from others of its ring.
Event = collections.namedtuple("Event", "ns bound name seq")
Window = collections.namedtuple("Window", "entry exit")  # None: not seen

# The result of one check: how many were judged, how many of these only by bound, the errors (by how
# many ns, text, beyond the stated bound or not), how many could not be judged, and by how many ns
# all of the guest's times could move backward or forward before a point time is wrong; None if no
# point was judged.
Finding = collections.namedtuple("Finding", "judged by_bound wrong left_out back forth")

PAIR_PORT = 0x6660  # pairs.c
PAIR_EVENTS = ("pairs:before", "pairs:after")
EXIT_NS = 10000  # an emulated exit takes longer than this, so a guest's event is that far from the host's around it


class Recording:
    """The parts of one report that are judged.

    lines: of `report --json`. threads: {guest: [the host's thread of each vCPU]}.
    """

    def __init__(self, lines, threads):
        self.streams = []
        self.events = collections.defaultdict(list)  # by (guest, vCPU), in order of time
        self.halves = collections.defaultdict(dict)  # by guest: {(name, number): (vCPU, event)}
        self.windows = {}  # by (guest, vCPU), in order of time
        self.pios = {}  # {value: (vCPU, ns)}, the vCPU as (guest, number)
        self.counts = collections.Counter()  # of the host's events by name
        self.seen = None  # the host's recording: the times of its first and last event
        self._host = "host"  # its stream
        self._vcpu_of = {tid: (guest, vcpu) for guest, tids in threads.items() for vcpu, tid in enumerate(tids)}
        for key in self._vcpu_of.values():
            self.windows[key] = []
        take = {"stream": self._take_stream, "event": self._take_event}
        for line in lines:
            line = json.loads(line)
            if line["type"] in take:
                take[line["type"]](line)

    def _take_stream(self, line):
        self.streams.append(line)
        if line["kind"] == "host":
            self._host = line["stream"]

    def _take_event(self, line):
        if line["stream"] == self._host:
            self.seen = (self.seen[0] if self.seen else line["ns"], line["ns"])
            self.counts[line["event"]] += 1
            take = {"kvm_entry": self._take_entry, "kvm_exit": self._take_exit, "kvm_pio": self._take_pio}
            vcpu = self._vcpu_of.get(line["pid"])
            if vcpu and line["event"] in take:
                take[line["event"]](vcpu, line)
            return
        name = f"{line['system']}:{line['event']}"
        event = Event(line["ns"], line["bound_ns"], name, line["seq"])
        self.events[line["stream"], line["cpu"]].append(event)
        if name in PAIR_EVENTS:
            self.halves[line["stream"]][name, line["fields"]["number"]] = (line["cpu"], event)

    def _take_entry(self, vcpu, line):
        if line["fields"]["vcpu_id"] == vcpu[1]:
            self.windows[vcpu].append(Window(line["ns"], None))

    def _take_exit(self, vcpu, line):
        if line["fields"]["vcpu_id"] != vcpu[1]:
            return
        windows = self.windows[vcpu]
        if windows and windows[-1].exit is None:
            windows[-1] = windows[-1]._replace(exit=line["ns"])
        else:
            windows.append(Window(None, line["ns"]))

    def _take_pio(self, vcpu, line):
        if line["fields"]["port"] == PAIR_PORT:  # others may have the same value
            self.pios[line["fields"]["val"]] = (vcpu, line["ns"])

    def guests(self):
        """The names of guests with events, sorted."""
        return sorted({guest for guest, _ in self.events})

    def lost(self):
        """The number of host events that did not fit in its buffers."""
        return sum(one.get("lost", 0) for one in self.streams if one["kind"] == "host")


class _Sum:
    """Accumulates a Finding."""

    def __init__(self, shift):
        self.shift, self.judged, self.by_bound, self.left_out = shift, 0, 0, 0
        self.wrong, self.back, self.forth = [], None, None

    def room(self, back, forth, slack=0):
        """Adds one by how far its time may move either way; below 0 it is wrong. With slack, judged only by bound."""
        self.judged += 1
        if slack:
            self.by_bound += 1
            return
        self.back = back if self.back is None else min(self.back, back)
        self.forth = forth if self.forth is None else min(self.forth, forth)

    def blame(self, event, by_ns, text):
        """Adds one that is wrong by `by_ns`."""
        beyond = event.bound is None or by_ns > event.bound
        self.wrong.append((by_ns, f"{text} by {by_ns} ns (stated bound {event.bound} ns)", beyond))

    def finding(self):
        self.wrong.sort(reverse=True)
        return Finding(self.judged, self.by_bound, self.wrong, self.left_out, self.back, self.forth)


def _slack(event, start, end):
    """By how much a point time may miss an interval: by its bound if that is wide, else 0."""
    if event.bound is None or start is None or end is None or event.bound < min(end - start, EXIT_NS):
        return 0
    return event.bound


def _judge_event(total, windows, starts, vcpu, event):
    """Judges one event against the windows of its vCPU."""
    ns = event.ns + total.shift
    k = bisect.bisect_right(starts, ns) - 1
    at = f"{vcpu[0]} vCPU {vcpu[1]}: {event.name} #{event.seq} at {ns}"
    if k >= 0 and (windows[k].exit is None or ns <= windows[k].exit):
        if windows[k].entry is None or windows[k].exit is None:
            total.left_out += 1
        else:
            total.room(ns - windows[k].entry, windows[k].exit - ns, _slack(event, *windows[k]))
        return
    after_ns = ns - windows[k].exit if k >= 0 else None
    before_ns = windows[k + 1].entry - ns if k + 1 < len(windows) else None
    if after_ns is not None and after_ns <= _slack(event, *windows[k]) or \
            before_ns is not None and before_ns <= _slack(event, *windows[k + 1]):
        total.room(0, 0, event.bound)
    elif after_ns is not None and (before_ns is None or after_ns <= before_ns):
        total.room(0, -after_ns)
        total.blame(event, after_ns, f"{at} is after the exit at {windows[k].exit} (entered at {windows[k].entry})")
    elif before_ns is not None:
        total.room(-before_ns, 0)
        total.blame(event, before_ns, f"{at} is before the entry at {windows[k + 1].entry}")
    else:
        total.left_out += 1


def check_windows(recording, guest, shift=0):
    """Judges every event of a guest, moved by `shift`, against the windows of its vCPU."""
    total = _Sum(shift)
    for vcpu, events in recording.events.items():
        if vcpu[0] != guest:
            continue
        windows = recording.windows[vcpu]
        starts = [-1 if window.entry is None else window.entry for window in windows]
        for event in events:
            if recording.seen[0] <= event.ns + shift <= recording.seen[1]:
                _judge_event(total, windows, starts, vcpu, event)
            else:
                total.left_out += 1
    return total.finding()


def check_pairs(recording, guest, shift=0):
    """Judges every complete pair of a guest, moved by `shift`, against the host's event between its two.

    Left out are halves whose other half is missing.
    """
    total = _Sum(shift)
    halves = recording.halves[guest]
    for (name, number), (vcpu, before) in halves.items():
        if name != PAIR_EVENTS[0]:
            continue
        other = halves.get((PAIR_EVENTS[1], number))
        if not other:
            total.left_out += 1
            continue
        at = f"{guest} vCPU {vcpu}: pair {number:#x}"
        by, pio_ns = recording.pios.get(number, (None, None))
        if by != (guest, vcpu) or other[0] != vcpu:
            total.judged += 1
            total.wrong.append((1 << 62, f"{at}: its kvm_pio is of {by}, its other half is of vCPU {other[0]}", True))
            continue
        forth, back = pio_ns - before.ns - shift, other[1].ns + shift - pio_ns
        slack = [_slack(event, before.ns, other[1].ns) for event in (before, other[1])]
        total.room(back, forth, max(slack))
        if forth < -slack[0]:
            total.blame(before, -forth, f"{at}: pairs:before at {before.ns + shift} is after kvm_pio at {pio_ns}")
        if back < -slack[1]:
            total.blame(other[1], -back, f"{at}: pairs:after at {other[1].ns + shift} is before kvm_pio at {pio_ns}")
    return total.finding()


def check_teeth(check, recording, guest, finding):
    """Whether the check, which found no error, finds one when all times are moved by 1 ns more than they may.

    Also true if some were judged only by their bound: moved, these may still reach a window.
    """
    shifts = () if finding.by_bound else (finding.forth + 1, -finding.back - 1)
    return all(check(recording, guest, shift).wrong for shift in shifts)

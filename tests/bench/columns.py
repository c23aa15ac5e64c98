#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads time, CPU and a field of all events into arrays, to be measured: columns.py tracebraid|bt2 CAPTURE|CTF-FOLDER"""

import pathlib
import sys

sys.dont_write_bytecode = True


def by_tracebraid(path):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    import tracebraid  # pylint: disable=import-outside-toplevel # one of the two
    with tracebraid.open(path) as trace:
        return len(trace.columns(["ns", "cpu", "next_pid"])["ns"])


def by_babeltrace(path):
    import bt2  # pylint: disable=import-outside-toplevel # one of the two
    import numpy  # pylint: disable=import-outside-toplevel # as above
    rows = []
    for message in bt2.TraceCollectionMessageIterator(path):
        if isinstance(message, bt2._EventMessageConst):  # pylint: disable=protected-access # it has no other name
            event = message.event
            payload = event.payload_field
            pid = payload["next_pid"] if payload is not None and "next_pid" in payload else -1
            rows.append((message.default_clock_snapshot.ns_from_origin, int(event.packet.context_field["cpu_id"]), int(pid)))
    return len(numpy.array(rows, dtype=numpy.int64))


print({"tracebraid": by_tracebraid, "bt2": by_babeltrace}[sys.argv[1]](sys.argv[2]))

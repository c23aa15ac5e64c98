# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the clock cells of a region's file, for cases that inspect them without an agent."""

import struct

from directory import SECTIONS_AT

CLOCK = 1  # offset of the superblock's section table
HZ_AT = 48
WALL_AT, POLL_AT = 128, 192


def _read(shm, at, count):
    with open(shm, "rb") as region:
        region.seek(at)
        return region.read(count)


def _cell(shm, at, form):
    section = struct.unpack("<Q", _read(shm, SECTIONS_AT + 16 * CLOCK, 8))[0]
    return struct.unpack(form, _read(shm, section + at, struct.calcsize(form)))


def counter_hz(shm):
    """The counter's frequency as the guest reports it."""
    return struct.unpack("<Q", _read(shm, HZ_AT, 8))[0]


def walls(shm):
    """The number of wall pairs that the guest has published."""
    return _cell(shm, WALL_AT, "<I")[0] // 2


def poll_sample(shm):
    """(number, counter) of the guest's last poll sample; None while it is being updated."""
    seq, counter = _cell(shm, POLL_AT, "<I12xQ")
    return (seq // 2, counter) if not seq % 2 and _cell(shm, POLL_AT, "<I")[0] == seq else None

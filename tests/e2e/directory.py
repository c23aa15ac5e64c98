# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the event directory of a region's file, for cases that inspect it without an agent."""

import collections
import struct

MARK = b"TRCBMARK"  # by which a host permits the driver to use the memory

DIRECTORY = 4  # offset of the superblock's section table
SECTIONS_AT = 240
BUFFERS_AT = SECTIONS_AT + 8 * 16 + 8

SUB = 1 << 3
GONE = 1 << 2

Entry = collections.namedtuple("Entry", "buffer id flags number system name format")


def _text(data):
    return data.rstrip(b"\0").decode()


def read(shm):
    """(bytes used, size in bytes, entries) of the directory in a live region."""
    data = shm.read_bytes()
    offset, room = struct.unpack_from("<QQ", data, SECTIONS_AT + 16 * DIRECTORY)
    used = struct.unpack_from("<I", data, offset)[0]
    base = offset + 64
    entries, at = [], base
    while at < base + used:
        size, flags, ident, buffer, system, name, text, number = struct.unpack_from("<IIHHHHII", data, at)
        strings = data[at + 24:at + size]
        name_at = BUFFERS_AT + 96 * buffer
        entries.append(Entry(_text(data[name_at:name_at + 32]), ident, flags, number, _text(strings[:system]),
                             _text(strings[system:system + name]), _text(strings[system + name:system + name + text])))
        at += size
    return used, room, entries


def living(shm, buffer, system, name):
    """The live entries of an event or sub-event."""
    return [entry for entry in read(shm)[2] if not entry.flags & GONE and
            (entry.buffer, entry.system, entry.name) == (buffer, system, name)]

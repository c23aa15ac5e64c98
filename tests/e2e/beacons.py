# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the region in a guest's own memory as a host may: by the beacons in the memory of its QEMU, which is only read."""

import os
import re
import struct

import host
from errors import RigError

STEP = 2 << 20  # where beacons lie at least
_HEAD = struct.Struct("<QHHIQIIQQQ")  # magic, major, minor, page, nonce, index, number, address, bytes, region's bytes
_LIST_AT = 128
_STATE_AT = 12  # of the superblock
DOWN, LIVE = 3, 2
_PT_LOAD, _PT_NOTE, _NT_AUXV = 1, 4, 6  # of ELF


def _constant(name):
    text = (host.ROOT / "include/tracebraid/beacon.h").read_text(encoding="ascii")
    return int(re.search(rf"^#define {name}\s+(0x[0-9A-F]+|\d+)", text, re.MULTILINE)[1], 0)


MAGIC = _constant("BRAID_BEACON_MAGIC")
LINGER_MS = _constant("BRAID_BEACON_LINGER_MS")
_MOST = _constant("BRAID_BEACON_CHUNKS")


class Memory:
    """The memory of a QEMU: pages that its page tables have, no others, so that none is allocated by reading."""

    def __init__(self, pid):
        self.pid = pid
        with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
            ranges = [re.match(r"(\w+)-(\w+) rw.. (\w+)", line) for line in maps]
        self.ranges = [tuple(int(word, 16) for word in found.groups()) for found in ranges if found]
        # pylint: disable=consider-using-with
        self._memory = open(f"/proc/{pid}/mem", "rb", buffering=0)
        self._pagemap = open(f"/proc/{pid}/pagemap", "rb", buffering=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._memory.close()
        self._pagemap.close()

    def present(self, address):
        """Whether the page at an address is in memory."""
        self._pagemap.seek(address // 4096 * 8)
        entry = self._pagemap.read(8)
        return len(entry) == 8 and struct.unpack("<Q", entry)[0] >> 63

    def read(self, address, size):
        """Bytes of present pages."""
        for page in range(address & ~4095, address + size, 4096):
            if not self.present(page):
                raise RigError(f"page {page:#x} of the region is not present")
        self._memory.seek(address)
        return self._memory.read(size)

    def candidates(self):
        """Addresses, and offsets in files, that are multiples of the step."""
        for start, end, offset in self.ranges:
            if end - start < STEP:
                continue
            for first in {-start % STEP, -offset % STEP}:
                yield from range(start + first, end - 4095, STEP)

    def write_core(self, path):
        """Writes a core file of the process: its notes without content, and the pages that can be written."""
        notes, at = struct.pack("<III8sQQ", 5, 16, _NT_AUXV, b"CORE", 0, 0), 1 << 20
        parts = [(_PT_NOTE, 0, at - 4096, 0, 0, len(notes), len(notes), 4)]
        with open(path, "wb", buffering=0) as out:
            os.pwrite(out.fileno(), notes, at - 4096)
            for start, end, _ in self.ranges:
                parts.append((_PT_LOAD, 6, at, start, 0, end - start, end - start, 4096))
                for page in range(start, end, 4096):
                    if self.present(page):
                        os.pwrite(out.fileno(), self.read(page, 4096), at + page - start)
                at += end - start
            out.truncate(at)
            head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 4, 62, 1, 0, 64, 0, 0, 64, 56, len(parts), 64, 0, 0)
            os.pwrite(out.fileno(), head + b"".join(struct.pack("<IIQQQQQQ", *part) for part in parts), 0)

    def beacons(self):
        """{address: (beacon's words after the magic, its page)} of all that have the magic."""
        found = {}
        for address in self.candidates():
            if self.present(address) and struct.unpack("<Q", self.read(address, 8))[0] == MAGIC:
                page = self.read(address, 4096)
                found[address] = _HEAD.unpack_from(page)[1:], page
        return found


def find(pid):
    """The region's chunks in order: (address in the process, bytes of the beacon's page, bytes). [] without a beacon."""
    with Memory(pid) as memory:
        beacons = memory.beacons()
        firsts = [(at, words, page) for at, (words, page) in beacons.items() if not words[4]]
        if not firsts:
            if beacons:
                raise RigError(f"{len(beacons)} beacons, but not that of chunk 0")
            return []
        if len(firsts) > 1:
            raise RigError(f"{len(firsts)} beacons are chunk 0's")
        (base, (major, _, page_bytes, nonce, _, number, physical, _, _), page), = firsts
        if major != 1 or not 0 < number <= _MOST:
            raise RigError(f"chunk 0's beacon: version {major}, {number} chunks")
        chunks = []
        for k in range(number):
            address, size = struct.unpack_from("<QQ", page, _LIST_AT + 16 * k)
            # By its beacon; a small chunk from chunk 0, in the same mapping.
            own = [at for at, (words, _) in beacons.items() if words[3:5] == (nonce, k)]
            at = own[0] if own else base + address - physical
            words = _HEAD.unpack(memory.read(at, _HEAD.size))
            if words[0] != MAGIC or words[4:9] != (nonce, k, number, address, size):
                raise RigError(f"chunk {k}: its beacon {words} differs from the list: {address:#x}, {size} bytes")
            chunks.append((at, page_bytes, size))
        return chunks


def state(pid):
    """The region's state; None without a region."""
    chunks = find(pid)
    if not chunks:
        return None
    with Memory(pid) as memory:
        return struct.unpack("<I", memory.read(chunks[0][0] + chunks[0][1] + _STATE_AT, 4))[0]


def copy(pid, path):
    """Copies the region into a file; returns how many chunks it has."""
    chunks = find(pid)
    with Memory(pid) as memory, open(path, "wb") as out:
        for at, page_bytes, size in chunks:
            out.write(memory.read(at + page_bytes, size - page_bytes))
    return len(chunks)

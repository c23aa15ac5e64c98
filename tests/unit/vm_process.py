# SPDX-License-Identifier: GPL-2.0-or-later
"""
A process with memory as a VMM has: vm_process.py KIND BYTES ADDRESS. It prints "ready", and ends
with its input. A line of input, "absent" or "present", takes a file's pages out of its page tables,
or back; it prints "ready" then, too.

KIND is anonymous, shared, private or hugetlb; or the path of a file, all of whose pages are then
present.
"""

import ctypes
import mmap
import os
import sys

FIXED_NOREPLACE = 0x100000
kind, size, address = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
flags, file = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1
if kind.startswith("/"):
    file, flags = os.open(kind, os.O_RDWR), mmap.MAP_SHARED
elif kind != "anonymous":
    file = os.memfd_create("vm", os.MFD_HUGETLB if kind == "hugetlb" else 0)
    os.ftruncate(file, size)
    flags = mmap.MAP_PRIVATE if kind == "private" else mmap.MAP_SHARED
protection = mmap.PROT_READ | mmap.PROT_WRITE
got = libc.mmap(address, size, protection, flags | FIXED_NOREPLACE, file, 0)
if got != address:
    sys.exit(f"mmap: {os.strerror(ctypes.get_errno())}")
if kind == "anonymous":
    libc.madvise(address, size, mmap.MADV_HUGEPAGE)


def touch():
    """All pages are present."""
    for page in range(address, address + size, mmap.PAGESIZE):
        ctypes.c_ubyte.from_address(page).value


if kind.startswith("/"):
    touch()
elif kind != "hugetlb":  # advice for a part splits the mapping, here within a chunk
    libc.madvise(address + (65 << 20), 4096, mmap.MADV_DONTFORK)
os.write(1, b"ready\n")  # in one piece: its reader goes on after that
for line in iter(sys.stdin.readline, ""):
    if line == "present\n":
        touch()
    else:  # of a shared file: they stay in it
        libc.madvise(address, size, 4)
    os.write(1, b"ready\n")

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the kernel's trace headers: no assignment of an event that the driver records reads the record back.

The driver's probes are these assignments, and the record lies in memory that the host may write. So a stored field
must not become an address, an index, a length or a condition. read_back.py HEADERS...: folders of kernel headers, as
/lib/modules/RELEASE/build. What remains of an assignment when stores and known writers are taken away must be in HARMLESS.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "guest_driver" / "source"

# Event: why a host that changes the field in between can change the record only.
HARMLESS = {
    "balance_dirty_pages": "multiplies one field to get another; and is left out",
    "block_rq_tag_wait": "chooses between two numbers to store; both are there whatever it chooses",
}

FIELD = r"__entry->\w+(?:\.\w+)*(?:\[[^\[\]]*\])*"
WRITTEN = [
    rf"\bsizeof\s*\(\s*\**\s*{FIELD}\s*\)",
    # A store. An index must not be a field: what remains of it is found.
    r"__entry->\w+(?:\.\w+)*(?=(?:\[[^\[\]]*\])*\s*=(?!=))",
    # Functions and macros that fill the field.
    rf"\b(?:memcpy|memset|strscpy|strscpy_pad|strncpy|blk_fill_rwbs|cgroup_path|zap_string)\s*\(\s*\(?&?{FIELD}",
    rf"\bsyscall_get_arguments\s*\(\s*current\s*,\s*regs\s*,\s*{FIELD}",
    r"\bTP_STORE_SIGINFO\s*\(\s*__entry\b",
    r"\bTP_STORE_ADDRS\s*\(\s*__entry\b",
    r"\bTP_STORE_ADDR_PORTS\s*\(\s*__entry\b",
    r"\bTP_STORE_ADDR_PORTS_SKB\s*\(\s*__entry\b",
    rf"\bTP_STORE_ADDR_PORTS_SKB\s*\(\s*\w+\s*,\s*\w+\s*,\s*{FIELD}\s*,\s*{FIELD}",
    # Addresses of fields, through which the next lines store.
    rf"\b(?:p32|pin6)\s*=\s*\(\s*(?:__be32|struct in6_addr)\s*\*\s*\)\s*{FIELD}",
]


def headers_used():
    """The names of the trace headers that the driver includes."""
    names = set()
    for path in SOURCE.glob("*_headers.h"):
        names.update(re.findall(r"^#include <(.*)>", path.read_text(encoding="utf-8"), re.M))
    compat = (ROOT / "guest_driver" / "compat.h").read_text(encoding="utf-8")
    names.update(re.findall(r"_TRACE_HEADER\s+<(.*)>", compat))
    return names


def closing(text, at):
    """The place after the parenthesis that closes the one before `at`."""
    depth = 1
    while depth and at < len(text):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def assignments(text):
    """(event, its assignment) for each event or class of a header."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#.*?(?<!\\)$", " ", text, flags=re.M | re.S)
    for start in re.finditer(r"\b(?:TRACE_EVENT|DECLARE_EVENT)\w*\s*\(\s*(\w+)", text):
        whole = text[start.end():closing(text, start.end())]
        found = re.search(r"\bTP_fast_assign\s*\(", whole)
        if found:
            yield start[1], whole[found.end():closing(whole, found.end()) - 1]


def read_back(body):
    """What an assignment reads of the record: the statements."""
    for pattern in WRITTEN:
        body = re.sub(pattern, " ", body)
    return [" ".join(part.split()) for part in re.split(r"[;{}]", body) if "__entry" in part]


def common(folder):
    """The folder of a kernel's common headers: the one that its Makefile includes, or itself."""
    makefile = folder / "Makefile"
    text = makefile.read_text(encoding="utf-8") if makefile.exists() else ""
    found = re.search(r"^include (\S+)/Makefile$", text, re.M)
    if not found:
        return folder
    path = pathlib.Path(found[1])
    return path if path.exists() else folder.parent / path.name


def check(folder):
    """The faults of one kernel's headers, and the number of assignments seen."""
    faults, seen = [], 0
    for name in sorted(headers_used()):
        for path in (folder / "include" / name, folder / "arch" / "x86" / "include" / name):
            if not path.exists():
                continue
            for event, body in assignments(path.read_text(encoding="utf-8")):
                seen += 1
                if event not in HARMLESS:
                    faults += [f"{path}: {event} reads its record back: {part}" for part in read_back(body)]
    return faults, seen


def self_test():
    """The check finds each kind of use, and no store."""
    uses = ["if (__entry->a) x();", "__entry->b = names[__entry->a];", "memcpy(__entry->to, from, __entry->bytes);",
            "__entry->list[__entry->nr] = 1;", "strscpy(__entry->to, __entry->from, 4);", "__entry->nr++;"]
    stores = ["__entry->a = b ? c->d : 0;", "memcpy(__entry->to, from, sizeof(__entry->to));", "__entry->v[1] = 2;",
              "if (x) __entry->a = 1; else __entry->a = 2;", "__assign_str(name);"]
    for text in uses:
        if not read_back(text):
            raise SystemExit(f"read_back.py: does not see {text}")
    for text in stores:
        if read_back(text):
            raise SystemExit(f"read_back.py: {text} is a store: {read_back(text)}")


def main():
    self_test()
    bad = False
    for folder in sorted({common(pathlib.Path(arg).resolve()) for arg in sys.argv[1:]}):
        faults, seen = check(folder)
        if seen < 50:
            faults.append(f"{folder}: only {seen} assignments found")
        for fault in faults:
            print(fault)
        bad |= bool(faults)
        if not faults:
            print(f"ok   {folder.name}: {seen} assignments, none reads its record back")
    sys.exit(bad)


main()

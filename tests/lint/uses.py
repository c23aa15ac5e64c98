#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks which files use which: uses.py FOLDER...

Each FOLDER contains the objects of one program or module, in the rooms of ROOMS. A file uses another one if its object
needs a name that the other's defines (nm), or if the compiler read the other for it (the dependency output). No files
may use each other in a circle, directly or through others, and a file may use only the rooms that its room may.
"""

import collections
import pathlib
import re
import subprocess
import sys

# What a room may use, besides itself, shared/ and include/. docs/rooms.md has the reasons.
COMMON = "util capture clock_model fields"
READING = f"{COMMON} trace format"
FORMS = "export/text export/stats export/ctf export/perfetto export/trace_dat export/html"
RECORDING = f"{COMMON} transport discover clock_sync control"
ROOMS = {
    "host_agent/util": "",
    "host_agent/transport": "util",
    "host_agent/discover": "util transport",
    "host_agent/capture": "util",
    "host_agent/fields": "util",
    "host_agent/clock_model": "util capture",
    "host_agent/control": "util transport capture clock_sync fields",
    "host_agent/clock_sync": "util transport discover capture clock_model",
    "host_agent/live": RECORDING,
    "host_agent/record": f"{RECORDING} live",
    "host_agent/trace": COMMON,
    "host_agent/format": f"{COMMON} trace",
    "host_agent/analyze": READING,
    "host_agent/walk": f"{READING} analyze",
    "host_agent/online": f"{READING} analyze walk",
    "host_agent/export": f"{READING} analyze walk {FORMS}",
    "host_agent/export/text": f"{READING} walk",
    "host_agent/export/stats": f"{READING} analyze walk export/text",
    "host_agent/export/ctf": f"{READING} analyze walk",
    "host_agent/export/perfetto": f"{READING} analyze walk",
    "host_agent/export/trace_dat": f"{READING} analyze walk export",
    "host_agent/export/html": f"{READING} analyze walk export export/text",
    "host_agent/library": f"{READING} analyze walk export export/text",
    "host_agent/sql": "util library",
    "host_agent/fleet": "util",
    "host_agent/serve": f"{READING} analyze online library fleet",
    "host_agent/cli": f"{READING} {RECORDING} analyze walk export export/text library sql live record online fleet serve",
    "host_agent/select": f"{READING} {RECORDING} live record cli",
    "guest_driver/core": "",
    "guest_driver/clock": "core",
    "guest_driver/event": "core clock",
    "guest_driver/source": "core event",
    "guest_driver/marker": "core event",
    "guest_driver/transport": "core",
}
DEFINED = "TDBRVWGSC"
NEEDED = "Uwv"
IN_ROOM = re.compile(r"(?:.*/)?((?:host_agent|guest_driver)/\w+(?:/\w+)?)/[\w.-]+$")
SIDE = re.compile(r"(?:.*/)?(host_agent|guest_driver)/")


def has_source(path):
    """Whether the source that an object was compiled from, by the compiler's dependency output, still exists."""
    listed = path.with_suffix(".d")
    source = next((word for word in listed.read_text().split() if word.endswith(".c")), None) if listed.exists() else None
    return not source or pathlib.Path(source).exists()


def objects_in(folder):
    """The objects of a folder, without tests, what is linked of others, and those whose source is gone."""
    found = [path for path in sorted(folder.rglob("*.o"))
             if "tests" not in path.relative_to(folder).parts[:-1] and path.parent != folder and has_source(path)]
    if not found:
        sys.exit(f"{folder}: no objects; build it first")
    return found


def uses_of(folder):
    """The uses of a folder's objects by symbols: {file: {other: names that other defines}}."""
    listing = subprocess.run(["nm", "-A", *objects_in(folder)], stdout=subprocess.PIPE, text=True, check=True).stdout
    definer, needs = {}, collections.defaultdict(set)
    for line in listing.splitlines():
        path, _, rest = line.partition(":")
        *_, kind, name = rest.split()
        file = str(pathlib.Path(path).relative_to(folder).with_suffix(""))
        if kind in DEFINED:
            definer[name] = file
        elif kind in NEEDED:
            needs[file].add(name)
    uses = {file: collections.defaultdict(set) for file in {*needs, *definer.values()}}
    for file, names in needs.items():
        for name in names & definer.keys():
            if definer[name] != file:
                uses[file][definer[name]].add(name)
    return uses


def includes_of(folder):
    """The headers that the compiler read for each object: {file: paths}, by its .d or kbuild's .cmd file."""
    includes = {}
    for path in objects_in(folder):
        name = str(path.relative_to(folder).with_suffix(""))
        for file in path.with_suffix(".d"), path.with_name(f".{path.name}.cmd"):
            if file.exists():
                includes[name] = {word for word in file.read_text().split() if word.endswith(".h")}
        if name not in includes:
            sys.exit(f"{path}: no dependency output of the compiler; build it again")
    return includes


def circles_in(uses):
    """The sets of files that reach each other (Tarjan's strongly connected components)."""
    number, lowest, stack, found = {}, {}, [], []

    def visit(file):
        number[file] = lowest[file] = len(number)
        stack.append(file)
        for other in uses[file]:
            if other not in number:
                visit(other)
            if other in stack:
                lowest[file] = min(lowest[file], lowest[other])
        if lowest[file] == number[file]:
            at = stack.index(file)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for file in sorted(uses):
        if file not in number:
            visit(file)
    return found


def may_use(file, other):
    """Whether a file's place allows that it uses another."""
    side, other_side = SIDE.match(file), SIDE.match(other)
    if not other_side:
        return True                     # shared/, include/, the kernel's, libraries'
    if not side or side[1] != other_side[1]:
        return False                    # shared/ may use neither side, a side not the other
    room, other_room = IN_ROOM.match(file), IN_ROOM.match(other)
    if not room:
        return True                     # the top of a side: main.c, attach.c
    if not other_room:
        return other.endswith("guest_driver/compat.h")
    if room[1] not in ROOMS:
        sys.exit(f"{room[1]} is not in the table of rooms")
    allowed = ROOMS[room[1]].split()
    return other_room[1] == room[1] or other_room[1].partition("/")[2] in allowed


def arrows_in(uses, includes):
    """The uses that no room may have: lines."""
    lines = [f"{file} must not use {other}: {' '.join(sorted(names))}"
             for file in sorted(uses) for other, names in sorted(uses[file].items()) if not may_use(file, other)]
    return lines + [f"{file} must not include {header}"
                    for file in sorted(includes) for header in sorted(includes[file]) if not may_use(file, header)]


def main():
    bad = False
    for folder in map(pathlib.Path, sys.argv[1:]):
        uses = uses_of(folder)
        for circle in circles_in(uses):
            bad = True
            print(f"{folder}: a circle of {len(circle)} files:")
            for file in circle:
                for other in sorted(set(circle) & uses[file].keys()):
                    print(f"  {file} uses {other}: {' '.join(sorted(uses[file][other]))}")
        for line in arrows_in(uses, includes_of(folder)):
            bad = True
            print(f"{folder}: {line}")
    if not bad:
        print("ok   no circle among files, no use of a room above")
    sys.exit(bad)


if __name__ == "__main__":
    main()

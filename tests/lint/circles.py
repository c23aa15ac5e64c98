#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks that no files use each other in a circle, directly or through others: circles.py FOLDER...

Uses are those that the linker sees: names that a file's object needs and another one defines. Each FOLDER contains
the objects of one program or module.
"""

import collections
import pathlib
import subprocess
import sys

DEFINED = "TDBRVWGSC"
NEEDED = "Uwv"


def uses_of(folder):
    """The uses of the objects below a folder: {file: {other: names that other defines}}."""
    objects = [path for path in sorted(folder.rglob("*.o")) if "tests" not in path.relative_to(folder).parts[:-1] and
               path.parent != folder]
    if not objects:
        sys.exit(f"{folder}: no objects; build it first")
    listing = subprocess.run(["nm", "-A", *objects], stdout=subprocess.PIPE, text=True, check=True).stdout
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
    if not bad:
        print("ok   no circle among files")
    sys.exit(bad)


if __name__ == "__main__":
    main()

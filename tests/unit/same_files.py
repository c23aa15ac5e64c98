#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares two files, or two folders of CTF, whose traces have UUIDs of their own: same_files.py A B"""

import pathlib
import re
import sys


def without_uuid(data, metadata):
    """A file of a trace, or its metadata, with zeros for the UUID that the metadata has."""
    found = re.search(rb'uuid = "([0-9a-f-]+)"', metadata)
    return data.replace(found[1], b"0").replace(bytes.fromhex(found[1].decode().replace("-", "")), bytes(16)) \
        if found else data


def contents(path):
    """Bytes of each file, by its name below the path."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    data = {file.relative_to(path): file.read_bytes() for file in files}
    return {name: without_uuid(bytes_, data.get(name.parent / "metadata", b"")) for name, bytes_ in data.items()}


if __name__ == "__main__":
    sys.exit(contents(pathlib.Path(sys.argv[1])) != contents(pathlib.Path(sys.argv[2])))

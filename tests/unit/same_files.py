#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
Compares two files, or two folders of CTF, whose traces have UUIDs of their own: same_files.py A B
Data of an HTML page is compared unpacked: ISA-L does not always pack the same bytes alike.
Of Perfetto's traces, A.perfetto and B.perfetto, the content is compared, not the order of packets.
"""

import base64
import pathlib
import re
import sys
import zlib

import compare_perfetto


def without_uuid(data, metadata):
    """A file of a trace, or its metadata, with zeros for the UUID that the metadata has."""
    found = re.search(rb'uuid = "([0-9a-f-]+)"', metadata)
    return data.replace(found[1], b"0").replace(bytes.fromhex(found[1].decode().replace("-", "")), bytes(16)) \
        if found else data


def unpacked(page):
    """A page with its data unpacked; other bytes as they are."""
    def unpack(found):
        packed = found[2] + b"=" * (-len(found[2]) % 4)
        return found[1] + zlib.decompress(base64.b64decode(packed), -zlib.MAX_WBITS)

    return re.sub(rb'(data-kind="\w+">)([A-Za-z0-9+/]+)(?=</script>)', unpack, page)


def contents(path):
    """Bytes of each file, by its name below the path."""
    if path.suffix == ".perfetto":
        return compare_perfetto.Trace(path).content()
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    data = {file.relative_to(path): file.read_bytes() for file in files}
    return {name: without_uuid(unpacked(bytes_), data.get(name.parent / "metadata", b""))
            for name, bytes_ in data.items()}


def main():
    """Compares; says where a content differs."""
    one, other = (contents(pathlib.Path(path)) for path in sys.argv[1:])
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            sys.exit(f"{name} differs")


if __name__ == "__main__":
    main()

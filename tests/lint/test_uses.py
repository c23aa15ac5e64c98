#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks that uses.py finds what it is for: each wrong tree below is reported, the right one is not."""

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

USES = pathlib.Path(__file__).with_name("uses.py")
RIGHT = {
    "host_agent/util/text.h": "void braid_text(void);",
    "host_agent/util/text.c": '#include "host_agent/util/text.h"\nvoid braid_text(void) {}',
    "host_agent/trace/open.c": '#include "host_agent/util/text.h"\nvoid braid_open(void) { braid_text(); }',
}
# What is put in the place of a file, and what is reported then.
WRONG = [
    ({"host_agent/util/text.c": "void braid_open(void);\nvoid braid_text(void) { braid_open(); }"},
     "a circle of 2 files"),
    ({"host_agent/util/a.c": "void b(void);\nvoid a(void) { b(); }",
      "host_agent/util/b.c": "void c(void);\nvoid b(void) { c(); }",
      "host_agent/util/c.c": "void a(void);\nvoid c(void) { a(); }"},
     "a circle of 3 files"),
    ({"host_agent/capture/put.c": "void braid_open(void);\nvoid braid_put(void) { braid_open(); }"},
     "host_agent/capture/put must not use host_agent/trace/open: braid_open"),
    ({"host_agent/live/drain.c": "void braid_open(void);\nvoid braid_drain(void) { braid_open(); }"},
     "host_agent/live/drain must not use host_agent/trace/open: braid_open"),
    ({"host_agent/trace/source.h": "struct braid_source;",
      "host_agent/live/drain.c": '#include "host_agent/trace/source.h"\nvoid braid_drain(void) {}'},
     "host_agent/live/drain must not include host_agent/trace/source.h"),
    ({"host_agent/util/text.c": '#include "guest_driver/core/ring.h"\nvoid braid_text(void) {}',
      "guest_driver/core/ring.h": "struct braid_ring;"},
     "host_agent/util/text must not include guest_driver/core/ring.h"),
]


def report_of(files, gone=()):
    """What uses.py says about a tree of these files, some gone after they were compiled: its status and its lines."""
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")
        for name in (name for name in files if name.endswith(".c")):
            to = (root / "obj" / name).with_suffix(".o")
            to.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([*shlex.split(os.environ.get("CC", "gcc")), "-I.", "-MMD", "-c", name, "-o", to], cwd=root,
                           check=True)
        for name in gone:
            (root / name).unlink()
        result = subprocess.run([sys.executable, USES, "obj"], cwd=root, stdout=subprocess.PIPE, text=True, check=False)
        return result.returncode, result.stdout


def main():
    bad = False
    status, said = report_of(RIGHT)
    if status:
        bad = True
        print(f"the right tree is refused: {said}")
    status, said = report_of(RIGHT | {"host_agent/moved/old.c": RIGHT["host_agent/trace/open.c"]},
                             {"host_agent/moved/old.c"})
    if status:
        bad = True
        print(f"an object whose source is gone is not left out: {said}")
    for changes, wanted in WRONG:
        status, said = report_of(RIGHT | changes)
        if status != 1 or wanted not in said:
            bad = True
            print(f"not reported: {wanted}; status {status}: {said}")
    if not bad:
        print("ok   circles and uses of rooms above are found")
    sys.exit(bad)


if __name__ == "__main__":
    main()

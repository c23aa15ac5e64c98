# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of the library share: the Python package and the program of this tree, and how a test fails."""

import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
AGENT = TOP / "build/tracebraid"
sys.path.insert(0, str(TOP / "python"))


def equal(got, wanted, what):
    """Ends the test unless both are equal."""
    if got != wanted:
        sys.exit(f"FAIL {what}: {got!r}, not {wanted!r}")

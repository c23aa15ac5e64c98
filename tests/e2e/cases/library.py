# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of the library: a recording of real kernels is read alike by it, by all that is built on it, and by every export."""

import host
from harness import case
from kit import NEEDS, start_recorder, stop_recorder, storm, up

LIBRARY = host.BUILD / "libtracebraid.so.0"


@case("library-equal", usual=("6.12",), needs=NEEDS)
def library_equal(ctx):
    """A capture of a guest and its host has the same events in C, Python, SQL, text, JSON, CTF, trace.dat and Perfetto, and
    the same figures of analyses in SQL, Python and Perfetto."""
    guest = up(ctx)
    capture, program = ctx.dir / "x.braid", ctx.dir / "print"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-e", "sched", "--try-host=sched,irq", "-o", capture)
    storm(guest, 1000)
    stop_recorder(ctx, agent)
    ctx.run("gcc", "-I", host.ROOT / "include", "-o", program, host.ROOT / "docs/examples/print.c", LIBRARY,
            f"-Wl,-rpath,{LIBRARY.parent}")
    print("     " + ctx.run(host.ROOT / "tests/library/test_equal.py", capture, program, timeout=120).stdout.strip())
    print("     " + ctx.run(host.ROOT / "tests/library/test_tables.py", capture, timeout=120).stdout.strip())

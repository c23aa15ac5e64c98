# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of arm64 alone."""

import host
from harness import case

PROGRAMS = host.BUILD / "arm64/plain"
SKIPPED = host.ROOT / "tests/arm64/skipped"


@case("arm64-units", arm64="only", needs=(), timeout=600)
def arm64_units(ctx):
    """The agent's unit tests that qemu-user cannot run pass in a guest: seccomp, capabilities, programs that it starts."""
    names = [line.split("\t")[0] for line in SKIPPED.read_text(encoding="utf-8").splitlines() if "arm64-units" in line]
    missing = [name for name in names if not (PROGRAMS / name).exists()]
    if missing:
        ctx.skip(f"{PROGRAMS.relative_to(host.ROOT)}/{missing[0]} is missing: make check-arm64 builds it")
    guest = ctx.guest(shm=None, mem="1G", initrd=ctx.initrd(*(PROGRAMS / name for name in names)))
    guest.boot()
    guest.run("mkdir -p /dev/shm /etc && mount -t tmpfs none /dev/shm")
    guest.run("echo root:x:0:0::/:/bin/sh > /etc/passwd && echo root:x:0: > /etc/group")
    failed = []
    for name in names:
        status, output = guest.sh(f"{name} 2>&1", timeout=300)
        failed += [f"{name}, status {status}:\n{output}"] * (status != 0)
    ctx.check(not failed, "\n".join(failed))

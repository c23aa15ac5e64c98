# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of what watches online: thresholds, snapshots of what led to them, and the service."""

import json
import os
import pathlib
import re

from harness import case
from kit import NEEDS, check_accounts, load
from rig import boot_all


def busy(guest):
    """Both vCPUs of a guest execute."""
    return guest.bg("for mask in 1 2; do taskset $mask sh -c 'while :; do :; done' & done; wait")


def put_on(cpu, *guests):
    """All threads of their QEMUs run on one CPU of the host."""
    for guest in guests:
        for tid in os.listdir(f"/proc/{guest.pid}/task"):
            os.sched_setaffinity(int(tid), {cpu})


@case("watch", usual=("6.12",), needs=NEEDS)
def watch(ctx):
    """watch names the guest that takes another one's CPU; its snapshot holds what led there, and says the same."""
    alpha, beta = ctx.guest("alpha"), ctx.guest("beta")
    boot_all([alpha, beta])
    for guest in (alpha, beta):
        load(guest)
    put_on(min(os.sched_getaffinity(0)), alpha, beta)
    done = ctx.run_agent("watch", "-r", "nosuch", "lost > 0", status=1)
    ctx.check("nosuch: no such file or region" in done.stderr, f"of a guest that is not there: {done.stderr}")
    folder, hook = ctx.dir / "snapshots", ctx.dir / "hook"
    hook.write_text(f"#!/bin/sh\necho \"$1,$2,$TRACEBRAID_WHY\" >>{ctx.dir}/hooked\n")
    hook.chmod(0o755)
    agent = ctx.agent("watch", "--json", "-r", alpha.shm, "-r", beta.shm, "-e", "sched", "-g", "alpha",
                      "--snapshots", folder, "--exec", hook, "stolen > 20% for 500ms")
    agent.wait_line("watching; until Ctrl-C", timeout=60)
    load_of = [busy(guest) for guest in (alpha, beta)]

    def fired():
        lines = [json.loads(line) for line in agent.output().splitlines() if line.startswith("{")]
        return next((line for line in lines if line["guest"] == "alpha"), None)

    ctx.wait_until(fired, "alpha's stolen time to be reported", timeout=60)
    line = fired()
    print(f"     {line['why']}")
    # On a busy machine threads of the host may have taken more.
    ctx.check(re.search(r"; taken by .*\bbeta \(\d+ %\)", line["why"]), f"the culprit: {line}")
    ctx.equal(line["condition"], "stolen > 20% for 500ms", "the condition")
    ctx.wait_until((ctx.dir / "hooked").exists, "the hook to be run", timeout=60)
    (snapshot,) = folder.iterdir()
    ctx.check((ctx.dir / "hooked").read_text().startswith(f"alpha,stolen > 20% for 500ms,{line['why']}"),
              f"the hook's arguments: {(ctx.dir / 'hooked').read_text()}")
    ctx.equal((snapshot / "why.txt").read_text(), line["why"] + "\n", "why.txt")
    captures = sorted(snapshot.glob("*.braid"), key=lambda path: int(path.stem))
    for capture in captures:
        check_accounts(ctx, capture)
    stolen = json.loads(ctx.run_agent("analyze", "steal", "--by", "guest", "--json", *captures).stdout)
    took = sum(row["total_ns"] for row in stolen["steal"] if (row["victim"], row["culprit"]) == ("alpha", "beta"))
    ctx.check(took * 20 > sum(row["total_ns"] for row in stolen["steal"] if row["victim"] == "alpha"),
              f"what beta took in the snapshot: {stolen['steal']}")
    ctx.check("alpha" in (snapshot / "summary.txt").read_text(), "summary.txt does not name the guest")
    for one in load_of:
        one.kill()
    ctx.equal(agent.stop(timeout=60), 0, "status of watch")
    ctx.check(not any(pathlib.Path("/run/tracebraid-root").glob(f"watch-{agent.process.pid}*")), "its directory is left")

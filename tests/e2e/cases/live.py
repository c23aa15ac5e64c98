# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of live views: record --live prints a guest's events while it runs, and top shows its rates."""

import json
import re
import time

from harness import case
from kit import NEEDS, STORM, check_accounts, check_storm, events_of, offered_by, start_recorder, storm, up
from proc import Proc


class Viewed(Proc):
    """A program whose output lines are stored with their arrival times, by the clock of events."""

    def _read(self):
        self.came = []  # pairs: ns, line
        with open(self.log, "ab", buffering=0) as log:
            for line in self.process.stdout:
                self.came.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), line))
                log.write(line)
                with self._cond:
                    self._lines.append(line.decode(errors="replace"))
                    self._cond.notify_all()
        with self._cond:
            self._closed = True
            self._cond.notify_all()

    def count(self, what):
        """The number of lines so far that contain these bytes."""
        return sum(what in line for _, line in list(self.came))

    def hidden(self):
        """The number of lines that were dropped so far because this test read too slowly."""
        return sum(json.loads(line)["lines"] for _, line in list(self.came) if line.startswith(b'{"type":"hidden"'))


def by_place(lines):
    """Events by their place: stream, CPU, buffer, number."""
    return {(line["stream"], line["cpu"], line.get("buffer"), line["seq"]): line
            for line in lines if line["type"] == "event"}


def check_steps_back(ctx, lines):
    """Checks that each line whose time is before its predecessor's is marked so."""
    last, marked = None, False
    for line in lines:
        if line["type"] == "event":
            ctx.check(last is None or marked or line["ns"] >= last,
                      f"{line} is before its predecessor without being marked")
            last, marked = line["ns"], False
        elif line["type"] == "late":
            marked = True


def check_same(ctx, live, whole, hidden):
    """Checks that both have the same events but for `hidden` at most, with equal fields, and times that agree within bounds."""
    ctx.equal(sorted(set(live) - set(whole))[:5], [], "events of the live view only")
    ctx.check(len(whole) - len(live) <= hidden, f"{len(whole) - len(live)} events of the report only, {hidden} dropped")
    for place, line in live.items():
        other = whole[place]
        ctx.equal((line["event"], line["fields"], line["text"]), (other["event"], other["fields"], other["text"]),
                  f"the event shown at {place}")
        if line["bound_ns"] is not None:
            ctx.check(abs(line["ns"] - other["ns"]) <= line["bound_ns"] + other["bound_ns"],
                      f"{place}: {line['ns']} ± {line['bound_ns']} live, {other['ns']} ± {other['bound_ns']} in the report")


def print_delays(agent):
    """Prints the time from an event to its line; it is not checked, because it depends on the machine."""
    delays = sorted(ns - int(re.search(rb'"ns":(-?\d+)', line).group(1)) for ns, line in agent.came
                    if line.startswith(b'{"type":"event"'))
    at = len(delays)
    print(f"  live view: {at} events; from an event to its line {delays[at // 2] / 1e6:.1f} ms (median), "
          f"{delays[at * 99 // 100] / 1e6:.1f} ms (99 %), {delays[-1] / 1e6:.1f} ms (worst)")


def check_rates(ctx, guest, agent):
    """Checks that top shows a busy guest as traced and recorded, with its rates and its threads' CPU time."""
    work = guest.bg(f"until [ -e /tmp/stop ]; do echo 100 > {STORM}/run; usleep 10000; done")
    samples = []
    # On a busy machine, guest and recorder may get no CPU during some samples.
    while len(samples) < 60 and not any(one["recorded"] and one["read_per_s"] > 0 for one in samples):
        done = ctx.run_agent("top", "--json", "-r", guest.shm, "-i", "0.5", "-n", "3")
        samples += [json.loads(line)["guests"][0] for line in done.stdout.splitlines()]
    guest.run("touch /tmp/stop")
    ctx.equal(work.wait(timeout=120), 0, "status of the load")
    ctx.equal([(one["guest"], len(one["vcpus"])) for one in samples], [("g1", 2)] * len(samples), "output of top")
    # A guest that got no CPU for a second is shown as silent, a recorder that got none as not
    # recording.
    ctx.check({"live"} <= {one["driver"] for one in samples} <= {"live", "silent"}, f"the driver's states: {samples}")
    ctx.check(any(one["recorded"] for one in samples), f"the guest is not shown as recorded: {samples}")
    ctx.check(any(one["events_per_s"] > 0 and one["bytes_per_s"] > 0 for one in samples), f"no rates: {samples}")
    ctx.check(any(one["read_per_s"] > 0 for one in samples), f"nothing is read: {samples}")
    ctx.check(all(vcpu["run"] is not None and vcpu["steal"] is not None for one in samples for vcpu in one["vcpus"]),
              f"threads without CPU time: {samples}")
    table = ctx.run_agent("top", "--batch", "-r", guest.shm, "-i", "0.1", "-n", "1").stdout
    ctx.check(re.search(r"^g1 +(live|silent)(, rec)? .*\n  vCPU 0 ", table, re.M), f"the table lacks a guest or a vCPU:\n{table}")
    ctx.equal(agent.rc, None, "the recorder's status while top runs")


@case("live", usual=("6.1",), needs=NEEDS, arm64=True)
def live(ctx):
    """A guest's events are printed while it runs, in order and equal to the report's; top shows its rates."""
    guest = up(ctx)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "--live", "--json", "-r", guest.shm, "-e", "storm", "-e", "sched:sched_sw*", "-o", capture,
                           kind=Viewed, name="live")
    offered = storm(guest, 1000)
    ctx.wait_until(lambda: agent.count(b'"event":"storm"') + agent.hidden() >= offered,
                   "all events to be shown while the recording goes on")
    check_rates(ctx, guest, agent)
    ctx.equal(agent.stop(timeout=60), 0, f"status of the recorder, which printed:\n{agent.output()[-3000:]}\n")

    lines = [json.loads(line) for _, line in agent.came if line.startswith(b"{")]
    ctx.equal(lines[-1]["type"], "end", "the last line")
    ctx.equal(lines[-1]["hidden"], agent.hidden(), "lines that were dropped")
    check_steps_back(ctx, lines)
    report = events_of(ctx, capture)
    check_same(ctx, by_place(lines), by_place(report), agent.hidden())
    check_storm(ctx, report, "g1", offered_by(guest), check_accounts(ctx, capture)["lost"])
    print_delays(agent)

    # Nothing is kept; the recording ends when the reader of its output does.
    done = ctx.run("sh", "-c", f"{ctx.agent_path} record --live -q -r {guest.shm} -e sched:sched_switch -o /dev/null | head -n 5",
                   timeout=60)
    ctx.equal(len(done.stdout.splitlines()), 5, "lines of a view without a capture")

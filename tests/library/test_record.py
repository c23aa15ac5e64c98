#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Records a live region by the library, and opens what regions hold: test_record.py RECORD LIVE_REGION"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from kit import AGENT, TOP, equal
import tracebraid


def fails(number, text, function, *arguments, **options):
    """Fails with that errno, and that text in its message."""
    try:
        function(*arguments, **options)
    except tracebraid.Error as error:
        equal((error.errno, text in str(error)), (number, True), f"{error}, which should have '{text}'")
        return
    sys.exit(f"FAIL {arguments} {options} was accepted")


def events_of(*captures):
    """(CPU, number in its ring) of all events, sorted."""
    with tracebraid.open(*captures) as trace:
        return sorted((event.cpu, event.seq) for event in trace.events())


@contextlib.contextmanager
def guest(live_region, region):
    with subprocess.Popen([live_region, region, "web1"], stdout=subprocess.PIPE, text=True) as process:
        try:
            equal(process.stdout.readline(), "live\n", "the guest")
            yield process
        finally:
            process.kill()


def records(region, folder):
    capture, seen = f"{folder}/recorded.braid", []
    with tracebraid.record(capture, "-r", region) as recording:
        for report in recording.reports():
            seen.append(report)
            if report["type"] == "progress" and report["guests"][0]["events"]:
                equal(recording.stop(), 0, "status")
                break
    kinds = [report["type"] for report in seen if report["type"] != "message"]
    equal(kinds[:2], ["started", "progress"], "reports")
    equal(seen[-1]["guests"][0]["name"], "web1", "the guest's name")
    equal(len(events_of(capture)) >= seen[-1]["guests"][0]["events"], True, "events in the capture")
    print(f"ok   a recording with {len(kinds)} reports: {len(events_of(capture))} events")


def the_last_report_is_the_account(region, folder):
    capture = f"{folder}/short.braid"
    recording = tracebraid.record(capture, "-r", region, "-t", "0.3")
    reports = list(recording.reports())
    equal(recording.wait(), 0, "status")
    equal(recording.fileno(), -1, "the descriptor at the end")
    equal(reports[-1]["type"], "stopped", "the last report")
    equal(reports[-1]["guests"][0]["events"], len(events_of(capture)), "events of the last report")
    equal(reports[-1]["guests"][0]["lost"], 0, "losses")
    print("ok   the last report has the account")


def tells_how_it_ended(region, folder):
    capture = f"{folder}/other.braid"
    equal(tracebraid.record(capture, "-r", region, "--", "true").wait(), 0, "status of a command")
    recording = tracebraid.record(capture, "-r", region, "--", "sh", "-c", "exit 7")
    fails(5, "7", recording.wait)
    equal(recording.status, 7, "status of a command that fails")
    fails(5, "/nonexistent", tracebraid.record(capture, "-r", "/nonexistent").wait)
    fails(5, "unknown option '--nothing'", tracebraid.record(capture, "--nothing").wait)
    fails(2, "/nonexistent", tracebraid.record, capture, "-r", region, program="/nonexistent")
    fails(22, "'-'", tracebraid.record, "-", "-r", region)
    with tracebraid.record(capture, "-r", region) as recording:
        equal(recording.started(), True, "start")
        os.kill(tracebraid_pid(capture), signal.SIGKILL)
        fails(5, "killed by signal 9", recording.wait)
    equal(recording.status, 137, "status of a recording that was killed")
    print("ok   how recordings end")


def tracebraid_pid(capture):
    """Of the recorder of that capture."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            if capture.encode() in words and parent == os.getpid():
                return int(folder.name)
    return sys.exit("FAIL there is no recorder")


def ends_with_its_starter(region, folder):
    """The capture gets its end mark, for which the iteration waits."""
    capture = f"{folder}/orphan.braid"
    program = f"""if True:
        import os, sys
        sys.path.insert(0, {str(TOP / "python")!r})
        import tracebraid
        recording = tracebraid.record({capture!r}, "-r", {region!r})
        assert recording.started()
        os._exit(0)"""
    subprocess.run([sys.executable, "-c", program], check=True)
    warnings = []
    with tracebraid.follow(capture, warn=warnings.append) as trace:
        count = sum(1 for _ in trace.events())
        equal(trace.streams[0].end, "recording stopped", "the stream's end")
    equal(warnings, [], "warnings")
    print(f"ok   a recording whose starter has ended ends: {count} events")


def the_example(program, region, folder):
    capture = f"{folder}/example.braid"
    words = [program, capture, "500", "-r", region, "--prompt"]
    printed = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True,
                             env={**os.environ, "TRACEBRAID": str(AGENT)}).stdout
    equal(printed, f"{len(events_of(capture))} events\n", "the example")
    print("ok   an example records and follows")


def opens_regions(region, folder, process):
    with tracebraid.open_regions(region) as trace:
        events = [(event.cpu, event.seq) for event in trace.events()]
        equal((len(events) > 0, len(set(events))), (True, len(events)), "events of a running guest's region")
        notes = [item.words for item in trace.items() if isinstance(item, tracebraid.Note)]
        equal(any("the guest is running" in words for words in notes), True, f"its note, among {notes}")
    fails(5, "/nonexistent", tracebraid.open_regions, "/nonexistent")
    fails(22, "no region", tracebraid.open_regions)
    process.kill()
    process.wait()
    recovered = f"{folder}/recovered.braid"
    subprocess.run([AGENT, "recover", "-q", "-o", recovered, region], check=True)
    wanted = events_of(recovered)
    equal(len(wanted) > 0, True, "events in the region")
    before = pathlib.Path(region).read_bytes()
    for _ in range(2):  # the first has taken nothing
        with tracebraid.open_regions(region) as trace:
            equal(sorted((event.cpu, event.seq) for event in trace.events()), wanted, "events of the region")
            equal([stream.name for stream in trace.streams], ["web1"], "streams")
    equal(pathlib.Path(region).read_bytes() == before, True, "the region's bytes")
    shutil.copy(region, f"{folder}/copy")
    with tracebraid.open_regions(region, f"{folder}/copy,name=copy") as trace:
        equal(len(list(trace.events())) >= len(wanted), True, "events of two")
    print(f"ok   a dead guest's region: {len(wanted)} events, twice")


def main():
    program, live_region = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        region = f"{folder}/web1"
        with guest(live_region, region) as process:
            records(region, folder)
            the_last_report_is_the_account(region, folder)
            tells_how_it_ended(region, folder)
            ends_with_its_starter(region, folder)
            the_example(program, region, folder)
            opens_regions(region, folder, process)


if __name__ == "__main__":
    main()

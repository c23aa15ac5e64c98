# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of reading rings inside the guest: every use of trace_pipe_raw, the text files, and the refusals."""

import mmap
import random
import re
import struct

import host
import machines
import vhost
from harness import case
from kit import TREE, load, start_recorder, stop_recorder, storm

PIPE = f"{TREE}/per_cpu/cpu0/trace_pipe_raw"
TRACEFS = "/sys/kernel/tracing/per_cpu/cpu0/trace_pipe_raw"
LINE = re.compile(r" *(\S.*)-(\d+) +\[(\d+)\] (\S{5}) +(\d+\.\d+): (.*)")
FIRST_BUFFER_RINGS = 0x1A8  # in the superblock: rings_offset, ring_stride, nr_rings
DRIVER = ("driver", "module:storm")


def program(ctx, name, *sources, how=("-static",)):
    """Builds a program of tests/e2e/read."""
    here = host.HERE / "read"
    out = ctx.dir / name
    ctx.run(machines.of(ctx.kernel).cc, *how, "-O2", "-Wall", "-Wextra", f"-I{here}", "-o", out, *[here / one for one in sources])
    return out


def up(ctx, parameters="", on=True, **options):
    """A booted guest with driver, storm module and the programs; the storm's event is enabled."""
    files = (program(ctx, "ring_reader", "ring_reader.c", "decode.c"),
             program(ctx, "mmap_example", "mmap_example.c", how=()))
    guest = ctx.guest(initrd=ctx.initrd(*files), **options)
    guest.boot()
    load(guest, parameters)
    if on:
        guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
    return guest


def stats(guest, cpus=2):
    """The sums of per_cpu/cpuN/stats."""
    sums = {}
    for cpu in range(cpus):
        for key, value in re.findall(r"^(.*): (\d+)$", guest.run(f"cat {TREE}/per_cpu/cpu{cpu}/stats"), re.M):
            sums[key] = sums.get(key, 0) + int(value)
    return sums


def numbers(text):
    """Parses lines of a word and its number."""
    return {word: int(value) for word, value in re.findall(r"^(.*?):? +(\d+)$", text, re.M)}


def reload(guest, parameters, on=True):
    """Unloads driver and storm module, and loads them again."""
    guest.run("rmmod storm; rmmod tracebraid")
    load(guest, parameters)
    if on:
        guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")


def event_id(guest):
    """The id of the storm's event."""
    return guest.run(f"cat {TREE}/events/storm/storm/id").strip()


def read_all(ctx, guest, how, events, before=0):
    """Runs the storm while a reader consumes it in one way; events found and lost must add up to those offered."""
    guest.run("rm -f /tmp/stop")
    job = guest.bg(f"ring_reader {event_id(guest)} {how} /tmp/stop")
    offered = storm(guest, events)
    guest.run("touch /tmp/stop")
    ctx.equal(job.wait(timeout=120), 0, f"status of the reader, which printed: {job.output()}")
    found, sums = numbers(job.output()), stats(guest)
    ctx.equal((found["bad"], found["duplicated"], found["disordered"]), (0, 0, 0),
              f"{how}: bad, duplicated, out of order")
    ctx.equal((sums["entries"], sums["written events"]), (0, offered), f"{how}: unread and written")
    ctx.check(found["events"] > 0, f"{how}: nothing was found")
    ctx.equal(before + found["events"], sums["read events"], f"{how}: events found and counted as read")
    ctx.equal(sums["read events"] + sums["overrun"] + sums["dropped events"], offered, f"{how}: read and lost")
    ctx.check(found["lost"] <= sums["overrun"] + sums["dropped events"], f"{how}: more reported lost than were lost")
    return found, sums, offered


@case("read-example", usual=("6.12",), needs=DRIVER, arm64=True)
def read_example(ctx):
    """The mapping example of Linux's documentation, with only its path changed, runs and prints the correct counts."""
    guest = up(ctx)
    guest.run("taskset 1 true")
    offered = storm(guest, 50)
    mine = numbers(guest.run(f"cat {TREE}/per_cpu/cpu0/stats"))
    said = guest.run("mmap_example")
    ctx.check("Current reader address: 0x" in said, f"the example's last line is missing: {said}")
    got = numbers(said)
    ctx.equal({key: got[key] for key in ("entries", "overrun", "read")},
              {"entries": mine["entries"], "overrun": 0, "read": 0}, "output of the example")
    ctx.check(0 < mine["entries"] < offered, f"{mine['entries']} entries of {offered} on the first CPU")
    slots = int(re.search(r"rings of (\d+) x", guest.run("dmesg"))[1])
    ctx.equal(got["nr_subbufs"], slots + 1, "sub-buffers")
    again = numbers(guest.run("mmap_example"))
    after = numbers(guest.run(f"cat {TREE}/per_cpu/cpu0/stats"))
    ctx.check(0 < again["read"] <= mine["entries"], f"{again['read']} read by the first run")
    ctx.equal(again["entries"], mine["entries"], "entries, read or not, as the second run printed")
    ctx.equal(after["entries"] + after["read events"], after["written events"], "nothing is lost")


# What read-map may find: the pages of ivshmem's BAR have no struct page, so nobody but the program
# can use them.
NO_STRUCT_PAGES = [(f"{what}: Bad address", f"{what}: the same bytes") for what in ("process_vm_readv", "vmsplice")] * 2
MARKS = "for k in $(seq 16); do echo $k > /sys/kernel/tracing/trace_marker; done"


@case("read-map", usual=("newest", "6.12-rt"), possible=("6.12", "6.12-rt", *host.NEWEST_KERNELS), needs=("driver", "module:buffers"),
      arm64=True)
def read_map(ctx):
    """The checks of Linux's own test of mapped rings give the same results on our rings and on those of tracefs."""
    check = program(ctx, "map_check", "map_check.c")
    guest = ctx.guest(initrd=ctx.initrd(check))
    guest.boot()
    guest.run("mount -t tracefs none /sys/kernel/tracing 2>/dev/null; true")
    guest.insmod("tracebraid")
    guest.insmod("buffers")
    theirs = guest.run(f"taskset 1 map_check {TRACEFS} '{MARKS}'").splitlines()
    ctx.check("16 events: entries 16, overrun 0, read 16, lost 0" in theirs, f"tracefs's own rings: {theirs}")
    for kib, flags in ((16, 0), (1024, 2), (2048, 1)):  # the last has a slot table larger than a page
        do(ctx, guest, f"alloc mine {kib} {flags}")
        tree = "/sys/kernel/debug/tracebraid/mine"
        guest.run(f"echo 1 > {tree}/events/numbers/number/enable")
        # Also on a used ring: one that was read, one that has unread events, one that has lost
        # some.
        for before in (0, 0, 100, 100000):
            do(ctx, guest, f"record {before}", int(before > 1000 and not flags & 1))
            guest.run(f"echo > {tree}/trace")
            ours = guest.run(f"map_check {tree}/per_cpu/cpu0/trace_pipe_raw 'echo record 16 > {MINE}/do'").splitlines()
            ctx.equal([pair for pair in zip(ours, theirs) if pair[0] != pair[1]], NO_STRUCT_PAGES,
                      f"differences from tracefs, after {before} events and a reset")
            ctx.equal(len(ours), len(theirs), "lines")
        do(ctx, guest, "free")


@case("read-pages", usual=("6.12",), needs=(*vhost.VIRTIO_NEEDS, "module:buffers"), arm64=True)
def read_pages(ctx):
    """A mapped ring in the guest's own pages is used without a copy, as tracefs's, and a page in use outlives the ring."""
    socket, tree = ctx.dir / "tb.sock", "/sys/kernel/debug/tracebraid/mine"
    agent = start_recorder(ctx, "-r", f"vhost-user:{socket}", "-e", "storm", "-o", ctx.dir / "x.braid")
    guest = vhost.boot(ctx, "g1", socket, files=(program(ctx, "map_check", "map_check.c"),))
    load(guest)
    guest.insmod("buffers")
    vhost.load_virtio(ctx, guest)
    stop_recorder(ctx, agent)  # a ring has one reader
    do(ctx, guest, "alloc mine 64 0")
    guest.run(f"echo 1 > {tree}/events/numbers/number/enable")
    ours = guest.run(f"map_check {tree}/per_cpu/cpu0/trace_pipe_raw 'echo record 16 > {MINE}/do'").splitlines()
    for what in ("process_vm_readv", "vmsplice"):
        ctx.equal(ours.count(f"{what}: the same bytes"), 2, f"mappings that {what} could read, of {ours}")
    if ctx.kernel != "6.1":
        guest.run("mount -t tracefs none /sys/kernel/tracing 2>/dev/null; true")
        theirs = guest.run(f"taskset 1 map_check {TRACEFS} '{MARKS}'").splitlines()
        ctx.equal([pair for pair in zip(ours, theirs) if pair[0] != pair[1]], [], "differences from tracefs")
    said = guest.run(f"map_check {tree}/per_cpu/cpu0/trace_pipe_raw 'rmmod tracebraid_virtio' pin")
    ctx.equal(said, f"pinned: {16384 if ctx.kernel == 'arm64-16k' else 4096} bytes\n", "a page that a pipe held while the ring went")


@case("read-ways", usual=("6.12-rt",), needs=DRIVER, timeout=300, arm64=True)
def read_ways(ctx):
    """Every event is read once or counted as lost: by read, splice, mmap, a mix of these, and competing readers."""
    large = 32768 if ctx.kernel == "arm64-16k" else 8192  # only whole pages can be mapped
    for parameters in ("ring_size_kb=32", f"ring_size_kb=32 overwrite=1 absolute=1 subbuf_size={large}"):
        guest = up(ctx, parameters)
        for how in ("read", "splice", "mmap", "mixed", "compete"):
            read_all(ctx, guest, how, 5000)
            reload(guest, parameters)
        guest.quit()


@case("read-lost", usual=("6.12",), needs=DRIVER, arm64=True)
def read_lost(ctx):
    """In a ring that overran before it is read, the events found and reported lost add up to all."""
    for parameters in ("ring_size_kb=16 subbuf_size=8192", "ring_size_kb=16 subbuf_size=8192 overwrite=1"):
        guest = up(ctx, parameters)
        for how in ("mmap", "read", "splice"):
            storm(guest, 3000)
            first = numbers(guest.run(f"ring_reader {event_id(guest)} {how}"))
            events, lost, unreported = first["events"], first["lost"], first["unreported"]
            # A drop is reported with the event after it: the next run reports what a run drops at
            # its end. A timer offers events until each CPU's task has recorded its own, so on a
            # busy machine even a short run may drop some.
            for _ in range(50):
                found, sums, _ = read_all(ctx, guest, how, 1, before=events)
                events, lost = events + found["events"], lost + found["lost"]
                unreported += found["unreported"]
                if unreported or lost == sums["overrun"] + sums["dropped events"]:
                    break
            ctx.check(lost + unreported > 0, f"{how}: nothing was lost")
            if not unreported:
                ctx.equal(lost, sums["overrun"] + sums["dropped events"], f"{how}: reported lost")
            reload(guest, parameters)
        guest.quit()


@case("read-refused", usual=("6.12",), needs=DRIVER, arm64=True)
def read_refused(ctx):
    """trace_pipe_raw refuses operations with the same errors as tracefs's; a mapped ring cannot be resized."""
    guest = up(ctx, on=False)
    ours = guest.run(f"ring_reader {PIPE} errors")
    for what in ("private", "writable", "executable"):
        ctx.check(f"{what}: Operation not permitted" in ours, f"{what} mapping: {ours}")
    ctx.check("GET_READER when not mapped: No such device" in ours, ours)
    if ctx.kernel != "6.1":
        theirs = guest.run(f"ring_reader {TRACEFS} errors")
        ctx.equal([pair for pair in zip(ours.splitlines(), theirs.splitlines()) if pair[0] != pair[1]], [],
                  "refusals that differ from tracefs")
    job = guest.bg(f"ring_reader {PIPE} hold")
    ctx.wait_until(lambda: "mapped" in job.output(), "the mapping")
    for command in (f"echo 64 > {TREE}/buffer_size_kb", f"echo > {TREE}/trace"):
        status, said = guest.sh(command)
        ctx.check(status and "busy" in said, f"{command} while mapped: {status} {said}")
    job.kill()
    guest.run(f"echo 64 > {TREE}/buffer_size_kb && echo > {TREE}/trace")
    reload(guest, "subbuf_size=1024", on=False)
    odd = guest.sh(f"ring_reader {PIPE} hold")[1]
    ctx.check("Invalid argument" in odd, f"a ring that cannot be mapped: {odd}")
    ctx.check("cannot be mapped" in guest.run("dmesg"), "no message says why it cannot be mapped")


@case("read-waits", usual=("6.1",), needs=DRIVER, arm64=True)
def read_waits(ctx):
    """Readers wait for events, and are woken by events, by ioctl 0, and when the ring is removed."""
    guest = up(ctx)
    said = numbers(guest.run(f"ring_reader {PIPE} wait"))
    ctx.equal(said, {"read": 0, "poll": 0, "GET_READER": 0, "woken": 200}, "how waiting ended")
    # A blocking file does not block while there are events, and returns them all.
    guest.run("echo 1000 > /sys/kernel/debug/storm/run")
    before, given = stats(guest, 1), numbers(guest.run(f"ring_reader {event_id(guest)} patient", timeout=60))
    ctx.equal((given["seen"], given["bad"]), (before["entries"], 0), "events that GET_READER gave without O_NONBLOCK")
    ctx.equal(given["moved"], 0, "times that a mapped sub-buffer changed while it was polled")
    device = guest.run("basename /sys/bus/pci/drivers/tracebraid/0*").strip()
    said = guest.run(f"ring_reader {PIPE} unbind {device}")
    ctx.equal(said.splitlines(), ["before 1 1", "waiting: No such device", "after 0 0", "read: No such device",
                                  "GET_READER: No such device", "mmap: No such device", "again 0", "remapped 1",
                                  "still 1", "read: Resource temporarily unavailable"], "results of the reader")
    guest.run("rmmod storm; rmmod tracebraid")


def lines_of(ctx, guest):
    """Reads the text and checks the order of its times; returns (text, its events as matches)."""
    text = guest.read(f"{TREE}/trace", timeout=120).decode(errors="replace")
    lines = [line for line in text.splitlines() if not line.startswith(("#", "CPU:"))]
    found = [LINE.fullmatch(line) for line in lines]
    ctx.check(all(found), f"malformed lines: {[line for line, ok in zip(lines, found) if not ok][:3]}")
    times = [float(one[5]) for one in found]
    ctx.check(all(a <= b for a, b in zip(times, times[1:])), "a line's time is before its predecessor's")
    return text, found


@case("read-text", usual=("6.1",), needs=DRIVER, arm64=True)
def read_text(ctx):
    """The trace file prints all CPUs' events in time order in five formats and consumes none; a write empties it."""
    guest = up(ctx, "ring_size_kb=1024")
    offered = storm(guest, 1000)
    text, found = lines_of(ctx, guest)
    ctx.equal(len(found), offered, "events in the text")
    ctx.check(f"{offered}/{offered}   #P:2" in text, f"the header: {text[:300]}")
    ctx.equal({one[3] for one in found}, {"000", "001"}, "CPUs")
    ctx.check({"storm/0", "storm/1"} <= {one[1] for one in found}, "the tasks' names")
    ctx.equal(lines_of(ctx, guest)[0], text, "the text, read again")
    guest.run(f"exec 3< {TREE}/trace; echo 100 > /sys/kernel/debug/storm/run; exec 3<&-")
    written = stats(guest)["written events"]
    ctx.check(written > offered, f"recording goes on while the text is open: {written} events of {offered}")
    offered = written
    ctx.equal(guest.run(f"cat {TREE}/output"), "[trace] latency raw hex binary\n", "output")
    for kind, pattern in (("latency", "^ *storm/0-[0-9]+ +0[^ ]{5} +[0-9]+us: "), ("raw", "^[0-9]+ 1 [0-9]+ [^ ]"),
                          ("hex", "^[0-9a-f]{8} 00000001 [0-9a-f]{16} ")):
        guest.run(f"echo {kind} > {TREE}/output")
        ctx.check(guest.run(f"grep -m 1 -E '{pattern}' {TREE}/trace || true"), f"no line of {kind}")
    guest.run(f"echo binary > {TREE}/output")
    payloads, at, seen = guest.read(f"{TREE}/trace"), 0, 0
    while at < len(payloads):
        at += 32 + 8 * (struct.unpack_from("<Q", payloads, at + 16)[0] % 6)  # a number of words by the event's own
        seen += 1
    ctx.equal((seen, at), (offered, len(payloads)), "payloads, and their bytes")
    ctx.equal(guest.sh(f"echo nonsense > {TREE}/output")[0], 1, "status of an invalid output")
    guest.run(f"echo trace > {TREE}/output; echo > {TREE}/trace")
    ctx.equal(len(lines_of(ctx, guest)[1]), 0, "events once emptied")
    sums = stats(guest)
    ctx.equal((sums["entries"], sums["overrun"], sums["written events"]), (0, 0, 0), "unread, overrun and written after emptying")


@case("read-text-lost", usual=("6.12",), needs=DRIVER, arm64=True)
def read_text_lost(ctx):
    """The trace file of a ring that overran reports each loss, and the counts add up."""
    guest = up(ctx, "ring_size_kb=16 overwrite=1")
    storm(guest, 3000)
    text, found = lines_of(ctx, guest)
    lost = sum(int(n) for n in re.findall(r"^CPU:\d+ \[LOST (\d+) EVENTS\]$", text, re.M))
    sums = stats(guest)
    ctx.equal(len(found), sums["entries"], "events in the text")
    ctx.equal(lost, sums["overrun"] + sums["dropped events"], "events reported lost")
    ctx.equal(lost + len(found), sums["written events"], "all events")


@case("read-gone", usual=("6.1",), needs=("driver", "module:buffers"), arm64=True)
def read_gone(ctx):
    """A buffer is freed while its files are open and read: further reads return nothing or an error."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    guest.insmod("buffers")
    do(ctx, guest, "alloc mine 16 4")
    do(ctx, guest, "record 10")
    where = "/sys/kernel/debug/tracebraid/mine"
    said = guest.run(f"exec 3< {where}/trace 4< {where}/per_cpu/cpu0/trace_pipe_raw 5< {where}/trace; head -c 20 <&3; "
                     f"head -c 100 <&4 > /dev/null; echo free > {MINE}/do; cat <&3; cat <&4; cat <&5; ls -d {where}; rmmod tracebraid; true")
    ctx.equal(said.count("No such device"), 3, f"refused reads, in: {said}")
    ctx.check("No such file" in said, f"the buffer's directory is still there: {said}")
    guest.run("rmmod buffers; rmmod tracebraid")


@case("read-scribbled", usual=("6.12-rt",), needs=DRIVER, arm64=True)
def read_scribbled(ctx):
    """The host writes garbage over the rings while the guest reads them: readers get errors, and the guest survives."""
    guest = up(ctx, "ring_size_kb=64")
    dice = random.Random(1)
    storm(guest, 500)
    job = guest.bg(f"""
        while ! [ -e /tmp/stop ]; do
            echo 100 > /sys/kernel/debug/storm/run
            for how in mmap read splice mixed; do ring_reader {event_id(guest)} $how > /dev/null; done
            cat {TREE}/trace {TREE}/per_cpu/cpu*/stats > /dev/null
            echo > {TREE}/trace
            echo > /tmp/turn
        done 2>/tmp/errors""")
    with open(guest.shm, "r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
        start, stride, nr = struct.unpack_from("<QQI", shared, FIRST_BUFFER_RINGS)
        for _ in range(20):
            for _ in range(1000):
                ring = start + dice.randrange(nr) * stride
                at = ring + (dice.randrange(8, stride - 8 if dice.random() < 0.5 else 4096) & ~7)
                shared[at:at + 8] = dice.choice((dice.randbytes(8), bytes(8), b"\xff" * 8, shared[at - 8:at]))
            guest.run("rm -f /tmp/turn; while ! [ -e /tmp/turn ]; do usleep 1000; done")
    guest.run("touch /tmp/stop")
    ctx.equal(job.wait(timeout=60), 0, "status of the readers")
    ctx.check("Bad message" in guest.run("cat /tmp/errors"), "no reader reported the broken ring")
    reload(guest, "")
    ctx.equal(len(lines_of(ctx, guest)[1]), 0, "events in a new ring")
    offered = storm(guest, 10)
    ctx.equal(len(lines_of(ctx, guest)[1]), offered, "events after the reload")


MINE = "/sys/kernel/debug/buffers"


def do(ctx, guest, words, status=0):
    """Gives the buffers module a command; status 1: it must refuse it."""
    ctx.equal(guest.sh(f"echo {words} > {MINE}/do")[0], status, f"status of {words!r}")


def counts(guest):
    """The buffer's entries, overruns and dropped events, and whether it is empty."""
    return tuple(map(int, guest.run(f"cat {MINE}/counts").split()))


def takes(ctx, guest, first, last, lost=0):
    """Consumes all events, as many as each read returns: numbers from first to last, after `lost` lost ones."""
    found, reported = [], 0
    while True:
        lines = guest.run(f"cat {MINE}/take").split("\n")[:-1]
        if not lines:
            break
        reported += sum(int(line[5:]) for line in lines if line.startswith("lost "))
        found += [line for line in lines if not line.startswith("lost ")]
    ctx.equal(found, [str(n) for n in range(first, last + 1)], "numbers consumed")
    ctx.equal(reported, lost, "reported lost")


@case("read-calls", usual=("6.12",), needs=("driver", "module:buffers"), arm64=True)
def read_calls(ctx):
    """A module reads events by iterators, peek and consume, with exact counts."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    guest.insmod("buffers")
    number = 0
    for flags in (0, 2, 4, 6):  # records or bytes, deltas or low bits
        do(ctx, guest, f"alloc mine{flags} 16 {flags}")
        if not flags & 4:
            guest.run(f"echo 1 > /sys/kernel/debug/tracebraid/mine{flags}/events/numbers/number/enable")
        ctx.equal(counts(guest), (0, 0, 0, 1), "counts of a new buffer")
        do(ctx, guest, "record 100")
        wanted = "".join(f"{number + n}\n" for n in range(1, 101))
        ctx.equal(guest.run(f"cat {MINE}/look"), wanted, "numbers iterated")
        ctx.equal(guest.run(f"cat {MINE}/look"), wanted, "numbers iterated again")
        ctx.equal(counts(guest), (100, 0, 0, 0), "counts of a hundred events")
        do(ctx, guest, "peek")
        do(ctx, guest, "resize 32", 1)
        do(ctx, guest, "reset", 1)
        do(ctx, guest, "done")
        takes(ctx, guest, number + 1, number + 100)
        ctx.equal(counts(guest), (0, 0, 0, 1), "counts after all are consumed")
        do(ctx, guest, "record 5000", 1)  # the last one does not fit
        entries, overruns, dropped, _ = counts(guest)
        ctx.equal((entries + dropped, overruns), (5000, 0), "entries and dropped, overruns")
        takes(ctx, guest, number + 101, number + 100 + entries)
        do(ctx, guest, "record 1")
        number += 5101
        ctx.equal(guest.run(f"cat {MINE}/look"), f"lost {dropped}\n{number}\n", "the output after a loss")
        takes(ctx, guest, number, number, dropped)
        do(ctx, guest, "record 10")
        do(ctx, guest, "reset")
        ctx.equal(counts(guest), (0, 0, 0, 1), "counts after emptying")
        do(ctx, guest, "record 1")
        number += 11
        ctx.equal(guest.run(f"cat {MINE}/look"), f"{number}\n", "the first number after that")
        takes(ctx, guest, number, number)
        do(ctx, guest, "resize 64")
        do(ctx, guest, "record 20")
        takes(ctx, guest, number + 1, number + 20)
        number += 20
        do(ctx, guest, "free")


@case("read-roles", usual=("6.1",), needs=("agent", *DRIVER), arm64=True)
def read_roles(ctx):
    """An agent and readers in the guest take turns: neither consumes a ring while the other has the reader role."""
    guest = up(ctx, on=False)
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", ctx.dir / "x.braid")
    storm(guest, 100)
    status, said = guest.sh(f"timeout 10 cat {PIPE} > /dev/null")
    ctx.check(status == 1 and "busy" in said, f"reading while an agent records: {status} {said}")
    stop_recorder(ctx, agent)
    before = stats(guest)["read events"]
    guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
    storm(guest, 100)
    found = numbers(guest.run(f"ring_reader {event_id(guest)} mmap"))
    sums = stats(guest)
    ctx.equal((before + found["events"], sums["entries"]), (sums["written events"], 0), "read by both, unread")
    job = guest.bg(f"ring_reader {PIPE} hold")
    ctx.wait_until(lambda: "mapped" in job.output(), "the mapping")
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", ctx.dir / "y.braid")
    offered = storm(guest, 100)
    ctx.wait_until(lambda: not numbers(guest.run(f"cat {TREE}/per_cpu/cpu1/stats"))["entries"],
                   "the agent to read the ring without another reader")
    ctx.check(numbers(guest.run(f"cat {TREE}/per_cpu/cpu0/stats"))["entries"] > 0,
              "the agent consumed a ring that is read in the guest")
    job.kill()
    ctx.wait_until(lambda: not stats(guest)["entries"], "the agent to read the ring that was released")
    stop_recorder(ctx, agent)
    sums = stats(guest)
    ctx.equal((sums["read events"], sums["written events"]), (offered, offered), "total of events read and written")

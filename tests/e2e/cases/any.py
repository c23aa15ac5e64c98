# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of guests without a device of ours: the region lies in their own memory, which the host only reads."""

import json
import mmap
import os
import pathlib
import re
import time

import beacons
import host
import kit
from harness import CaseUnavailable, case
from kit import (NEEDS, TREE, check_accounts, check_storm, events_of, load, start_recorder,
                 stop_recorder, storm)


def resident_of(pid):
    """Bytes of a process that are in memory."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) << 10


def recover(ctx, guest, name):
    """Copies a guest's region, and recovers it; returns the events, and the sums."""
    region, capture = ctx.dir / f"{name}.region", ctx.dir / f"{name}.braid"
    ctx.check(beacons.copy(guest.pid, region) > 0, "no beacon in the guest's memory")
    ctx.run_agent("recover", f"{region},name={guest.name}", "-o", capture)
    return events_of(ctx, capture), check_accounts(ctx, capture)


@case("any-guest", needs=NEEDS, arm64=True)
def any_guest(ctx):
    """In a guest without any device the region is in its own memory: found, whole, complete; and gone with the driver."""
    guest = ctx.guest(shm=None, mem="512M")
    guest.boot()
    ctx.equal(beacons.find(guest.pid), [], "beacons before the driver is loaded")
    load(guest, "events=storm")
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    ctx.check("overwrite, in" in guest.run("dmesg"), "no message about rings that overwrite")
    offered = storm(guest, 3000)
    lines, sums = recover(ctx, guest, "live")
    ctx.equal((sums["read"], sums["lost"], sums["left"]), (offered, 0, 0), "read, lost and left")
    check_storm(ctx, lines, "g1", offered)
    ctx.equal(beacons.state(guest.pid), beacons.LIVE, "state of the region")

    guest.run("rmmod storm; rmmod tracebraid")
    ctx.equal(beacons.find(guest.pid), [], "beacons after the driver is unloaded")

    # Another one, of another size; an orderly reboot ends it, and leaves what is in it.
    load(guest, "transport=memory memory_mb=9")
    with beacons.Memory(guest.pid) as memory:
        ctx.equal(len(memory.beacons()), 5, "beacons of 9 MiB")
    guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
    offered = storm(guest, 1000)
    guest.qmp("set-action", reboot="shutdown", shutdown="pause")  # with its memory as it is then
    guest.post("reboot -f")
    guest.wait_event("SHUTDOWN")
    ctx.equal(beacons.state(guest.pid), beacons.DOWN, "state of the region after a reboot")
    lines, sums = recover(ctx, guest, "rebooted")
    ctx.equal((sums["read"] + sums["lost"], sums["left"]), (offered, 0), "read and lost, and left after a reboot")
    check_storm(ctx, lines, "g1", offered, sums["lost"])


@case("any-refused", usual=("6.12",), needs=("driver",))
def any_refused(ctx):
    """Memory that can't be had is refused with a line, and transport=device takes none."""
    guest = ctx.guest(shm=None)
    guest.boot()
    free = "grep MemAvailable /proc/meminfo | tr -dc 0-9"
    for parameters, text in (
            ("memory_mb=128", "memory_mb=128 is too large: "),
            ("memory_mb=1 symbols=65536 transport=memory", "2044 KiB of shared memory is too small"),
            ("transport=disk", "transport=disk is unknown; use device, memory, or neither")):
        guest.run("dmesg -c")
        ctx.check(guest.sh(f"insmod /mod/tracebraid.ko {parameters}")[0], f"loaded with {parameters}")
        said = guest.run("dmesg")
        ctx.check(text in said, f"with {parameters}: {said}")
        ctx.equal(beacons.find(guest.pid), [], f"beacons after {parameters}")
    before = int(guest.run(free))
    guest.insmod("tracebraid", "transport=device memory_mb=32")
    ctx.check(int(guest.run(free)) > before - (16 << 10), "transport=device takes memory")
    ctx.equal(beacons.find(guest.pid), [], "beacons with transport=device")
    guest.run("rmmod tracebraid")


@case("any-device", usual=("6.12",), needs=NEEDS)
def any_device(ctx):
    """A device's memory is used where there is one; transport=memory uses the guest's own all the same."""
    guest = ctx.guest()
    guest.boot()
    load(guest)
    ctx.equal(beacons.find(guest.pid), [], "beacons with a device")
    ctx.equal(kit.region_accounts(ctx, guest)["written"], 0, "events written")
    guest.run("rmmod storm; rmmod tracebraid")
    load(guest, "transport=memory")
    ctx.equal(beacons.state(guest.pid), beacons.LIVE, "state of the region in the guest's own memory")
    guest.run("rmmod storm; rmmod tracebraid")
    ctx.equal(beacons.find(guest.pid), [], "beacons in the end")


def check_times(ctx, lines, limits):
    """The events of a storm are within their bounds of the host's time that it took."""
    clock = next((line["clock"], line["bound_ns"]) for line in lines if line["type"] == "stream")
    ctx.equal(clock[0], "reads", "the clock's source")
    ctx.check(clock[1], "there is no bound")  # at the ends it depends on what the first looks happened to show
    storms = [line for line in lines if line.get("event") == "storm"]
    outside = [line for line in storms
               if not limits[0] - line["bound_ns"] <= line["ns"] <= limits[1] + line["bound_ns"]]
    ctx.equal((bool(storms), outside[:1]), (True, []), "events of the storm, and one outside of its bound")


@case("any-record", usual=("6.12",), needs=NEEDS, arm64=True)
def any_record(ctx):
    """A guest without a device is found and recorded by its name, by two agents at once: each event once, and what is lost counted."""
    guest = ctx.found_guest(shm=None, mem="512M")
    guest.boot()
    load(guest, "events=storm")
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    listed = {found.get("region"): found for found in json.loads(ctx.run_agent("list", "--json").stdout)}
    region = listed[f"pid:{guest.pid}"]
    ctx.equal((region["guest"], region["driver"]), (guest.name, "live"), "name and state of the region")
    sample = ctx.run_agent("top", "--all", "-n", "1", "--json").stdout.splitlines()[-1]
    shown = [one for one in json.loads(sample)["guests"] if one["guest"] == guest.name]
    ctx.equal([(one["driver"], one.get("qemu_pid")) for one in shown], [("live", guest.pid)], "what top shows of it")
    resident = resident_of(guest.pid)
    captures = [ctx.dir / f"{n}.braid" for n in range(2)]
    agents = [start_recorder(ctx, "-r", where, "-o", capture, confirm=False)
              for where, capture in zip((guest.name, f"pid:{guest.pid},name={guest.name}"), captures)]
    times = [time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)]
    for agent in agents:
        ctx.check("; the events that are enabled in the guest" in agent.output(), f"what is recorded: {agent.output()}")
    offered = storm(guest, 20000)
    times.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW))
    for agent, capture in zip(agents, captures):
        stop_recorder(ctx, agent)
        sums, lines = check_accounts(ctx, capture), events_of(ctx, capture)
        check_storm(ctx, lines, guest.name, offered, sums["lost"])
        check_times(ctx, lines, times)
    grown = resident_of(guest.pid) - resident
    # The emulator and its guest take some, too; the 300 MiB that the guest never touched show.
    ctx.check(grown < 64 << 20, f"the VMM's memory has grown by {grown} bytes")


@case("any-reset", usual=("6.12",), needs=NEEDS, arm64=True)
def any_reset(ctx):
    """A guest is reset while it writes: all that is in the capture is what it wrote, and the next boot is recorded, too."""
    guest = ctx.found_guest(shm=None, mem="512M")
    guest.boot()
    load(guest, "memory_mb=4")
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    capture = ctx.dir / "out.braid"
    agent = start_recorder(ctx, "-r", guest.name, "-o", capture, confirm=False)
    first = storm(guest, 3000)
    guest.post(f"echo 100000000 > {kit.STORM}/run")
    ctx.wait_until(lambda: capture.stat().st_size > 4 << 20, "events of the storm in the capture", timeout=60)
    guest.reset()
    load(guest)  # the region of the kernel before may still be whole
    agent.wait_line(f"{guest.name}: .*(the guest has freed it, or was reset|the guest was reset, and has another one)", timeout=60)
    ctx.wait_until(lambda: agent.output().count("its memory is only read") == 2, "the next boot's region", timeout=60)
    guest.run(f"echo 1 > {TREE}/events/sched/enable")
    guest.run("for k in 1 2 3 4 5 6 7 8; do :; done; ls / > /dev/null")
    stop_recorder(ctx, agent)
    check_accounts(ctx, capture)
    lines = events_of(ctx, capture)
    streams = [line for line in lines if line["type"] == "stream"]
    ctx.equal(len(streams), 2, "streams")
    ctx.check(len(kit.intact_storm(ctx, lines, guest.name)) >= first, "events of the first boot are missing")
    ctx.check(streams[1]["read"] > 0, "no event of the second boot")


@case("any-kexec", usual=("6.12",), needs=NEEDS)
def any_kexec(ctx):
    """A guest boots its kernel by kexec while it writes: the capture has what each boot wrote, in a stream for each."""
    kernel = host.find_kernel(ctx.kernel)
    second = host.make_initrd(ctx.dir / "second.cpio", ctx.krel, [ctx.driver_path, ctx.module("storm")])
    program = ctx.guest_program("kexec")
    guest = ctx.found_guest(shm=None, mem="768M", initrd=ctx.initrd(program, kernel, second))
    guest.boot()
    guest.run(f"kexec /data/{kernel.name} /data/second.cpio \"$(cat /proc/cmdline)\"")
    capture = ctx.dir / "out.braid"
    load(guest)
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    agent = start_recorder(ctx, "-r", guest.name, "-o", capture, confirm=False)
    first = storm(guest, 3000)
    size, before = capture.stat().st_size, guest.boot_id
    guest.post(f"echo 100000000 > {kit.STORM}/run")
    ctx.wait_until(lambda: capture.stat().st_size > size + (1 << 20), "events of the storm in the capture", timeout=60)
    guest.post("kexec")
    ctx.wait_until(lambda: guest.boot_id != before, "the next kernel", timeout=120)
    between = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    load(guest)
    ctx.wait_until(lambda: agent.output().count("its memory is only read") == 2, "the next boot's region", timeout=60)
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    offered = storm(guest, 2000)
    stop_recorder(ctx, agent)
    check_accounts(ctx, capture)
    lines = events_of(ctx, capture)
    streams = [line for line in lines if line["type"] == "stream"]
    ctx.equal(len(streams), 2, "streams")
    boots = [[line for line in lines if line["type"] == "event" and (line["ns"] > between) == later] for later in (False, True)]
    ctx.check(len(kit.intact_storm(ctx, boots[0], guest.name)) >= first, "events of the first boot are missing")
    check_storm(ctx, boots[1], guest.name, offered, streams[1]["lost"])


# What an agent says by kernel.yama.ptrace_scope: as the process' user, and as root.
WAITS = "waiting for the driver in pid:"
YAMA = {
    0: (WAITS, WAITS),
    1: ("kernel.yama.ptrace_scope is not 0; run as root", WAITS),
    2: ("kernel.yama.ptrace_scope is not 0; run as root", WAITS),
    3: ("kernel.yama.ptrace_scope is 3, so nobody may until the host boots again", ) * 2,
}


@case("any-yama", usual=("6.12",), needs=("agent",))
def any_yama(ctx):
    """Whoever may not read a VMM's memory is told who may: in a guest, whose kernel has yama."""
    guest = ctx.guest(shm=None, mem="512M", initrd=ctx.initrd(ctx.agent_path))
    guest.boot()
    if guest.sh("test -e /proc/sys/kernel/yama/ptrace_scope")[0]:
        ctx.skip("this kernel has no yama")
    guest.run("mkdir -p /etc; echo user:x:1000:1000::/tmp:/bin/sh > /etc/passwd")
    vmm = guest.bg("exec su user -c 'exec sleep 1000'")
    for scope, said in YAMA.items():
        guest.run(f"echo {scope} > /proc/sys/kernel/yama/ptrace_scope")
        for who, line in zip(("su user -c", "sh -c"), said):
            record = f"tracebraid record -t 0.2 -r pid:{vmm.pid} -o /tmp/$$.braid"
            _, output = guest.sh(f"{who} '{record} 2>&1'")
            ctx.check(line in output, f"scope {scope}, {who}: {output}")
    vmm.kill()


def recorded(ctx, guest, capture, offered):
    """Checks a finished capture: each event that was offered is in it once, or counted as lost."""
    sums = check_accounts(ctx, capture)
    check_storm(ctx, events_of(ctx, capture), guest.name, offered, sums["lost"])
    return sums


@case("any-hung", usual=("6.12",), needs=NEEDS, arm64=True, allow=(r"Kernel panic", r"sysrq"))
def any_hung(ctx):
    """A guest is stopped while it writes, goes on, and hangs for good: recover has it all, and the recording what was proven."""
    guest = ctx.found_guest(shm=None, mem="512M")
    guest.boot()
    load(guest)
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    capture = ctx.dir / "out.braid"
    agent = start_recorder(ctx, "-r", guest.name, "-o", capture, confirm=False)
    guest.post(f"echo 60000 > {kit.STORM}/run")
    ctx.wait_until(lambda: capture.stat().st_size > 1 << 20, "events of the storm in the capture", timeout=60)
    guest.qmp("stop")
    stopped = [ctx.dir / f"stopped{n}.braid" for n in range(2)]
    said = [ctx.run_agent("recover", f"pid:{guest.pid}", "-o", to).stderr for to in stopped]
    ctx.check("running" not in said[0], f"recover took a stopped guest for a running one: {said[0]}")
    first, second = (kit.intact_storm(ctx, events_of(ctx, to), guest.name) for to in stopped)
    ctx.check(first and first == second, "two copies of a stopped guest differ")
    with beacons.Memory(guest.pid) as memory:
        memory.write_core(ctx.dir / "core")
    ctx.run_agent("recover", f"{ctx.dir}/core,name={guest.name}", "-o", ctx.dir / "core.braid")
    in_core = kit.intact_storm(ctx, events_of(ctx, ctx.dir / "core.braid"), guest.name)
    ctx.check(in_core == first, "the core of a stopped guest's QEMU has other events")
    guest.qmp("cont")
    offered = storm(guest, 1000)  # after the other one
    running = ctx.run_agent("recover", guest.name, "-o", ctx.dir / "running.braid").stderr
    ctx.check("the guest is running" in running, f"recover of a running guest: {running}")
    kit.intact_storm(ctx, events_of(ctx, ctx.dir / "running.braid"), guest.name)

    ctx.wait_until(lambda: kit.read_so_far(ctx, capture) >= offered, "the events to be proven and recorded")
    guest.run("echo 0 > /proc/sys/kernel/panic")
    guest.post("echo c > /proc/sysrq-trigger")
    agent.wait_line(f"{guest.name}: the guest has been silent", timeout=60)
    stop_recorder(ctx, agent)
    recorded(ctx, guest, capture, offered)
    ctx.run_agent("recover", guest.name, "-o", ctx.dir / "dead.braid")
    dead = kit.intact_storm(ctx, events_of(ctx, ctx.dir / "dead.braid"), guest.name)
    ctx.check(dead <= kit.intact_storm(ctx, events_of(ctx, capture), guest.name), "the recording lacks events")


def hang(guest, events):
    """Has a vCPU of a guest write some events, and then spin with interrupts off."""
    guest.post(f"echo {events} > {kit.STORM}/hang")


def left_out_of(lines):
    """The number of events that a recording counted as not proven."""
    return sum(int(found[1]) for line in lines if line["type"] == "note"
               for found in [re.match(r"(\d+) events were copied that are not proven", line["text"])] if found)


@case("any-spin", usual=("6.12",), needs=NEEDS, arm64=True)
def any_spin(ctx):
    """The only vCPU of a guest writes, and spins with interrupts off: what is not proven is counted, and only `recover` prints it."""
    guest = ctx.found_guest(shm=None, mem="512M", smp=1)
    guest.boot()
    load(guest)
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    capture = ctx.dir / "out.braid"
    agent = start_recorder(ctx, "-r", guest.name, "-o", capture, confirm=False)
    first = storm(guest, 2000)
    ctx.wait_until(lambda: kit.read_so_far(ctx, capture) >= first, "the first events to be proven and recorded")
    hang(guest, 100)
    agent.wait_line(f"{guest.name}: the guest has been silent", timeout=60)
    stop_recorder(ctx, agent)
    sums, lines = check_accounts(ctx, capture), events_of(ctx, capture)
    left_out = left_out_of(lines)
    check_storm(ctx, lines, guest.name, first + 100, sums["lost"] + left_out)
    # KVM can prove that the guest was not reset, and so all of them.
    ctx.check((0 < left_out <= 100) != (guest.accel == "kvm"), f"{left_out} events are not proven")
    ctx.run_agent("recover", guest.name, "-o", ctx.dir / "hung.braid")
    check_storm(ctx, events_of(ctx, ctx.dir / "hung.braid"), guest.name, first + 100)
    guest.kill()


def numbers_of(ctx, guest):
    """The number of the last event that each vCPU's task wrote, as in the guest's memory."""
    ctx.run_agent("recover", "-q", guest.name, "-o", ctx.dir / "now.braid")
    lines = events_of(ctx, ctx.dir / "now.braid")
    keys = sorted(kit.intact_storm(ctx, lines, guest.name))
    return {cpu: number for cpu, context, number in keys if not context}


@case("any-spin-one", usual=("6.12",), needs=NEEDS, arm64=True, allow=(r"rcu.*stall", r"lockup", r"LOCKUP", r"blocked for more"))
def any_spin_one(ctx):
    """One of two vCPUs spins with interrupts off, while the other one goes on writing: that is recorded, to the end."""
    guest = ctx.found_guest(shm=None, mem="512M")
    guest.boot()
    load(guest, "memory_mb=4")
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    capture = ctx.dir / "out.braid"
    agent = start_recorder(ctx, "-r", guest.name, "-o", capture, confirm=False)
    guest.post(f"echo 100000000 > {kit.STORM}/run")
    ctx.wait_until(lambda: capture.stat().st_size > 1 << 20, "events of the storm in the capture", timeout=60)
    hang(guest, 100)
    numbers = numbers_of(ctx, guest)

    def one_stands():
        nonlocal numbers
        before, numbers = numbers, numbers_of(ctx, guest)
        return sorted(numbers.get(cpu, 0) > before.get(cpu, 0) for cpu in (0, 1)) == [False, True]

    ctx.wait_until(one_stands, "one vCPU that has stopped writing, and one that goes on", timeout=60)
    stood = max(numbers.values())
    size = capture.stat().st_size
    ctx.wait_until(lambda: capture.stat().st_size > size + (1 << 20), "events of the other vCPU in the capture", timeout=60)
    stop_recorder(ctx, agent)
    guest.kill()
    check_accounts(ctx, capture)
    seen = kit.intact_storm(ctx, events_of(ctx, capture), guest.name)
    ctx.check(any(number > stood for _, context, number in seen if not context), "the recording lacks what the other vCPU wrote")


@case("any-unload", usual=("6.12",), needs=(*NEEDS, "module:buffers"), arm64=True)
def any_unload(ctx):
    """Buffers come and go, and the driver is unloaded and loaded again, while the guest is recorded: two streams, accounts complete."""
    guest = ctx.found_guest(shm=None, mem="512M")
    guest.boot()
    load(guest)
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    capture = ctx.dir / "out.braid"
    agent = start_recorder(ctx, "-r", guest.name, "-o", capture, confirm=False)
    guest.insmod("buffers")
    guest.run("echo alloc mine 64 > /sys/kernel/debug/buffers/do; "
              "echo 1 > /sys/kernel/debug/tracebraid/mine/events/numbers/number/enable; "
              "echo record 500 > /sys/kernel/debug/buffers/do")
    offered = [storm(guest, 3000)]
    # The last events of a buffer are read although it is freed at once.
    guest.run("echo record 500 > /sys/kernel/debug/buffers/do; echo free > /sys/kernel/debug/buffers/do; "
              "rmmod buffers; rmmod storm; rmmod tracebraid")
    agent.wait_line(f"{guest.name}: (the driver was unloaded|.*has freed it)", timeout=60)
    load(guest)
    agent.wait_line(f"{guest.name}: its memory is only read", timeout=60)
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    offered.append(storm(guest, 2000))
    stop_recorder(ctx, agent)
    check_accounts(ctx, capture)
    lines = events_of(ctx, capture)
    numbers = [line for line in lines if line["type"] == "event" and line["event"] == "number"]
    # An agent that had no CPU for 100 ms may lack the last ones, and says so.
    said = any(line["type"] == "note" and "before all of its events were surely copied" in line["text"] for line in lines)
    ctx.check(len(numbers) == 1000 or (said and 500 <= len(numbers) < 1000), f"{len(numbers)} events of the buffer that was freed")
    streams = [line for line in lines if line["type"] == "stream"]
    ctx.equal([line["read"] + line["lost"] for line in streams], [offered[0] + len(numbers), offered[1]], "events read and lost")


def memory_of(pid):
    """What a VMM's memory takes: resident, in huge pages, and of its file of memory."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        text = rollup.read()
    blocks = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{fd}"
        if "memfd:" in os.readlink(path):
            blocks += os.stat(path).st_blocks * 512
    sums = {kind: sum(int(n) << 10 for n in re.findall(rf"^{kind}:\s+(\d+)", text, re.MULTILINE))
            for kind in ("AnonHugePages", "Shared_Hugetlb", "Private_Hugetlb")}
    return {"resident": resident_of(pid), "file": blocks, "huge": -sums["AnonHugePages"],
            "pool": sums["Shared_Hugetlb"] + sums["Private_Hugetlb"]}


def check_use(ctx, what, mem, options, most):
    """Searches and reading add fewer than `most` bytes to what a VMM's memory takes."""
    guest = ctx.found_guest(what, shm=None, mem=mem, qemu_args=options)
    guest.boot()
    load(guest)
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    storm(guest, 500)
    before = memory_of(guest.pid)
    ctx.check(f"pid:{guest.pid}" in ctx.run_agent("list").stdout, "the region was not found")
    ctx.run_agent("recover", f"pid:{guest.pid}", "-o", ctx.dir / "recovered.braid")
    capture = ctx.dir / f"{what}.braid"
    agent = start_recorder(ctx, "-r", guest.name, "-o", capture, confirm=False)
    first = kit.offered_by(guest)
    offered = storm(guest, 2000) - first
    stop_recorder(ctx, agent)
    after = memory_of(guest.pid)
    for kind, size in before.items():
        ctx.check(after[kind] - size < most, f"{what}: {kind}: {size} before, {after[kind]} after")
    sums = check_accounts(ctx, capture)
    ctx.equal(len(kit.intact_storm(ctx, events_of(ctx, capture), guest.name)) + sums["lost"], offered, f"{what}: events")
    guest.kill()
    return after


def backend(mem, *how):
    """QEMU's options for a guest's memory in a file of memory."""
    return "-object", ",".join(("memory-backend-memfd,id=ram", f"size={mem}", *how)), "-machine", "memory-backend=ram"


@case("any-plain", usual=("6.12",), needs=NEEDS, arm64=True)
def any_plain(ctx):
    """Of a plain `-m 1G`, and of memory in a file, no more memory is used by searches and reading, nor fewer huge pages."""
    # What the guest and its QEMU touch meanwhile; a page can take a huge page.
    for what, options, most in (("plain", (), 8 << 20), ("memfd", backend("1G", "share=on"), 8 << 20),
                                ("private", backend("1G", "share=off"), 8 << 20)):
        check_use(ctx, what, "1G", options, most)


MAP_HUGETLB = 0x40000
OVERCOMMIT = pathlib.Path("/proc/sys/vm/nr_overcommit_hugepages")


@case("any-hugetlb", usual=("6.12",), needs=NEEDS)
def any_hugetlb(ctx):
    """Of memory in pages of the pool of huge pages, searches and reading take no page that the guest has not touched."""
    size = 512 << 20
    try:
        before = int(OVERCOMMIT.read_text(encoding="ascii"))
        OVERCOMMIT.write_text(str(before + (size >> 21)), encoding="ascii")
    except OSError as error:
        raise CaseUnavailable(f"the pool of huge pages cannot grow: {error}") from error
    try:
        try:
            mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB).close()
        except OSError as error:
            raise CaseUnavailable(f"no {size >> 20} MiB of memory can become huge pages: {error}") from error
        for share in ("on", "off"):
            use = check_use(ctx, f"share-{share}", "512M", backend("512M", f"share={share}", "hugetlb=on"), 32 << 20)
            ctx.check(0 < use["pool"] < size - (64 << 20), f"{use} of {size} bytes are in memory")
    finally:
        OVERCOMMIT.write_text(str(before), encoding="ascii")


@case("any-migrate", usual=("6.12",), needs=NEEDS)
def any_migrate(ctx):
    """A guest is migrated twice while it writes, from a QEMU that stays and one that ends: followed, no event twice, or lost unseen."""
    guest = ctx.guest("any-migrate", shm=None, mem="256M")
    guest.boot()
    load(guest)
    guest.run(f"echo 1 > {TREE}/events/storm/enable")
    capture = ctx.dir / "out.braid"
    agent = start_recorder(ctx, "-r", f"pid:{guest.pid},name=any-migrate", "-o", capture, confirm=False)
    first, ready = storm(guest, 1000), guest.link.ready
    guest.post(f"echo 40000 > {kit.STORM}/run")
    ctx.wait_until(lambda: capture.stat().st_size > 1 << 20, "events of the storm in the capture", timeout=60)
    for number in (2, 3):
        there = kit.migrate(ctx, guest, f"any-migrate-{number}")
        if number == 3:
            guest.kill()
        agent.wait_line(f"any-migrate: the guest was migrated to pid:{there.pid}", timeout=60)
        ctx.wait_until(lambda: agent.output().count("its memory is only read") == number, "the stream of after the migration", timeout=60)
        there.link.ready = ready  # it is the same boot
        guest, offered = there, storm(there, 1000)
    stop_recorder(ctx, agent)
    sums, lines = check_accounts(ctx, capture), events_of(ctx, capture)
    ctx.equal(sum(line["type"] == "stream" for line in lines), 1, "streams")
    seen = kit.intact_storm(ctx, lines, "any-migrate")
    ctx.check(len(seen) > first, "no event of after the migration")
    ctx.equal(len(seen) + sums["lost"], offered, f"events seen and lost ({sums['lost']})")

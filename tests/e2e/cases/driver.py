# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of the driver alone, as a user in the guest sees it."""

import json
import re
import time

import kit
import machines
from doorbell import device
from harness import case
from rig import WORKLOAD

TREE = "/sys/kernel/debug/tracebraid/trace"


@case("driver-load", usual=("6.12",), needs=("driver",), arm64=True)
def driver_load(ctx):
    """The driver binds, lists every event with the kernel's own format, and can be reloaded repeatedly."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    ctx.check("2 rings of" in guest.run("dmesg | grep tracebraid"), "no message about the rings")
    for event in ("sched/sched_switch", "irq/softirq_entry", "timer/hrtimer_start", "raw_syscalls/sys_enter",
                  "signal/signal_generate", "task/task_newtask", "kmem/kmalloc",
                  *("exceptions/page_fault_user",) * (guest.machine is machines.X86)):
        strip = "sed 's/^ID: .*//'"
        ours = guest.run(f"{strip} {TREE}/events/{event}/format")
        theirs = guest.run(f"{strip} /sys/kernel/tracing/events/{event}/format")
        ctx.equal(ours, theirs, f"format of {event}")
    ctx.equal(guest.run(f"cat {TREE}/events/sched/sched_switch/enable"), "0\n", "sched_switch at first")
    guest.run(f"echo 1 > {TREE}/events/sched/sched_switch/enable")
    ctx.equal(guest.run(f"cat {TREE}/events/sched/sched_switch/enable"), "1\n", "sched_switch after it is enabled")
    ctx.equal(guest.run(f"cat {TREE}/buffers/enabled"), "1\n", "the buffer's state")
    for _ in range(3):
        guest.run("rmmod tracebraid")
        guest.insmod("tracebraid")
    guest.run("rmmod tracebraid")


# The names of the files in debugfs that lockdown leaves open, and what prints the files that can be
# opened. Of the events, which have the same files each, those of one system.
OPEN_IN_LOCKDOWN = {"stats", "subbuf_size", "id", "format", "number"}
OPENS = """cd /sys/kernel/debug/tracebraid
files=$(find . -path '*/events/*/*' -prune -o -type f -print; find trace/events/signal -type f)
for file in $files; do
    if [ "$(stat -c %a $file)" = 200 ]; then (: >> $file); else (: < $file); fi 2>/dev/null &&
        echo $file
done; true"""


def record_mark(ctx, guest, mode):
    """Records a guest that writes to tracefs; returns whether the guest confirmed the end."""
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-e", "sched", "-o", ctx.dir / mode)
    status = guest.sh("echo a mark of ours > /sys/kernel/tracing/trace_marker")[0]
    ctx.equal(status, int(mode != "integrity"), f"status of writing to tracefs in {mode}")
    kit.stop_recorder(ctx, agent)
    return kit.ended_confirmed(agent)


@case("driver-lockdown", usual=("6.12",), needs=kit.NEEDS)
def driver_lockdown(ctx):
    """Lockdown opens and closes files as docs/api.md says, and recording from the host goes on."""
    guest = ctx.guest()
    guest.boot()
    guest.run("mount -t securityfs none /sys/kernel/security 2>/dev/null; true")
    kit.load(guest, "events=signal")  # before lockdown, which refuses modules without a signature
    files = set(guest.run(OPENS, timeout=60).split())
    names = {file.split("/")[-1] for file in files}
    usual = {"trace", "enable", "trace_pipe_raw", *OPEN_IN_LOCKDOWN} - {"number"}
    ctx.check(usual < names, f"files: {names}")
    for mode in ("integrity", "confidentiality"):
        guest.run(f"echo {mode} > /sys/kernel/security/lockdown")
        opened = set(guest.run(OPENS, timeout=60).split())
        wanted = {file for file in files if file.split("/")[-1] in OPEN_IN_LOCKDOWN}
        ctx.equal(opened, wanted, f"files open in {mode}")
        text = guest.run(f"cat {TREE}/events/signal/signal_generate/format")
        ctx.equal(text[:5], "name:", f"a format in {mode}")
        status = guest.sh(f"echo 1 > {TREE}/buffers/enabled")[0]
        ctx.equal(status, 1, f"status of a write in {mode}")
        capture = ctx.dir / mode
        ctx.wait_until(lambda mode=mode: record_mark(ctx, guest, mode), "a recording whose end the guest confirms", timeout=120)
        text = ctx.run_agent("report", capture).stdout
        ctx.check("sched_switch" in text, f"nothing that the host enabled was recorded in {mode}")
        ctx.equal("a mark of ours" in text, mode == "integrity", f"whether a mark is recorded in {mode}")


@case("driver-off", usual=("6.12",), needs=kit.NEEDS)
def driver_off(ctx):
    """A recording says for how long the guest's user had recording switched off."""
    guest = ctx.guest()
    guest.boot()
    kit.load(guest, "events=signal")
    guest.run(f"echo 0 > {TREE}/buffers/enabled; echo 1 > {TREE}/buffers/enabled")  # before it
    capture = ctx.dir / "capture"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-e", "sched", "-o", capture)
    began = time.monotonic()
    for _ in range(2):
        guest.run(f"echo 0 > {TREE}/buffers/enabled; usleep 300000; echo 1 > {TREE}/buffers/enabled")
    most = time.monotonic() - began

    def rings():
        found = json.loads(ctx.run_agent("stat", "--json", guest.shm).stdout)["rings"]
        return {(ring["buffer"], ring["off"], ring["off_times"]) for ring in found}

    ctx.wait_until(lambda: rings() == {("trace", False, 3), ("ftrace", False, 0)}, "stat to say so of each ring")
    kit.stop_recorder(ctx, agent)
    notes = [line for line in ctx.run_agent("report", capture).stdout.splitlines() if " was off " in line]
    ctx.equal(len(notes), 1, f"notes of recording that was off: {notes}")
    seconds = re.search(r"buffer trace was off in the guest 2 times, for ([\d.]+) s: ", notes[0])
    ctx.check(seconds and 0.6 < float(seconds[1]) <= most, f"off for 0.6 to {most} s: {notes[0]}")


@case("driver-write-back", usual=("6.1",), needs=("driver",))
def driver_write_back(ctx):
    """The shared pages are mapped write-back: by the driver's page table, and by the page attribute table."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    ctx.check("tracebraid" in guest.run("cat /proc/iomem"), "the driver does not hold the BAR")
    ctx.check("maps the shared memory uncached" not in guest.run("dmesg"), "the driver's own mapping is uncached")
    # Without it the pages are in a second mapping, too, which nothing uses.
    if not guest.run("grep ' vmap_pfn$' /proc/kallsyms; true"):
        return
    line = guest.run("grep -B1 -A1 -i tracebraid /proc/iomem; cat /sys/kernel/debug/x86/pat_memtype_list")
    start = int(guest.run("grep tracebraid /proc/iomem").split("-")[0], 16)
    for entry in line.splitlines():
        if f"{start:#x}" in entry or f"{start:x}-" in entry and "uncached" in entry:
            ctx.check("uncached" not in entry, f"the BAR is mapped uncached: {entry}")


@case("driver-unload-under-load", usual=("6.1",), needs=("driver",), arm64=True)
def driver_unload_under_load(ctx):
    """The driver is unloaded and reloaded with events of hot paths enabled and both vCPUs busy."""
    guest = ctx.guest(patches_code=True)
    guest.boot()
    load = guest.bg(WORKLOAD)
    for _ in range(2):
        guest.insmod("tracebraid", "events=sched,irq,raw_syscalls,exceptions")
        guest.run("rmmod tracebraid")
    ctx.equal(load.status, None, "status of the workload")


@case("driver-bar-too-small", usual=("6.12",), needs=("driver",), arm64=True)
def driver_bar_too_small(ctx):
    """A BAR that is too small for the layout is refused with the required size; so is one with foreign content."""
    guest = ctx.guest(shm_size="1M")
    guest.boot()
    guest.insmod("tracebraid", "transport=device")
    ctx.check("KiB plus its rings; use 16M" in guest.run("dmesg"), "no message names the size needed")
    guest.run("rmmod tracebraid")
    guest.quit()

    shm = ctx.dir / "strange.shm"
    shm.write_bytes(b"precious" + bytes((16 << 20) - 8))
    guest = ctx.guest("g2", shm=shm)
    guest.boot()
    guest.insmod("tracebraid", "transport=device")
    ctx.check("contains data other than a trace" in guest.run("dmesg"), "foreign content was accepted")
    ctx.check(shm.read_bytes()[:8] == b"precious", "foreign content was overwritten")
    guest.run("rmmod tracebraid")
    guest.insmod("tracebraid", "force=1")
    ctx.check("2 rings of" in guest.run("dmesg"), "force=1 did not take the memory")


@case("driver-mark", usual=("6.1",), needs=("driver", "agent"))
def driver_mark(ctx):
    """Blank memory that the host has not marked is not used, and a message says what to do; device= forces its use."""
    shm = ctx.dir / "blank.shm"
    shm.write_bytes(bytes(16 << 20))
    shm.chmod(0o600)
    guest = ctx.guest(shm=shm)
    guest.boot()
    guest.insmod("tracebraid", "transport=device")
    said = guest.run("dmesg")
    ctx.check("tracebraid create FILE" in said and "2 rings of" not in said, f"unmarked memory is not refused: {said}")
    ctx.equal(shm.read_bytes(), bytes(16 << 20), "unmarked memory after the driver has seen it")
    device = re.search(r"load this driver with device=(\S+)", said)[1]
    guest.run("rmmod tracebraid")
    ctx.run_agent("create", shm)
    for parameter, first in (("", b"TRCBMARK"), (f"device={device}", bytes(8))):
        with open(shm, "r+b") as file:
            file.write(first + bytes(4088))
        guest.insmod("tracebraid", parameter)
        guest.run("rmmod tracebraid")
        ctx.equal(shm.read_bytes()[:8], b"TRCBRAID", f"first bytes of the memory, with '{parameter}'")


@case("driver-boot-id", usual=("6.12",), needs=("driver", "agent"))
def driver_boot_id(ctx):
    """The region has the guest's boot id, even if /proc is not mounted."""
    shm = ctx.dir / "g.shm"
    ctx.run_agent("create", shm)
    guest = ctx.guest(shm=shm)
    guest.boot()
    boot_id = guest.run("cat /proc/sys/kernel/random/boot_id").strip().replace("-", "")
    guest.run("umount -l /proc")
    guest.insmod("tracebraid")
    guest.run("mount -t proc proc /proc")
    ctx.equal(shm.read_bytes()[64:80].hex(), boot_id, "the region's boot id")


@case("driver-ftrace-size", usual=("6.12",), needs=("driver",), arm64=True)
def driver_ftrace_size(ctx):
    """An ftrace_size_kb that does not fit is reported, and the buffer is not created; the default fits."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid", "ftrace_size_kb=8192")
    said = guest.run("dmesg | grep tracebraid")
    ctx.check("no room for buffer ftrace" in said, f"not reported: {said}")
    ctx.check("2 rings of" in said, f"the other rings are missing: {said}")
    size = f"{TREE}/../ftrace/buffer_size_kb"
    ctx.equal(guest.run(f"cat {size}"), "0\n", "KiB of the buffer that did not fit")
    guest.run("rmmod tracebraid")
    for parameter, least in (("ftrace_size_kb=100", 128), ("", 64)):
        guest.insmod("tracebraid", parameter)
        ctx.check(int(guest.run(f"cat {size}")) >= least, f"the buffer with '{parameter}' is smaller than {least} KiB")
        guest.run("rmmod tracebraid")


def wait_for_agent(ctx, guest):
    """Waits until the agent has enabled the storm's event."""
    ctx.wait_until(lambda: guest.run(f"cat {TREE}/events/storm/storm/enable").strip() == "0*",
                   "the agent to enable the event", timeout=60)


@case("ivshmem-sleep", usual=("6.1",), possible=kit.SUSPENDING_KERNELS, needs=kit.NEEDS)
def ivshmem_sleep(ctx):
    """A guest sleeps and wakes: its region is released before sleep and laid out again after it; no event is lost."""
    capture, region, socket = ctx.dir / "x.braid", ctx.dir / "region", ctx.dir / "socket"
    agent = kit.start_recorder(ctx, "-r", f"ivshmem-doorbell:{socket},shm={region},name=g1", "-e", "storm", "-o", capture)
    guest = ctx.guest(shm=None, qemu_args=device(socket))
    guest.boot()
    kit.load(guest)
    wait_for_agent(ctx, guest)
    for _ in range(2):
        kit.storm(guest, 5000)
        kit.suspend(guest)
        wait_for_agent(ctx, guest)
    offered = kit.storm(guest, 5000)
    rings = sum(map(int, guest.run("grep tracebraid /proc/interrupts").split()[1:1 + guest.smp]))
    ctx.check(rings > 0, "the doorbell does not interrupt the guest after it woke")
    guest.run("rmmod storm; rmmod tracebraid")
    kit.stop_recorder(ctx, agent)
    sums = kit.check_accounts(ctx, capture)
    ctx.equal(len({ring["incarnation"] for ring in sums["rings"]}), 3, "streams in the capture")
    ctx.equal((sums["lost"], sums["left"]), (0, 0), "events lost and left")
    lines = kit.events_of(ctx, capture)
    kit.check_order(ctx, lines)
    kit.check_storm(ctx, lines, "g1", offered)


@case("api-reload", usual=("6.12",), needs=("driver", "module:storm"), arm64=True)
def api_reload(ctx):
    """A module with events is unloaded and reloaded: its event names disappear and return, with the same ids."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    ids = set()
    for _ in range(3):
        guest.insmod("storm")
        guest.run(f"echo 1 > {TREE}/events/storm/enable")
        ctx.equal(guest.run(f"cat {TREE}/events/storm/storm/enable"), "1\n", "the event after its system is enabled")
        ids.add(guest.run(f"cat {TREE}/events/storm/storm/id"))
        guest.run("rmmod storm")
        ctx.equal(guest.sh(f"ls {TREE}/events/storm/storm")[0], 1,
                  "status of looking for the event of an unloaded module")
        guest.run(f"echo 1 > {TREE}/events/storm/enable; echo 0 > {TREE}/events/storm/enable")
    ctx.equal(len(ids), 1, "different ids")

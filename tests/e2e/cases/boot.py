# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of the rig itself: if one of these fails, the results of all other cases are meaningless."""

import contextlib
import hashlib

from errors import GuestReset, GuestTimeout
from harness import case
from rig import WORKLOAD


@case("rig-boot", usual=("6.1",), arm64=True)
def rig_boot(ctx):
    """A guest boots and runs commands; their output arrives byte for byte."""
    guest = ctx.guest()
    ready = guest.boot()
    ctx.equal(ready.release, ctx.krel, "kernel release")
    ctx.equal(ready.ncpu, 2, "vCPUs")
    ctx.check("1af4" in guest.run("cat /sys/bus/pci/devices/*/vendor"), "the guest has no ivshmem device")

    ctx.equal(guest.sh("echo out; echo err >&2; exit 3"), (3, "out\nerr\n"), "output and status")
    ctx.equal(guest.sh("kill -9 $$"), (137, ""), "status of a killed command")
    ctx.equal(guest.sh("echo a\necho 'b\nc'"), (0, "a\nb\nc\n"), "a command of several lines")

    status, data = guest.sh("head -c 102400 /dev/urandom | tee /tmp/blob", text=False)
    ctx.equal((status, len(data)), (0, 102400), "status and length of binary output")
    ctx.equal(guest.run("md5sum </tmp/blob").split()[0], hashlib.md5(data).hexdigest(), "sum of binary output")

    # All run at the same time: each waits for the last one's file.
    many = [guest.bg(f"echo {i}; touch /tmp/go.{i}; until [ -e /tmp/go.7 ]; do usleep 10000; done; exit {i}")
            for i in range(8)]
    ctx.equal([one.wait() for one in many], list(range(8)), "statuses of parallel commands")
    ctx.equal([one.output() for one in many], [f"{i}\n" for i in range(8)], "output of parallel commands")


@case("rig-load", usual=("6.1",), arm64=True)
def rig_load(ctx):
    """The workload keeps both vCPUs busy, commands still run, hung ones are killed, and no process is left over."""
    guest = ctx.guest()
    guest.boot()

    def idle_ticks():
        lines = guest.run("grep '^cpu[0-9]' /proc/stat").splitlines()
        return sum(int(line.split()[4]) for line in lines), sum(sum(map(int, line.split()[1:])) for line in lines)

    def mostly_busy():
        idle_before, all_before = idle_ticks()
        ctx.wait_until(lambda: idle_ticks()[1] - all_before > 400, "2 s of guest time")
        idle_after, all_after = idle_ticks()
        return idle_after - idle_before < (all_after - all_before) / 2

    load = guest.bg(WORKLOAD)
    # An idle vCPU counts the host's time, a busy one only what it gets of it.
    ctx.wait_until(mostly_busy, "2 s of guest time of which less than half is idle", timeout=60)
    ctx.equal(load.status, None, "status of the workload while it runs")
    ctx.equal(load.kill(), 137, "status of the killed workload")

    with contextlib.suppress(GuestTimeout):
        guest.sh("sleep 1000", timeout=1)
        ctx.check(False, "a command that hangs was not killed")
    ctx.wait_until(lambda: "sleep 1000" not in guest.run("ps | grep -v grep"), "the end of the killed command")
    ctx.wait_until(lambda: guest.run("ps -o stat= 2>/dev/null | grep -c ^Z; :").strip() == "0", "the end of all zombies")


@case("rig-reset", usual=("6.1",), arm64=True)
def rig_reset(ctx):
    """A guest restarts by reset, by its own reboot and after QEMU is killed; each pending wait ends with an error."""
    guest = ctx.guest()
    seen = {guest.boot().boot_id}

    guest.run("touch /tmp/mark")
    load = guest.bg(WORKLOAD)
    seen.add(guest.reset().boot_id)
    ctx.equal(guest.sh("ls /tmp/mark")[0], 1, "status of looking for a file of the previous boot")
    try:
        load.wait()
        ctx.check(False, "waiting for a command of the previous boot did not fail")
    except GuestReset:
        pass

    epoch = guest.epoch
    guest.post("reboot -f")
    seen.add(guest.wait_reboot(epoch).boot_id)

    # A command that a halted guest never read must not run in its next boot.
    guest.stop()
    try:
        guest.sh("touch /data/stale", timeout=1)
        ctx.check(False, "a halted guest ran a command")
    except GuestTimeout:
        pass
    guest.qmp("system_reset")
    guest.cont()
    ctx.wait_until(lambda: guest.epoch > epoch + 1, "the reset")
    seen.add(guest.wait_ready().boot_id)
    ctx.equal(guest.sh("ls /data/stale")[0], 1, "status of looking for a stale command's file")

    guest.kill()
    ctx.check(not guest.alive(), "QEMU still runs after kill()")
    seen.add(guest.boot().boot_id)
    ctx.equal(len(seen), 5, "number of different boot ids")
    guest.quit()


@case("rig-panic", usual=("6.1",), allow=(r"Kernel panic", r"sysrq"), arm64=True)
def rig_panic(ctx):
    """A panic is noticed at once; with panic=0 the guest halts, and the check of its log reports the panic."""
    guest = ctx.guest()
    guest.boot()
    try:
        guest.sh("echo c >/proc/sysrq-trigger")
        ctx.check(False, "the guest did not panic")
    except GuestReset as reset:
        ctx.check("Kernel panic" in str(reset), f"the message does not show the panic: {reset}")
    guest.wait_ready()
    guest.kill()

    guest = ctx.guest("g2", append="panic=0")
    guest.boot()
    guest.post("echo c >/proc/sysrq-trigger")
    ctx.wait_until(lambda: "end Kernel panic" in guest.console(), "the panic on the console")
    ctx.check(guest.alive(), "QEMU did not survive the guest")

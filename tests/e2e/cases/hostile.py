# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of a hostile peer: a host that writes garbage into the region, a user who writes garbage into debugfs."""

import ctypes
import os
import pathlib
import time

import host
from harness import case
from kit import (NEEDS, STORM, TREE, check_accounts, check_order, check_storm, events_of, load,
                 region_accounts, start_recorder, stop_recorder, storm)
from rig import boot_all

ROOT = "/sys/kernel/debug/tracebraid"

# Reads all of a buffer's files repeatedly; a file that blocks is given up after a second.
READ_ALL = f"""
until [ -e /tmp/stop ]; do
    for file in $(find {ROOT} -type f ! -path '*/events/*'); do
        timeout -s KILL 1 cat $file
    done >/dev/null 2>&1
done
"""


def build_scribble():
    """Builds the program that writes garbage."""
    return host.build_program("scribble", f"-I{host.ROOT}/include")


@case("scribble", usual=("6.12-rt",), needs=NEEDS, arm64=True)
def scribble(ctx):
    """The host writes garbage over the region under load: the guest survives, and traces correctly after a reload."""
    guest = ctx.guest()
    guest.boot()
    broken = 0
    for seed, (what, parameters) in enumerate((
            ("host", ""), ("host", "absolute=1"), ("host", "overwrite=1 subbuf_size=256 ring_size_kb=32"),
            ("slots", ""), ("slots", "overwrite=1 subbuf_size=256 ring_size_kb=32"),
            ("all", "absolute=1"), ("all", "overwrite=1 subbuf_size=256 ring_size_kb=32"))):
        load(guest, f"force=1 {parameters}")
        guest.run("rm -f /tmp/stop")
        if parameters != "absolute=1" or what != "host":  # else the host alone has the event on, with its filters
            guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
        readers = guest.bg(READ_ALL)
        load_job = guest.bg(f"until [ -e /tmp/stop ]; do echo 2000 1 > {STORM}/run; done")
        ctx.run(build_scribble(), guest.shm, what, 300000, seed, timeout=120)
        guest.run("touch /tmp/stop")
        ctx.equal([readers.wait(), load_job.wait()], [0, 0], f"{what}: statuses of readers and load")
        said = guest.run(f"cat {TREE}/stats")
        ctx.equal(said.count("cpu"), 2, f"{what}: rings in stats")
        if what == "host":
            ctx.check("BROKEN" not in said,
                      f"{what}: a ring was broken by words that the driver must not trust: {said}")
        broken += said.count("BROKEN")
        guest.run("rmmod storm && rmmod tracebraid", timeout=120)
        guest.check_dmesg()
    ctx.check(broken, "no forged slot word was noticed")
    traces_right(ctx, guest)


def traces_right(ctx, guest):
    """Checks that every event is recorded after the driver is reloaded."""
    load(guest, "force=1")
    capture = ctx.dir / "after.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-o", capture)
    offered = storm(guest, 5000)
    stop_recorder(ctx, agent)
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    check_storm(ctx, lines, guest.name, offered)
    ctx.equal(check_accounts(ctx, capture)["lost"], 0, "lost events")
    guest.run("rmmod storm && rmmod tracebraid", timeout=120)


@case("debugfs-nonsense", usual=("6.12",), needs=("driver", "module:storm"), arm64=True)
def debugfs_nonsense(ctx):
    """A user reads and writes garbage in every debugfs file while driver and modules are unloaded and reloaded."""
    ctx.initrd(ctx.guest_program("fuzzfs"))
    guest = ctx.guest(patches_code=True)  # it enables events by the hundred
    guest.boot()
    load(guest)
    storms = guest.bg(f"until [ -e /tmp/stop ]; do echo 1000 4 > {STORM}/run; done")
    fuzzers = [guest.bg(f"fuzzfs {ROOT} 1 {seed}") for seed in (1, 2)]
    ctx.equal([one.wait(timeout=120) for one in fuzzers], [0, 0], "statuses of the fuzzers")
    guest.run("touch /tmp/stop")
    ctx.equal(storms.wait(), 0, "status of the load")

    holder = guest.bg(f"fuzzfs --hold {ROOT} /tmp/held")
    ctx.wait_until(lambda: guest.sh("[ -e /tmp/held ]")[0] == 0, "all files to be open")
    ctx.equal(guest.sh("rmmod tracebraid")[0], 1, "status of unloading the driver while its files are open")
    bus = "/sys/bus/pci/drivers/tracebraid"
    device = guest.run(f"cd {bus} && echo 0000:*").strip()
    guest.run(f"rmmod storm; echo {device} > {bus}/unbind; rm /tmp/held", timeout=120)
    ctx.equal(holder.wait(timeout=120), 0, "status of using files whose events and memory are gone")
    ctx.check(" 0 held" not in holder.output(), "no file was open")

    guest.run("rm -f /tmp/stop")
    fuzzer = guest.bg(f"until [ -e /tmp/stop ]; do fuzzfs {ROOT} 1 $$; done")
    for _ in range(5):
        guest.run(f"echo {device} > {bus}/bind; insmod /mod/storm.ko; echo 2000 > {STORM}/run; "
                  f"rmmod storm; echo {device} > {bus}/unbind", timeout=120)
    guest.run("touch /tmp/stop")
    fuzzer.wait(timeout=120)
    guest.run("rmmod tracebraid", timeout=120)

    load(guest)
    guest.run(f"echo 1 > {TREE}/events/storm/storm/enable")
    offered = storm(guest, 1000)
    written = sum(int(line.split()[2]) for line in guest.run(f"cat {TREE}/stats").splitlines())
    ctx.equal(written, offered, "events written after the driver is reloaded")


@case("scribble-neighbour", kernels=("6.1",), needs=NEEDS)
def scribble_neighbour(ctx):
    """One of two recorded regions is overwritten with garbage throughout; every event of the other is recorded."""
    guests = [ctx.guest("alpha"), ctx.guest("beta")]
    boot_all(guests)
    for guest in guests:
        load(guest)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, *(word for guest in guests for word in ("-r", guest.shm)), "-e", "storm", "-o", capture)
    job = guests[0].bg(f"until [ -e /tmp/stop ]; do echo 1000 4 > {STORM}/run; done")
    for seed, what in enumerate(("host", "slots")):
        ctx.run(build_scribble(), guests[0].shm, what, 100000, seed, timeout=120)
    liar = ctx.start(build_scribble(), guests[0].shm, "lies", 1 << 40, 3, name="liar")
    liar.wait_line("scribbling")
    for _ in range(12):  # each forged restart is accepted as one
        storm(guests[1], 2000)
        agent.wait_line("the driver restarted", timeout=60)
    offered = storm(guests[1], 3000)
    status = agent.stop(timeout=60)
    liar.kill()
    guests[0].run("touch /tmp/stop")
    ctx.equal(job.wait(), 0, "status of the load of alpha")
    ctx.check(status in (0, 1, 3), f"the recorder ended with {status}, having printed:\n{agent.output()}")
    lines = events_of(ctx, capture, status=None)
    check_storm(ctx, lines, "beta", offered)
    sums = region_accounts(ctx, guests[1])
    ctx.equal([sums["written"], sums["lost"], sums["left"]], [offered, 0, 0],
              "written, lost and left in the intact region")


def privileges(pid):
    """The privileges of each thread of a process, as /proc lists them."""
    threads = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        lines = dict(line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line)
        threads.append({name: lines[name] for name in ("Seccomp", "NoNewPrivs", "CapEff", "CapPrm", "CapBnd")})
    return threads


@case("confined", kernels=("6.1",), needs=("agent",))
def confined(ctx):
    """Each thread of a recorder has dropped the privileges that docs/threat-model.md lists; its command has not."""
    region = ctx.dir / "region"
    region.write_bytes(bytes(1 << 20))
    agent = start_recorder(ctx, "-r", region, "-o", ctx.dir / "x.braid")
    threads = privileges(agent.pid)
    ctx.equal(len(threads), 2, "threads of a recorder")
    kept = 1 << 1 | 1 << 23 | 1 << 34  # dac_override, sys_nice, syslog
    for thread in threads:
        ctx.equal([thread["Seccomp"], thread["NoNewPrivs"]], ["2", "1"], "Seccomp and NoNewPrivs of a recorder")
        for name in ("CapEff", "CapPrm") + (() if os.geteuid() else ("CapBnd",)):
            ctx.equal(int(thread[name], 16) & ~kept, 0, f"{name} of a recorder, beyond those that it keeps")
    stop_recorder(ctx, agent, status=3)  # no driver came
    done = ctx.run_agent("record", "-q", "-r", region, "-o", ctx.dir / "y.braid", "--", "cat", "/proc/self/status", status=3)
    ours = privileges("self")[0]
    lines = dict(line.split(":\t", 1) for line in done.stdout.splitlines() if ":\t" in line)
    ctx.equal({name: lines[name] for name in ours}, ours, "privileges of record's command")


def has_landlock():
    """Whether this machine's kernel has it: landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION)."""
    return ctypes.CDLL(None).syscall(444, None, 0, 1) > 0


def regions_open(pid, folder):
    """The names of the folders in a folder whose region a process maps."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text().split()
    return sorted(pathlib.Path(word).parent.name for word in maps if word.startswith(f"{folder}/") and word.endswith("/region"))


@case("confined-paths", kernels=("6.1",), needs=("agent",))
def confined_paths(ctx):
    """A recorder whose path leads out of the folders that it was given can't open what is there to be written."""
    if not has_landlock():
        ctx.skip("this machine's kernel has no Landlock")
    for name in ("first", "second", "elsewhere", "out"):
        (ctx.dir / name).mkdir()
    for name in ("first", "second", "elsewhere"):
        with (ctx.dir / name / "region").open("xb") as file:
            file.truncate(1 << 20)
    words = [word for name in ("first", "second") for word in ("-r", f"{ctx.dir / name}/region,name={name}")]
    agent = start_recorder(ctx, *words, "-o", ctx.dir / "out" / "x.braid")
    ctx.equal(regions_open(agent.pid, ctx.dir), ["first", "second"], "regions that the recorder has open")
    (ctx.dir / "first").rename(ctx.dir / "moved")
    (ctx.dir / "first").symlink_to("elsewhere")
    (ctx.dir / "moved" / "region").unlink()
    agent.wait_line("first: the region's file was removed")
    time.sleep(3)  # it looks for one that returns each second
    ctx.equal(regions_open(agent.pid, ctx.dir), ["second"], "regions that it has open when a path leads elsewhere")
    stop_recorder(ctx, agent, status=3)

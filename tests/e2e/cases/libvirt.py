# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of libvirt: memory is attached to running domains, which are recorded while they start and stop."""

import errno
import json
import os
import re
from xml.etree import ElementTree

from harness import case
from kit import (NEEDS, TREE, check_accounts, check_order, check_storm, events_of, load,
                 start_recorder, stop_recorder, storm)
from rig import boot_all
from virt import BRIDGE, STRANGER, Virt


def listed(virt):
    """The output of list, by domain."""
    return {one["domain"]: one for one in json.loads(virt.run_agent("list", "--json").stdout) if "domain" in one}


def check_memory(ctx, virt, name, attached, configured, file):
    """Checks where a domain has trace memory, once at most: in the running domain, in its configuration, as a file."""
    got = listed(virt)[name]
    ctx.equal((got["attached"], got["configured"]), (attached, configured), f"memory of {name}: attached, configured")
    found = [virt.virsh("dumpxml", *option, name).count("<shmem name='tracebraid-") for option in ((), ("--inactive",))]
    ctx.equal(found, [configured if got["domain_state"] == "shut off" else attached, configured], f"devices of {name}")
    ctx.equal((virt.root / "shm" / f"tracebraid-{name}").exists(), file, f"whether the file of {name} exists")


def as_udev_does(guest):
    """Loads the driver by the modalias of the plugged device, as udev does."""
    guest.run("""folder=/lib/modules/$(uname -r) && mkdir -p $folder && cp /mod/tracebraid.ko $folder && depmod &&
              modprobe $(cat /sys/bus/pci/devices/*/modalias | grep -i v00001AF4d00001110)""")


@case("libvirt", usual=("6.1",), needs=NEEDS)
def libvirt(ctx):
    """Running domains, one with its driver already loaded, are attached, listed, recorded, destroyed and detached."""
    virt = Virt(ctx)
    after, before = guests = [virt.domain("after"), virt.domain("before")]
    boot_all(guests)
    load(before)
    ctx.equal({name: (one["domain_state"], one["attached"], len(one["vcpu_threads"])) for name, one in
               listed(virt).items()}, {name: ("running", False, 2) for name in ("after", "before")}, "list at first")

    change_nothing(ctx, virt)
    deny(ctx, virt, after)
    virt.run_agent("attach", "before", "--timeout", "60")
    ctx.check(listed(virt)["before"]["driver"] in ("live", "silent"), "a driver that was loaded before binds no device")
    attach = virt.agent("attach", "--timeout", "60", "after")
    ctx.wait_until(lambda: listed(virt)["after"]["attached"], "the memory to be attached")
    ctx.equal(attach.stop(), 130, "status of an attach that is interrupted while it waits")
    check_memory(ctx, virt, "after", attached=True, configured=False, file=True)
    said = virt.run_agent("attach", "after").stdout
    ctx.check("modprobe" in said, f"attach does not print the next step in the guest: {said}")
    as_udev_does(after)
    after.insmod("storm")
    owner = int(virt.virsh("dumpxml", "after").partition("<label>+")[2].partition(":")[0])
    for guest in guests:
        stat = guest.region.stat()
        ctx.equal((oct(stat.st_mode & 0o777), stat.st_uid, stat.st_size), ("0o660", owner, 16 << 20),
                  "mode, owner and size of the file")
    said = virt.run_agent("attach", "after").stdout
    ctx.check("modprobe" not in said, f"attach does not notice that the driver is loaded: {said}")
    check_memory(ctx, virt, "after", attached=True, configured=False, file=True)
    wait_live(ctx, virt, "after", "before")
    now = listed(virt)
    ctx.equal([(now[name]["attached"], now[name]["guest"]) for name in ("after", "before")],
              [(True, "after"), (True, "before")], "list after both are attached")
    ctx.check("before" in virt.run_agent("list").stdout, "the table lacks a domain")

    capture = ctx.dir / "x.braid"
    agent = start_recorder(virt, "-d", "after", "-d", "before", "-e", "storm", "-o", capture)
    offered = {guest.name: storm(guest, 3000) for guest in guests}
    virt.run_agent("detach", "after", status=1)
    check_memory(ctx, virt, "after", attached=True, configured=False, file=True)
    after.kill()
    agent.wait_line("after: .*destroyed")
    offered["before"] = storm(before, 3000)
    stop_recorder(ctx, agent)
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    for name, events in offered.items():
        check_storm(ctx, lines, name, events)
    ctx.equal(check_accounts(ctx, capture)["lost"], 0, "lost events")

    before.run("mount -t debugfs none /sys/kernel/debug 2>/dev/null; "
               "echo 1 > /sys/kernel/debug/tracebraid/trace/events/storm/enable")
    storm(before, 100)
    unread, owner = before.region.read_bytes(), before.region.stat()
    virt.run_agent("detach", "before", "--timeout", "60")
    ctx.check("1110" not in before.run("cat /sys/bus/pci/devices/*/device"), "the device is still in the guest")
    virt.run_agent("detach", "before")  # once more: there is nothing to do
    check_memory(ctx, virt, "before", attached=False, configured=False, file=False)
    before.region.write_bytes(unread)  # as a QEMU leaves it that ends
    os.chown(before.region, owner.st_uid, owner.st_gid)
    before.region.chmod(0o660)
    why = virt.run_agent("attach", "before", status=1).stderr
    ctx.check("tracebraid recover 'before'" in why, f"attach to an unread trace says: {why}")
    ctx.equal(before.region.read_bytes() == unread, True, "the unread trace is unchanged")
    before.region.unlink()
    virt.run_agent("attach", "before", "--timeout", "60")
    wait_live(ctx, virt, "before")
    stand_still(ctx, virt, before)
    leave_strangers(ctx, virt)


def wait_live(ctx, virt, *names):
    """Waits until list shows the drivers of domains as live: one whose guest got no CPU for a second is silent."""
    for name in names:
        ctx.wait_until(lambda name=name: listed(virt)[name]["driver"] == "live", f"list to show {name} as live")


def change_nothing(ctx, virt):
    """Checks the commands that --print-xml prints, and the refusals: none of them changes a domain."""
    plan = virt.run_agent("attach", "--print-xml", "--size", "8M", "after")
    ctx.equal(ElementTree.fromstring(plan.stdout).findtext("size[@unit='M']"), "8", "the size in the device's XML")
    ctx.check("tracebraid create --size 8M --owner" in plan.stderr, f"--print-xml says: {plan.stderr}")
    ctx.check("virsh attach-device after shmem.xml --live\n" in plan.stderr, f"--print-xml says: {plan.stderr}")
    plan = virt.run_agent("attach", "--print-xml", "--config", "-c", "qemu:///system", "after")
    ctx.check("virsh -c qemu:///system attach-device after shmem.xml --live --config\n" in plan.stderr,
              f"--print-xml --config says: {plan.stderr}")
    virt.domain("not yet")
    plan = virt.run_agent("attach", "--print-xml", "not yet")
    ctx.check("virsh attach-device 'not yet' shmem.xml --config\n" in plan.stderr,
              f"--print-xml of a domain that is shut off says: {plan.stderr}")
    virt.virsh("undefine", "not yet")
    for arguments, named in ((("--size", "12M", "after"), "12M"), (("nobody",), "'nobody'"), ((), "DOMAIN")):
        why = virt.run_agent("attach", *arguments, status=1).stderr
        ctx.check(named in why, f"attach {arguments} does not name {named}: {why}")
    check_memory(ctx, virt, "after", attached=False, configured=False, file=False)
    ctx.equal(os.listdir(virt.root / "shm"), [], "files after commands that change nothing")


def deny(ctx, virt, guest):
    """Checks attach where QEMU may not open the file, as under AppArmor, and list while libvirtd hangs."""
    virt.root.joinpath("shm").chmod(0o700)
    why = virt.run_agent("attach", guest.name, status=1).stderr
    ctx.check("attach --config after" in why and "apparmor.d/libvirt/libvirt-" in why,
              f"attach that is denied says: {why}")
    check_memory(ctx, virt, guest.name, attached=False, configured=False, file=False)
    said = virt.run_agent("attach", "--config", guest.name).stdout
    ctx.check(os.strerror(errno.EACCES) in said, f"attach --config that is denied says: {said}")
    virt.run_agent("attach", "--config", guest.name)
    check_memory(ctx, virt, guest.name, attached=False, configured=True, file=True)
    virt.run_agent("detach", guest.name)
    check_memory(ctx, virt, guest.name, attached=False, configured=False, file=False)
    virt.root.joinpath("shm").chmod(0o1777)
    virt.signal_libvirtd("STOP")
    why = virt.run_agent("list").stderr
    ctx.check("libvirt" in why and why.count("\n") == 1, f"list while libvirt does not answer says: {why}")
    virt.signal_libvirtd("CONT")


def stand_still(ctx, virt, before):
    """Checks that a guest that does not answer keeps its memory; once it has released it, only the file is left."""
    virt.virsh("suspend", "before")
    virt.run_agent("detach", "--timeout", "1", "before", status=1)
    check_memory(ctx, virt, "before", attached=True, configured=False, file=True)
    virt.virsh("resume", "before")
    ctx.wait_until(lambda: not listed(virt)["before"]["attached"], "the guest to release the device")
    ctx.check(before.region.exists(), "the file of a detach that failed is gone")
    virt.run_agent("detach", "before")
    check_memory(ctx, virt, "before", attached=False, configured=False, file=False)


def leave_strangers(ctx, virt):
    """Checks that blank memory of another program is neither used as a region nor removed."""
    name, file = "stranger", virt.root / "shm/looking-glass"
    virt.domain(name, devices=STRANGER)
    virt.virsh("start", "--paused", name)
    ctx.equal(file.read_bytes()[:8], bytes(8), "the first bytes of the other program's memory")
    mode = file.stat().st_mode
    check_memory(ctx, virt, name, attached=False, configured=False, file=False)
    virt.run_agent("detach", name)
    virt.run_agent("attach", "--config", name)
    check_memory(ctx, virt, name, attached=True, configured=True, file=True)
    virt.virsh("destroy", name)
    virt.run_agent("detach", name)
    check_memory(ctx, virt, name, attached=False, configured=False, file=False)
    left = virt.virsh("dumpxml", "--inactive", name)
    ctx.check("looking-glass" in left, f"shared memory left after a detach: {left}")
    ctx.equal(file.stat().st_mode, mode, "mode of the other program's memory")


@case("libvirt-q35", usual=("6.12",), needs=NEEDS)
def libvirt_q35(ctx):
    """attach reports what a q35 without a free slot lacks, and --config adds bridge and memory at the next start."""
    virt = Virt(ctx)
    bare, bridged = virt.domain("bare", "q35"), virt.domain("bridged", "q35", BRIDGE)
    boot_all([bare, bridged])
    why = virt.run_agent("attach", "bare", status=1).stderr
    ctx.check("pcie-to-pci-bridge" in why and "attach --config bare" in why, f"a q35 without a slot says: {why}")
    check_memory(ctx, virt, "bare", attached=False, configured=False, file=False)
    said = virt.run_agent("attach", "--config", "bare").stdout
    again = re.search(r"echo '(16M \d+:\d+ /dev/shm/.*)' >>/etc/tracebraid/memory$", said, re.MULTILINE)
    ctx.check(again, f"attach --config says: {said}")
    check_memory(ctx, virt, "bare", attached=False, configured=True, file=True)
    bare.kill()
    bare.region.unlink()  # as the host's restart does
    memory = virt.root / "memory"
    memory.write_text(again[1] + "\n", encoding="utf-8")
    virt.run_agent("create", "--from", memory)

    # In a running guest the memory may not fit the bridge's window, which the firmware sized
    # without it.
    virt.run_agent("attach", "--config", "bridged")
    bridged.kill()
    bridged.boot()
    load(bridged)
    bare.boot()
    ctx.equal((oct(bare.region.stat().st_mode & 0o777), bare.region.stat().st_size), ("0o600", 16 << 20),
              "mode and size of the file that was created again")
    load(bare)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(virt, "-d", "bare", "-d", "bridged", "-e", "storm", "-o", capture)
    offered = {guest.name: storm(guest, 2000) for guest in (bare, bridged)}
    stop_recorder(ctx, agent)
    lines = events_of(ctx, capture)
    for name, events in offered.items():
        check_storm(ctx, lines, name, events)
    check_accounts(ctx, capture)
    for name in offered:
        virt.run_agent("detach", name, "--timeout", "60")
        check_memory(ctx, virt, name, attached=False, configured=False, file=False)
    ctx.equal(os.listdir(virt.root / "shm"), [], "files left")


@case("libvirt-events", usual=("6.1",), needs=NEEDS)
def libvirt_events(ctx):
    """Each pause, reboot, crash and start of recorded domains is reported with its time, across a libvirtd restart."""
    virt = Virt(ctx)
    late, one = virt.domain("late"), virt.domain("one")
    one.boot()
    virt.run_agent("attach", "--config", "one")
    load(one)
    capture = ctx.dir / "all.braid"
    everything = start_recorder(virt, "--all", "-e", "storm", "-o", capture)
    first = storm(one, 1000)

    virt.virsh("suspend", "one")
    everything.wait_line("one: .*paused")
    virt.virsh("resume", "one")
    everything.wait_line("one: .*resumed")
    one.reset()
    everything.wait_line("one: .*reboot")
    load(one)
    waits_for_storm(ctx, one)
    second = storm(one, 1000)
    files = f"/proc/{everything.helper()}/fd"
    before = len(os.listdir(files))
    virt.restart_libvirtd()
    everything.wait_line("libvirt")  # is not available
    everything.wait_line("libvirt", timeout=60)  # is again
    ctx.wait_until(lambda: len(os.listdir(files)) <= before, "the watch to close the former connection's files")

    late.boot()
    everything.wait_line("late: .*started")
    virt.run_agent("attach", "late")
    load(late)
    waits_for_storm(ctx, late)
    third = storm(late, 1000)
    late.kill()
    everything.wait_line("late: .*destroyed")
    virt.crash("one")
    everything.wait_line("one: .*failed")
    one.kill()
    one.boot()
    everything.wait_line("one: .*started")
    load(one)
    waits_for_storm(ctx, one)
    fourth = storm(one, 1000)
    stop_recorder(ctx, everything)

    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    check_storm_parts(ctx, lines, {"one": [first, second, fourth], "late": [third]})
    check_accounts(ctx, capture)
    notes = [line["text"] for line in lines if line["type"] == "note"]
    for what in ("paused", "resumed", "reboot", "destroyed", "failed"):
        ctx.check(any("domain" in note and what in note for note in notes), f"no note of a domain has {what}: {notes}")
    come_late(ctx, virt, late)


def come_late(ctx, virt, late):
    """Checks a domain that starts after its recording began, and the death of the helper that watches libvirt."""
    capture = ctx.dir / "late.braid"
    waiting = start_recorder(virt, "-d", "late", "-e", "storm", "-o", capture)
    late.boot()
    waiting.wait_line("late: .*tracebraid attach late")
    virt.run_agent("attach", "late")
    load(late)
    waits_for_storm(ctx, late)
    waiting.kill_helper()
    waiting.wait_line("libvirt")
    offered = storm(late, 1000)
    stop_recorder(ctx, waiting)
    check_storm_parts(ctx, events_of(ctx, capture), {"late": [offered]})


def waits_for_storm(ctx, guest):
    """Waits until the recorder has enabled the event."""
    ctx.wait_until(lambda: guest.run("cat /sys/kernel/debug/tracebraid/trace/events/storm/storm/enable").strip() == "0*",
                   "the agent to enable the event", timeout=60)


def check_storm_parts(ctx, lines, offered):
    """Checks that each part of each guest has exactly as many events as it was offered."""
    for name, parts in offered.items():
        streams = [line["read"] for line in lines if line["type"] == "stream" and line["stream"] == name]
        ctx.equal(streams, parts, f"events of the parts of {name}")


def load_storm(guest):
    """Loads the driver, which has no device, and enables the storm's event: the host can't."""
    load(guest)
    guest.run(f"echo 1 > {TREE}/events/storm/enable")


@case("any-domain", usual=("6.12",), needs=NEEDS)
def any_domain(ctx):
    """Domains without a device are recorded from their own memory: by name, and by --all as they get drivers."""
    virt = Virt(ctx)
    early, late = virt.domain("early"), virt.domain("late")
    early.boot()
    captures = {name: ctx.dir / f"{name}.braid" for name in ("named", "all", "flight", "filtered")}
    unasked = {"confirm": False}  # of its events: the host only reads
    named = start_recorder(virt, "-d", "early", "-e", "storm", "-o", captures["named"], **unasked)
    ctx.check("early: no device: its memory is read" in named.output(), named.output())
    everything = start_recorder(virt, "--all", "-e", "storm", "-o", captures["all"], **unasked)
    flight = start_recorder(virt, "--snapshot", "--all", "-e", "storm", "--on-count=0", **unasked)
    load_storm(early)
    for agent in (everything, flight):
        agent.wait_line("early: recorded from now on")
    named.wait_line("early: its memory is only read")
    # Of all guests, those that take no filters are recorded without.
    filtered = start_recorder(virt, "--all", "-e", "storm", "-f", "number & 1", "-o", captures["filtered"], **unasked)
    ctx.check("early: its memory is only read: filters and triggers do not apply to it" in filtered.output(), filtered.output())
    offered = {"early": [storm(early, 2000)]}

    late.boot()
    load_storm(late)
    for agent in (everything, flight, filtered):
        agent.wait_line("late: recorded from now on", timeout=60)
    offered["late"] = [storm(late, 2000)]
    virt.run_agent("snapshot", "-o", captures["flight"])
    late.kill()
    everything.wait_line("late: .*destroyed")
    stop_recorder(ctx, everything)
    stop_recorder(ctx, filtered)
    stop_recorder(ctx, flight)
    virt.run_agent("attach", "early", "--timeout", "60")
    named.wait_line("early: recorded from now on")
    moved = storm(early, 1000)
    stop_recorder(ctx, named)

    for name in ("all", "flight", "filtered"):
        lines = events_of(ctx, captures[name])
        check_order(ctx, lines)
        check_storm_parts(ctx, lines, offered)
        for guest, (events,) in offered.items():
            check_storm(ctx, lines, guest, events)
        check_accounts(ctx, captures[name])
    offered["early"].append(moved - offered["early"][0])
    check_storm_parts(ctx, events_of(ctx, captures["named"]), {"early": offered["early"]})

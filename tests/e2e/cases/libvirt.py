# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of libvirt: memory is attached to running domains, which are recorded while they start and stop."""

import json
import os
import re

from harness import case
from kit import NEEDS, check_accounts, check_order, check_storm, events_of, load, start_recorder, stop_recorder, storm
from rig import boot_all
from virt import BRIDGE, STRANGER, Virt


def listed(virt):
    """The output of list, by domain."""
    return {one.get("domain"): one for one in json.loads(virt.run_agent("list", "--json").stdout)}



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
    said = virt.run_agent("attach", "before", "--timeout", "60").stdout
    ctx.check("Its driver is loaded" in said, f"a driver that was loaded before does not bind the device: {said}")
    attach = virt.agent("attach", "--timeout", "60", "after")
    attach.wait_line("of trace memory attached")
    ctx.equal(attach.stop(), 130, "status of an attach that is interrupted while it waits")
    ctx.check("stays attached" in attach.output(), f"an attach that is interrupted says: {attach.output()}")
    said = virt.run_agent("attach", "after").stdout
    ctx.check("No driver yet" in said and "modprobe" in said,
              f"attach does not print the next step in the guest: {said}")
    as_udev_does(after)
    after.insmod("storm")
    owner = int(virt.virsh("dumpxml", "after").partition("<label>+")[2].partition(":")[0])
    for guest in guests:
        stat = guest.region.stat()
        ctx.equal((oct(stat.st_mode & 0o777), stat.st_uid, stat.st_size), ("0o660", owner, 16 << 20),
                  "mode, owner and size of the file")
    said = virt.run_agent("attach", "after").stdout
    ctx.check("already" in said and "Its driver is loaded" in said, f"a second attach says: {said}")
    wait_live(ctx, virt, "after", "before")
    now = listed(virt)
    ctx.equal([(now[name]["attached"], now[name]["guest"]) for name in ("after", "before")],
              [(True, "after"), (True, "before")], "list after both are attached")
    ctx.check("before" in virt.run_agent("list").stdout, "the table lacks a domain")

    capture = ctx.dir / "x.braid"
    agent = start_recorder(virt, "-d", "after", "-d", "before", "-e", "storm", "-o", capture)
    offered = {guest.name: storm(guest, 3000) for guest in guests}
    refused = virt.run_agent("detach", "after", status=1).stderr
    ctx.check("being recorded" in refused, f"detach of a recorded domain says: {refused}")
    after.kill()
    agent.wait_line("after: the domain was destroyed by a user")
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
    said = virt.run_agent("detach", "before", "--timeout", "60").stdout
    ctx.check("from the running domain" in said, f"detach says: {said}")
    ctx.check(not before.region.exists(), f"detach did not remove its file, and says: {said}")
    ctx.check("1110" not in before.run("cat /sys/bus/pci/devices/*/device"), "the device is still in the guest")
    ctx.check("has no trace memory" in virt.run_agent("detach", "before").stdout, "a second detach does not fail")
    before.region.write_bytes(unread)  # as a QEMU leaves it that ends
    os.chown(before.region, owner.st_uid, owner.st_gid)
    before.region.chmod(0o660)
    why = virt.run_agent("attach", "before", status=1).stderr
    ctx.check("was not recovered: tracebraid recover 'before'" in why, f"attach to an unread trace says: {why}")
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
    ctx.check("<size unit='M'>8</size>" in plan.stdout and "tracebraid create --size 8M --owner" in plan.stderr,
              "--print-xml lacks a line")
    ctx.check("virsh attach-device after shmem.xml --live\n" in plan.stderr, f"--print-xml says: {plan.stderr}")
    plan = virt.run_agent("attach", "--print-xml", "--config", "-c", "qemu:///system", "after")
    ctx.check("virsh -c qemu:///system attach-device after shmem.xml --live --config\n" in plan.stderr,
              f"--print-xml --config says: {plan.stderr}")
    virt.domain("not yet")
    plan = virt.run_agent("attach", "--print-xml", "not yet")
    ctx.check("virsh attach-device 'not yet' shmem.xml --config\n" in plan.stderr and
              "which is shut off" in plan.stderr, f"--print-xml of a domain that is shut off says: {plan.stderr}")
    virt.virsh("undefine", "not yet")
    for arguments, why in ((("--size", "12M", "after"), "a power of two"), (("nobody",), "no domain 'nobody'"),
                           ((), "expected one DOMAIN")):
        ctx.check(why in virt.run_agent("attach", *arguments, status=1).stderr,
                  f"attach {arguments} does not say {why}")
    ctx.equal(os.listdir(virt.root / "shm"), [], "files after commands that change nothing")


def deny(ctx, virt, guest):
    """Checks attach where QEMU may not open the file, as under AppArmor, and list while libvirtd hangs."""
    virt.root.joinpath("shm").chmod(0o700)
    why = virt.run_agent("attach", guest.name, status=1).stderr
    ctx.check("attach --config after" in why and "apparmor.d/libvirt/libvirt-" in why,
              f"attach that is denied says: {why}")
    ctx.check(not guest.region.exists(), "an attach that was denied did not remove its file")
    said = virt.run_agent("attach", "--config", guest.name).stdout
    ctx.check("in its configuration" in said and "at its next start" in said and "Permission denied" in said,
              f"attach --config that is denied says: {said}")
    said = virt.run_agent("attach", "--config", guest.name).stdout
    ctx.check("already has trace memory in its configuration" in said and "at its next start" in said, f"once more, it says: {said}")
    ctx.equal([listed(virt)[guest.name][word] for word in ("attached", "configured")], [False, True],
              "attached and configured")
    ctx.check("was removed" in virt.run_agent("detach", guest.name).stdout, "detach did not remove the file")
    virt.root.joinpath("shm").chmod(0o1777)
    virt.signal_libvirtd("STOP")
    ctx.check("continuing without libvirt" in virt.run_agent("list").stderr,
              "list does not report that libvirt does not answer")
    virt.signal_libvirtd("CONT")


def stand_still(ctx, virt, before):
    """Checks that a guest that does not answer keeps its memory; once it has released it, only the file is left."""
    virt.virsh("suspend", "before")
    why = virt.run_agent("detach", "--timeout", "1", "before", status=1).stderr
    ctx.check("did not release the memory" in why, f"detach of a stopped guest says: {why}")
    virt.virsh("resume", "before")
    ctx.wait_until(lambda: not listed(virt)["before"]["attached"], "the guest to release the device")
    said = virt.run_agent("detach", "before").stdout
    ctx.check("was removed" in said and not before.region.exists(), f"detach of a file that was left says: {said}")


def leave_strangers(ctx, virt):
    """Checks that blank memory of another program is neither used as a region nor removed."""
    name, file = "stranger", virt.root / "shm/looking-glass"
    virt.domain(name, devices=STRANGER)
    virt.virsh("start", "--paused", name)
    ctx.equal(file.read_bytes()[:8], bytes(8), "the first bytes of the other program's memory")
    mode = file.stat().st_mode
    ctx.equal([listed(virt)[name][word] for word in ("attached", "configured")], [False, False],
              "status of another program's memory in list")
    said = virt.run_agent("detach", name).stdout
    ctx.check("has no trace memory" in said, f"detach of a domain with another program's memory says: {said}")
    said = virt.run_agent("attach", "--config", name).stdout
    ctx.check(f"attached, /dev/shm/tracebraid-{name}" in said, f"attach beside another program's memory says: {said}")
    virt.virsh("destroy", name)
    said = virt.run_agent("detach", name).stdout
    ctx.check("from its configuration" in said and "was removed" in said,
              f"detach beside another program's memory says: {said}")
    left = virt.virsh("dumpxml", "--inactive", name)
    ctx.check("looking-glass" in left and "shmem name='tracebraid" not in left,
              f"shared memory left after a detach: {left}")
    ctx.equal(file.stat().st_mode, mode, "mode of the other program's memory")


@case("libvirt-q35", usual=("6.12",), needs=NEEDS)
def libvirt_q35(ctx):
    """attach reports what a q35 without a free slot lacks, and --config adds bridge and memory at the next start."""
    virt = Virt(ctx)
    bare, bridged = virt.domain("bare", "q35"), virt.domain("bridged", "q35", BRIDGE)
    boot_all([bare, bridged])
    why = virt.run_agent("attach", "bare", status=1).stderr
    ctx.check("pcie-to-pci-bridge" in why and "attach --config bare" in why, f"a q35 without a slot says: {why}")
    ctx.check(not bare.region.exists(), "a failed attach did not remove its file")
    said = virt.run_agent("attach", "--config", "bare").stdout
    again = re.search(r"echo '(16M \d+:\d+ /dev/shm/.*)' >>/etc/tracebraid/memory$", said, re.MULTILINE)
    ctx.check("shut it down, then start it" in said and again, f"attach --config says: {said}")
    ctx.equal([listed(virt)["bare"][word] for word in ("attached", "configured")], [False, True],
              "attached and configured")
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
        ctx.check("from the running domain" in virt.run_agent("detach", name, "--timeout", "60").stdout,
                  f"detach did not remove the memory of {name}")
    ctx.equal([listed(virt)["bare"][word] for word in ("attached", "configured")], [False, False],
              "controllers left in bare")
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
    everything.wait_line("one: the domain was paused by a user")
    virt.virsh("resume", "one")
    everything.wait_line("one: the domain was resumed")
    one.reset()
    everything.wait_line("one: the domain reboots")
    load(one)
    waits_for_storm(ctx, one)
    second = storm(one, 1000)
    files = f"/proc/{everything.helper()}/fd"
    before = len(os.listdir(files))
    virt.restart_libvirtd()
    everything.wait_line("continuing, and retrying")
    everything.wait_line("libvirt is available again", timeout=60)
    ctx.equal(len(os.listdir(files)), before, "files that the watch holds after libvirtd was restarted")

    late.boot()
    everything.wait_line("late: the domain started")
    virt.run_agent("attach", "late")
    everything.wait_line("late: recorded from now on")
    load(late)
    waits_for_storm(ctx, late)
    third = storm(late, 1000)
    late.kill()
    everything.wait_line("late: the domain was destroyed by a user")
    virt.crash("one")
    everything.wait_line("one: the domain stopped: its QEMU failed")
    one.kill()
    one.boot()
    everything.wait_line("one: the domain started")
    load(one)
    waits_for_storm(ctx, one)
    fourth = storm(one, 1000)
    stop_recorder(ctx, everything)

    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    check_storm_parts(ctx, lines, {"one": [first, second, fourth], "late": [third]})
    check_accounts(ctx, capture)
    notes = [line["text"] for line in lines if line["type"] == "note"]
    for what in ("was paused by a user", "was resumed", "reboots", "was destroyed by a user", "its QEMU failed"):
        ctx.check(any(what in note for note in notes), f"the report does not say that a domain {what}: {notes}")
    come_late(ctx, virt, late)


def come_late(ctx, virt, late):
    """Checks a domain that starts after its recording began, and the death of the helper that watches libvirt."""
    capture = ctx.dir / "late.braid"
    waiting = start_recorder(virt, "-d", "late", "-e", "storm", "-o", capture)
    late.boot()
    waiting.wait_line("late: .*tracebraid attach late")
    virt.run_agent("attach", "late")
    waiting.wait_line("late: recorded from now on")
    load(late)
    waits_for_storm(ctx, late)
    waiting.kill_helper()
    waiting.wait_line("libvirt is no longer watched; continuing without")
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

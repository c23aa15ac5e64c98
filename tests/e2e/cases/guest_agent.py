# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of QEMU's guest agent, which enables the events of domains whose memory is only read."""

import re
import signal

import host
from harness import case
from kit import (NEEDS, TREE, check_accounts, check_order, check_storm, events_of, load,
                 start_recorder, stop_recorder, storm)
from rig import boot_all
from vhost import MODULES
from virt import Virt

CHANNEL = "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"
PORT = "/dev/vport*p1"
ECHO = r"guest agent \(guest-file-open, guest-file-write, guest-file-close\): echo (\d) >(\S+)$"


def make_domain(ctx, virt, name, devices=CHANNEL):
    """A domain with the agent, and what it needs, in its initramfs; not started."""
    if not (ctx.dir / "initrd.cpio").exists():
        modules = filter(None, map(ctx.kernel_module, (*MODULES, "drivers/char/virtio_console")))
        ctx.initrd(*modules, host.need_program("qemu-ga", "qemu-guest-agent"))
    return virt.domain(name, devices=devices)


def start_agent(ctx, virt, guest, *options):
    """Starts the guest's agent, and waits until libvirt has noticed it; returns the command in the background."""
    for path in filter(None, map(ctx.kernel_module, (*MODULES, "drivers/char/virtio_console"))):
        guest.run(f"grep -q '^{path.stem} ' /proc/modules || insmod /mod/{path.stem}.ko")
    guest.run(f"until [ -e {PORT} ]; do sleep 0.1; done", timeout=60)
    agent = guest.bg(f"mkdir -p /tmp/ga && exec qemu-ga -p {PORT} -t /tmp/ga {' '.join(options)}")
    ctx.wait_until(lambda: "state='connected'" in virt.virsh("dumpxml", guest.name), "libvirt to notice the agent")
    return agent


def enabled(guest):
    """The files of all events, and what they hold."""
    return guest.run(f"cd {TREE}/events && grep . */*/enable")


def commands(output):
    """What a recorder said that it has guest agents write: (value, file) in order."""
    return re.findall(ECHO, output, re.MULTILINE)


@case("guest-agent", usual=("6.12",), needs=NEEDS)
def guest_agent(ctx):
    """Guest agents enable what is recorded of domains that are only read, and disable that alone at the end."""
    virt = Virt(ctx)
    guests = early, late = make_domain(ctx, virt, "early"), make_domain(ctx, virt, "late")
    boot_all(guests)
    asked = start_agent(ctx, virt, early)
    load(early)
    early.run(f"echo 1 >{TREE}/events/sched/sched_waking/enable")
    before = enabled(early)

    capture = ctx.dir / "x.braid"
    arguments = "--guest-agent", "-d", "early", "-d", "late", "-e", "storm,sched:sched_waki*,sched:sched_switch", "-o", capture
    agent = start_recorder(virt, *arguments)
    files = sorted(f"{TREE}/events/{which}/enable" for which in ("storm", "sched/sched_switch"))
    ctx.equal(sorted(commands(agent.output())), [("1", file) for file in files], "commands for the guest with the driver")
    ctx.check("guest events storm, sched:sched_waki*, sched:sched_switch" in agent.output(), agent.output())
    load(late)  # the storm comes after the driver, and the agent last, as in a guest that boots
    agent.wait_line("late: its guest agent does not answer")
    start_agent(ctx, virt, late)
    agent.wait_line("late: the guest has now confirmed the event change, late")
    ctx.wait_until(lambda: late.run(f"cat {TREE}/events/storm/storm/enable").strip() == "1", "late's storm to be enabled")
    offered = {guest.name: storm(guest, 2000) for guest in guests}
    stop_recorder(ctx, agent)

    ctx.equal(enabled(early), before, "what is enabled in early after the recording")
    ctx.check("1" not in re.findall(":(.*)", enabled(late)), f"late has events on: {enabled(late)}")
    for guest in guests:
        done = commands("\n".join(line for line in agent.output().splitlines() if f" {guest.name}: " in line))
        on = {file for value, file in done if value == "1"}
        ctx.equal(sorted(file for value, file in done if value == "0"), sorted(on), f"what is undone in {guest.name}")
    lines = events_of(ctx, capture)
    check_order(ctx, lines)
    for name, events in offered.items():
        check_storm(ctx, lines, name, events)
    check_accounts(ctx, capture)
    check_ends(ctx, virt, early, asked, before)


def check_ends(ctx, virt, guest, asked, before):
    """Checks that events are disabled after a failure and after a killed recorder, and said if they cannot be."""
    arguments = "record", "--guest-agent", "-d", guest.name, "-e", "storm", "-o", ctx.dir / "y.braid"
    on = f"{TREE}/events/storm/enable"
    failed = virt.run_agent(*arguments, "--", "/no/such/command", status=1)
    ctx.equal(commands(failed.stderr), [("1", on), ("0", on)], "commands of a recording that fails")
    ctx.equal(enabled(guest), before, "what is enabled after a recording that failed")

    agent = start_recorder(virt, *arguments[1:])
    ctx.check(enabled(guest) != before, "nothing was enabled")
    agent.send_signal(signal.SIGKILL)
    ctx.wait_until(lambda: enabled(guest) == before, "the events of a killed recorder to be disabled")

    agent = start_recorder(virt, *arguments[1:])
    guest.run(f"kill -STOP {asked.pid}")
    stop_recorder(ctx, agent)
    ctx.check(f"{guest.name}: its guest agent does not answer" in agent.output() and
              f"in the guest: echo 0 | tee {on}\n" in agent.output(), agent.output())
    guest.run(f"kill -CONT {asked.pid}; echo 0 | tee {on}")


@case("guest-agent-refused", usual=("6.12",), needs=NEEDS)
def guest_agent_refused(ctx):
    """Without the option nothing is sent to a guest; a guest whose agent refuses is recorded, and a line says why."""
    virt = Virt(ctx)
    guests = bare, strict = make_domain(ctx, virt, "bare", devices=""), make_domain(ctx, virt, "strict")
    boot_all(guests)
    for guest in guests:
        load(guest)
    arguments = "record", "-d", "bare", "-d", "strict", "-e", "storm", "-t", "1", "-o", ctx.dir / "x.braid"

    def refuse(name, *words):
        said = virt.run_agent(*arguments, "--guest-agent", status=3, timeout=120).stderr
        lines = [line for line in said.splitlines() if f" {name}: its " in line]
        ctx.check(len(lines) == 1 and all(word in lines[0] for word in words), f"{words} are not in a line of: {said}")

    refuse("bare", "has no guest agent", "org.qemu.guest_agent.0", "recorded are the events that are enabled")
    refuse("strict", "does not answer", "is qemu-guest-agent running")
    agent = start_agent(ctx, virt, strict, "-b", "guest-file-open")
    refuse("strict", "refuses guest-file-open", "/etc/sysconfig/qemu-ga")
    agent.kill()
    start_agent(ctx, virt, strict, "-v", "-l", "/tmp/ga/log")
    strict.run("umount /sys/kernel/debug")
    refuse("strict", "finds no file of the driver", "debugfs")
    strict.run("mount -t debugfs none /sys/kernel/debug; : >/tmp/ga/log")
    said = virt.run_agent(*arguments).stderr
    ctx.check("no event can be enabled from here" in said and "guest agent" not in said, said)
    ctx.equal(strict.run("grep guest-file /tmp/ga/log || true"), "", "commands sent to the agent without the option")
    said = virt.run_agent("record", "--guest-agent", "--all", status=1).stderr
    ctx.check("--guest-agent: needs -d DOMAIN" in said, said)

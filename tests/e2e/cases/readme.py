# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the README's commands for a plain QEMU guest as they are printed there."""

import os
import re
import shlex

import host
import vhost
from harness import CaseFailed, case
from kit import check_accounts, events_of, record_once, start_recorder
from rig import WORKLOAD

README = host.ROOT / "README.md"


def part(text, anchor):
    """The block of code, or the table, below a comment <!-- test: ANCHOR --> of the README."""
    found = re.search(rf"<!-- test: {anchor} -->\n *(?:```\n(.*?)```|(\|.*?)\n\n)", text, re.DOTALL)
    if not found:
        raise CaseFailed(f"README.md has no code and no table below <!-- test: {anchor} -->")
    return found[1] or found[2]


def commands_of(block):
    """The commands of a block of code as shell words."""
    return [shlex.split(line) for line in block.replace("\\\n", " ").strip().splitlines()]


@case("readme-virtio", kernels=("6.12",), needs=("driver", "agent", "module:tracebraid_virtio"))
def readme_virtio(ctx):
    """The README's commands for virtio work as printed, with the id that driver and documents share."""
    vhost.need_generic(ctx)
    text = README.read_text(encoding="utf-8").replace("/run/web1.sock", str(ctx.dir / "web1.sock"))
    record_words, qemu_words = commands_of(part(text, "virtio"))
    load_words = shlex.split(re.search(r"`(modprobe tracebraid_virtio [^`]*)`", text).group(1))
    for where in (text, (host.ROOT / "docs/virtio-device.md").read_text(encoding="utf-8")):
        ctx.equal(set(re.findall(r"virtio-id=(\d+)", where)), {str(vhost.QEMU_ID)}, "QEMU's ids in the documents")
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, *record_words[2:-1], "-e", "sched", "-o", capture)
    modules = filter(None, map(ctx.kernel_module, vhost.MODULES))
    words = [word.replace("size=4G", "size=256M") for word in qemu_words[qemu_words.index("...") + 1:]]
    guest = ctx.guest("web1", shm=None, initrd=ctx.initrd(*modules), mem="256M", qemu_args=words)
    guest.boot()
    vhost.load_modules(ctx, guest)
    guest.insmod("tracebraid")
    guest.insmod(load_words[1], " ".join(load_words[2:]))
    vhost.wait_for_agent(ctx, guest, "sched/sched_switch")
    guest.run("ls /")
    # 3 if the guest has confirmed only a part of its events.
    ctx.check(agent.stop(timeout=60) in (0, 3), f"the recorder printed:\n{agent.output()}")
    check_accounts(ctx, capture)
    ctx.check(any(line.get("event") == "sched_switch" for line in events_of(ctx, capture)), "no sched_switch is recorded")


@case("readme", kernels=("6.12",), needs=("driver", "agent"))
def readme(ctx):
    """The README's commands work as printed: create, load, list, record, report and each export."""
    name = f"readme-{os.getpid()}"
    text = README.read_text(encoding="utf-8").replace("web1", name)
    create, qemu = commands_of(part(text, "plain-qemu"))
    create[create.index("--owner") + 1] = str(os.geteuid())
    ctx.defer(lambda: os.path.exists(f"/dev/shm/{name}") and os.unlink(f"/dev/shm/{name}"))
    ctx.run(ctx.agent_path, *create[1:])
    words = qemu[qemu.index("...") + 1:]
    guest = ctx.guest(name, shm=None, qemu_args=words if "-name" in words else ["-name", name, *words])
    guest.boot()
    listed = ctx.run_agent("list").stdout
    ctx.check(re.search(rf"^{name} +no driver .*\s+/dev/shm/{name}\n  no driver has used it yet", listed, re.MULTILINE),
              f"before the driver is loaded, list says:\n{listed}")
    guest.insmod("tracebraid")
    guest.bg(WORKLOAD)

    os.chdir(ctx.dir)
    for words in commands_of(part(text, "record")):
        step = words[: words.index("|")] if "|" in words else words
        if step[1] == "record":
            record_once(ctx, *shorter(step[2:]), timeout=120)
            continue
        if step[1] == "list":
            # A guest that got no CPU for a second is silent.
            ctx.wait_until(lambda step=step: re.search(rf"^{name} +live .*\s+/dev/shm/{name}$",
                                                       ctx.run_agent(*step[1:]).stdout, re.MULTILINE), "list to show the guest")
            continue
        done = ctx.run(ctx.agent_path, *shorter(step[1:]), timeout=120)
        if step[1] == "report":
            ctx.check(re.search(rf"^{name}: .*sched_switch: ", done.stdout, re.MULTILINE),
                      "the report has no sched_switch")
    spans = [shlex.split(code) for code in re.findall(r"`([^`]+)`", part(text, "exports"))]
    commands = [words for words in spans if words[0] == "tracebraid"]
    ctx.check(len(commands) >= 5, f"the README has the commands {commands}")
    for words in commands:
        ctx.run(ctx.agent_path, *words[1:], timeout=240)
        if "-o" in words:
            ctx.check(os.path.exists(words[words.index("-o") + 1]), f"{words} wrote no file")


def shorter(words):
    """The words of `record` with two seconds and without the host, which may not permit tracing."""
    words = ["--try-host" if word == "--host" else word for word in words]
    if "-t" in words:
        words[words.index("-t") + 1] = "2"
    return words

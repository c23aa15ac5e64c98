# SPDX-License-Identifier: GPL-2.0-or-later
"""The README's way from a plain QEMU guest to what a browser shows, word by word."""

import os
import re
import shlex

import host
from harness import case
from rig import WORKLOAD

README = host.ROOT / "README.md"


def code_of(text, name):
    """What is written as code in a text, with a name of this run instead of web1, and its sh words."""
    return [shlex.split(code.replace("web1", name)) for code in re.findall(r"`([^`]+)`", text)]


@case("readme", kernels=("6.12",), needs=("driver", "agent"))
def readme(ctx):
    """Memory, driver, list, record, report and each export, by the lines of the README."""
    text = README.read_text(encoding="utf-8")
    name = f"readme-{os.getpid()}"
    create, *options = code_of(re.search(r"^ *\| plain QEMU \|(.*)\|$", text, re.MULTILINE).group(1), name)
    create[create.index("--owner") + 1] = str(os.geteuid())
    ctx.defer(lambda: os.path.exists(f"/dev/shm/{name}") and os.unlink(f"/dev/shm/{name}"))
    ctx.run(ctx.agent_path, *create[1:])
    words = [word for option in options for word in option]
    guest = ctx.guest(name, shm=None, qemu_args=words if "-name" in words else ["-name", name, *words])
    guest.boot()
    listed = ctx.run_agent("list").stdout
    ctx.check(re.search(rf"^/dev/shm/{name} +{name} +no driver +no driver loaded in the guest yet", listed, re.MULTILINE),
              f"before the driver is loaded, list says:\n{listed}")
    guest.insmod("tracebraid")
    guest.bg(WORKLOAD)

    block = re.search(r"\*\*Record, on the host:\*\*\n\n *```\n(.*?)```", text, re.DOTALL).group(1)
    steps = [shlex.split(line.partition("|")[0].replace("web1", name)) for line in block.strip().splitlines()]
    os.chdir(ctx.dir)
    for step in steps:
        done = ctx.run(ctx.agent_path, *shorter(step[1:]), timeout=120)
        if step[1] == "list":
            ctx.check(re.search(rf"^/dev/shm/{name} +{name} +live ", done.stdout, re.MULTILINE), f"list says:\n{done.stdout}")
        elif step[1] == "report":
            ctx.check(re.search(rf"^{name}: .*sched_switch: ", done.stdout, re.MULTILINE), "the report has no sched_switch")
    exports = re.search(r"\*\*Open it in the tool you use:\*\*(.*?)!\[", text, re.DOTALL).group(1)
    commands = [words for words in code_of(exports, name) if words[0] == "tracebraid"]
    ctx.check(len(commands) >= 5, f"the README has the commands {commands}")
    for words in commands:
        ctx.run(ctx.agent_path, *words[1:], timeout=240)
        if "-o" in words:
            ctx.check(os.path.exists(words[words.index("-o") + 1]), f"{words} made nothing")


def shorter(words):
    """A recording of two seconds, on a machine whose host may not be ours to trace."""
    words = ["--try-host" if word == "--host" else word for word in words]
    if "-t" in words:
        words[words.index("-t") + 1] = "2"
    return words

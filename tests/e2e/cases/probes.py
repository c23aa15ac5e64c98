# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of probes that a host places in its guests, and of what guests allow a host."""

import re
import struct

import kit
import machines
from harness import case
from tracefs import INSTANCE, TRACING, check_equal

KERNELS = ("6.1", "6.12", "6.12-rt", "newest")
# Registers, memory of both kinds, nested reads, what cannot be read, the stack, names, and an
# address without one.
ARGUMENTS = ("dfd=$arg1:s32 name=+0($arg2):ustring same=+0({1}):string how=+0($arg3):x32 mode=+8({2}):u16 "
             "caller={3}:symbol nameless=\\4660:symbol comm=$comm bad=+0(\\8):string "
             "two=+u0(+0($stack)):x8 sp=$stack \\7:u8")
WORK = ("for i in 1 2 3 4 5 6; do sh -c 'echo -n busy > /proc/self/comm; cat /proc/$$/comm > /dev/null; "
        "echo x > /tmp/$0; : < /etc/passwd' $i; done")
LISTS = ("kprobe_events", "uprobe_events", "dynamic_events")


def add_probe(guest, definition, text=""):
    """Has the guest's tracefs trace a probe of its own, with a filter, in the instance."""
    kind = "uprobe" if ":0x" in definition.split()[1] else "kprobe"
    name = re.match(r"\w:(\S+)", definition)[1]
    guest.run(f"mkdir -p {INSTANCE} && echo 4096 > {INSTANCE}/buffer_size_kb")
    guest.run(f"cat >> {TRACING}/{kind}_events << 'EOF'\n{definition}\nEOF")
    guest.run(f"echo '{text or 0}' > {INSTANCE}/events/{name}/filter && echo 1 > {INSTANCE}/events/{name}/enable")


def lists_of(guest):
    """The dynamic events of the guest's user."""
    return guest.run("".join(f"cat {TRACING}/{name};" for name in LISTS))


def remove_probes(ctx, guest):
    """Removes the user's dynamic events, as is possible while the host's probes are in place."""
    guest.run(f"for i in {INSTANCE}/events/*probes/*/enable; do echo 0 > $i; done")
    guest.run("".join(f"echo > {TRACING}/{name};" for name in LISTS[:2]))
    ctx.equal(lists_of(guest), "", "dynamic events of the guest's user")


def placed(guest):
    """The probes that the guest's kernel has: lines of the list of kprobes."""
    return guest.run("cat /sys/kernel/debug/kprobes/list").splitlines()


@case("select-kprobe", kernels=KERNELS, usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_kprobe(ctx):
    """Probes of the kernel record, event by event, what the guest's tracefs records for the same definitions."""
    guest = kit.up(ctx, patches_code=True)
    arguments = ARGUMENTS.format(*guest.machine.registers, guest.machine.returns_to)
    probes = {"open": f"do_sys_openat2 {arguments}", "opened": "do_sys_openat2 ret=$retval:s64 $retval:x16"}
    for name, text in probes.items():
        add_probe(guest, f"{'r' if name == 'opened' else 'p'}:kprobes/{name} {text}", 'COMM == "busy"')
    capture, before = ctx.dir / "x.braid", lists_of(guest)
    guest.run(f"echo 0 > {INSTANCE}/tracing_on")
    own = placed(guest)
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "--kprobe", f"p:open {probes['open']}",
                               "-f", 'COMM == "busy" && dfd < 0', "--kprobe", f"r:opened {probes['opened']}",
                               "-f", 'COMM == "busy"', "-o", capture)
    ctx.equal(lists_of(guest), before, "dynamic events of the guest's user while the host's are in place")
    ctx.equal(len(placed(guest)), len(own) + 2, "probes in the kernel")
    guest.run(f"echo > {INSTANCE}/trace; echo 1 > {INSTANCE}/tracing_on; {WORK}; echo 0 > {INSTANCE}/tracing_on", timeout=120)
    # As `report` prints it: without sizes of functions; what cannot be read is a string as others.
    # Of two probes of one function, the first to be placed cannot see where it returns to.
    guest.run(f"sed 's,/0x[0-9a-f]*,,g; s,=(fault),=\"(fault)\",g; s,(.* <- ,(RETURN <- ,' {INSTANCE}/trace > /tmp/traced")
    remove_probes(ctx, guest)
    ctx.equal(len(placed(guest)), 2, "probes in the kernel after the user has removed the own ones")
    kit.stop_recorder(ctx, agent)
    ctx.equal(placed(guest), [], "probes in the kernel after the recording")
    lines = kit.events_of(ctx, capture)
    for line in lines:
        if line.get("event") == "opened":
            place, line["text"] = line["text"].split(" <- ", 1)
            ctx.check("sys_open" in place or "trampoline" in place, f"returns to {place}")
            line["text"] = f"(RETURN <- {line['text']}"
    ours = check_equal(ctx, guest, lines, ["kprobes:open", "kprobes:opened"], "/tmp/traced")
    for name in probes:
        print(" ", name, next(iter(ours[key] for key in ours if key[1] == name))[:2])
    kit.check_accounts(ctx, capture)


# The same as the guest's tracefs has it; 6.1's tracefs knows no names.
NAMED = {"open": "do_sys_openat2 $arg* name=filename:string flags=how->flags fmode=how->mode:x32",
         "path": "vfs_open path name=path->dentry->d_name.name:string mode=path->dentry->d_inode->i_mode",
         "opened": "do_sys_openat2 ret=$retval"}
BY_HAND = {"open": "do_sys_openat2 dfd=$arg1:s32 filename=$arg2:x64 how=$arg3:x64 name=+0($arg2):string "
                   "flags=+0($arg3):u64 fmode=+8($arg3):x32",
           "path": "vfs_open path=$arg1:x64 name=+0(+40(+8($arg1))):string mode=+0(+48(+8($arg1))):u16",
           "opened": "do_sys_openat2 ret=$retval:s64"}


@case("select-kprobe-names", kernels=KERNELS, usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_kprobe_names(ctx):
    """Arguments by their names, with types and members by BTF, are what the guest's tracefs makes of the same names."""
    guest = kit.up(ctx, patches_code=True)
    for name, text in (BY_HAND if ctx.kernel == "6.1" else NAMED).items():
        add_probe(guest, f"{'r' if name == 'opened' else 'p'}:kprobes/{name} {text}", 'COMM == "busy"')
    capture = ctx.dir / "x.braid"
    guest.run(f"echo 0 > {INSTANCE}/tracing_on")
    probes = [word for name, text in NAMED.items()
              for word in ("--kprobe", f"{'r' if name == 'opened' else 'p'}:{name} {text}", "-f", 'COMM == "busy"')]
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", *probes, "-o", capture)
    guest.run(f"echo > {INSTANCE}/trace; echo 1 > {INSTANCE}/tracing_on; {WORK}; echo 0 > {INSTANCE}/tracing_on", timeout=120)
    guest.run(f"sed 's,/0x[0-9a-f]*,,g; s,=(fault),=\"(fault)\",g; s,(.* <- ,(RETURN <- ,' {INSTANCE}/trace > /tmp/traced")
    kit.stop_recorder(ctx, agent)
    lines = kit.events_of(ctx, capture)
    for line in lines:
        if line.get("event") == "opened":
            line["text"] = re.sub(r"\(.* <- ", "(RETURN <- ", line["text"])
    ours = check_equal(ctx, guest, lines, [f"kprobes:{name}" for name in NAMED], "/tmp/traced")
    for name in NAMED:
        print(" ", name, next(iter(ours[key] for key in ours if key[1] == name))[:1])
    kit.check_accounts(ctx, capture)


def place_of(path, name):
    """The offset of a function in an ELF file, found by other means than the driver's."""
    data = path.read_bytes()
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phnum, shnum = struct.unpack_from("<H2xH", data, 56)
    sections = [struct.unpack_from("<IIQQQQII", data, shoff + 64 * k) for k in range(shnum)]
    for _, kind, _, _, at, size, link, _ in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        for k in range(at, at + size, 24):
            text, _, _, _, value = struct.unpack_from("<IBBHQ", data, k)
            if not data[sections[link][4] + text:].startswith(name.encode() + b"\0"):
                continue
            for i in range(phnum):
                kind, flags, offset, address, _, bytes_ = struct.unpack_from("<IIQQQQ", data, phoff + 56 * i)
                if kind == 1 and flags & 1 and address <= value < address + bytes_:
                    return value - address + offset
    raise ValueError(f"{path} has no {name}")


@case("select-uprobe", kernels=KERNELS, usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_uprobe(ctx):
    """Probes of a program, by a symbol or an offset, record what the guest's tracefs records at the same places."""
    program = ctx.guest_program("probed", "-no-pie")
    ctx.initrd(program)
    guest = kit.up(ctx, patches_code=True)
    first, second, _ = guest.machine.registers
    path, place = guest.run("realpath $(command -v probed)").strip(), place_of(program, "probed")
    values = {"call": f"number={first}:s32 text=+0({second}):string byte=+5({second}):u8 bad=+0(\\8):string $comm",
              "back": "ret=$retval:s32"}
    for name, text in values.items():
        add_probe(guest, f"{'r' if name == 'back' else 'p'}:uprobes/{name} {path}:{place:#x} {text}")
    before, capture = lists_of(guest), ctx.dir / "x.braid"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "--uprobe", f"p:call {path}:probed {values['call']}",
                               "--uprobe", f"r:back {path}:{place:#x} {values['back']}", "-f", "ret & 1",
                               "-o", capture)
    ctx.equal(lists_of(guest), before, "dynamic events of the guest's user while the host's are in place")
    guest.run(f"for i in {INSTANCE}/events/uprobes/back/filter; do echo 'ret & 1' > $i; done")
    # On one CPU: handlers of a place can be preempted, and the task can move from one to the next.
    guest.run("for i in 1 2 3; do taskset 1 probed 50; done", timeout=120)
    guest.run(f"sed 's,=(fault),=\"(fault)\",g' {INSTANCE}/trace > /tmp/traced")
    remove_probes(ctx, guest)
    guest.run("taskset 1 probed 5; taskset 1 probed 5")
    kit.stop_recorder(ctx, agent)
    guest.run("probed 5")
    lines = kit.events_of(ctx, capture)
    ours = [line for line in lines if line.get("event") in values]
    late = [line for line in ours if line["event"] == "call"][150:]
    ctx.equal([line["fields"]["number"] for line in late], [-1, 0, 1, 2, 3] * 2, "calls after the user has removed the own probes")
    ctx.equal({line["fields"]["ret"] & 1 for line in ours if line["event"] == "back"}, {1}, "returned values that pass the filter")
    check_equal(ctx, guest, [line for line in lines if line.get("ns", 0) < late[0]["ns"]], ["uprobes:call", "uprobes:back"], "/tmp/traced")
    print(" ", ours[0]["text"], "|", ours[2]["text"])
    kit.check_accounts(ctx, capture)


@case("select-probe-refused", usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_probe_refused(ctx):
    """What cannot be probed is refused with the reason, and the rest is recorded; nothing is left when the agent dies."""
    guest = kit.up(ctx, patches_code=True)
    capture = ctx.dir / "x.braid"
    refused = {
        "p:absent no_such_function": "no_such_function: the guest's kernel has no such function",
        "p:black notify_die": "notify_die: the guest's kernel does not allow a probe there",
        "p:reg vfs_open %none": "%none: no such register",
        "p:middle vfs_open+1": "not the start of an instruction",
        "p:typo vfs_open flie": "vfs_open: flie: no such argument; did you mean file?",
        "p:member vfs_open file->f_inod": "vfs_open: f_inod: no such member; did you mean f_inode?",
        "p:stacked ip_make_skb flags": "ip_make_skb: flags: an argument that is not in a register",
        "r:void d_instantiate $retval": "d_instantiate: $retval: the function returns nothing",
    }
    refused_user = {
        "p:none /no/such/file:0x10": "/no/such/file: no such file in the guest",
        "p:folder /tmp:0x10": "/tmp: not a regular file",
        "p:symbol /bin/busybox:no_such": "no_such",
        "p:end /bin/busybox:0x7fffffff": "/bin/busybox: 0x7fffffff is beyond its end",
    }
    options = [word for text in refused for word in ("--kprobe", text)]
    options += [word for text in refused_user for word in ("--uprobe", text)]
    options += ["--kprobe", f"p:good vfs_open path=+0(+0({guest.machine.registers[0]})):x64"]
    agent = ctx.agent("record", "-r", guest.shm, *options, "-e", "storm", "-o", capture)
    agent.wait_line(r"^Recording", timeout=60)
    # A refused probe can be in the list for a moment, disabled.
    ctx.wait_until(lambda: any("DISABLED" not in line for line in placed(guest)), "the probe that is possible", timeout=120)
    offered = kit.storm(guest, "100 4")
    kit.stop_recorder(ctx, agent, status=3)
    for text, line in {**refused, **refused_user}.items():
        name = re.match(r"\w:(\w+)", text)[1]
        refusal = rf"^tracebraid: {guest.name}: [ku]probes:{name} is not recorded: .*{re.escape(line)}"
        ctx.check(re.search(refusal, agent.output(), re.MULTILINE), f"no {refusal!r} in:\n{agent.output()}")
    lines = kit.events_of(ctx, capture)
    kit.check_storm(ctx, lines, guest.name, offered)
    ctx.check(any(line.get("event") == "good" for line in lines), "the probe that is possible was not hit")

    # An agent that dies: the guest removes its probes; so does the next agent, earlier.
    for again in False, True:
        agent = kit.start_recorder(ctx, "-r", guest.shm, "--kprobe", "p:good vfs_open", "-o", capture)
        ctx.equal(len(placed(guest)), 1, "probes in the kernel")
        agent.kill()
        if again:
            agent = kit.start_recorder(ctx, "-r", guest.shm, "--kprobe", "r:good vfs_open", "-o", capture)
            ctx.check(all(" r " in line for line in placed(guest)), f"probes of the second recorder: {placed(guest)}")
            kit.stop_recorder(ctx, agent)
        ctx.wait_until(lambda: not placed(guest), "the guest to remove the probes of a dead agent", timeout=60)


@case("select-many-probes", kernels=KERNELS, usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_many_probes(ctx):
    """Many probes are removed with few waits: the guest confirms the end of the recording, and none is left."""
    program = ctx.guest_program("probed", "-no-pie")
    ctx.initrd(program)
    guest = kit.up(ctx, patches_code=True)
    functions = guest.run("sed -n 's/.* T \\(vfs_[a-z_]*\\)$/\\1/p' /proc/kallsyms | grep -v init | sort -u | head -n 40").split()
    ctx.equal(len(functions), 40, "functions to probe")
    path = guest.run("realpath $(command -v probed)").strip()
    probes = [word for name in functions for kind in "pr" for word in ("--kprobe", f"{kind}:{kind}_{name} {name}")]
    probes += [word for k in range(20) for word in ("--uprobe", f"p:call{k} {path}:probed")]
    capture = ctx.dir / "x.braid"
    agent = kit.start_recorder(ctx, "-r", guest.shm, *probes, "-o", capture)
    ctx.equal(len(placed(guest)), 80, "probes in the kernel")
    guest.run("probed 3", timeout=120)
    kit.stop_recorder(ctx, agent)
    ctx.check(kit.ended_confirmed(agent), agent.output())
    ctx.equal(placed(guest), [], "probes in the kernel after the recording")
    hits = [line["event"] for line in kit.events_of(ctx, capture) if line["type"] == "event"]
    ctx.equal({name: hits.count(name) for name in (f"call{k}" for k in range(20))}, {f"call{k}": 3 for k in range(20)}, "calls")
    ctx.equal({name[:6] for name in hits} >= {"p_vfs_", "r_vfs_"}, True, f"probes of the kernel among {sorted(set(hits))}")
    kit.check_accounts(ctx, capture)


def offer_late(ctx, guest):
    """Has the storm module offer events until they are enabled; returns how many were then offered."""
    ctx.wait_until(lambda: kit.storm(guest, "100 4"), "the late events to be enabled", timeout=120)
    return kit.storm(guest, "100 4")


@case("select-late", kernels=KERNELS, usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_late(ctx):
    """A probe of a module that is loaded later has its first hit, as in tracefs; late events have filters and stacks."""
    # Called by the module's first function, for each of its first devices. tracefs has no $argN of
    # a function that is not loaded.
    first = machines.of(ctx.kernel).registers[0]
    probes = {"late": f"loop:loop_add i={first}:s32", "added": "loop:loop_add ret=$retval:s32"}
    loop = ctx.kernel_module("drivers/block/loop")
    ctx.check(loop, "the kernel has no module loop")
    ctx.initrd(loop)
    guest = kit.up(ctx, patches_code=True)
    guest.run("rmmod storm")
    for name, text in probes.items():
        add_probe(guest, f"{'r' if name == 'added' else 'p'}:kprobes/{name} {text}")
    capture, own = ctx.dir / "x.braid", placed(guest)
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "--kprobe", f"p:late {probes['late']}",
                               "--kprobe", f"r:added {probes['added']}", "--kprobe", "p:never no_module:function",
                               "-e", "s[tw]*", "-f", "CPU < 99", "-T", "-o", capture)
    for name, module in ("late", "loop"), ("added", "loop"), ("never", "no_module"):
        ctx.check(f"kprobes:{name}: pending until the module {module} is loaded" in agent.output(), agent.output())
    ctx.equal(placed(guest), own, "probes in the kernel before the module is loaded")
    for _ in range(2):
        guest.insmod("loop")
        ctx.equal(len(placed(guest)), len(own) + 4, "probes in the kernel while the module is loaded")
        # tracefs looks names up when it prints them.
        guest.run(f"sed 's,/0x[0-9a-f]*,,g; s, \\[loop\\],,g; s,(.* <- ,(RETURN <- ,' {INSTANCE}/trace >> /tmp/traced; echo > {INSTANCE}/trace; rmmod loop")
    guest.insmod("storm")
    offered = offer_late(ctx, guest)
    kit.stop_recorder(ctx, agent)
    ctx.check("probe kprobes:never was never placed" in agent.output(), agent.output())
    ctx.check("probe kprobes:late was never" not in agent.output(), agent.output())
    lines = kit.events_of(ctx, capture)
    for line in lines:
        if line.get("event") == "added":
            line["text"] = re.sub(r"\(.* <- ", "(RETURN <- ", line["text"])
    ours = check_equal(ctx, guest, [line for line in lines if line.get("event") in probes],
                       [f"kprobes:{name}" for name in probes], "/tmp/traced")
    print(" ", {key: texts[:1] for key, texts in ours.items()})
    # Each of the late events, the first ones too.
    kit.check_storm(ctx, lines, guest.name, offered)
    stacks = sum(line.get("event") == "stack" for line in lines)
    ctx.check(stacks >= offered, f"{stacks} stacks of {offered} late events")
    ctx.check(f"filter of storm:storm: {offered} offered" in agent.output(), f"{offered} late events:\n{agent.output()}")
    kit.check_accounts(ctx, capture)


@case("select-reloaded", kernels=KERNELS, usual=("6.12",), needs=kit.NEEDS)
def select_reloaded(ctx):
    """While a module is loaded again and again, none of its events passes a filter that none passes."""
    guest = kit.up(ctx, patches_code=True)
    once = f"rmmod storm; insmod /mod/storm.ko; echo 20 1 > {kit.STORM}/run"
    capture = ctx.dir / "x.braid"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-e", "storm", "-f", "context > 9", "-o", capture)
    guest.run(f"for i in $(seq 25); do {once}; done", timeout=240)
    offered = offer_late(ctx, guest)
    kit.stop_recorder(ctx, agent)
    account = f"filter of storm:storm: {offered} offered = {offered} filtered + 0 written"
    ctx.check(account in agent.output(), f"no {account!r} in:\n{agent.output()}")
    passed = [line for line in kit.events_of(ctx, capture) if line.get("event") == "storm"]
    ctx.equal(passed[:3], [], "events that pass")
    kit.check_accounts(ctx, capture)


@case("select-kprobe-missed", kernels=KERNELS, usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_kprobe_missed(ctx):
    """Hits that the kernel does not deliver, because it handles another probe, are as many as tracefs counts at the same place."""
    guest = kit.up(ctx, patches_code=True)
    add_probe(guest, "p:kprobes/inside copy_from_kernel_nofault")
    capture = ctx.dir / "x.braid"
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-B", "trace", "--kprobe", "p:inside copy_from_kernel_nofault",
                               "--kprobe", "p:open vfs_open path=+0($arg1):x64", "-o", capture)
    guest.run(f"{WORK}; true", timeout=120)
    kit.stop_recorder(ctx, agent)
    missed = int(guest.run(f"cat {TRACING}/kprobe_profile").split()[2])
    ctx.check(missed > 6, f"tracefs counts {missed} missed hits")
    ctx.check(f"probe kprobes:inside: {missed} hits missed" in agent.output(), f"not {missed} missed hits in:\n{agent.output()}")
    ctx.check("probe kprobes:open:" not in agent.output(), agent.output())
    probes = {row["event"]: row["missed"] for row in kit.check_accounts(ctx, capture)["probes"]}
    ctx.equal(probes, {"inside": missed, "open": 0}, "missed hits as data")


@case("select-allow", usual=("6.12",), needs=kit.NEEDS, arm64=True)
def select_allow(ctx):
    """A guest allows what its driver's parameter names; all else is refused with the reason, and has no effect."""
    guest = kit.up(ctx, parameters="allow=storm,sched:*_sw?tch,+uprobe", patches_code=True)
    capture = ctx.dir / "x.braid"
    options = ("-e", "storm", "-f", "number & 1", "-e", "sched", "-e", "irq", "--kprobe", "p:open vfs_open",
               "--uprobe", "p:main /bin/busybox:0x1000")
    agent = kit.start_recorder(ctx, "-r", guest.shm, *options, "-o", capture)
    offered = kit.storm(guest, "100 4")
    ctx.equal(placed(guest), [], "probes in the kernel")
    kit.stop_recorder(ctx, agent, status=3)
    for line in (r"kprobes:open is not recorded: not allowed by the guest \(\+kprobe is not in its driver's allow=\)",
                 r"storm:storm is recorded unfiltered: not allowed by the guest \(\+filter is not in its driver's allow=\)",
                 r"sched: \d\d events are not allowed by the guest \(allow= of its driver\)",
                 r"the guest does not enable irq: \d events are not allowed by the guest"):
        ctx.check(re.search(rf"^tracebraid: {guest.name}: {line}", agent.output(), re.MULTILINE), f"no line {line!r} in:\n{agent.output()}")
    ctx.check("uprobes:main is" not in agent.output(), f"a refusal of what is allowed:\n{agent.output()}")
    lines = kit.events_of(ctx, capture)
    kit.check_storm(ctx, lines, guest.name, offered)
    ctx.equal({line["event"] for line in lines if line["type"] == "event"} - {"cpu_online", "main"}, {"storm", "sched_switch"}, "events")
    guest.run("rmmod storm tracebraid")
    kit.load(guest, "allow=none")
    done = ctx.run_agent("record", "-r", guest.shm, "-e", "storm", "-o", capture, "-t", "0.5", status=3)
    ctx.check("the guest does not enable storm: 1 event is not allowed by the guest" in done.stderr, done.stderr)
    ctx.check("refused some of what was asked" in done.stderr, done.stderr)
    # What the guest's user enables is not the host's wish.
    guest.run(f"echo 1 > {kit.TREE}/events/storm/storm/enable")
    agent = kit.start_recorder(ctx, "-r", guest.shm, "-e", "irq", "-o", capture)
    offered = kit.storm(guest, "100 4")
    kit.stop_recorder(ctx, agent, status=3)
    kit.check_storm(ctx, kit.events_of(ctx, capture), guest.name, offered)

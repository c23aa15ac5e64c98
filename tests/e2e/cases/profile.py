# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of samples of what vCPUs execute."""

import json

from harness import case
from kit import STORM, check_accounts, events_of, lost_by_guests, start_recorder, stop_recorder

NEEDS = ("driver", "agent")
HZ = 200


@case("profile-sample", kernels=("6.1", "6.12", "6.12-rt", "newest"), usual=("6.12",), needs=NEEDS, arm64=True)
def profile_sample(ctx):
    """Each CPU is sampled as often as asked, also one that comes later; samples and missed periods add up to the time."""
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid", f"sample_hz={HZ}")
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sample", "-e", "sched:sched_switch", "--try-host", "-o", capture)
    guest.run("echo 0 > /sys/devices/system/cpu/cpu1/online; sleep 0.1; echo 1 > /sys/devices/system/cpu/cpu1/online")
    # System calls that take their time in the kernel, and a loop in user space.
    guest.run("dd if=/dev/zero of=/dev/null bs=4M count=200 2> /dev/null; k=0; while [ $k -lt 20000 ]; do k=$((k + 1)); done")
    stop_recorder(ctx, agent)
    ctx.equal(lost_by_guests(check_accounts(ctx, capture)), 0, "lost events")
    samples = [line for line in events_of(ctx, capture) if line["type"] == "event" and line["event"] == "cpu"]
    for cpu in (0, 1):
        own = [line for line in samples if line["cpu"] == cpu]
        ctx.check(len(own) > 10, f"{len(own)} samples of CPU {cpu}")
    # CPU 0 was never off. Its first sample has no predecessor, and a timer expires late, but on average as often.
    own = [line for line in samples if line["cpu"] == 0]
    periods = sum(1 + line["fields"]["missed"] for line in own[1:])
    elapsed = (own[-1]["ns"] - own[0]["ns"]) / 1e9 * HZ
    ctx.check(abs(periods - elapsed) <= 2 + 0.02 * elapsed, f"{periods} periods in a time of {elapsed:.1f}")
    users = {line["fields"]["user"] for line in samples}
    ctx.equal(users, {0, 1}, "samples of user and kernel")
    print(f"  {len(samples)} samples, {sum(line['fields']['missed'] for line in samples)} missed; "
          f"{[line['text'] for line in samples if not line['fields']['user']][:2]}")
    check_profile(ctx, capture)


def check_profile(ctx, capture):
    """Checks that a profile's parts add up to the vCPUs' time, in each of its forms."""
    observed = json.loads(ctx.run_agent("analyze", "states", "--json", capture).stdout)["observed_ns"]
    rows = json.loads(ctx.run_agent("analyze", "profile", "--json", capture).stdout)["profile"]
    ctx.equal(sum(row["total_ns"] for row in rows), observed, "sum of the rows")
    lines = [line.rsplit(" ", 1) for line in ctx.run_agent("analyze", "profile", "--folded", capture).stdout.splitlines()]
    ctx.equal(sum(int(ns) for _, ns in lines), observed, "sum of the stacks")
    ctx.equal(len({stack for stack, _ in lines}), len(lines), "lines, each of another stack")
    frames = {frame for stack, _ in lines for frame in stack.split(";")}
    ctx.check({"user space", "[stolen]"} & frames, f"frames: {sorted(frames)[:50]}")


SHARES = {"spends_half": 0.5, "spends_third": 0.3, "spends_fifth": 0.2}  # of shares.c
TURNS = 25  # of the same work
TOLERANCE = 0.02
STATES = ("[stolen]", "[sleeping]", "[hypervisor]", "[VMM]", "[halted]", "[unknown]", "[stopped]", "[throttled]", "[offline]")


def shares_of(ctx, capture, task, *options):
    """The stacks of a task while it was executed, and their shares of that time."""
    text = ctx.run_agent("analyze", "profile", "--folded", *options, capture).stdout
    lines = [line.rsplit(" ", 1) for line in text.splitlines()]
    own = [(stack.split(";")[3:], int(ns)) for stack, ns in lines if (stack + ";;").split(";")[2].startswith(f"{task}[")]
    own = [(stack, ns) for stack, ns in own if stack[0] not in STATES]
    total = sum(ns for _, ns in own)
    ctx.check(total, f"no time of {task}: {text}")
    print(f"  {task}: executed for {total / 1e9:.2f} s")
    return [(stack, ns / total) for stack, ns in own]


def share_of(stacks, function, callers=()):
    """The share of a function, if it is called by these."""
    callers = list(callers)
    return sum(part for stack, part in stacks
               if function in stack
               and stack[:stack.index(function)][-len(callers) or len(stack):] == callers)


def of_work(stacks, functions):
    """The stacks of these functions, and their shares of the time of all of them: without the task's begin and end."""
    own = [(stack, part) for stack, part in stacks if set(functions) & set(stack)]
    whole = sum(part for _, part in own)
    print(f"  {whole:.2%} of the time in {', '.join(functions)}")
    return [(stack, part / whole) for stack, part in own]


def record_work(ctx, files, work, *options, module=None, ask=None):
    """A capture of a guest, sampled, while it works; with `ask`, also what that command prints then."""
    ctx.initrd(*files)
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    if module:
        guest.insmod(module)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "sched:sched_switch", f"--sample={HZ}", *options, "--try-host", "-o", capture)
    guest.run(work, timeout=300)
    said = guest.run(ask) if ask else None
    stop_recorder(ctx, agent)
    ctx.equal(lost_by_guests(check_accounts(ctx, capture)), 0, "lost events")
    check_profile(ctx, capture)
    return (capture, said) if ask else capture


@case("profile-user", kernels=("6.1", "6.12", "6.12-rt", "newest"), usual=("6.12",), needs=NEEDS, arm64=True)
def profile_user(ctx):
    """A program spends known shares of its time in known functions: the profile has these shares, below their callers."""
    program = ctx.guest_program("shares", "-fno-omit-frame-pointer")
    capture = record_work(ctx, [program], f"shares {TURNS}", "--user-stacks")
    stacks = of_work(shares_of(ctx, capture, "shares", f"--symbols={program.parent}"), SHARES)
    for function, share in SHARES.items():
        callers = ["main", "turn"] + ["calls_two"] * (function != "spends_fifth")
        found, below = share_of(stacks, function), share_of(stacks, function, callers)
        print(f"  {function}: {found:.2%}, {below:.2%} below {callers[-1]}")
        ctx.check(abs(found - share) <= TOLERANCE, f"{function}: {found:.4f} instead of {share}")
        ctx.check(below >= found - TOLERANCE, f"{function}: {below:.4f} of {found:.4f} below {callers}")
    # Without its symbols, the same time is at addresses of the file.
    plain = shares_of(ctx, capture, "shares")
    at = sum(part for stack, part in plain if any(frame.startswith("[/bin/shares+0x") for frame in stack))
    ctx.check(at > 0.9, f"{at:.4f} of the time at addresses of the program")
    scope = ctx.dir / "x.speedscope.json"
    ctx.run_agent("analyze", "profile", "--folded", "--speedscope", "-o", scope, capture)
    profile = json.loads(scope.read_text())["profiles"][0]
    observed = json.loads(ctx.run_agent("analyze", "states", "--json", capture).stdout)["observed_ns"]
    ctx.equal((sum(profile["weights"]), profile["endValue"]), (observed, observed), "sum of speedscope's weights")
    ctx.equal(len(profile["samples"]), len(profile["weights"]), "speedscope's stacks")


@case("profile-frameless", kernels=("6.1", "6.12", "6.12-rt", "newest"), usual=("6.12",), needs=NEEDS, arm64=True)
def profile_frameless(ctx):
    """Without frame pointers the functions have the same shares, and stacks say where they end."""
    program = ctx.guest_program("frameless", "-fomit-frame-pointer",
                                "-D__builtin_frame_address(level)=0", source="shares")
    capture = record_work(ctx, [program], f"frameless {TURNS}", "--user-stacks")
    stacks = of_work(shares_of(ctx, capture, "frameless", f"--symbols={program.parent}"), SHARES)
    for function, share in SHARES.items():
        found = share_of(stacks, function)
        print(f"  {function}: {found:.2%}")
        ctx.check(abs(found - share) <= TOLERANCE, f"{function}: {found:.4f} instead of {share}")
    whole = share_of(stacks, "spends_half", ["main", "turn", "calls_two"])
    ctx.check(whole <= TOLERANCE, f"{whole:.4f} of the time has callers")


@case("profile-absent", kernels=("6.1", "6.12", "6.12-rt", "newest"), usual=("6.12",), needs=NEEDS, arm64=True)
def profile_absent(ctx):
    """A stack ends at a page that is absent, which is not faulted in, and has its function and its caller all the same."""
    program = ctx.guest_program("absent", "-fno-omit-frame-pointer")
    capture = record_work(ctx, [program], f"absent {TURNS}", "--user-stacks")
    stacks = of_work(shares_of(ctx, capture, "absent", f"--symbols={program.parent}"), ("spends_present", "spends_absent"))
    for function, share, callers in (("spends_present", 0.3, ["work", "calls_both"]),
                                     ("spends_absent", 0.7, ["[ends here]", "calls_both"])):
        found, below = share_of(stacks, function), share_of(stacks, function, callers)
        print(f"  {function}: {found:.2%}, {below:.2%} below {callers}")
        ctx.check(abs(found - share) <= TOLERANCE, f"{function}: {found:.4f} instead of {share}")
        ctx.check(below >= found - TOLERANCE, f"{function}: {below:.4f} of {found:.4f} below {callers}")


@case("profile-off", kernels=("6.1", "6.12", "6.12-rt", "newest"), usual=("6.12",), needs=(*NEEDS, "module:storm"), arm64=True)
def profile_off(ctx):
    """A kernel thread spends a known share of its time with interrupts off: late samples are charged for it, by name."""
    capture, said = record_work(ctx, [], f"echo {2 * TURNS} > {STORM}/off", module="storm",
                                ask=f"cat {STORM}/off")
    share = int(said.split()[0]) / int(said.split()[1])
    stacks = of_work(shares_of(ctx, capture, "sh"), ("spends_off", "spends_on"))
    off = share_of(stacks, "spends_off")
    named = sum(part for stack, part in stacks if "spends_off" in stack and stack[-1] == "[interrupts off]")
    print(f"  spends_off: {off:.2%} of {share:.2%}, {named:.2%} by late samples")
    # More: an emulated guest's timers are late elsewhere, too, and fire here.
    ctx.check(off >= share - TOLERANCE, f"spends_off: {off:.4f} instead of {share:.4f}")
    # Fewer on a busy machine, where a sample may just precede that part.
    ctx.check(named > share / 2, f"by late samples: {named:.4f} of {share:.4f}")

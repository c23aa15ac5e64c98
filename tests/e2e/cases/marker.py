# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of events that a guest's programs write to /dev/tracebraid."""

import json

import host
from harness import case
from kit import PRIME, TREE, check_accounts, events_of, lost_by_guests, start_recorder, stop_recorder

NEEDS = ("driver", "agent")
DEVICE = "/dev/tracebraid"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
NR, NR_THREADS = 5000, 3


def boot(ctx):
    """A booted guest with the driver and the program `markers`."""
    program = ctx.guest_program("markers", f"-I{host.ROOT}/include")
    script = host.ROOT / "guest_driver/tracebraid-marker"
    ctx.initrd(program, script)
    guest = ctx.guest()
    guest.boot()
    guest.insmod("tracebraid")
    return guest


def declare(guest, declaration, *sizes):
    """What the program prints when it declares an event, and writes records of these sizes."""
    return guest.run(f"markers declare '{declaration}' {' '.join(map(str, sizes))}").split("\n")[:-1]


def check_requests(ctx, lines):
    """Checks the events of the program's storm: each once, with the values that it wrote."""
    found = {}
    for line in lines:
        if line["type"] == "event" and line["event"] == "request":
            fields = line["fields"]
            found[fields["thread"], fields["status"]] = (fields, line["text"])
    ctx.equal(len(found), NR * NR_THREADS, "events of the program")
    for thread in range(NR_THREADS):
        for k in range(NR):
            fields, text = found[thread, -k]
            number = k * PRIME % 2**64
            trace_id = number.to_bytes(8, "little") + k.to_bytes(8, "little")
            path = f"/{k % 10000}/{thread}"
            ctx.equal((fields["number"], fields["trace_id"], fields["path"]), (number, list(trace_id), path), f"fields of event {k}")
            ctx.check(f"number={number} status={-k} trace_id={trace_id.hex()} thread={thread} path={path}" in text, f"text: {text}")


@case("marker", kernels=("6.1", "6.12"), usual=("6.12",), needs=NEEDS, arm64=True)
def marker(ctx):
    """A guest's programs write texts, texts with a trace id and typed events: all are recorded, searched and printed."""
    guest = boot(ctx)
    capture = ctx.dir / "x.braid"
    agent = start_recorder(ctx, "-r", guest.shm, "-e", "user", "-o", capture)
    guest.run(f"echo 'a request begins' > {DEVICE}; printf '%s' 'trace_id={TRACE_ID} a step' > {DEVICE}")
    guest.run(f"echo trace_id={TRACE_ID} > {DEVICE}; echo trace_id={TRACE_ID[1:]} > {DEVICE}; printf '' > {DEVICE}")
    guest.run(f"tracebraid-marker --trace-id={TRACE_ID} of a script; printf 'two\\nlines' | tracebraid-marker")
    # An event that is declared later is switched on once the recorder has seen it.
    declare(guest, "request u64 number; s32 status; u8 trace_id[16]; u16 thread; char path[12]")
    ctx.wait_until(lambda: guest.run(f"cat {TREE}/events/user/request/enable") == "0*\n", "the program's event to be on")
    guest.run(f"markers storm {NR} {NR_THREADS}")
    stop_recorder(ctx, agent)
    ctx.equal(lost_by_guests(check_accounts(ctx, capture)), 0, "lost events")
    lines = events_of(ctx, capture)
    texts = [(line["event"], line["fields"]["text"]) for line in lines
             if line["type"] == "event" and line["event"] != "request"]
    ctx.equal(texts, [("marker", "a request begins"), ("traced_marker", "a step"), ("traced_marker", ""),
                      ("marker", f"trace_id={TRACE_ID[1:]}"), ("traced_marker", "of a script"), ("marker", "two"),
                      ("marker", "lines")], "texts")
    check_requests(ctx, lines)
    rows = ctx.run_agent("sql", "--json", capture, "SELECT name, text FROM events WHERE text LIKE "
                         f"'%trace_id={TRACE_ID}%' ORDER BY ns").stdout
    ctx.equal(len(rows.splitlines()), 3, f"events of a trace id in SQL: {rows}")
    rows = ctx.run_agent("sql", "--json", capture, f"SELECT text FROM traced_marker WHERE trace_id = x'{TRACE_ID}'").stdout
    ctx.equal(len(rows.splitlines()), 3, f"events of a trace id, by its bytes: {rows}")


@case("marker-refused", usual=("6.12",), needs=NEEDS, arm64=True)
def marker_refused(ctx):
    """Declarations and records that are not valid are refused, users need the administrator's permission, and nothing breaks."""
    guest = boot(ctx)
    ok, invalid = "Success", "Invalid argument"
    for declaration in ("", " ", "9a u8 b", "a", "a u8", "a u9 b", "a char b", "a u16 b[2]", "a u8 b[0]", "a u8 b[]",
                        "a u8 b[99999]", "a char b[]; u8 c", "a u8 b; u8 b", "a u8 b c", "a u8 b[2", "a/b u8 c",
                        "a u8 b" + "".join(f"; u8 c{k}" for k in range(16)), "a" * 64 + " u8 b"):
        if declaration:
            ctx.equal(declare(guest, declaration), [invalid], f"declaration '{declaration}'")
    ctx.equal(declare(guest, "three u8 a; u64 b; u16 c", 24, 23, 25, 18), [ok, invalid, invalid, invalid], "sizes of a struct")
    ctx.equal(declare(guest, "tail u32 a; char b[]", 4, 3, 5, 2048, 2049),
              [ok, invalid, ok, ok, "Message too long"], "sizes with a text")
    # A program that has ended may come again with other fields, not beside one that runs.
    guest.run(f"exec 9> {DEVICE}")
    ctx.equal(declare(guest, "three u32 a", 4), [ok], "another declaration of the name")
    for k in range(140):
        last = declare(guest, f"e{k} u8 a")
    ctx.equal(last, ["No space left on device"], "events beyond the limit")
    ctx.equal(guest.run(f"stat -c %a {DEVICE}"), "200\n", "permissions")
    guest.run("rmmod tracebraid")
    ctx.equal(declare(guest, "a u8 b"), ["No such file or directory"], "without the driver")
    for arguments, said in (("text", "load the driver"), ("--trace-id=12 text", "not a valid trace id: 12"), ("-x", "unknown option")):
        ctx.check(said in guest.run(f"! tracebraid-marker {arguments} 2>&1"), f"tracebraid-marker {arguments}")

    guest.insmod("tracebraid")
    guest.run(f"echo 1 > {TREE}/events/user/enable")
    jobs = [guest.bg(f"markers fuzz 20000 {seed}") for seed in (1, 2)]
    reader = guest.bg(f"until [ -e /tmp/stop ]; do cat {TREE}/trace > /dev/null; done")
    ctx.equal([job.wait(timeout=120) for job in jobs], [0, 0], "statuses of the fuzzers")
    guest.run("touch /tmp/stop")
    ctx.equal(reader.wait(timeout=60), 0, "status of the reader")
    guest.run(f"echo 'after all' > {DEVICE}")
    ctx.check("marker: after all" in guest.read(f"{TREE}/trace").decode(errors="replace"), "the guest's own text lacks the last one")
    ours, theirs = map(float, guest.run("markers cost 20000").split())
    print(f"  a text that is recorded: {ours:.0f} ns; by trace_marker: {theirs:.0f} ns, {ours / theirs:.2f} times")
    guest.run("rmmod tracebraid")

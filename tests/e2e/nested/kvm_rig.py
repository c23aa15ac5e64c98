# SPDX-License-Identifier: GPL-2.0-or-later
"""What the cases on real KVM share: the rig of a host and its guests, and the judging of a report."""

import json
import shlex
import subprocess
import time

import host
from nested import judge
from nested.machine import VIRTIO_MODULES, InnerGuest, KvmHost

NAMES = ("alpha", "beta")
PAIRS = "/sys/kernel/debug/pairs"
# Few of the kernel's own: each patches code that others execute, where QEMU's TCG has a bug
# (docs/testing.md).
GUEST_EVENTS = "pairs,sched:sched_switch"
HOST_EVENTS = ",".join(["sched:sched_switch"] + [f"kvm:kvm_{name}" for name in (
    "entry", "exit", "pio", "write_tsc_offset")])
SHOWN = 5

# For trace-cmd.
VSOCK = ("net/vmw_vsock/vsock", "net/vmw_vsock/vmw_vsock_virtio_transport_common")
VSOCK_HOST = (*(f"drivers/vhost/{name}" for name in ("vhost_iotlb", "vhost")), *VSOCK,
              "drivers/vhost/vhost_vsock")
VSOCK_GUEST = (*VIRTIO_MODULES, *VSOCK, "net/vmw_vsock/vmw_vsock_virtio_transport")
CIDS = (3, 4)  # of the guests; lower ones are reserved


class Rig:
    """The host, its guests, and the operations of a phase."""

    def __init__(self, ctx, drivers=True, vsock=False):
        self.ctx = ctx
        self.began = time.monotonic()
        self.tags = 0
        self.log = None  # what the recorder prints
        self.host = ctx.adopt(self._make_host(vsock))
        self.host.boot()
        self.host.prepare()
        self.say("the host is up")
        devices = [("-device", f"vhost-vsock-pci,guest-cid={cid}") * vsock for cid in CIDS]
        self.guests = [ctx.adopt(InnerGuest(ctx, self.host, name, device))
                       for name, device in zip(NAMES, devices)]
        for guest in self.guests:
            guest.start()
        for guest in self.guests:
            guest.boot()
            if drivers:
                self.load(guest)
        self.threads = {guest.name: guest.vcpu_threads() for guest in self.guests}
        self.say("the guests are up")

    def _make_host(self, vsock):
        """The host, not started. With vsock it and the guests have trace-cmd and the modules."""
        if not vsock:
            return KvmHost(self.ctx, NAMES, self.ctx.initrd())
        program = host.need_program("trace-cmd", "trace-cmd")
        modules = filter(None, map(self.ctx.kernel_module, VSOCK_GUEST))
        # Threads of trace-cmd load it when they end.
        libgcc = self.ctx.run("gcc", "-print-file-name=libgcc_s.so.1").stdout.strip()
        keep_freed = host.build_program("keep_freed", "-shared", "-fPIC", "-nostdlib")
        inner = self.ctx.initrd(program, libgcc, keep_freed, *modules)
        return KvmHost(self.ctx, NAMES, inner, VSOCK_HOST, {"/bin/trace-cmd": program})

    def say(self, text):
        """One line of progress, for the log and on the host's console."""
        text = f"[{time.monotonic() - self.began:5.1f} s] {text}"
        print(text)
        self.host.run(f"echo {shlex.quote(text)} > /dev/kmsg")

    def load(self, guest, parameters=""):
        """Loads driver and pairs, with a tag that no earlier boot has used."""
        self.tags += 1
        guest.insmod("tracebraid", parameters)
        guest.insmod("pairs", f"tag={self.tags}")

    def make_pairs(self, guest, number, burst=10, pause_us=20000):
        """Starts `number` pairs on each vCPU; returns the jobs."""
        return [guest.bg(f"taskset {1 << vcpu:x} sh -c 'echo {number} {burst} {pause_us} > {PAIRS}/run'")
                for vcpu in range(guest.smp)]

    def wait_for(self, jobs):
        for job in jobs:
            self.ctx.equal(job.wait(timeout=60), 0, f"status of pairs of {job.guest.name}")

    def offsets(self):
        """KVM's offset from the host's counter to each vCPU's, by the vCPU's thread."""
        return self.host.run("cd /sys/kernel/debug/kvm; for v in */vcpu*; do echo $(cat $v/pid $v/tsc-offset); done")

    def made(self, guest):
        """The number of pairs of this boot."""
        return int(guest.run(f"cat {PAIRS}/made"))

    def record(self, name, work, guest_events=GUEST_EVENTS, host_events=HOST_EVENTS, only=(),
               options=()):
        """Records all guests, or only these, and their host while work() runs; returns the capture.

        guest_events: None for those that are enabled in the guests. options: more of record.
        """
        path, copy = f"/tmp/{name}.braid", self.ctx.dir / f"{name}.braid"
        words = " ".join([f"-e {guest_events}"] * bool(guest_events) + [f"-r {one}" for one in only] + list(options))
        job = self.host.bg(f"exec tracebraid record {words} --host={host_events} -o {path}")
        log = self.log = f"/tmp/bg.{job.id}"
        # And until each guest has confirmed its events, however late.
        count = f"grep -c '{{}} the event change' {log}"
        self.host.run(f"until grep -q ^Recording {log} && [ $({count.format('did not confirm')}) -le "
                      f"$({count.format('has now confirmed')}) ]; do kill -0 {job.pid} || exit 1; usleep 20000; done")
        work()
        self.host.run(f"kill -INT {job.pid}")
        status = job.wait()
        (self.ctx.dir / f"{name}.log").write_text(job.output(), encoding="utf-8")
        self.ctx.equal(status, 0, f"status of the recorder, which printed:\n{job.output()}\n")
        self.host.fetch(path, copy)
        self.host.run(f"rm {path}")
        return copy


# Judging
# ----------------------------------------------------------------------------------------------------------

def read_report(ctx, captures, threads, options):
    """The captures' timeline, parsed while the report prints it."""
    argv = [ctx.agent_path, "report", "--json", *options, *captures]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as report:
        recording = judge.Recording(report.stdout, threads)
    ctx.equal(report.returncode, 0, f"status of {' '.join(map(str, argv))}")
    return recording


def complaints(what, guest, finding):
    """The errors of a finding as lines of text, if it has any."""
    if not finding.wrong:
        return []
    beyond = sum(wrong[2] for wrong in finding.wrong)
    lines = [f"{what} of {guest}: {len(finding.wrong)} of {finding.judged} are wrong, {beyond} of them by more than "
             "the stated bound; the worst:"]
    return lines + [f"  {text}" for _, text, _ in finding.wrong[:SHOWN]]


def judge_events(recording, guest, what, check):
    """Judges a guest's events by one check, prints its figures; returns (finding, complaints)."""
    finding = check(recording, guest)
    print(f"    {guest} {what}: {finding.judged} judged, {finding.by_bound} of them by their bound "
          f"alone, {len(finding.wrong)} wrong, {finding.left_out} left out, room {finding.back} ns "
          f"back, {finding.forth} ns forth")
    wrong = complaints(what, guest, finding)
    if not finding.judged:
        wrong.append(f"{what} of {guest}: none found")
    elif not finding.wrong and not judge.check_teeth(check, recording, guest, finding):
        wrong.append(f"{what} of {guest}: shifted times are not detected")
    return finding, wrong


def analyze_nested_json(ctx, captures, name):
    return json.loads(ctx.run_agent("analyze", name, "--json", *captures, timeout=120).stdout)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares a Perfetto trace, as read by Google's protobuf, with the report:
compare_perfetto.py REPORT.json TRACE STATES

STATES has a line for each state that a vCPU was in: guest, vCPU, state, ns.

Numbers and names of Perfetto's messages are repeated here, so that a mistake in
perfetto.proto is detected.
"""

import collections
import json
import re
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MONO_RAW, TRACE_FILE, REALTIME = 5, 11, 1
FTRACE_CLOCK_MONO_RAW = 4
OWN_FIELDS = range(65536, 131072)
SLICE_BEGIN, SLICE_END, INSTANT = 1, 2, 3
START_OF_TRACE, END_OF_TRACE = 1, 2
CLEARED, NEEDS_STATE = 1, 2
MOST_ELEMENTS = 128  # elements of an array in the report

# "Message: [*]type name=number ...", * for repeated.
SCHEMA = """
Trace: *TracePacket packet=1
TracePacket: FtraceEventBundle ftrace_events=1 ClockSnapshot clock_snapshot=6 uint64 timestamp=8
  uint32 trusted_packet_sequence_id=10 TrackEvent track_event=11 InternedData interned_data=12
  uint32 sequence_flags=13
  FtraceStats ftrace_stats=34 SystemInfo system_info=45 uint32 timestamp_clock_id=58
  TrackDescriptor track_descriptor=60 uint32 machine_id=98 RemoteClockSync remote_clock_sync=107
  Defaults trace_packet_defaults=59
  Rename generic_kernel_task_rename_event=120 Attributes trace_attributes=126
Defaults: uint32 timestamp_clock_id=58
Clock: uint32 clock_id=1 uint64 timestamp=2
ClockSnapshot: *Clock clocks=1 uint32 primary_trace_clock=2
SyncedClocks: ClockSnapshot client_clocks=2 ClockSnapshot host_clocks=3
RemoteClockSync: *SyncedClocks synced_clocks=1
Utsname: string sysname=1 string release=3 string machine=4
SystemInfo: Utsname utsname=1 string tracing_service_version=4 uint32 num_cpus=8
  string machine_name=17
Attribute: string key=1 int64 long_value=2 string string_value=3
Attributes: *Attribute attribute=1
Rename: int64 tid=1 string comm=2
CpuStats: uint64 cpu=1 uint64 entries=2 uint64 overrun=3 uint64 commit_overrun=4
  uint64 dropped_events=8 uint64 read_events=9
FtraceStats: uint32 phase=1 *CpuStats cpu_stats=2
TrackDescriptor: uint64 uuid=1 string name=2 uint64 parent_uuid=5 string description=14
Annotation: uint64 name_iid=1 bool bool_value=2 uint64 uint_value=3 int64 int_value=4
  string string_value=6
  string name=10 uint64 string_value_iid=17
TrackEvent: *uint64 category_iids=3 *Annotation debug_annotations=4 uint32 type=9
  uint64 name_iid=10 uint64 track_uuid=11 *fixed64 flow_ids=47
  *string categories=22 string name=23 string correlation_id_str=53 uint64 callstack_iid=56
  double callstack_weight=57
Interned: uint64 iid=1 bytes str=2
Frame: uint64 iid=1 uint64 function_name_id=2 uint64 mapping_id=3
Callstack: uint64 iid=1 *uint64 frame_ids=2
InternedData: *Interned event_categories=1 *Interned event_names=2
  *Interned debug_annotation_names=3 *Interned function_names=5 *Frame frames=6
  *Callstack callstacks=7 *Interned kernel_symbols=26
  *Interned debug_annotation_string_values=29
OwnEvent: int32 field_id=1 bytes event_descriptor=2 string group_name=3
FtraceEventBundle: uint32 cpu=1 *FtraceEvent event=2 bool lost_events=3 uint32 ftrace_clock=5
  *OwnEvent generic_event_descriptors=11
GenericField: string name=1 string str_value=3 int64 int_value=4 uint64 uint_value=5
Generic: string event_name=1 *GenericField field=2
FtraceEvent: uint64 timestamp=1 uint32 pid=2 Print print=3 Switch sched_switch=4
  Frequency cpu_frequency=11 Idle cpu_idle=13 Wakeup sched_wakeup=17 Wakeup sched_waking=20
  Softirq softirq_entry=24
  Softirq softirq_exit=25 Softirq softirq_raise=26 IrqEntry irq_handler_entry=36
  IrqExit irq_handler_exit=37 Wakeup sched_wakeup_new=114 Generic generic=327
  SysEnter sys_enter=329 SysExit sys_exit=330 Work workqueue_activate_work=56
  Work workqueue_execute_end=57 Work workqueue_execute_start=58 Queue workqueue_queue_work=59
  NewTask task_newtask=235 Rename_ task_rename=236 Exec sched_process_exec=237
  Exit sched_process_exit=238 Fork sched_process_fork=239 Wait sched_process_free=240
  Wait sched_process_hang=241 Wait sched_process_wait=242 Deliver signal_deliver=324
  Generate signal_generate=325 Setprio sched_pi_setprio=353 Migrate sched_migrate_task=491
  HrStart hrtimer_start=551 Hr hrtimer_cancel=552 HrExpire hrtimer_expire_entry=553
  Hr hrtimer_expire_exit=554 TimerStart timer_start=555 Timer timer_cancel=556
  TimerExpire timer_expire_entry=557 Timer timer_expire_exit=558 Local local_timer_entry=559
  Local local_timer_exit=560 Ipi ipi_entry=21 Ipi ipi_exit=22
Print: uint64 ip=1 string buf=2
Switch: string prev_comm=1 int32 prev_pid=2 int32 prev_prio=3 int64 prev_state=4
  string next_comm=5 int32 next_pid=6 int32 next_prio=7
Idle: uint32 state=1 uint32 cpu_id=2
Wakeup: string comm=1 int32 pid=2 int32 prio=3 int32 success=4 int32 target_cpu=5
Softirq: uint32 vec=1
IrqEntry: int32 irq=1 string name=2 uint32 handler=3
IrqExit: int32 irq=1 int32 ret=2
SysEnter: int64 id=1 *uint64 args=2
SysExit: int64 id=1 int64 ret=2
Frequency: uint32 state=1 uint32 cpu_id=2
Work: uint64 work=1 uint64 function=2
Queue: uint64 work=1 uint64 function=2 int32 req_cpu=4 int32 cpu=5 string workqueue=6
NewTask: int32 pid=1 string comm=2 uint64 clone_flags=3 int32 oom_score_adj=4
Rename_: int32 pid=1 string oldcomm=2 string newcomm=3 int32 oom_score_adj=4
Exec: string filename=1 int32 pid=2 int32 old_pid=3
Exit: string comm=1 int32 pid=2 int32 tgid=3 int32 prio=4
Fork: string parent_comm=1 int32 parent_pid=2 string child_comm=3 int32 child_pid=4
Wait: string comm=1 int32 pid=2 int32 prio=3
Deliver: int32 code=1 uint64 sa_flags=2 int32 sig=3
Generate: int32 code=1 string comm=2 int32 group=3 int32 pid=4 int32 result=5 int32 sig=6
Setprio: string comm=1 int32 newprio=2 int32 oldprio=3 int32 pid=4
Migrate: string comm=1 int32 pid=2 int32 prio=3 int32 orig_cpu=4 int32 dest_cpu=5
HrStart: uint64 hrtimer=1 uint64 function=2 int64 expires=3 int64 softexpires=4 uint32 mode=5
Hr: uint64 hrtimer=1
HrExpire: uint64 hrtimer=1 int64 now=2 uint64 function=3
TimerStart: uint64 timer=1 uint64 function=2 uint64 expires=3 uint64 now=4 uint32 deferrable=5
  uint32 flags=6 uint64 bucket_expiry=7
Timer: uint64 timer=1
TimerExpire: uint64 timer=1 uint64 now=2 uint64 function=3 uint64 baseclk=4
Local: int32 vector=1
Ipi: string reason=1
"""


def load_schema():
    """The classes of the messages, by name."""
    file = descriptor_pb2.FileDescriptorProto(name="perfetto", package="p")
    for line in SCHEMA.replace("\n  ", " ").split("\n"):
        if not line:
            continue
        name, _, fields = line.partition(": ")
        message = file.message_type.add(name=name)
        words = fields.split()
        for kind, spec in zip(words[::2], words[1::2]):
            field = message.field.add(name=spec.split("=")[0], number=int(spec.split("=")[1]))
            field.label = field.LABEL_REPEATED if kind[0] == "*" else field.LABEL_OPTIONAL
            kind = kind.lstrip("*")
            if kind[0].isupper():
                field.type, field.type_name = field.TYPE_MESSAGE, f".p.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
    return message_factory.GetMessages([file])


def values_of(message):
    """A message's fields as encoded: names and values."""
    return {
        field.name: list(value) if field.label == field.LABEL_REPEATED else value
        for field, value in message.ListFields()
    }


Event = collections.namedtuple("Event", "ns name pid fields")


class Trace:
    """The content of the trace, by machine and CPU."""

    def __init__(self, path):
        with open(path, "rb") as file:
            trace = load_schema()["p.Trace"].FromString(file.read())
        self.own = {}  # classes of self-describing events: by machine and number ...
        self.described = {}  # ... and how they were described
        self.names = {}  # of machines
        self.events = collections.defaultdict(list)
        self.after_loss = collections.defaultdict(set)  # numbers of events
        self.stats, self.attributes = {}, {}
        self.synced, self.snapshots = set(), []
        self.functions = {}  # names, by machine and address
        self.tracks, self.on_track = {}, collections.defaultdict(list)
        self.profile = collections.Counter()  # ns, by the names of a stack's functions
        self.strings, self.clocks = {}, {}  # by sequence: interned, by field; and the default
        for packet in trace.packet:
            assert not packet.UnknownFields(), packet
            self.take(packet)
        self.keep_order()
        # From the host's clock to the timeline, which is the one that the report shows.
        self.shift = self.snapshots[0][TRACE_FILE] - self.snapshots[0][MONO_RAW]

    def content(self):
        """All that it says, whatever packets say it."""
        return {"types": self.described, "names": self.names, "events": self.events,
                "losses": self.after_loss, "stats": self.stats, "attributes": self.attributes,
                "synced": self.synced, "clocks": self.snapshots, "functions": self.functions,
                "tracks": self.tracks, "on tracks": self.on_track}

    def take(self, packet):
        """Reads one packet."""
        machine, sequence = packet.machine_id, packet.trusted_packet_sequence_id
        if packet.HasField("trace_packet_defaults"):
            assert packet.sequence_flags == CLEARED
            self.clocks[sequence] = packet.trace_packet_defaults.timestamp_clock_id
        if packet.HasField("interned_data"):  # also of the packet's own event
            self.intern(machine, sequence, packet.interned_data)
        if packet.HasField("ftrace_events"):
            self.take_bundle(machine, packet.ftrace_events)
        elif packet.HasField("system_info"):
            self.names[machine] = packet.system_info.machine_name
        elif packet.HasField("ftrace_stats"):
            self.stats[machine, packet.ftrace_stats.phase] = packet.ftrace_stats.cpu_stats
        elif packet.HasField("trace_attributes"):
            for a in packet.trace_attributes.attribute:
                self.attributes[a.key] = a.string_value
        elif packet.HasField("clock_snapshot"):
            snapshot = packet.clock_snapshot
            self.snapshots.append({c.clock_id: c.timestamp for c in snapshot.clocks})
            if len(self.snapshots) == 1:
                assert snapshot.primary_trace_clock == TRACE_FILE
        elif packet.HasField("remote_clock_sync"):
            rounds = packet.remote_clock_sync.synced_clocks
            for r in rounds:
                assert r.client_clocks == r.host_clocks, r
                assert [c.clock_id for c in r.host_clocks.clocks] == [MONO_RAW]
            assert len(rounds) == 2
            self.synced.add(machine)
        elif packet.HasField("track_descriptor"):
            self.tracks[packet.track_descriptor.uuid] = (machine, packet.track_descriptor.name)
        elif packet.HasField("track_event"):
            clock = packet.timestamp_clock_id or self.clocks[sequence]
            assert clock == MONO_RAW and sequence
            self.spell_out(packet.sequence_flags, sequence, packet.track_event)
            self.on_track[packet.track_event.track_uuid].append(
                (packet.timestamp, packet.track_event)
            )

    def intern(self, machine, sequence, data):
        """Strings, and of callstacks the names of their functions: each is defined once."""
        for field, entries in data.ListFields():
            for entry in entries if field.name != "kernel_symbols" else []:
                assert entry.iid and (sequence, field.name, entry.iid) not in self.strings
                if field.name == "frames":
                    assert not entry.mapping_id
                    value = self.strings[sequence, "function_names", entry.function_name_id]
                elif field.name == "callstacks":
                    value = tuple(self.strings[sequence, "frames", iid] for iid in entry.frame_ids)
                else:
                    value = entry.str.decode()
                self.strings[sequence, field.name, entry.iid] = value
        for symbol in data.kernel_symbols:  # perhaps again, in another part
            name = symbol.str.decode()
            assert self.functions.setdefault((machine, symbol.iid), name) == name

    def spell_out(self, flags, sequence, event):
        """Replaces numbers of interned strings, which precede the event."""
        def text(field, iid):
            assert flags & NEEDS_STATE
            return self.strings[sequence, field, iid]

        if event.name_iid:
            event.name = text("event_names", event.name_iid)
        event.categories.extend(text("event_categories", iid) for iid in event.category_iids)
        if event.callstack_iid:
            assert event.type == INSTANT and flags & NEEDS_STATE
            assert event.callstack_weight.is_integer()
            stack = self.strings[sequence, "callstacks", event.callstack_iid]
            self.profile[stack] += int(event.callstack_weight)
            assert event.name == stack[-1]
            (arg,) = event.debug_annotations
            assert (arg.name, arg.uint_value) == ("ns", event.callstack_weight)
        for a in event.debug_annotations:
            if a.name_iid:
                a.name = text("debug_annotation_names", a.name_iid)
            if a.string_value_iid:
                a.string_value = text("debug_annotation_string_values", a.string_value_iid)

    def take_bundle(self, machine, bundle):
        """Reads the events of one CPU, and the descriptors of self-describing ones."""
        for own in bundle.generic_event_descriptors:
            encoded = own.SerializeToString(deterministic=True)
            if self.described.setdefault((machine, own.field_id), encoded) != encoded:
                raise AssertionError(own)
            if (machine, own.field_id) in self.own:  # again, in another part
                continue
            described = descriptor_pb2.DescriptorProto.FromString(own.event_descriptor)
            file = descriptor_pb2.FileDescriptorProto(name=f"own{own.field_id}")
            file.package = f"own{machine}_{own.field_id}"
            file.message_type.add().CopyFrom(described)
            assert own.field_id in OWN_FIELDS and own.group_name
            assert all(field.number < 32 for field in described.field)
            pool = descriptor_pool.DescriptorPool()
            pool.Add(file)
            found = pool.FindMessageTypeByName(f"{file.package}.{described.name}")
            factory = message_factory.MessageFactory(pool)
            self.own[machine, own.field_id] = (described.name, factory.GetPrototype(found))
        assert bundle.ftrace_clock == FTRACE_CLOCK_MONO_RAW and bundle.HasField("cpu")
        events = self.events[machine, bundle.cpu]
        if bundle.lost_events:
            self.after_loss[machine, bundle.cpu].add(len(events))
        for event in bundle.event:
            events.append((machine, event))

    def keep_order(self):
        """Converts all events to names and fields; descriptors may follow the events that use them."""
        for events in self.events.values():
            events[:] = [self.event(machine, event) for machine, event in events]
            assert all(a.ns <= b.ns for a, b in zip(events, events[1:]))

    def event(self, machine, event):
        """The name and fields of one event."""
        assert event.HasField("pid")
        for unknown in event.UnknownFields():
            name, message = self.own[machine, unknown.field_number]
            fields = message.FromString(unknown.data)
            return Event(event.timestamp, name, event.pid, values_of(fields))
        name = [f.name for f, _ in event.ListFields() if f.name not in ("timestamp", "pid")][0]
        message = getattr(event, name)
        if name == "generic":
            fields = {f.name: f.str_value for f in message.field}
            return Event(event.timestamp, message.event_name, event.pid, fields)
        assert not message.UnknownFields()
        return Event(event.timestamp, name, event.pid, values_of(message))


class Report:
    """The content of the report, by stream and CPU."""

    def __init__(self, path):
        self.events = collections.defaultdict(list)
        self.after_loss = collections.defaultdict(set)
        self.streams, self.incidents = {}, collections.defaultdict(list)
        self.header, self.all = {}, []
        with open(path, encoding="utf-8") as file:
            for line in file:
                self.take(json.loads(line))

    def take(self, line):
        """Reads one line."""
        if line["type"] == "stream":
            self.streams[line["stream"]] = line
        elif line["type"] == "event":
            self.events[line["stream"], line["cpu"]].append(line)
            self.all.append(line)
        elif line["type"] in ("lost", "note"):
            self.incidents[line["stream"]].append(line)
            if line["type"] == "lost":
                where = line["stream"], line["cpu"]
                self.after_loss[where].add(len(self.events[where]))
        else:
            self.header.update(line)


def sanitized(text):
    """A string as in the export."""
    while text.endswith("\n"):
        text = text[:-1]
    return "".join(c if c.isprintable() else "?" for c in text)


def same(value, found):
    """Whether a field has the same value; of numbers, the encoded bits are compared."""
    if isinstance(value, str) and isinstance(found, list):  # the report prints bytes as a string
        return value.encode() == bytes(found).split(b"\0")[0]
    if isinstance(value, str):
        return sanitized(value) == found
    if isinstance(value, list):
        return len(value) == min(len(found), MOST_ELEMENTS) and all(map(same, value, found))
    return (value - found) % (1 << 32 if -(1 << 31) <= found < 1 << 32 else 1 << 64) == 0


def check_event(line, found, shift, function):
    """Compares one event of the report and of the trace."""
    assert line["ns"] == found.ns + shift, (line, found)
    assert line.get("subevent", line["event"]) == found.name, (line, found)
    assert line.get("pid", -1) & 0xFFFFFFFF == found.pid, (line, found)
    if set(found.fields) in ({"text"}, {"raw"}) and set(line["fields"]) != {"text"}:
        assert sanitized(line["text"]) == list(found.fields.values())[0], (line, found)
        return
    fields = {name: value for name, value in line["fields"].items() if value != []}
    assert set(fields) == set(found.fields), (line, found)
    for name, value in fields.items():
        assert same(value, found.fields[name]), (name, line, found)
    if function:
        assert f"function={function} " in line["text"] + " ", (line, function)


def check_incident(line, ns, event, shift):
    """Compares a loss or a note with an instant."""
    args = {a.name: a.string_value or a.uint_value for a in event.debug_annotations}
    assert event.type == INSTANT and ns + shift == line["ns"], (line, event)
    if line["type"] == "note":
        assert event.name == "NOTE " + sanitized(line["text"]), (line, event)
    else:
        assert event.name.startswith("LOST") and args["cpu"] == line["cpu"], (line, event)
        assert args.get("lost") == line["lost"], (line, event)
        assert args.get("damaged") == line.get("damaged"), (line, event)


def check_vcpus(report, trace):
    """Checks that each time of a known thread in guest mode has a slice. Returns how many."""
    threads = {
        v["tid"] for stream in report.streams.values() for v in stream.get("vcpus", [])
    }
    hosts = {name for name, s in report.streams.items() if s["kind"] == "host"}
    edges, running, want = collections.defaultdict(list), {}, collections.defaultdict(list)
    reasons, texts = {}, {}
    for e in report.all:
        if e["stream"] not in hosts:
            running[e["stream"], e["cpu"]] = e["fields"].get("next_pid", e.get("pid"))
        elif e["event"] in ("kvm_entry", "kvm_exit") and e["pid"] in threads:
            entry = e["event"] == "kvm_entry"
            opened = edges[e["pid"]] and edges[e["pid"]][-1][1]
            if entry and opened:
                edges[e["pid"]].append((e["ns"], False))
            if entry or opened:
                edges[e["pid"]].append((e["ns"], entry))
            if entry:
                want[e["pid"]].append(dict(running))
            else:
                reasons[e["pid"], e["ns"]] = e["fields"]["isa"], e["fields"]["exit_reason"]
    found = {}
    for uuid, (_, name) in trace.tracks.items():
        if ", thread " not in name:
            continue
        tid, guest, cpu = int(name.split()[-1]), name.split()[0], int(name.split()[2][:-1])
        on_track = trace.on_track[uuid]
        found.setdefault(tid, []).extend((ns, e.type == SLICE_BEGIN) for ns, e in on_track)
        begun = [e for _, e in on_track if e.type == SLICE_BEGIN]
        for event, tasks in zip(begun, want[tid]):
            pid = tasks.get((guest, cpu))
            assert event.name == f"vCPU {cpu}" if pid is None else event.name.endswith(f"-{pid}")
            assert event.correlation_id_str == f"{guest} {event.name}"
        for ns, event in on_track:
            if event.type == SLICE_END:
                assert [a.name for a in event.debug_annotations] == ["exit"]
                text, reason = event.debug_annotations[0].string_value, reasons.get((tid, ns), "not seen")
                assert text and texts.setdefault(reason, text) == text, (reason, text, texts)
    assert found == edges, (found, edges)
    assert len(set(texts.values())) == len(texts), f"different exits have one text: {texts}"
    return sum(map(len, edges.values())) // 2


Slice = collections.namedtuple("Slice", "vcpu begin end name args flows")


def read_slices(vcpu, on_track):
    """A vCPU's slices, which follow each other without a gap, and the instants in them."""
    slices, instants, opened = [], [], None
    for ns, event in sorted(on_track, key=lambda one: one[0]):  # stable: as trace_processor
        args = {a.name: a.string_value for a in event.debug_annotations}
        assert len(args) == len(event.debug_annotations)
        flows = list(event.flow_ids)
        if event.type == SLICE_END:
            slices.append(opened._replace(end=ns))
            assert slices[-1].begin < ns and not event.debug_annotations and not flows
            opened = None
            continue
        assert list(event.categories) == ["tracebraid"] and event.name
        if event.type == SLICE_BEGIN:
            assert not opened and (not slices or slices[-1].end == ns), (vcpu, ns)
            opened = Slice(vcpu, ns, None, event.name, args, flows)
        else:
            assert event.type == INSTANT and len(flows) == 1 and not args, event
            instants.append(Slice(vcpu, ns, ns, event.name, args, flows))
    assert not opened
    return slices, instants


def check_flow(ends):
    """A flow's two ends: a wakeup and its task's slice, or a stolen slice and a culprit's."""
    assert len(ends) == 2, ends
    wakes = [end for end in ends if end.begin == end.end]
    if wakes:
        task = [end for end in ends if end.begin != end.end][0]
        pid = re.search(r"\[\d+\]$", task.args["task"])[0]  # its name may have changed
        assert wakes[0].name.startswith("wakes ") and wakes[0].name.endswith(pid), ends
        assert wakes[0].begin <= task.end and wakes[0].vcpu[0] == task.vcpu[0], ends
        return True
    for stolen, other in ends, ends[::-1]:
        named = " ".join(v for k, v in stolen.args.items() if k.startswith("culprit"))
        by = f"{other.vcpu[0]}/vCPU {other.vcpu[1]}" in named or " more" in named
        if stolen.name == "stolen" and by and stolen.vcpu != other.vcpu:
            assert stolen.begin < other.end and other.begin < stolen.end, ends
            return False
    raise AssertionError(ends)


def check_states(path, trace):
    """Compares vCPUs' states with what is expected. Returns numbers of slices, flows, wakeups."""
    want, found = {}, collections.Counter()
    with open(path, encoding="utf-8") as file:
        for line in file:
            guest, vcpu, state, ns = line.split("\t")
            want[guest, int(vcpu), state] = int(ns)
    flows, nr, nr_wakes = collections.defaultdict(list), 0, 0
    for uuid, (machine, name) in trace.tracks.items():
        if not name.endswith(", state"):
            continue
        guest, vcpu = name[: -len(", state")].rsplit(" vCPU ", 1)
        slices, wakes = read_slices((guest, int(vcpu)), trace.on_track[uuid])
        assert machine == 0 and slices
        nr, nr_wakes = nr + len(slices), nr_wakes + len(wakes)
        for one in slices:
            found[guest, int(vcpu), one.name.partition(":")[0]] += one.end - one.begin
            assert ("culprit" in one.args) == (one.name in ("stolen", "throttled")), one
        for one in slices + wakes:
            for flow in one.flows:
                flows[flow].append(one)
    assert want == found, (want, found)
    assert sum(map(check_flow, flows.values())) == nr_wakes
    return nr, len(flows) - nr_wakes, nr_wakes


def check_clocks(report, trace):
    """Checks that times are of the host's clock, which the first snapshot relates to the file's timeline."""
    first = trace.snapshots[0]
    assert first[MONO_RAW] == report.header["start_ns"]
    for snapshot in trace.snapshots:
        line = REALTIME if report.header["clock"] == "realtime" else MONO_RAW
        assert snapshot[TRACE_FILE] == snapshot[line] and snapshot[REALTIME]
    assert trace.synced == {machine for machine in trace.names if machine}
    for name, stream in report.streams.items():
        if name in trace.names.values():
            attribute = trace.attributes[f"{name}.clock"]
            bound = stream["bound_ns"]
            assert attribute.startswith(stream["clock"]), attribute
            if report.header["clock"] != "realtime":
                stated_bound = "unknown" if bound is None else f"{bound} ns"
                assert attribute.endswith(f"bound {stated_bound}"), attribute


def check_stats(report, trace, machine, name):
    """Compares the totals of events read and lost."""
    stream = report.streams[name]
    stats = trace.stats[machine, END_OF_TRACE]
    assert len(trace.stats[machine, START_OF_TRACE]) == len(stats)
    if "read" in stream:
        assert sum(s.read_events for s in stats) == stream["read"], (stream, stats)
        assert sum(s.entries for s in stats) == stream["left"], (stream, stats)
        assert sum(s.overrun + s.dropped_events for s in stats) == stream["lost"], stats


def main():
    """Compares everything."""
    report, trace = Report(sys.argv[1]), Trace(sys.argv[2])
    machines = {name: machine for machine, name in trace.names.items()}
    assert len(machines) == len(trace.names)
    events = {(machines[stream], cpu): e for (stream, cpu), e in report.events.items() if e}
    assert set(events) == {where for where, e in trace.events.items() if e}
    for where, of_cpu in events.items():
        found = trace.events[where]
        assert len(of_cpu) == len(found), (where, len(of_cpu), len(found))
        for of_report, of_trace in zip(of_cpu, found):
            function = trace.functions.get((where[0], of_trace.fields.get("function")))
            check_event(of_report, of_trace, trace.shift, function)
    losses = {(machines[s], cpu): at for (s, cpu), at in report.after_loss.items()}
    assert losses == trace.after_loss, (losses, trace.after_loss)
    for name, machine in machines.items():
        tracks = [u for u, t in trace.tracks.items() if t == (machine, f"{name}: losses and notes")]
        assert len(tracks) == 1
        incidents = trace.on_track[tracks[0]]
        assert len(incidents) == len(report.incidents[name]), (name, incidents)
        for line, (ns, event) in zip(report.incidents[name], incidents):
            check_incident(line, ns, event, trace.shift)
        check_stats(report, trace, machine, name)
    check_clocks(report, trace)
    vcpus = check_vcpus(report, trace)
    states = check_states(sys.argv[3], trace)
    lost = sum(b["lost"] or 0 for line in report.incidents.values() for b in line if "lost" in b)
    own = len({name for name, _ in trace.own.values()})
    print(
        f"{len(report.all)} events, {lost} lost, {own} own, {vcpus} slices, "
        f"{len(trace.functions)} functions, {states[0]} states, {states[1]} flows, "
        f"{states[2]} wakeups"
    )


if __name__ == "__main__":
    main()

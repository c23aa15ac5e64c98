# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces of guests and their host, merged into one timeline: libtracebraid for Python.

    import tracebraid

    with tracebraid.open("demo.braid") as trace:
        for event in trace.events(stream="guest1", event="sched:*", since="+0.5"):
            print(event.ns, event.cpu, event.comm, event.name, event["next_pid"])
        columns = trace.columns(["ns", "cpu", "next_pid"], event="sched_switch")    # numpy arrays
        print(trace.analyze("steal", top=5))

Selections are the options of `tracebraid report`, as keywords: stream, cpu, buffer, event, filter, filter_not, pid,
comm, since, until, clock, lines. A list passes an option several times. A trace has one walk at a time: an iteration ends
when its generator is exhausted, closed or collected. follow() opens a capture that is being recorded.
"""

import contextlib
import json
import time
import typing

from ._library import WAIT_MS, Closable, Error, _check, _ffi, _lib, _program, _reporting, _text, _words
from ._recording import Recording, record
from ._sql import Database, Rows, sql

__all__ = ["Columns", "Database", "Epoch", "Error", "Event", "Loss", "Note", "Recording", "Ring", "Rows", "Stream", "Totals", "Trace",
           "Type", "follow", "open", "open_regions", "record", "sql", "version"]

UNKNOWN = 2 ** 64 - 1  # an unknown bound or number of lost events
MISSING = -2 ** 63  # in a column: the event lacks the field
ROWS = 1 << 16  # taken at once from the library
PAUSE = 4  # a walk's end for now


def version():
    """The library's version."""
    return _text(_lib.tracebraid_version())


class Ring:
    """A buffer's ring of one CPU, with its accounting: written = read + lost + left; None: unknown."""

    def __init__(self, ring):
        self.buffer, self.cpu = _text(ring.buffer), ring.cpu
        counts = ring.counts if ring.counted else None
        self.written, self.read, self.lost, self.left = (
            getattr(counts, name) if counts else None for name in ("written", "read", "lost", "left"))

    def __repr__(self):
        return f"<Ring {self.buffer!r} CPU {self.cpu}>"


class Epoch:
    """A period in which one model converts a guest's times; it began between from_ns and begun_ns, None: with the stream."""

    def __init__(self, epoch):
        self.number, self.vcpu = epoch.number, None if epoch.vcpu == 2 ** 32 - 1 else epoch.vcpu
        self.from_ns, self.begun_ns = (None if ns == -2 ** 63 else ns for ns in (epoch.from_ns, epoch.begun_ns))
        self.step_ns, self.cause = epoch.step_ns, _text(epoch.cause)
        self.disrupted, self.drift_ppm = bool(epoch.disrupted), epoch.drift_ppm

    def __repr__(self):
        return f"<Epoch {self.number}{': ' if self.cause else ''}{self.cause}>"


class Filter:
    """A guest's filter of an event; None as event: of all that have none of their own, as a number: the guest did not say."""

    def __init__(self, row):
        self.system, self.event = _text(row.system) or None, _text(row.event) or None
        self.nr_events = row.nr_events
        self.offered, self.filtered, self.written, self.lost, self.unjudged = (
            None if value == UNKNOWN else value
            for value in (row.offered, row.filtered, row.written, row.lost, row.unjudged))

    def __repr__(self):
        return f"<Filter {self.system}:{self.event}>"


class Probe:
    """A guest's probe: whether it was ever placed, and the hits that the guest's kernel did not deliver."""

    def __init__(self, row):
        self.system, self.event = _text(row.system), _text(row.event)
        self.placed, self.missed = bool(row.placed), row.missed

    def __repr__(self):
        return f"<Probe {self.system}:{self.event}>"


def _listed(get, pointer, kind, make):
    """What a function of the library has by number, from 0."""
    found, row = [], _ffi.new(f"struct tracebraid_{kind} *")
    while get(pointer, len(found), row) == 0:
        found.append(make(row))
    return found


class Stream:
    """The host, or one run of a guest's driver."""

    def __init__(self, pointer):
        for name in ("name", "kernel", "machine", "clock", "end"):
            setattr(self, name, _text(getattr(_lib, f"tracebraid_stream_{name}")(pointer)))
        self.host = _text(_lib.tracebraid_stream_host(pointer))
        self.number = _lib.tracebraid_stream_number(pointer)
        self.nr_cpus = _lib.tracebraid_stream_nr_cpus(pointer)
        self.is_host = bool(_lib.tracebraid_stream_is_host(pointer))
        bound = _lib.tracebraid_stream_bound_ns(pointer)
        self.bound_ns = None if bound == UNKNOWN else bound
        counts = _ffi.new("struct tracebraid_counts *")
        known = _lib.tracebraid_stream_counts(pointer, counts) == 0
        self.written, self.read, self.lost, self.left = (
            getattr(counts, name) if known else None for name in ("written", "read", "lost", "left"))
        self.rings = _listed(_lib.tracebraid_stream_ring, pointer, "ring", Ring)
        self.epochs = _listed(_lib.tracebraid_stream_epoch, pointer, "epoch", Epoch)
        self.filters = _listed(_lib.tracebraid_stream_filter, pointer, "filter", Filter)
        self.probes = _listed(_lib.tracebraid_stream_probe, pointer, "probe", Probe)

    def __repr__(self):
        return f"<Stream {self.name}>"


class Type:
    """An event type of a stream."""

    def __init__(self, pointer):
        self.system, self.name, self.event = (
            _text(getattr(_lib, f"tracebraid_type_{name}")(pointer)) for name in ("system", "name", "event"))
        self.number = _lib.tracebraid_type_number(pointer)
        self.fields = []
        while True:
            field = _lib.tracebraid_type_field(pointer, len(self.fields))
            if not field:
                break
            self.fields.append(_text(_lib.tracebraid_field_name(field)))

    def __repr__(self):
        return f"<Type {self.system}:{self.name}>"


class _Item:
    """An item of the timeline: its time in ns, its error bound (None: unknown), stream, host, CPU and buffer. late: in
    a followed capture, an item with a later time was returned before it."""

    __slots__ = ("ns", "bound_ns", "stream", "host", "cpu", "buffer", "late", "_walk", "_number")

    def __init__(self, walk):
        self._walk, self._number = walk, walk.number
        pointer = walk.pointer
        self.ns = _lib.tracebraid_ns(pointer)
        bound = _lib.tracebraid_bound_ns(pointer)
        self.bound_ns = None if bound == UNKNOWN else bound
        self.stream = walk.streams[_lib.tracebraid_stream_number(_lib.tracebraid_item_stream(pointer))]
        cpu = _lib.tracebraid_cpu(pointer)
        self.cpu = None if cpu == 0xffffffff else cpu
        self.buffer = _text(_lib.tracebraid_buffer(pointer))
        self.host = _text(_lib.tracebraid_host(pointer))
        self.late = bool(_lib.tracebraid_late(pointer))

    def _at_walk(self):
        pointer = self._walk.pointer
        if self._walk.number != self._number:
            raise Error(22, "the item is no longer current: read .text and .vcpu before the iteration continues")
        return pointer

    @property
    def text(self):
        """The item's text, as a report prints it. Valid until the iteration continues."""
        return _text(_lib.tracebraid_text(self._at_walk()))


class Loss(_Item):
    """Events were lost: .lost is their number, or None if it is unknown."""

    __slots__ = ("lost",)

    def __init__(self, walk):
        super().__init__(walk)
        lost = _lib.tracebraid_lost(walk.pointer)
        self.lost = None if lost == UNKNOWN else lost


class Note(_Item):
    """A note about a stream: .words is its text."""

    __slots__ = ("words",)

    def __init__(self, walk):
        super().__init__(walk)
        self.words = self.text


class Event(_Item):
    """An event; event["FIELD"] is a number, string or list of numbers."""

    __slots__ = ("type", "seq", "pid", "comm", "uncertain", "_json", "_fields")

    def __init__(self, walk):
        super().__init__(walk)
        pointer = walk.pointer
        self.type = walk.type_of(_lib.tracebraid_event_type(pointer))
        self.seq = _lib.tracebraid_seq(pointer)
        pid = _lib.tracebraid_pid(pointer)
        self.pid = None if pid < 0 else pid
        self.comm = None if pid < 0 else _text(_lib.tracebraid_comm(pointer))
        self.uncertain = bool(_lib.tracebraid_uncertain(pointer))
        self._json = _ffi.string(_lib.tracebraid_json(pointer))
        self._fields = None

    @property
    def name(self):
        """The event's name."""
        return self.type.name

    @property
    def system(self):
        """The subsystem that defines it."""
        return self.type.system

    @property
    def fields(self):
        """All fields by name."""
        if self._fields is None:
            self._fields = json.loads(self._json)
        return self._fields

    def __getitem__(self, field):
        return self.fields[field]

    @property
    def vcpu(self):
        """(guest, vCPU) if the event is of the host and its task runs a vCPU, else None. vCPU: None if it runs all."""
        number = _ffi.new("uint32_t *")
        guest = _lib.tracebraid_vcpu(self._at_walk(), number)
        return (_text(_lib.tracebraid_stream_name(guest)),
                None if number[0] == 0xffffffff else number[0]) if guest else None

    def __repr__(self):
        return f"<Event {self.system}:{self.name} at {self.ns} ns, {self.stream.name} CPU {self.cpu}>"


class _Walk:
    """One walk of the library."""

    def __init__(self, trace, options):
        words, self._kept = _words(options)
        out = _ffi.new("struct tracebraid_walk **")
        with trace.call() as pointer:
            _check(_lib.tracebraid_walk_new(out, pointer, words))
        self._pointer, self.trace, self.number, self._types = out[0], trace, 0, {}
        self.streams = trace.streams

    @property
    def pointer(self):
        """The library's walk; fails once it or the trace, which frees it, is closed."""
        self.trace.pointer()
        if not self._pointer:
            raise Error(22, "the iteration has ended")
        return self._pointer

    def next(self):
        """Moves to the next item, and returns its kind."""
        pointer = self.pointer
        self.number += 1
        self.trace.begin_call()
        try:
            return _check(_lib.tracebraid_walk_next(pointer))
        finally:
            self.trace.end_call()

    def forget_types(self):
        """Their numbers and pointers change while a capture is followed."""
        self.number += 1
        self._types = {}

    def type_of(self, pointer):
        """The Type of a pointer."""
        number = _lib.tracebraid_type_number(pointer)
        if number not in self._types:
            self._types[number] = Type(pointer)
        return self._types[number]

    def close(self):
        """Frees it; may be called again."""
        pointer, self._pointer = self._pointer, None
        if pointer and self.trace.is_open():
            _lib.tracebraid_walk_free(pointer)


class Totals(typing.NamedTuple):
    """What an export has written. lines: events, losses and notes; some_lost: events were lost that lost does not count."""

    events: int
    lines: int
    lost: int
    some_lost: bool


class Columns(dict):
    """Arrays by name; .words: the texts that numbers of columns of texts stand for."""

    words = ()


class Trace(Closable):
    """One or more captures as one trace; open() makes it."""

    what = "trace"

    def __init__(self, paths, clock_source=None, warn=None, follow_s=0, program=0, progress=None):
        super().__init__()
        names = [_ffi.new("char[]", str(path).encode()) for path in paths]
        source = _ffi.new("char[]", clock_source.encode()) if clock_source else _ffi.NULL
        callback = _ffi.callback("void(void *, const char *)", lambda _, line: warn(_text(line))) if warn else _ffi.NULL
        self._kept = callback
        out = _ffi.new("struct tracebraid_trace **")
        self._follows, self._follow_s = follow_s != 0, follow_s
        if program != 0:
            sources = _ffi.new("char *[]", [*names, _ffi.NULL])
            _check(_lib.tracebraid_open_regions(out, sources, _program(program), callback, _ffi.NULL))
        elif self._follows:
            _check(_lib.tracebraid_follow(out, names[0], source, callback, _ffi.NULL))
        else:
            with _reporting(progress):
                _check(_lib.tracebraid_open(out, _ffi.new("char *[]", names), len(names), source, callback, _ffi.NULL))
        self._pointer = out[0]
        self.streams = []
        self._note_streams()

    def _note_streams(self):
        """In the same list: walks have it."""
        self.streams[:] = [Stream(_lib.tracebraid_stream(self._pointer, k))
                           for k in range(_lib.tracebraid_nr_streams(self._pointer))]

    def _await(self, walk):
        """Reads what was appended to a followed capture, or waits for it."""
        since = time.monotonic()
        grown = 0
        while not grown:
            with self.call() as pointer:
                grown = _check(_lib.tracebraid_grow(pointer, WAIT_MS))
                if not grown and self._follow_s is not None and time.monotonic() - since >= self._follow_s:
                    _check(_lib.tracebraid_finish(pointer))
        walk.forget_types()
        self._note_streams()

    def is_open(self):
        """Whether it is open."""
        return bool(self._pointer)

    def _free(self, pointer):
        """Walks end, too."""
        _lib.tracebraid_close(pointer)

    @property
    def windows(self):
        """The time of each recording: (start, stop) in ns of the host's clock; stop None: unknown."""
        found, start, stop = [], _ffi.new("int64_t *"), _ffi.new("int64_t *")
        while _lib.tracebraid_window(self.pointer(), len(found), start, stop) == 0:
            found.append((start[0], None if stop[0] == 2 ** 63 - 1 else stop[0]))
        return found

    def items(self, **select):
        """Iterates over all selected items: Event, Loss and Note, in the order of time. In a followed capture it waits
        for more."""
        with contextlib.closing(_Walk(self, select)) as walk:
            while True:
                kind = walk.next()
                if not kind:
                    return
                if kind == PAUSE:
                    self._await(walk)
                    continue
                yield (Event, Loss, Note)[kind - 1](walk)

    def events(self, **select):
        """Iterates over the selected events."""
        return (item for item in self.items(**select) if isinstance(item, Event))

    def columns(self, names, **select):
        """Numbers of the selected events as numpy arrays of int64, by name: {"ns": array, "next_pid": array, ...}.

        Names are "ns", "bound_ns", "stream", "cpu", "pid", "seq", "type", "comm", and fields. "comm" and fields that
        are strings are arrays of numbers, with their texts in the list columns.words. MISSING: the event lacks the
        field. No Python object is made for an event.
        """
        import numpy  # pylint: disable=import-outside-toplevel # only needed here
        names = list(names)
        words = [_ffi.new("char[]", name.encode()) for name in names]
        pointers, parts = _ffi.new("char *[]", words), []
        with contextlib.closing(_Walk(self, select)) as walk:
            rows = ROWS
            while rows == ROWS:
                block = numpy.empty((len(names), ROWS), dtype=numpy.int64)
                columns = [_ffi.cast("int64_t *", block[k].ctypes.data) for k in range(len(names))]
                with self.call():
                    rows = _check(_lib.tracebraid_columns(walk.pointer, pointers, _ffi.new("int64_t *[]", columns),
                                                          len(names), ROWS))
                parts.append(block[:, :rows])
            found = Columns(zip(names, numpy.concatenate(parts, axis=1)))
            found.words = []
            while True:
                word = _lib.tracebraid_word(walk.pointer, len(found.words))
                if not word:
                    return found
                found.words.append(_text(word))

    def states(self):
        """The states of all vCPUs: a list of dicts with guest, vcpu, state, from_ns, to_ns, task, comm, culprit,
        reason and bound_ns."""
        found = []

        @_ffi.callback("int(void *, const struct tracebraid_span *)")
        def take(_, span):
            found.append({
                "guest": _text(_lib.tracebraid_stream_name(span.guest)), "vcpu": span.vcpu,
                "state": _text(span.state), "from_ns": span.from_ns, "to_ns": span.to_ns,
                "task": None if span.task < 0 else span.task, "comm": _text(span.comm),
                "culprit": _text(span.culprit), "reason": _text(span.reason), "bound_ns": span.bound_ns})
            return 0

        with self.call() as pointer:
            _check(_lib.tracebraid_states(pointer, take, _ffi.NULL))
        return found

    def analyze(self, name, progress=None, **options):
        """The result of `tracebraid analyze NAME --json`, as Python objects. progress: as for open()."""
        words, _kept = _words(options)
        out = _ffi.new("char **")
        with self.call() as pointer, _reporting(progress, pointer):
            _check(_lib.tracebraid_analyze(pointer, name.encode(), words, out))
        try:
            return json.loads(_ffi.string(out[0]))
        finally:
            _lib.tracebraid_free(out[0])

    def export(self, form, path, progress=None, **select):
        """Writes the selected events for another tool: "perfetto", "ctf", "trace.dat" or "html"; returns Totals.

        Options without a value are True: states=True. progress: as for open().
        """
        words, _kept = _words(select)
        with self.call() as pointer, _reporting(progress, pointer):
            _check(_lib.tracebraid_export(pointer, form.encode(), str(path).encode(), words))
        totals = _ffi.new("struct tracebraid_totals *")
        _check(_lib.tracebraid_totals(self.pointer(), totals))
        return Totals(totals.events, totals.lines, totals.lost, bool(totals.some_lost))


def open(*paths, clock_source=None, warn=None, progress=None):  # pylint: disable=redefined-builtin # as in gzip and tarfile
    """Opens captures, and trace.dat files with the host's events, as one Trace.

    clock_source: how guests' times are converted; default: by the best that the captures have.
    warn: called with a line for each fault in a file.
    progress: called as progress(what, done, total): a word such as "merging", the bytes read so far, and their total.
    Captures that are opened by their index report none here.
    """
    return Trace(paths, clock_source, warn, progress=progress)


def follow(path, clock_source=None, warn=None, timeout=None):
    """Opens a capture that is being recorded, as a Trace with one iteration, which waits for events until the recording
    ends, or until timeout seconds (default: no limit) pass without data, as if the recorder had been killed.
    """
    return Trace([path], clock_source, warn, timeout)


def open_regions(*sources, program=None, warn=None):
    """Opens regions of guests, or dumps of guests' memory, as one Trace. The regions stay as they are.

    For a running guest, the trace contains the events that are unread when its region is copied.

    program: the path of `tracebraid`; default: the one installed with the library, or in PATH.
    """
    return Trace(sources, warn=warn, program=program)

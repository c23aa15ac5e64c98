# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings: the program `tracebraid` makes them."""

import errno
import json
import time

from ._library import WAIT_MS, _check, _ffi, _lib, _program


class Recording:
    """A recording by the program `tracebraid`; record() starts it, and the end of a `with` block stops it."""

    def __init__(self, path, options, program):
        words = [_ffi.new("char[]", str(word).encode()) for word in options]
        out = _ffi.new("struct tracebraid_recording **")
        _check(_lib.tracebraid_record(out, str(path).encode(), _ffi.new("char *[]", [*words, _ffi.NULL]),
                                      _program(program)))
        self._pointer = _ffi.gc(out[0], _lib.tracebraid_recording_free)
        self.status = None  # exit status of the program, once it has ended

    def fileno(self):
        """For select and selectors: readable when there are reports; -1: it has ended."""
        return _lib.tracebraid_recording_fd(self._pointer)

    def report(self, timeout=None):
        """The next report, a dict; None: the recording has ended. Fails with TimeoutError after timeout seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        line = _ffi.new("char **")
        while True:
            left = WAIT_MS if end is None else max(0, min(WAIT_MS, int(1000 * (end - time.monotonic()))))
            got = _lib.tracebraid_recording_next(self._pointer, left, line)
            if got == 1:
                return json.loads(_ffi.string(line[0]))
            if got == 0:
                return None
            if got != -errno.EAGAIN:
                _check(got)
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"no report within {timeout} s")

    def reports(self):
        """Iterates over all reports until the recording ends."""
        return iter(self.report, None)

    def started(self):
        """Waits until the recording has started and its capture exists. False: it has ended."""
        return any(report["type"] == "started" for report in self.reports())

    def stop(self):
        """Stops the recording, and waits for its end. Returns the exit status of `tracebraid record`: 0, or 3."""
        _check(_lib.tracebraid_recording_stop(self._pointer))
        return self.wait()

    def wait(self):
        """Waits until the recording has ended; as stop()."""
        for _ in self.reports():
            pass
        status = _ffi.new("int *")
        result = _lib.tracebraid_recording_wait(self._pointer, status)
        self.status = status[0]
        _check(result)
        return self.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            self.stop()


def record(path, *options, program=None):
    """Starts a recording into the capture `path`: record("web1.braid", "-r", "web1", "-e", "sched").

    options: the words of `tracebraid record`. program: as for open_regions().
    """
    return Recording(path, options, program)

# SPDX-License-Identifier: GPL-2.0-or-later
"""The shared library, by cffi and its header."""

import contextlib
import errno
import pathlib
import re

import cffi

WAIT_MS = 100  # for a recording, before Python's signals are handled
_HERE = pathlib.Path(__file__).resolve().parent


def _declarations():
    """The public headers without preprocessor lines."""
    for folder in (_HERE, _HERE.parents[1] / "include/tracebraid"):
        headers = [folder / name for name in ("tracebraid.h", "output.h", "recording.h")]
        if all(header.exists() for header in headers):
            text = "".join(header.read_text(encoding="utf-8") for header in headers)
            text = re.sub(r"(?s)#ifdef __cplusplus.*?#endif", "", text)
            return re.sub(r"(?m)^#.*$", "", text)
    raise ImportError("tracebraid.h, output.h or recording.h is missing: install them with 'make install'")


_ffi = cffi.FFI()
_ffi.cdef(_declarations())


def _load():
    """The library of the build, if this is its source tree; else the installed one."""
    built = _HERE.parents[1] / "build/libtracebraid.so.0"
    return _ffi.dlopen(str(built) if built.exists() else "libtracebraid.so.0")


_lib = _load()


class Error(OSError):
    """A function of the library failed; has its errno and message."""


class Closable:
    """What can be closed, and fails from then on. Closing it within a call of the library, from a function that the call
    runs or from another thread, fails: the call still uses it.
    """

    what = ""

    def __init__(self):
        self._pointer, self._calls = None, 0

    def pointer(self):
        """The library's object; fails once it is closed."""
        if not self._pointer:
            raise Error(errno.EBADF, f"the {self.what} is closed")
        return self._pointer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def begin_call(self):
        """Before a call that may run functions of the program, or take long; end_call() after it."""
        pointer = self.pointer()
        self._calls += 1
        return pointer

    def end_call(self):
        """After begin_call()."""
        self._calls -= 1

    @contextlib.contextmanager
    def call(self):
        """Both."""
        pointer = self.begin_call()
        try:
            yield pointer
        finally:
            self.end_call()

    def check_unused(self):
        """Fails within a call."""
        if self._calls:
            raise Error(errno.EBUSY, f"the {self.what} is in use: close it after the call that uses it")

    def close(self):
        """Frees it; may be called again."""
        self.check_unused()
        pointer, self._pointer = self._pointer, None
        if pointer:
            self._free(pointer)

    def _free(self, pointer):
        raise NotImplementedError


def _check(result):
    if result < 0:
        raise Error(-result, _text(_lib.tracebraid_error()))
    return result


def _text(pointer):
    return _ffi.string(pointer).decode("utf-8", "replace") if pointer else None


def _words(options):
    """Keyword arguments as the library takes them; the second result must outlive the first. An option without a value
    is True or False.
    """
    words = []
    for name, value in options.items():
        name = name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple, set)) else [value]:
            if one is not None and one is not False:
                words.append(_ffi.new("char[]", (name if one is True else f"{name}={one}").encode()))
    return _ffi.new("char *[]", [*words, _ffi.NULL]), words


@contextlib.contextmanager
def _reporting(progress, trace=None):
    """Meanwhile the library reports the progress of this thread's work to a function. What the function raises, such as
    KeyboardInterrupt, ends an analysis or an export of the trace, and is raised.
    """
    if not progress:
        yield
        return
    raised, stop = [], _ffi.new("int *")

    def failed(_kind, value, _traceback):
        raised.append(value)
        stop[0] = 1

    callback = _ffi.callback("void(void *, const char *, uint64_t, uint64_t)",
                             lambda _, what, done, total: progress(_text(what), done, total), onerror=failed)
    _lib.tracebraid_progress(callback, _ffi.NULL)
    if trace:
        _lib.tracebraid_stop_when(trace, stop)
    try:
        yield
    finally:
        _lib.tracebraid_progress(_ffi.NULL, _ffi.NULL)
        if trace:
            _lib.tracebraid_stop_when(trace, _ffi.NULL)
        if raised:
            raise raised[0]


def _program(path):
    return _ffi.new("char[]", str(path).encode()) if path else _ffi.NULL

# SPDX-License-Identifier: GPL-2.0-or-later
"""Captures as tables of SQLite."""

import errno
import functools
import pathlib

from ._library import Closable, Error, _check, _ffi, _lib, _text

_SQLITE = """
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_prepare_v2(struct sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_bind_parameter_count(sqlite3_stmt *);
int sqlite3_bind_null(sqlite3_stmt *, int);
int sqlite3_bind_int64(sqlite3_stmt *, int, int64_t);
int sqlite3_bind_double(sqlite3_stmt *, int, double);
int sqlite3_bind_text(sqlite3_stmt *, int, const char *, int, void *);
int sqlite3_bind_blob(sqlite3_stmt *, int, const void *, int, void *);
int sqlite3_step(sqlite3_stmt *);
int sqlite3_finalize(sqlite3_stmt *);
int sqlite3_column_count(sqlite3_stmt *);
const char *sqlite3_column_name(sqlite3_stmt *, int);
int sqlite3_column_type(sqlite3_stmt *, int);
int64_t sqlite3_column_int64(sqlite3_stmt *, int);
double sqlite3_column_double(sqlite3_stmt *, int);
const void *sqlite3_column_blob(sqlite3_stmt *, int);
int sqlite3_column_bytes(sqlite3_stmt *, int);
const char *sqlite3_errmsg(struct sqlite3 *);
"""
_SQLITE_ROW, _SQLITE_DONE = 100, 101
_SQLITE_INTEGER, _SQLITE_FLOAT, _SQLITE_TEXT, _SQLITE_BLOB = range(1, 5)


@functools.lru_cache(maxsize=None)
def _sqlite():
    """The libsqlite3 that the library uses; Python's own may be another one."""
    _ffi.cdef(_SQLITE)
    return _ffi.dlopen("libsqlite3.so.0")


class Rows:
    """The rows of a statement, read as they are taken: tuples. .columns are their names."""

    def __init__(self, database, statement, parameters):
        self._database, self._sqlite = database, _sqlite()
        text = _ffi.new("char[]", statement.encode())
        out, tail = _ffi.new("sqlite3_stmt **"), _ffi.new("char **")
        self._statement = None
        self._check(self._sqlite.sqlite3_prepare_v2(database.database(), text, -1, out, tail))
        if not out[0]:
            raise Error(errno.EINVAL, "there is no statement")
        self._statement = out[0]
        database.rows.add(self)
        try:
            if _ffi.string(tail[0]).strip():
                raise Error(errno.EINVAL, "there is more than one statement")
            self._bind(parameters)
        except Exception:
            self.close()
            raise
        self.columns = [_text(self._sqlite.sqlite3_column_name(self._statement, k))
                        for k in range(self._sqlite.sqlite3_column_count(self._statement))]

    def _check(self, result):
        if result not in (0, _SQLITE_ROW, _SQLITE_DONE):
            raise Error(errno.EIO, _text(self._sqlite.sqlite3_errmsg(self._database.database())))
        return result

    def _bind(self, parameters):
        count = self._sqlite.sqlite3_bind_parameter_count(self._statement)
        if count != len(parameters):
            raise Error(errno.EINVAL, f"number of parameters: the statement takes {count}, got {len(parameters)}")
        copied = _ffi.cast("void *", -1)
        for number, value in enumerate(parameters, 1):
            if value is None:
                self._check(self._sqlite.sqlite3_bind_null(self._statement, number))
            elif isinstance(value, int):
                self._check(self._sqlite.sqlite3_bind_int64(self._statement, number, value))
            elif isinstance(value, float):
                self._check(self._sqlite.sqlite3_bind_double(self._statement, number, value))
            elif isinstance(value, str):
                data = value.encode()
                self._check(self._sqlite.sqlite3_bind_text(self._statement, number, data, len(data), copied))
            else:
                self._check(self._sqlite.sqlite3_bind_blob(self._statement, number, bytes(value), len(value), copied))

    def _value(self, k):
        kind = self._sqlite.sqlite3_column_type(self._statement, k)
        if kind == _SQLITE_INTEGER:
            return self._sqlite.sqlite3_column_int64(self._statement, k)
        if kind == _SQLITE_FLOAT:
            return self._sqlite.sqlite3_column_double(self._statement, k)
        if kind not in (_SQLITE_TEXT, _SQLITE_BLOB):
            return None
        data = self._sqlite.sqlite3_column_blob(self._statement, k)  # before its size: it may convert
        size = self._sqlite.sqlite3_column_bytes(self._statement, k)
        data = bytes(_ffi.buffer(data, size)) if size else b""
        return data.decode("utf-8", "replace") if kind == _SQLITE_TEXT else data

    def __iter__(self):
        return self

    def __next__(self):
        if not self._statement:
            self._database.pointer()
            raise StopIteration
        try:
            with self._database.call():
                got = self._check(self._sqlite.sqlite3_step(self._statement))
            if got == _SQLITE_ROW:
                return tuple(self._value(k) for k in range(len(self.columns)))
        except Error:
            self.close()
            raise
        self.close()
        raise StopIteration

    def close(self):
        """Ends the statement; may be called again."""
        self._database.check_unused()
        statement, self._statement = self._statement, None
        if statement:
            self._sqlite.sqlite3_finalize(statement)
            self._database.rows.discard(self)


class Database(Closable):
    """Captures as tables: those of `tracebraid sql`, docs/sql.md. Statements can only read."""

    what = "database"

    def __init__(self, *paths, clock_source=None, warn=None):
        super().__init__()
        names = [_ffi.new("char[]", str(path).encode()) for path in paths]
        source = _ffi.new("char[]", clock_source.encode()) if clock_source else _ffi.NULL
        self._kept = _ffi.callback("void(void *, const char *)",
                                   lambda _, line: warn(_text(line))) if warn else _ffi.NULL
        out = _ffi.new("struct tracebraid_sql **")
        _check(_lib.tracebraid_sql_open(out, _ffi.new("char *[]", names), len(names), source, _ffi.NULL, self._kept,
                                        _ffi.NULL))
        self._pointer, self.rows = out[0], set()

    def database(self):
        """The sqlite3 database."""
        return _lib.tracebraid_sql_database(self.pointer())

    @property
    def tables(self):
        """The names of all tables."""
        found = []
        while True:
            name = _text(_lib.tracebraid_sql_table(self.pointer(), len(found)))
            if name is None:
                return found
            found.append(name)

    def execute(self, statement, parameters=()):
        """Runs one statement; `?` in it stands for the next parameter. Returns Rows."""
        return Rows(self, statement, tuple(parameters))

    def _free(self, pointer):
        """Statements end first."""
        for rows in list(self.rows):
            rows.close()
        _lib.tracebraid_sql_close(pointer)

    def __del__(self):
        if getattr(self, "_pointer", None):
            self.close()


def sql(captures, statement, parameters=()):
    """The rows of one SQL statement on a capture, or on several: a list of tuples.

        sql("web1.braid", "SELECT name, count(*) FROM events WHERE stream = ? GROUP BY name", ["web1"])
    """
    with Database(*([captures] if isinstance(captures, (str, pathlib.Path)) else captures)) as database:
        return list(database.execute(statement, parameters))

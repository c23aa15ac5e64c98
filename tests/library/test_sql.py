#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""SQL in Python: each recipe of docs/sql.md gives what `tracebraid sql` prints: test_sql.py CAPTURE"""

import json
import math
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True

from kit import AGENT, TOP, equal
import tracebraid


def same(a, b):
    """As JSON has them: a blob in hexadecimal, a real number rounded."""
    if isinstance(a, bytes):
        a = a.hex()
    return math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) else a == b


def check_recipes(capture):
    text = (TOP / "docs/sql.md").read_text(encoding="utf-8")
    statements = re.findall(r"(?ms)^```sql\n(.*?)^```", text)
    statements += ["SELECT * FROM events LIMIT 500", "SELECT * FROM sched_switch", "SELECT * FROM streams", "SELECT * FROM rings",
                   "SELECT 1 AS a, 2.5 AS b, 'x' AS c, NULL AS d, x'00ff' AS e"]
    count = 0
    with tracebraid.Database(capture) as database:
        for statement in statements:
            printed = subprocess.run([AGENT, "sql", "--json", capture, statement], stdout=subprocess.PIPE, text=True,
                                     check=True).stdout
            wanted = [json.loads(line) for line in printed.splitlines()]
            rows = database.execute(statement)
            found = list(rows)
            equal(len(found), len(wanted), f"rows of {statement}")
            for row, line in zip(found, wanted):
                equal(rows.columns, list(line), "columns")
                equal(all(map(same, row, line.values())), True, f"{row} of {line}")
            count += len(found)
    equal(len(statements) > 14, True, "recipes")
    print(f"ok   SQL in Python: {len(statements)} statements give the {count} rows that the command prints")


def refused(number, words, function, *arguments):
    try:
        list(function(*arguments))
    except tracebraid.Error as error:
        equal((error.errno, words in str(error)), (number, True), f"{error}, which should have '{words}'")
        return
    sys.exit(f"FAIL {arguments} was accepted")


def check_rest(capture):
    select = "SELECT count(*) FROM events WHERE stream = ? AND cpu = ?"
    equal(tracebraid.sql(capture, select, ["guest1", 1]),
          tracebraid.sql([capture, capture], "SELECT count(*) FROM events WHERE stream = 'guest1' AND cpu = 1"),
          "parameters")
    equal(tracebraid.sql(capture, "SELECT ?, ?, ?, ?, ?", [None, 2 ** 62, 0.5, "é", b"\0x"]),
          [(None, 2 ** 62, 0.5, "é", b"\0x")], "values")
    refused(2, "/nonexistent", tracebraid.sql, "/nonexistent", "SELECT 1")
    with tracebraid.Database(capture) as database:
        equal({"events", "sched_switch", "vcpu_state"} <= set(database.tables), True, "tables")
        for statement, number, words in (
                ("SELECT nothing FROM events", 5, "nothing"), ("SELECT 1; SELECT 2", 22, "more than one"),
                ("", 22, "no statement"), ("SELECT ?", 22, "takes 1, got 0"), ("ATTACH '/tmp/x' AS x", 5, "authorized"),
                ("CREATE TABLE x (y)", 5, "authorized"), ("DELETE FROM events", 5, "modified"),
                ("SELECT load_extension('x')", 5, "load_extension")):
            refused(number, words, database.execute, statement)
        try:
            database.execute("SELECT ?", [2 ** 64])
            sys.exit("FAIL a number that does not fit was accepted")
        except OverflowError:
            pass
        equal(list(database.execute("CREATE TEMP TABLE x AS SELECT 1 AS one")), [], "a temporary table")
        equal(list(database.execute("SELECT * FROM x")), [(1,)], "its rows")
        unfinished = database.execute("SELECT ns FROM events")
        equal(len(next(unfinished)), 1, "the first row")
    try:
        next(unfinished)
    except tracebraid.Error as error:
        equal(error.errno, 9, "rows of a closed database")
    else:
        sys.exit("FAIL a closed database has rows")
    refused(9, "closed", database.execute, "SELECT 1")
    print("ok   SQL in Python: parameters, values, refusals")


def main():
    capture = str(pathlib.Path(sys.argv[1]).resolve())
    check_recipes(capture)
    check_rest(capture)


if __name__ == "__main__":
    main()

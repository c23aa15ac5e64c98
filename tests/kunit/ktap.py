# SPDX-License-Identifier: GPL-2.0-or-later
"""Parses the KTAP results in a kernel's log: suites, their cases, and missing results."""

import dataclasses
import re

# "[    1.234567] " before each line, and on some kernels the caller after it: "[    T1] ".
_STAMP = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\](?:\[[^]]*\])? ?")
_PLAN = re.compile(r"^1\.\.(\d+)$")
_RESULT = re.compile(r"^(not ok|ok) (\d+)(?: -)? ?([^#]*?)(?: *# *(.*))?$")
_SUBTEST = re.compile(r"^# Subtest: (.*)$")


@dataclasses.dataclass
class Suite:
    """One suite as far as the log has it."""

    name: str
    planned: int = -1
    passed: list = dataclasses.field(default_factory=list)
    failed: list = dataclasses.field(default_factory=list)
    skipped: list = dataclasses.field(default_factory=list)
    verdict: str = ""  # "ok" or "not ok"; "": it did not end

    @property
    def cases(self):
        return len(self.passed) + len(self.failed) + len(self.skipped)

    def complaints(self):
        """Its errors, a phrase for each."""
        found = [f"{self.name}: {case}" for case in self.failed]
        if not self.verdict:
            found.append(f"{self.name} did not end")
        elif self.cases != self.planned:
            found.append(f"{self.name} has {self.cases} results, not {self.planned}")
        elif self.verdict != "ok" and not self.failed:
            found.append(self.name)
        return found


def parse(log):
    """The suites of a log by name, in its order. A result at the top level without cases is a suite of its own."""
    suites, current = {}, None
    for line in log.splitlines():
        line = _STAMP.sub("", line.rstrip("\r"))
        depth, text = (len(line) - len(line.lstrip())) // 4, line.strip()
        subtest, plan, result = _SUBTEST.match(text), _PLAN.match(text), _RESULT.match(text)
        if depth == 1 and subtest:
            current = suites[subtest[1]] = Suite(subtest[1])
        elif depth == 1 and plan and current:
            current.planned = int(plan[1])
        elif depth == 1 and result and current:
            _list_of(current, result).append(result[3])
        elif depth == 0 and result:
            if current is None or current.name != result[3]:
                current = suites[result[3]] = Suite(result[3], planned=0)
            current.verdict, current = result[1], None
    return suites


def _list_of(suite, result):
    if (result[4] or "").upper().startswith("SKIP"):
        return suite.skipped
    return suite.passed if result[1] == "ok" else suite.failed

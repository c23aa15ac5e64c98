#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Changes random lines of some rooms, one at a time, and reports each change that no unit test detects.

All changes are compiled into one set of programs, and an environment variable selects one. A first run of each test
program records which of the changes it reaches: a change is tested by these programs only."""

import argparse
import collections
import concurrent.futures
import itertools
import os
import pathlib
import random
import re
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
TREE = TOP / "build/mutants/tree"
REACHED = TOP / "build/mutants/reached"
MOST = 4096  # changes: the size of a file of reached ones
SWITCH = f"""// SPDX-License-Identifier: GPL-2.0-or-later
/* Which change is selected, and which ones are reached. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

_Bool braid_mutant(int number);

static int selected = -1;
static char unused[{MOST}], *reached = unused;

__attribute__((constructor)) static void begin(void)
{{
	const char *path = getenv("BRAID_REACHED"), *number = getenv("BRAID_MUTANT");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map = fd < 0 ? MAP_FAILED : mmap(NULL, {MOST}, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (number)
		selected = atoi(number);
	if (map != MAP_FAILED)
		reached = map;
	if (fd >= 0)
		close(fd);
}}

_Bool braid_mutant(int number)
{{
	reached[number] = 1;
	return number == selected;
}}
"""
# An expression on a line of its own, and a statement that does not declare anything.
EXPRESSION = re.compile(r'^(\t+(?:(?:\} else )?(?:if|while) \(|return |[^=()"]+ [-+|&]?= ))(.+?)(\)(?: \{)?|;)$')
STATEMENT = re.compile(r"^(\t+)((?:[a-z_]\w*(?:(?:->|\.)\w+|\[[^]]*\])*) (?:[-+|&^*/]|<<|>>)?= .+;|"
                       r"[a-z_]\w*(?:->\w+)?\(.*\);|[a-z_][\w.>-]*(?:\+\+|--);)$")
OPERATORS = ((" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
             (" && ", " || "), (" || ", " && "), (" + ", " - "), (" - ", " + "), (" * ", " + "), (" / ", " * "))


def bare(text):
    """The text with its strings and characters blanked."""
    return re.sub(r"'(?:\\.|[^'\\])+'|\"(?:\\.|[^\"\\])*\"", lambda match: "_" * len(match[0]), text)


def balanced(text):
    """Whether the parentheses of a text close each other, so that it is a whole expression."""
    depths = list(itertools.accumulate({"(": 1, ")": -1}.get(letter, 0) for letter in bare(text)))
    return depths[-1] == 0 and min(depths) == 0


def changes(text):
    """The texts with one operator replaced, or one constant a greater one."""
    places = [(match.start(), old, new) for old, new in OPERATORS for match in re.finditer(re.escape(old), bare(text))]
    places += [(match.start(), match[0], str(int(match[0]) + 1)) for match in re.finditer(r"\b\d+\b", bare(text))]
    return [text[:at] + new + text[at + len(old):] for at, old, new in places]


def mutate(line, number, choice):
    """(the line with a switch, the changed line), or None if the line is not suitable."""
    expression, statement = EXPRESSION.match(line), STATEMENT.match(line)
    possible = []
    if expression and balanced(expression[2]):
        head, text, tail = expression.groups()
        others = changes(text) + ([f"!({text})"] if tail[0] == ")" else [])
        possible += [(f"{head}braid_mutant({number}) ? ({other}) : ({text}){tail}", head + other + tail) for other in others]
    if statement and balanced(statement[2]):
        head, text = statement.groups()
        possible.append((f"{head}{{ if (!braid_mutant({number})) {{ {text} }} }}", f"{head}/* {text} */"))
    return choice.choice(possible) if possible else None


def compiles(path):
    """Whether a file does: a line may be a part of a statement, or the changed one have other types."""
    return not subprocess.run(["gcc", "-fsyntax-only", "-w", "-Werror=int-conversion", "-std=gnu11", "-D_GNU_SOURCE", "-I.",
                               "-Iinclude", path], cwd=TREE, stderr=subprocess.DEVNULL, check=False).returncode


def make_tree(rooms, count, choice):
    """A copy of the tree with @count changes: a list of (file, line number, old line, new line)."""
    subprocess.run(["rm", "-rf", TREE], check=True)
    TREE.mkdir(parents=True)
    subprocess.run("git ls-files -z | xargs -0 cp --parents -t build/mutants/tree", shell=True, check=True, cwd=TOP)
    (TREE / "host_agent/util/mutant.c").write_text(SWITCH)
    texts = {path: path.read_text().split("\n") for room in rooms for path in sorted((TREE / room).glob("*.c"))}
    lines = [(path, number) for path, text in texts.items() for number in range(len(text))]
    choice.shuffle(lines)
    mutants = []
    for path, number in lines:
        before = texts[path][number]
        if len(mutants) < count and (found := mutate(before, len(mutants), choice)):
            texts[path][number] = found[0]
            path.write_text("\n".join(["_Bool braid_mutant(int number);", *texts[path][1:]]))
            if compiles(path):
                mutants.append((path.relative_to(TREE), number + 1, before.strip(), found[1].strip()))
            else:
                texts[path][number] = before
                path.write_text("\n".join(["_Bool braid_mutant(int number);", *texts[path][1:]]))
    return mutants


def build(mutants):
    """Compiles the unit programs. The compiler would warn of some changed lines."""
    make = ["nice", "-n", "5", "make", f"-j{os.cpu_count()}"]
    files = sorted({str(path.with_suffix(".o")) for path, *_ in mutants})
    programs = [f"build/address/{path.stem}" for path in sorted((TREE / "tests/unit").glob("test_*.c"))]
    for goals in (["CFLAGS=-O3 -g -w", *[f"build/{tree}{file}" for tree in ("obj/", "address/obj/") for file in files]],
                  [*programs, "build/address/tracebraid", "build/make_big_capture"]):
        subprocess.run([*make, *goals], check=True, cwd=TREE, stdout=subprocess.DEVNULL)
    return programs


def test(program, limit, **environment):
    """Whether a test program passes, and its seconds. What uses the limit up hangs, or allocates without an end."""
    began = time.monotonic()
    options = {"ASAN_OPTIONS": "mmap_limit_mb=8000", **environment}
    done = subprocess.run(["nice", "-n", "5", "timeout", "-k", "5", str(limit), "prlimit", f"--fsize={8 << 30}",
                           "setarch", "-R", program], cwd=TREE, env={**os.environ, **options},
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0, time.monotonic() - began


def reach(program):
    """(program, seconds, the changes that it reaches); None if it fails without any change."""
    file = REACHED / pathlib.Path(program).name
    file.write_bytes(bytes(MOST))
    passed, seconds = test(program, 1200, BRAID_REACHED=str(file))
    if not passed:
        print(f"left out, because it fails without any change: {program}", flush=True)
        return None
    return program, seconds, {number for number, byte in enumerate(file.read_bytes()) if byte}


def killer(number, programs, pool):
    """What detects a change: the name of a program, or None. The same program never runs twice at a time."""
    able = [(program, seconds) for program, seconds, reached in programs if number in reached]
    for first in range(0, len(able), os.cpu_count()):
        some = able[first:first + os.cpu_count()]
        passed = pool.map(lambda one: test(one[0], 60 + 10 * int(one[1]), BRAID_MUTANT=str(number))[0], some)
        for (program, _), well in zip(some, list(passed)):
            if not well:
                return program
    return None


def main():
    """Exit status 1 if a change is not detected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="number of changes")
    parser.add_argument("--seed", type=int, help="of the choice of lines")
    parser.add_argument("rooms", nargs="+", help="folders of C files")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    mutants = make_tree(arguments.rooms, min(arguments.count, MOST), random.Random(seed))
    programs = build(mutants)
    REACHED.mkdir(exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        programs = list(filter(None, pool.map(reach, programs)))
        found = collections.Counter()
        for number, (path, line, old, new) in enumerate(mutants):
            # Those that detected most so far first, then the fastest ones.
            programs.sort(key=lambda entry: (-found[entry[0]], entry[1]))
            reached = sum(number in entry[2] for entry in programs)
            by = killer(number, programs, pool)
            found[by] += 1
            verdict = f"detected by {by}" if by else f"NOT DETECTED by the {reached} programs that reach it"
            print(f"{number}: {verdict}: {path}:{line}: {old}  ->  {new}", flush=True)
    print(f"{len(mutants) - found[None]} of {len(mutants)} changes detected")
    return 1 if found[None] else 0


if __name__ == "__main__":
    sys.exit(main())

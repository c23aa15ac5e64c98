# SPDX-License-Identifier: GPL-2.0-or-later
"""Control groups that a case makes for processes of its own, to freeze them or to limit their CPU time."""

import os
import pathlib


def _mounts():
    """Each hierarchy of the machine: its path, whether it is of version 1, and its groups' controllers."""
    for line in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, path, kind, options, *_ = line.split()
        path = pathlib.Path(path)
        if kind == "cgroup":
            yield path, True, options.split(",")
        elif kind == "cgroup2":
            yield path, False, (path / "cgroup.subtree_control").read_text(encoding="ascii").split()


class Group:
    """A group with processes, below the root of a hierarchy; close() puts them back, and removes it."""

    controller = None  # of version 1

    def __init__(self, root, is_v1, name):
        self.path, self.is_v1 = root / name, is_v1
        self.homes = {}
        self.path.mkdir()

    def __str__(self):
        return f"{self.path.parent} (version {1 if self.is_v1 else 2})"

    def read(self, file):
        """A file's text."""
        return (self.path / file).read_text(encoding="ascii")

    def write(self, file, value):
        """Writes a value to a file."""
        (self.path / file).write_text(f"{value}\n", encoding="ascii")

    def add(self, pid):
        """Moves a process into the group."""
        root = self.path.parent
        # number:controllers:path; version 2 has no controllers.
        for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if self.controller in controllers.split(",") if self.is_v1 else not controllers:
                self.homes[pid] = root / path.lstrip("/")
        self.write("cgroup.procs", pid)

    def close(self):
        """Lets the processes run, moves them to where they came from, and removes the group."""
        self.release()
        for pid, home in self.homes.items():
            if os.path.exists(f"/proc/{pid}"):
                (home / "cgroup.procs").write_text(f"{pid}\n", encoding="ascii")
        self.path.rmdir()

    def release(self):
        """Ends what the group does to its processes."""


class Freezer(Group):
    """A group whose processes can be frozen."""

    controller = "freezer"

    def freeze(self):
        """Begins to freeze the processes."""
        self.write(*(("freezer.state", "FROZEN") if self.is_v1 else ("cgroup.freeze", 1)))

    def is_frozen(self):
        """Whether all of them are frozen."""
        return self.read("freezer.state") == "FROZEN\n" if self.is_v1 else "frozen 1\n" in self.read("cgroup.events")

    def release(self):
        self.write(*(("freezer.state", "THAWED") if self.is_v1 else ("cgroup.freeze", 0)))


class Quota(Group):
    """A group whose processes may have a limited CPU time."""

    controller = "cpu"

    def limit(self, quota_us, period_us):
        """Limits their CPU time in each period."""
        if self.is_v1:
            self.write("cpu.cfs_period_us", period_us)
            self.write("cpu.cfs_quota_us", quota_us)
        else:
            self.write("cpu.max", f"{quota_us} {period_us}")

    def throttled(self):
        """(in how many periods, for how many ns) the processes were throttled."""
        stat = dict(line.split() for line in self.read("cpu.stat").splitlines())
        ns = int(stat["throttled_time"]) if self.is_v1 else 1000 * int(stat["throttled_usec"])
        return int(stat["nr_throttled"]), ns

    def release(self):
        self.write(*(("cpu.cfs_quota_us", -1) if self.is_v1 else ("cpu.max", "max")))


def groups(ctx, kind):
    """A new group of this kind in each hierarchy that offers it here: none, one, or one of each version."""
    made = []
    for root, is_v1, controllers in _mounts():
        # Version 2 freezes without a controller.
        if kind.controller not in controllers and (is_v1 or kind is not Freezer):
            continue
        try:
            made.append(kind(root, is_v1, f"braid-{ctx.dir.name}-{os.getpid()}"))
        except OSError as error:
            print(f"     {root}: {error.strerror}")
            continue
        ctx.defer(made[-1].close)
    return made

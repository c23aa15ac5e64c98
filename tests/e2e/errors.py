# SPDX-License-Identifier: GPL-2.0-or-later
"""What can go wrong with the rig, each under a name of its own, because tests expect some of it."""

import re

# What a kernel says when something is wrong with it.
COMPLAINTS = re.compile(
    r"\bWARNING: |\bBUG: |\bOops: |general protection|Kernel panic|[Uu]nable to handle|"
    r"rcu.*(?:detected stall|detected expedited stall|kthread starved)|soft lockup|hard LOCKUP|"
    r"possible (?:circular|recursive|irq lock)|inconsistent lock state|suspicious RCU usage|held lock freed|"
    r"blocked for more than \d+ seconds|unreferenced object|refcount_t: |KASAN: |KCSAN: |UBSAN: |"
    r"scheduling while atomic|sleeping function called|list_(?:add|del) corruption|[Bb]ad page state")


class RigError(Exception):
    """The rig or the machine it runs on is at fault: a missing package, a file that is not there."""


class GuestError(RigError):
    """Something happened to a guest; the message ends with the tail of its console."""


class GuestTimeout(GuestError):
    """A guest did not do something in time."""


class GuestNotReady(GuestTimeout):
    """A guest's kernel did not come as far as its first process, where nothing of ours runs yet."""


class GuestGone(GuestError):
    """QEMU has ended while something was expected of the guest."""


class GuestReset(GuestError):
    """The guest started anew (reboot, panic, triple fault) while something was expected of it."""


class CommandFailed(GuestError):
    """A command in a guest, that had to succeed, did not."""


class DmesgError(GuestError):
    """A guest's kernel complained."""

# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors of the rig; each has a class of its own, because tests expect some of them."""

import re

# Messages of a kernel that reports a fault.
COMPLAINTS = re.compile(
    r"\bWARNING: |\bBUG: |\bOops: |general protection|Kernel panic|[Uu]nable to handle|"
    r"rcu.*(?:detected stall|detected expedited stall|kthread starved)|soft lockup|hard LOCKUP|"
    r"possible (?:circular|recursive|irq lock)|inconsistent lock state|suspicious RCU usage|held lock freed|"
    r"blocked for more than \d+ seconds|unreferenced object|refcount_t: |KASAN: |KCSAN: |UBSAN: |"
    r"scheduling while atomic|sleeping function called|list_(?:add|del) corruption|[Bb]ad page state|"
    r"enqueued on deprecated workqueue")


class RigError(Exception):
    """The rig or the machine it runs on is at fault: a missing package, a file that is not there."""


class KernelUnavailable(RigError):
    """The machine's registry does not have this kernel."""


class GuestError(RigError):
    """Something happened to a guest; the message ends with the tail of its console."""


class GuestTimeout(GuestError):
    """A guest did not do something in time."""


class GuestNotReady(GuestTimeout):
    """A guest's kernel did not reach its first process, before which none of our code runs; or QEMU crashed before."""


class GuestGone(GuestError):
    """QEMU has ended while something was expected of the guest."""


class GuestReset(GuestError):
    """The guest restarted (reboot, panic, triple fault) while an answer was expected."""


class CommandFailed(GuestError):
    """A command in a guest failed that had to succeed."""


class DmesgError(GuestError):
    """A guest's kernel complained."""

# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between the emulated machines of the kernels' architectures."""

import dataclasses
import pathlib

import host
import qemu


@dataclasses.dataclass(frozen=True)
class Machine:
    """A machine as QEMU emulates it."""

    qemu: object  # returns the path of the program
    board: str
    cpu: str  # on TCG
    accel: str  # the only one that is possible; "auto": to be tried
    mem: str
    patience: int  # factor of all limits of waits
    control: tuple  # QEMU's arguments for the second serial port, the control port of PID 1
    boot_args: str  # for the kernel
    cc: str  # the compiler of programs that run in the guest
    select: pathlib.Path  # the program that a guest selects with
    registers: tuple  # of a function's first arguments, as kprobes name them
    returns_to: str  # at the start of a function, what it returns to
    tick: str  # an event of the timer's interrupt
    openat: int  # the number of this system call
    has_nmi: bool  # and tests/e2e/storm sends it


# Kernel arguments and their reasons:
#   quiet                  a serial console takes most of an emulated guest's boot time; PID 1 makes it verbose again
#   panic=-1, oops=panic, panic_on_warn=1   a fault becomes a reset at once, which ends all waits with GuestReset
#   mitigations=off, cryptomgr.notests   a tenth of the boot time each, and irrelevant for the tests
#   tsc=reliable           otherwise the guest marks its emulated TSC unstable and falls back to the HPET
#   no_timer_check         the IO-APIC timer check needs timely interrupts, and occasionally fails on a busy host
#   noirqdebug             with threaded interrupts those of the UART look spurious, and its interrupt is disabled
#   control_port           not the kernel's: PID 1 finds it in its environment
_ALL = "quiet panic=-1 oops=panic panic_on_warn=1 mitigations=off cryptomgr.notests"

X86 = Machine(qemu.program, "pc", "max", "auto", "256M", 1, ("-serial", "chardev:control"),
              f"console=ttyS0 {_ALL} tsc=reliable no_timer_check noirqdebug", "gcc", host.BUILD / "tracebraid-select",
              ("%di", "%si", "%dx"), "$stack0", "irq_vectors:local_timer_entry", 257, True)

# "virt" has one UART. Pointer authentication by the architecture's own cipher would take much of the emulation's time.
ARM64 = Machine(qemu.arm_program, "virt", "max,pauth-impdef=on",
                "tcg", "512M", 3, ("-device", "pci-serial,chardev=control"),
                f"console=ttyAMA0 {_ALL} control_port=/dev/ttyS0", str(host.ROOT / "tests/arm64/cc.sh"),
                host.BUILD / "arm64/tracebraid-select", ("%x0", "%x1", "%x2"), "%lr",
                "irq:irq_handler_entry", 56, False)


def of(kernel):
    """The machine that a kernel runs on, by the kernel's name in host.find_kernel()."""
    return ARM64 if kernel in host.ARM64_KERNELS else X86

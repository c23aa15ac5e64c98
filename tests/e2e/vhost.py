# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests with the virtio device: QEMU's front ends for it, and the driver's module."""

import re

import host
import machines
import qemu
from harness import CaseUnavailable
from kit import NEEDS, TREE

VIRTIO_NEEDS = (*NEEDS, "module:tracebraid_virtio")
# Loaded in this order; a module that the kernel has built in is missing.
MODULES = ("drivers/virtio/virtio_ring", "drivers/virtio/virtio", "drivers/virtio/virtio_pci_legacy_dev",
           "drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci")


def _constant(name):
    text = (host.ROOT / "include/tracebraid/virtio.h").read_text(encoding="ascii")
    return int(re.search(rf"^#define {name}\s+(\d+)", text, re.MULTILINE)[1])


VIRTIO_ID = _constant("BRAID_VIRTIO_ID")
QEMU_ID = _constant("BRAID_VIRTIO_ID_QEMU")
BLOCK_ID = 2
# Every QEMU's front end for block devices passes configuration and queues on, and takes up a new
# agent.
BLOCK = "vhost-user-blk-pci,chardev=tb,num-queues=2"
GENERIC_NAME = "vhost-user-test-device-pci"
GENERIC = f"{GENERIC_NAME},chardev=tb,virtio-id={QEMU_ID},num_vqs=2,config_size=24"


def need_generic(ctx):
    """Skips a case for QEMU's generic front end where QEMU has none."""
    path = machines.of(ctx.kernel).qemu()
    if not qemu.has_device(path, GENERIC_NAME):
        raise CaseUnavailable(f"{qemu.describe(path)} has no {GENERIC_NAME}")


def make_guest(ctx, name, socket, device=BLOCK, mem=None, reconnects=None, files=()):
    """A guest in QEMU with the device, not started; all modules are in its initramfs."""
    if reconnects is None:
        reconnects = device == BLOCK  # QEMU's generic front end cannot
    machine = machines.of(ctx.kernel)
    modules = filter(None, map(ctx.kernel_module, MODULES))
    mem = host.DEBUG_MEM if ctx.kernel == host.DEBUG_KERNEL else mem or machine.mem
    again = f",{qemu.reconnect(machine.qemu())}" if reconnects else ""
    return ctx.guest(name, shm=None, initrd=ctx.initrd(*modules, *files), mem=mem, qemu_args=(
        "-object", f"memory-backend-memfd,id=ram,size={mem},share=on", "-machine", "memory-backend=ram",
        "-chardev", f"socket,id=tb,path={socket}{again}", "-device", device))


def boot(ctx, name, socket, device=BLOCK, **options):
    """The same, booted, and all modules loaded except the driver's own."""
    guest = make_guest(ctx, name, socket, device, **options)
    guest.boot()
    load_modules(ctx, guest)
    return guest


def load_modules(ctx, guest):
    """Loads the kernel modules that a virtio device needs."""
    for path in filter(None, map(ctx.kernel_module, MODULES)):
        guest.insmod(path.stem)


def load_virtio(ctx, guest, device_id=BLOCK_ID):
    """Loads the driver's module for virtio, and waits until the agent has enabled the storm's event."""
    guest.insmod("tracebraid_virtio", f"virtio_id={device_id}")
    wait_for_agent(ctx, guest)


def wait_for_agent(ctx, guest, event="storm/storm"):
    """Waits until the agent has enabled an event."""
    ctx.wait_until(lambda: guest.run(f"cat {TREE}/events/{event}/enable").strip() == "0*",
                   "the agent to enable the event", timeout=60)

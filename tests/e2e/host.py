# SPDX-License-Identifier: GPL-2.0-or-later
"""The rig's inputs from the host: packaged kernels, an initramfs, the TSC's frequency."""

import functools
import glob
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess

from errors import KernelUnavailable, RigError

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build"
RIG_DIR = BUILD / "e2e"

# This machine's kernels for tests, by series and flavour, the oldest first, with the package that
# depends on the newest of each.
KERNEL_PACKAGES = {name: f"linux-image-{package}" for name, package in
                   (line.split("\t") for line in subprocess.run([ROOT / "tests/packages.sh", "--kernels"], check=True, text=True,
                                                                stdout=subprocess.PIPE).stdout.splitlines())}
OLDEST_KERNEL = next(iter(KERNEL_PACKAGES))

# The newest kernel that Debian packages, got by tests/kernels/fetch.sh, and its flavours.
NEWEST_KERNELS = ("newest", "newest-rt", "newest-cloud")

# Debian's stable one for arm64, with pages of 4 and 16 KiB, got by the same script, and one with
# pages of 64 KiB, built by tests/kernels/build.sh. `make check` runs two cases, others run on
# request.
ARM64_KERNELS = ("arm64", "arm64-16k", "arm64-64k")

# A kernel with debug checks: built by tests/kernels/build.sh, run on request, and this much slower.
DEBUG_KERNEL = "debug"
DEBUG_PATIENCE = 8
DEBUG_MEM = "768M"

# User-mode Linux, built by the same script: it has virtio devices over vhost-user, without QEMU.
UML_KERNEL = "uml"


def need_program(name, package):
    """The path of a program; raises an error that names its package if it is missing."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        raise RigError(f"{name} is missing: install the package {package}")
    return path


def _version_key(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def find_debug_kernel():
    """The path of the debug kernel if tests/kernels/build.sh has built it."""
    return BUILD / "kernels" / DEBUG_KERNEL / "arch/x86/boot/bzImage"


def find_uml_kernel():
    """The path of the user-mode Linux program, likewise."""
    return BUILD / "kernels" / UML_KERNEL / "linux"


def _find_fetched_kernel(kernel):
    missing = BUILD / "kernels" / f"{kernel.partition('-')[0]}.missing"
    if missing.exists():
        raise KernelUnavailable(missing.read_text(encoding="utf-8").strip())
    folder = BUILD / "kernels" / kernel
    if not folder.exists():
        raise RigError(f"{folder.relative_to(ROOT)} is missing: tests/kernels/fetch.sh gets it")
    return folder.resolve() / "vmlinuz"


def modules_folder(krel):
    """What a machine that runs this kernel has as /lib/modules/<release>."""
    fetched = BUILD / "kernels" / krel
    return fetched if fetched.exists() else pathlib.Path("/lib/modules", krel)


def find_kernel(kernel):
    """The bzImage for one of KERNEL_PACKAGES (the newest in /boot), NEWEST_KERNELS, DEBUG_KERNEL, or the path given; or
    UML_KERNEL; or the Image for one of ARM64_KERNELS.
    """
    if kernel in NEWEST_KERNELS + ARM64_KERNELS:
        return _find_fetched_kernel(kernel)
    if kernel in (DEBUG_KERNEL, UML_KERNEL):
        path = find_debug_kernel() if kernel == DEBUG_KERNEL else find_uml_kernel()
        if not path.is_file():
            raise RigError(f"{path.relative_to(ROOT)} is missing: tests/kernels/build.sh {kernel} builds it")
        return path
    if kernel not in KERNEL_PACKAGES:
        path = pathlib.Path(kernel)
        if not path.is_file():
            raise RigError(f"no kernel {kernel!r}: expected one of {', '.join(KERNEL_PACKAGES)} or a file")
        return path
    series, _, flavour = kernel.partition("-")
    wanted = re.compile(rf"vmlinuz-({re.escape(series)}\.\d[^-]*(?:-\d+)?){'-' * bool(flavour)}{flavour}-amd64$")
    found = [path for path in glob.glob(f"/boot/vmlinuz-{series}.*") if wanted.search(path)]
    if not found:
        raise RigError(f"no kernel {kernel} in /boot: install the package {KERNEL_PACKAGES[kernel]}")
    return pathlib.Path(max(found, key=_version_key))


@functools.lru_cache(maxsize=None)
def kernel_release(path):
    """The release as `uname -r` prints it, read from the bzImage itself, or from user-mode Linux's build."""
    if path == find_uml_kernel():
        return (path.parent / "include/config/kernel.release").read_text(encoding="ascii").strip()
    with open(path, "rb") as image:
        head = image.read(0x10000)
    if head[0x38:0x3C] == b"ARM\x64":  # it has no release; its folder is named after that
        return path.parent.name
    if head[0x202:0x206] != b"HdrS" or len(head) < 0x210:
        raise RigError(f"{path} is not a bzImage")
    start = struct.unpack_from("<H", head, 0x20E)[0] + 0x200
    return head[start:].split(b"\0", 1)[0].split()[0].decode()


def _decompress(payload):
    if payload.startswith(b"\xfd7zXZ\0"):
        return lzma.decompress(payload)
    if payload.startswith(b"\x28\xb5\x2f\xfd") and shutil.which("zstd"):
        return subprocess.run(["zstd", "-dc"], input=payload, stdout=subprocess.PIPE, check=True).stdout
    return None


def boot_image(path):
    """The file that QEMU should boot for this bzImage: the ELF image inside it, if that can be extracted. For arm64 the
    Image itself.

    Inflating the kernel takes more than half of an emulated guest's boot; the host does it once, in a second,
    and QEMU enters the ELF image through its PVH note. A 6.1 with KASAN hangs in that case.
    """
    path = pathlib.Path(path)
    if path == find_debug_kernel():
        return path
    image = RIG_DIR / f"vmlinux-{kernel_release(path)}"
    if image.exists() and image.stat().st_mtime >= path.stat().st_mtime:
        return image
    data = path.read_bytes()
    if data[0x38:0x3C] == b"ARM\x64":
        return path
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = ((data[0x1F1] or 4) + 1) * 512 + offset
    elf = _decompress(data[start : start + length - 4])  # the last 4 bytes are the length
    if not elf or not elf.startswith(b"\x7fELF"):
        return path
    RIG_DIR.mkdir(parents=True, exist_ok=True)
    aside = image.with_name(f"{image.name}.{os.getpid()}")
    aside.write_bytes(elf)
    aside.rename(image)
    return image


def build_program(name, *options, source=None, cc="gcc"):
    """Compiles this folder's <source>.c, by default <name>.c, to a program of that name.

    cc: the compiler, for a guest of another architecture.
    Returns its path, or None if it does not compile on this machine.
    """
    need_program(cc, "gcc")
    folder = RIG_DIR if cc == "gcc" else RIG_DIR / "cross"
    folder.mkdir(parents=True, exist_ok=True)
    program, source = folder / name, HERE / f"{source or name}.c"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        aside = program.with_name(f"{name}.{os.getpid()}")
        if subprocess.run([cc, "-O2", "-Wall", "-Wextra", *options, "-o", aside, source],
                          stderr=subprocess.DEVNULL, check=False).returncode:
            return None
        aside.rename(program)
    return program


@functools.lru_cache(maxsize=None)
def tsc_khz():
    """The host's TSC frequency, or None if unavailable."""
    program = build_program("tsckhz")
    return program and int(subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout)


def make_initrd(out, krel, files=()):
    """Builds an initramfs with `files` at `out` (under build/); mkinitramfs.sh says where they go."""
    done = subprocess.run([HERE / "mkinitramfs.sh", out, krel, *files], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode:
        raise RigError(f"no initramfs: {done.stdout.strip()}")
    return pathlib.Path(out)


def host_boot_id():
    """The host's boot id, for caches that are valid only during one boot."""
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()

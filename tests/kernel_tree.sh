#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the driver in a kernel's own tree: built in, as modules, and built into a kernel without
# modules. kernel_tree.sh KERNEL: of build/kernels, whose source is copied by links
set -eu

kernel=$(readlink -f "build/kernels/$1")
source=$(readlink -f "$kernel/source")
work=$(pwd)/build/kernel-tree
linux=$work/linux
out=$work/out
rm -rf "$work"
mkdir -p "$out"
unset MAKEFLAGS MFLAGS MAKELEVEL ARCH KBUILD_OUTPUT O V

fail() {
	echo "kernel-tree: $*" >&2
	exit 1
}

# A folder that is no kernel's is left as it is.
! guest_driver/kernel_tree.sh "$work" >"$work/said" 2>&1 || fail 'a folder without a kernel is accepted'
grep -q 'is not the source of a kernel' "$work/said" || fail "it says: $(cat "$work/said")"
[ ! -e "$work/drivers" ] || fail 'it made a folder'

cp -al "$source" "$linux"
# The second time it replaces the first.
guest_driver/kernel_tree.sh "$linux" >/dev/null
guest_driver/kernel_tree.sh "$linux"
[ "$(grep -c tracebraid "$linux/drivers/misc/Kconfig")" = 1 ] || fail 'Kconfig has it twice'
[ "$(grep -c tracebraid "$linux/drivers/misc/Makefile")" = 1 ] || fail 'Makefile has it twice'
! grep -q tracebraid "$source/drivers/misc/Kconfig" || fail 'it changed another tree'

kmake() {
	nice make -C "$linux" ARCH=um O="$out" -j"${JOBS:-$(nproc)}" "$@" >"$work/log" 2>&1 ||
		{ tail -40 "$work/log" >&2; exit 1; }
	! grep -E 'warning:|error:' "$work/log" | grep tracebraid || exit 1
}

# NAME, then lines of its configuration
configure() {
	name=$1
	shift
	cp "$kernel/.config" "$out/.config"
	printf '%s\n' "$@" >>"$out/.config"
	kmake olddefconfig
	for line in "$@"; do
		grep -qxF -- "$line" "$out/.config" || fail "$name: Kconfig dropped $line"
	done
	kmake prepare
}

# What is built in starts with the kernel. A name that both drivers define is an error of ld's.
built_in() {
	kmake drivers/misc/tracebraid/
	ld -r -o "$work/all.o" --whole-archive "$out/drivers/misc/tracebraid/built-in.a"
	for init in "$@"; do
		nm "$work/all.o" | grep -q " __initcall__kmod_.*_${init}6$" || fail "$name: $init is not called"
	done
}

configure 'built in' CONFIG_TRACEBRAID=y CONFIG_TRACEBRAID_VIRTIO=y
built_in braid_module_init braid_virtio_module_init
echo 'ok   in a kernel: built in'

configure 'as modules' CONFIG_TRACEBRAID=m CONFIG_TRACEBRAID_VIRTIO=m
cp "$kernel/Module.symvers" "$out"
kmake KBUILD_MODPOST_WARN=1 drivers/misc/tracebraid/tracebraid.ko \
	drivers/misc/tracebraid/tracebraid_virtio.ko
for module in tracebraid tracebraid_virtio; do
	[ "$(modinfo -F intree "$out/drivers/misc/tracebraid/$module.ko")" = Y ] || fail "$module is not the tree's"
done
echo 'ok   in a kernel: as modules'

configure 'no modules' CONFIG_TRACEBRAID=y '# CONFIG_MODULES is not set'
built_in braid_module_init
echo 'ok   in a kernel without modules'
rm -rf "$work"

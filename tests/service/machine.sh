#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The packaged service on a host of its own: machine.sh KERNEL-RELEASE. Boots an emulated machine
# whose root is a minimal one of this release with systemd and QEMU, and runs in_machine.sh there.
#
# It has what a container lacks: the host's trace, the controllers of memory and CPU, a clock that
# can be set, and a small file system for snapshots. Its apt has one source: a folder with the
# packages that `make deb` has built, and what they and Prometheus need. Needs root.
set -eu

tree=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
cd "$tree"
krel=$1
work=build/service/machine
root=$work/root
packages=$root/srv/packages
# shellcheck disable=SC1091 # the file of this machine
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
archive=$(tests/root.sh "$codename" machine minbase apt,systemd,systemd-sysv,qemu-system-x86)

fail() {
	echo "FAIL $*; $work is kept" >&2
	exit 1
}

rm -rf --one-file-system "$work"
mkdir -p "$root" "$work/initrd/mod"
tar -C "$root" -xf "$archive" --exclude='./dev/*'

# apt of this machine finds out what is missing in that root.
mkdir -p "$packages" "$root/root/packages" "$work/archives/partial"
cp build/deb/tracebraid_*.deb "$packages/"
cp build/deb/tracebraid_*.deb "$root/root/packages/"
apt-get -o Dir::State::status="$tree/$root/var/lib/dpkg/status" \
	-o Dir::Cache::archives="$tree/$work/archives" install --download-only -y --no-install-recommends \
	prometheus ./build/deb/tracebraid_*.deb >"$work/apt.log" 2>&1 ||
	{ tail -5 "$work/apt.log" >&2; fail "packages that Prometheus needs"; }
find "$work/archives" -name '*.deb' -exec mv -t "$packages" {} +
(cd "$packages" && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)
rm -rf "$root"/etc/apt/sources.list*
echo 'deb [trusted=yes] file:/srv/packages ./' >"$root/etc/apt/sources.list"
# Nobody is there to answer.
printf 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n' >"$root/etc/apt/apt.conf.d/test"

# README's commands.
awk '/<!-- test: alert -->/ { found = 1; next }
	found && /^```/ { inside++; next }
	inside == 1' README.md >"$root/root/readme.sh"
[ -s "$root/root/readme.sh" ] || fail "README.md has no commands below <!-- test: alert -->"
[ "$(grep -c . "$root/root/readme.sh")" -le 10 ] || fail "README.md needs more than ten lines for an alert"

cp build/live_region tests/service/common.sh tests/service/in_machine.sh "$root/root/"
# A guest's firmware: it jumps to itself, so its vCPU is always busy.
head -c 65520 /dev/zero >"$root/root/busy.bin"
printf '\353\376' >>"$root/root/busy.bin"
head -c 14 /dev/zero >>"$root/root/busy.bin"
cat >"$root/etc/systemd/system/inside.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=exec
Environment=HOME=/root DEBIAN_FRONTEND=noninteractive
WorkingDirectory=/root
StandardOutput=file:/dev/ttyS1
StandardError=inherit
ExecStart=/bin/sh -c "sh /root/in_machine.sh; echo status $$?; sync; systemctl --force --force poweroff"
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../inside.service "$root/etc/systemd/system/multi-user.target.wants/inside.service"
ln -sf /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
ln -sf /dev/null "$root/etc/systemd/system/apt-daily.timer"
ln -sf /dev/null "$root/etc/systemd/system/apt-daily-upgrade.timer"
echo machine >"$root/etc/hostname"
# CPU 1 is left to the guests.
mkdir -p "$root/etc/systemd/system.conf.d"
printf '[Manager]\nCPUAffinity=0\n' >"$root/etc/systemd/system.conf.d/test.conf"
mke2fs -q -t ext4 -d "$root" "$work/root.img" 3G
mke2fs -q -t ext4 "$work/small.img" 12M
rm -rf --one-file-system "$root"

# What it needs to mount its root.
for module in virtio_pci virtio_blk ext4; do
	modprobe -S "$krel" --show-depends $module
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' >"$work/modules"
{
	echo '#!/bin/busybox sh'
	echo '/bin/busybox mount -t devtmpfs dev /dev'
	while read -r module; do
		name=$(basename "$module")
		case $name in
		*.xz) xz -dc "$module" >"$work/initrd/mod/${name%.xz}" ;;
		*.zst) zstd -qdc "$module" >"$work/initrd/mod/${name%.zst}" ;;
		*) cp "$module" "$work/initrd/mod/" ;;
		esac
		echo "/bin/busybox insmod /mod/${name%%.ko*}.ko"
	done <"$work/modules"
	echo '/bin/busybox mount -t ext4 /dev/vda /root'
	echo '/bin/busybox mount --move /dev /root/dev'
	echo 'exec /bin/busybox switch_root /root /usr/lib/systemd/systemd'
} >"$work/initrd/init"
chmod +x "$work/initrd/init"
mkdir -p "$work/initrd/bin" "$work/initrd/dev" "$work/initrd/root"
cp "$(command -v busybox)" "$work/initrd/bin/busybox"
mknod "$work/initrd/dev/console" c 5 1
(cd "$work/initrd" && find . -mindepth 1 -print0 | cpio -0 -o -H newc --quiet) >"$work/initrd.cpio"

# Lines appear as they are printed.
: >"$work/output"
tail -n +1 -f "$work/output" | sed -u '/^status [0-9]*/d' &
shown=$!
timeout 1800 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2G -nodefaults \
	-no-reboot -display none -kernel "/boot/vmlinuz-$krel" -initrd "$work/initrd.cpio" \
	-append 'console=ttyS0 quiet panic=-1 systemd.show_status=no rw' \
	-drive "file=$work/root.img,format=raw,if=virtio,cache=unsafe" \
	-drive "file=$work/small.img,format=raw,if=virtio,cache=unsafe" \
	-serial "file:$work/console" -serial "file:$work/output" || true
sleep 1
kill $shown
grep -q '^status 0' "$work/output" || { tail -20 "$work/console" >&2; fail "service on a host"; }
rm -rf --one-file-system "$work"

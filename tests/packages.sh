#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Installs what the named jobs need and this machine misses: packages.sh build|forms|driver|guests|libvirt|tests|kunit|fuzz|html|bench...
set -eu

packages_of() {
	case $1 in
	build) echo gcc libc6-dev make pkg-config libtraceevent-dev libtracefs-dev libxxhash-dev \
		libzstd-dev zlib1g-dev libvirt-dev libxml2-dev libcap-ng-dev libseccomp-dev \
		libbabeltrace2-dev libkdumpfile-dev libprotobuf-c-dev protobuf-c-compiler ;;
	forms) echo babeltrace2 trace-cmd python3 python3-protobuf ;;
	driver) echo linux-headers-amd64 linux-headers-6.12-amd64 linux-headers-6.12-rt-amd64 ;;
	guests) echo qemu-system-x86 busybox-static cpio kmod zstd python3 util-linux \
		linux-image-amd64 linux-image-6.12-amd64 linux-image-6.12-rt-amd64 ;;
	libvirt) echo libvirt-clients libvirt-daemon-system ;;
	tests) echo dkms shellcheck bsdextrautils spin mandoc jq util-linux ;;
	kunit) echo linux-source-6.1 flex bison bc libelf-dev libssl-dev xz-utils cpio kmod python3 \
		util-linux zstd ;;
	fuzz) echo clang-14 libclang-rt-14-dev util-linux ;;
	html)	# where Node comes from elsewhere, Debian's would be in its way
		echo chromium
		command -v node >/dev/null || echo nodejs
		command -v npm >/dev/null || echo npm ;;
	bench) echo lttng-tools liblttng-ust-dev valgrind util-linux trace-cmd babeltrace2 ;;
	*) echo "packages.sh: no job named $1" >&2; exit 1 ;;
	esac
}

missing=
for job in "$@"; do
	for package in $(packages_of "$job"); do
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
			missing="$missing $package"
	done
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "missing packages: as root, run: apt-get install$missing" >&2
	exit 1
fi
echo "installing what is missing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # a list of words
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
	$missing; } >"$log" 2>&1; then
	tail -20 "$log" >&2
	echo "apt-get could not install them; 6.12 is in Debian 12's security suite" >&2
	exit 1
fi

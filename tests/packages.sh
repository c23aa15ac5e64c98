#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Installs the missing packages of the named jobs:
# packages.sh
# build|ccache|forms|driver|arm64|arm64-user|guests|libvirt|tests|library|kunit|fuzz|html|bench|
# prometheus|releases|service|fleet|packages|rpm...
# What differs between Debian's releases is printed by
# packages.sh --kernels	guest kernels by package, the oldest first: NAME, a tab, what its packages are named after linux-image-
# packages.sh --clang|--source	the version of clang, of linux-source
# packages.sh --libraries	packages that the agent and its tests are compiled with
set -eu

# Debian 12; later releases.
if [ "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" = bookworm ]; then
	kernels='6.1=amd64 6.12=6.12-amd64 6.12-rt=6.12-rt-amd64' clang=14 source=6.1
else
	kernels='6.12=amd64 6.12-rt=rt-amd64' clang=19 source=6.12
fi

kernels() {
	for kernel in $kernels; do
		echo "linux-$1-${kernel#*=}"
	done
}

packages_of() {
	case $1 in
	build) echo gcc libc6-dev make pkg-config libtraceevent-dev libtracefs-dev libxxhash-dev \
		libzstd-dev libisal-dev libelf-dev zlib1g-dev libvirt-dev libxml2-dev libcap-ng-dev \
		libseccomp-dev libkdumpfile-dev libprotobuf-c-dev libsqlite3-dev libinih-dev \
		libmicrohttpd-dev libnats-dev protobuf-c-compiler protobuf-compiler ;;
	ccache) echo ccache ;;
	forms) echo babeltrace2 trace-cmd python3 python3-protobuf ;;
	driver) kernels headers ;;
	arm64) echo gcc-aarch64-linux-gnu qemu-system-arm ;;
	arm64-user) echo qemu-user ;;
	guests) echo qemu-system-x86 busybox-static cpio kmod zstd python3 util-linux
		kernels image ;;
	libvirt) echo libvirt-clients libvirt-daemon-system qemu-guest-agent ;;
	tests) echo dkms shellcheck sparse bsdextrautils spin mandoc jq util-linux ;;
	library) echo python3 python3-cffi python3-numpy python3-pandas python3-matplotlib abigail-tools ;;
	kunit) echo linux-source-$source flex bison bc libelf-dev libssl-dev xz-utils cpio kmod python3 \
		util-linux zstd ;;
	fuzz) echo clang-$clang libclang-rt-$clang-dev util-linux ;;
	html)	# where Node is not Debian's, Debian's package would conflict
		echo chromium
		command -v node >/dev/null || echo nodejs
		command -v npm >/dev/null || echo npm ;;
	releases) echo mmdebstrap git ;;
	prometheus) echo prometheus ;;
	fleet) echo nats-server openssl python3 procps mount ;;
	service) echo mmdebstrap systemd-container ;;
	packages) echo build-essential debhelper dh-dkms dh-python dpkg-dev lintian ;;
	rpm) echo rpm ;;
	bench) echo lttng-tools liblttng-ust-dev valgrind util-linux trace-cmd babeltrace2 python3-bt2 python3-cffi \
		python3-numpy rt-tests ;;
	*) echo "packages.sh: no job named $1" >&2; exit 1 ;;
	esac
}

case ${1:-} in
--kernels) for kernel in $kernels; do printf '%s\t%s\n' "${kernel%=*}" "${kernel#*=}"; done && exit ;;
--clang) echo $clang && exit ;;
--source) echo $source && exit ;;
--libraries) packages_of build | tr ' ' '\n' | grep -e '-dev$' && exit ;;
esac

missing=
for job in "$@"; do
	for package in $(packages_of "$job"); do
		case "$missing " in *" $package "*) continue ;; esac
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
			missing="$missing $package"
	done
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "missing packages: as root, run: apt-get install$missing" >&2
	exit 1
fi
echo "installing missing packages:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # a list of words
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
	$missing; } >"$log" 2>&1; then
	tail -20 "$log" >&2
	echo "apt-get could not install them; kernel 6.12 needs Debian 12's security suite" >&2
	exit 1
fi

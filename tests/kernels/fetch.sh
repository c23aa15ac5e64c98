#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Gets packaged kernels of Debian's stable release, unless they are there: fetch.sh [FLAVOUR...]
#
# FLAVOUR is generic, rt or cloud, for the newest of x86-64: what linux-image-[FLAVOUR-]amd64 of
# stable's backports depends on; or arm64 or arm64-16k (pages of 16 KiB): what linux-image-FLAVOUR
# of stable itself depends on. Without one, the three of x86-64. Image, modules and headers are
# unpacked in the user's cache; nothing is installed. Then build/kernels/newest, newest-rt,
# newest-cloud, arm64 and arm64-16k, and build/kernels/RELEASE, are links to the unpacked
# /lib/modules/RELEASE, which has vmlinuz and the link "build" as well.
#
# Where the kernel cannot be had, this prints why, and the reason is in
# build/kernels/newest.missing, or arm64.missing, for which the end-to-end tests skip their cases;
# that is no error. TRACEBRAID_NEWEST=no says the same of the newest.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$(CDPATH='' cd -- "$here/../.." && pwd)/build
cache=$("$here/cache.sh")
mkdir -p "$build/kernels"

missing() {
	echo "fetch.sh: tests skip the kernel \"$family\": $*" >&2
	rm -f "$build/kernels/$family" "$build/kernels/$family"-*
	echo "$*" >"$build/kernels/$family.missing"
	exit 0
}

# Of the kernel's architecture and suite.
suite() {
	# shellcheck disable=SC2086 # a list of words
	"$here/suite.sh" $options "$@" 2>"$errors"
}

why() {
	sed 's/^suite.sh: //' "$errors"
}

# The headers are used where they are, by this machine's compiler and tools:
# - Without vmlinux, kbuild makes no BTF for modules, for which this machine's pahole may be too
# old.
# - A compiler other than the kernel's may lack -fmin-function-alignment.
# - Programs that need a newer libc than this machine's are run by that release's program loader.
# shellcheck disable=SC2016 # the written script expands them
adapt() {
	kbuild=$root/usr/lib/linux-kbuild-$1
	headers=$root/usr/src/linux-headers-$2
	sed -i "s|\([= ]\)/usr/src/|\1$root/usr/src/|" "$headers/Makefile"
	rm -f "$headers/vmlinux"
	# Debian leaves out the script that kbuild asks whether sparse works.
	[ -e "$kbuild/scripts/checker-valid.sh" ] || printf '#!/bin/sh\necho 1\n' >"$kbuild/scripts/checker-valid.sh"
	chmod +x "$kbuild/scripts/checker-valid.sh"
	if ! command -v "$triplet-gcc-14" >/dev/null; then
		cat >>"$headers/.kernelvariables" <<-'END'
			CC = $(CROSS_COMPILE)gcc
			override CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT =
			override CONFIG_PAHOLE_VERSION = $(PAHOLE_VERSION)
		END
	fi
	find "$kbuild" -type f -perm -u+x ! -name '*.elf' | while read -r program; do
		! ldd "$program" 2>&1 | grep -q 'not found' || {
			mv "$program" "$program.elf"
			printf '#!/bin/sh\nexec %s --argv0 "$0" --library-path %s "$0.elf" "$@"\n' \
				"$root/usr/lib64/ld-linux-x86-64.so.2" "$root/usr/lib/x86_64-linux-gnu" >"$program"
			chmod +x "$program"
		}
	done
}

# Unpacks a kernel of this release, aside: a reader never sees half of one.
unpack() {
	series=${1%%-*}
	# The kernel itself; 6.12's image is in a package of that name, later ones have two others.
	kernel=$(suite closure 'linux-(image|binary|modules|headers)-[0-9].*' "linux-image-$1" "linux-headers-$1" |
		grep -v -e -unsigned) || missing "$(why)"
	# shellcheck disable=SC2086 # a list of words
	debs=$(suite deb $kernel) || missing "$(why)"
	# Programs of this machine's architecture that its headers need, and their libraries.
	options=${options#--arch arm64 }
	programs=$(suite closure 'linux-kbuild-.*|lib(c6|elf1.*|zstd1|ssl3.*)|zlib1g' "linux-kbuild-$series") || missing "$(why)"
	# shellcheck disable=SC2086
	debs="$debs $(suite deb $programs)" || missing "$(why)"
	for deb in $debs; do
		[ -e "$root/debs/${deb##*/}" ] || dpkg-deb -x "$deb" "$root" || missing "${deb##*/} cannot be unpacked"
		mkdir -p "$root/debs"
		touch "$root/debs/${deb##*/}"
	done
	[ ! -e "$root/boot/vmlinuz-$1" ] || mv "$root/boot/vmlinuz-$1" "$root/usr/lib/modules/$1/vmlinuz"
	adapt "$series" "$1"
	touch "$root/ready-$1"
	# shellcheck disable=SC2086
	rm -f $debs
}

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
[ $# != 0 ] || set -- generic rt cloud
for flavour; do
	case $flavour in
	arm64*) family=arm64 name=$flavour meta=linux-image-$flavour options='--arch arm64 --stable' triplet=aarch64-linux-gnu ;;
	generic) family=newest name=newest meta=linux-image-amd64 options='' triplet=x86_64-linux-gnu ;;
	*) family=newest name=newest-$flavour meta=linux-image-$flavour-amd64 options='' triplet=x86_64-linux-gnu ;;
	esac
	[ "$family-${TRACEBRAID_NEWEST:-}" != newest-no ] || missing 'TRACEBRAID_NEWEST=no is set'
	[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || missing 'this is not a Debian machine of x86-64'
	release=$(suite cache show --no-all-versions "$meta") || missing "$(why)"
	release=$(echo "$release" | sed -n 's/^Depends:.*[ ,]linux-image-\([0-9][^ ,]*\).*/\1/p')
	[ -n "$release" ] || missing "$meta of the stable release depends on no kernel"
	root=$cache/$family-${release%%-*}
	mkdir -p "$root"
	exec 9>"$root.lock"
	flock 9
	if [ ! -e "$root/ready-$release" ]; then
		echo "fetching the kernel $release for tests, once; about 200 MB" >&2
		unpack "$release"
	fi
	flock -u 9
	ln -sfn "$root/usr/lib/modules/$release" "$build/kernels/$release"
	ln -sfn "$release" "$build/kernels/$name"
	rm -f "$build/kernels/$family.missing"
done

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs apt on Debian's stable release and its backports, whatever release this machine has:
#	suite.sh get|cache ARGUMENT...		e.g. suite.sh cache show linux-image-amd64
#	suite.sh deb NAME...			the packages' files, downloaded; prints their paths
#	suite.sh closure REGEX NAME...		names that match, of these packages and what they depend on
#	suite.sh plan NAME...			the files of these packages and of what they depend on
#	suite.sh unpack FOLDER NAME...		the same, downloaded and unpacked into a folder
#	suite.sh codename|uri			the stable release's name; where this machine's apt gets packages
#	suite.sh [--arch ARCH] [--stable] ...	the same of another architecture, or without backports
#
# The configuration, lists and downloads are private, in the cache folder: nothing is installed, and
# the machine's own apt does not change. A package of backports is preferred, without --stable.
# Lists are renewed once a day; where that fails, those that are there are used. Fails with one line
# where the registry has no such release.
set -eu

die() {
	echo "suite.sh: $*" >&2
	exit 1
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=$("$here/cache.sh")
command -v apt-get >/dev/null || die 'this machine has no apt'
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keys" ] || die "$keys is missing: install the package debian-archive-keyring"
arch=$(dpkg --print-architecture)
backports=yes
while :; do
	case ${1:-} in
	--arch) arch=${2:?} && shift 2 ;;
	--stable) backports=no && shift ;;
	*) break ;;
	esac
done
apt=$cache/apt-$arch

# The machine's own sources, of its own release.
# shellcheck disable=SC1091,SC2016 # the file of this machine; variables of apt
uri=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
	awk -v own="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" '$1 == own { print $2; exit }')
[ -n "$uri" ] || die "apt on this machine has no sources for the release that it runs: run apt-get update"

# Options of this machine's apt that configure access to the registry remain in force:
# /etc/apt/apt.conf.d.
configure() {
	mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/empty"
	: >"$apt/status"
	cat >"$apt/apt.conf" <<-END
		APT::Architecture "$arch";
		APT::Architectures { "$arch"; };
		APT::Sandbox::User "root";
		APT::Default-Release "$2";
		APT::Get::List-Cleanup "false";
		Acquire::Languages "none";
		Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
		Acquire::IndexTargets::deb::Packages::DefaultEnabled "$3";
		Dir::Etc::sourcelist "$apt/sources.list";
		Dir::Etc::sourceparts "$apt/empty";
		Dir::Etc::preferences "$apt/empty/none";
		Dir::Etc::preferencesparts "$apt/empty";
		Dir::State "$apt";
		Dir::State::status "$apt/status";
		Dir::State::lists "$apt/lists";
		Dir::Cache "$apt";
		Dir::Cache::archives "$apt/archives";
	END
	for suite in $1; do
		echo "deb [signed-by=$keys] $uri $suite main"
	done >"$apt/sources.list"
}

update() {
	configure "$1" "$2" "$3"
	APT_CONFIG=$apt/apt.conf apt-get -q update >"$apt/update.log" 2>&1 && ! grep -q '^[EW]:' "$apt/update.log"
}

# The name of "stable" is resolved first: a mirror's folder stable-backports may be older than trixie-backports.
renew() {
	rm -f "$apt"/lists/*_dists_stable_*
	if update stable stable false; then
		codename=$(sed -n 's/^Codename: //p' "$apt"/lists/*_dists_stable_InRelease | head -1)
	else
		codename=$(cat "$apt/codename" 2>/dev/null) ||
			die "the apt sources of this machine do not provide Debian's stable release: $(grep -m 1 '^[EW]:' "$apt/update.log")"
	fi
	if update "$codename $codename-backports" "$codename-backports" true; then
		echo "$codename" >"$apt/codename"
	else
		[ -e "$apt/codename" ] ||
			die "the apt sources of this machine do not provide $codename-backports: $(grep -m 1 '^[EW]:' "$apt/update.log")"
	fi
}

mkdir -p "$apt"
exec 7>"$apt/lock-lists"
flock 7
[ -n "$(find "$apt/codename" -newermt '-1 day' 2>/dev/null)" ] || renew
flock -u 7
codename=$(cat "$apt/codename")
export APT_CONFIG="$apt/apt.conf"
default=$codename-backports
[ $backports = yes ] || default=$codename

# Runs apt-get or apt-cache: run get|cache ARGUMENT...
run() {
	tool=apt-$1
	shift
	"$tool" -o "APT::Default-Release=$default" "$@"
}

# apt takes a name that it does not know for a regular expression: only what was asked for is
# accepted. The files are in a folder of their own, as the caller may remove them while another run
# downloads the same packages.
download() {
	log=$apt/download.log
	known=$(run get --print-uris download "$@" 2>"$log" | awk '{ print $2 }') || known=
	for name; do
		echo "$known" | grep -q "^${name}_" || {
			unknown=$(sed -n 's/^E: Unable to locate package //p' "$log" | head -1)
			die "$codename and its backports have no package ${unknown:-$name}"
		}
	done
	find "$apt/archives" -mindepth 1 ! -name partial -mtime +1 -delete
	folder=$(mktemp -d "$apt/archives/XXXXXX")
	(cd "$folder" && run get -q download "$@" >"$log" 2>&1) ||
		die "not all of $* can be downloaded: $(grep -m 1 '^[EW]:' "$log")"
	for name; do
		echo "$folder/$(echo "$known" | grep -m 1 "^${name}_")"
	done
}

# The status file is empty, so apt plans all that the packages depend on.
install() {
	run get -q -y --no-install-recommends "$@"
}

plan() {
	install --print-uris install "$@" >"$apt/plan.log" 2>&1 || die "$codename: $(grep -m 1 '^[EW]:' "$apt/plan.log")"
	awk '/^.http/ { print $2 }' "$apt/plan.log"
}

unpack() {
	folder=$1
	shift
	debs=$(mktemp -d "$apt/archives/XXXXXX")
	mkdir -p "$debs/partial" "$folder"
	install -o "Dir::Cache::archives=$debs" --download-only install "$@" >"$apt/download.log" 2>&1 ||
		die "$codename: $(grep -m 1 '^[EW]:' "$apt/download.log")"
	for deb in "$debs"/*.deb; do
		dpkg-deb -x "$deb" "$folder"
	done
	rm -rf "$debs"
}

what=${1:-}
[ $# = 0 ] || shift
case $what in
get | cache) run "$what" "$@" ;;
deb) download "$@" ;;
closure)
	regex=$1
	shift
	run cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$@" |
		grep -Ex "$regex" | sort -u
	;;
plan) plan "$@" ;;
unpack) unpack "$@" ;;
codename) echo "$codename" ;;
uri) echo "$uri" ;;
*) die 'usage: suite.sh [--arch ARCH] [--stable] get|cache|deb|closure|plan|unpack|codename|uri ...' ;;
esac

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# On a minimal machine (releases.sh): builds the packages, checks them with lintian, installs them,
# records with what they installed, upgrades them to a later version, purges them, and compares what
# is left with what was there before.
set -eu

fail() {
	echo "FAIL $*" >&2
	exit 1
}

# The machine's files, but not DKMS's own key, and what is in each that an administrator may have;
# of users and groups there are former versions, named passwd- and so on.
files() {
	find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /root \
		-o -path /var/lib/dpkg -o -path /var/lib/apt -o -path "/var/lib/dkms/mok.*" -o -path /var/cache -o -path /var/log \) -prune -o -print | sort
	find /etc -type f ! -name ld.so.cache ! -name '*-' -exec sha256sum {} + | sort -k 2
}

install() {
	apt-get install -y --no-install-recommends "$@" >build/apt.log 2>&1 ||
		{ tail -20 build/apt.log >&2; fail "apt-get install $*"; }
}

version() {
	dpkg-query -W -f '${Version}' "$1"
}

tests/packages.sh packages rpm build driver guests
make deb

echo "lintian:"
# A package outside of Debian closes no request for one.
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs \
	build/deb/*.changes
echo "ok   lintian"

# The RPM packages, by their files' names; without what is for debuggers, which each release's rpm
# packs differently, and the links by build id.
names() {
	sed 's|.*/||; s|\.gz$||' | sort |
		grep -vxE 'copyright|CHANGELOG.md|changelog(\.Debian)?|(GPL-2.0|MIT).txt' |
		grep -vxE '[0-9a-f]{38}'
}
make rpm >/dev/null
find build/deb -name '*.deb' ! -name '*-dbgsym_*' | while read -r package; do
	dpkg-deb --fsys-tarfile "$package" | tar -t | grep -v '/$'
done | names >build/deb.names
find build/rpm/RPMS -name '*.rpm' ! -name '*-debuginfo-*' ! -name '*-debugsource-*' \
	-exec rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' {} + 2>/dev/null |
	sed -n 's/^[-l][^ ]* //p' | names >build/rpm.names
diff build/deb.names build/rpm.names >&2 || fail "the RPM packages have other files"
echo "ok   RPM packages: $(wc -l <build/rpm.names) files"

# What they depend on stays.
# shellcheck disable=SC2046 # words
install $(dpkg-deb -f build/deb/tracebraid_*.deb Depends | tr ',' '\n' | sed 's/[(|].*//') \
	python3-cffi dkms passwd apparmor
# What would be said to systemd, which does not run here. apt gives scripts a PATH without /usr/local.
: >/tmp/systemd
mkdir -p /run/systemd/system /etc/systemd/system/multi-user.target.wants
for program in systemctl deb-systemd-invoke; do
	printf '#!/bin/sh\necho "%s $*" >>/tmp/systemd\n' $program >/usr/bin/$program
	chmod +x /usr/bin/$program
done
files >build/before
# As README.md says, then the others.
awk '/<!-- test: apt -->/ { found = 1; next }
	found && /^```/ { inside++; next }
	inside == 1' README.md |
	sed 's/^apt install/apt-get install -y --no-install-recommends/' >build/readme.sh
grep -q tracebraid-dkms build/readme.sh || fail "README.md has no commands below <!-- test: apt -->"
(cd build/deb && sh -e ../readme.sh) >build/apt.log 2>&1 || { tail -20 build/apt.log >&2; fail "README's commands"; }
for package in tracebraid tracebraid-dkms; do
	dpkg -s $package >/dev/null || fail "README's commands do not install $package"
done
install ./build/deb/*.deb
[ "$(tracebraid --version)" = "tracebraid $(version tracebraid | sed 's/-.*//')" ] || fail "another version is installed"
echo "ok   installed"

tests/e2e/demo.py --installed >build/demo.log 2>&1 || { tail -20 build/demo.log >&2; fail "the demo with installed files"; }
python3 -I -c '
import tracebraid
with tracebraid.open("build/demo/demo.braid") as trace:
	assert sum(1 for _ in trace.events()) > 1000, "no events"' || fail "python3-tracebraid"
# shellcheck disable=SC2046
gcc -Wall -Werror -o build/print docs/examples/print.c $(pkg-config --cflags --libs tracebraid)
build/print build/demo/demo.braid | head -1000 | tail -1 | grep -q . || fail "libtracebraid-dev"
echo "ok   records, reads in C and Python: $(grep -c . build/demo/report.txt) lines"

# What help texts name, and what each command has.
tracebraid --describe | cut -f 2 >build/commands
[ -s build/commands ] || fail "no commands"
while read -r command; do
	[ -e "/usr/share/man/man1/tracebraid-$command.1.gz" ] || fail "no man page of $command"
	tracebraid "$command" --help >>build/helps
done <build/commands
grep -o 'docs/[a-z-]*\.md' build/helps | sort -u >build/pages
[ -s build/pages ] || fail "no help text names a page"
while read -r page; do
	[ -e "/usr/share/doc/tracebraid/$page" ] || fail "$page, which --help names, is not installed"
done <build/pages
# shellcheck disable=SC2016 # expanded by the inner shell
bash -c '. /usr/share/bash-completion/completions/tracebraid; complete -p tracebraid' >/dev/null || fail "completion"
echo "ok   $(grep -c . build/commands) man pages, $(grep -c . build/pages) pages that --help names, completion"

for folder in /var/lib/tracebraid:750 /run/tracebraid:750; do
	[ "$(stat -c %U:%G:%a "${folder%:*}")" = "tracebraid:tracebraid:${folder#*:}" ] || fail "${folder%:*}: another owner or mode"
done
getent passwd tracebraid | grep -q ':/var/lib/tracebraid:/usr/sbin/nologin$' || fail "another user tracebraid"
mkdir -p /var/lib/tracebraid/snapshots/one
touch /var/lib/tracebraid/snapshot.braid /var/lib/tracebraid/snapshots/one/1.braid
ln -s /usr/lib/systemd/system/tracebraid.service /etc/systemd/system/multi-user.target.wants/
! grep tracebraid /tmp/systemd || fail "the package starts a service"
{
	echo 'profile test {'
	cat /usr/share/doc/tracebraid/docs/examples/apparmor-libvirt
	echo '}'
} | apparmor_parser --skip-kernel-load --skip-cache 2>build/apparmor.log ||
	{ cat build/apparmor.log >&2; fail "the example for AppArmor"; }
echo "ok   the service's user and folders, the example for AppArmor"

# The same sources under a later version.
sed -i 's/^\(.define BRAID_VERSION.*\)"\(.*\)"/\1"\2.1"/' shared/version.h
sed -i '1s/(\(.*\)-/(\1.1-/' debian/changelog
former=$(version tracebraid)
make deb >/dev/null
install ./build/deb/*.deb
[ "$(version tracebraid)" != "$former" ] || fail "no upgrade"
grep tracebraid /tmp/systemd >build/systemd || true
[ "$(cat build/systemd)" = "deb-systemd-invoke try-restart tracebraid.service" ] ||
	{ cat build/systemd >&2; fail "an upgrade does not restart the service alone"; }
dkms status tracebraid | grep -qv "^tracebraid/${former%-*}[,/:]" || fail "DKMS has the former version only"
! dkms status tracebraid | grep -q "^tracebraid/${former%-*}[,/:]" || fail "DKMS still has the former version"
for module in /lib/modules/*/updates/dkms/tracebraid.ko*; do
	[ "$(modinfo -F version "$module")" = "$(version tracebraid-dkms | sed 's/-.*//')" ] || fail "$module is the former driver"
	modinfo -F signer "$module" | grep -q . || fail "$module is not signed by DKMS' key"
done
git checkout -q shared/version.h debian/changelog
echo "ok   upgraded"

apt-get purge -y '^(lib|python3-)?tracebraid.*' >build/apt.log 2>&1 || { cat build/apt.log >&2; fail "purge"; }
grep -qx "deb-systemd-invoke stop tracebraid.service" /tmp/systemd || fail "the service is not stopped before it is removed"
files >build/after
diff build/before build/after >build/left || { cat build/left >&2; fail "purged packages leave or remove files"; }
echo "ok   purged, nothing left"

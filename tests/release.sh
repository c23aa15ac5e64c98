#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The steps of docs/releasing.md that need no judgement, of the last commit: release.sh CHECK, the
# target of make that has the tests. What takes longest comes last.
set -eu

cd "$(dirname -- "$0")/.."
check=$1
version=$(packages/version.sh)
work=$PWD/build/release
rm -rf "$work"
mkdir -p "$work"

# What is wrong; what to do next.
fail() {
	echo "FAIL $1" >&2
	echo "     next: $2" >&2
	exit 1
}

# PATH without git: a folder that has it is replaced by one with links to its other programs.
path_without_git() {
	echo "$PATH" | tr : '\n' | awk 'NF && !seen[$0]++' | while read -r folder; do
		if [ -e "$folder/git" ]; then
			links=$work/path$(echo "$folder" | tr / _)
			mkdir -p "$links"
			find "$folder/" -mindepth 1 -maxdepth 1 ! -name 'git' ! -name 'git-*' -exec ln -s -t "$links" {} +
			folder=$links
		fi
		printf '%s:' "$folder"
	done | sed 's/:$//'
}

dirty=$(git status --porcelain)
[ -z "$dirty" ] || fail "the tree has changes: $dirty" "commit them, or git stash --include-untracked"
echo "ok   clean tree: $(git log -1 --format='%h %s')"

head -1 debian/changelog | grep -qF "tracebraid ($version-" ||
	fail "debian/changelog has another version" "an entry for $version-1 at its top"
grep -m 1 '^## [0-9]' CHANGELOG.md | grep -q "^## $version - " ||
	fail "CHANGELOG.md's newest release is another" "a heading '## $version - DATE' below Unreleased"
[ -z "$(sed -n '/^## Unreleased/,/^## [0-9]/p' CHANGELOG.md | grep -v '^##' | tr -d '[:space:]')" ] ||
	fail "CHANGELOG.md has changes that are unreleased" "move them below '## $version', or raise the version"
tagged=$(git rev-parse --quiet --verify "v$version^{commit}" || git rev-parse HEAD)
[ "$tagged" = "$(git rev-parse HEAD)" ] ||
	fail "v$version is the tag of another commit" "raise the version in shared/version.h, debian/changelog, CHANGELOG.md"
echo "ok   version $version, not released yet"

# The archive is what a user has who knows no git.
MAKEFLAGS='' make -s dist >/dev/null
tar -C "$work" -xzf "build/tracebraid-$version.tar.gz"
krel=$(find /lib/modules/*/build/. -maxdepth 0 2>/dev/null | cut -d / -f 4 | sort -V | tail -1)
path=$(path_without_git)
! PATH=$path command -v git >/dev/null || fail "git is still in PATH: $path" "mend path_without_git() in tests/release.sh"
(
	cd "$work/tracebraid-$version"
	export PATH="$path" MAKEFLAGS=''
	make -j"$(nproc)" agent library && make driver KREL="$krel" &&
		make install DESTDIR="$work/installed" PREFIX=/usr KREL="$krel" && make dkms DESTDIR="$work/installed"
) >"$work/build.log" 2>&1 || {
	tail -20 "$work/build.log" >&2
	fail "build/tracebraid-$version.tar.gz does not build without git" \
		"read $work/build.log; packages/sources.sh has what is in the archive"
}
echo "ok   the archive builds without git: agent, library, driver for $krel"

# All that was installed and names a version.
installed=$work/installed
{
	"$installed/usr/bin/tracebraid" --version | sed 's/^tracebraid //'
	sed -n 's/^Version: //p' "$installed/usr/lib/pkgconfig/tracebraid.pc"
	sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$installed/usr/src/tracebraid-$version/dkms.conf"
	sed -n 's/^\.Os tracebraid //p' "$installed"/usr/share/man/man[15]/*
	sed -n 's/^\.TH .* "tracebraid \(.*\)"$/\1/p' "$installed/usr/share/man/man3/libtracebraid.3"
	for module in "$installed/lib/modules/$krel/updates"/*.ko; do
		/sbin/modinfo -F version "$module"
	done
} >"$work/versions"
nr=$(find "$installed"/usr/share/man/man[15] "$installed/lib/modules" -type f | wc -l)
[ "$(sort -u "$work/versions") $(wc -l <"$work/versions")" = "$version $((nr + 4))" ] ||
	fail "not all that names a version names $version: $(sort "$work/versions" | uniq -c | tr -s '\n ' ' ')" \
		"take it from packages/version.sh"
echo "ok   $((nr + 4)) installed files name version $version"

# The library's symbols, and its interface against that of the release before.
dpkg-gensymbols -plibtracebraid0 "-v$version" -c4 "-e$installed/usr/lib/libtracebraid.so.0" \
	-Idebian/libtracebraid0.symbols -O/dev/null >"$work/symbols" 2>&1 || {
	cat "$work/symbols" >&2
	fail "the library's symbols are not those of debian/libtracebraid0.symbols" \
		"a new version node is added there with version $version; a lost symbol is restored"
}
abi=tests/library/libtracebraid.abi
former=$(tests/former.sh)
report="no former release"
if [ -n "$former" ]; then
	git show "$former:$abi" >"$work/former.abi"
	status=0
	abidiff --no-show-locs "$work/former.abi" $abi >"$work/abidiff" || status=$?
	case $status in
	0) report="the interface is that of $former" ;;
	4) report="$former's interface, with additions"
		former=${former#v}
		[ "${former%.*}" != "${version%.*}" ] ||
			fail "the interface has additions, and the MAJOR.MINOR of the last release" "raise MINOR" ;;
	*) cat "$work/abidiff" >&2
		fail "programs that were linked with $former's library may not work with this one" \
			"restore the interface, or raise the soname (docs/releasing.md, \"The library\")" ;;
	esac
fi
echo "ok   ABI: $(nm -D --defined-only "$installed/usr/lib/libtracebraid.so.0" | grep -c ' T ') functions; $report"

echo "make $check"
MAKEFLAGS='' make --no-print-directory "$check" || fail "make $check" "mend what it names, commit, and begin again"
echo "ok   make $check"
echo "ok   release-check $version; next: what docs/releasing.md has from step 2 on"

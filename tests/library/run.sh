#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the examples of docs/ against the installed library, shared and static, runs them and the
# Python tests, and compares the library's interface with the committed one: run.sh [update] (writes
# the interface again)
set -eu

cd "$(dirname -- "$0")/../.."
top=$PWD
root=$top/build/installed
capture=$top/build/library.braid
out=$top/build/library
rm -rf "$root" "$out"
mkdir -p "$out"
MAKEFLAGS='' make -s install DESTDIR="$root" PREFIX=/usr KREL=none >/dev/null
build/make_big_capture "$capture" 30000 >/dev/null

export PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
for example in docs/examples/*.c; do
	name=$(basename "$example" .c)
	# shellcheck disable=SC2046 # words
	"${CC:-gcc}" -Wall -Wextra -Werror -O2 -o "$out/$name" "$example" $(pkg-config --cflags --libs tracebraid)
	# shellcheck disable=SC2046
	"${CC:-gcc}" -Wall -Wextra -Werror -O2 -static-libgcc -o "$out/$name-static" "$example" \
		$(pkg-config --cflags tracebraid) "$root/usr/lib/libtracebraid.a" \
		$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --libs --static tracebraid | sed 's/-ltracebraid//')
done

# report's lines in the form of the example.
build/tracebraid report --json "$capture" | tests/library/as_print.py >"$out/expected"
LD_LIBRARY_PATH=$root/usr/lib "$out/print" "$capture" >"$out/shared.txt"
"$out/print-static" "$capture" >"$out/static.txt"
cmp "$out/expected" "$out/shared.txt"
cmp "$out/expected" "$out/static.txt"
echo "ok   an example prints what report prints: $(wc -l <"$out/expected") lines, shared and static"
LD_LIBRARY_PATH=$root/usr/lib "$out/wakeups" "$capture" >"$out/wakeups.txt"
grep -q '^guest1: [1-9][0-9]* wakeups' "$out/wakeups.txt"
if LD_LIBRARY_PATH=$root/usr/lib "$out/wakeups" /nonexistent 2>"$out/wakeups.err"; then
	echo "FAIL an example accepts a file that does not exist"
	exit 1
fi
grep -q '/nonexistent' "$out/wakeups.err"
echo "ok   examples"

sed -n 's/^\t\(tracebraid_[a-z_]*\);$/\1/p' host_agent/library/exported.map >"$out/names"
[ -s "$out/names" ]
while read -r name; do
	if ! [ -e "$root/usr/share/man/man3/$name.3" ]; then
		echo "FAIL $name has no man page: its comment in the header is not kernel-doc"
		exit 1
	fi
done <"$out/names"
echo "ok   each function has a man page"

# Each page that a help text names is installed, and nothing stays of what was installed.
build/tracebraid --describe | cut -f 2 | while read -r command; do
	build/tracebraid "$command" --help
done | grep -o 'docs/[a-z-]*\.md' | sort -u >"$out/pages"
[ -s "$out/pages" ]
while read -r page; do
	[ -e "$root/usr/share/doc/tracebraid/$page" ] || { echo "FAIL $page, which --help names, is not installed"; exit 1; }
done <"$out/pages"
removed=$top/build/removed
rm -rf "$removed"
mkdir -p "$removed"
for prefix in /usr /usr/local; do
	MAKEFLAGS='' make -s install DESTDIR="$removed" PREFIX=$prefix KREL=none >/dev/null
	[ -e "$removed$(python/where.sh $prefix)/tracebraid/__init__.py" ]
	MAKEFLAGS='' make -s uninstall DESTDIR="$removed" PREFIX=$prefix
	left=$(find "$removed" ! -type d)
	[ -z "$left" ] || { echo "FAIL make uninstall leaves: $left"; exit 1; }
done
# Where python3 comes later, it finds the module.
none=$top/build/no-python
rm -rf "$none"
mkdir -p "$none"
ln -s "$(command -v sh)" "$(command -v sed)" "$none"
printf '#!/bin/sh\nprintf "python3:\\n  Candidate: 3.13.5-1\\n"\n' >"$none/apt-cache"
chmod +x "$none/apt-cache"
[ "$(PYTHON=/nonexistent PATH=$none python/where.sh /usr/local)" = /usr/local/lib/python3.13/dist-packages ]
[ "$(PYTHON=/nonexistent PATH=$none python/where.sh /usr)" = /usr/lib/python3/dist-packages ]
/usr/bin/python3 -I -c 'import sys; sys.exit(sys.argv[1] not in sys.path)' "$(python/where.sh /usr)"
echo "ok   make install, make uninstall"

abi=tests/library/libtracebraid.abi
dump() {
	abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --exported-interfaces-only \
		--drop-undefined-syms --drop-private-types \
		--headers-dir "$root/usr/include" build/libtracebraid.so.0 | sed "s|$top/||g"
}
if [ "${1-}" = update ]; then
	dump >$abi
	echo "wrote $abi: $(wc -l <$abi) lines"
	exit
fi
dump >"$out/now.abi"
if ! abidiff --no-show-locs $abi "$out/now.abi" >"$out/abidiff.txt"; then
	cat "$out/abidiff.txt"
	echo "FAIL the library's interface differs: if only functions were added, tests/library/run.sh update"
	exit 1
fi
echo "ok   the library's interface is the committed one"
tests/library/test_python.py "$capture"
tests/library/test_sql.py "$capture"
tests/library/test_equal.py "$capture" "$out/print-static"
tests/library/test_tables.py
tests/library/test_hosts.py
LD_LIBRARY_PATH=$root/usr/lib tests/library/test_follow.py "$out/follow" build/live_region
LD_LIBRARY_PATH=$root/usr/lib tests/library/test_record.py "$out/record" build/live_region

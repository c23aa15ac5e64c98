#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Checks the house rules that grep can find: printing, names, sizes of files. Rooms: uses.py.
set -u

bad=0
complain() {
	if [ -n "$2" ]; then
		bad=1
		printf '%s:\n%s\n' "$1" "$2"
	fi
}

complain "shared/ includes more than shared/ and include/" "$(
	grep -nE '^#\s*include' shared/*.[ch] | grep -v '^shared/platform.h' |
		grep -vE '"(shared|tracebraid)/')"
complain "include/ includes more than include/" "$(
	grep -rnE '^#\s*include "' include | grep -v '"tracebraid/')"
complain "a part of a live region knows another part, or the source" "$(
	grep -cE '^#include "host_agent/live/(clock|control|rings|tables|threads|watch)\.h"' \
		host_agent/live/*.[ch] | grep -v '/region_private\.h:' | grep -v ':[01]$';
	grep -l 'host_agent/live/region_private\.h' host_agent/live/*.c |
		grep -vE '/region(_status|_end|_flight)?\.c$')"
complain "only cli/ and select/, a program, print" "$(
	grep -nE '\b(printf|puts|putchar|perror)\(|fprintf\(std(out|err)' host_agent/*/*.c host_agent/export/*/*.c |
		grep -vE '^host_agent/(cli|select)/')"
for wrong in __BYTE_ORDER__=__ORDER_BIG_ENDIAN__ __SIZEOF_POINTER__=4; do
	complain "a build with $wrong is not refused" "$(
		echo '#include "shared/platform.h"' |
			"${CC:-gcc}" -E -I. -Iinclude "-U${wrong%%=*}" "-D$wrong" - 2>&1 >/dev/null |
			grep -q '#error "tracebraid needs' || echo shared/platform.h)"
done
complain "a kernel version is tested outside compat.h" "$(
	grep -rnE 'LINUX_VERSION_CODE|KERNEL_VERSION\(' guest_driver tests/e2e/*/ |
		grep -v '^guest_driver/compat.h')"
complain "a file over 600 lines" "$(
	git ls-files '*.c' '*.h' '*.py' '*.sh' | xargs wc -l | awk '$2 != "total" && $1 > 600')"
# Messages are not broken, so that grep finds them: lines with a string do not count. Of the others
# so many are over 100 columns (a tab is 8) that they are wrapped file by file; they never become
# more. Lower this as they are.
OVER=812
# shellcheck disable=SC2016 # fields of awk
over=$(git ls-files '*.c' '*.h' '*.py' '*.sh' | xargs awk '
	!/"/ && length > 12 {
		nr = split($0, part, "\t")
		width = 0
		for (k = 1; k <= nr; k++)
			width += length(part[k]) + (k < nr ? 8 - (width + length(part[k])) % 8 : 0)
		if (width > 100)
			print FILENAME ":" FNR
	}')
nr=$(printf '%s\n' "$over" | wc -l)
if [ "$nr" -gt "$OVER" ]; then
	complain "$nr lines over 100 columns, $OVER are permitted; most are in" "$(
		printf '%s\n' "$over" | cut -d: -f1 | sort | uniq -c | sort -rn | head -20)"
fi
complain "a node of host_agent/library/exported.map has no line in debian/libtracebraid0.symbols" "$(
	sed -n 's/^\(TRACEBRAID_[0-9]*\) {$/\1/p' host_agent/library/exported.map |
		while read -r node; do
			grep -q "(symver)$node " debian/libtracebraid0.symbols || echo "$node"
		done)"
complain "a picture that is none (its bytes were taken for text)" "$(
	git ls-files '*.png' | while read -r file; do
		[ "$(head -c 8 "$file" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] || echo "$file"
	done)"
complain "a function over 60 lines" "$(
	git ls-files '*.c' '*.h' | xargs awk '
		FNR == 1 { start = 0 }
		/^{/ { start = FNR }
		/^}/ && start { if (FNR - start > 61) print FILENAME ":" start; start = 0 }')"
# The (S1) to (S3) of docs/ring.md are barriers.
complain "a document is named by a number" "$(
	git grep -nE "\bS[04]\b|\bS[0-4]'s\b|(Source:|as in|in) S[0-4]\b|: S[0-4] -" -- '*.[ch]' 'docs/*.md' ':!docs/ring.md' ':!tests/model')"
files=$(git ls-files '*.c' '*.h' '*.py' '*.sh' '*.mk' Makefile guest_driver/Kbuild .ci/run)
complain "a file without an SPDX line" "$(
	{
		printf '%s\n' "$files"
		printf '%s\n' "$files" |
			xargs awk '/SPDX-License-Identifier/ { print FILENAME; nextfile } FNR == 3 { nextfile }'
	} | sort | uniq -u)"
# Neither dpkg nor a reader of the changes has another place for it.
version=$(packages/version.sh)
complain "another version than $version, which is that of shared/version.h" "$(
	head -1 debian/changelog | grep -vF "tracebraid ($version-"
	grep -m 1 '^## [0-9]' CHANGELOG.md | grep -vE "^## $version - [0-9]{4}-[0-9]{2}-[0-9]{2}$")"
complain "left-overs" "$(git grep -nIE '\b(TODO|FIXME|XXX|HACK)\b' -- '*.[ch]' '*.py' '*.sh' ':!tests/lint')"
# Every non-static name carries the prefix; the library's have their own.
complain "a global name without braid_" "$(
	find build/obj/shared build/obj/host_agent -name '*.o' ! -path '*/host_agent/main.o' \
		-exec nm -A -g --defined-only {} + 2>/dev/null |
		awk '$NF !~ /^braid_/ && !($1 ~ /\/(library\/|sql\/public\.o:)/ && $NF ~ /^tracebraid_/)')"
# And each function of the driver, because a kernel backtrace has only its name (backtrace.sh sees
# what a macro defines). The kernel's trace headers call some that are named __trace_*.
complain "a static function of the driver without braid_" "$(
	grep -nE '^static [^=;("]*\b\w+\(' guest_driver/*.c guest_driver/*/*.[ch] shared/*.c |
		grep -vE '\b(braid|__trace)_\w+(##call)?\(|:static (DE(FINE|CLARE)_|LIST_HEAD|void \(\*)')"
[ "$bad" = 0 ] && echo "ok   house rules"
exit "$bad"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Checks that a man page shows all of its command's table, and that its examples have only its
# options.
set -u

cd -- "$(dirname -- "$0")/../.." || exit 1
agent=build/tracebraid
failed=0

complain()
{
	echo "$@"
	failed=1
}

# Option words of a text: -x and --long.
words()
{
	grep -oE -- '(^|[ ,])--?[a-zA-Z][a-zA-Z-]*' | tr -d ' ,' | sort -u
}

# A section of a rendered page.
section()
{
	awk -v name="$1" '/^[A-Z]/ { inside = $0 == name } inside'
}

check()
{
	local command=$1 page=build/man/tracebraid-$1.1 template=docs/man/${2-}tracebraid-$1.1.in table text kind example

	[ -e "$template" ] || { complain "docs/man: there is no page for '$command'"; return; }
	mandoc -Tlint -W warning "$page" || failed=1
	table=$("$agent" --describe "$command")
	text=$(mandoc -Tascii -O width=200 "$page" | col -bx)
	for kind in head:text options:option forms:form notes:notes; do
		grep -q "^${kind#*:}"$'\t' <<<"$table" || continue
		grep -qx "@${kind%:*}" "$template" || complain "$template: lacks @${kind%:*}"
	done
	example=$(section EXAMPLES <<<"$text" | grep -E "^ +[#$] .*tracebraid[- ]$command( |$)") ||
		complain "$page: no example"
	# The part of each example that is ours: up to a pipe, or a command that it runs.
	grep -vxFf <(awk -F'\t' '$1 == "option" { print $2; print $3 }' <<<"$table" | grep .) \
		< <(sed -E 's/ (\||--|&&|>) .*//; s/^.*tracebraid[- ]//' <<<"$example" | words) |
		sed "s|^|$page: its example has an unknown option: |" | grep . && failed=1
	return 0
}

mapfile -t commands < <("$agent" --describe | cut -f 2)
for command in "${commands[@]}"; do
	check "$command"
	grep -qx "@command $command" docs/man/tracebraid.1.in ||
		complain "docs/man/tracebraid.1.in: does not refer to '$command'"
done
agent=build/tracebraid-select
check select guest/
for page in docs/man/tracebraid-*.1.in; do
	command=${page##*/tracebraid-}
	[[ " ${commands[*]} " == *" ${command%.1.in} "* ]] || complain "$page: no such command"
done
mandoc -Tlint -W warning build/man/tracebraid.1 build/man/libtracebraid.3 || failed=1
[ "$failed" = 0 ] && echo 'ok   man pages'
exit "$failed"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Holds each man page against --help: the command's line, its options, and those of its examples.
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

# What the lines that begin an option say, up to their explanation.
options_of_help()
{
	sed -nE 's/^ {2,6}(-.*)$/\1/p' | sed -E 's/   *.*//; s/^(.*--[a-z-]+=?[^ ,]*) .*/\1/' | words
}

# A section of a rendered page.
section()
{
	awk -v name="$1" '/^[A-Z]/ { inside = $0 == name } inside'
}

check()
{
	local command=$1 line=$2 page=docs/man/tracebraid-$1.1 help text options example

	[ -e "$page" ] || { complain "docs/man: there is no page for '$command'"; return; }
	mandoc -Tlint -W warning "$page" || failed=1
	help=$("$agent" "$command" --help)
	text=$(mandoc -Tascii -O width=200 "$page" | col -bx)
	[ "$(section NAME <<<"$text" | sed -n 's/.* - //p')" = "$line" ] ||
		complain "$page: NAME is not what --help says: $line"
	options=$(options_of_help <<<"$help")
	diff <(section OPTIONS <<<"$text" | sed -nE 's/^ {5}(-.*)/\1/p' | sed -E 's/   *.*//' | words) \
		<(echo "$options") | sed -n "s|^< |$page: not in --help: |p; s|^> |$page: not explained: |p" |
		grep . && failed=1
	example=$(section EXAMPLES <<<"$text" | grep -E "^ +[#$] .*tracebraid $command( |$)") ||
		complain "$page: no example"
	# Of each example that is ours: up to a pipe, or a command that is run.
	grep -vxFf <(echo "$options") < <(sed -E 's/ (\||--|&&|>) .*//; s/^.*tracebraid //' <<<"$example" | words) |
		sed "s|^|$page: its example has an option that is not there: |" | grep . && failed=1
	return 0
}

commands=$("$agent" --help | sed -nE 's/^  ([a-z]+) +(.*)$/\1 \2/p')
while read -r command line; do
	check "$command" "$line"
done <<<"$commands"
for page in docs/man/tracebraid-*.1; do
	command=${page##*/tracebraid-}
	grep -q "^${command%.1} " <<<"$commands" || complain "$page: there is no such command"
done
mandoc -Tlint -W warning docs/man/tracebraid.1 || failed=1
while read -r command _; do
	grep -q "Xr tracebraid-$command 1" docs/man/tracebraid.1 ||
		complain "docs/man/tracebraid.1: does not refer to '$command'"
done <<<"$commands"
[ "$failed" = 0 ] && echo 'ok   man pages'
exit "$failed"

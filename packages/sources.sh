#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Writes the sources as a tar archive, in a clone those files that git knows: sources.sh NAME >FILE.
# All names in it begin with NAME/. The same commit gives the same bytes.
set -eu

list() {
	if [ -e .git ]; then
		git ls-files -z
	else
		find . -path ./build -prune -o ! -type d -print0
	fi
}

[ ! -e .git ] || set -- "$1" "--mtime=@$(git log -1 --format=%ct)"
name=$1
shift
list | LC_ALL=C sort -z | tar --create --no-recursion --null --files-from=- "$@" \
	--owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' --transform "flags=rSh;s|^\(\./\)\?|$name/|"

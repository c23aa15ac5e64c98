#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Makes a folder of links in which kbuild can build the driver, or what another Kbuild file says:
# stage.sh FOLDER [KBUILD]
set -eu

stage=$1
top=$(pwd)

find guest_driver shared include tests/e2e/*/ tests/kunit tests/bench/*/ -name '*.[ch]' -o -path guest_driver/Kbuild | while read -r file; do
	mkdir -p "$stage/$(dirname "$file")"
	[ -L "$stage/$file" ] || ln -sf "$top/$file" "$stage/$file"
done
ln -sf "$top/${2:-guest_driver/Kbuild}" "$stage/Kbuild"
# A link whose file has gone would be built all the same.
find "$stage" -type l ! -exec test -e {} \; -delete

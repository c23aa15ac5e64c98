#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Prints the tag of the release before this version; nothing if there is none.
cd "$(dirname -- "$0")/.." || exit 1
git tag --list 'v[0-9]*' --merged HEAD --sort=-version:refname | grep -vx "v$(packages/version.sh)" | head -1

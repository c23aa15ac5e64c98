#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs kbuild, keeps what it prints, and shows how far it has come: kbuild.sh LOG COMMAND...
set -o pipefail

log=$1 compiled=0
shift
"$@" 2>&1 | tee "$log" | while IFS= read -r line; do
	[[ $line =~ ^\ +CC\  ]] || continue
	compiled=$((compiled + 1))
	((compiled % 10)) || printf '  %-8s %s files compiled\n' KBUILD "$compiled"
done

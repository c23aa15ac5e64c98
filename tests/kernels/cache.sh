#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Prints the folder of kernels and other downloads, which survives `make clean`. TRACEBRAID_KERNELS
# overrides it.
set -eu

cache=${TRACEBRAID_KERNELS:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/tracebraid/kernels}
if ! mkdir -p "$cache" 2>/dev/null || [ ! -w "$cache" ]; then
	cache=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)/build/kernels/cache
	mkdir -p "$cache"
fi
echo "$cache"

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Prints the version of this tree, which is that of shared/version.h.
exec sed -n 's/^.define BRAID_VERSION.*"\(.*\)"/\1/p' "$(dirname -- "$0")/../shared/version.h"

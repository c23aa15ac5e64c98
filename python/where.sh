#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Prints the folder below PREFIX where Python looks for modules: where.sh PREFIX. Without a Python
# yet, that of the release's python3 package; prints nothing where that is unknown.
set -u

python=${PYTHON:-/usr/bin/python3}
command -v "$python" >/dev/null || python=python3
if command -v "$python" >/dev/null; then
	"$python" -I -c '
import site, sys
below = sys.argv[1].rstrip("/") + "/lib"
paths = [p for p in site.getsitepackages() if p.startswith(below)]
print(paths[0] if paths else "%s/python%d.%d/dist-packages" % (below, *sys.version_info[:2]))' "$1"
elif [ "$1" = /usr ]; then
	echo /usr/lib/python3/dist-packages
else
	version=$(apt-cache policy python3 2>/dev/null | sed -n 's/^ *Candidate: *\([0-9]*\.[0-9]*\).*/\1/p')
	[ -z "$version" ] || echo "$1/lib/python$version/dist-packages"
fi

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Puts the page of the HTML export together: its own script and style are all that it obeys.
set -eu
cd "$(dirname "$0")"

# A file's hash as a Content-Security-Policy has it.
hash_of() {
	printf "'sha256-%s'" "$(sha256sum "$1" | cut -c1-64 | tr a-f A-F |
		basenc --base16 -d | base64 -w0)"
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
{
	echo "(() => {"
	echo "'use strict';"
	cat dom.js data.js model.js states.js waits.js query.js colors.js viewport.js lanes.js view.js ruler.js \
		table.js panels.js longest.js verdict.js flame.js fragment.js input.js main.js
	echo "})();"
} > "$folder/script"
cat style.css small.css > "$folder/style"

while IFS= read -r line; do
	case $line in
	*@POLICY@*)
		echo "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';" \
			"script-src $(hash_of "$folder/script"); style-src $(hash_of "$folder/style");" \
			"base-uri 'none'; form-action 'none'\">" ;;
	*@STYLE@*) printf '<style>' && cat "$folder/style" && echo '</style>' ;;
	*@SCRIPT@*) printf '<script>' && cat "$folder/script" && echo '</script>' ;;
	*) printf '%s\n' "$line" ;;
	esac
done < page.html

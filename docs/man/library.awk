# SPDX-License-Identifier: GPL-2.0-or-later
# Makes libtracebraid.3 of the public header: awk -v version=VERSION -v date=DATE -f library.awk tracebraid.h output.h recording.h
# A comment that begins a part of the header ("Traces ----") is a section; kernel-doc is prose, and declarations stay as
# they are.

function escaped(text) {
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	return text ~ /^[.']/ ? "\\\\&" text : text
}

function end_code() {
	if (in_code)
		print ".fi\n.in"
	in_code = 0
}

function code(text) {
	if (!in_code)
		print (fresh ? "" : ".PP\n") ".in +4n\n.nf"
	in_code = 1
	fresh = 0
	gsub(/\t/, "    ", text)
	print escaped(text)
}

# A line of a comment, without its marks.
function prose(text) {
	end_code()
	if (text == "") {
		broken = 1
		return
	}
	if (broken && !fresh && text !~ /^@/)
		print ".PP"
	broken = fresh = 0
	if (match(text, /^[a-z_0-9]+ - /)) {
		print ".SS " substr(text, 1, RLENGTH - 3)
		print escaped(substr(text, RLENGTH + 1)) (text ~ /[.:;]$/ ? "" : ".")
	} else if (match(text, /^@[a-z_]+: */)) {
		print ".TP\n.I " substr(text, 2, index(text, ":") - 2)
		print escaped(substr(text, RLENGTH + 1))
	} else {
		sub(/^[ \t]+/, "", text)
		print escaped(text)
	}
}

BEGIN {
	print ".TH LIBTRACEBRAID 3 " date " \"tracebraid " version "\""
	print ".SH NAME\nlibtracebraid \\- traces of virtual machines and their host"
	print ".SH SYNOPSIS\n.nf\n#include <tracebraid/tracebraid.h>\n"
	print "cc ... $(pkg\\-config \\-\\-cflags \\-\\-libs tracebraid)\n.fi\n.SH DESCRIPTION"
	fresh = 1
}

/^#ifndef|^#ifdef|^#endif|^#error|^#pragma|^#include|^extern "C"|SPDX/ { next }
/^#define TRACEBRAID_[A-Z]*_H/ { next }
/^}$/ { next }
/^\/\* .* -----* \*\/$/ {
	end_code()
	title = substr($0, 4)
	sub(/ -+ \*\/$/, "", title)
	print ".SH " toupper(title)
	fresh = 1
	next
}
!in_comment && /^\/\*/ {
	text = $0
	in_comment = text !~ /\*\/$/
	sub(/^\/\*+ ?/, "", text)
	sub(/ ?\*\/$/, "", text)
	if (text != "" && !in_comment && text !~ /^[a-z_0-9]+ - /)
		prose("")
	if (text != "")
		prose(text)
	next
}
in_comment {
	text = $0
	if (text ~ /^ ?\*\/$/) {
		in_comment = 0
		next
	}
	in_comment = text !~ /\*\/$/
	sub(/^ \* ?/, "", text)
	sub(/ ?\*\/$/, "", text)
	prose(text)
	next
}
/^$/ { next }
{ code($0) }

END {
	end_code()
	print ".SH SEE ALSO\n.BR tracebraid (1)"
}

# SPDX-License-Identifier: GPL-2.0-or-later
# Makes a man page of its template and the commands' tables: awk -v agent=build/tracebraid -f generate.awk PAGE.1.in
# A line of the template that begins with @ names what stands there: @head, @options, @forms,
# @notes and @status of the page's command, @command NAME, in a list of commands, and @os, the version.

# Text as mdoc has it: a line for each sentence.
function put(text,    line)
{
	gsub(/\\/, "\\\\e", text)
	while (text != "") {
		line = match(text, /\. [A-Z]/) ? substr(text, 1, RSTART) : text
		text = substr(text, length(line) + 2)
		print line ~ /^[.']/ ? "\\&" line : line
	}
}

function hyphens(word)
{
	gsub(/-/, "\\-", word)
	return word
}

# All rows of a kind, as paragraphs.
function put_rows(kind,    k)
{
	for (k = 1; k <= nr[kind]; k++) {
		if (k > 1)
			print ".Pp"
		put(row[kind, k])
	}
}

# "-o", "--output", "=OUT"
function put_option(letter, name, argument)
{
	printf ".It %sFl %s", letter == "" ? "" : "Fl " substr(letter, 2) " , ", hyphens(substr(name, 2))
	if (argument ~ /^=/)
		printf " Ns = Ns Ar %s", substr(argument, 2)
	else if (argument != "")
		printf " %sAr %s", argument ~ /^\[=/ ? "Ns " : "", argument
	print ""
}

function put_list(kind,    k, column)
{
	print ".Bl -tag -width Ds"
	for (k = 1; k <= nr[kind]; k++) {
		split(row[kind, k], column, "\t")
		if (kind == "option") {
			put_option(column[1], column[2], column[3])
			put(column[5])
		} else {
			print ".It Cm " column[1]
			put(column[2])
		}
	}
	print ".El"
}

function put_head(    k)
{
	# A program that is one command has its name.
	joint = agent ~ /tracebraid-[a-z]+$/ ? "-" : " "
	print ".Dt TRACEBRAID-" toupper(command) " 1\n.Os " version "\n.Sh NAME\n.Nm tracebraid-" command
	print ".Nd " row["summary", 1]
	print ".Sh SYNOPSIS"
	for (k = 1; k <= nr["usage"]; k++)
		print ".Nm tracebraid" joint command "\n" row["usage", k]
	print ".Sh DESCRIPTION"
	put_rows("text")
}

BEGIN {
	command = ARGV[1]
	sub(/.*\/tracebraid-?/, "", command)
	sub(/\.1\.in$/, "", command)
	describe = agent " --describe " command
	while ((describe | getline line) > 0) {
		kind = line
		sub(/\t.*/, "", kind)
		row[kind, ++nr[kind]] = substr(line, length(kind) + 2)
		rows++
	}
	(agent " --version") | getline version
	if (close(describe) || !rows || version == "") {
		print ARGV[1] ": no such command" >"/dev/stderr"
		exit 1
	}
	for (k = 1; k <= nr["command"]; k++) {
		split(row["command", k], column, "\t")
		summary[column[1]] = column[2]
	}
}

/^@os$/ { print ".Os " version; next }
/^@head$/ { put_head(); next }
/^@options$/ { print ".Sh OPTIONS"; put_list("option"); next }
/^@forms$/ { put_list("form"); next }
/^@notes$/ { put_rows("notes"); next }
/^@status$/ { put(row["status", 1] " On error, one line on standard error says what failed and what to do next."); next }
/^@command / { print ".It Xr tracebraid-" $2 " 1"; put(summary[$2]); next }
{ print }

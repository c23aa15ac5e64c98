# SPDX-License-Identifier: GPL-2.0-or-later
# Bash completion: commands, options and their values from the agent's tables (--describe),
# regions, domains and events as list prints them.

# Lines that begin with the word. Not by compgen -W, which would run what a guest calls itself.
_tracebraid_offer()
{
	local line

	while IFS= read -r line; do
		[[ $line == "$word"* ]] && COMPREPLY+=("$line")
	done
}

# A column of the rows of a command's table that begin with a word; the second column or the third
# is the option, if one is given.
_tracebraid_table()
{
	"$program" --describe ${3:+"$3"} 2>/dev/null |
		awk -F'\t' -v row="$1" -v column="$2" -v option="${4-}" \
			'$1 == row && (option == "" || $2 == option || $3 == option) && $column != "" { print $column }'
}

# What names a region: paths, and guests' names.
_tracebraid_regions()
{
	"$program" list --json 2>/dev/null |
		sed -n 's/.*"region":"\([^"]*\)","guest":"\([^"]*\)".*/\1\n\2/p'
}

# Guests in the captures that the line names.
_tracebraid_streams()
{
	local file

	echo host
	for file in "${COMP_WORDS[@]:2}"; do
		[ -f "$file" ] && "$program" clock --json "$file" 2>/dev/null |
			grep -o '"stream":"[^"]*"' | sed 's/^"stream":"//; s/"$//'
	done
}

# Systems of events; after "SYSTEM:" its events.
_tracebraid_events()
{
	if [ -n "$system" ]; then
		"$program" list -e "$system:*" 2>/dev/null | sed 's/^[^:]*://'
	else
		"$program" list -e 2>/dev/null | sed 's/:.*//' | sort -u
	fi
}

# What the kinds of values and operands stand for: words, and @KINDs of names.
_tracebraid_values()
{
	local kind

	for kind; do
		case $kind in
		@stream) _tracebraid_streams ;;
		@event) _tracebraid_events ;;
		@region) _tracebraid_regions ;;
		@form) _tracebraid_table form 2 export ;;
		@analysis) _tracebraid_table form 2 analyze ;;
		@user) compgen -u ;;
		@domain) "$program" list --json 2>/dev/null | sed -n 's/.*"domain":"\([^"]*\)".*/\1/p' ;;
		*) printf '%s\n' "$kind" ;;
		esac
	done
}

_tracebraid()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} program=${COMP_WORDS[0]}
	local command=${COMP_WORDS[1]} option system='' values=()

	# "--option=value" is three words here, and so is "SYSTEM:EVENT".
	option=$before
	if [ "$word" = : ]; then
		word='' system=$before option=${COMP_WORDS[COMP_CWORD-2]}
	elif [ "$before" = : ]; then
		system=${COMP_WORDS[COMP_CWORD-2]} option=${COMP_WORDS[COMP_CWORD-3]}
	elif [ "$word" = = ]; then
		word=
	elif [ "$before" = = ]; then
		option=${COMP_WORDS[COMP_CWORD-2]}
	fi

	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		_tracebraid_offer < <(_tracebraid_table command 2)
		return
	fi
	if [ "$command" = help ]; then
		_tracebraid_offer < <(_tracebraid_table command 2)
		return
	fi
	[[ $option == -* ]] &&
		read -ra values < <(_tracebraid_table option 5 "$command" "$option")
	if [ "${#values[@]}" != 0 ]; then
		_tracebraid_offer < <(_tracebraid_values "${values[@]}")
		[[ ${COMPREPLY[*]} == *: ]] && compopt -o nospace
	elif [[ $word == -* ]]; then
		_tracebraid_offer < <(_tracebraid_table option 2 "$command"; _tracebraid_table option 3 "$command")
	else
		read -ra values < <(_tracebraid_table operands 2 "$command")
		# The first operand of analyze is an analysis, the others are files.
		[ "${values[*]}" = @analysis ] && [ "$COMP_CWORD" != 2 ] && values=()
		[ "${values[*]}" = @domain ] || [ "${values[*]}" = @analysis ] || mapfile -t COMPREPLY < <(compgen -f -- "$word")
		_tracebraid_offer < <(_tracebraid_values "${values[@]}")
	fi
}
complete -o filenames -F _tracebraid tracebraid

# SPDX-License-Identifier: GPL-2.0-or-later
# Bash completion: commands, options and forms as --help prints them, regions,
# domains and events as list does.

# Lines that begin with the word. Not by compgen -W, which would run what a guest calls itself.
_tracebraid_offer()
{
	local line

	while IFS= read -r line; do
		[[ $line == "$word"* ]] && COMPREPLY+=("$line")
	done
}

# Options of a command: the words that begin the lines of --help that explain one.
_tracebraid_options()
{
	"$program" "$command" --help 2>/dev/null | sed -nE 's/^ {2,6}(-.*)$/\1/p' |
		sed -E 's/   *.*//; s/^(.*--[a-z-]+=?[^ ,]*) .*/\1/' |
		grep -oE '(^|[ ,])--?[a-zA-Z][a-z-]*' | tr -d ' ,'
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

# Systems of events; behind "SYSTEM:" its events.
_tracebraid_events()
{
	if [ -n "$system" ]; then
		"$program" list -e "$system:*" 2>/dev/null | sed 's/^[^:]*://'
	else
		"$program" list -e 2>/dev/null | sed 's/:.*//' | sort -u
	fi
}

_tracebraid()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} program=${COMP_WORDS[0]}
	local command=${COMP_WORDS[1]} option values='' system=''
	local domains="s/.*\"domain\":\"\([^\"]*\)\".*/\1/p"

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
	case $option in
	--clock) values="host realtime" ;;
	--clock-source) values="auto kvm exchange pairs nominal" ;;
	-s | --sort) values="name events bytes lost fill run steal exits" ;;
	-c | --connect) values="qemu:///system qemu:///session" ;;
	-C | --host-clock) values="mono_raw mono boot tai x86-tsc local global perf" ;;
	esac

	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		_tracebraid_offer < <("$program" --help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p')
	elif [ -n "$values" ]; then
		_tracebraid_offer < <(tr ' ' '\n' <<<"$values")
	elif [ "$option" = --to ]; then
		_tracebraid_offer < <("$program" export --help 2>/dev/null | sed -n '/^Forms:/,/^$/s/^  \([^ ]*\) .*/\1/p')
	elif [ "$option" = --stream ]; then
		_tracebraid_offer < <(_tracebraid_streams)
	elif [ "$option" = -e ] || [ "$option" = --event ] || [ "$option" = --on ]; then
		_tracebraid_offer < <(_tracebraid_events)
	elif [ "$before" = -d ] || [ "$before" = --domain ] ||
		[[ $command =~ ^(attach|detach)$ && $word != -* ]]; then
		_tracebraid_offer < <("$program" list --json 2>/dev/null | sed -n "$domains")
	elif [ "$before" = -r ]; then
		_tracebraid_offer < <(_tracebraid_regions; printf '%s\n' ivshmem-doorbell: vhost-user:)
		[[ ${COMPREPLY[*]} == *: ]] && compopt -o nospace
	elif [[ $word == -* ]]; then
		_tracebraid_offer < <(_tracebraid_options)
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		[[ $command =~ ^(list|stat|verify|clock)$ ]] && _tracebraid_offer < <(_tracebraid_regions)
	fi
}
complete -o filenames -F _tracebraid tracebraid

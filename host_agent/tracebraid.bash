# SPDX-License-Identifier: GPL-2.0-or-later
# Bash completion: commands and options as --help prints them, regions and domains as list does.

# Lines that begin with the word. Not by compgen -W, which would run what a guest calls itself.
_tracebraid_offer()
{
	local line

	while IFS= read -r line; do
		[[ $line == "$word"* ]] && COMPREPLY+=("$line")
	done
}

_tracebraid()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} program=${COMP_WORDS[0]}
	local command=${COMP_WORDS[1]} option values=
	local domains="s/.*\"domain\":\"\([^\"]*\)\".*/\1/p"

	# "--option=value" is three words here.
	[ "$word" = = ] && word=
	option=$before
	[ "$before" = = ] && option=${COMP_WORDS[COMP_CWORD-2]}
	case $option in
	--clock) values="host realtime" ;;
	--clock-source) values="auto kvm exchange pairs nominal" ;;
	--sort) values="name events bytes lost fill run steal exits" ;;
	-c | --connect) values="qemu:///system qemu:///session" ;;
	-C | --host-clock) values="mono_raw mono boot tai x86-tsc local global perf" ;;
	esac

	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		_tracebraid_offer < <("$program" --help 2>/dev/null | sed -n 's/^  \([a-z]*\)  .*/\1/p')
	elif [ -n "$values" ]; then
		_tracebraid_offer < <(tr ' ' '\n' <<<"$values")
	elif [ "$before" = -d ] || [ "$before" = --domain ] ||
		[[ $command =~ ^(attach|detach)$ && $word != -* ]]; then
		_tracebraid_offer < <("$program" list --json 2>/dev/null | sed -n "$domains")
	elif [ "$before" = -r ]; then
		_tracebraid_offer < <("$program" list 2>/dev/null | awk 'NR > 1 && /^\// {print $1}'
			printf '%s\n' ivshmem-doorbell: vhost-user:)
		[[ ${COMPREPLY[*]} == *: ]] && compopt -o nospace
	elif [[ $word == -* ]]; then
		_tracebraid_offer < <("$program" "$command" --help 2>/dev/null |
			grep -oE '(^|[ ,])--?[a-zA-Z][a-z-]*' | tr -d ' ,')
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	fi
}
complete -o filenames -F _tracebraid tracebraid

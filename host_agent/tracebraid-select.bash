# SPDX-License-Identifier: GPL-2.0-or-later
# Bash completion of tracebraid-select: its options and their values, from its table (--describe),
# and the systems of the driver's events.

_tracebraid_select()
{
	local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]} values line
	local events=/sys/kernel/debug/tracebraid/trace/events

	# "--option=value" is three words here.
	[ "$word" = = ] && word=''
	[ "$option" = = ] && option=${COMP_WORDS[COMP_CWORD-2]}
	COMPREPLY=()
	values=$("${COMP_WORDS[0]}" --describe 2>/dev/null | awk -F'\t' -v option="$option" -v word="$word" '
		$1 != "option" { next }
		option != "" && ($2 == option || $3 == option) { value = $5; takes = $4 != "" }
		{ all = all "\n" $2 "\n" $3 }
		END {
			gsub(/ /, "\n", value)
			print takes ? value : word ~ /^-/ ? all : ""
		}')
	[ "$values" = @event ] && values=$(ls "$events" 2>/dev/null)
	while IFS= read -r line; do
		[[ -n $line && $line == "$word"* ]] && COMPREPLY+=("$line")
	done <<<"$values"
}
complete -F _tracebraid_select tracebraid-select

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Searches all states of the ring's model in small shapes, and all orders of accesses that the
# barriers allow, and checks that both detect their mutants: run.sh [--full] [NAME...] NAME is a
# search, a mutant, or "ring" or "order" for all of a model.
set -u

room=$(cd "$(dirname "$0")" && pwd)
out=$room/../../build/model
full=0 background=
[ "${1-}" = --full ] && full=1 && background='nice -n 19' && shift	# it takes hours
only=" $* " names=' '
passed=0 failed=0

for tool in spin gcc; do
	command -v "$tool" >/dev/null || { echo "run.sh: $tool is not installed"; exit 1; }
done
mkdir -p "$out" || exit 1
# spin and pan write their files next to the model.
cp "$room/ring.pml" "$room/order.pml" "$out/" || exit 1
cd "$out" || exit 1
model=ring.pml

wanted() {
	names="$names$1 ${model%.pml} "
	[ "$only" = "  " ] && return 0
	case $only in *" $1 "* | *" ${model%.pml} "*) return 0 ;; esac
	return 1
}

ok() {
	passed=$((passed + 1))
	echo "ok   $*"
}

fail() {
	failed=$((failed + 1))
	echo "FAIL $*"
}

# search OPTIMIZE MEGABYTES DEFINES: writes pan.log; fails if pan could not be built or run
search() {
	optimize=$1 megabytes=$2
	shift 2
	rm -f pan pan.* $model.trail
	# The model merges steps itself, so spin's own reduction would not help.
	# shellcheck disable=SC2086 # a command and its arguments, or nothing
	$background spin -a "$@" $model >pan.log 2>&1 &&
		$background gcc "$optimize" -w -DSAFETY -DNOREDUCE -DCOLLAPSE -DMEMLIM="$megabytes" \
			-o pan pan.c >>pan.log 2>&1 || return 1
	# shellcheck disable=SC2086
	$background timeout 3600 ./pan -m100000 -w24 >pan.log 2>&1
}

# A search that ran out of memory, depth or time proves nothing.
all_seen() {
	grep -q 'states, stored' pan.log &&
		! grep -qE 'not completed|max search depth too small|MEMLIM|out of memory' pan.log
}

trail() {
	grep -E 'pan:|not completed|too small|MEMLIM|rror' pan.log | head -5 | sed 's/^/     /'
	[ -f $model.trail ] && spin -t -p "$@" $model 2>&1 | tail -60 | sed 's/^/     /'
}

# proves NAME MEGABYTES DEFINES: no state of this shape violates an assertion
proves() {
	name=$1 megabytes=$2
	shift 2
	wanted "$name" || return 0
	if search -O1 "$megabytes" "$@" && all_seen && grep -q 'errors: 0' pan.log; then
		ok "$name: $(awk '/states, stored/ { print $1 }' pan.log) states"
	else
		fail "$name ($*)"
		trail "$@"
	fi
}

# catches NAME DEFINES: with this flaw, some state does
catches() {
	name=$1
	shift
	wanted "$name" || return 0
	if search -O0 1500 "-DBUG_$name" "$@" && grep -q 'errors: 1' pan.log; then
		ok "mutant $name: $(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' pan.log | cut -c1-70)"
	else
		fail "mutant $name was not detected ($*)"
		trail "$@"
	fi
}

# Shapes. With one cell per sub-buffer each event begins a new one: most laps for the fewest states.
proves nested_overwrite 1500 -DTASK=2 -DIRQ=2
proves nested_full_stops 1500 -DTASK=2 -DIRQ=1 -DOVERWRITE=0
proves three_contexts 1500 -DTASK=1 -DIRQ=1 -DNMI=1 -DLATE_READER
proves two_cells 1500 -DTASK=2 -DIRQ=1 -DCELLS=2 -DMIXED -DABANDON
proves deaths_laps 1500 -DTASK=4 -DIRQ=0 -DREADER_DEATHS=1 -DWRITER_DEATH
proves deaths_nested 1500 -DTASK=2 -DIRQ=1 -DREADER_DEATHS=1
proves deaths_late_reader 1500 -DTASK=2 -DIRQ=2 -DWRITER_DEATH -DLATE_READER
proves deaths_full_stops 1500 -DTASK=3 -DIRQ=0 -DREADER_DEATHS=1 -DWRITER_DEATH -DOVERWRITE=0
proves four_slots 1500 -DN=4 -DTASK=3 -DIRQ=1
proves counter_jumps 1500 -DTASK=2 -DIRQ=1 -DCELLS=2 -DJUMPS=1
proves look 1500 -DTASK=3 -DIRQ=0 -DPEEK
if [ "$full" = 1 ]; then
	proves deaths_nested_overwrite 12000 -DTASK=2 -DIRQ=2 -DREADER_DEATHS=1 -DWRITER_DEATH
	proves nested_full_stops_more 12000 -DTASK=2 -DIRQ=2 -DOVERWRITE=0
	proves deaths_nested_full_stops 12000 -DTASK=2 -DIRQ=2 -DREADER_DEATHS=1 -DWRITER_DEATH \
		-DOVERWRITE=0
	proves three_contexts_more 12000 -DTASK=1 -DIRQ=2 -DNMI=1 -DWRITER_DEATH -DLATE_READER
	proves live_three_contexts 12000 -DTASK=1 -DIRQ=1 -DNMI=1
	proves deaths_three_contexts 12000 -DTASK=1 -DIRQ=1 -DNMI=1 -DREADER_DEATHS=1 -DWRITER_DEATH
	proves deaths_two_cells 12000 -DTASK=2 -DIRQ=1 -DCELLS=2 -DMIXED -DABANDON \
		-DREADER_DEATHS=1 -DWRITER_DEATH
	proves long_laps 12000 -DTASK=6 -DIRQ=0 -DREADER_DEATHS=2 -DWRITER_DEATH
	proves look_nested 12000 -DTASK=2 -DIRQ=1 -DREADER_DEATHS=1 -DPEEK
fi

# Mutants: each flaw is one that the C code could have.
catches commit_before_data -DTASK=2 -DIRQ=0
catches counter_before_tail -DTASK=1 -DIRQ=1 -DCELLS=2
catches claim_any_position -DTASK=1 -DIRQ=3 -DLATE_READER
catches no_clear -DTASK=2 -DIRQ=0
catches guard_by_slot -DTASK=2 -DIRQ=2
catches guard_moves_early -DTASK=2 -DIRQ=2
catches zero_late -DTASK=2 -DIRQ=2
catches drop_in_wrong_page -DTASK=2 -DIRQ=2
catches jump_stays -DTASK=2 -DIRQ=0 -DCELLS=2 -DJUMPS=1
catches no_pending_look -DTASK=2 -DIRQ=1
catches fast_though_nested -DTASK=1 -DIRQ=1 -DCELLS=2
catches take_by_store -DTASK=4 -DIRQ=0
catches position_from_block -DTASK=3 -DIRQ=0 -DREADER_DEATHS=1
catches persist_before_delivery -DTASK=2 -DIRQ=0 -DREADER_DEATHS=1
catches persist_in_place -DTASK=3 -DIRQ=0 -DREADER_DEATHS=1
catches peek_without_slot -DTASK=3 -DIRQ=0 -DPEEK
catches peek_without_commit -DTASK=5 -DIRQ=0 -DPEEK

# The barriers: each test, then without each of its barriers.
model=order.pml
proves publish 1500 -DPUBLISH
catches publish_no_release -DPUBLISH -DNO_RELEASE
catches publish_no_acquire -DPUBLISH -DNO_ACQUIRE
proves give_back 1500 -DGIVE_BACK
catches give_back_no_release -DGIVE_BACK -DNO_RELEASE
proves odd_while_changed 1500 -DODD_WHILE_CHANGED
for barrier in RELEASE ACQUIRE WRITER_FENCE READER_FENCE; do
	catches "odd_while_changed_no_$barrier" -DODD_WHILE_CHANGED "-DNO_$barrier"
done
proves latch 1500 -DLATCH
for barrier in RELEASE ACQUIRE WRITER_FENCE; do
	catches "latch_no_$barrier" -DLATCH "-DNO_$barrier"
done
proves wake 1500 -DWAKE
catches wake_no_writer_fence -DWAKE -DNO_WRITER_FENCE
catches wake_no_reader_fence -DWAKE -DNO_READER_FENCE
proves incarnation 1500 -DINCARNATION
catches incarnation_no_guest_fence -DINCARNATION -DNO_WRITER_FENCE
catches incarnation_no_agent_fence -DINCARNATION -DNO_READER_FENCE
proves ping 1500 -DPING
for barrier in RELEASE ACQUIRE WRITER_FENCE READER_FENCE; do
	catches "ping_no_$barrier" -DPING "-DNO_$barrier"
done
proves host_time 1500 -DHOST_TIME
catches host_time_no_reader_fence -DHOST_TIME -DNO_READER_FENCE

for name; do
	case $names in *" $name "*) ;; *) fail "there is no search and no mutant $name" ;; esac
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The states of a source that grows.
 *
 * Begin them when the source has the streams that are to be followed, and a while after the start:
 * the starts of recordings are found in what it has then. Then, again and again: all items up to a
 * time, braid_states_pause(), the source grows, braid_merge_more(), braid_states_grown().
 */
#ifndef BRAID_ANALYZE_GROW_H
#define BRAID_ANALYZE_GROW_H

#include "host_agent/analyze/states.h"

/**
 * braid_states_pause - all events up to a time were taken, of a source that grows
 * @s: the states
 * @ns: at least the time of the last item, and of the last pause; no item before it follows
 *
 * What is known then stays so: a loss that is found later begins here, not at the ring's last
 * event. The culprits of vCPUs that wait are handed on, unless it is not certain on which CPU they
 * do.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_states_pause(struct braid_states *s, s64 ns);

/**
 * braid_states_grown - the source has grown since the last pause
 * @s: the states
 * @renewed: its generation has changed, so event types are numbered again
 *
 * Call it after braid_merge_more(). A window of the source ends where it stops, and guests where
 * they end, but not before the pause. Streams that the source did not have at the beginning are
 * ignored: their items must not be handed over. Intervals of cpu.stat are found after they are
 * over: where the trace has no moments of quotas, what they hold back counts as stolen.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_states_grown(struct braid_states *s, bool renewed);

/**
 * braid_states_again - the stream of a recording's next file that is the same guest, or the host
 * @source: the next file
 * @former: of the former one
 *
 * Return: NULL: it ended, or is not there.
 */
const struct braid_stream *braid_states_again(const struct braid_source *source,
					      const struct braid_stream *former);

/**
 * braid_states_go_on - begin where those of the recording's former file are
 * @s: begun, before the first event; its source is the next file, and lacks nothing
 * @former: at a pause; all that it has shown up to then holds in @s, which goes on with its sums.
 *	Only tasks that exited are forgotten. braid_states_free() is all that may follow
 * @vcpus: set for each vCPU of @former: its number in @s; or BRAID_NO_VCPU: its observation is over
 *
 * What a guest that is new did then is found as at any start.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_states_go_on(struct braid_states *s, struct braid_states *former, u32 *vcpus);

#endif /* BRAID_ANALYZE_GROW_H */

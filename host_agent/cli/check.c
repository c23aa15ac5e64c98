// SPDX-License-Identifier: GPL-2.0-or-later
/* Compares a ring's accounting with a walk over its pages. */
#include <stdarg.h>
#include <stdio.h>

#include "host_agent/cli/check.h"

int braid_walk_rings(struct braid_source *source)
{
	size_t k, j;
	int ret;

	for (k = 0; k < source->nr_streams; k++) {
		for (j = 0; j < source->streams[k]->nr_rings; j++) {
			u64 turns = 0;

			while ((ret = braid_ring_next(source->streams[k]->rings[j])) > 0)
				if (source->progress && !(++turns & 0xffff))
					source->progress(source->progress_arg, "walking",
							 source->bytes_read, source->bytes);
			if (ret < 0)
				return ret;
		}
	}
	return 0;
}

__attribute__((__format__(printf, 2, 3)))
static void contradict(struct braid_text *why, const char *format, ...)
{
	char phrase[160];
	va_list args;

	va_start(args, format);
	vsnprintf(phrase, sizeof(phrase), format, args);
	va_end(args);
	if (why->bytes)
		braid_text_puts(why, "; ");
	braid_text_puts(why, phrase);
}

static void check_told(const struct braid_ring *ring, struct braid_text *why)
{
	const struct braid_chunk_ring_end *first = &ring->report.first, *end = &ring->report.last;
	const struct braid_ring_walk *walk = &ring->walk;
	bool unfinished = ring->stream->unfinished;
	/* A recorder that was killed, or lost its role while it wrote, has not accounted for these. */
	u64 unknown = walk->outside - (unfinished ? 0 : walk->late);
	unsigned long long found = walk->events + walk->skipped - unknown;
	unsigned long long read = ring->report.read, lost = ring->report.lost;

	if (end->written != end->read + end->lost + end->left)
		contradict(why, "written %llu, but read + lost + left = %llu",
			   (unsigned long long)end->written,
			   (unsigned long long)(end->read + end->lost + end->left));
	if (ring->report.nr_parts == 1 &&
	    end->written != ring->report.before + read + lost + ring->report.left +
			    ring->report.after)
		contradict(why, "written %llu differs from before + read + lost + left + after",
			   (unsigned long long)end->written);
	if (found != read)
		contradict(why, "the recording read %llu events, the capture holds %llu", read,
			   found);
	if (ring->stream->kind == BRAID_STREAM_HOST)
		return;
	if (walk->started && walk->first_seq != first->first_seq && !unfinished)
		contradict(why, "the recording began at event %llu, the capture at %llu",
			   (unsigned long long)first->first_seq,
			   (unsigned long long)walk->first_seq);
	if (walk->lost > walk->skipped + walk->damaged + lost)
		contradict(why, "the recording lost %llu events, the capture lacks %llu", lost,
			   (unsigned long long)walk->lost);
	if (end->broken)
		contradict(why, "the guest stopped the ring (writer fault %u)", end->broken);
	if (end->fault)
		contradict(why, "the agent stopped reading the ring (reader fault %llu)",
			   (unsigned long long)end->fault);
}

bool braid_check_account(const struct braid_ring *ring, struct braid_text *why)
{
	const struct braid_ring_walk *walk = &ring->walk;
	size_t before = why->bytes;

	if (ring->report.nr_parts)
		check_told(ring, why);
	if (ring->stream->kind == BRAID_STREAM_GUEST && walk->started &&
	    walk->next_seq - walk->first_seq != walk->events + walk->lost + walk->elsewhere)
		contradict(why, "its sequence numbers cover %llu events, but %llu were found, lost or read in the guest",
			   (unsigned long long)(walk->next_seq - walk->first_seq),
			   (unsigned long long)(walk->events + walk->lost + walk->elsewhere));
	if (walk->damaged > walk->skipped)
		contradict(why, "%llu event%s recorded but cannot be read",
			   (unsigned long long)walk->damaged, walk->damaged == 1 ? " was" : "s were");
	if (walk->faults)
		contradict(why, "%llu fault%s in its pages; 'tracebraid verify' explains %s",
			   (unsigned long long)walk->faults, walk->faults == 1 ? "" : "s",
			   walk->faults == 1 ? "it" : "each");
	return why->bytes == before;
}

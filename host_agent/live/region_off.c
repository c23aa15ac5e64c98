// SPDX-License-Identifier: GPL-2.0-or-later
/* How often and how long recording was off in the guest: that time has no events and no losses. */
#include <stdio.h>

#include "host_agent/live/account.h"
#include "host_agent/live/rings.h"

static struct braid_live_off *off_of(const struct braid_live_rings *r,
				     const struct braid_live_stream *s, u32 buffer, u32 vcpu)
{
	return &r->off[(size_t)buffer * s->sb.nr_vcpus + vcpu];
}

void braid_live_off_take(struct braid_live_rings *r, const struct braid_live_stream *s,
			 const struct braid_live_ring *ring)
{
	struct braid_live_off *off = off_of(r, s, ring->buffer, ring->vcpu);
	struct braid_ring_off now;

	if (!s->o.window || !braid_live_takes(s) || s->stopped)
		return;
	now = braid_ring_off(&ring->reader.map);
	if (!now.known)
		return;
	if (!off->known) {
		off->times = now.now;
	} else if (now.times < off->last_times || now.steps < off->last_steps) {
		off->times += now.times;	/* of another buffer of the same name */
		off->steps += now.steps;
	} else {
		off->times += now.times - off->last_times;
		off->steps += now.steps - off->last_steps;
	}
	off->known = true;
	off->last_times = now.times;
	off->last_steps = now.steps;
}

/* Of a buffer's rings, those that were off. */
struct span {
	u32 nr;
	struct braid_live_off least, most;
};

static struct span span_of(const struct braid_live_rings *r, const struct braid_live_stream *s,
			   u32 buffer)
{
	struct span span = { .least = { .times = ~0ULL, .steps = ~0ULL } };
	u32 vcpu;

	for (vcpu = 0; vcpu < s->sb.nr_vcpus; vcpu++) {
		const struct braid_live_off *off = off_of(r, s, buffer, vcpu);

		if (!off->times)
			continue;
		span.nr++;
		if (off->times < span.least.times)
			span.least.times = off->times;
		if (off->times > span.most.times)
			span.most.times = off->times;
		if (off->steps < span.least.steps)
			span.least.steps = off->steps;
		if (off->steps > span.most.steps)
			span.most.steps = off->steps;
	}
	return span;
}

static int note_buffer(struct braid_live_stream *s, u32 buffer, const struct span *span)
{
	u64 least_ns = braid_ring_off_ns(span->least.steps, s->sb.counter_hz);
	u64 most_ns = braid_ring_off_ns(span->most.steps, s->sb.counter_hz);
	/* One switch of all rings turns off one after another. */
	bool differ = span->least.times != span->most.times || most_ns - least_ns > 1000000;
	char where[64] = "";

	if (span->nr < s->sb.nr_vcpus)
		snprintf(where, sizeof(where), " on %u of %u vCPUs", span->nr, s->sb.nr_vcpus);
	return braid_live_note(s, "recording into buffer %s was off in the guest%s %s%llu time%s, for %s%.6f s: events of that time are neither recorded nor counted as lost",
			       braid_live_buffer_name(s, buffer).text, where,
			       differ ? "up to " : "", (unsigned long long)span->most.times,
			       span->most.times == 1 ? "" : "s", differ ? "up to " : "",
			       (double)most_ns / 1e9);
}

int braid_live_off_note(const struct braid_live_rings *r, struct braid_live_stream *s)
{
	struct span span;
	u32 buffer;
	int err = 0;

	for (buffer = 0; buffer < s->sb.nr_buffers && r->off && !err; buffer++) {
		span = span_of(r, s, buffer);
		if (span.nr)
			err = note_buffer(s, buffer, &span);
	}
	return err;
}

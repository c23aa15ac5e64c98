// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a recording says: lines to the session's caller; in the capture, whose host it is of, and
 * marks up to which time it has all events, for programs that read it while it grows.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"

#define LINE_BYTES	2048
#define MARK_NS		100000000ULL	/* not oftener */
#define SLACK_NS	10000000ULL	/* maximum delay between an event's begin and commit ... */
#define LIVE_SLACK_NS	1000000ULL	/* ... that a viewer waits for; later ones are marked */
#define DEADLINE_NS	1000000000ULL	/* what is not complete by then is late ... */
#define PROMPT_DEADLINE_NS	120000000ULL	/* ... where sub-buffers are read soon */

s64 braid_record_complete_ns(const struct braid_recording *r, u64 deadline_ns)
{
	u64 now_ns = braid_host_clock_ns(), ns = now_ns, one_ns;
	u64 slack_ns = r->o.live.wanted ? LIVE_SLACK_NS : SLACK_NS;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		one_ns = braid_region_source_complete(r->guests[k].source);
		ns = one_ns < ns ? one_ns : ns;
	}
	if (r->host_source) {
		one_ns = braid_tracefs_source_complete(r->host_source);
		ns = one_ns < ns ? one_ns : ns;
	}
	/* Do not wait indefinitely for a late guest. */
	return ns > now_ns - deadline_ns + slack_ns ? ns - slack_ns : now_ns - deadline_ns;
}

int braid_record_mark_complete(struct braid_recording *r)
{
	struct braid_record_marks *m = &r->marks;
	struct braid_chunk_complete mark;
	u64 now_ns, bytes;
	bool prompt;
	int err;

	/* Before all are armed, rings hold events older than those of others. */
	if (!r->start_ns || r->o.flight.wanted)
		return 0;
	now_ns = braid_host_clock_ns();
	if (now_ns - m->marked_ns < MARK_NS)
		return 0;
	bytes = braid_capture_bytes(braid_record_out(r));
	if (bytes != m->bytes)
		m->grew_ns = now_ns;
	else if (m->until_ns >= m->grew_ns)
		return 0;	/* the last mark covers all */
	/* A file that is about to be left reads soon, too, but waits for guests that are slow. */
	prompt = r->sink.prompt_ns && !r->rotation.stop_ns;
	mark.until_ns = braid_record_complete_ns(r, prompt ? PROMPT_DEADLINE_NS : DEADLINE_NS);
	/* What follows its stop is complete in the next file only. */
	if (r->rotation.stop_ns && mark.until_ns > (s64)r->rotation.stop_ns)
		mark.until_ns = r->rotation.stop_ns;
	err = braid_capture_put(r->sink.capture, BRAID_CHUNK_COMPLETE, 0, &mark, sizeof(mark), NULL, 0);
	m->marked_ns = now_ns;
	m->until_ns = mark.until_ns;
	m->bytes = braid_capture_bytes(braid_record_out(r));
	if (r->o.prompt && r->flusher)
		braid_flusher_end_segment(r->flusher);
	return err;
}

int braid_record_put_host(const struct braid_recording *r, struct braid_capture_writer *out)
{
	static const u8 unknown[BRAID_HOST_ID_BYTES];

	if (!memcmp(r->host_id, unknown, sizeof(unknown)))
		return 0;
	return braid_capture_put(out, BRAID_CHUNK_HOST, 0, r->host_id, sizeof(r->host_id), NULL, 0);
}

void braid_record_say(const struct braid_recording *r, const char *name, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	r->ops->say(r->arg, name, line);
}

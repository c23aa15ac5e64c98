// SPDX-License-Identifier: GPL-2.0-or-later
/* The stream that a region becomes: its chunks, its time, its notes, and the heartbeat of its reader. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/stream.h"
#include "host_agent/util/text.h"

int braid_live_emit(struct braid_live_stream *s, u16 type, const void *head, u32 head_bytes,
		    const void *body, u32 body_bytes)
{
	int err = braid_capture_put(s->o.sink->capture, type, s->number, head, head_bytes, body,
				    body_bytes);

	if (err)
		s->fatal = err;
	return err;
}

u64 braid_live_now_ns(const struct braid_live_stream *s)
{
	return s->o.dead_ns ?: braid_host_clock_ns();
}

int braid_live_put_stream(struct braid_live_stream *s)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_GUEST,
		.nr_cpus = s->sb.nr_vcpus,
		.host_ns = braid_live_now_ns(s),
	};

	s->found_ns = head.host_ns;
	if (!*s->name) {
		snprintf(s->name, sizeof(s->name), "%.63s",
			 *s->sb.guest_name ? s->sb.guest_name : "guest");
		braid_text_clean(s->name);
	}
	strcpy(head.name, s->name);
	return braid_live_emit(s, BRAID_CHUNK_STREAM, &head, sizeof(head), &s->sb, sizeof(s->sb));
}

void braid_live_beat(struct braid_live_stream *s)
{
	struct braid_mailbox *box =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);

	braid_store(&box->agent_heartbeat, braid_load(&box->agent_heartbeat) + 1);
}

/* Notes: to the user, and in the capture ----------------------------------------------------- */

struct braid_live_name braid_live_buffer_name(const struct braid_live_stream *s, u32 buffer)
{
	struct braid_live_name name;

	memcpy(name.text, s->sb.buffers[buffer].name, sizeof(name.text));
	name.text[sizeof(name.text) - 1] = 0;
	braid_text_clean(name.text);
	return name;
}

static int put_note(struct braid_live_stream *s, char *line)
{
	struct braid_chunk_note note = { .host_ns = braid_live_now_ns(s) };

	braid_text_clean(line);
	if (s->o.say)
		s->o.say(s->o.say_arg, s->name, line);
	if (!s->number)
		return 0;
	return braid_live_emit(s, BRAID_CHUNK_NOTE, &note, sizeof(note), line, strlen(line));
}

int braid_live_note(struct braid_live_stream *s, const char *format, ...)
{
	char line[512];
	va_list args;
	int err = braid_live_notes_poll(s, false);

	if (err)
		return err;
	if (!braid_rate_allows(&s->notes, braid_host_clock_ns(), BRAID_NOTES_A_SECOND)) {
		s->notes_left_out++;
		return 0;
	}
	s->notes.nr++;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	return put_note(s, line);
}

int braid_live_notes_poll(struct braid_live_stream *s, bool now)
{
	char line[64];

	if (!s->notes_left_out ||
	    (!now && !braid_rate_allows(&s->notes, braid_host_clock_ns(), BRAID_NOTES_A_SECOND)))
		return 0;
	snprintf(line, sizeof(line), "%llu more note%s omitted", (unsigned long long)s->notes_left_out,
		 s->notes_left_out == 1 ? "" : "s");
	s->notes_left_out = 0;
	return put_note(s, line);
}

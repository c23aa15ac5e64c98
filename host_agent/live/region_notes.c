// SPDX-License-Identifier: GPL-2.0-or-later
/* Notes what happens to a recorded guest: to the user, and in the capture. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/clock/host.h"
#include "host_agent/live/stream.h"
#include "host_agent/util/text.h"

struct braid_live_name braid_live_buffer_name(const struct braid_live_stream *s, u32 buffer)
{
	struct braid_live_name name;

	memcpy(name.text, s->sb.buffers[buffer].name, sizeof(name.text));
	name.text[sizeof(name.text) - 1] = 0;
	braid_text_clean(name.text);
	return name;
}

static int region_notes_put_note(struct braid_live_stream *s, char *line)
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
	return region_notes_put_note(s, line);
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
	return region_notes_put_note(s, line);
}

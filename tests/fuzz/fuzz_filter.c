// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Filters: any text, over an event of any format and any bytes. An inverted filter must reject
 * the events that the filter accepts.
 * Input: filter, NUL, format, NUL, payload.
 */
#include "host_agent/walk/select.h"
#include "tests/fuzz/fuzz.h"

/* A string from the input; free() it. */
static char *take_string(struct fuzz_input *in)
{
	size_t n = strnlen((const char *)in->at, in->left);
	char *s = strndup((const char *)in->at, n);

	n += n < in->left;
	in->at += n;
	in->left -= n;
	return s;
}

/* 1: accepted, 0: rejected, or -errno if the filter is invalid. */
static int passes(struct braid_source *source, const struct braid_item *item, const char *text,
		  bool invert)
{
	struct braid_walk_filter filter = { .text = text, .invert = invert };
	struct braid_walk_options options = { .filters = &filter, .nr_filters = 1 };
	struct braid_format *format;
	struct braid_select *s;
	int ret;

	MUST(!braid_format_open(&format, source));
	ret = braid_select_begin(&s, source, format, &options);
	if (!ret) {
		ret = braid_select_event(s, item, braid_format_event(format, item));
		MUST(ret >= 0);
		braid_select_end(s);
	}
	braid_format_close(format);
	return ret;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };
	char *filter = take_string(&in), *text = take_string(&in);
	struct braid_event_format event_format = {
		.id = 1, .system = "test", .name = "tick", .format = text,
		.format_bytes = strlen(text),
	};
	struct braid_stream stream = {
		.kind = BRAID_STREAM_HOST, .formats = &event_format, .nr_formats = 1,
	};
	struct braid_stream *streams[] = { &stream };
	struct braid_source source = { .streams = streams, .nr_streams = 1 };
	struct braid_ring ring = { .stream = &stream, .cpu = 3 };
	struct braid_item item = { .stream = &stream, .ring = &ring, .payload_bytes = in.left };
	u8 *payload = fuzz_rest(&in);
	int ret;

	item.payload = payload;
	ret = passes(&source, &item, filter, false);
	if (ret >= 0 && in.left >= 2 && payload[0] == 1 && !payload[1])
		MUST_EQ(passes(&source, &item, filter, true), !ret);
	free(payload);
	free(filter);
	free(text);
	return 0;
}

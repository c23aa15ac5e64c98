// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Events of trace_printk(): any list of formats, any arguments.
 * Input: list, NUL, payload.
 */
#include "host_agent/format/bprint.h"
#include "host_agent/format/constants.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/bprint_format.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	size_t n = strnlen((const char *)data, bytes);
	struct fuzz_input in = { data + n + (n < bytes), bytes - n - (n < bytes) };
	char *list = strndup((const char *)data, n);
	struct braid_constants *constants = braid_constants_new(list);
	u8 *payload = fuzz_rest(&in);
	struct braid_text text = { 0 }, lines = { 0 };
	struct braid_layout *layout;
	const char *rest;

	MUST(!braid_layout_parse(&layout, BPRINT_FORMAT, "ftrace", &rest));
	MUST(braid_is_bprint(layout, "bprint"));
	layout->constants = constants;
	if (braid_layout_holds(layout, payload, in.left))
		braid_bprint_put(layout, payload, in.left, &text);
	MUST(text.bytes < 1 << 20);
	braid_constants_put(constants, &lines);
	MUST(lines.bytes <= 24 * bytes);
	braid_text_free(&lines);
	braid_text_free(&text);
	braid_layout_free(layout);
	braid_constants_free(constants);
	free(payload);
	free(list);
	return 0;
}

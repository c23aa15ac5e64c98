// SPDX-License-Identifier: GPL-2.0-or-later
/* Folded stacks as a profile for speedscope: its file format, of which each stack is one sample. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/hash.h"

struct frame {
	const char *name;
	size_t bytes;
};

struct frames {
	struct frame *all;
	size_t nr, capacity;
	struct braid_hash by_name;
};

static bool speedscope_same(const void *in, u32 number, const void *key)
{
	const struct frame *x = &((const struct frame *)in)[number], *y = key;

	return x->bytes == y->bytes && !memcmp(x->name, y->name, x->bytes);
}

/* Return: 0 or -ENOMEM. */
static int speedscope_number(struct frames *frames, const struct frame *frame, u32 *number)
{
	u32 hash = braid_hash_of(frame->name, frame->bytes, 0);

	*number = braid_hash_find(&frames->by_name, hash, speedscope_same, frames->all, frame);
	if (*number != BRAID_HASH_NONE)
		return 0;
	*number = frames->nr;
	if (braid_hash_reserve(&frames->by_name, UINT32_MAX / 4) ||
	    braid_array_push(frames->all, frames->nr, frames->capacity, *frame))
		return -ENOMEM;
	braid_hash_put(&frames->by_name, hash, *number);
	return 0;
}

/* Puts the frames of a line as numbers. Return: 0 or -ENOMEM. */
static int speedscope_put_sample(struct frames *frames, const char *line, const char *end,
				 struct braid_text *out)
{
	const char *next;
	struct frame one;
	u32 number;
	int err = 0;

	braid_text_putc(out, '[');
	for (; line < end && !err; line = next + 1) {
		next = memchr(line, ';', end - line) ?: end;
		one = (struct frame){ .name = line, .bytes = next - line };
		err = speedscope_number(frames, &one, &number);
		braid_text_number(out, number);
		if (next < end)
			braid_text_putc(out, ',');
	}
	braid_text_putc(out, ']');
	return err;
}

/* Return: 0 or -ENOMEM. @sum: of the weights. */
static int speedscope_put_samples(struct frames *frames, const struct braid_text *folded,
				  struct braid_text *samples, struct braid_text *weights, u64 *sum)
{
	const char *at = folded->data, *end = at + folded->bytes, *line, *space;
	int err = 0;

	for (; at < end && !err; at = line + 1) {
		line = memchr(at, '\n', end - at) ?: end;
		space = memrchr(at, ' ', line - at);
		if (!space)
			continue;
		if (samples->bytes) {
			braid_text_putc(samples, ',');
			braid_text_putc(weights, ',');
		}
		err = speedscope_put_sample(frames, at, space, samples);
		braid_text_put(weights, space + 1, line - space - 1);
		*sum += strtoull(space, NULL, 10);
	}
	return err;
}

int braid_speedscope_write(const struct braid_text *folded, const char *name, bool by_count,
			   struct braid_text *out)
{
	struct braid_text samples = { 0 }, weights = { 0 };
	struct frames frames = { 0 };
	u64 sum = 0;
	size_t k;
	int err = speedscope_put_samples(&frames, folded, &samples, &weights, &sum);

	braid_text_puts(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"tracebraid\",\"shared\":{\"frames\":[");
	for (k = 0; k < frames.nr; k++) {
		braid_text_puts(out, k ? ",{\"name\":" : "{\"name\":");
		braid_text_json(out, frames.all[k].name, frames.all[k].bytes);
		braid_text_putc(out, '}');
	}
	braid_text_printf(out, "]},\"profiles\":[{\"type\":\"sampled\",\"name\":\"%s\",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%llu,\"samples\":[",
			  name, by_count ? "none" : "nanoseconds", (unsigned long long)sum);
	braid_text_put(out, samples.data, samples.bytes);
	braid_text_puts(out, "],\"weights\":[");
	braid_text_put(out, weights.data, weights.bytes);
	braid_text_puts(out, "]}]}\n");
	out->failed |= samples.failed | weights.failed;
	braid_text_free(&samples);
	braid_text_free(&weights);
	braid_hash_free(&frames.by_name);
	free(frames.all);
	return err ? braid_out_of_memory() : 0;
}

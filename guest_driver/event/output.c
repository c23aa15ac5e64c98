// SPDX-License-Identifier: GPL-2.0
/* Finds an event's print function, and prints events that have none. */
#include <linux/seq_file.h>

#include "guest_driver/event/output.h"
#include "guest_driver/event/subevent.h"

static braid_print_fn braid_output_pick(const struct braid_outputs *outputs, enum braid_output kind)
{
	if (!outputs)
		return NULL;
	switch (kind) {
	case BRAID_OUTPUT_LATENCY:
		return outputs->latency ?: outputs->trace;
	case BRAID_OUTPUT_RAW:
		return outputs->raw;
	case BRAID_OUTPUT_HEX:
		return outputs->hex;
	case BRAID_OUTPUT_BINARY:
		return outputs->binary;
	default:
		return outputs->trace;
	}
}

/* Output of a function that fails is discarded. */
static bool braid_output_print_by(struct seq_file *out, const struct braid_item *item,
				  braid_print_fn print)
{
	size_t before = out->count;

	if (!print)
		return false;
	if (!print(out, item))
		return true;
	if (!seq_has_overflowed(out))
		out->count = before;
	return false;
}

static void braid_output_print_bytes(struct seq_file *out, const u8 *bytes, u32 nr)
{
	u32 k;

	for (k = 0; k < nr && !seq_has_overflowed(out); k++)
		seq_printf(out, k ? " %02x" : "%02x", bytes[k]);
}

static void braid_output_print_words(struct seq_file *out, const u8 *bytes, u32 nr)
{
	u32 k, word;

	for (k = 0; k + sizeof(word) <= nr && !seq_has_overflowed(out); k += sizeof(word)) {
		memcpy(&word, bytes + k, sizeof(word));
		seq_printf(out, k ? " %08x" : "%08x", le32_to_cpu((__force __le32)word));
	}
}

/* The name, and the payload without the fields that the line already shows. */
static void braid_output_print_line(struct seq_file *out, const struct braid_item *item,
				    const char *name)
{
	u32 head = min_t(u32, sizeof(struct braid_record), item->payload_bytes);

	if (item->buffer->flags & BRAID_BUFFER_RAW) {
		braid_output_print_bytes(out, item->payload, item->payload_bytes);
		return;
	}
	if (name)
		seq_printf(out, "%s: ", name);
	else if (head == sizeof(struct braid_record))
		seq_printf(out, "event %u: ",
			   ((const struct braid_record *)item->payload)->common_type);
	braid_output_print_bytes(out, item->payload + head, item->payload_bytes - head);
}

static void braid_output_print_default(struct seq_file *out, const struct braid_item *item,
				       enum braid_output kind, const char *name)
{
	switch (kind) {
	case BRAID_OUTPUT_RAW:
		braid_output_print_words(out, item->payload, item->payload_bytes);
		break;
	case BRAID_OUTPUT_HEX:
		braid_output_print_bytes(out, item->payload, item->payload_bytes);
		break;
	case BRAID_OUTPUT_BINARY:
		seq_write(out, item->payload, item->payload_bytes);
		break;
	default:
		braid_output_print_line(out, item, name);
		break;
	}
}

void braid_output_item(struct seq_file *out, const struct braid_item *item,
		       enum braid_output kind)
{
	int index = braid_output_lock();
	const struct braid_event *ev = braid_output_event(item);
	const struct braid_subevent *sub = ev ? braid_subevent_of(ev, item) : NULL;

	if (!ev ||
	    !braid_output_print_by(out, item,
				   braid_output_pick(sub ? &sub->outputs : ev->outputs, kind)))
		braid_output_print_default(out, item, kind, sub ? sub->name : ev ? ev->name : NULL);
	braid_output_unlock(index);
}

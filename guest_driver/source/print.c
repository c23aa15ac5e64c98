// SPDX-License-Identifier: GPL-2.0
/* Prints tracepoints' records by the kernel's own print functions, or field by field. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/err.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/trace_events.h>

#include "guest_driver/event/output.h"
#include "guest_driver/source/print.h"

/* What a print function is given. One at a time: it is large. */
struct printer {
	struct trace_iterator iter;
	u32 used;		/* bytes of the record that may differ from 0 */
	u8 record[BRAID_MAX_SUBBUF_BYTES + BRAID_ITEM_PAD] __aligned(8);
};

static DEFINE_MUTEX(lock);
static struct printer *printer;
static struct trace_event_call **calls;		/* by a tracepoint's index; NULL: field by field */

/* Field by field ------------------------------------------------------------------------------ */

static u64 braid_print_number_at(const u8 *at, const struct braid_field *field)
{
	switch (field->size) {
	case 1:
		return field->is_signed ? *(const s8 *)at : *at;
	case 2:
		return field->is_signed ? *(const s16 *)at : *(const u16 *)at;
	case 4:
		return field->is_signed ? *(const s32 *)at : *(const u32 *)at;
	default:
		return *(const u64 *)at;
	}
}

static void braid_print_string(struct seq_file *out, const struct braid_item *item, u32 at,
			       u32 bytes)
{
	at = min(at, item->payload_bytes);
	bytes = min(bytes, item->payload_bytes - at);
	seq_printf(out, "%.*s", (int)strnlen(item->payload + at, bytes),
		   (const char *)item->payload + at);
}

static void braid_print_bytes(struct seq_file *out, const struct braid_item *item, u32 at,
			      u32 bytes)
{
	const u8 *payload = item->payload;
	u32 end = min(at + bytes, item->payload_bytes);

	for (; at < end; at++)
		seq_printf(out, "%02x", payload[at]);
}

static void braid_print_field(struct seq_file *out, const struct braid_item *item,
			      const struct braid_field *field, u32 at)
{
	bool of_chars = strstr(field->type, "char");
	u32 where;

	if (strstr(field->type, "_loc ")) {
		where = *(const u32 *)(item->payload + at);
		at = (strstr(field->type, "__rel_loc") ? at + field->size : 0) + (where & 0xffff);
		(of_chars ? braid_print_string : braid_print_bytes)(out, item, at, where >> 16);
	} else if (field->len || field->size > 8 || strchr(field->type, '[')) {
		(of_chars ? braid_print_string : braid_print_bytes)(out, item, at, field->size);
	} else if (strchr(field->type, '*')) {
		seq_printf(out, "0x%llx", braid_print_number_at(item->payload + at, field));
	} else if (field->is_signed) {
		seq_printf(out, "%lld", (s64)braid_print_number_at(item->payload + at, field));
	} else {
		seq_printf(out, "%llu", braid_print_number_at(item->payload + at, field));
	}
}

static void braid_print_fields(struct seq_file *out, const struct braid_item *item,
			       const struct braid_tracepoint *tp)
{
	const struct braid_field *field;
	u32 at = sizeof(struct braid_record);

	seq_printf(out, "%s:", tp->name);
	for (field = tp->fields; field->type; field++) {
		at = ALIGN(at, field->align);
		seq_printf(out, " %s=", field->name);
		braid_print_field(out, item, field, at);
		at += field->size;
	}
}

/* By the kernel's function ---------------------------------------------------------------------- */

/* The text, without the newline that ends it. */
static void braid_print_copy_text(struct seq_file *out, struct trace_seq *text)
{
	size_t length = trace_seq_used(text);

	if (length && text->buffer[length - 1] == '\n')
		length--;
	seq_write(out, text->buffer, length);
}

/* Return: false, with nothing printed, if the text is longer than the function's buffer. */
static bool braid_print_by_kernel(struct seq_file *out, const struct braid_item *item,
				  struct trace_event_call *call)
{
	struct trace_iterator *iter = &printer->iter;
	struct trace_entry *ent = (struct trace_entry *)printer->record;
	u32 bytes = item->payload_bytes;
	bool whole;

	mutex_lock(&lock);
	memcpy(ent, item->payload, bytes);
	if (printer->used > bytes)
		memset(printer->record + bytes, 0, printer->used - bytes);
	printer->used = bytes;
	ent->type = call->event.type;
	trace_seq_init(&iter->seq);
	trace_seq_init(&iter->tmp_seq);
	iter->ent = ent;
	iter->ent_size = sizeof(printer->record);
	iter->cpu = item->cpu;
	call->event.funcs->trace(iter, 0, &call->event);
	whole = !trace_seq_has_overflowed(&iter->seq);
	if (whole)
		braid_print_copy_text(out, &iter->seq);
	mutex_unlock(&lock);
	return whole;
}

int braid_print_record(struct seq_file *out, const struct braid_item *item,
		       const struct braid_tracepoint *tp)
{
	struct trace_event_call *call = calls[tp->state->index];

	if (item->payload_bytes < tp->fixed_size)
		return -EBADMSG;
	if (!call || item->payload_bytes > BRAID_MAX_SUBBUF_BYTES ||
	    !braid_print_by_kernel(out, item, call))
		braid_print_fields(out, item, tp);
	return 0;
}

int braid_print_native(struct seq_file *out, const struct braid_item *item)
{
	const struct braid_event *ev = braid_output_event(item);

	return ev ? braid_print_record(out, item, ev->source) : -ENOENT;
}

/* Finding the functions --------------------------------------------------------------------------- */

#ifdef CONFIG_EVENT_TRACING

/* A built-in event, not a module's, so it stays. */
static struct trace_event_call *__init braid_print_find_call(const struct braid_tracepoint *tp)
{
	struct trace_event_file *file = trace_get_event_file(NULL, tp->system, tp->name);
	struct trace_event_call *call;

	if (IS_ERR_OR_NULL(file))
		return NULL;
	call = file->event_call;
	trace_put_event_file(file);
	return call;
}

#else

static struct trace_event_call *__init braid_print_find_call(const struct braid_tracepoint *tp)
{
	return NULL;
}

#endif

int __init braid_print_init(void)
{
	const struct braid_tracepoint *tp = NULL;
	unsigned int by_kernel = 0;

	printer = kvzalloc(sizeof(*printer), GFP_KERNEL);
	calls = kvcalloc(braid_source_count(), sizeof(*calls), GFP_KERNEL);
	if (!printer || !calls) {
		braid_print_exit();
		return -ENOMEM;
	}
	while ((tp = braid_source_next(tp)) != NULL) {
		struct trace_event_call *call =
			braid_validate_print(tp) ? braid_print_find_call(tp) : NULL;

		if (!call || !call->event.funcs || !call->event.funcs->trace)
			continue;
		calls[tp->state->index] = call;
		by_kernel++;
	}
	pr_info("events printed in the guest: %u as in tracefs, %u field by field\n", by_kernel,
		braid_source_count() - by_kernel);
	return 0;
}

void braid_print_exit(void)
{
	kvfree(printer);
	kvfree(calls);
	printer = NULL;
	calls = NULL;
}

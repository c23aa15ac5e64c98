// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes an event's bytes as the values of a CTF event. */
#include <errno.h>
#include <string.h>

#include "host_agent/export/ctf.h"

static void put_number(bt_field *to, const struct braid_field *f, const u8 *at, u32 bytes)
{
	u32 unused = 64 - 8 * bytes;
	u64 value = 0;

	memcpy(&value, at, bytes);
	if (f->flags & BRAID_FIELD_SIGNED)
		bt_field_integer_signed_set_value(to, (s64)(value << unused) >> unused);
	else
		bt_field_integer_unsigned_set_value(to, value);
}

int braid_ctf_string(struct braid_ctf *ctf, bt_field *to, const char *data, size_t bytes)
{
	ctf->text.bytes = 0;
	braid_text_safe(&ctf->text, data, bytes);
	braid_text_putc(&ctf->text, 0);
	if (ctf->text.failed || bt_field_string_set_value(to, ctf->text.data))
		return -ENOMEM;
	return 0;
}

static int put_hex(struct braid_ctf *ctf, bt_field *to, const struct braid_item *item)
{
	ctf->text.bytes = 0;
	braid_text_hex(&ctf->text, item->payload, item->payload_bytes);
	braid_text_putc(&ctf->text, 0);
	if (ctf->text.failed || bt_field_string_set_value(to, ctf->text.data))
		return -ENOMEM;
	return 0;
}

bool braid_ctf_fits(const struct braid_ctf_event *event, const struct braid_item *item)
{
	u32 k, offset, length, sum = 0;

	if (event->unfit)
		return false;
	for (k = 0; k < event->nr_fields; k++) {
		const struct braid_ctf_field *f = &event->fields[k];

		if (f->shape != BRAID_CTF_STRING && f->shape != BRAID_CTF_SEQUENCE)
			continue;
		if (!braid_format_range(f->field, item->payload, item->payload_bytes, &offset,
					&length))
			return false;
		sum += length;
		if (sum > item->payload_bytes)
			return false;
		if (f->shape == BRAID_CTF_SEQUENCE &&
		    (length % f->element_bytes ||
		     length / f->element_bytes > BRAID_CTF_MAX_ELEMENTS))
			return false;
	}
	return true;
}

static int put_field(struct braid_ctf *ctf, bt_field *to, const struct braid_ctf_field *f,
		     const struct braid_item *item)
{
	const u8 *at = item->payload;
	u32 k, offset, length;

	if (!braid_format_range(f->field, at, item->payload_bytes, &offset, &length))
		return -EINVAL;
	at += offset;
	switch (f->shape) {
	case BRAID_CTF_NUMBER:
		put_number(to, f->field, at, f->element_bytes);
		return 0;
	case BRAID_CTF_STRING:
		return braid_ctf_string(ctf, to, (const char *)at, length);
	case BRAID_CTF_SEQUENCE:
		if (bt_field_array_dynamic_set_length(to, length / f->element_bytes))
			return -ENOMEM;
		break;
	case BRAID_CTF_ARRAY:
		break;
	}
	for (k = 0; k < length / f->element_bytes; k++)
		put_number(bt_field_array_borrow_element_field_by_index(to, k), f->field,
			   at + k * f->element_bytes, f->element_bytes);
	return 0;
}

static int put_context(struct braid_ctf *ctf, bt_field *to, const struct braid_item *item)
{
	struct braid_record record = { 0 };
	s32 pid = braid_format_pid(item);
	const char *comm = item->raw ? "" : braid_format_comm(item, pid);
	u64 bound = ctf->walk.bound_ns;

	if (!item->raw && item->payload_bytes >= sizeof(record))
		memcpy(&record, item->payload, sizeof(record));
	bt_field_integer_signed_set_value(
		bt_field_structure_borrow_member_field_by_index(to, BRAID_CTF_TID), pid);
	bt_field_integer_unsigned_set_value(
		bt_field_structure_borrow_member_field_by_index(to, BRAID_CTF_FLAGS),
		record.common_flags);
	bt_field_integer_unsigned_set_value(
		bt_field_structure_borrow_member_field_by_index(to, BRAID_CTF_PREEMPT_COUNT),
		record.common_preempt_count);
	bt_field_integer_unsigned_set_value(
		bt_field_structure_borrow_member_field_by_index(to, BRAID_CTF_BOUND),
		bound < BRAID_CTF_NO_BOUND ? bound : BRAID_CTF_NO_BOUND);
	return bt_field_string_set_value(
		bt_field_structure_borrow_member_field_by_index(to, BRAID_CTF_PROCNAME), comm) ?
		-ENOMEM : 0;
}

int braid_ctf_fill(struct braid_ctf *ctf, bt_event *to, const struct braid_ctf_event *event,
		   const struct braid_item *item)
{
	bt_field *payload = bt_event_borrow_payload_field(to);
	int err = put_context(ctf, bt_event_borrow_common_context_field(to), item);
	u32 k;

	if (!err && !event->parsed)
		return put_hex(ctf, bt_field_structure_borrow_member_field_by_index(payload, 0),
			       item);
	for (k = 0; k < event->nr_fields && !err; k++)
		err = put_field(ctf, bt_field_structure_borrow_member_field_by_index(payload, k),
				&event->fields[k], item);
	return err;
}

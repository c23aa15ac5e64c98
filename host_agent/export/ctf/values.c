// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes an event's record as the bytes of a CTF event. */
#include <string.h>

#include "host_agent/export/ctf/ctf.h"

#define WORD_BYTES	8u
#define TOPS		0x8080808080808080ULL	/* the top bits of a word's bytes */
#define CONTEXT_BYTES	(4u + 1 + 1 + 8)	/* of an event, without the task's name */
#define LENGTH_BYTES	4u			/* of a sequence */

bool braid_ctf_fits(const struct braid_ctf_event *event, const struct braid_item *item)
{
	u32 k, offset, length, sum = 0;

	if (event->unfit || item->payload_bytes > BRAID_MAX_SUBBUF_BYTES)
		return false;
	if (!event->nr_dynamic)
		return true;
	for (k = 0; k < event->nr_steps; k++) {
		const struct braid_ctf_step *s = &event->steps[k];

		if (s->kind == BRAID_CTF_COPY)
			continue;
		if (!braid_format_range(s->field, item->payload, item->payload_bytes, &offset,
					&length))
			return false;
		sum += length;
		if (sum > item->payload_bytes ||
		    (s->kind == BRAID_CTF_SEQUENCE && length % s->element_bytes))
			return false;
	}
	return true;
}

u32 braid_ctf_least_bytes(const struct braid_ctf_event *event)
{
	return CONTEXT_BYTES + sizeof(((struct braid_ctf_task *)NULL)->comm) + 1 +
	       event->fixed_bytes + (LENGTH_BYTES + WORD_BYTES) * event->nr_dynamic;
}

/*
 * The lowest byte that is not printable ASCII has its top bit set; those above it may have, too:
 * what is subtracted or added there carries upward only.
 */
static inline u64 odd_bytes(u64 word)
{
	return (word | (word - 0x20 * BRAID_TEXT_ONES) | (word + BRAID_TEXT_ONES)) & TOPS;
}

static u8 *put_wild(u8 *to, const u8 *data, u32 bytes)
{
	bytes = strnlen((const char *)data, bytes);
	memcpy(to, data, bytes);
	to[bytes] = 0;
	braid_text_clean((char *)to);
	return to + bytes + 1;
}

u8 *braid_ctf_put_string(u8 *to, const void *data, u32 bytes)
{
	const u8 *from = data;
	u64 word, odd;
	u32 k;

	for (k = 0; bytes - k >= WORD_BYTES; k += WORD_BYTES) {
		memcpy(&word, from + k, sizeof(word));
		memcpy(to + k, &word, sizeof(word));
		odd = odd_bytes(word);
		if (!odd)
			continue;
		k += __builtin_ctzll(odd) / 8;
		return from[k] ? put_wild(to, from, bytes) : to + k + 1;
	}
	for (; k < bytes && from[k]; k++) {
		if (from[k] < ' ' || from[k] > '~')
			return put_wild(to, from, bytes);
		to[k] = from[k];
	}
	to[k] = 0;
	return to + k + 1;
}

/* Whether the text in an array of characters is fit as it is. */
static inline bool is_plain(const u8 *from, u32 bytes)
{
	u64 word, odd;
	u32 k;

	for (k = 0; bytes - k >= WORD_BYTES; k += WORD_BYTES) {
		memcpy(&word, from + k, sizeof(word));
		odd = odd_bytes(word);
		if (odd)
			return !from[k + __builtin_ctzll(odd) / 8];
	}
	for (; k < bytes && from[k]; k++)
		if (from[k] < ' ' || from[k] > '~')
			return false;
	return true;
}

/* The record with its arrays of characters sanitized, which leaves their texts' lengths. */
static const u8 *sanitize(struct braid_ctf *ctf, const struct braid_ctf_event *event,
			  const struct braid_item *item)
{
	char text[BRAID_CTF_MOST_CHARS + 1];
	u32 k;

	memcpy(ctf->scratch, item->payload, item->payload_bytes);
	for (k = 0; k < event->nr_chars; k++) {
		const struct braid_ctf_chars *c = &event->chars[k];
		size_t bytes = strnlen((const char *)item->payload + c->offset, c->bytes);

		memcpy(text, item->payload + c->offset, bytes);
		text[bytes] = 0;
		braid_text_clean(text);
		memcpy(ctf->scratch + c->offset, text, bytes);
	}
	return ctf->scratch;
}

static u8 *put_dynamic(u8 *to, const struct braid_ctf_step *s, const u8 *from, u32 bytes)
{
	u32 offset = 0, length = 0, nr;

	braid_format_range(s->field, from, bytes, &offset, &length);
	if (s->kind == BRAID_CTF_STRING)
		return braid_ctf_put_string(to, from + offset, length);
	nr = length / s->element_bytes;
	memcpy(to, &nr, sizeof(nr));
	memcpy(to + sizeof(nr), from + offset, length);
	return to + sizeof(nr) + length;
}

static u8 *put_fields(struct braid_ctf *ctf, u8 *to, const struct braid_ctf_event *event,
		      const struct braid_item *item)
{
	const u8 *from = item->payload;
	u32 k;

	for (k = 0; k < event->nr_chars; k++)
		if (!is_plain(from + event->chars[k].offset, event->chars[k].bytes)) {
			from = sanitize(ctf, event, item);
			break;
		}
	for (k = 0; k < event->nr_steps; k++) {
		const struct braid_ctf_step *s = &event->steps[k];

		if (s->kind != BRAID_CTF_COPY) {
			to = put_dynamic(to, s, from, item->payload_bytes);
			continue;
		}
		memcpy(to, from + s->offset, s->bytes);
		to += s->bytes;
	}
	return to;
}

static u8 *put_hex(u8 *to, const struct braid_item *item)
{
	static const char digit[] = "0123456789abcdef";
	u32 k;

	for (k = 0; k < item->payload_bytes; k++) {
		if (k)
			*to++ = ' ';
		*to++ = digit[item->payload[k] >> 4];
		*to++ = digit[item->payload[k] & 15];
	}
	*to++ = 0;
	return to;
}

static const struct braid_ctf_task *find_task(struct braid_ctf *ctf, const struct braid_item *item,
					      s32 pid)
{
	struct braid_ctf_tasks *tasks = ctf->tasks[item->stream->number];
	struct braid_ctf_task *task = &tasks->all[(u32)pid % BRAID_CTF_NR_TASKS];
	const char *comm;

	if (task->pid == pid && item->counter >= task->from && item->counter <= task->until)
		return task;
	comm = braid_format_comm_for(item, pid, &task->from, &task->until);
	task->pid = pid;
	task->bytes = strnlen(comm, sizeof(task->comm) - 1);
	memcpy(task->comm, comm, task->bytes);
	task->comm[task->bytes++] = 0;
	return task;
}

static u8 *put_context(struct braid_ctf *ctf, u8 *to, const struct braid_item *item)
{
	u64 bound = ctf->walk.bound_ns < BRAID_CTF_NO_BOUND ? ctf->walk.bound_ns :
							      BRAID_CTF_NO_BOUND;
	struct braid_record record = { .common_pid = BRAID_PID_UNKNOWN };
	bool has_task = braid_format_pid(item) != BRAID_PID_UNKNOWN;
	const struct braid_ctf_task *task;

	if (has_task)
		memcpy(&record, item->payload, sizeof(record));
	memcpy(to, &record.common_pid, 4);
	to[4] = record.common_flags;
	to[5] = record.common_preempt_count;
	memcpy(to + 6, &bound, 8);
	to += CONTEXT_BYTES;
	if (!has_task) {
		*to = 0;
		return to + 1;
	}
	task = find_task(ctf, item, record.common_pid);
	memcpy(to, task->comm, sizeof(task->comm));
	return to + task->bytes;
}

u8 *braid_ctf_put_event(struct braid_ctf *ctf, u8 *to, const struct braid_ctf_event *event,
			const struct braid_item *item)
{
	to = put_context(ctf, to, item);
	return event->parsed ? put_fields(ctf, to, event, item) : put_hex(to, item);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* Puts lines together from columns that were made before. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host_agent/export/text/columns.h"
#include "host_agent/export/text/parts.h"
#include "host_agent/util/monotonic.h"

#define COMM_WIDTH	16
#define PID_WIDTH	7
#define SECONDS_WIDTH	6
#define EVENT_WIDTH	22	/* name and colon; longer ones shift their line */
#define NR_TASKS	1024u	/* that are remembered */
#define TASK_BYTES	(43u + BRAID_VCPU_LABEL)	/* comm, '-', pid and label at their widest */
#define TIME_BYTES	48u	/* mark, sign, seconds, ns, colon */

/* What a task was called for a stretch of its stream's counter. */
struct task {
	const struct braid_stream *stream;
	size_t nr_comms;	/* that the stream had defined by then */
	u64 from, until;	/* inclusive */
	s32 pid;
	u32 bytes;
	char text[TASK_BYTES + BRAID_TEXT_BLOCK];
};

struct braid_columns {
	int name_width;
	struct braid_vcpu_map vcpus;
	struct braid_parts streams;	/* "guest1: ", by stream */
	struct braid_parts cpus;	/* " [001] ", by ring */
	struct braid_parts kinds;	/* "sched_switch:          ", by kind */
	struct task tasks[NR_TASKS];
	u64 second_ns;		/* where the second begins that second_text is of */
	u32 second_bytes;
	char second_text[TIME_BYTES];
};

struct braid_columns *braid_columns_new(const struct braid_source *source)
{
	struct braid_columns *c = calloc(1, sizeof(*c));
	size_t k;

	if (!c || braid_vcpu_map_make(&c->vcpus, source)) {
		free(c);
		return NULL;
	}
	for (k = 0; k < source->nr_streams; k++) {
		int width = strlen(source->streams[k]->name);

		c->name_width = width > c->name_width ? width : c->name_width;
	}
	return c;
}

void braid_columns_free(struct braid_columns *c)
{
	if (!c)
		return;
	braid_parts_free(&c->streams);
	braid_parts_free(&c->cpus);
	braid_parts_free(&c->kinds);
	braid_vcpu_map_free(&c->vcpus);
	free(c);
}

static void make_stream(const struct braid_columns *c, const struct braid_stream *stream,
			struct braid_part *part)
{
	struct braid_text text = { 0 };
	int width = strlen(stream->name);

	braid_text_put(&text, stream->name, width);
	braid_text_putc(&text, ':');
	braid_text_repeat(&text, ' ', c->name_width - width + 1);
	braid_parts_keep(part, &text);
}

static void make_cpu(const struct braid_ring *ring, struct braid_part *part)
{
	struct braid_text text = { 0 };

	braid_text_puts(&text, " [");
	if (ring->cpu == BRAID_RING_NOTES)
		braid_text_puts(&text, "---");
	else
		braid_text_u64(&text, ring->cpu, 3, '0');
	braid_text_puts(&text, "] ");
	braid_parts_keep(part, &text);
}

static void make_kind(const struct braid_event_type_info *info, struct braid_part *part)
{
	struct braid_text text = { 0 };

	braid_text_puts(&text, braid_format_label(info));
	braid_text_putc(&text, ':');
	braid_text_repeat(&text, ' ', EVENT_WIDTH - (int)text.bytes);
	braid_text_putc(&text, ' ');
	braid_parts_keep(part, &text);
}

static void columns_put_stream(struct braid_columns *c, const struct braid_stream *stream,
			       struct braid_text *out)
{
	struct braid_part *part = braid_parts_at(&c->streams, stream->number);

	if (part && !part->text)
		make_stream(c, stream, part);
	braid_parts_put(out, part);
}

static void put_cpu(struct braid_columns *c, const struct braid_ring *ring, struct braid_text *out)
{
	struct braid_part *part = braid_parts_at(&c->cpus, ring->order);

	if (part && !part->text)
		make_cpu(ring, part);
	braid_parts_put(out, part);
}

static void put_kind(struct braid_columns *c, const struct braid_event_type_info *info,
		     struct braid_text *out)
{
	struct braid_part *part = braid_parts_at(&c->kinds, info->number);

	if (part && !part->text)
		make_kind(info, part);
	braid_parts_put(out, part);
}

const struct braid_vcpu_span *braid_columns_vcpu(const struct braid_columns *c,
						 const struct braid_item *item, s32 pid)
{
	return item->stream->kind == BRAID_STREAM_HOST && pid ?
	       braid_vcpu_map_find(&c->vcpus, braid_stream_host_number(item->stream), pid,
				   item->host_ns) : NULL;
}

bool braid_columns_vcpu_only(const struct braid_columns *c, const struct braid_vcpu_span *span)
{
	return braid_vcpu_map_only(&c->vcpus, span);
}

/* " [guest1/vCPU 0]" */
static void columns_put_vcpu(const struct braid_columns *c, struct task *task,
			     const struct braid_item *item, s32 pid, struct braid_text *text)
{
	const struct braid_vcpu_span *span = braid_columns_vcpu(c, item, pid);
	char label[BRAID_VCPU_LABEL];

	if (!span)
		return;
	braid_vcpu_label(span, label);
	braid_text_puts(text, " [");
	braid_text_puts(text, label);
	braid_text_putc(text, ']');
	if (!braid_vcpu_map_only(&c->vcpus, span))
		task->from = task->until = item->counter;
}

/* "            bash-1234   ": comm and pid */
static void make_task(const struct braid_columns *c, struct task *task,
		      const struct braid_item *item, s32 pid)
{
	struct braid_text text = { .data = task->text, .capacity = TASK_BYTES };
	const char *comm = braid_format_comm_for(item, pid, &task->from, &task->until);
	size_t before;

	static_assert(TASK_BYTES >= COMM_WIDTH + 2 + BRAID_U64_DIGITS + BRAID_VCPU_LABEL + 3 &&
		      BRAID_COMM_BYTES <= COMM_WIDTH, "it does not grow");
	braid_text_repeat(&text, ' ', COMM_WIDTH - (int)strlen(comm));
	braid_text_puts(&text, comm);
	braid_text_putc(&text, '-');
	before = text.bytes;
	if (pid < 0)
		braid_text_putc(&text, '-');
	text.bytes += braid_text_digits(text.data + text.bytes, pid < 0 ? -(u64)pid : (u64)pid);
	braid_text_repeat(&text, ' ', PID_WIDTH - (int)(text.bytes - before));
	columns_put_vcpu(c, task, item, pid, &text);
	task->stream = item->stream;
	task->nr_comms = item->stream->nr_comms;
	task->pid = pid;
	task->bytes = text.bytes;
}

static void put_task(struct braid_columns *c, const struct braid_item *item,
		     struct braid_text *out)
{
	s32 pid = braid_format_pid(item);
	struct task *task;

	if (pid == BRAID_PID_UNKNOWN) {
		braid_text_repeat(out, ' ', COMM_WIDTH + 1 + PID_WIDTH);
		return;
	}
	task = &c->tasks[((u32)pid + 37 * item->stream->number) % NR_TASKS];

	if (task->pid != pid || task->stream != item->stream ||
	    task->nr_comms != item->stream->nr_comms ||
	    item->counter < task->from || item->counter > task->until)
		make_task(c, task, item, pid);
	braid_text_put_blocks(out, task->text, task->bytes);
}

/* "   123", updated once a second. */
static void make_second(struct braid_columns *c, u64 second)
{
	u32 nr = braid_text_digits(c->second_text, second);

	c->second_ns = second * BRAID_SECOND_NS;
	c->second_bytes = nr > SECONDS_WIDTH ? nr : SECONDS_WIDTH;
	memmove(c->second_text + c->second_bytes - nr, c->second_text, nr);
	memset(c->second_text, ' ', c->second_bytes - nr);
}

/* ".000000123": nine digits, with all their zeros. */
static char *put_fraction(char *at, u32 ns)
{
	u64 eight = braid_text_eight(ns % 100000000) | BRAID_TEXT_ZEROS;

	*at++ = '.';
	*at++ = '0' + ns / 100000000;
	memcpy(at, &eight, sizeof(eight));
	return at + sizeof(eight);
}

/* "2026-11-22T09:05:00", updated once a second. */
static void make_date(struct braid_columns *c, s64 second)
{
	time_t at = second;
	struct tm tm = { 0 };

	gmtime_r(&at, &tm);
	c->second_ns = (u64)second * BRAID_SECOND_NS;
	c->second_bytes = strftime(c->second_text, sizeof(c->second_text), "%Y-%m-%dT%H:%M:%S",
				   &tm);
}

/* The second's text, and the fraction after it, of a time in the second that was made. */
static char *columns_put_seconds(const struct braid_columns *c, char *at, u64 ns)
{
	static_assert(sizeof(c->second_text) == TIME_BYTES, "it is copied as a whole");
	memcpy(at, c->second_text, TIME_BYTES);
	return put_fraction(at + c->second_bytes, ns - c->second_ns);
}

/* Whether the second that was made has a time. */
static bool has_second(const struct braid_columns *c, u64 ns)
{
	return ns - c->second_ns < BRAID_SECOND_NS && c->second_bytes;
}

void braid_columns_put_date(struct braid_columns *c, s64 ns, struct braid_text *out)
{
	char *at = braid_text_reserve(out, TIME_BYTES + TIME_BYTES);

	if (!at)
		return;
	if (!has_second(c, ns))
		make_date(c, ns / (s64)BRAID_SECOND_NS - (ns % (s64)BRAID_SECOND_NS < 0));
	at = columns_put_seconds(c, at, ns);
	*at++ = 'Z';
	out->bytes = at - out->data;
}

/* "  123.456789012: ", or "~    123.456789012: " */
static void put_time(struct braid_columns *c, const struct braid_walk *walk, struct braid_text *out)
{
	u64 ns = walk->ns < 0 ? -(u64)walk->ns : (u64)walk->ns;
	char *at;

	if (walk->options->uncertain)
		braid_text_puts(out, walk->uncertain ? "~ " : "  ");
	if (walk->options->realtime) {
		braid_columns_put_date(c, walk->ns, out);
		braid_text_puts(out, ": ");
		return;
	}
	at = braid_text_reserve(out, TIME_BYTES + TIME_BYTES);
	if (!at)
		return;
	if (walk->ns < 0)
		*at++ = '-';
	if (!has_second(c, ns))
		make_second(c, ns / BRAID_SECOND_NS);
	at = columns_put_seconds(c, at, ns);
	*at++ = ':';
	*at++ = ' ';
	out->bytes = at - out->data;
}

void braid_columns_put_other(struct braid_columns *c, const struct braid_walk *walk,
			     const struct braid_item *item, struct braid_text *out)
{
	columns_put_stream(c, item->stream, out);
	braid_text_repeat(out, ' ', COMM_WIDTH + 1 + PID_WIDTH);
	put_cpu(c, item->ring, out);
	put_time(c, walk, out);
}

void braid_columns_put_event(struct braid_columns *c, const struct braid_walk *walk,
			     const struct braid_item *item,
			     const struct braid_event_type_info *info, struct braid_text *out)
{
	columns_put_stream(c, item->stream, out);
	put_task(c, item, out);
	put_cpu(c, item->ring, out);
	put_time(c, walk, out);
	put_kind(c, info, out);
}

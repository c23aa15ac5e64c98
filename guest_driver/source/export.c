// SPDX-License-Identifier: GPL-2.0
/*
 * Copies ftrace's records into a ring unchanged, and publishes the formats of their ids.
 *
 * A record identifies its event only by id, and may occur in any context. So the id is marked
 * there, and a work item looks it up in tracefs. Events of probes and modules may be removed and
 * their ids reassigned: these are looked up again after each use.
 */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/trace.h>
#include <linux/trace_events.h>
#include <linux/workqueue.h>

#include "guest_driver/core/lock.h"
#include "guest_driver/event/output.h"
#include "guest_driver/event/poll.h"
#include "guest_driver/source/export.h"
#include "guest_driver/source/print.h"
#include "guest_driver/source/tracefs.h"

#ifdef CONFIG_EVENT_TRACING

#define NR_IDS		(U16_MAX + 1)
#define WALK_AGAIN	(HZ)		/* when an id was not found */
#define FILTERED_AT	(2 * sizeof(u32))	/* where a page has a filtered record */
#define MIN_BYTES	sizeof(struct braid_record)	/* of a plain record */
#define MAX_BYTES	128		/* longer ones are copied by memcpy() */

/* Ids that all kernels have; their formats say the same. */
enum {
	ID_FUNCTION = 1,
	ID_PRINT = 5,
};

struct function_record {
	struct braid_record common;
	unsigned long ip;
	unsigned long parent_ip;
};

struct print_record {
	struct braid_record common;
	unsigned long ip;
	char text[];
};

struct exported {
	struct braid_event ev;
	struct list_head list;
	const struct braid_tracepoint *native;	/* with the same record, or NULL */
	bool may_go;
	char *system, *name, *format;
};

/* Bits are set by records; cleared by the work, but those of events that never go. */
static DECLARE_BITMAP(seen, NR_IDS);
static bool dirty;			/* a bit was set */

/* Ids whose records have addresses that print as symbols: only these are searched for addresses. */
static DECLARE_BITMAP(symbolic, NR_IDS);

/* Ids of known events that never go and whose records have no such addresses. */
static DECLARE_BITMAP(plain, NR_IDS);

/* The rest belongs to the work, or to start and stop while it does not run. */
static struct braid_buffer *buffer;
static struct task_struct *resolver;	/* while it looks up ids: its own activity is not
					   recorded */
static LIST_HEAD(events);
static DECLARE_BITMAP(unknown, NR_IDS);	/* what a walk searches for */
static DECLARE_BITMAP(refused, NR_IDS);	/* events that do not fit the directory */
static unsigned long walked_at;

/* Lookups that the host waits for: how many it has asked for, and the last one that is over. */
static u32 asked, over;

/* Context: any, while preemption stays off; the work may turn it on. */
static struct exported *braid_export_find(u16 id)
{
	struct braid_event *ev;

	preempt_disable_notrace();
	ev = braid_event_find(buffer, id);
	preempt_enable_notrace();
	return ev ? container_of(ev, struct exported, ev) : NULL;
}

/* Records ---------------------------------------------------------------------------------------- */

static void braid_export_note_id(u16 id)
{
	if (likely(test_bit(id, seen)))
		return;
	set_bit(id, seen);
	WRITE_ONCE(dirty, true);
}

static void braid_export_note_symbols(u16 id, const void *entry, u32 bytes)
{
	const struct function_record *function = entry;
	const struct exported *exported;
	const u16 *offset;

	if (id == ID_FUNCTION && bytes >= sizeof(*function)) {
		braid_symbol_note(function->ip);
		braid_symbol_note(function->parent_ip);
	} else if (id == ID_PRINT && bytes >= sizeof(struct print_record)) {
		braid_symbol_note(((const struct print_record *)entry)->ip);
	} else if (test_bit(id, symbolic)) {
		exported = braid_export_find(id);
		if (!exported || !exported->native)
			return;
		for (offset = exported->native->symbols; *offset; offset++)
			if (*offset + sizeof(long) <= bytes)
				braid_symbol_note(*(const unsigned long *)(entry + *offset));
	}
}

/*
 * A filtered event is in a page of its own, at its start, with its exact length in the word before
 * the record; the length passed to us then lacks 4 bytes of a long record.
 */
static u32 braid_export_true_length(const void *entry, u32 bytes)
{
	u32 length;

	/* The word before that is an event's head without time or length in it. */
	if (offset_in_page(entry) != FILTERED_AT || ((const u32 *)entry)[-2])
		return bytes;
	length = ((const u32 *)entry)[-1];
	return length == bytes + sizeof(u32) ? length : bytes;
}

/* Any record of any event. */
static noinline void braid_export_take_any(const void *entry, u32 size)
{
	u16 id = ((const struct trace_entry *)entry)->type;
	u32 bytes = braid_export_true_length(entry, size);
	struct braid_writer *w;
	u64 token;
	u8 *record;

	if (unlikely(current == READ_ONCE(resolver) && in_task()))
		return;
	braid_export_note_id(id);
	w = braid_buffer_open_writer(buffer);
	if (unlikely(!w))
		return;
	/* The record has its context already. */
	record = braid_ring_reserve(w, bytes, braid_counter, &token);
	if (unlikely(!record))
		return;
	if (bytes & 3)			/* the ring rounds up */
		*(u32 *)(record + (bytes & ~3u)) = 0;
	memcpy(record, entry, bytes);
	braid_ring_commit(w, token);
	braid_export_note_symbols(id, entry, bytes);
}

/* The slow path of a plain record, apart: a tail call needs no stack. */
static noinline void braid_export_take_slow(struct braid_writer *w, const void *entry, u32 bytes,
					    u64 tail, u64 hint, u64 now)
{
	struct braid_reserved reserved =
		braid_writer_reserve(w, bytes, braid_counter, tail, hint, now);

	if (!reserved.payload)
		return;
	memcpy(reserved.payload, entry, bytes);
	braid_ring_commit(w, reserved.token);
}

static __always_inline void braid_export_copy_word(u8 *to, const u8 *from, u32 at)
{
	memcpy(to + at, from + at, 8);
}

/*
 * From both ends, where words may overlap. A call of memcpy() takes longer than a short record.
 * @bytes: at least MIN_BYTES
 */
static __always_inline void braid_export_copy(u8 *to, const u8 *from, u32 bytes)
{
	u32 at;

	braid_export_copy_word(to, from, 0);
	braid_export_copy_word(to, from, bytes - 8);
	if (bytes <= 16)
		return;
	braid_export_copy_word(to, from, 8);
	braid_export_copy_word(to, from, bytes - 16);
	for (at = 16; at < bytes - 16; at += 16) {
		braid_export_copy_word(to, from, at);
		braid_export_copy_word(to, from, at + 8);
	}
}

/* Context: any, NMI included; preemption is off. */
static void braid_export_take_record(struct trace_export *export, const void *entry,
				     unsigned int size)
{
	u32 more = ror32(size - MIN_BYTES, 2), bytes = MIN_BYTES + 4 * more;
	struct braid_reserved reserved;
	struct braid_turn turn;
	struct braid_writer *w;

	/* A length that is not a multiple of 4 is a large one, too. */
	if (unlikely(!test_bit(((const struct trace_entry *)entry)->type, plain)) ||
	    unlikely(more > (MAX_BYTES - MIN_BYTES) / 4) ||
	    unlikely(!offset_in_page(entry - FILTERED_AT)) || unlikely(READ_ONCE(resolver)) ||
	    unlikely(!braid_buffer_try_writer(buffer, &w))) {
		braid_export_take_any(entry, size);
		return;
	}
	if (unlikely(!w))
		return;
	if (unlikely(!braid_ring_try_reserve(w, bytes, braid_counter, &turn, &reserved))) {
		braid_export_take_slow(w, entry, bytes, turn.tail, turn.hint, turn.now);
		return;
	}
	braid_export_copy(reserved.payload, entry, bytes);
	if (unlikely(!braid_ring_try_commit(w, reserved.token)))
		braid_writer_publish(w);
}

static struct trace_export export = {
	.write = braid_export_take_record,
	.flags = TRACE_EXPORT_FUNCTION | TRACE_EXPORT_EVENT | TRACE_EXPORT_MARKER,
};

/* Printing in the guest ------------------------------------------------------------------------- */

static int braid_export_print_print(struct seq_file *out, const struct braid_item *item)
{
	const struct print_record *record = item->payload;
	size_t length;

	if (item->payload_bytes < sizeof(*record))
		return -EBADMSG;
	length = strnlen(record->text, item->payload_bytes - sizeof(*record));
	if (length && record->text[length - 1] == '\n')
		length--;
	seq_printf(out, "%ps: %.*s", (void *)record->ip, (int)length, record->text);
	return 0;
}

static int braid_export_print(struct seq_file *out, const struct braid_item *item)
{
	const struct braid_event *ev = braid_output_event(item);
	const struct function_record *function = item->payload;
	const struct exported *exported;

	if (!ev)
		return -ENOENT;
	exported = container_of(ev, struct exported, ev);
	if (exported->native)
		return braid_print_record(out, item, exported->native);
	if (ev->id == ID_PRINT)
		return braid_export_print_print(out, item);
	if (ev->id != ID_FUNCTION || item->payload_bytes < sizeof(*function))
		return -EOPNOTSUPP;
	seq_printf(out, "%ps <-%ps", (void *)function->ip, (void *)function->parent_ip);
	return 0;
}

static const struct braid_outputs outputs = {
	.trace = braid_export_print,
};

/* Events ----------------------------------------------------------------------------------------- */

static int braid_export_format(const struct braid_event *ev, u16 id, char *text, size_t bytes)
{
	const struct exported *exported = container_of(ev, struct exported, ev);
	int length = strscpy(text, exported->format, bytes);

	return length < 0 ? -ENOSPC : length;
}

/* They are turned on in tracefs. */
static const struct braid_event_ops export_ops = {
	.synchronize = braid_synchronize_writers,	/* for braid_export_note_symbols() */
	.format = braid_export_format,
};

/* Whether the event belongs to a probe or a module. */
static bool braid_export_may_go(const char *system, const char *name)
{
	struct trace_event_file *file;
	bool going;

	if (!strcmp(system, "ftrace"))
		return false;
	file = trace_get_event_file(NULL, system, name);
	if (IS_ERR_OR_NULL(file))
		return true;
	going = file->event_call->flags & TRACE_EVENT_FL_DYNAMIC || file->event_call->module;
	trace_put_event_file(file);
	return going;
}

static const struct braid_tracepoint *braid_export_find_native(const char *system, const char *name)
{
	const struct braid_tracepoint *tp = NULL;

	while ((tp = braid_source_next(tp)) != NULL)
		if (!strcmp(tp->name, name) && !strcmp(tp->system, system))
			return tp;
	return NULL;
}

static void braid_export_free_event(struct exported *exported)
{
	kfree(exported->system);
	kfree(exported->name);
	kfree(exported->format);
	kfree(exported);
}

static void braid_export_remove_event(struct exported *exported)
{
	list_del(&exported->list);
	clear_bit(exported->ev.id, symbolic);
	clear_bit(exported->ev.id, plain);
	braid_event_remove_all(&exported->ev, 1);
	braid_export_free_event(exported);
}

static struct exported *braid_export_make_event(const char *system, const char *name)
{
	struct exported *exported = kzalloc(sizeof(*exported), GFP_KERNEL);

	if (!exported)
		return NULL;
	exported->system = kstrdup(system, GFP_KERNEL);
	exported->name = kstrdup(name, GFP_KERNEL);
	exported->format = braid_tracefs_format(system, name);
	if (IS_ERR(exported->format))
		exported->format = NULL;
	exported->may_go = braid_export_may_go(system, name);
	exported->native = exported->may_go ? NULL : braid_export_find_native(system, name);
	exported->ev.buffer = buffer;
	exported->ev.system = exported->system;
	exported->ev.name = exported->name;
	exported->ev.ops = &export_ops;
	exported->ev.outputs = &outputs;
	if (exported->system && exported->name && exported->format)
		return exported;
	braid_export_free_event(exported);
	return NULL;
}

/* An event that had this name and another id has gone. */
static void braid_export_remove_namesake(const char *system, const char *name)
{
	struct exported *exported, *next;

	list_for_each_entry_safe(exported, next, &events, list)
		if (exported->may_go && !strcmp(exported->name, name) &&
		    !strcmp(exported->system, system))
			braid_export_remove_event(exported);
}

/* Found in the walk: is it a marked one? */
static int braid_export_take_event(const char *system, const char *name, int id, void *unused)
{
	struct exported *exported;
	int err;

	if (!test_bit(id, unknown) || braid_export_find(id))
		return 0;
	exported = braid_export_make_event(system, name);
	if (!exported || braid_tracefs_id(exported->format) != id) {
		if (exported)
			braid_export_free_event(exported);
		return 0;		/* removed meanwhile; retried when its id occurs again */
	}
	braid_export_remove_namesake(system, name);
	if (exported->may_go)
		clear_bit(id, seen);
	err = braid_event_add(&exported->ev, id);
	if (err == -ENOSPC)
		set_bit(id, refused);
	if (err < 0) {
		braid_export_free_event(exported);
		return 0;
	}
	list_add_tail(&exported->list, &events);
	if (exported->native && exported->native->symbols[0])
		set_bit(id, symbolic);
	else if (!exported->may_go && id != ID_FUNCTION && id != ID_PRINT)
		set_bit(id, plain);
	return 0;
}

/* A removable event occurred: is it still the known one? */
static void braid_export_check_event(struct exported *exported)
{
	u16 id = exported->ev.id;
	char *format;
	bool same;

	clear_bit(id, seen);
	smp_mb__after_atomic();		/* later records cause another lookup */
	format = braid_tracefs_format(exported->system, exported->name);
	same = !IS_ERR(format) && !strcmp(format, exported->format);
	if (!IS_ERR(format))
		kfree(format);
	if (same)
		return;
	braid_export_remove_event(exported);
	set_bit(id, seen);		/* so that the walk looks it up */
}

/* Marks the ids that occurred and are unknown. Return: whether there are any. */
static bool braid_export_find_unknown(void)
{
	bool any = false;
	int id;

	bitmap_zero(unknown, NR_IDS);
	for_each_set_bit(id, seen, NR_IDS) {
		if (braid_export_find(id) || test_bit(id, refused))
			continue;
		set_bit(id, unknown);
		any = true;
	}
	return any;
}

static void braid_export_look_up(bool at_once)
{
	struct exported *exported, *next;
	int id;

	WRITE_ONCE(dirty, false);
	smp_mb();			/* a bit set after this sets dirty again */
	list_for_each_entry_safe(exported, next, &events, list)
		if (exported->may_go && test_bit(exported->ev.id, seen))
			braid_export_check_event(exported);
	if (!braid_export_find_unknown())
		return;
	if ((!at_once && walked_at && time_before(jiffies, walked_at + WALK_AGAIN)) ||
	    braid_tracefs_walk(braid_export_take_event, NULL)) {
		WRITE_ONCE(dirty, true);	/* later */
		return;
	}
	walked_at = jiffies;
	/* Missing ones are looked up when they occur again. */
	for_each_set_bit(id, unknown, NR_IDS)
		if (!braid_export_find(id))
			clear_bit(id, seen);
}

static void braid_export_resolve(bool at_once)
{
	WRITE_ONCE(resolver, current);
	braid_export_look_up(at_once);
	WRITE_ONCE(resolver, NULL);
}

static void braid_export_work(struct work_struct *work)
{
	u32 lookup = READ_ONCE(asked);
	bool awaited = lookup != over;

	braid_export_resolve(awaited);
	if (!awaited)
		return;
	smp_store_release(&over, lookup);
	braid_poll_now();
}
static DECLARE_WORK(work, braid_export_work);

/* Coming and going -------------------------------------------------------------------------------- */

/* Events that may have been removed since are looked up again when they occur. */
static void braid_export_forget(bool all)
{
	struct exported *exported, *next;

	list_for_each_entry_safe(exported, next, &events, list)
		if (all || exported->may_go)
			braid_export_remove_event(exported);
	bitmap_zero(seen, NR_IDS);
	bitmap_zero(refused, NR_IDS);
}

int braid_export_start(struct braid_buffer *to)
{
	int err = braid_tracefs_open();

	if (err)
		return err;
	buffer = to;
	braid_export_forget(false);
	walked_at = 0;
	err = register_ftrace_export(&export);
	if (err) {
		braid_tracefs_close();
		buffer = NULL;
	}
	return err;
}

void braid_export_stop(void)
{
	if (!buffer)
		return;
	unregister_ftrace_export(&export);
	braid_synchronize_writers();
	cancel_work_sync(&work);
	braid_export_resolve(true);
	braid_tracefs_close();
	buffer = NULL;
}

void braid_export_flush(void)
{
	if (READ_ONCE(dirty) && READ_ONCE(buffer))
		queue_work(braid_unbound_wq, &work);
}

bool braid_export_settle(bool first)
{
	if (!READ_ONCE(buffer))
		return true;
	if (first) {
		WRITE_ONCE(asked, asked + 1);
		queue_work(braid_unbound_wq, &work);	/* once more, if it runs */
	}
	return smp_load_acquire(&over) == asked;
}

void braid_export_exit(void)
{
	braid_export_forget(true);
}

#else

int braid_export_start(struct braid_buffer *to)
{
	return -EOPNOTSUPP;
}

void braid_export_stop(void)
{
}

void braid_export_flush(void)
{
}

bool braid_export_settle(bool first)
{
	return true;
}

void braid_export_exit(void)
{
}

#endif

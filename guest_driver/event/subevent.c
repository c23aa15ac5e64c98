// SPDX-License-Identifier: GPL-2.0
/* Keeps the sub-events of events: by number in a hash, in the directory, in debugfs. */
#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "guest_driver/event/directory.h"
#include "guest_driver/event/output.h"
#include "guest_driver/event/subevent.h"

#define FORMAT_ROOM	16384

struct node {
	struct hlist_node hash;
	const struct braid_subevent *sub;
	struct braid_event *ev;
	struct braid_schema_event entry;	/* as listed; offset and flags are good */
	bool listed;		/* since its event was */
};

/* Constant once it is published, except for the listing. */
struct braid_subevents {
	struct braid_subevent_table table;
	struct dentry *dir;
	struct hlist_head *buckets;
	u32 bits;
	u32 nr;
	struct node nodes[];
};

/* Held while tables are added and removed; never while printing. */
static DEFINE_MUTEX(changing);

/* Format text ------------------------------------------------------------------------------ */

static int braid_subevents_format_text(const struct node *node, char *text, size_t bytes)
{
	const struct braid_subevent *sub = node->sub;
	int len;

	len = snprintf(text, bytes, "name: %s\nID: %u\nformat:\n%s%s", sub->name, node->ev->id,
		       BRAID_COMMON_FIELDS, sub->fields ?: "");
	if (len < bytes && sub->fields)
		len += snprintf(text + len, bytes - len, "\nprint fmt: %s\n", sub->print_fmt);
	return len < bytes ? len : -ENOSPC;
}

static int braid_subevents_format_show(struct seq_file *seq, void *unused)
{
	char *text = kvmalloc(FORMAT_ROOM, GFP_KERNEL);
	int len;

	if (!text)
		return -ENOMEM;
	len = braid_subevents_format_text(seq->private, text, FORMAT_ROOM);
	if (len > 0)
		seq_write(seq, text, len);
	kvfree(text);
	return len < 0 ? len : 0;
}
DEFINE_SHOW_ATTRIBUTE(braid_subevents_format);

static int braid_subevents_number_show(struct seq_file *seq, void *unused)
{
	seq_printf(seq, "%u\n", ((const struct node *)seq->private)->sub->number);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(braid_subevents_number);

/* events/<system>/<event>/subevents/<name>/{number,format} */
static void braid_subevents_make_files(struct braid_event *ev, struct braid_subevents *subs)
{
	struct dentry *dir;
	u32 k;

	subs->dir = debugfs_create_dir("subevents", ev->dir);
	for (k = 0; k < subs->nr; k++) {
		dir = debugfs_create_dir(subs->nodes[k].sub->name, subs->dir);
		debugfs_create_file("number", 0400, dir, &subs->nodes[k],
				    &braid_subevents_number_fops);
		debugfs_create_file("format", 0400, dir, &subs->nodes[k],
				    &braid_subevents_format_fops);
	}
}

/* The table ---------------------------------------------------------------------------------- */

static struct node *braid_subevents_find_node(const struct braid_subevents *subs, u32 number)
{
	struct node *node;

	hlist_for_each_entry(node, &subs->buckets[hash_32(number, subs->bits)], hash)
		if (node->sub->number == number)
			return node;
	return NULL;
}

static bool braid_subevents_table_is_valid(const struct braid_subevent_table *table)
{
	u32 bytes = table->number_bytes;

	if (!table->subevents || !table->nr)
		return false;
	if (!bytes)
		return table->find;
	return bytes <= 8 && is_power_of_2(bytes) &&
	       table->number_offset <= BRAID_MAX_SUBBUF_BYTES - sizeof(struct braid_record) - bytes;
}

static void braid_subevents_free_table(struct braid_subevents *subs)
{
	kvfree(subs->buckets);
	kvfree(subs);
}

static int braid_subevents_fill_table(struct braid_subevents *subs, struct braid_event *ev)
{
	u32 k;

	for (k = 0; k < subs->table.nr; k++) {
		const struct braid_subevent *sub = &subs->table.subevents[k];
		struct node *node = &subs->nodes[k];

		if (!sub->name || !*sub->name || (sub->fields && !sub->print_fmt) ||
		    braid_subevents_find_node(subs, sub->number))
			return -EINVAL;
		node->sub = sub;
		node->ev = ev;
		hlist_add_head(&node->hash, &subs->buckets[hash_32(sub->number, subs->bits)]);
		subs->nr++;
	}
	return 0;
}

static struct braid_subevents *braid_subevents_make_table(struct braid_event *ev,
							  const struct braid_subevent_table *table)
{
	struct braid_subevents *subs;
	int err;

	if (!braid_subevents_table_is_valid(table))
		return ERR_PTR(-EINVAL);
	subs = kvzalloc(struct_size(subs, nodes, table->nr), GFP_KERNEL);
	if (!subs)
		return ERR_PTR(-ENOMEM);
	subs->table = *table;
	subs->bits = ilog2(table->nr) + 1;
	subs->buckets = kvcalloc(1ul << subs->bits, sizeof(*subs->buckets), GFP_KERNEL);
	err = subs->buckets ? braid_subevents_fill_table(subs, ev) : -ENOMEM;
	if (!err)
		return subs;
	braid_subevents_free_table(subs);
	return ERR_PTR(err);
}

/* The directory ------------------------------------------------------------------------------ */

/* Must hold braid_registry_lock(). */
static int braid_subevents_list_node(struct braid_subevents *subs, struct node *node, char *text)
{
	const struct braid_subevent_table *table = &subs->table;
	u32 offset = table->number_offset + sizeof(struct braid_record);
	struct braid_schema_event *entry = &node->entry;
	int err = braid_subevents_format_text(node, text, FORMAT_ROOM);

	if (err < 0)
		return err;
	entry->flags = BRAID_EVENT_SUB;
	if (table->number_bytes)
		entry->flags |= (u32)table->number_bytes << BRAID_SUB_BYTES_SHIFT |
				offset << BRAID_SUB_OFFSET_SHIFT;
	entry->number = node->sub->number;
	entry->name = node->sub->name;
	entry->format = text;
	err = braid_event_list_more(node->ev, entry);
	node->listed = !err;
	return err;
}

/* Must hold braid_registry_lock(). */
static int braid_subevents_list_table(struct braid_subevents *subs)
{
	char *text = kvmalloc(FORMAT_ROOM, GFP_KERNEL);
	int err = text ? 0 : -ENOMEM;
	u32 k;

	for (k = 0; k < subs->nr; k++)
		subs->nodes[k].listed = false;
	for (k = 0; k < subs->nr && !err; k++)
		err = braid_subevents_list_node(subs, &subs->nodes[k], text);
	kvfree(text);
	return err;
}

/* Must hold braid_registry_lock(). */
static void braid_subevents_unlist_table(struct braid_subevents *subs)
{
	u32 k;

	for (k = 0; k < subs->nr; k++)
		if (subs->nodes[k].listed)
			braid_event_set_gone(subs->nodes[k].ev, &subs->nodes[k].entry);
}

void braid_subevents_relist(struct braid_event *ev)
{
	struct braid_subevents *subs = rcu_dereference_protected(ev->subevents, true);
	int err = subs ? braid_subevents_list_table(subs) : 0;

	if (err)
		pr_warn("tracebraid: the event directory has no room for all sub-events of %s:%s (%d)\n",
			ev->system, ev->name, err);
}

/* Coming and going -------------------------------------------------------------------------- */

static int braid_subevents_publish(struct braid_event *ev, struct braid_subevents *subs)
{
	int err;

	braid_registry_lock();
	err = braid_subevents_list_table(subs);
	if (err == -ENODEV)	/* no region now */
		err = 0;
	if (err)
		braid_subevents_unlist_table(subs);
	else
		rcu_assign_pointer(ev->subevents, subs);
	braid_registry_unlock();
	return err;
}

int braid_subevents_add(struct braid_event *ev, const struct braid_subevent_table *table)
{
	struct braid_subevents *subs;
	int err = -EBUSY;

	mutex_lock(&changing);
	if (rcu_access_pointer(ev->subevents))
		goto out;
	subs = braid_subevents_make_table(ev, table);
	err = PTR_ERR_OR_ZERO(subs);
	if (err)
		goto out;
	err = braid_subevents_publish(ev, subs);
	if (err)
		braid_subevents_free_table(subs);
	else
		braid_subevents_make_files(ev, subs);
out:
	mutex_unlock(&changing);
	return err;
}

int braid_subevents_remove(struct braid_event *ev)
{
	struct braid_subevents *subs;

	mutex_lock(&changing);
	braid_registry_lock();
	subs = rcu_dereference_protected(ev->subevents, true);
	RCU_INIT_POINTER(ev->subevents, NULL);
	if (subs)
		braid_subevents_unlist_table(subs);
	braid_registry_unlock();
	if (subs) {
		if (ev->dir)	/* else it was removed with its contents */
			debugfs_remove(subs->dir);
		braid_output_synchronize();
		braid_subevents_free_table(subs);
	}
	mutex_unlock(&changing);
	return subs ? 0 : -ENOENT;
}

/* Finding ------------------------------------------------------------------------------------ */

/*
 * The number at its place in the record; -1 if the record is too short, or no sub-event has that
 * number.
 */
static s64 braid_subevents_read_number(const struct braid_subevent_table *table,
				       const struct braid_item *item)
{
	u32 at = table->number_offset + sizeof(struct braid_record);
	__le64 number = 0;

	if (at + table->number_bytes > item->payload_bytes)
		return -1;
	memcpy(&number, item->payload + at, table->number_bytes);
	return le64_to_cpu(number);
}

const struct braid_subevent *braid_subevent_of(const struct braid_event *ev,
					       const struct braid_item *item)
{
	const struct braid_subevents *subs = rcu_dereference_check(ev->subevents, true);
	const struct node *node;
	s64 number;

	if (!subs)
		return NULL;
	number = subs->table.find ? subs->table.find(item) :
				    braid_subevents_read_number(&subs->table, item);
	if (number < 0 || number > U32_MAX)
		return NULL;
	node = braid_subevents_find_node(subs, number);
	return node ? node->sub : NULL;
}

/* For other modules -------------------------------------------------------------------------- */

/* The caller owns the event, so it stays. */
static struct braid_event *braid_subevents_find_event(struct braid_buffer *buffer, u16 event_id)
{
	struct braid_event *ev;

	preempt_disable();
	ev = braid_event_find(buffer ?: braid_trace_buffer(), event_id);
	preempt_enable();
	return ev;
}

int braid_register_subevents(struct braid_buffer *buffer, u16 event_id,
			     const struct braid_subevent_table *table)
{
	struct braid_event *ev = braid_subevents_find_event(buffer, event_id);

	return ev ? braid_subevents_add(ev, table) : -ENOENT;
}
EXPORT_SYMBOL_GPL(braid_register_subevents);

int braid_unregister_subevents(struct braid_buffer *buffer, u16 event_id)
{
	struct braid_event *ev = braid_subevents_find_event(buffer, event_id);

	return ev ? braid_subevents_remove(ev) : -ENOENT;
}
EXPORT_SYMBOL_GPL(braid_unregister_subevents);

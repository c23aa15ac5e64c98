// SPDX-License-Identifier: GPL-2.0
/*
 * trace: a buffer's contents as text, all CPUs in order of time, without consuming them. Recording
 * goes on meanwhile, as with tracefs' file.
 */
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "guest_driver/compat.h"
#include "guest_driver/core/comm.h"
#include "guest_driver/event/read_files.h"

/* One CPU's iterator, and its next event. */
struct walk {
	struct braid_buffer_iter *iter;
	struct braid_item item;
	bool has_item;
};

/* A trace file that is open for reading. */
struct trace {
	struct list_head list;
	struct braid_read_files *files;
	struct braid_buffer *buffer;	/* between start() and stop(); NULL: gone */
	int gate;			/* of braid_read_enter() */
	enum braid_output kind;
	bool closed;			/* the iterators are finished */
	int err;			/* why a CPU's events end too early */
	loff_t at;			/* number of the current event */
	u64 first_ns;			/* of the first event */
	struct walk *current_walk;	/* NULL: the end */
	int nr_walks;
	struct walk walks[];
};

/* Order ------------------------------------------------------------------------------- */

static void braid_trace_look_ahead(struct trace *t, struct walk *walk)
{
	int ret = walk->iter ? braid_buffer_iter_peek(walk->iter, &walk->item) : 0;

	walk->has_item = ret > 0;
	if (ret < 0)
		t->err = ret;
}

static void braid_trace_pick_earliest(struct trace *t)
{
	struct walk *best = NULL, *walk;

	for (walk = t->walks; walk < t->walks + t->nr_walks; walk++)
		if (walk->has_item && (!best || walk->item.stamp < best->item.stamp))
			best = walk;
	t->current_walk = best;
}

static u64 braid_trace_ns_of(const struct braid_item *item)
{
	u64 ns = item->stamp;

	braid_buffer_normalize_time_stamp(item->buffer, item->cpu, &ns);
	return ns;
}

static void braid_trace_rewind(struct trace *t)
{
	struct walk *walk;
	int err;

	for (walk = t->walks; walk < t->walks + t->nr_walks; walk++) {
		err = walk->iter ? braid_buffer_iter_reset(walk->iter) : 0;
		if (err)
			t->err = err;
		braid_trace_look_ahead(t, walk);
	}
	braid_trace_pick_earliest(t);
	t->at = 0;
	if (t->current_walk)
		t->first_ns = braid_trace_ns_of(&t->current_walk->item);
}

static void braid_trace_advance(struct trace *t)
{
	struct walk *walk = t->current_walk;

	if (!walk)
		return;
	braid_buffer_read(walk->iter, &walk->item);
	braid_trace_look_ahead(t, walk);
	braid_trace_pick_earliest(t);
	t->at++;
}

/* Lines ------------------------------------------------------------------------------- */

static void braid_trace_show_flags(struct seq_file *seq, const struct braid_record *record)
{
	u8 flags = record->common_flags, depth = record->common_preempt_count & 0xf;
	u8 migration = record->common_preempt_count >> 4;
	bool hard = flags & 0x08, soft = flags & 0x10, nmi = flags & 0x40;
	char irqs = ".dbD"[(flags & 0x01) | (flags & 0x80) >> 6];
	char resched = ".lnbpLNB"[(flags & 0x02) >> 1 | (flags & 0x04) >> 1 | (flags & 0x20) >> 3];
	char context = nmi ? "zZ"[hard] : hard ? "hH"[soft] : soft ? 's' : '.';

	seq_printf(seq, "%c%c%c%c%c", irqs, resched, context, depth ? hex_asc_lo(depth) : '.',
		   migration ? hex_asc_lo(migration) : '.');
}

static void braid_trace_get_comm(struct trace *t, s32 pid, char comm[BRAID_COMM_BYTES])
{
	strscpy(comm, "<...>", BRAID_COMM_BYTES);
	braid_lock(&t->buffer->lock);
	if (t->buffer->region)
		braid_comm_copy(t->buffer->region, pid, comm);
	braid_unlock(&t->buffer->lock);
}

static void braid_trace_show_task(struct seq_file *seq, struct trace *t,
				  const struct braid_item *item, const struct braid_record *record)
{
	char comm[BRAID_COMM_BYTES];
	u32 rest;
	u64 ns = braid_trace_ns_of(item), seconds = div_u64_rem(ns, NSEC_PER_SEC, &rest);

	if (record)
		braid_trace_get_comm(t, record->common_pid, comm);
	if (t->kind == BRAID_OUTPUT_LATENCY) {
		if (record)
			seq_printf(seq, "%8.8s-%-7d", comm, record->common_pid);
		seq_printf(seq, " %3d", item->cpu);
		if (record)
			braid_trace_show_flags(seq, record);
		seq_printf(seq, " %8lluus: ", div_u64(ns - t->first_ns, NSEC_PER_USEC));
		return;
	}
	if (record)
		seq_printf(seq, "%16s-%-7d ", comm, record->common_pid);
	seq_printf(seq, "[%03d] ", item->cpu);
	if (record)
		braid_trace_show_flags(seq, record);
	seq_printf(seq, " %5llu.%06u: ", seconds, rest / 1000);
}

static void braid_trace_show_item(struct seq_file *seq, struct trace *t,
				  const struct braid_item *item)
{
	bool raw = t->buffer->flags & BRAID_BUFFER_RAW;
	const struct braid_record *record =
		raw || item->payload_bytes < sizeof(*record) ? NULL : item->payload;
	s32 pid = record ? record->common_pid : 0;

	if (t->kind == BRAID_OUTPUT_BINARY) {
		braid_output_item(seq, item, t->kind);
		return;
	}
	if (item->lost_before)
		seq_printf(seq, "CPU:%d [LOST %llu EVENTS]\n", item->cpu, item->lost_before);
	if (t->kind == BRAID_OUTPUT_RAW)
		seq_printf(seq, "%d %d %llu ", pid, item->cpu, braid_trace_ns_of(item));
	else if (t->kind == BRAID_OUTPUT_HEX)
		seq_printf(seq, "%08x %08x %016llx ", pid, item->cpu, braid_trace_ns_of(item));
	else
		braid_trace_show_task(seq, t, item, record);
	braid_output_item(seq, item, t->kind);
	seq_putc(seq, '\n');
}

static void braid_trace_show_head(struct seq_file *seq, struct trace *t)
{
	struct braid_ring_counts counts;
	u64 entries = 0, written = 0;
	int cpu;

	if (t->kind != BRAID_OUTPUT_TRACE && t->kind != BRAID_OUTPUT_LATENCY)
		return;
	for_each_possible_cpu(cpu) {
		if (braid_reader_counts(t->buffer, cpu, &counts))
			continue;
		entries += counts.entries;
		written += counts.written;
	}
	seq_puts(seq, "# tracer: tracebraid\n#\n");
	seq_printf(seq, "# entries-in-buffer/entries-written: %llu/%llu   #P:%d\n#\n", entries,
		   written, num_online_cpus());
	if (t->buffer->flags & BRAID_BUFFER_RAW) {
		seq_puts(seq, "# CPU# TIMESTAMP  BYTES\n");
	} else if (t->kind == BRAID_OUTPUT_LATENCY) {
		seq_puts(seq, "# flags: irqs off or bottom halves off, need to reschedule, irq context, preemption and migration depth\n");
		seq_puts(seq, "#  TASK-PID     CPU+FLAGS  SINCE FIRST  EVENT\n");
	} else {
		seq_puts(seq, "#                               irqs off (d), bottom halves off (b)\n");
		seq_puts(seq, "#                               |need to reschedule\n");
		seq_puts(seq, "#                               ||hardirq, softirq, nmi\n");
		seq_puts(seq, "#                               |||preemption depth\n");
		seq_puts(seq, "#                               ||||migration disabled\n");
		seq_puts(seq, "#           TASK-PID     CPU#   |||||  TIMESTAMP  EVENT\n");
		seq_puts(seq, "#              | |         |    |||||      |        |\n");
	}
}

/* The sequence -------------------------------------------------------------------------- */

static void *braid_trace_current_or_end(struct trace *t)
{
	if (t->current_walk)
		return t->current_walk;
	return t->err ? ERR_PTR(t->err) : NULL;
}

static void *braid_trace_start(struct seq_file *seq, loff_t *pos)
{
	struct trace *t = seq->private;

	t->buffer = braid_read_enter(t->files, &t->gate);
	if (!t->buffer)
		return ERR_PTR(-ENODEV);
	if (!*pos)
		return SEQ_START_TOKEN;
	if (*pos - 1 < t->at)
		braid_trace_rewind(t);
	while (t->current_walk && t->at < *pos - 1)
		braid_trace_advance(t);
	return braid_trace_current_or_end(t);
}

static void *braid_trace_next(struct seq_file *seq, void *v, loff_t *pos)
{
	struct trace *t = seq->private;

	++*pos;
	if (v != SEQ_START_TOKEN)
		braid_trace_advance(t);
	else if (t->at)
		braid_trace_rewind(t);
	return braid_trace_current_or_end(t);
}

static void braid_trace_stop(struct seq_file *seq, void *v)
{
	struct trace *t = seq->private;

	if (t->buffer)
		braid_read_leave(t->files, t->gate);
	t->buffer = NULL;
}

static int braid_trace_show(struct seq_file *seq, void *v)
{
	struct trace *t = seq->private;

	if (v == SEQ_START_TOKEN)
		braid_trace_show_head(seq, t);
	else
		braid_trace_show_item(seq, t, &((struct walk *)v)->item);
	return 0;
}

static const struct seq_operations trace_seq_ops = {
	.start = braid_trace_start,
	.next = braid_trace_next,
	.stop = braid_trace_stop,
	.show = braid_trace_show,
};

/* The file ------------------------------------------------------------------------------ */

static void braid_trace_finish(struct trace *t)
{
	struct walk *walk;

	for (walk = t->walks; walk < t->walks + t->nr_walks; walk++)
		if (walk->iter)
			braid_buffer_read_finish(walk->iter);
	t->closed = true;
}

void braid_trace_close_all(struct braid_read_files *files)
{
	struct trace *t;

	mutex_lock(&files->lock);
	list_for_each_entry(t, &files->traces, list)
		braid_trace_finish(t);
	mutex_unlock(&files->lock);
}

/* Begins on all CPUs; a ring that the host broke shows no events and is reported at the end. */
static int braid_trace_begin(struct trace *t, struct braid_buffer *buffer)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct braid_buffer_iter *iter;

		if (cpu >= t->nr_walks)
			continue;
		iter = braid_buffer_read_start(buffer, cpu);
		if (IS_ERR(iter) && PTR_ERR(iter) != -EBADMSG)
			return PTR_ERR(iter);
		if (IS_ERR(iter))
			t->err = PTR_ERR(iter);
		else
			t->walks[cpu].iter = iter;
	}
	return 0;
}

static int braid_trace_open_text(struct file *file, struct braid_read_files *files)
{
	struct trace *t = kvzalloc(struct_size(t, walks, files->nr_cpus), GFP_KERNEL);
	int err;

	if (!t)
		return -ENOMEM;
	t->files = files;
	t->kind = READ_ONCE(files->kind);
	t->nr_walks = files->nr_cpus;
	err = braid_trace_begin(t, files->buffer) ?: seq_open(file, &trace_seq_ops);
	if (err) {
		braid_trace_finish(t);
		kvfree(t);
		return err;
	}
	braid_trace_rewind(t);
	((struct seq_file *)file->private_data)->private = t;
	kref_get(&files->kref);
	mutex_lock(&files->lock);
	list_add(&t->list, &files->traces);
	mutex_unlock(&files->lock);
	return 0;
}

/* debugfs keeps file and buffer alive meanwhile. */
static int braid_trace_open_file(struct inode *inode, struct file *file)
{
	struct braid_read_files *files = inode->i_private;
	int err = 0;

	if (file->f_mode & FMODE_WRITE && file->f_flags & O_TRUNC)
		err = braid_buffer_reset(files->buffer);
	if (!err && file->f_mode & FMODE_READ)
		err = braid_trace_open_text(file, files);
	return err;
}

static int braid_trace_release_file(struct inode *inode, struct file *file)
{
	struct braid_read_files *files;
	struct trace *t;

	if (!(file->f_mode & FMODE_READ))
		return 0;
	t = ((struct seq_file *)file->private_data)->private;
	files = t->files;
	mutex_lock(&files->lock);
	list_del(&t->list);
	if (!t->closed)
		braid_trace_finish(t);
	mutex_unlock(&files->lock);
	kvfree(t);
	braid_read_files_put(files);
	return seq_release(inode, file);
}

/* Opening for writing has already done the work. */
static ssize_t braid_trace_write(struct file *file, const char __user *from, size_t count,
				 loff_t *at)
{
	return count;
}

static loff_t braid_trace_llseek(struct file *file, loff_t offset, int whence)
{
	return file->f_mode & FMODE_READ ? seq_lseek(file, offset, whence) : 0;
}

const struct file_operations braid_trace_fops = {
	.owner = THIS_MODULE,
	.open = braid_trace_open_file,
	.read = seq_read,
	.write = braid_trace_write,
	.llseek = braid_trace_llseek,
	.release = braid_trace_release_file,
};

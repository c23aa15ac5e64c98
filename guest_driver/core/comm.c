// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps the comm table. A task gets its comm at fork (from its parent), and later only by exec and
 * prctl: two rare tracepoints cover all changes; the switch path has no hook.
 */
#include <linux/bitmap.h>
#include <linux/ctype.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/spinlock.h>
#include <linux/tracepoint.h>

#include "guest_driver/core/comm.h"
#include "guest_driver/core/counter.h"

static struct braid_comm_table *table;
static u32 nr_entries;
static u64 generation;
static unsigned long *written;	/* entries written by a probe: newer than the walk over tasks */
static struct tracepoint *newtask, *renamed;
static DEFINE_RAW_SPINLOCK(lock);

static void braid_comm_note_task(pid_t pid, const char *comm, u64 since)
{
	struct braid_comm *entry;
	unsigned long flags;
	u32 seq;

	raw_spin_lock_irqsave(&lock, flags);
	if (since)
		__set_bit((u32)pid % nr_entries, written);
	else if (test_bit((u32)pid % nr_entries, written))
		goto out;
	entry = &table->entries[(u32)pid % nr_entries];
	seq = (READ_ONCE(entry->seq) | 1) + 1;	/* even, and never the former one */
	braid_store(&entry->seq, seq - 1);
	braid_fence();					/* (M1) */
	entry->pid = pid;
	entry->since_counter = since;
	strscpy_pad(entry->comm, comm, sizeof(entry->comm));
	braid_store_release(&entry->seq, seq ? seq : 2);	/* (M1) */
	braid_store_release(&table->generation, ++generation);	/* (M2) */
out:
	raw_spin_unlock_irqrestore(&lock, flags);
}

static void braid_comm_on_newtask(void *data, struct task_struct *task, unsigned long clone_flags)
{
	braid_comm_note_task(task->pid, task->comm, braid_counter());
}

static void braid_comm_on_rename(void *data, struct task_struct *task, const char *comm)
{
	braid_comm_note_task(task->pid, comm, braid_counter());
}

static void braid_comm_find_tracepoint(struct tracepoint *tp, void *unused)
{
	if (!strcmp(tp->name, "task_newtask"))
		newtask = tp;
	else if (!strcmp(tp->name, "task_rename"))
		renamed = tp;
}

static void braid_comm_note_all(void)
{
	struct task_struct *process, *task;

	rcu_read_lock();
	for_each_process_thread(process, task)
		braid_comm_note_task(task->pid, task->comm, 0);
	rcu_read_unlock();
}

int braid_comm_start(struct braid_guest_region *region)
{
	int err;

	table = region->comms;
	nr_entries = region->nr_comms;
	generation = 0;
	written = bitmap_zalloc(nr_entries, GFP_KERNEL);
	if (!written)
		return -ENOMEM;
	braid_comm_note_task(0, "<idle>", 0);
	if (!newtask)
		for_each_kernel_tracepoint(braid_comm_find_tracepoint, NULL);
	err = newtask && renamed ? tracepoint_probe_register(newtask, braid_comm_on_newtask, NULL) :
				   -ENOENT;
	if (err)
		goto err_free;
	err = tracepoint_probe_register(renamed, braid_comm_on_rename, NULL);
	if (err) {
		tracepoint_probe_unregister(newtask, braid_comm_on_newtask, NULL);
		tracepoint_synchronize_unregister();
		goto err_free;
	}
	braid_comm_note_all();
	return 0;

err_free:
	bitmap_free(written);
	written = NULL;
	return err;
}

void braid_comm_stop(void)
{
	tracepoint_probe_unregister(renamed, braid_comm_on_rename, NULL);
	tracepoint_probe_unregister(newtask, braid_comm_on_newtask, NULL);
	tracepoint_synchronize_unregister();
	bitmap_free(written);
	written = NULL;
}

void braid_comm_copy(const struct braid_guest_region *region, s32 pid,
		     char comm[BRAID_COMM_BYTES])
{
	const struct braid_comm *entry = &region->comms->entries[(u32)pid % region->nr_comms];
	u32 seq = braid_load_acquire(&entry->seq), k;		/* (M1) */
	s32 whose = READ_ONCE(entry->pid);

	memcpy(comm, entry->comm, BRAID_COMM_BYTES);
	braid_fence();						/* (M1) */
	if (!seq || seq & 1 || whose != pid || braid_load(&entry->seq) != seq) {
		strscpy(comm, pid ? "<...>" : "<idle>", BRAID_COMM_BYTES);
		return;
	}
	comm[BRAID_COMM_BYTES - 1] = 0;
	for (k = 0; comm[k]; k++)
		if (!isascii(comm[k]) || !isprint(comm[k]))
			comm[k] = '?';
}

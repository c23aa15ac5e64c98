// SPDX-License-Identifier: GPL-2.0-or-later
/* Follows tasks through run, wait and sleep; and vCPUs into their guests and out again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/stats/stats.h"
#include "host_agent/util/array.h"

#define STATE_BITS	0xffu	/* of prev_state: why it sleeps; the bit above: it was preempted */

/* Tasks ------------------------------------------------------------------------------------- */

struct key {
	u32 stream;
	s32 pid;
};

static u32 stats_tasks_hash_of(u32 stream, s32 pid)
{
	return braid_hash_of_number((u64)stream << 32 | (u32)pid);
}

static bool stats_tasks_same(const void *in, u32 number, const void *of)
{
	const struct braid_stats_task *task = (const struct braid_stats_task *)in + number;
	const struct key *key = of;

	return task->stream == key->stream && task->pid == key->pid;
}

struct braid_stats_task *braid_stats_find_task(const struct braid_stats *s, u32 stream, s32 pid)
{
	const struct key key = { stream, pid };
	u32 number = braid_hash_find(&s->by_pid, stats_tasks_hash_of(stream, pid), stats_tasks_same,
				     s->tasks, &key);

	return number == BRAID_HASH_NONE ? NULL : &s->tasks[number];
}

/* After a loss its state is unknown, and since when. */
static void forget_lost(struct braid_stats_task *task, u64 gaps)
{
	if (task->gaps == gaps)
		return;
	task->gaps = gaps;
	task->state = BRAID_TASK_UNKNOWN;
	if (task->kvm)
		task->kvm->state = BRAID_KVM_UNKNOWN;
}

/* The task, created if new. *out: NULL when there are too many, or it is not a task. */
static int task_of(struct braid_stats *s, u32 stream, s32 pid, struct braid_stats_task **out)
{
	struct braid_stats_task task = {
		.stream = stream, .pid = pid, .gaps = s->streams[stream].gaps,
	};
	int err;

	*out = pid ? braid_stats_find_task(s, stream, pid) : NULL;
	if (*out)
		forget_lost(*out, task.gaps);
	if (*out || !pid)
		return 0;
	err = braid_hash_reserve(&s->by_pid, BRAID_STATS_MAX_TASKS);
	if (err == -ENOSPC) {
		s->tasks_left_out = true;
		return 0;
	}
	if (err || braid_array_push(s->tasks, s->nr_tasks, s->tasks_capacity, task))
		return -ENOMEM;
	braid_hash_put(&s->by_pid, stats_tasks_hash_of(stream, pid), s->nr_tasks - 1);
	*out = &s->tasks[s->nr_tasks - 1];
	return 0;
}

/* What it did since it began to, up to now. */
static void stats_tasks_settle(struct braid_stats_task *task, s64 now_ns)
{
	u64 ns = now_ns > task->since_ns ? now_ns - task->since_ns : 0;

	if (task->state == BRAID_TASK_RUNS)
		task->runs_ns += ns;
	else if (task->state == BRAID_TASK_WAITS)
		task->waits_ns += ns;
	else if (task->state == BRAID_TASK_SLEEPS)
		task->sleeps_ns += ns;
}

static void turn(struct braid_stats_task *task, int state, s64 now_ns)
{
	if (!task)
		return;
	stats_tasks_settle(task, now_ns);
	task->state = state;
	task->since_ns = now_ns;
}

static void take_comm(struct braid_stats_task *task, const struct braid_field *f,
		      const struct braid_item *item)
{
	u32 offset, length;

	if (!task || !f ||
	    !braid_format_range(f, item->payload, item->payload_bytes, &offset, &length))
		return;
	length = strnlen((const char *)item->payload + offset,
			 length < sizeof(task->comm) - 1 ? length : sizeof(task->comm) - 1);
	if (!memcmp(task->comm, item->payload + offset, length) && !task->comm[length])
		return;
	memcpy(task->comm, item->payload + offset, length);
	task->comm[length] = 0;
	braid_text_clean(task->comm);
}

static void settle_cpu(struct braid_stats_cpu *cpu, s64 now_ns)
{
	u64 ns = now_ns > cpu->since_ns ? now_ns - cpu->since_ns : 0;

	if (!cpu->known)
		return;
	if (cpu->pid)
		cpu->busy_ns += ns;
	else
		cpu->idle_ns += ns;
}

int braid_stats_take_switch(struct braid_stats *s, const struct braid_item *item,
			    const struct braid_stats_type *type)
{
	struct braid_stats_stream *stream = &s->streams[item->stream->number];
	struct braid_stats_cpu *cpu = &stream->cpus[item->ring->cpu];
	s32 prev = braid_field_number(type->fields[0], item->payload);
	s32 next = braid_field_number(type->fields[2], item->payload);
	bool runnable = !(braid_field_number(type->fields[1], item->payload) & STATE_BITS);
	struct braid_stats_task *task;
	int err;

	stream->any_switch = true;
	settle_cpu(cpu, item->host_ns);
	cpu->known = true;
	cpu->pid = next;
	cpu->since_ns = item->host_ns;
	cpu->switches++;
	err = task_of(s, item->stream->number, prev, &task);
	if (err)
		return err;
	turn(task, runnable ? BRAID_TASK_WAITS : BRAID_TASK_SLEEPS, item->host_ns);
	err = task_of(s, item->stream->number, next, &task);
	turn(task, BRAID_TASK_RUNS, item->host_ns);
	take_comm(task, type->fields[3], item);
	if (task)
		task->switches++;
	return err;
}

int braid_stats_take_wakeup(struct braid_stats *s, const struct braid_item *item,
			    const struct braid_stats_type *type)
{
	s32 pid = braid_field_number(type->fields[0], item->payload);
	struct braid_stats_task *task;
	int err = task_of(s, item->stream->number, pid, &task);

	s->streams[item->stream->number].any_wakeup = true;
	take_comm(task, type->fields[1], item);
	/* A wakeup may also occur for a task that runs or waits already. */
	if (task && (task->state == BRAID_TASK_SLEEPS || task->state == BRAID_TASK_UNKNOWN))
		turn(task, BRAID_TASK_WAITS, item->host_ns);
	return err;
}

/* vCPUs ------------------------------------------------------------------------------------- */

/* The word after "reason" in the event's text; the number if absent. */
static void name_reason(struct braid_stats *s, const struct braid_item *item,
			struct braid_stats_reason *reason)
{
	const char *word;
	size_t n;

	s->text.bytes = 0;
	braid_format_text(s->walk.format, item, &s->text);
	braid_text_putc(&s->text, 0);
	word = s->text.failed ? NULL : strstr(s->text.data, "reason ");
	word = word ? word + 7 : "";
	n = strcspn(word, " ");
	if (n && n < sizeof(reason->name))
		memcpy(reason->name, word, n);
	else
		snprintf(reason->name, sizeof(reason->name), "%llu",
			 (unsigned long long)(reason->number & 0xffffffff));
}

static int find_reason(struct braid_stats *s, struct braid_stats_kvm *kvm,
		       const struct braid_item *item, u64 number)
{
	struct braid_stats_reason reason = { .number = number };

	for (kvm->reason = 0; kvm->reason < kvm->nr_reasons; kvm->reason++)
		if (kvm->reasons[kvm->reason].number == number)
			return 0;
	if (kvm->nr_reasons == BRAID_STATS_MAX_REASONS) {
		kvm->reason = kvm->nr_reasons - 1;	/* the last one is for all others */
		strcpy(kvm->reasons[kvm->reason].name, "others");
		return 0;
	}
	name_reason(s, item, &reason);
	return braid_array_push(kvm->reasons, kvm->nr_reasons, kvm->capacity, reason);
}

static int stats_tasks_take_exit(struct braid_stats *s, struct braid_stats_kvm *kvm,
				 const struct braid_item *item, const struct braid_stats_type *type)
{
	u64 number = (u32)braid_field_number(type->fields[0], item->payload);
	int err;

	if (type->fields[1])
		number |= (u64)braid_field_number(type->fields[1], item->payload) << 32;
	if (kvm->state == BRAID_KVM_IN && item->host_ns > kvm->since_ns)
		kvm->guest_ns += item->host_ns - kvm->since_ns;
	kvm->exits++;
	err = find_reason(s, kvm, item, number);
	if (err)
		return err;
	kvm->reasons[kvm->reason].count++;
	kvm->state = BRAID_KVM_OUT;
	kvm->since_ns = item->host_ns;
	return 0;
}

static void take_entry(struct braid_stats_kvm *kvm, const struct braid_item *item,
		       const struct braid_stats_type *type)
{
	struct braid_stats_reason *reason;
	u64 ns;

	if (type->fields[0])
		kvm->vcpu = braid_field_number(type->fields[0], item->payload);
	kvm->entries++;
	if (kvm->state == BRAID_KVM_OUT) {
		reason = &kvm->reasons[kvm->reason];
		ns = item->host_ns - kvm->since_ns;
		reason->returned++;
		reason->total_ns += ns;
		if (ns > reason->max_ns)
			reason->max_ns = ns;
	}
	kvm->state = BRAID_KVM_IN;
	kvm->since_ns = item->host_ns;
}

int braid_stats_take_kvm(struct braid_stats *s, const struct braid_item *item,
			 const struct braid_stats_type *type)
{
	s32 pid = braid_format_pid(item);
	struct braid_stats_task *task;
	int err;

	s->streams[item->stream->number].any_kvm = true;
	if (pid == BRAID_PID_UNKNOWN)
		return 0;
	err = task_of(s, item->stream->number, pid, &task);
	if (err || !task)
		return err;
	if (!*task->comm)
		snprintf(task->comm, sizeof(task->comm), "%s", braid_format_comm(item, task->pid));
	if (!task->kvm) {
		task->kvm = calloc(1, sizeof(*task->kvm));
		if (!task->kvm)
			return -ENOMEM;
		task->kvm->vcpu = ~0u;
	}
	if (type->role == BRAID_STATS_EXIT)
		return stats_tasks_take_exit(s, task->kvm, item, type);
	take_entry(task->kvm, item, type);
	return 0;
}

/* Gaps and the end -------------------------------------------------------------------------- */

void braid_stats_forget(struct braid_stats_stream *stream, struct braid_stats_cpu *cpu)
{
	settle_cpu(cpu, cpu->last_ns);
	cpu->known = false;
	stream->gaps++;
}

void braid_stats_close(struct braid_stats *s)
{
	size_t k, n;

	for (k = 0; k < s->source->nr_streams; k++)
		for (n = 0; n < s->streams[k].nr_cpus; n++)
			settle_cpu(&s->streams[k].cpus[n], s->streams[k].cpus[n].last_ns);
	for (n = 0; n < s->nr_tasks; n++)
		if (s->tasks[n].gaps == s->streams[s->tasks[n].stream].gaps)
			stats_tasks_settle(&s->tasks[n], s->streams[s->tasks[n].stream].last_ns);
}

void braid_stats_free_tasks(struct braid_stats *s)
{
	size_t k;

	for (k = 0; k < s->nr_tasks; k++) {
		if (s->tasks[k].kvm)
			free(s->tasks[k].kvm->reasons);
		free(s->tasks[k].kvm);
	}
	free(s->tasks);
	braid_hash_free(&s->by_pid);
}

static int by_run(const void *a, const void *b)
{
	const struct braid_stats_task *x = *(const struct braid_stats_task *const *)a;
	const struct braid_stats_task *y = *(const struct braid_stats_task *const *)b;

	if (x->runs_ns != y->runs_ns)
		return x->runs_ns > y->runs_ns ? -1 : 1;
	return x->pid < y->pid ? -1 : 1;
}

const struct braid_stats_task **braid_stats_tasks_of(const struct braid_stats *s, u32 stream,
						     size_t *nr)
{
	const struct braid_stats_task **list = calloc(s->nr_tasks + 1, sizeof(*list));
	size_t k;

	*nr = 0;
	for (k = 0; k < s->nr_tasks && list; k++)
		if (s->tasks[k].stream == stream)
			list[(*nr)++] = &s->tasks[k];
	if (*nr)
		qsort(list, *nr, sizeof(*list), by_run);
	return list;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* Which tasks do not run, and why. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/export/html/tasks.h"
#include "host_agent/export/html/waits.h"
#include "host_agent/util/error.h"

#define CHUNK_ROWS	(64u << 10)

enum { LANE, AT, WAITED, CALL, WOKEN, WAKER_LANE, WAKER, COLUMNS };

struct task {
	struct braid_html_task_key key;
	bool preempted, woken;
	enum { NEW, ON, OFF } state;
	u32 losses;		/* of its group: when there are more, nothing is known of it */
	u32 call;		/* OFF */
	u32 waker_lane, waker;	/* woken */
	s64 off_ns, wake_ns;
};

struct braid_html_waits {
	struct braid_html_out *out;
	u32 *losses;		/* by group */
	struct braid_html_tasks tasks;
	struct braid_text columns[COLUMNS];
	u64 rows;
	s64 last_ns;
};

struct braid_html_waits *braid_html_waits_new(struct braid_html_out *out, size_t nr_groups)
{
	struct braid_html_waits *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->out = out;
	w->losses = calloc(nr_groups + 1, sizeof(*w->losses));
	braid_html_tasks_begin(&w->tasks, sizeof(struct task));
	if (w->losses)
		return w;
	braid_html_waits_free(w);
	return NULL;
}

void braid_html_waits_free(struct braid_html_waits *w)
{
	size_t k;

	if (!w)
		return;
	for (k = 0; k < COLUMNS; k++)
		braid_text_free(&w->columns[k]);
	braid_html_tasks_free(&w->tasks);
	free(w->losses);
	free(w);
}

void braid_html_waits_base(struct braid_html_waits *w, s64 ns)
{
	w->last_ns = ns;
}

/* *out: the task, new if events were lost meanwhile; NULL: too many, or idle, which never waits. */
static int task_of(struct braid_html_waits *w, const struct braid_html_task *task,
		   struct task **out)
{
	u32 losses = w->losses[task->group];
	void *entry = NULL;

	*out = NULL;
	if (!task->pid)
		return 0;
	if (braid_html_tasks_add(&w->tasks, task->group, task->pid, &entry))
		return braid_out_of_memory();
	*out = entry;
	if (*out && (*out)->losses != losses)
		**out = (struct task){ .key = (*out)->key, .losses = losses };
	return 0;
}

/* Events ----------------------------------------------------------------------------------- */

int braid_html_waits_off(struct braid_html_waits *w, const struct braid_html_task *task,
			 bool preempted, u32 call)
{
	struct task *t;
	int err = task_of(w, task, &t);

	if (err || !t)
		return err;
	t->state = OFF;
	t->preempted = preempted;
	t->woken = false;
	t->call = call;
	t->off_ns = task->ns;
	return 0;
}

int braid_html_waits_wake(struct braid_html_waits *w, const struct braid_html_task *task,
			  u32 lane, u32 waker)
{
	struct task *t;
	int err = task_of(w, task, &t);

	/* sched_waking is the waker's; the sched_wakeup after it may be of another CPU. */
	if (err || !t || t->woken || t->state == ON || (t->state == OFF && t->preempted))
		return err;
	t->woken = true;
	t->wake_ns = task->ns;
	t->waker_lane = lane;
	t->waker = waker;
	return 0;
}

static u64 since(s64 from_ns, s64 to_ns)
{
	return to_ns > from_ns ? (u64)to_ns - (u64)from_ns : 0;
}

static int html_waits_flush(struct braid_html_waits *w, u64 at_least)
{
	u64 rows = w->rows;

	if (rows < at_least)
		return 0;
	w->rows = 0;
	return braid_html_out_columns(w->out, "waits", rows, w->columns, COLUMNS);
}

int braid_html_waits_on(struct braid_html_waits *w, const struct braid_html_task *task, u32 lane)
{
	struct task *t;
	int err = task_of(w, task, &t);

	if (err || !t)
		return err;
	if (t->state == OFF || t->woken) {
		braid_html_put(&w->columns[LANE], lane);
		braid_html_put_signed(&w->columns[AT], (s64)((u64)task->ns - (u64)w->last_ns));
		braid_html_put(&w->columns[WAITED], t->state != OFF ? 0 :
			       2 * (since(t->off_ns, task->ns) + 1) + t->preempted);
		braid_html_put(&w->columns[CALL], t->state == OFF ? t->call : 0);
		braid_html_put(&w->columns[WOKEN],
			       t->woken ? since(t->wake_ns, task->ns) + 1 : 0);
		if (t->woken) {
			braid_html_put(&w->columns[WAKER_LANE], t->waker_lane);
			braid_html_put(&w->columns[WAKER], t->waker);
		}
		w->last_ns = task->ns;
		w->rows++;
	}
	t->state = ON;
	t->woken = false;
	return html_waits_flush(w, CHUNK_ROWS);
}

void braid_html_waits_gone(struct braid_html_waits *w, const struct braid_html_task *task)
{
	braid_html_tasks_drop(&w->tasks, task->group, task->pid);
}

void braid_html_waits_lost(struct braid_html_waits *w, u32 group)
{
	w->losses[group]++;
}

int braid_html_waits_end(struct braid_html_waits *w)
{
	return html_waits_flush(w, 1);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* Tracks the open spans of each lane; a span is written when it ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/html/spans.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define CHUNK_SPANS	(64u << 10)

enum { TRACK, END, LENGTH, NAME, COLUMNS };	/* of a chunk of spans */
enum { LANE, AT, WAITED, CALL, WOKEN, WAKER_LANE, WAKER, START_COLUMNS };	/* and of starts */

/* Under way in one row. */
struct open {
	bool on;
	u32 name;
	s64 since_ns;
};

struct lane_state {
	struct open rows[BRAID_HTML_ROWS];
	u64 handlers[BRAID_HTML_IRQ_DEPTH];
	u32 depth;		/* of interrupts */
	u32 cpu_lane;		/* THREAD: where it was seen last */
	bool known;		/* CPU: its task: */
	s32 pid;
	s64 last_ns;		/* CPU: of its last event */
	s32 started;		/* CPU: the last task of which something was known, ... */
	s64 started_ns;		/* ... when, ... */
	u32 call;		/* ... and the name of the system call that it goes on with; or 0 */
	s32 waker;		/* CPU: the last task there that woke another one, ... */
	char waker_comm[BRAID_COMM_BYTES];
	u32 waker_name;		/* ... and its name + 1; 0: none */
	u32 on_name;		/* CPU: of what a thread does that is there; 0: not made yet */
};

struct braid_html_spans {
	struct braid_html_lanes *lanes;
	struct braid_html_names *names;
	struct braid_html_out *out;
	struct lane_state *states;	/* by lane */
	size_t nr_states;
	struct braid_roles roles;
	struct braid_html_calls calls;
	u32 loss, waiting, guest;	/* names */
	const struct braid_window *windows;
	size_t nr_windows, window;	/* window: the present one, or the next */
	struct braid_text columns[COLUMNS];
	u64 nr;				/* in columns */
	s64 last_end_ns;
	struct braid_text start_columns[START_COLUMNS];
	u64 nr_starts;			/* in them */
	s64 last_start_ns;
	bool failed;			/* memory was out */
};

static u32 fixed_name(struct braid_html_names *n, enum braid_html_name_type type, const char *text)
{
	return braid_html_name(n, type, 0, 0, text, strlen(text));
}

struct braid_html_spans *braid_html_spans_new(struct braid_html_lanes *lanes,
					      struct braid_html_names *names,
					      struct braid_html_out *out)
{
	struct braid_html_spans *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->lanes = lanes;
	s->names = names;
	s->out = out;
	s->loss = fixed_name(names, BRAID_HTML_LOSS, "lost");
	s->waiting = fixed_name(names, BRAID_HTML_WAITING, "waits for a CPU");
	s->guest = fixed_name(names, BRAID_HTML_GUEST, "guest");
	return s;
}

void braid_html_spans_free(struct braid_html_spans *s)
{
	size_t k;

	if (!s)
		return;
	for (k = 0; k < COLUMNS; k++)
		braid_text_free(&s->columns[k]);
	for (k = 0; k < START_COLUMNS; k++)
		braid_text_free(&s->start_columns[k]);
	free(s->states);
	braid_roles_free(&s->roles);
	free(s);
}

void braid_html_spans_base(struct braid_html_spans *s, s64 ns)
{
	s->last_end_ns = ns;
}

void braid_html_spans_waits_base(struct braid_html_spans *s, s64 ns)
{
	s->last_start_ns = ns;
}

void braid_html_spans_windows(struct braid_html_spans *s, const struct braid_window *windows,
			      size_t nr)
{
	s->windows = windows;
	s->nr_windows = nr;
}

/* NULL: out of memory. */
static struct lane_state *state_of(struct braid_html_spans *s, u32 lane)
{
	s->failed |= braid_array_cover(s->states, s->nr_states, lane) != 0;
	return lane < s->nr_states ? &s->states[lane] : NULL;
}

/* Rows ------------------------------------------------------------------------------------- */

static u64 since(s64 from_ns, s64 to_ns)
{
	return to_ns > from_ns ? (u64)to_ns - (u64)from_ns : 0;
}

static void html_spans_put(struct braid_html_spans *s, u32 lane, u32 row, u32 name, s64 from_ns,
			   s64 to_ns)
{
	braid_html_put(&s->columns[TRACK], (u64)lane * BRAID_HTML_ROWS + row);
	braid_html_put_signed(&s->columns[END], (s64)((u64)to_ns - (u64)s->last_end_ns));
	braid_html_put(&s->columns[LENGTH], since(from_ns, to_ns));
	braid_html_put(&s->columns[NAME], name);
	s->last_end_ns = to_ns;
	s->nr++;
}

static void close_row(struct braid_html_spans *s, u32 lane, u32 row, s64 ns)
{
	struct open *open = &s->states[lane].rows[row];

	if (open->on)
		html_spans_put(s, lane, row, open->name, open->since_ns, ns);
	open->on = false;
}

static void open_row(struct braid_html_spans *s, u32 lane, u32 row, u32 name, s64 ns)
{
	close_row(s, lane, row, ns);
	s->states[lane].rows[row] = (struct open){ .on = true, .name = name, .since_ns = ns };
}

static void close_irqs(struct braid_html_spans *s, u32 lane, u32 down_to, s64 ns)
{
	struct lane_state *st = &s->states[lane];

	while (st->depth > down_to)
		close_row(s, lane, BRAID_HTML_ROW_IRQ + --st->depth, ns);
}

/* Windows ---------------------------------------------------------------------------------- */

static void close_all(struct braid_html_spans *s, s64 ns)
{
	size_t k, row;

	for (k = 0; k < s->nr_states; k++) {
		for (row = BRAID_HTML_ROWS; row-- > 0; )
			close_row(s, k, row, ns);
		s->states[k].depth = 0;
		s->states[k].known = false;
	}
}

/* What is open when a recording stops ends there. Returns whether a time is a recorded one. */
static bool html_spans_enter(struct braid_html_spans *s, s64 ns)
{
	while (s->window < s->nr_windows && ns > s->windows[s->window].stop_ns)
		close_all(s, s->windows[s->window++].stop_ns);
	if (!s->window)		/* also what a guest recorded before the start */
		return true;
	return s->window < s->nr_windows && ns >= s->windows[s->window].start_ns;
}

/* Tasks ------------------------------------------------------------------------------------ */

/* The CPU's task goes. */
static void leave(struct braid_html_spans *s, u32 lane, s64 ns)
{
	close_irqs(s, lane, 0, ns);
	close_row(s, lane, BRAID_HTML_ROW_SYSCALL, ns);
	close_row(s, lane, BRAID_HTML_ROW_RUN, ns);
	s->states[lane].known = false;
}

/* Another task runs. Idle is not a task. */
static void come(struct braid_html_spans *s, u32 lane, s32 pid, u32 task, s64 ns)
{
	struct lane_state *st = &s->states[lane];

	st->known = true;
	st->pid = pid;
	if (pid)
		open_row(s, lane, BRAID_HTML_ROW_RUN, task, ns);
	if (pid && st->call && st->started == pid && st->started_ns == ns)
		open_row(s, lane, BRAID_HTML_ROW_SYSCALL, st->call, ns);
}

/* Mostly the one that woke the last task there. */
static u32 waker_name(struct braid_html_spans *s, struct lane_state *st,
		      const struct braid_html_start *start)
{
	if (!st->waker_name || st->waker != start->of.waker || strcmp(st->waker_comm, start->waker)) {
		st->waker = start->of.waker;
		strcpy(st->waker_comm, start->waker);
		st->waker_name = braid_html_name(s->names, BRAID_HTML_TASK, start->group, st->waker,
						 start->waker, strlen(start->waker)) + 1;
	}
	return st->waker_name - 1;
}

static int flush_starts(struct braid_html_spans *s, u64 at_least)
{
	u64 nr = s->nr_starts;

	if (nr < at_least)
		return 0;
	s->nr_starts = 0;
	return braid_html_out_columns(s->out, "waits", nr, s->start_columns, START_COLUMNS);
}

static int put_start(struct braid_html_spans *s, const struct braid_html_start *start, u32 call,
		     u32 waker)
{
	const struct braid_task_start *of = &start->of;
	bool woken = of->woken && start->waker_lane;
	struct braid_text *columns = s->start_columns;

	if (!of->off && !woken)
		return 0;
	braid_html_put(&columns[LANE], start->lane);
	braid_html_put_signed(&columns[AT], (s64)((u64)of->ns - (u64)s->last_start_ns));
	braid_html_put(&columns[WAITED], of->off ? 2 * (since(of->off_ns, of->ns) + 1) +
						   of->preempted : 0);
	braid_html_put(&columns[CALL], of->off ? call : 0);
	braid_html_put(&columns[WOKEN], woken ? since(of->woken_ns, of->ns) + 1 : 0);
	if (woken) {
		braid_html_put(&columns[WAKER_LANE], start->waker_lane);
		braid_html_put(&columns[WAKER], waker);
	}
	s->last_start_ns = of->ns;
	s->nr_starts++;
	return flush_starts(s, CHUNK_SPANS);
}

int braid_html_spans_started(struct braid_html_spans *s, const struct braid_html_start *start)
{
	const struct braid_task_start *of = &start->of;
	struct lane_state *st, *by;

	if (!state_of(s, start->lane) || !state_of(s, start->waker_lane))
		return braid_out_of_memory();
	st = &s->states[start->lane];
	by = &s->states[start->waker_lane];
	st->started = of->pid;
	st->started_ns = of->ns;
	st->call = of->call == BRAID_CALL_UNKNOWN || of->call == BRAID_CALL_NONE ? 0 :
		   braid_html_call_name(s->names, &s->calls, of->call, start->call, start->machine);
	return put_start(s, start, st->call, start->waker_lane ? waker_name(s, by, start) : 0);
}

/* Each event identifies the task on its CPU, also where no switch was recorded. */
static void take_task(struct braid_html_spans *s, const struct braid_html_seen *seen)
{
	struct lane_state *st = &s->states[seen->lane];
	const struct open *run = &st->rows[BRAID_HTML_ROW_RUN];

	if (!st->known || st->pid != seen->pid) {
		leave(s, seen->lane, st->last_ns);
		come(s, seen->lane, seen->pid, seen->task, seen->ns);
	} else if (run->on && run->name != seen->task && seen->comm_known) {
		open_row(s, seen->lane, BRAID_HTML_ROW_RUN, seen->task, seen->ns);
	}
}

/* A vCPU's thread, if the task is one; and it is seen on this CPU. */
static struct braid_html_thread *thread_of(struct braid_html_spans *s,
					   const struct braid_html_seen *seen, s32 tid)
{
	struct braid_html_thread *thread = braid_html_thread_of(s->lanes, seen->group, tid);

	return thread && state_of(s, thread->lane) ? thread : NULL;
}

static u32 on_cpu(struct braid_html_spans *s, const struct braid_html_seen *seen)
{
	u32 *on_name = &s->states[seen->lane].on_name;
	char name[32];

	if (!*on_name) {
		snprintf(name, sizeof(name), "on CPU %u", seen->item->ring->cpu);
		*on_name = braid_html_name(s->names, BRAID_HTML_ON_CPU, 0, seen->item->ring->cpu,
					   name, strlen(name));
	}
	return *on_name;
}

static void switch_threads(struct braid_html_spans *s, const struct braid_html_seen *seen,
			   enum braid_left left, s32 next)
{
	const struct braid_html_thread *thread = thread_of(s, seen, seen->pid);

	if (thread) {
		close_row(s, thread->lane, BRAID_HTML_ROW_RUN, seen->ns);
		if (left == BRAID_LEFT_RUNNABLE)
			open_row(s, thread->lane, BRAID_HTML_ROW_RUN, s->waiting, seen->ns);
	}
	thread = thread_of(s, seen, next);
	if (thread) {
		open_row(s, thread->lane, BRAID_HTML_ROW_RUN, on_cpu(s, seen), seen->ns);
		s->states[thread->lane].cpu_lane = seen->lane;
	}
}

static void html_spans_take_switch(struct braid_html_spans *s, const struct braid_html_seen *seen)
{
	s64 state, next;

	if (!braid_role_number(seen->role, 1, seen->item, &state) ||
	    !braid_role_number(seen->role, 2, seen->item, &next))
		return;
	leave(s, seen->lane, seen->ns);
	come(s, seen->lane, (s32)next, braid_html_next_name(s->names, seen, (s32)next), seen->ns);
	switch_threads(s, seen, braid_role_left(state), (s32)next);
}

static void take_wake(struct braid_html_spans *s, const struct braid_html_seen *seen)
{
	const struct braid_html_thread *thread;
	s64 pid;

	if (!braid_role_number(seen->role, 0, seen->item, &pid))
		return;
	thread = thread_of(s, seen, (s32)pid);
	if (thread && !s->states[thread->lane].rows[BRAID_HTML_ROW_RUN].on)
		open_row(s, thread->lane, BRAID_HTML_ROW_RUN, s->waiting, seen->ns);
}

/* System calls, interrupts, guest mode ----------------------------------------------------- */

static void take_call(struct braid_html_spans *s, const struct braid_html_seen *seen, bool enter)
{
	struct lane_state *st = &s->states[seen->lane];
	struct open *open = &st->rows[BRAID_HTML_ROW_SYSCALL];
	char text[BRAID_CALL_BYTES];
	u32 name, call;

	if (!enter) {
		close_row(s, seen->lane, BRAID_HTML_ROW_SYSCALL, seen->ns);
		return;
	}
	call = braid_role_call(seen->role, seen->item);
	if (call < BRAID_CALL_NUMBER)
		braid_call_name(&s->roles, call, text);
	name = braid_html_call_name(s->names, &s->calls, call, text, seen->item->stream->machine);
	/* Two consecutive events can report the same call. */
	if (open->on && open->since_ns == st->last_ns)
		open->name = name;
	else
		open_row(s, seen->lane, BRAID_HTML_ROW_SYSCALL, name, seen->ns);
}

static void take_handler(struct braid_html_spans *s, const struct braid_html_seen *seen)
{
	struct lane_state *st = &s->states[seen->lane];
	u32 k;

	if (seen->role->begins) {
		if (st->depth == BRAID_HTML_IRQ_DEPTH)
			return;
		open_row(s, seen->lane, BRAID_HTML_ROW_IRQ + st->depth,
			 braid_html_irq_name(s->names, seen), seen->ns);
		st->handlers[st->depth++] = seen->role->handler;
		return;
	}
	/* Nested spans have ended too, even without an event. */
	for (k = st->depth; k > 0; k--)
		if (st->handlers[k - 1] == seen->role->handler) {
			close_irqs(s, seen->lane, k - 1, seen->ns);
			return;
		}
}

static void html_spans_take_kvm(struct braid_html_spans *s, const struct braid_html_seen *seen,
				bool entry)
{
	const struct braid_html_thread *thread = thread_of(s, seen, seen->pid);
	s64 vcpu = 0;

	if (!thread) {
		braid_role_number(seen->role, entry ? 0 : 3, seen->item, &vcpu);
		thread = braid_html_thread_add(s->lanes, seen->group, seen->pid, (u32)vcpu);
		if (!thread || !state_of(s, thread->lane))
			return;
	}
	open_row(s, thread->lane, BRAID_HTML_ROW_KVM,
		 entry ? s->guest : braid_html_exit_name(s->names, seen), seen->ns);
	s->states[thread->lane].cpu_lane = seen->lane;
}

/* ------------------------------------------------------------------------------------------ */

static int html_spans_flush(struct braid_html_spans *s, u64 at_least)
{
	u64 nr = s->nr;

	if (s->failed)
		return braid_out_of_memory();
	if (nr < at_least)
		return 0;
	s->nr = 0;
	return braid_html_out_columns(s->out, "spans", nr, s->columns, COLUMNS);
}

static void act(struct braid_html_spans *s, const struct braid_html_seen *seen)
{
	if (seen->role->handler)
		take_handler(s, seen);
	switch (seen->role->role) {
	case BRAID_ROLE_SWITCH:
		html_spans_take_switch(s, seen);
		break;
	case BRAID_ROLE_WAKEUP:
		take_wake(s, seen);
		break;
	case BRAID_ROLE_CALL_ENTER:
	case BRAID_ROLE_CALL_EXIT:
		take_call(s, seen, seen->role->role == BRAID_ROLE_CALL_ENTER);
		break;
	case BRAID_ROLE_KVM_ENTRY:
	case BRAID_ROLE_KVM_EXIT:
		html_spans_take_kvm(s, seen, seen->role->role == BRAID_ROLE_KVM_ENTRY);
		break;
	default:
		break;
	}
}

int braid_html_spans_event(struct braid_html_spans *s, struct braid_html_seen *seen)
{
	seen->role = braid_roles_find(&s->roles, seen->info);
	if (!state_of(s, seen->lane) || !seen->role)
		return braid_out_of_memory();
	if (html_spans_enter(s, seen->ns) && seen->pid != BRAID_PID_UNKNOWN) {
		take_task(s, seen);
		act(s, seen);
	}
	s->states[seen->lane].last_ns = seen->ns;
	return html_spans_flush(s, CHUNK_SPANS);
}

int braid_html_spans_lost(struct braid_html_spans *s, u32 lane, s64 from_ns, s64 to_ns)
{
	size_t k;
	bool recorded = html_spans_enter(s, to_ns);
	s64 ns;

	if (!state_of(s, lane))
		return html_spans_flush(s, 0);
	if (!recorded && to_ns > s->windows[s->window - 1].stop_ns)
		to_ns = s->windows[s->window - 1].stop_ns;
	if (!recorded && from_ns >= to_ns)
		return 0;
	ns = s->states[lane].last_ns;
	leave(s, lane, ns);
	for (k = 0; k < s->lanes->nr_threads; k++) {
		const struct braid_html_thread *thread = &s->lanes->threads[k];
		struct lane_state *st = state_of(s, thread->lane);

		if (!st || st->cpu_lane != lane)
			continue;
		close_row(s, thread->lane, BRAID_HTML_ROW_RUN, ns);
		close_row(s, thread->lane, BRAID_HTML_ROW_KVM, ns);
	}
	html_spans_put(s, lane, BRAID_HTML_ROW_LOST, s->loss, from_ns, to_ns);
	return html_spans_flush(s, CHUNK_SPANS);
}

int braid_html_spans_end(struct braid_html_spans *s, s64 ns)
{
	int err;

	if (html_spans_enter(s, ns))
		close_all(s, ns);
	err = flush_starts(s, 1);
	return err ? err : html_spans_flush(s, 1);
}

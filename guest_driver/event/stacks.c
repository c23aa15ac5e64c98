// SPDX-License-Identifier: GPL-2.0
/* Writes stacks after the records of chosen events. */
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/sched/task_stack.h>
#include <asm/irq_regs.h>

#include "guest_driver/compat.h"
#include "guest_driver/core/stack.h"
#include "guest_driver/event/filter.h"
#include "guest_driver/event/mapping.h"
#include "guest_driver/event/stacks.h"
#include "guest_driver/event/user_stack.h"

#define OWN_FRAMES	8u	/* of the driver, at most */

struct stack_record {
	struct braid_record head;
	u32 kernel;		/* numbers in the table of stacks; 0: none */
	u32 user;
	u32 stack;		/* __data_loc: empty; the host takes the frames from the table */
	u32 user_stack;
	u64 space;		/* of the user stack: as in sample:mapping */
	u16 event;		/* id of the event whose record precedes */
	u16 ends;		/* enum braid_stack_end, of the user stack */
};

static struct braid_event event;

/* Walks of this CPU, by context: what a walk itself causes, as page faults, has no stacks. */
static DEFINE_PER_CPU(unsigned int, walking);

static unsigned int braid_stacks_context(void)
{
	return in_nmi() ? 8 : in_hardirq() ? 4 : in_serving_softirq() ? 2 : 1;
}

/* A stack that has no frames was not taken. */
static u32 braid_stacks_put(unsigned long *frames, u32 nr, bool *fresh)
{
	*fresh = false;
	if (!nr)
		braid_stack_miss();
	return braid_stack_store((u64 *)frames, nr, fresh);
}

static noinline u32 braid_stacks_take_kernel(unsigned long probe)
{
	unsigned long frames[BRAID_STACK_FRAMES + OWN_FRAMES];
	u32 depth = braid_stack_depth(), all, from = 0, id, k;
	bool fresh;

	all = braid_stack_save(frames, depth + OWN_FRAMES);
	while (from < all && frames[from] != probe)
		from++;
	from = min(from + 1, all);
	id = braid_stacks_put(frames + from, min(all - from, depth), &fresh);
	for (k = from; fresh && k < all; k++)
		braid_symbol_note(frames[k]);
	return id;
}

static noinline u32 braid_stacks_take_user(struct stack_record *found)
{
	struct pt_regs *regs = in_hardirq() ? get_irq_regs() : NULL;
	unsigned long frames[BRAID_STACK_FRAMES];
	enum braid_stack_end ends;
	bool fresh;
	u32 nr;

	regs = in_nmi() ? NULL : braid_user_regs(regs ?: task_pt_regs(current));
	if (!regs || !braid_stack_depth())
		return 0;
	nr = braid_user_stack(regs, frames, braid_stack_depth(), &ends);
	found->ends = ends;
	found->space = braid_mapping_space(current->mm, current->tgid);
	braid_mapping_note(current->mm, found->space, frames, nr);
	return braid_stacks_put(frames, nr, &fresh);
}

notrace void braid_stacks_write(u16 id, u32 flags, unsigned long probe)
{
	unsigned int context = braid_stacks_context();
	struct stack_record found = { }, *record;
	struct braid_slot slot;

	if (__this_cpu_read(walking) & context || !READ_ONCE(event.listed)) {
		braid_stack_miss();
		return;
	}
	this_cpu_or(walking, context);
	if (flags & BRAID_STACKS_KERNEL)
		found.kernel = braid_stacks_take_kernel(probe);
	if (flags & BRAID_STACKS_USER)
		found.user = braid_stacks_take_user(&found);
	this_cpu_and(walking, ~context);
	record = braid_record_reserve(event.buffer, event.id, sizeof(*record), preempt_count(),
				      false, &slot);
	if (!record)
		return;
	record->kernel = found.kernel;
	record->user = found.user;
	record->stack = record->user_stack = braid_data_loc(sizeof(*record), 0);
	record->space = found.space;
	record->event = id;
	record->ends = found.ends;
	braid_record_commit(&slot);
}

/* Which events have them ------------------------------------------------------------------ */

/* Those that can: of the buffer that has tracebraid:stack, without stacks of their own. */
static struct braid_event *braid_stacks_next(struct braid_buffer **buffer, struct braid_event *ev,
					     const char *system, const char *name)
{
	while ((ev = braid_filter_next(buffer, ev, BRAID_ANY_BUFFER, system, name)))
		if (ev->buffer == event.buffer && ev->ops->filters && !ev->ops->set_sampling)
			break;
	return ev;
}

/* Must hold both locks. */
static bool braid_stacks_any(void)
{
	struct braid_buffer *buffer = NULL;
	struct braid_event *ev = NULL;

	while ((ev = braid_stacks_next(&buffer, ev, "", "")))
		if (ev->stacks)
			return true;
	return false;
}

int braid_stacks_set_matching(const char *system, const char *name, u32 flags, u32 *matched)
{
	struct braid_buffer *buffer = NULL;
	struct braid_event *ev = NULL;
	int err;

	*matched = 0;
	braid_buffers_lock();
	braid_registry_lock();
	err = flags ? braid_filter_make_scratch() : 0;
	if (flags && !err && !braid_stacks_any())
		braid_stack_renew();
	while (!err && (ev = braid_stacks_next(&buffer, ev, system, name))) {
		(*matched)++;
		WRITE_ONCE(ev->stacks, flags);
		braid_event_divert(ev);
	}
	braid_registry_unlock();
	braid_buffers_unlock();
	return err;
}

void braid_stacks_clear(void)
{
	u32 matched;

	braid_stacks_set_matching("", "", 0, &matched);
}

/* The event -------------------------------------------------------------------------------- */

static int braid_stacks_format(const struct braid_event *ev, u16 id, char *text, size_t bytes)
{
	int len = snprintf(text, bytes,
			   "name: %s\nID: %u\nformat:\n" BRAID_COMMON_FIELDS
			   "\tfield:unsigned int kernel;\toffset:8;\tsize:4;\tsigned:0;\n"
			   "\tfield:unsigned int user;\toffset:12;\tsize:4;\tsigned:0;\n"
			   "\tfield:__data_loc u64[] stack;\toffset:16;\tsize:4;\tsigned:0;\n"
			   "\tfield:__data_loc u64[] user_stack;\toffset:20;\tsize:4;\tsigned:0;\n"
			   "\tfield:unsigned long space;\toffset:24;\tsize:8;\tsigned:0;\n"
			   "\tfield:unsigned short event;\toffset:32;\tsize:2;\tsigned:0;\n"
			   "\tfield:unsigned short ends;\toffset:34;\tsize:2;\tsigned:0;\n"
			   "\nprint fmt: \"%%s%%s%%s%%s\", __get_dynamic_array_len(stack) ? \"\" : \"unknown\", __get_stacktrace(stack), __get_stacktrace(user_stack), REC->ends > 1 ? \" [ends here]\" : \"\"\n",
			   ev->name, id);

	return len < bytes ? len : -ENOSPC;
}

static const struct braid_event_ops stacks_ops = {
	.synchronize = braid_synchronize_writers,
	.format = braid_stacks_format,
};

int braid_stacks_init(void)
{
	int id;

	event = (struct braid_event){
		.buffer = braid_trace_buffer(), .system = "tracebraid", .name = "stack",
		.ops = &stacks_ops,
	};
	id = braid_event_add(&event, 0);
	return id < 0 ? id : 0;
}

void braid_stacks_exit(void)
{
	braid_event_remove_all(&event, 1);
}

// SPDX-License-Identifier: GPL-2.0
/* Executes the commands of the host, and of the guest's own user; trusts none of their contents. */
#include <linux/jiffies.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "guest_driver/event/event.h"
#include "guest_driver/event/filter.h"
#include "guest_driver/event/mailbox.h"
#include "guest_driver/event/online.h"
#include "guest_driver/event/policy.h"
#include "guest_driver/event/probe.h"
#include "guest_driver/event/stacks.h"
#include "guest_driver/event/trigger.h"
#include "guest_driver/event/who.h"

static DEFINE_MUTEX(lock);		/* one command at a time, whoever gives it */
static struct braid_guest_region *serving;	/* or NULL */
static bool held;			/* what is selected is the choice of the guest's own user */

struct command {
	u32 code;
	u64 arg0;
	char system[BRAID_PATTERN_BYTES];
	char event[BRAID_PATTERN_BYTES];
};

/* Of the region whose command the poll thread executes, or NULL. */
static struct braid_mailbox *beating;	/* protected by lock */

struct answer {
	u32 matched, unseen;
	struct braid_refusal refusal;
};

/* A private copy with terminated strings. */
static void braid_mailbox_take_copy(const struct braid_mailbox *mailbox, struct command *cmd)
{
	cmd->code = braid_load(&mailbox->command);
	cmd->arg0 = braid_load(&mailbox->arg0);
	memcpy(cmd->system, mailbox->system, sizeof(cmd->system));
	memcpy(cmd->event, mailbox->event, sizeof(cmd->event));
	braid_barrier();
	cmd->system[sizeof(cmd->system) - 1] = 0;
	cmd->event[sizeof(cmd->event) - 1] = 0;
}

static int braid_mailbox_switch_buffer(u64 index, bool on)
{
	struct braid_buffer *buffer = NULL;
	int err = -EINVAL;

	braid_buffers_lock();
	while (err && (buffer = braid_buffer_next(buffer))) {
		if (!buffer->region || buffer->index != index)
			continue;
		braid_buffer_set_on(buffer, on);
		err = 0;
	}
	braid_buffers_unlock();
	return err;
}

/* A program of no instructions removes filters. */
static int braid_mailbox_filter(const struct braid_mailbox *mailbox, const struct command *cmd,
				u32 *matched, struct braid_refusal *refusal)
{
	struct braid_filter_program *copy = kmalloc(sizeof(*copy), GFP_KERNEL);
	int err;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, &mailbox->program, sizeof(*copy));
	braid_barrier();
	err = !copy->nr_insns ? 0 : braid_policy_check("filter", refusal) ?:
	      braid_filter_check(copy) ?: braid_who_resolve(copy, refusal);
	if (!err)
		err = braid_filter_set_matching(cmd->arg0, cmd->system, cmd->event,
						copy->nr_insns ? copy : NULL, matched);
	kfree(copy);
	return err;
}

static int braid_mailbox_account(struct braid_mailbox *mailbox, const struct command *cmd,
				 u32 *matched)
{
	struct braid_filter_account account;

	*matched = braid_filter_account_matching(cmd->arg0, cmd->system, cmd->event, &account);
	braid_store(&mailbox->account.offered, account.offered);
	braid_store(&mailbox->account.filtered, account.filtered);
	braid_store(&mailbox->account.written, account.written);
	braid_store(&mailbox->account.lost, account.lost);
	braid_store(&mailbox->account.unjudged, account.unjudged);
	return 0;
}

/* One probe takes long to switch: a guest that has many is not silent meanwhile. */
static void braid_mailbox_progress(void)
{
	if (beating)
		braid_store(&beating->guest_heartbeat, braid_counter_ordered());
}

static int braid_mailbox_enable(const struct command *cmd, struct answer *to)
{
	u64 seen = cmd->arg0 & BRAID_ONLY_SEEN ? cmd->arg0 >> BRAID_SEEN_SHIFT : U64_MAX;
	int err = braid_event_enable_seen(cmd->system, cmd->event, seen, braid_mailbox_progress,
					  &to->matched, &to->unseen);
	u32 refused = err ? 0 : braid_event_count_refused(cmd->system, cmd->event);

	if (refused)
		braid_refuse(&to->refusal, 0,
			     "%u %s not allowed by the guest (allow= of its driver)",
			     refused, refused == 1 ? "event is" : "events are");
	return refused && !to->matched && !to->unseen ? -EPERM : err;
}

static int braid_mailbox_probe(const struct braid_mailbox *mailbox, const struct command *cmd,
			       struct braid_refusal *refusal)
{
	struct braid_probe *copy = kmalloc(sizeof(*copy), GFP_KERNEL);
	int err;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, &mailbox->probe, sizeof(*copy));
	braid_barrier();
	err = copy->kind == BRAID_PROBE_NONE ? 0 :
	      braid_policy_check(copy->kind == BRAID_PROBE_USER ||
				 copy->kind == BRAID_PROBE_USER_RETURN ? "uprobe" : "kprobe",
				 refusal);
	if (!err)
		err = braid_probe_set(cmd->system, cmd->event, copy, refusal);
	kfree(copy);
	return err;
}

static int braid_mailbox_hits(struct braid_mailbox *mailbox, const struct command *cmd)
{
	struct braid_probe_hits hits;
	int err = braid_probe_hits(cmd->system, cmd->event, &hits);

	if (err)
		return err;
	braid_store(&mailbox->hits.missed, hits.missed);
	braid_store(&mailbox->hits.placed, hits.placed);
	return 0;
}

static int braid_mailbox_trigger(const struct braid_mailbox *mailbox, const struct command *cmd,
				 u32 *matched, struct braid_refusal *refusal)
{
	struct {
		struct braid_filter_program program;
		struct braid_trigger trigger;
	} *copy;
	int err = braid_policy_check("trigger", refusal);

	if (err)
		return err;
	copy = kmalloc(sizeof(*copy), GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	memcpy(&copy->program, &mailbox->program, sizeof(copy->program));
	memcpy(&copy->trigger, &mailbox->trigger, sizeof(copy->trigger));
	braid_barrier();
	err = braid_filter_check(&copy->program) ? 0 : braid_who_resolve(&copy->program, refusal);
	if (!err)
		err = braid_trigger_set_matching(cmd->arg0, cmd->system, cmd->event, &copy->program,
						 &copy->trigger, matched);
	kfree(copy);
	return err;
}

static int braid_mailbox_stacks(const struct command *cmd, u32 *matched,
				struct braid_refusal *refusal)
{
	u32 flags = cmd->arg0 >> BRAID_STACKS_FLAGS_SHIFT & BRAID_STACKS_FLAGS_MASK;

	if (cmd->arg0 >> BRAID_STACKS_VERSION_SHIFT != BRAID_STACKS_VERSION)
		return -EOPNOTSUPP;
	if (flags & ~(BRAID_STACKS_KERNEL | BRAID_STACKS_USER))
		return -EINVAL;
	return (flags ? braid_policy_check("stack", refusal) : 0) ?:
	       braid_stacks_set_matching(cmd->system, cmd->event, flags, matched);
}

static int braid_mailbox_reshape(const struct braid_mailbox *mailbox, u64 index,
				 struct braid_refusal *refusal)
{
	struct braid_reshape copy;

	memcpy(&copy, &mailbox->reshape, sizeof(copy));
	braid_barrier();
	return braid_policy_check("buffer", refusal) ?: braid_buffer_reshape_at(index, &copy);
}

/* When all events are disabled, what triggers did is undone, and none has stacks. */
static void braid_mailbox_disabled(const struct command *cmd)
{
	if (*cmd->system || *cmd->event)
		return;
	braid_stacks_clear();
	braid_trigger_clear();
	braid_trigger_publish(serving->mailbox);
}

/* Must hold lock, and be serving a region. @mailbox: has the command, and gets ACCOUNT's answer. */
static int braid_mailbox_carry_out(struct braid_mailbox *mailbox, const struct command *cmd,
				   struct answer *to)
{
	struct braid_refusal *refusal = &to->refusal;
	u32 *matched = &to->matched;
	int err;

	switch (cmd->code) {
	case BRAID_CMD_NONE:
		return 0;
	case BRAID_CMD_ENABLE:
		braid_online_renew();
		err = cmd->arg0 & BRAID_KEEP_FILTERS ? 0 :
		      braid_filter_set_matching(BRAID_ANY_BUFFER, cmd->system, cmd->event, NULL,
						matched);
		if (!err && !(cmd->arg0 & BRAID_KEEP_STACKS))
			err = braid_stacks_set_matching(cmd->system, cmd->event, 0, matched);
		return err ?: braid_mailbox_enable(cmd, to);
	case BRAID_CMD_DISABLE:
		err = braid_event_set_matching(NULL, cmd->system, cmd->event, BRAID_EVENT_HOST_ON,
					       false, braid_mailbox_progress, matched);
		braid_mailbox_disabled(cmd);
		return err;
	case BRAID_CMD_RECORD_ON:
	case BRAID_CMD_RECORD_OFF:
		return braid_policy_check("buffer", refusal) ?:
		       braid_mailbox_switch_buffer(cmd->arg0, cmd->code == BRAID_CMD_RECORD_ON);
	case BRAID_CMD_FILTER:
		return braid_mailbox_filter(mailbox, cmd, matched, refusal);
	case BRAID_CMD_STACKS:
		return braid_mailbox_stacks(cmd, matched, refusal);
	case BRAID_CMD_SAMPLE:
		return braid_event_sample_matching(cmd->system, cmd->event, cmd->arg0, matched);
	case BRAID_CMD_ACCOUNT:
		return braid_mailbox_account(mailbox, cmd, matched);
	case BRAID_CMD_CHOOSE:
		if (cmd->arg0 != BRAID_CHOOSE_NONE)
			return braid_policy_check("filter", refusal) ?:
			       braid_who_choose(cmd->arg0, refusal);
		braid_who_choose_none();
		return 0;
	case BRAID_CMD_PROBE:
		return braid_mailbox_probe(mailbox, cmd, refusal);
	case BRAID_CMD_HITS:
		return braid_mailbox_hits(mailbox, cmd);
	case BRAID_CMD_TRIGGER:
		return braid_mailbox_trigger(mailbox, cmd, matched, refusal);
	case BRAID_CMD_RESUME:
		braid_trigger_resume(cmd->arg0 & BRAID_TRIGGER_ARM);
		braid_trigger_publish(serving->mailbox);
		return 0;
	case BRAID_CMD_RESHAPE:
		return braid_mailbox_reshape(mailbox, cmd->arg0, refusal);
	}
	return -EOPNOTSUPP;
}

/* Whether a command begins a selection, or adds to it. */
static bool braid_mailbox_selects(const struct braid_mailbox *mailbox, const struct command *cmd)
{
	switch (cmd->code) {
	case BRAID_CMD_ENABLE:
	case BRAID_CMD_TRIGGER:
	case BRAID_CMD_SAMPLE:
	case BRAID_CMD_STACKS:
		return true;
	case BRAID_CMD_FILTER:
		return mailbox->program.nr_insns;
	case BRAID_CMD_PROBE:
		return mailbox->probe.kind != BRAID_PROBE_NONE;
	case BRAID_CMD_CHOOSE:
		return cmd->arg0 != BRAID_CHOOSE_NONE;
	}
	return false;
}

/* Must hold lock. */
static int braid_mailbox_of_host(struct braid_mailbox *mailbox, const struct command *cmd,
				 struct answer *to)
{
	if (!serving)
		return -ENODEV;
	if (held && cmd->code != BRAID_CMD_NONE && cmd->code != BRAID_CMD_ACCOUNT &&
	    cmd->code != BRAID_CMD_HITS)
		return braid_refuse(&to->refusal, -EBUSY, "the guest's own user has selected what is recorded (tracebraid-select --reset ends that)");
	return braid_mailbox_carry_out(mailbox, cmd, to);
}

int braid_mailbox_ask(struct braid_mailbox *box)
{
	struct answer answer = { .matched = 0 };
	struct command cmd;
	int err;

	braid_mailbox_take_copy(box, &cmd);
	mutex_lock(&lock);
	if (!serving) {
		mutex_unlock(&lock);
		return -ENODEV;
	}
	braid_policy_lift(true);
	err = braid_mailbox_carry_out(box, &cmd, &answer);
	braid_policy_lift(false);
	if (!err && braid_mailbox_selects(box, &cmd))
		held = true;
	if (cmd.code == BRAID_CMD_DISABLE && !*cmd.system && !*cmd.event)
		held = false;
	braid_trigger_publish(serving->mailbox);
	box->result = err;
	box->matched = answer.matched;
	box->unseen = answer.unseen;
	memcpy(box->reason, answer.refusal.text, sizeof(box->reason));
	box->guest_heartbeat = braid_counter_ordered();
	box->trigger_last = braid_load(&serving->mailbox->trigger_last);
	box->trigger_state = braid_load(&serving->mailbox->trigger_state);
	memcpy(box->trigger_counts, serving->mailbox->trigger_counts, sizeof(box->trigger_counts));
	box->done_seq = box->command_seq;
	mutex_unlock(&lock);
	return 0;
}

ssize_t braid_mailbox_copy_tables(void *to, size_t bytes, u64 at, const struct braid_mailbox *box)
{
	const struct braid_section *sections;
	u64 begin, end;
	ssize_t ret = -ENODEV;

	mutex_lock(&lock);
	if (serving) {
		sections = serving->layout.sections;
		end = sections[BRAID_SECTION_RINGS].offset;
		ret = at < end ? min_t(u64, bytes, end - at) : 0;
		memcpy(to, serving->range.base + min(at, end), ret);
		begin = max(at, sections[BRAID_SECTION_MAILBOX].offset);
		end = min(at + ret, sections[BRAID_SECTION_MAILBOX].offset + sizeof(*box));
		if (begin < end)
			memcpy(to + (begin - at),
			       (const u8 *)box + (begin - sections[BRAID_SECTION_MAILBOX].offset),
			       end - begin);
	}
	mutex_unlock(&lock);
	return ret;
}

void braid_mailbox_open(struct braid_guest_region *region)
{
	mutex_lock(&lock);
	serving = region;
	mutex_unlock(&lock);
}

void braid_mailbox_close(void)
{
	mutex_lock(&lock);
	serving = NULL;
	held = false;	/* the region's end ends every selection */
	mutex_unlock(&lock);
}

/* What a host that is gone has left. Must hold lock. */
static void braid_mailbox_forget(bool wanted)
{
	static unsigned long seen;	/* jiffies */

	if (wanted || !seen)
		seen = jiffies;
	else if (time_after(jiffies, seen + msecs_to_jiffies(BRAID_PROBE_LINGER_MS))) {
		braid_probe_remove_all();
		braid_who_choose_none();
		seen = jiffies;
	}
}

bool braid_mailbox_tidy(bool agent)
{
	bool wanted;

	mutex_lock(&lock);
	wanted = agent || held;
	if (serving)
		braid_trigger_poll(serving->mailbox, wanted);
	braid_mailbox_forget(wanted);
	mutex_unlock(&lock);
	return wanted;
}

/* Executes a command. Return: whether it is a new one: until it is confirmed, its number stays. */
static bool braid_mailbox_execute(struct braid_guest_region *region, u32 seq)
{
	struct braid_executed *executed = &region->executed;
	struct answer answer = { .matched = 0 };
	struct command cmd;

	if (executed->waits && executed->seq == seq)
		return false;
	braid_mailbox_take_copy(region->mailbox, &cmd);
	executed->seq = seq;
	mutex_lock(&lock);
	beating = region->mailbox;
	executed->result = braid_mailbox_of_host(region->mailbox, &cmd, &answer);
	beating = NULL;
	mutex_unlock(&lock);
	executed->matched = answer.matched;
	executed->unseen = answer.unseen;
	memcpy(executed->reason, answer.refusal.text, sizeof(executed->reason));
	executed->waits = (cmd.code == BRAID_CMD_NONE || cmd.code == BRAID_CMD_DISABLE) &&
			  cmd.arg0 & BRAID_CONFIRM_TABLES;
	executed->until = jiffies + msecs_to_jiffies(BRAID_CONFIRM_MS);
	return true;
}

static bool braid_mailbox_may_confirm(const struct braid_executed *executed, bool first,
				      bool (*settle)(bool first))
{
	return !executed->waits || settle(first) || time_after_eq(jiffies, executed->until);
}

bool braid_mailbox_poll(struct braid_guest_region *region, bool (*settle)(bool first))
{
	struct braid_mailbox *mailbox = region->mailbox;
	struct braid_executed *executed = &region->executed;
	u32 seq = braid_load_acquire(&mailbox->command_seq);	/* (B1) */

	/*
	 * Read after the command and before its answer: that bounds the clocks' relation loosely.
	 */
	braid_store(&mailbox->guest_heartbeat, braid_counter_ordered());
	if (seq != READ_ONCE(mailbox->done_seq) &&
	    braid_mailbox_may_confirm(executed, braid_mailbox_execute(region, seq), settle)) {
		executed->waits = false;
		braid_store(&mailbox->result, executed->result);
		braid_store(&mailbox->matched, executed->matched);
		braid_store(&mailbox->unseen, executed->unseen);
		memcpy(mailbox->reason, executed->reason, sizeof(mailbox->reason));
		braid_store_release(&mailbox->done_seq, seq);	/* (B2) */
	}
	return braid_region_agent_alive(region);
}

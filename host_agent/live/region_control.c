// SPDX-License-Identifier: GPL-2.0-or-later
/* Turns a guest's events on and off without waiting, and watches whether it lives. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/command_order.h"
#include "host_agent/live/control.h"
#include "host_agent/live/sampling.h"
#include "host_agent/util/error.h"
#include "shared/probe.h"

/* The filter that a command is about, or NULL. */
static struct braid_live_filter *filter_of(const struct braid_live_control *c,
					   const struct braid_live_stream *s, u32 command)
{
	u32 last = last_command(c, s);

	if (command >= first_filter(c) && command < first_test(c))
		return &c->filters.items[command - first_filter(c)];
	/* If nothing is on, no account is asked for: what removes probes follows at once. */
	return command > last && !c->nothing_on && command - last <= c->filters.nr_own ?
	       &c->filters.items[command - last - 1] : NULL;
}

/* The pattern of a probe, from 1. */
static const struct braid_pattern *nth_probe(const struct braid_live_stream *s, u32 number)
{
	const struct braid_pattern *pattern = s->o.patterns;

	for (; !pattern->probe || --number; pattern++)
		;
	return pattern;
}

/* The pattern whose probe a command makes, or NULL. */
static const struct braid_pattern *probe_of(const struct braid_live_control *c,
					    const struct braid_live_stream *s, u32 command)
{
	return command && command < after_probes(c) ? nth_probe(s, command) : NULL;
}

/* The pattern whose probe's account a command reads, or NULL. */
static const struct braid_pattern *hits_of(const struct braid_live_control *c,
					   const struct braid_live_stream *s, u32 command)
{
	u32 before = last_command(c, s) + nr_accounts(c);

	return !c->nothing_on && command > before && command - before <= nr_hits(c, s) ?
	       nth_probe(s, command - before) : NULL;
}

/* The pattern whose events a command gives stacks. */
static const struct braid_pattern *stacks_of(const struct braid_live_control *c,
					     const struct braid_live_stream *s, u32 command)
{
	const struct braid_pattern *pattern = s->o.patterns;
	u32 before = command - after_samples(c);

	for (; !pattern->stacks || before--; pattern++)
		;
	return pattern;
}

/* Whether a former agent left events on. */
static bool find_stale_events(const struct braid_live_stream *s)
{
	struct braid_directory_copy copy;
	bool found;

	if (s->o.dead_ns || s->mapping->one_way)
		return false;
	if (braid_live_triggers_stale(s))
		return true;
	if (braid_directory_load(&copy, s->mapping, &s->sb, 0))
		return false;
	found = braid_directory_count(&copy).host_on;
	braid_directory_free(&copy);
	return found;
}

int braid_live_control_open(struct braid_live_control *c, const struct braid_live_stream *s)
{
	size_t k;

	c->samples = s->o.sampling;
	for (k = 0; k < s->o.nr_patterns; k++)
		c->nr_stacks += s->o.patterns[k].stacks;
	c->matched = calloc(s->o.nr_patterns + 1, sizeof(*c->matched));
	return c->matched ? 0 : braid_out_of_memory();
}

void braid_live_control_free(struct braid_live_control *c)
{
	free(c->matched);
	c->matched = NULL;
	braid_live_filters_free(&c->filters);
	braid_live_triggers_free(&c->triggers);
}

/* What is to be set before events are enabled. */
static int find_all(struct braid_live_control *c, struct braid_live_stream *s)
{
	return braid_directory_generation(&c->seen, s->mapping, &s->sb) ?:
	       braid_live_filters_find(&c->filters, s) ?:
	       braid_live_triggers_find(&c->triggers, &c->filters, s);
}

/* No event is enabled unless all filters are there. Returns 0 or the capture's error. */
static int refuse_filters(struct braid_live_control *c, struct braid_live_stream *s, int err)
{
	c->next_command = end_command(c, s);
	c->refused = true;
	return err == -ENOMEM ? s->fatal = err :
	       braid_live_note(s, "no event is enabled: %s", braid_failure());
}

int braid_live_control_begin(struct braid_live_control *c, struct braid_live_stream *s)
{
	size_t k;
	int err;

	c->busy = c->resuming = false;
	memset(&c->own, 0, sizeof(c->own));
	c->reported_timeout = false;
	c->was_unconfirmed |= c->unconfirmed;
	c->unconfirmed = c->confirmed = false;
	memset(c->matched, 0, s->o.nr_patterns * sizeof(*c->matched));
	c->more_events = false;
	c->asked_again = false;
	c->heartbeat_ns = 0;
	c->wake_asked = false;
	c->stale_events = find_stale_events(s);
	c->next_command = c->stale_events ? 0 : 1;
	for (c->nr_probes = k = 0; k < s->o.nr_patterns; k++)
		c->nr_probes += !!s->o.patterns[k].probe;
	c->probes_made = !c->nr_probes;
	braid_live_triggers_begin(&c->triggers);
	c->nr_reshapes = 0;
	err = s->o.dead_ns ? 0 : braid_live_reshapes_find(c, s);
	if (err)
		return err;
	err = s->mapping->one_way || s->o.dead_ns || c->nr_probes ? 0 : find_all(c, s);
	c->nr_choices = s->o.who.children ? 1 + s->o.who.nr_pids : 0;
	/* A new incarnation has no events enabled. */
	if (c->disarming || s->mapping->one_way)
		c->next_command = end_command(c, s);
	if (!err && c->nr_stacks && s->mapping->one_way && !c->disarming)
		return braid_live_note(s, "its memory is only read: only stacks enabled in the guest (event_stacks=, tracebraid-select) are recorded");
	return err ? refuse_filters(c, s, err) : 0;
}

/* The probes' events are in the directory: what filters are for is known. As refuse_filters(). */
static int find_filters_late(struct braid_live_control *c, struct braid_live_stream *s)
{
	int err;

	if (c->probes_made || c->disarming || c->next_command != after_probes(c))
		return 0;
	c->probes_made = true;
	err = find_all(c, s);
	return err ? refuse_filters(c, s, err) : 0;
}

void braid_live_control_disarm(struct braid_live_control *c, const struct braid_live_stream *s)
{
	/* Once all were enabled, the list may have begun anew. */
	c->nothing_on = c->next_command <= first_test(c) && !c->busy && !c->stale_events &&
			!c->asked_again;
	c->disarming = true;
	c->busy = c->resuming = false;
	c->next_command = s->silent || (s->mapping && s->mapping->one_way) ? end_command(c, s) :
									     last_command(c, s);
}

bool braid_live_control_idle(const struct braid_live_control *c,
			     const struct braid_live_stream *s)
{
	return !c->busy && c->next_command >= end_command(c, s);
}

static int note_unconfirmed(struct braid_live_control *c, struct braid_live_stream *s)
{
	if (c->unconfirmed)
		return 0;
	c->unconfirmed = true;
	return braid_live_note(s, "the guest did not confirm the event change; it may still trace its former set");
}

/* Also of a change that a new module of the guest made necessary. */
static int note_late(struct braid_live_control *c, struct braid_live_stream *s)
{
	if (!c->unconfirmed)
		return 0;
	c->unconfirmed = false;
	return braid_live_note(s, "the guest has now confirmed the event change, late");
}

/* All are confirmed; the capture records which. */
static int note_confirmed(struct braid_live_control *c, struct braid_live_stream *s)
{
	struct braid_chunk_note note = { .host_ns = braid_live_now_ns(s) };
	char line[512] = "events enabled:";
	size_t used = strlen(line), k;

	c->confirmed = true;
	for (k = 0; k < s->o.nr_patterns && used < sizeof(line); k++) {
		const struct braid_pattern *p = &s->o.patterns[k];

		used += snprintf(line + used, sizeof(line) - used, "%s %s%s%s%s%s (%u)",
				 k ? "," : "", p->system, *p->event ? ":" : "", p->event,
				 p->filter ? " if " : "", p->filter ? p->filter : "",
				 c->matched[k]);
	}
	return braid_live_emit(s, BRAID_CHUNK_NOTE, &note, sizeof(note), line, strlen(line));
}

/* What to send for a command before the last one. */
static u32 arming_command(const struct braid_live_control *c, const struct braid_live_stream *s,
			  const struct braid_pattern **pattern)
{
	const struct braid_live_filter *filter = filter_of(c, s, c->next_command);
	const struct braid_live_test *test = test_of(c, c->next_command);
	static const struct braid_pattern sampled = { .system = "sample" };
	u32 enable = c->next_command - first_enable(c);

	if (!c->next_command)
		return BRAID_CMD_DISABLE;
	*pattern = probe_of(c, s, c->next_command);
	if (*pattern)
		return BRAID_CMD_PROBE;
	if (c->next_command < first_choice(c))
		return BRAID_CMD_RESHAPE;
	if (c->next_command < after_choices(c))
		return BRAID_CMD_CHOOSE;
	if (c->next_command < first_filter(c))
		return BRAID_CMD_FILTER;
	if (filter || test) {
		*pattern = filter ? &filter->event : &test->event;
		return filter ? BRAID_CMD_FILTER : BRAID_CMD_TRIGGER;
	}
	if (c->next_command < after_hold(c))
		return braid_live_takes(s) || s->o.unattended ? BRAID_CMD_NONE : BRAID_CMD_RESUME;
	if (c->next_command < after_samples(c)) {
		*pattern = &sampled;
		return BRAID_CMD_SAMPLE;
	}
	if (c->next_command < first_enable(c)) {
		*pattern = stacks_of(c, s, c->next_command);
		return BRAID_CMD_STACKS;
	}
	*pattern = enable < s->o.nr_patterns ? &s->o.patterns[enable] :
		   &c->triggers.items[enable - s->o.nr_patterns].event;
	return BRAID_CMD_ENABLE;
}

static u32 disarming_command(const struct braid_live_control *c, const struct braid_live_stream *s,
			     const struct braid_pattern **pattern)
{
	const struct braid_live_filter *filter = filter_of(c, s, c->next_command);
	const struct braid_pattern *hits = hits_of(c, s, c->next_command);

	if (filter)
		*pattern = &filter->event;
	if (c->nr_choices && c->next_command + 1 == end_command(c, s))
		return BRAID_CMD_CHOOSE;
	if (c->nr_probes && c->next_command + 1 + !!c->nr_choices == end_command(c, s))
		return BRAID_CMD_PROBE;
	if (hits) {
		*pattern = hits;
		return BRAID_CMD_HITS;
	}
	if (c->next_command > last_command(c, s))
		return BRAID_CMD_ACCOUNT;
	return c->nothing_on ? BRAID_CMD_NONE : BRAID_CMD_DISABLE;
}

static void region_control_begin(struct braid_live_control *c, struct braid_live_stream *s)
{
	static const struct braid_filter_program none;
	static const struct braid_probe no_probe = { .version = BRAID_PROBE_VERSION };
	const struct braid_live_filter *filter = filter_of(c, s, c->next_command);
	const struct braid_pattern *pattern = NULL;
	u32 command = c->disarming ? disarming_command(c, s, &pattern) :
				     arming_command(c, s, &pattern);
	const struct braid_live_test *test = command == BRAID_CMD_TRIGGER ?
					     test_of(c, c->next_command) : NULL;
	u64 arg0 = c->disarming ? BRAID_CONFIRM_TABLES : 0;

	if (command == BRAID_CMD_ENABLE)
		arg0 = c->seen << BRAID_SEEN_SHIFT | BRAID_ONLY_SEEN |
		       (c->filters.nr ? BRAID_KEEP_FILTERS : 0) |
		       (c->nr_stacks ? BRAID_KEEP_STACKS : 0);
	if (command == BRAID_CMD_CHOOSE)
		arg0 = c->disarming || c->next_command == first_choice(c) ? BRAID_CHOOSE_NONE :
		       (u64)s->o.who.pids[c->next_command - first_choice(c) - 1];
	if (command == BRAID_CMD_FILTER || command == BRAID_CMD_ACCOUNT)
		arg0 = filter ? filter->buffer : BRAID_ANY_BUFFER;
	if (test)
		arg0 = test->buffer;
	if (command == BRAID_CMD_SAMPLE)
		arg0 = s->o.sampling;
	if (command == BRAID_CMD_STACKS)
		arg0 = braid_stacks_request(BRAID_STACKS_KERNEL |
					    (s->o.user_stacks ? BRAID_STACKS_USER : 0));
	if (command == BRAID_CMD_RESHAPE)
		arg0 = c->reshapes[c->next_command - after_probes(c)];
	braid_control_begin(&c->control, s->mapping, &s->sb, command, arg0, pattern,
			    BRAID_CONTROL_TIMEOUT_NS);
	if (command == BRAID_CMD_FILTER)
		c->control.program = filter ? &filter->program : &none;
	if (command == BRAID_CMD_PROBE)
		c->control.probe = pattern ? pattern->probe : &no_probe;
	if (test) {
		c->control.program = &test->program;
		c->control.trigger = &test->trigger;
	}
	if (command == BRAID_CMD_RESHAPE)
		c->control.reshape = &s->o.reshape;
	c->triggers.held |= command == BRAID_CMD_RESUME;
	c->busy = true;
}

static int test_answered(struct braid_live_control *c, struct braid_live_stream *s,
			 const struct braid_live_test *test,
			 const struct braid_control_answer *answer)
{
	bool set = !answer->result && answer->matched;

	c->triggers.some_set |= set;
	if (c->next_command == end_test(c))
		c->triggers.was_set = c->triggers.some_set;
	if (set)
		return 0;
	c->refused = true;
	return braid_live_note(s, "trigger '%s' is not set at %.63s:%.63s: %s",
			       s->o.triggers[test->trigger.index].text, test->event.system,
			       test->event.event,
			       answer->result ? answer->reason : strerror(ENOENT));
}

static int probe_answered(struct braid_live_control *c, struct braid_live_stream *s,
			  const struct braid_control_answer *answer)
{
	const struct braid_pattern *p = &c->control.pattern;
	bool unknown = s->sb.version_minor < BRAID_PROBE_NAMES_MINOR && !c->disarming &&
		       braid_probe_has_names(c->control.probe);

	if (c->disarming)
		return 0;
	if (!answer->result)
		return *answer->reason ? braid_live_note(s, "%s:%s: %s", p->system, p->event,
							 answer->reason) : 0;
	c->refused = true;
	return braid_live_note(s, "%s:%s is not recorded: %s", p->system, p->event, unknown ?
			       "its driver does not support names of arguments; update it" :
			       answer->reason);
}

static int choice_answered(struct braid_live_control *c, struct braid_live_stream *s,
			   const struct braid_control_answer *answer)
{
	if (!answer->result || c->disarming)
		return 0;
	c->refused = true;
	return braid_live_note(s, "tasks and their children are not chosen: %s", answer->reason);
}

static int stacks_answered(struct braid_live_control *c, struct braid_live_stream *s,
			   const struct braid_control_answer *answer)
{
	const struct braid_pattern *p = &c->control.pattern;

	if (!answer->result)
		return 0;
	c->refused = true;
	return braid_live_note(s, "%s%s%s: recorded without stacks: %s", p->system,
			       *p->event ? ":" : "", p->event, answer->reason);
}

static int enable_answered(struct braid_live_control *c, struct braid_live_stream *s,
			   const struct braid_control_answer *answer)
{
	const struct braid_pattern *p = &c->control.pattern;
	const char *colon = *p->event ? ":" : "";
	int err = 0;

	c->more_events |= answer->unseen;
	if (!answer->result && c->next_command - 1 - first_enable(c) < s->o.nr_patterns)
		c->matched[c->next_command - 1 - first_enable(c)] = answer->matched;
	if (c->next_command == last_command(c, s))
		err = note_late(c, s) ?: c->confirmed ? 0 :
		      note_confirmed(c, s) ?: braid_live_accounts_begin(c, s);
	if (err)
		return err;
	c->refused |= *answer->reason;
	if (answer->result)
		return braid_live_note(s, "the guest does not enable %s%s%s: %s", p->system, colon,
				       p->event, answer->reason);
	if (*answer->reason && !c->asked_again)
		return braid_live_note(s, "%s%s%s: %s", p->system, colon, p->event,
				       answer->reason);
	if (!answer->matched && !answer->unseen && !c->asked_again && !p->probe)
		return braid_live_note(s, "no event of the guest matches %s%s%s", p->system, colon,
				       p->event);
	return 0;
}

static int answered(struct braid_live_control *c, struct braid_live_stream *s,
		    const struct braid_control_answer *answer)
{
	struct braid_live_filter *filter = filter_of(c, s, c->next_command - 1);
	int err = braid_live_emit(s, BRAID_CHUNK_CLOCK, NULL, 0, &answer->sample,
				  sizeof(answer->sample));

	if (err)
		return err;
	switch (c->control.command) {
	case BRAID_CMD_FILTER:
		return braid_live_filter_answered(c, s, filter, answer);
	case BRAID_CMD_PROBE:
		return probe_answered(c, s, answer);
	case BRAID_CMD_SAMPLE:
		return braid_live_sampling_answered(s, answer);
	case BRAID_CMD_STACKS:
		return stacks_answered(c, s, answer);
	case BRAID_CMD_TRIGGER:
		return test_answered(c, s, test_of(c, c->next_command - 1), answer);
	case BRAID_CMD_RESHAPE:
		return braid_live_reshape_answered(c, s, answer);
	case BRAID_CMD_DISABLE:
		return c->disarming ? braid_live_triggers_account(&c->triggers, s) : 0;
	case BRAID_CMD_CHOOSE:
		return choice_answered(c, s, answer);
	case BRAID_CMD_ENABLE:
		return enable_answered(c, s, answer);
	case BRAID_CMD_ACCOUNT:
		return braid_live_account_answered(c, s, filter, answer);
	case BRAID_CMD_HITS:
		return braid_live_hits_answered(c, s, answer);
	}
	return 0;
}

/* A module of the guest brought events, which are still off. Returns 0 or the capture's error. */
static int ask_again(struct braid_live_control *c, struct braid_live_stream *s)
{
	int err = find_all(c, s);

	c->more_events = false;
	if (err == -ENOMEM)
		return s->fatal = err;
	c->next_command = last_command(c, s);
	if (err)
		return braid_live_note(s, "new events are not enabled: %s", braid_failure());
	c->asked_again = true;
	c->next_command = first_filter(c);
	return 0;
}

/* A command that is not of the list: a trigger's action is over. */
static void begin_resume(struct braid_live_control *c, struct braid_live_stream *s)
{
	braid_control_begin(&c->control, s->mapping, &s->sb, BRAID_CMD_RESUME,
			    c->triggers.arm ? BRAID_TRIGGER_ARM : 0, NULL,
			    BRAID_CONTROL_TIMEOUT_NS);
	c->triggers.resume = false;
	c->resuming = c->busy = true;
}

/* What fired. Returns 0 or the capture's error. */
static int watch_triggers(struct braid_live_control *c, struct braid_live_stream *s)
{
	bool was_set = c->triggers.was_set;
	int err = c->disarming || s->o.unattended ? 0 : braid_live_triggers_poll(&c->triggers, s);

	if (!err && was_set && !c->triggers.was_set && !c->disarming && !c->busy) {
		c->asked_again = true;
		c->next_command = first_test(c);
	}
	return err;
}

int braid_live_control_poll(struct braid_live_control *c, struct braid_live_stream *s,
			    struct braid_endpoint *endpoint, bool ready)
{
	struct braid_control_answer answer;
	bool sent;
	int err = watch_triggers(c, s);

	if (err)
		return err;
	if (!c->busy && c->triggers.resume && !c->disarming)
		begin_resume(c, s);
	if (!c->busy) {
		/* Not confirmed: all was refused, and stays so. */
		if (c->more_events && c->confirmed && !c->disarming && !s->mapping->one_way &&
		    c->next_command == last_command(c, s))
			err = ask_again(c, s);
		if (!err)
			err = find_filters_late(c, s);
		if (err)
			return err;
		if (c->next_command >= end_command(c, s) || (!c->disarming && !ready))
			return 0;
		region_control_begin(c, s);
	}
	sent = c->control.sent;
	err = braid_control_poll(&c->control, &answer);
	if (c->control.sent && !sent)
		braid_endpoint_ring(endpoint);
	if (err == -EAGAIN)
		return 0;
	c->busy = false;
	if (c->resuming) {
		c->resuming = false;
		c->triggers.resume = err == -ETIMEDOUT;
		return err == -ETIMEDOUT ? 0 : err;
	}
	if (err == -ETIMEDOUT) {	/* retried, since it may wake up */
		if (c->disarming)
			c->next_command = end_command(c, s);
		c->reported_timeout = true;
		if (!c->disarming)
			return note_unconfirmed(c, s);
		return c->unconfirmed ? 0 : braid_live_note(s, "%s", c->nothing_on ?
			"the guest did not answer at the stop; the formats of its latest events may be missing" :
			"the guest did not confirm that its events are disabled; it may still trace");
	}
	if (err)
		return err;
	c->next_command++;
	c->answered_ns = braid_host_clock_ns();
	return answered(c, s, &answer);
}

int braid_live_control_give_up(struct braid_live_control *c, struct braid_live_stream *s)
{
	if (!c->disarming || s->silent || braid_live_control_idle(c, s))
		return 0;
	if (c->next_command <= last_command(c, s))
		return braid_live_note(s, "the guest did not confirm in time that its events are disabled; it may still trace");
	return c->filters.nr ? braid_live_note(s, "the guest did not say in time how many events its filters left out") : 0;
}

int braid_live_control_check_confirmed(struct braid_live_control *c, struct braid_live_stream *s,
				       struct braid_endpoint *endpoint)
{
	int err;

	if (c->disarming || !s->o.nr_patterns || s->down || c->confirmed ||
	    (s->mapping->one_way && !s->o.asked_elsewhere))
		return 0;
	/* It may have answered since the last turn. */
	err = c->busy ? braid_live_control_poll(c, s, endpoint, true) : 0;
	if (err || c->confirmed || (!s->mapping->one_way && braid_live_control_idle(c, s)))
		return err;		/* idle: nothing was enabled, and a note says why */
	return note_unconfirmed(c, s);
}

int braid_live_control_enabled(struct braid_live_control *c, struct braid_live_stream *s, bool all)
{
	struct braid_directory_copy copy;
	size_t k;
	int err;

	if (!all) {
		c->unconfirmed = true;
		return 0;
	}
	err = braid_directory_load(&copy, s->mapping, &s->sb, 0);
	if (err)
		return err == -ENOMEM ? s->fatal = err : 0;
	for (k = 0; k < s->o.nr_patterns; k++)
		c->matched[k] = braid_pattern_count(&s->o.patterns[k], &copy);
	braid_directory_free(&copy);
	return note_late(c, s) ?: c->confirmed ? 0 : note_confirmed(c, s);
}

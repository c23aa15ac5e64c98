// SPDX-License-Identifier: GPL-2.0-or-later
/* The states of the trace in memory, as text. */
#include <stdio.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/walk/walk.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/span_text.h"

struct braid_states span_states;
bool span_queues;
static struct braid_text spans;

static int note_span(void *arg, const struct braid_state_span *span)
{
	char culprit[BRAID_NAME_TEXT];

	(void)arg;
	braid_text_printf(&spans, "%lld-%lld %s", (long long)span->from_ns, (long long)span->to_ns,
			  braid_vcpu_state_name(span->state));
	if (span->task != BRAID_PID_UNKNOWN)
		braid_text_printf(&spans, " task %d", span->task);
	if (span->reason)
		braid_text_printf(&spans, " exit %u", (u32)span->reason);
	braid_culprit_name(&span_states, &span->culprit, culprit);
	if (span->culprit.kind)
		braid_text_printf(&spans, " by %s", culprit);
	if (span->from_bound_ns || span->to_bound_ns)
		braid_text_printf(&spans, " within %llu+%llu",
				  (unsigned long long)span->from_bound_ns,
				  (unsigned long long)span->to_bound_ns);
	braid_text_puts(&spans, "\n");
	return 0;
}

static int note_queued(void *arg, const struct braid_queue_wait *wait)
{
	(void)arg;
	(void)wait;
	return 0;
}

static int take_event(void *arg, const struct braid_item *item,
		      const struct braid_event_type_info *info)
{
	return braid_states_event(arg, item, info);
}

static int take_lost(void *arg, const struct braid_item *item)
{
	return braid_states_lost(arg, item);
}

int span_walk(void)
{
	static const struct braid_states_ops plain = { .span = note_span };
	static const struct braid_states_ops queues = { .span = note_span, .queued = note_queued };
	const struct braid_states_ops *ops = span_queues ? &queues : &plain;
	static const struct braid_walk_ops walk_ops = { .event = take_event, .lost = take_lost };
	static const struct braid_walk_options options;
	struct braid_walk_totals totals = { 0 };
	struct braid_walk w;
	int err;

	spans.bytes = 0;
	memory_guest.nr_cpus = 1;
	braid_source_rewind(&memory_source);
	NEED(!braid_states_begin(&span_states, &memory_source, ops, NULL));
	NEED(!braid_walk_begin(&w, &memory_source, &options, &totals));
	err = braid_walk_run(&w, &walk_ops, &span_states);
	braid_walk_end(&w);
	if (!err)
		err = braid_states_end(&span_states);
	braid_text_putc(&spans, 0);
	return err;
}

const char *span_found(void)
{
	return spans.data;
}

void span_expect(const char *want)
{
	NEED(!span_walk());
	if (strcmp(spans.data, want)) {
		fprintf(stderr, "wanted:\n%sfound:\n%s", want, spans.data);
		NEED(!"the spans are others");
	}
	braid_states_free(&span_states);
}

void span_free(void)
{
	braid_text_free(&spans);
}

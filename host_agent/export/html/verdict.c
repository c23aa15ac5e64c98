// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs two analyses beside the page's walk: what they say is theirs. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/html/verdict.h"
#include "host_agent/util/error.h"

static const struct braid_analysis *const summary = &braid_analysis_summary;
static const struct braid_analysis *const stalls = &braid_analysis_stalls;

int braid_html_verdict_begin(struct braid_html_verdict *v, struct braid_states *states,
			     const struct braid_walk_options *options)
{
	int err;

	v->wants = (struct braid_analysis_options){
		.top = BRAID_HTML_WORST, .stream = options->stream, .one_cpu = options->one_cpu,
		.cpu = options->cpu, .form = BRAID_TABLE_JSON,
	};
	v->summary = calloc(1, summary->state_bytes);
	v->stalls = calloc(1, stalls->state_bytes);
	if (!v->summary || !v->stalls)
		return braid_out_of_memory();
	err = summary->begin(v->summary, states, &v->wants);
	return err ? err : stalls->begin(v->stalls, states, &v->wants);
}

int braid_html_verdict_span(struct braid_html_verdict *v, const struct braid_state_span *span)
{
	int err = summary->states.span(v->summary, span);

	return err ? err : stalls->states.span(v->stalls, span);
}

int braid_html_verdict_queued(struct braid_html_verdict *v, const struct braid_queue_wait *wait)
{
	return summary->states.queued(v->summary, wait);
}

int braid_html_verdict_cut(struct braid_html_verdict *v, u32 vcpu, s64 ns)
{
	int err = summary->states.cut(v->summary, vcpu, ns);

	return err ? err : stalls->states.cut(v->stalls, vcpu, ns);
}

int braid_html_verdict_event(struct braid_html_verdict *v, const struct braid_item *item,
			     const struct braid_event_type_info *info)
{
	int err = summary->event(v->summary, item, info);

	return err ? err : stalls->event(v->stalls, item, info);
}

int braid_html_verdict_end(struct braid_html_verdict *v)
{
	int err = summary->end(v->summary);

	return err ? err : stalls->end(v->stalls);
}

/* Members that end in at_ns are moments of the host's clock. No string has a quote within. */
static void put_shown(const struct braid_text *json, const struct braid_walk *walk, s64 base_ns,
		      struct braid_text *out)
{
	static const char key[] = "at_ns\":";
	const char *from = json->data, *to;
	char *rest;
	s64 ns;

	while ((to = strstr(from, key))) {
		to += strlen(key);
		braid_text_put(out, from, to - from);
		from = to;
		ns = strtoll(from, &rest, 10);
		if (rest == from)	/* null */
			continue;
		braid_text_printf(out, "%lld", (long long)((u64)braid_walk_shown_ns(walk, ns) -
							   (u64)base_ns));
		from = rest;
	}
	braid_text_puts(out, from);
}

void braid_html_verdict_write(struct braid_html_verdict *v, const struct braid_walk *walk,
			      s64 base_ns, struct braid_text *out)
{
	struct braid_text json = { 0 };

	braid_text_puts(&json, "{\"summary\":{");
	summary->write(v->summary, &json);
	braid_text_puts(&json, "},\"stalls\":{");
	stalls->write(v->stalls, &json);
	braid_text_puts(&json, "}}\n");
	braid_text_putc(&json, '\0');
	if (json.failed)
		out->failed = true;
	else
		put_shown(&json, walk, base_ns, out);
	braid_text_free(&json);
}

void braid_html_verdict_free(struct braid_html_verdict *v)
{
	if (v->summary)
		summary->free(v->summary);
	if (v->stalls)
		stalls->free(v->stalls);
	free(v->summary);
	free(v->stalls);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tracebraid-select, in a guest: its own user selects what is recorded, as a host does by `record`.
 *
 * Options, programs and the order of commands are those of `record`. Only the endpoint differs:
 * braid_select_open().
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/sink.h"
#include "host_agent/cli/cli.h"
#include "host_agent/cli/record_selection.h"
#include "host_agent/live/control.h"
#include "host_agent/select/device.h"
#include "host_agent/util/error.h"

#define MOST_LINES	64u	/* of --show, that are of one event each */

struct select_command {
	struct braid_record_options o;
	bool show, reset;
};

#define SELECT	struct select_command

static const struct braid_option options[] = {
	BRAID_RECORD_SELECTION(SELECT, o),
	{ 'B', "buffer", "NAME", BRAID_STRING(SELECT, o.buffer),
	  "the buffer that --buffer-size, --subbuf-size and --mode change. Default: all" },
	{ 0, "show", NULL, BRAID_FLAG(SELECT, show),
	  "print the selected events (up to 64), each with its filter's account: offered = filtered + "
	  "written + lost; and the state of triggers" },
	{ 0, "reset", NULL, BRAID_FLAG(SELECT, reset),
	  "end the selection: disable its events, and remove its filters, probes and triggers" },
	{ 0 },
};

static const struct braid_cli_command command = {
	.name = "select", .summary = "select, in a guest, what it records",
	.usage = "OPTION...", .text =
	"In a guest, selects what the guest records, with the options of 'tracebraid record' on a host. "
	"It is for guests whose memory the host only reads, and which thus take no commands from it.\n"
	"A selection replaces the former one. It stays until --reset, the next selection, or the end of "
	"the trace memory: when the driver is unloaded, when the memory of a device replaces the guest's "
	"own, or when the guest is suspended. Until then the driver refuses a host's commands, except those "
	"that read the accounts of filters and probes.",
	.options = options, .expected = "options only", .notes =
	"What an option does when the recording ends, it does here at --reset; but accounts are printed "
	"by --show. The action 'snapshot' of a trigger needs a host that writes to the guest's memory; "
	"'stop' does the same as 'traceoff'. Events that are unread when rings are replaced are lost.\n"
	"'tracebraid-select --version' prints the version.",
	.status = "0 on success; 1 on error. After an error the former selection stays, or, if the driver refused a part, nothing is selected.",
};

/* The capture of the stream, which discards all: nothing is recorded here. */
static int select_put(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
		      u32 head_bytes, const void *body, u32 body_bytes)
{
	(void)w, (void)type, (void)stream, (void)head, (void)head_bytes, (void)body;
	(void)body_bytes;
	return 0;
}

static const struct braid_capture_ops nowhere_ops = { .put = select_put };
static struct braid_capture_writer nowhere = { .ops = &nowhere_ops };

/* Commands ---------------------------------------------------------------------------------- */

static int select_ask(struct braid_select_device *d, u32 code, u64 arg0,
		      const struct braid_pattern *pattern, struct braid_control_answer *answer)
{
	static const struct braid_filter_program no_program;
	static const struct braid_probe no_probe = { .version = BRAID_PROBE_VERSION };
	struct braid_control control;
	int err;

	braid_control_begin(&control, d->mapping, &d->sb, code, arg0, pattern,
			    BRAID_CONTROL_TIMEOUT_NS);
	if (code == BRAID_CMD_FILTER)
		control.program = &no_program;
	if (code == BRAID_CMD_PROBE)
		control.probe = &no_probe;
	err = braid_control_poll(&control, answer);
	if (err != -EAGAIN)
		return err;
	d->endpoint.ops->ring(&d->endpoint);
	return d->error ?: braid_control_poll(&control, answer);
}

static int select_reset(struct braid_select_device *d)
{
	static const struct { u32 code; u64 arg0; } list[] = {
		{ BRAID_CMD_DISABLE, 0 },
		{ BRAID_CMD_FILTER, BRAID_ANY_BUFFER },
		{ BRAID_CMD_CHOOSE, BRAID_CHOOSE_NONE },
		{ BRAID_CMD_PROBE, 0 },
	};
	struct braid_control_answer answer;
	size_t k;
	int err = 0;

	for (k = 0; k < sizeof(list) / sizeof(*list) && !err; k++) {
		err = select_ask(d, list[k].code, list[k].arg0, NULL, &answer);
		/* A kernel without kprobes has none that could be removed. */
		if (!err && answer.result && answer.result != -EOPNOTSUPP)
			err = braid_fail(answer.result, "the driver refuses: %s", answer.reason);
	}
	return err;
}

/* --show ------------------------------------------------------------------------------------ */

/* @of: what has the account. */
static int show_account(struct braid_select_device *d, const char *of, u64 buffer,
			const struct braid_pattern *pattern)
{
	struct braid_control_answer answer;
	const struct braid_filter_account *a = &answer.account;
	int err = select_ask(d, BRAID_CMD_ACCOUNT, buffer, pattern, &answer);

	if (err)
		return err;
	printf("%s: ", of);
	if (answer.result || !answer.matched)
		puts("no filter");
	else
		printf("%llu offered = %llu filtered + %llu written + %llu lost\n",
		       (unsigned long long)a->offered, (unsigned long long)a->filtered,
		       (unsigned long long)a->written, (unsigned long long)a->lost);
	return 0;
}

static int show_event(struct braid_select_device *d, const struct braid_schema_event *event)
{
	struct braid_pattern pattern = { .filter = NULL };
	char of[2 * BRAID_PATTERN_BYTES];

	snprintf(pattern.system, sizeof(pattern.system), "%s", event->system);
	snprintf(pattern.event, sizeof(pattern.event), "%s", event->name);
	snprintf(of, sizeof(of), "%s:%s", pattern.system, pattern.event);
	return show_account(d, of, event->buffer, &pattern);
}

static void show_triggers(const struct braid_select_device *d)
{
	static const char *const states[] = {
		[BRAID_TRIGGER_ARMED] = "armed", [BRAID_TRIGGER_COUNTING] = "fired, rings are still written",
		[BRAID_TRIGGER_FROZEN] = "fired, rings are frozen", [BRAID_TRIGGER_HELD] = "not armed",
	};
	const struct braid_mailbox *box =
		braid_mapping_section(d->mapping, &d->sb, BRAID_SECTION_MAILBOX);
	u32 state = box->trigger_state, k;

	if (state == BRAID_TRIGGER_NONE || state >= sizeof(states) / sizeof(*states))
		return;
	printf("triggers: %s\n", states[state]);
	for (k = 0; k < BRAID_TRIGGERS; k++)
		if (box->trigger_counts[k].met)
			printf("trigger %u: %llu met, %llu fired\n", k,
			       (unsigned long long)box->trigger_counts[k].met,
			       (unsigned long long)box->trigger_counts[k].fired);
}

static int select_show(struct braid_select_device *d)
{
	struct braid_directory_copy copy;
	struct braid_schema_event event;
	u32 at = 0, nr = 0;
	int err = braid_directory_load(&copy, d->mapping, &d->sb, 0);

	while (!err && braid_schema_next(copy.data, copy.bytes, &at, &event) > 0)
		if (event.flags & BRAID_EVENT_HOST_ON &&
		    !(event.flags & (BRAID_EVENT_GONE | BRAID_EVENT_SUB)) && nr++ < MOST_LINES)
			err = show_event(d, &event);
	if (!err && !nr)
		puts("nothing is selected");
	if (!err && nr > MOST_LINES)
		printf("and %u more events\n", nr - MOST_LINES);
	if (!err && nr > 1)
		err = show_account(d, "all filters", BRAID_ANY_BUFFER, NULL);
	if (!err)
		show_triggers(d);
	braid_directory_free(&copy);
	return err;
}

/* Selecting --------------------------------------------------------------------------------- */

/* The first line that the commands print is the reason of a failure. */
static void select_say(void *arg, const char *name, const char *line)
{
	char *first = arg;

	(void)name;
	if (!*first)
		snprintf(first, 512, "%s", line);
}

/* Checks all that needs no command: if it fails, the former selection stays. */
static int select_check(const struct braid_live_stream *s)
{
	struct braid_live_filters filters = { 0 };
	struct braid_live_triggers triggers = { 0 };
	struct braid_directory_copy copy;
	bool probes = false;
	size_t k;
	int err = braid_directory_load(&copy, s->mapping, &s->sb, 0);

	for (k = 0; k < s->o.nr_patterns && !err; k++) {
		probes |= !!s->o.patterns[k].probe;
		if (!s->o.patterns[k].probe && !braid_pattern_count(&s->o.patterns[k], &copy))
			err = braid_directory_suggest(&copy, &s->o.patterns[k], s->name);
	}
	if (!err && !probes)
		err = braid_live_filters_find(&filters, s) ?:
		      braid_live_triggers_find(&triggers, &filters, s);
	braid_directory_free(&copy);
	braid_live_filters_free(&filters);
	braid_live_triggers_free(&triggers);
	return err;
}

static int select_run(struct braid_live_control *c, struct braid_live_stream *s,
		      struct braid_select_device *d, const char *said)
{
	int err = braid_live_control_begin(c, s);

	while (!err && !d->error && !*said && !braid_live_control_idle(c, s)) {
		err = braid_live_control_poll(c, s, &d->endpoint, true);
		s->sb = d->sb;
	}
	if (*said)
		return braid_fail(-EINVAL, "%s", said);
	return d->error ?: err;
}

static int select_apply(struct braid_select_device *d, const struct braid_record_options *o)
{
	char said[512] = "";
	struct braid_live_sink sink = { .capture = &nowhere };
	struct braid_live_control control = { 0 };
	struct braid_live_stream s = {
		.o = {
			.sink = &sink,
			.patterns = o->events.items, .nr_patterns = o->events.nr, .who = o->who,
			.triggers = o->triggers, .nr_triggers = o->nr_triggers,
			.reshape = o->reshape, .sampling = braid_record_sampling(o),
			.user_stacks = o->user_stacks, .buffer = o->buffer, .unattended = true,
			.say = select_say, .say_arg = said,
		},
		.name = "this guest", .mapping = d->mapping, .sb = d->sb,
	};
	int err = select_check(&s);

	if (!err)
		err = select_reset(d) ?: braid_select_renew(d);
	if (err)
		return err;
	s.sb = d->sb;
	err = braid_live_control_open(&control, &s);
	if (err)
		return err;
	err = select_run(&control, &s, d, said);
	braid_live_control_free(&control);
	if (!err)
		return 0;
	snprintf(said, sizeof(said), "%s", braid_failure());
	d->error = 0;
	select_reset(d);		/* all of it is selected, or nothing */
	return braid_fail(err, "%s; nothing is selected", said);
}

static int select_check_options(const struct select_command *c, int argc)
{
	size_t k;

	if (argc < 2)
		return braid_fail(-EINVAL, "no option is given; 'tracebraid-select --help' lists them");
	if ((c->show || c->reset) && argc > 2)
		return braid_fail(-EINVAL, "--%s cannot be combined with other options", c->show ? "show" : "reset");
	for (k = 0; k < c->o.nr_triggers; k++)
		if (c->o.triggers[k].action == BRAID_TRIGGER_SNAPSHOT)
			return braid_fail(-EINVAL, "--trigger '%s': a snapshot needs a host that writes to this guest's memory; use traceoff",
					  c->o.triggers[k].text);
	return braid_record_selection_check(&c->o);
}

static int select_do(struct select_command *c)
{
	struct braid_select_device device = { .fd = -1 };
	int err = braid_select_open(&device);

	if (!err && c->show)
		err = select_show(&device);
	else if (!err && c->reset)
		err = select_reset(&device);
	else if (!err)
		err = braid_record_complete_events(&c->o) ?: select_apply(&device, &c->o);
	braid_select_close(&device);
	return err;
}

int main(int argc, char **argv)
{
	struct select_command c = { .show = false };
	int err, code;

	braid_cli_called("tracebraid-");
	if (argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
		puts("tracebraid-select " BRAID_VERSION);
		return braid_cli_flushed(EXIT_SUCCESS);
	}
	if (argc > 1 && !strcmp(argv[1], "--describe")) {
		braid_options_describe(&command);
		return braid_cli_flushed(EXIT_SUCCESS);
	}
	err = braid_options_parse(&command, &c, argc, argv);
	if (!err)
		err = select_check_options(&c, argc) ?: select_do(&c);
	code = err ? braid_options_exit(err) : braid_cli_flushed(EXIT_SUCCESS);
	braid_record_options_free(&c.o);
	return code;
}

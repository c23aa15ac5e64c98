// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid watch: says when a condition begins to hold, and who is to blame. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/record/record.h"
#include "host_agent/serve/service.h"
#include "host_agent/util/error.h"

struct watch_command {
	struct braid_conf conf;
	struct braid_option_list regions, listens, peers;
	const char *guests, *host_events, *directory, *hook, *peer_listen;
	double seconds, apart;
	u64 peer_rate;
	bool json;
};

/* The recorder gets them as they are; what it would refuse is refused here. */
static int watch_take_chosen(const struct braid_option *o, void *to, const char *value)
{
	return braid_conf_choose(to, o->name, value, 0);
}

static int watch_take_host_events(const struct braid_option *o, void *to, const char *value)
{
	struct braid_record_patterns list = { 0 };
	int err = braid_record_add_events(&list, value);

	(void)o;
	free(list.items);
	if (!err)
		*(const char **)to = value;
	return err;
}

static int watch_take_region(const struct braid_option *o, void *to, const char *value)
{
	struct braid_record_options checked = { 0 };
	int err = braid_record_add_guest(&checked, value);

	braid_record_options_free(&checked);
	return err ? err : braid_take_list(o, to, value);
}

#define WATCH	struct watch_command
#define CHOSEN	BRAID_TAKE(watch_take_chosen, struct braid_conf_chosen, WATCH, conf.chosen)

static const struct braid_option options[] = {
	{ 'r', "region", "REGION", BRAID_TAKE(watch_take_region, struct braid_option_list, WATCH, regions),
	  "a guest, as for `tracebraid record`; may be repeated. Default: all, with and without the driver, "
	  "and those that start later", .values = "@region" },
	{ 'g', "guests", "GLOB", BRAID_STRING(WATCH, guests),
	  "of these, the guests that CONDITION is about. Default: *" },
	{ 'e', "event", "SYSTEM[:EVENT]", CHOSEN,
	  "events to enable in the guests, separated by commas, as for `tracebraid record`; may be repeated",
	  .values = "@event" },
	{ 'f', "filter", "FILTER", CHOSEN,
	  "likewise, of the events of the last -e, record only those that match. Conditions are about what is "
	  "recorded" },
	{ 0, "kprobe", "PROBE", CHOSEN, "likewise, an event at a function of the guests' kernel" },
	{ 0, "uprobe", "PROBE", CHOSEN, "likewise, an event in a program of the guests" },
	{ 'P', "pid", "PID", CHOSEN, "likewise, only events of this task of the guests; may be repeated" },
	{ 0, "children", NULL, CHOSEN, "likewise, with --pid: also events of the tasks that these fork" },
	{ 0, "cgroup", "CGROUP", CHOSEN, "likewise, only events of tasks in this cgroup of the guests" },
	{ 0, "comm", "GLOB", CHOSEN, "likewise, only events of tasks whose name matches" },
	{ 0, "cpus", "LIST", CHOSEN, "likewise, only events on these vCPUs" },
	{ 0, "trigger", "TRIGGER", CHOSEN,
	  "likewise, act at once in a guest: 'EVENT if FILTER: snapshot' or 'EVENT..EVENT > TIME: snapshot', "
	  "also with 'after NUMBER'. The guest stops writing its rings until their contents are recorded; a "
	  "line is printed as for a CONDITION. Triggers fire at most once in the time of --apart" },
	{ 0, "sample", "HZ", CHOSEN, "likewise, sample what the guests' vCPUs execute, for snapshots" },
	{ 'T', "stacks", NULL, CHOSEN, "likewise, also the guests' kernel stack with each of their events" },
	{ 0, "user-stacks", NULL, CHOSEN,
	  "likewise, with --sample or -T: also the user stacks of the guests' tasks" },
	{ 0, "host", "EVENTS", BRAID_TAKE(watch_take_host_events, const char *, WATCH, host_events),
	  "events of the host, likewise" },
	{ 0, "peer", "HOST[:PORT]", BRAID_LIST(WATCH, peers),
	  "exchange times with the recorder of another host, as for `tracebraid record`; may be "
	  "repeated" },
	{ 0, "peer-listen", "[ADDRESS:]PORT", BRAID_STRING(WATCH, peer_listen),
	  "answer recorders of other hosts that ask with --peer" },
	{ 0, "peer-rate", "NUMBER", BRAID_COUNT(WATCH, peer_rate),
	  "how often each --peer is asked in a second. Default: 10", .least = 1, .most = 1000 },
	{ 0, "snapshots", "DIRECTORY", BRAID_STRING(WATCH, directory),
	  "take a snapshot of what led there: a folder with captures, why it was taken, and what "
	  "`tracebraid analyze summary` says" },
	{ 0, "apart", "TIME", BRAID_DURATION(WATCH, apart),
	  "from one snapshot, or run of PROGRAM, to the next, at least. Default: 60 s" },
	{ 0, "exec", "PROGRAM", BRAID_STRING(WATCH, hook),
	  "run PROGRAM GUEST CONDITION FOLDER; $TRACEBRAID_WHY is the line that is printed" },
	{ 0, "listen", "ADDRESS", BRAID_LIST(WATCH, listens),
	  "serve metrics for Prometheus there: 127.0.0.1:9464, [::1]:9464, unix:/PATH; may be repeated" },
	{ 't', "time", "SECONDS", BRAID_DURATION(WATCH, seconds), "stop after this time" },
	{ 'j', "json", NULL, BRAID_FLAG(WATCH, json), "one JSON object per line" },
	{ 0 },
};

const struct braid_cli_command braid_command_watch = {
	.name = "watch", .summary = "print when a condition begins to hold, and who is to blame",
	.run = braid_cmd_watch, .usage = "[OPTION]... [CONDITION]...",
	.text =
	"Records the host and its guests into a window of some seconds in memory, analyzes that as it "
	"comes, and prints a line when a CONDITION begins to hold for a guest.",
	.options = options,
	.notes =
	"CONDITION is one of\n"
	"'stolen > 20% for 1s': a vCPU was runnable, and did not run, for that share of the time;\n"
	"'throttled > 0': likewise, because of its cgroup's CPU quota;\n"
	"'wake-up > 2ms': a task of the guest waited so long for its vCPU after it was woken; without "
	"the guest's scheduler events, a vCPU for a CPU;\n"
	"'silent > 1s': the guest gave no sign of life;\n"
	"'lost > 0': the guest's rings overwrote events;\n"
	"'exits > 100k/s': its vCPUs left guest code so often;\n"
	"'SYSTEM:EVENT', as in 'sched:sched_process_exit if comm == \"nginx\"': the guest recorded this "
	"event; globs and FILTER as for `tracebraid report`; with '> NUMBER' before 'if', more than NUMBER "
	"within the time. The event is recorded in addition to those of -e.\n"
	"Without 'for TIME' the time is 1 s. `tracebraid serve` does the same as a service.",
	.most = BRAID_RULES_MOST, .expected = "a condition, such as 'stolen > 20% for 1s'",
};

static void watch_print_json(const struct braid_analyst_message *m)
{
	struct braid_text t = { 0 };

	braid_text_printf(&t, "{\"ns\":%llu", (unsigned long long)m->host_ns);
	braid_text_member(&t, "guest", m->guest);
	braid_text_member(&t, "condition", m->rule);
	braid_text_member(&t, "why", m->line);
	braid_text_puts(&t, "}\n");
	if (!t.failed)
		fwrite(t.data, 1, t.bytes, stdout);
	braid_text_free(&t);
}

static void watch_fired(void *arg, const struct braid_analyst_message *m)
{
	const struct watch_command *w = arg;
	time_t now = time(NULL);
	char text[16];
	struct tm tm;

	if (w->json) {
		watch_print_json(m);
	} else {
		localtime_r(&now, &tm);
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
		printf("%s  %s\n", text, braid_cli_clean(m->line));
	}
	fflush(stdout);
}

static int watch_copy(char to[BRAID_CONF_PATH], const char *from, const char *what)
{
	if (!from)
		return 0;
	if (strlen(from) >= BRAID_CONF_PATH)
		return braid_fail(-ENAMETOOLONG, "--%s: more than %u characters", what,
				  BRAID_CONF_PATH - 1);
	strcpy(to, from);
	return 0;
}

/* Programs and folders are used by a process whose directory is another one. */
static int watch_copy_path(char to[BRAID_CONF_PATH], const char *from, const char *what,
			   bool make)
{
	char path[PATH_MAX];

	if (from && make && mkdir(from, 0750) && errno != EEXIST)
		return braid_fail(-errno, "--%s=%s: %s", what, from, strerror(errno));
	if (from && !realpath(from, path))
		return braid_fail(-errno, "--%s=%s: %s", what, from, strerror(errno));
	return watch_copy(to, from ? path : NULL, what);
}

/* A list of words, separated by blanks. */
static int watch_join(char to[BRAID_CONF_GUESTS], const struct braid_option_list *words,
		      const char *what)
{
	size_t k, used = 0;

	for (k = 0; k < words->nr; k++) {
		used += snprintf(to + used, BRAID_CONF_GUESTS - used, "%s ", words->items[k]);
		if (used >= BRAID_CONF_GUESTS)
			return braid_fail(-ENAMETOOLONG, "--%s: too many", what);
	}
	return 0;
}

static int watch_prepare(struct watch_command *w, char **conditions, size_t nr)
{
	struct braid_conf *conf = &w->conf;
	struct braid_rule rule;
	size_t k;
	int err = braid_cli_check_chosen(conf, NULL) ?: braid_conf_add_triggers(conf);

	if (!err && !nr && !conf->rules.nr)
		err = braid_fail(-EINVAL, "watch: expected a condition, such as 'stolen > 20%% for 1s', or --trigger");

	if (!err)
		err = watch_copy(conf->host_events, w->host_events, "host");
	if (!err)
		err = watch_copy_path(conf->directory, w->directory, "snapshots", true);
	if (!err)
		err = watch_copy_path(conf->hook, w->hook, "exec", false);
	for (k = 0; k < w->listens.nr && !err; k++)
		err = conf->nr_listens == BRAID_CONF_LISTENS ?
		      braid_fail(-ENOSPC, "--listen: more than %u addresses", BRAID_CONF_LISTENS) :
		      watch_copy(conf->listens[conf->nr_listens++], w->listens.items[k], "listen");
	if (!err)
		err = watch_join(conf->guests, &w->regions, "region");
	if (!err)
		err = watch_join(conf->peers, &w->peers, "peer");
	if (!err)
		err = watch_copy(conf->peer_listen, w->peer_listen, "peer-listen");
	conf->peer_rate = w->peer_rate;
	for (k = 0; k < nr && !err; k++) {
		err = braid_rule_parse(&rule, conditions[k], w->guests ? w->guests : "*");
		if (!err)
			err = braid_rules_add(&conf->rules, &rule);
	}
	if (w->apart > 0)
		conf->apart_ns = w->apart * 1e9;
	return err;
}

int braid_cmd_watch(int argc, char **argv)
{
	static struct watch_command w;
	char directory[64], program[PATH_MAX];
	struct braid_service_options o = {
		.conf = &w.conf, .directory = directory, .program = program,
		.confine = braid_serve_confine, .say = braid_serve_say, .fired = watch_fired,
		.arg = &w,
	};
	int err, operands;

	braid_conf_default(&w.conf);
	err = braid_options_parse(&braid_command_watch, &w, argc, argv);
	operands = optind;
	if (!err)
		err = watch_prepare(&w, argv + operands, argc - operands);
	if (!err)
		err = braid_serve_directory(directory, sizeof(directory), "watch", true);
	if (!err)
		err = braid_serve_program(program);
	o.seconds = w.seconds;
	if (!err)
		err = braid_service_run(&o);
	braid_rules_clear(&w.conf.rules);
	free(w.regions.items);
	free(w.peers.items);
	free(w.listens.items);
	return err ? braid_options_exit(err) : EXIT_SUCCESS;
}

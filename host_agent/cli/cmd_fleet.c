// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid fleet: asks the services of many hosts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/fleet_command.h"
#include "host_agent/fleet/ask.h"
#include "host_agent/serve/conf.h"
#include "host_agent/util/error.h"

#define FLEET	struct braid_fleet_command

static const struct braid_option options[] = {
	{ 'H', "hosts", "HOSTS", BRAID_STRING(FLEET, hosts),
	  "only these: names and globs, separated by commas. A name that does not answer is reported" },
	{ 0, "since", "-TIME", BRAID_STRING(FLEET, since),
	  "sql, analyze: of the last TIME of each host's window: -10m, -30s" },
	{ 0, "top", "N", BRAID_COUNT(FLEET, top), "analyze: rows of the fleet. Default: 20",
	  .least = 1, .most = 10000 },
	{ 0, "rows", "N", BRAID_COUNT(FLEET, rows),
	  "sql: at most N rows of a host, if they are not combined. Default: 100000",
	  .least = 1, .most = 1ULL << 32 },
	{ 0, "seconds", "N", BRAID_COUNT(FLEET, seconds), "at most N seconds on each host. Default: 30",
	  .least = 1, .most = 600 },
	{ 0, "timeout", "SECONDS", BRAID_DURATION(FLEET, timeout),
	  "give a host up that has sent nothing for that time. Default: 2" },
	{ 'j', "json", NULL, BRAID_FLAG(FLEET, json), "one JSON object per row and line" },
	{ 0, "csv", NULL, BRAID_FLAG(FLEET, csv),
	  "sql, analyze: comma-separated values; the first line names the columns" },
	{ 0, "on", "'HOSTS/GUESTS CONDITION'", BRAID_STRING(FLEET, on),
	  "snapshot: wait until a matching guest on a matching host meets CONDITION, then take snapshots "
	  "on all hosts: '*/web* stolen > 20% for 1s', '*/* oom:mark_victim'. tracebraid-watch(1) lists the "
	  "conditions. The services must already record the event of a condition" },
	{ 0, "folded", NULL, BRAID_FLAG(FLEET, folded),
	  "analyze profile, exits: print all stacks of all hosts with their times; the host is the first frame" },
	{ 0, "for", "SECONDS", BRAID_COUNT(FLEET, for_s),
	  "record: duration, at most 500 (default: 10). snapshot --on: longest wait (default: 600)",
	  .least = 1, .most = BRAID_FLEET_WATCH_SECONDS },
	{ 0, "every", "SECONDS", BRAID_DURATION(FLEET, every),
	  "top: from one table to the next, and the time that each is about. Default: 2" },
	{ 0, "count", "N", BRAID_COUNT(FLEET, count), "top: end after N tables", .least = 1, .most = 1000000 },
	{ 0, "space", "SIZE", BRAID_STRING(FLEET, space),
	  "store: make it, of that size: 500M, 100G" },
	{ 0, "age", "SECONDS", BRAID_DURATION(FLEET, age),
	  "store --space: what is older is removed. Default: nothing is" },
	{ 0, "all", NULL, BRAID_FLAG(FLEET, all), "pull: all snapshots of each host, not only the last" },
	{ 's', "server", "URL", BRAID_STRING(FLEET, server),
	  "the NATS server: nats://HOST:PORT or tls://HOST:PORT" },
	{ 0, "credentials", "FILE", BRAID_STRING(FLEET, credentials),
	  "a user and its password, or an NKey's public key and its seed" },
	{ 0, "ca", "FILE", BRAID_STRING(FLEET, ca), "certificates of authorities, to verify the server's" },
	{ 0, "inbox", "PREFIX", BRAID_STRING(FLEET, inbox),
	  "prefix of the subjects for answers; only this user should be permitted to read them. Default: _INBOX" },
	{ 'c', "config", "FILE", BRAID_STRING(FLEET, file),
	  "section [fleet] of FILE has what is not given here. Default: " BRAID_CONF_FILE },
	{ 0 },
};

const struct braid_cli_command braid_command_fleet = {
	.name = "fleet", .summary = "ask the services of many hosts", .run = braid_cmd_fleet,
	.usage = "list [OPTION]...\nsql [OPTION]... STATEMENT\nanalyze [OPTION]... NAME\n"
	"top [OPTION]...\nsnapshot [OPTION]...\nrecord [OPTION]...\nstore [OPTION]...\npull [OPTION]... DIRECTORY",
	.text =
	"Asks the services (`tracebraid serve`) that are connected to a NATS server. `list` shows them. "
	"`sql` runs a SELECT on the window of each host, where it is recorded, and combines the results: "
	"what sum, total, count, min, max, avg and GROUP BY find on all hosts is exact; what cannot be "
	"combined is refused. Rows that are not combined come as they are found, with their host. "
	"`analyze` shows the worst rows of an analysis, of all hosts. `top` shows the guests that lack "
	"most CPU time, again and again. "
	"`snapshot` has each host take a snapshot of its window: now, or with `--on` when a condition is met; `pull` fetches the last one of each "
	"into DIRECTORY/HOST/SNAPSHOT, and verifies it. `record` has hosts put what they record from now "
	"on into the server's store, which `store` makes; hosts whose configuration says so store their "
	"snapshots or all that they record. `tracebraid report nats://HOST:PORT/SNAPSHOT` reads them.\n"
	"Each host that is named, or has answered the first request, has a result, or a line on standard "
	"error with the reason why it has none. docs/fleet.md has the statements that can be combined, the server's "
	"configuration and its permissions.",
	.options = options, .least = 1, .most = 2,
	.status = "0 if all hosts have answered, 3 if some have not, 1 on error.",
	.expected = "list, sql STATEMENT, analyze NAME, top, snapshot, record, store or pull DIRECTORY",
	.operands = "list sql analyze top snapshot record store pull",
};

static void fleet_stop(int signal)
{
	braid_fleet_stopped = signal;
}

static void fleet_catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction action = { .sa_handler = fleet_stop, .sa_flags = SA_RESETHAND };
	size_t k;

	for (k = 0; k < sizeof(signals) / sizeof(*signals); k++)
		sigaction(signals[k], &action, NULL);
}

static int fleet_set(char to[BRAID_FLEET_PATH], const char *value)
{
	if (!value)
		return 0;
	if (strlen(value) >= BRAID_FLEET_PATH)
		return braid_fail(-ENAMETOOLONG, "'%s' is longer than %u characters", value,
				  BRAID_FLEET_PATH - 1);
	strcpy(to, value);
	return 0;
}

/* "-10m" as a walk takes it: in seconds. */
static int fleet_set_since(struct braid_fleet_command *f)
{
	static const char units[] = "smh";
	static const double seconds[] = { 1, 60, 3600 };
	const char *unit;
	double value;
	char *end;

	if (!f->since)
		return 0;
	value = strtod(f->since, &end);
	unit = *end ? strchr(units, *end) : units;
	if (!(value < 0) || !unit || (*end && end[1]))
		return braid_fail(-EINVAL, "--since=%s: expected a time before the end, such as -30s or -10m",
				  f->since);
	snprintf(f->since_s, sizeof(f->since_s), "%.3f", value * seconds[unit - units]);
	return 0;
}

/* What the command line has takes precedence over a configuration, which need not be there. */
static int fleet_configure(struct braid_fleet_command *f)
{
	static struct braid_conf conf;
	int err = 0;

	braid_conf_default(&conf);
	if (f->file || !access(BRAID_CONF_FILE, R_OK))
		err = braid_conf_read(&conf, f->file ?: BRAID_CONF_FILE);
	if (err)
		return err;
	f->conf = &conf.fleet;
	braid_rules_clear(&conf.rules);
	err = fleet_set(f->conf->server, f->server);
	if (!err)
		err = fleet_set(f->conf->credentials, f->credentials);
	if (!err)
		err = fleet_set(f->conf->ca, f->ca);
	if (!err)
		err = fleet_set(f->conf->inbox, f->inbox);
	return err ? err : fleet_set_since(f);
}

static int fleet_run(struct braid_fleet_command *f, const char *verb, const char *operand)
{
	static const char verbs[] = "list sql analyze top snapshot record store pull";
	struct braid_text_near near = { .word = verb };
	char list[BRAID_TEXT_LIST];

	if (!strcmp(verb, "list") && !operand)
		return braid_fleet_list(f);
	if (!strcmp(verb, "sql") && operand)
		return braid_fleet_sql(f, operand);
	if (!strcmp(verb, "snapshot") && !operand)
		return braid_fleet_snapshot(f);
	if (!strcmp(verb, "record") && !operand)
		return braid_fleet_record(f);
	if (!strcmp(verb, "store") && !operand)
		return braid_fleet_store(f);
	if (!strcmp(verb, "top") && !operand)
		return braid_fleet_top(f);
	if (!strcmp(verb, "pull") && operand)
		return braid_fleet_fetch(f, operand);
	if (!strcmp(verb, "analyze") && operand)
		return braid_fleet_analyze(f, operand);
	if (braid_text_one_of(verbs, verb) >= 0)
		return braid_fail(-EINVAL, operand ? "%s takes no operand" :
				  "%s needs an operand; 'tracebraid fleet --help' shows which", verb);
	braid_text_nearer(&near, "list");
	braid_text_nearer(&near, "analyze");
	braid_text_nearer(&near, "snapshot");
	return near.nearest ? braid_fail(-EINVAL, "unknown request '%s'; did you mean '%s'?", verb, near.nearest) :
	       braid_fail(-EINVAL, "unknown request '%s': expected %s", verb, braid_text_list(verbs, list));
}

int braid_cmd_fleet(int argc, char **argv)
{
	struct braid_fleet_client client = { 0 };
	struct braid_fleet_command f = {
		.top = 20, .rows = 100000, .seconds = 30, .timeout = 2, .client = &client,
		.every = 2,
	};
	int err = braid_options_parse(&braid_command_fleet, &f, argc, argv);
	size_t lacks;

	if (err)
		return braid_options_exit(err);
	fleet_catch_signals();
	if (f.json && f.csv)
		err = braid_fail(-EINVAL, "--json cannot be combined with --csv");
	if (!err)
		err = fleet_configure(&f);
	if (!err)
		err = fleet_run(&f, argv[optind], argv[optind + 1]);
	if (err && err != -EPIPE)
		braid_complain();
	lacks = f.lists ? f.lacks : braid_fleet_command_lacks(&client);
	braid_fleet_client_close(&client);
	return err && err != -EPIPE ? EXIT_FAILURE : lacks ? BRAID_EXIT_LACKS : EXIT_SUCCESS;
}

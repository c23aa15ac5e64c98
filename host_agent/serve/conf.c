// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads the configuration, by libinih. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INI_HANDLER_LINENO 1	/* both Debian releases build the library so */
#include <ini.h>

#include "host_agent/serve/conf.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define LEAST_WINDOW	(2u << 20)

/* Values ------------------------------------------------------------------------------------ */

static int conf_take_text(void *to, const char *value)
{
	if (strlen(value) >= BRAID_CONF_PATH)
		return braid_fail(-ENAMETOOLONG, "more than %u characters", BRAID_CONF_PATH - 1);
	strcpy(to, value);
	return 0;
}

/* Further lines add to the first: the library reads up to 200 characters of each. */
static int conf_take_guests(void *to, const char *value)
{
	size_t used = strlen(to);

	if (used + strlen(value) + 2 > BRAID_CONF_GUESTS)
		return braid_fail(-ENAMETOOLONG, "more than %u characters", BRAID_CONF_GUESTS - 1);
	sprintf((char *)to + used, "%s%s", used ? " " : "", value);
	return 0;
}

static int conf_take_path(void *to, const char *value)
{
	if (*value && *value != '/')
		return braid_fail(-EINVAL, "'%s': expected a path that begins with '/'", value);
	return conf_take_text(to, value);
}

static int conf_take_name(void *to, const char *value)
{
	if (!braid_fleet_name_is_valid(value))
		return braid_fail(-EINVAL, "'%s': expected a name of letters, digits, '-' and '_'", value);
	return conf_take_text(to, value);
}

static int conf_take_server(void *to, const char *value)
{
	if (strncmp(value, "nats://", 7) && strncmp(value, "tls://", 6))
		return braid_fail(-EINVAL, "'%s': expected nats://HOST:PORT or tls://HOST:PORT", value);
	return conf_take_text(to, value);
}

static int conf_take_size(void *to, const char *value)
{
	if (!strcmp(value, "0")) {
		*(u64 *)to = 0;
		return 0;
	}
	return braid_text_size(value, 1, to) ? 0 :
	       braid_fail(-EINVAL, "'%s': expected a size such as 64M or 1G", value);
}

static int conf_take_window(void *to, const char *value)
{
	int err = conf_take_size(to, value);

	return err ? err : *(u64 *)to >= LEAST_WINDOW ? 0 :
	       braid_fail(-EINVAL, "'%s': expected at least 2M", value);
}

static int conf_take_time(void *to, const char *value)
{
	static const struct { const char *unit; double ns; } units[] = {
		{ "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "m", 60e9 }, { "h", 3600e9 },
		{ "d", 86400e9 },
	};
	char *end;
	double number = strtod(value, &end);
	size_t k, nr = sizeof(units) / sizeof(*units);

	for (k = 0; k < nr && strcmp(end, units[k].unit); k++)
		;
	if (end == value || k == nr || !(number >= 0 && number * units[k].ns < 1e18))
		return braid_fail(-EINVAL, "'%s': expected a time such as 500ms, 10s, 5m, 1h or 7d", value);
	*(u64 *)to = number * units[k].ns;
	return 0;
}

static int conf_take_number(void *to, const char *value)
{
	char *end;
	unsigned long long number = strtoull(value, &end, 10);

	if (end == value || *end || *value == '-' || number < 1 || number > 1024)
		return braid_fail(-EINVAL, "'%s': expected a number from 1 to 1024", value);
	*(u64 *)to = number;
	return 0;
}

static int conf_take_rate(void *to, const char *value)
{
	u64 number = 0;

	if (conf_take_number(&number, value) || number > 1000)
		return braid_fail(-EINVAL, "'%s': expected a number from 1 to 1000", value);
	*(u64 *)to = number;
	return 0;
}

static int conf_take_streams(void *to, const char *value)
{
	static const char words[] = "nothing asked all";	/* as enum braid_fleet_streams */
	int k = braid_text_one_of(words, value);
	char list[BRAID_TEXT_LIST];

	if (k < 0)
		return braid_fail(-EINVAL, "'%s': expected %s", value, braid_text_list(words, list));
	*(enum braid_fleet_streams *)to = k;
	return 0;
}

int braid_conf_choose(struct braid_conf_chosen *chosen, const char *option, const char *value,
		      int line)
{
	char *word = chosen->words[chosen->nr];

	if (chosen->nr == BRAID_CONF_WORDS)
		return braid_fail(-ENOSPC, "more than %u settings select what guests record",
				  BRAID_CONF_WORDS);
	if (value && strlen(value) >= BRAID_CONF_PATH)
		return braid_fail(-ENAMETOOLONG, "more than %u characters", BRAID_CONF_PATH - 1);
	snprintf(word, BRAID_CONF_WORD, "--%s%s%s", option, value ? "=" : "", value ? value : "");
	chosen->lines[chosen->nr++] = line;
	return 0;
}

int braid_conf_add_triggers(struct braid_conf *conf)
{
	static const char option[] = "--trigger=";
	struct braid_rule rule;
	u32 number = 0;
	size_t k;
	int err = 0;

	for (k = 0; k < conf->chosen.nr && !err; k++) {
		const char *word = conf->chosen.words[k];

		if (strncmp(word, option, strlen(option)))
			continue;
		braid_rule_trigger(&rule, word + strlen(option), number++);
		err = braid_rules_add(&conf->rules, &rule);
	}
	return err;
}

/* Settings of [record] that the recorder gets as options, and checks. */
static const struct conf_choice {
	const char *name, *option;
	bool flag;
} conf_choices[] = {
	{ "events", "event", false }, { "filter", "filter", false },
	{ "kprobe", "kprobe", false }, { "uprobe", "uprobe", false }, { "pid", "pid", false },
	{ "children", "children", true }, { "cgroup", "cgroup", false },
	{ "comm", "comm", false }, { "cpus", "cpus", false }, { "trigger", "trigger", false },
	{ "sample", "sample", false },
	{ "stacks", "stacks", true },
	{ "user-stacks", "user-stacks", true },
};

#define NR_CHOICES	(sizeof(conf_choices) / sizeof(*conf_choices))

static const struct conf_key {
	const char *section, *name;
	int (*take)(void *to, const char *value);
	size_t at;
} conf_keys[] = {
	{ "record", "host-events", conf_take_text, offsetof(struct braid_conf, host_events) },
	{ "record", "guests", conf_take_guests, offsetof(struct braid_conf, guests) },
	{ "record", "peers", conf_take_guests, offsetof(struct braid_conf, peers) },
	{ "record", "peer-listen", conf_take_text, offsetof(struct braid_conf, peer_listen) },
	{ "record", "peer-rate", conf_take_rate, offsetof(struct braid_conf, peer_rate) },
	{ "record", "window", conf_take_window, offsetof(struct braid_conf, window_bytes) },
	{ "record", "window-time", conf_take_time, offsetof(struct braid_conf, window_ns) },
	{ "metrics", "listen", NULL, 0 },	/* may be repeated */
	{ "metrics", "culprits", conf_take_number, offsetof(struct braid_conf, culprits) },
	{ "snapshots", "directory", conf_take_path, offsetof(struct braid_conf, directory) },
	{ "snapshots", "hook", conf_take_path, offsetof(struct braid_conf, hook) },
	{ "snapshots", "max-size", conf_take_size, offsetof(struct braid_conf, max_bytes) },
	{ "snapshots", "max-age", conf_take_time, offsetof(struct braid_conf, max_age_ns) },
	{ "snapshots", "apart", conf_take_time, offsetof(struct braid_conf, apart_ns) },
	{ "fleet", "server", conf_take_server, offsetof(struct braid_conf, fleet.server) },
	{ "fleet", "name", conf_take_name, offsetof(struct braid_conf, fleet.name) },
	{ "fleet", "credentials", conf_take_path, offsetof(struct braid_conf, fleet.credentials) },
	{ "fleet", "ca", conf_take_path, offsetof(struct braid_conf, fleet.ca) },
	{ "fleet", "inbox", conf_take_text, offsetof(struct braid_conf, fleet.inbox) },
	{ "fleet", "hosts", conf_take_guests, offsetof(struct braid_conf, fleet.hosts) },
	{ "fleet", "join", conf_take_text, offsetof(struct braid_conf, fleet.join) },
	{ "fleet", "stream", conf_take_streams, offsetof(struct braid_conf, fleet.streams) },
	{ "fleet", "stream-space", conf_take_size, offsetof(struct braid_conf, fleet.stream_bytes) },
	{ "fleet", "stream-sync", conf_take_time, offsetof(struct braid_conf, fleet.stream_sync_ns) },
	{ "watch", "when", NULL, 0 },		/* likewise */
};

#define NR_KEYS		(sizeof(conf_keys) / sizeof(*conf_keys))

/* Lines ------------------------------------------------------------------------------------- */

struct conf_reading {
	struct braid_conf *conf;
	const char *name;
	int line;		/* of the error; 0: none yet */
	int err;
	char failure[512];
};

/* "watch", and the glob after it. */
static size_t conf_section(const char *section, const char **glob)
{
	size_t n = strcspn(section, " \t");

	*glob = section[n] ? section + n + strspn(section + n, " \t") : "*";
	return n;
}

static int conf_unknown(const char *section, size_t bytes, const char *name)
{
	struct braid_text_near key = { .word = name }, near_section = { 0 };
	char word[64];
	bool known = false;
	size_t k;

	snprintf(word, sizeof(word), "%.*s", (int)bytes, section);
	near_section.word = word;
	for (k = 0; k < NR_KEYS; k++) {
		braid_text_nearer(&near_section, conf_keys[k].section);
		if (strcmp(conf_keys[k].section, word))
			continue;
		known = true;
		braid_text_nearer(&key, conf_keys[k].name);
	}
	for (k = 0; k < NR_CHOICES && !strcmp(word, "record"); k++)
		braid_text_nearer(&key, conf_choices[k].name);
	if (known && key.nearest)
		return braid_fail(-EINVAL, "unknown setting '%s' in [%s]; did you mean '%s'?", name, word,
				  key.nearest);
	if (known)
		return braid_fail(-EINVAL, "unknown setting '%s' in [%s]", name, word);
	if (!*word)
		return braid_fail(-EINVAL, "'%s' is not in a section; begin one, as in '[record]'", name);
	if (near_section.nearest)
		return braid_fail(-EINVAL, "unknown section [%s]; did you mean [%s]?", word,
				  near_section.nearest);
	return braid_fail(-EINVAL, "unknown section [%s]; there are [record], [metrics], [snapshots], [fleet] and [watch]",
			  word);
}

static int conf_take_listen(struct braid_conf *conf, const char *value)
{
	if (conf->nr_listens == BRAID_CONF_LISTENS)
		return braid_fail(-ENOSPC, "more than %u addresses", BRAID_CONF_LISTENS);
	return conf_take_text(conf->listens[conf->nr_listens++], value);
}

static const struct conf_choice *conf_choice(const char *section, size_t bytes, const char *name)
{
	const struct conf_choice *c = conf_choices, *end = c + NR_CHOICES;

	if (bytes != strlen("record") || memcmp(section, "record", bytes))
		return NULL;
	while (c < end && strcmp(c->name, name))
		c++;
	return c < end ? c : NULL;
}

static int conf_take_choice(struct braid_conf_chosen *chosen, const struct conf_choice *c,
			    const char *value, int line)
{
	if (!c->flag)
		return braid_conf_choose(chosen, c->option, value, line);
	if (!strcmp(value, "no"))
		return 0;
	return strcmp(value, "yes") ? braid_fail(-EINVAL, "'%s': expected yes or no", value) :
				      braid_conf_choose(chosen, c->option, NULL, line);
}

static int conf_take(struct braid_conf *conf, const char *section, const char *name,
		     const char *value, int line)
{
	struct braid_rule rule;
	const char *glob;
	size_t bytes = conf_section(section, &glob), k;
	const struct conf_choice *choice = conf_choice(section, bytes, name);
	int err;

	for (k = 0; k < NR_KEYS; k++)
		if (strlen(conf_keys[k].section) == bytes &&
		    !memcmp(conf_keys[k].section, section, bytes) &&
		    !strcmp(conf_keys[k].name, name))
			break;
	if (k == NR_KEYS && !choice)
		return conf_unknown(section, bytes, name);
	if (section[bytes] && (choice || strcmp(conf_keys[k].section, "watch")))
		return braid_fail(-EINVAL, "[%s]: only [watch] can have a pattern of guests", section);
	if (choice)
		return conf_take_choice(&conf->chosen, choice, value, line);
	if (conf_keys[k].take)
		return conf_keys[k].take((char *)conf + conf_keys[k].at, value);
	if (!strcmp(name, "listen"))
		return conf_take_listen(conf, value);
	err = braid_rule_parse(&rule, value, glob);
	return err ? err : braid_rules_add(&conf->rules, &rule);
}

static int conf_handle(void *arg, const char *section, const char *name, const char *value,
		       int line)
{
	struct conf_reading *r = arg;

	if (r->err)
		return 1;	/* the first one is reported */
	r->err = conf_take(r->conf, section, name, value, line);
	if (!r->err)
		return 1;
	r->line = line;
	snprintf(r->failure, sizeof(r->failure), "%s", braid_failure());
	return 1;
}

void braid_conf_default(struct braid_conf *conf)
{
	*conf = (struct braid_conf){
		.window_bytes = 16u << 20, .window_ns = 60000000000ULL, .culprits = 32,
		.max_bytes = 1u << 30, .max_age_ns = 7 * 86400000000000ULL,
		.apart_ns = 60000000000ULL,
		.fleet = { .stream_bytes = 64u << 20, .stream_sync_ns = 120000000000ULL },
	};
}

int braid_conf_parse(struct braid_conf *conf, const char *text, const char *name)
{
	struct conf_reading r = { .conf = conf, .name = name };
	int line;

	braid_conf_default(conf);
	line = ini_parse_string(text, conf_handle, &r);
	/* The first invalid line is reported, whether the library or a setting refused it. */
	if (line > 0 && (!r.err || line < r.line))
		r.err = braid_fail(-EINVAL, "%s:%d: not a valid line; expected '[section]' or 'setting = value'",
				   name, line);
	else if (r.err)
		braid_fail(r.err, "%s:%d: %s", name, r.line, r.failure);
	else if (line < 0)
		r.err = braid_out_of_memory();
	else
		r.err = braid_conf_add_triggers(conf);
	if (r.err)
		braid_rules_clear(&conf->rules);
	return r.err;
}

int braid_conf_text(char **text, const char *path)
{
	braid_auto_free char *all = malloc(BRAID_CONF_BYTES);
	FILE *f = all ? fopen(path, "re") : NULL;
	bool failed;
	size_t n;

	if (!all)
		return braid_out_of_memory();
	if (!f)
		return braid_fail(-errno, "%s: %s", path, strerror(errno));
	n = fread(all, 1, BRAID_CONF_BYTES - 1, f);
	failed = ferror(f);
	fclose(f);
	if (failed)
		return braid_fail(-EIO, "%s: cannot be read", path);
	if (n == BRAID_CONF_BYTES - 1)
		return braid_fail(-EFBIG, "%s: more than 64 KiB", path);
	all[n] = 0;
	*text = braid_take(all);
	return 0;
}

int braid_conf_read(struct braid_conf *conf, const char *path)
{
	braid_auto_free char *text = NULL;
	int err = braid_conf_text(&text, path);

	return err ? err : braid_conf_parse(conf, text, path);
}

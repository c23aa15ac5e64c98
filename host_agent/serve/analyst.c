// SPDX-License-Identifier: GPL-2.0-or-later
/* Follows the recording's files, one after the other. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/online/metrics.h"
#include "host_agent/serve/analyst.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define TURN_MS		50	/* of sleep between two looks at the file */
#define ALIVE_NS	500000000ULL
#define NR_PROCESSES	5u	/* of ours, in the metrics */
#define AT_ONCE		64u	/* turns of one file, before requests are answered */

struct analyst_watch {
	u32 number;		/* 0: none */
	struct braid_rules rules;	/* one */
};

struct analyst {
	const struct braid_analyst_options *o;
	struct braid_online *online;
	u32 number;		/* of the file that is followed, or was last; 0: none yet */
	bool follows;
	struct analyst_watch watches[BRAID_ANALYST_MOST_WATCHES];
	u32 watch;		/* whose rules are checked now; 0: the configuration's */
	u64 skipped;		/* files that were removed before they were read */
	u64 fired;		/* times that a rule began to hold */
	struct braid_analyst_news news;	/* of the service */
	pid_t service;
	u64 alive_ns;		/* when it was last said */
	bool over;
};

u32 braid_analyst_number(const char *name)
{
	unsigned int number;
	int n = 0;

	return sscanf(name, "window-%u.braid%n", &number, &n) == 1 && n && !name[n] ? number : 0;
}

/* The number of the first file after @number; 0: no such file. */
static u32 analyst_after(const char *directory, u32 number)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	u32 next = 0, one;

	while (dir && (entry = readdir(dir))) {
		one = braid_analyst_number(entry->d_name);
		if (one > number && (!next || one < next))
			next = one;
	}
	if (dir)
		closedir(dir);
	return next;
}

static void analyst_open(struct analyst *a)
{
	u32 next = analyst_after(a->o->directory, a->number);
	char path[PATH_MAX];

	if (!next)
		return;
	if (a->number)
		a->skipped += next - a->number - 1;
	a->number = next;
	snprintf(path, sizeof(path), "%s/window-%u.braid", a->o->directory, next);
	a->follows = !braid_online_open(a->online, path);
}

/* Takes what there is, for a bounded time. A file that fails is counted, and left. */
static void analyst_follow(struct analyst *a)
{
	int ret = 1;
	u32 k;

	for (k = 0; k < AT_ONCE && ret == 1; k++)
		ret = braid_online_turn(a->online, false);
	/* Its recorder was killed: there is no end. */
	if (!ret && analyst_after(a->o->directory, a->number))
		ret = braid_online_turn(a->online, true);
	if (ret == BRAID_ONLINE_END || ret < 0)
		a->follows = false;
}

void braid_analyst_clean(struct braid_analyst_message *m)
{
	m->guest[sizeof(m->guest) - 1] = m->rule[sizeof(m->rule) - 1] = 0;
	m->what[sizeof(m->what) - 1] = m->line[sizeof(m->line) - 1] = 0;
	braid_text_clean(m->guest);
	braid_text_clean(m->rule);
	braid_text_clean(m->what);
	braid_text_clean(m->line);
}

/* The service ------------------------------------------------------------------------------- */

static void analyst_send(const struct analyst *a, const struct braid_analyst_message *m)
{
	/* One that is too slow gets no more; that it ended is seen by its end of the socket. */
	send(a->o->fd, m, sizeof(*m), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void analyst_fire(void *arg, const struct braid_rule *rule,
			 const struct braid_online_guest *guest, const char *line)
{
	struct analyst *a = arg;
	struct braid_analyst_message m = {
		.kind = BRAID_ANALYST_FIRED, .host_ns = braid_online_totals(a->online)->now_ns,
	};

	m.watch = a->watch;
	snprintf(m.guest, sizeof(m.guest), "%s", guest->name);
	snprintf(m.rule, sizeof(m.rule), "%s", rule->text);
	snprintf(m.what, sizeof(m.what), "%s", braid_rule_name(rule->what));
	snprintf(m.line, sizeof(m.line), "%s", line);
	a->fired += !a->watch;
	analyst_send(a, &m);
}

/* Return: 0, or -ENOMEM with braid_fail(). */
static int analyst_check_rules(struct analyst *a, struct braid_rules *rules)
{
	const struct braid_online_guest *const *guests;
	struct braid_rule_guest g = { .now_ns = braid_online_totals(a->online)->now_ns };
	size_t nr, k;
	int err = 0;

	guests = braid_online_guests(a->online, &nr);
	for (k = 0; k < nr && g.now_ns && !err; k++) {
		g.guest = guests[k];
		g.silent_ns = braid_online_silent_ns(a->online, g.guest);
		g.wake_up_ns = braid_online_wakeup_ns(a->online, g.guest);
		err = braid_rules_check(rules, &g, analyst_fire, a);
	}
	braid_rules_forget(rules);
	return err;
}

/* Likewise. */
static int analyst_check(struct analyst *a)
{
	int err = analyst_check_rules(a, &a->o->conf->rules);
	size_t k;

	for (k = 0; k < BRAID_ANALYST_MOST_WATCHES && !err; k++) {
		a->watch = a->watches[k].number;
		err = a->watch ? analyst_check_rules(a, &a->watches[k].rules) : 0;
	}
	a->watch = 0;
	braid_online_look_again(a->online);
	return err;
}

static void analyst_clear_rules(struct analyst *a, struct braid_rules *rules)
{
	size_t k;

	for (k = 0; k < rules->nr; k++)
		if (braid_rule_is_event(&rules->items[k]))
			braid_online_unwatch(a->online, rules->items[k].watched);
	braid_rules_clear(rules);
}

/* Counts their events from now on. Return: 0; or -errno with braid_fail(): they are cleared. */
static int analyst_begin_rules(struct analyst *a, struct braid_rules *rules)
{
	struct braid_rule *rule;
	size_t k;
	int err = 0;

	for (k = 0; k < rules->nr && !err; k++) {
		rule = &rules->items[k];
		if (braid_rule_is_event(rule))
			err = braid_online_watch(a->online, rule->event, rule->filter,
						 &rule->watched);
	}
	if (err) {
		rules->nr = k - 1;
		analyst_clear_rules(a, rules);
	}
	return err;
}

/* The service has as many of them at most. */
static void analyst_take_watch(struct analyst *a, const struct braid_analyst_watch *from)
{
	const struct braid_analyst_message m = {
		.kind = BRAID_ANALYST_WATCHES, .watch = from->number,
	};
	struct analyst_watch *w = a->watches, *end = w + BRAID_ANALYST_MOST_WATCHES;
	u32 number = from->over ? from->number : 0;
	struct braid_rule rule;

	while (w < end && w->number != number)
		w++;
	if (w == end)
		return;
	analyst_clear_rules(a, &w->rules);
	w->number = 0;
	if (from->over || braid_rule_parse(&rule, from->text, from->guests) ||
	    braid_rules_add(&w->rules, &rule) || analyst_begin_rules(a, &w->rules))
		return;
	w->number = from->number;
	analyst_send(a, &m);
}

/* The rules of another configuration; it was found valid already. */
static void analyst_take_conf(struct analyst *a, const char *text)
{
	struct braid_conf conf;

	if (braid_conf_parse(&conf, text, "configuration"))
		return;
	analyst_clear_rules(a, &a->o->conf->rules);
	a->o->conf->rules = conf.rules;
	if (analyst_begin_rules(a, &a->o->conf->rules))
		a->over = true;
}

static void analyst_listen(struct analyst *a)
{
	static union {
		struct braid_analyst_news news;
		struct braid_analyst_watch watch;
		char text[BRAID_CONF_BYTES];
	} from;
	ssize_t n = recv(a->o->fd, &from, sizeof(from) - 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	a->over = n <= 0;
	if (n == sizeof(from.news) && from.news.magic == BRAID_ANALYST_NEWS) {
		a->news = from.news;
	} else if (n == sizeof(from.watch) && from.watch.magic == BRAID_ANALYST_WATCH) {
		analyst_take_watch(a, &from.watch);
	} else if (n > 0) {
		from.text[n] = 0;
		analyst_take_conf(a, from.text);
	}
}

/* Turns ------------------------------------------------------------------------------------- */

/* CPU time and memory of a process, as /proc has them. Return: whether it is there. */
static bool analyst_usage(pid_t pid, u64 *cpu_ns, u64 *bytes)
{
	unsigned long long user, system;
	long rss, tick = sysconf(_SC_CLK_TCK);
	char path[32];
	FILE *f;
	int got;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = pid > 0 ? fopen(path, "re") : NULL;
	if (!f)
		return false;
	got = fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %*u %*u %ld",
		     &user, &system, &rss);
	fclose(f);
	if (got != 3 || tick <= 0)
		return false;
	*cpu_ns = (user + system) * (1000000000ULL / tick);
	*bytes = (u64)rss * sysconf(_SC_PAGESIZE);
	return true;
}

static void analyst_write_processes(const struct analyst *a, struct braid_exposition *e)
{
	static const char *const names[] = { "analyst", "fleet", "recorder", "service", "store" };
	const pid_t pids[] = {
		getpid(), a->news.fleet, a->news.recorder, a->service, a->news.store,
	};
	u64 cpu_ns[NR_PROCESSES], bytes[NR_PROCESSES];
	bool there[NR_PROCESSES];
	size_t k;

	for (k = 0; k < NR_PROCESSES; k++)
		there[k] = analyst_usage(pids[k], &cpu_ns[k], &bytes[k]);
	braid_exposition_family(e, "tracebraid_process_cpu_seconds", BRAID_COUNTER,
				"CPU time of a process of tracebraid.");
	for (k = 0; k < NR_PROCESSES; k++) {
		if (!there[k])
			continue;
		braid_exposition_sample(e);
		braid_exposition_label(e, "process", names[k]);
		braid_exposition_ns(e, cpu_ns[k]);
	}
	braid_exposition_family(e, "tracebraid_process_resident_bytes", BRAID_GAUGE,
				"Memory of a process of tracebraid.");
	for (k = 0; k < NR_PROCESSES; k++) {
		if (!there[k])
			continue;
		braid_exposition_sample(e);
		braid_exposition_label(e, "process", names[k]);
		braid_exposition_number(e, bytes[k]);
	}
}

static void analyst_write_store(const struct analyst *a, struct braid_exposition *e)
{
	braid_exposition_family(e, "tracebraid_store_stored_bytes", BRAID_COUNTER,
				"Captures that were put into the fleet's store.");
	braid_exposition_sample(e);
	braid_exposition_number(e, a->news.stored);
	braid_exposition_family(e, "tracebraid_store_lost_bytes", BRAID_COUNTER,
				"Captures that were lost before they could be stored, at most.");
	braid_exposition_sample(e);
	braid_exposition_number(e, a->news.lost);
	braid_exposition_family(e, "tracebraid_store_waiting_bytes", BRAID_GAUGE,
				"Captures that are not stored yet.");
	braid_exposition_sample(e);
	braid_exposition_number(e, a->news.waiting);
}

static void analyst_write(void *arg, enum braid_exposition_form form, struct braid_text *out)
{
	struct braid_exposition e = { .out = out, .form = form };
	const struct analyst *a = arg;

	braid_online_metrics(a->online, &e);
	braid_exposition_family(&e, "tracebraid_captures_skipped", BRAID_COUNTER,
				"Captures that were removed before they were analyzed.");
	braid_exposition_sample(&e);
	braid_exposition_number(&e, a->skipped);
	braid_exposition_family(&e, "tracebraid_alarms", BRAID_COUNTER,
				"Conditions that began to hold.");
	braid_exposition_sample(&e);
	braid_exposition_number(&e, a->fired);
	braid_exposition_family(&e, "tracebraid_snapshots", BRAID_COUNTER,
				"Snapshots that were taken.");
	braid_exposition_sample(&e);
	braid_exposition_number(&e, a->news.snapshots);
	if (a->news.streams)
		analyst_write_store(a, &e);
	analyst_write_processes(a, &e);
	braid_exposition_end(&e);
}

static int analyst_turn(struct analyst *a)
{
	struct braid_analyst_message alive = {
		.kind = BRAID_ANALYST_ALIVE, .records = a->number,
	};
	size_t guests;
	struct pollfd fds[BRAID_CONF_LISTENS + 1];
	size_t nr = braid_exporter_fds(a->o->exporter, fds);
	u64 now_ns = braid_monotonic_ns();
	int err;

	if (!a->follows)
		analyst_open(a);
	if (a->follows)
		analyst_follow(a);
	err = analyst_check(a);
	if (err)
		return err;
	if (now_ns - a->alive_ns >= ALIVE_NS) {
		braid_online_guests(a->online, &guests);
		alive.guests = guests;
		analyst_send(a, &alive);
		a->alive_ns = now_ns;
	}
	fds[nr++] = (struct pollfd){ .fd = a->o->fd, .events = POLLIN };
	poll(fds, nr, TURN_MS);
	if (fds[nr - 1].revents)
		analyst_listen(a);
	braid_exporter_turn(a->o->exporter);
	return 0;
}

int braid_analyst_run(const struct braid_analyst_options *o)
{
	const struct braid_online_options options = { .max_culprits = o->conf->culprits };
	struct analyst a = { .o = o, .service = getppid() };
	int err = braid_online_begin(&a.online, &options);
	size_t k;

	if (!err)
		err = analyst_begin_rules(&a, &o->conf->rules);
	if (!err)
		err = o->confine();
	if (!err)
		err = braid_exporter_start(o->exporter, analyst_write, &a);
	while (!err && !a.over)
		err = analyst_turn(&a);
	for (k = 0; k < BRAID_ANALYST_MOST_WATCHES; k++)
		braid_rules_clear(&a.watches[k].rules);
	braid_exporter_close(o->exporter);
	braid_online_end(a.online);
	return err;
}

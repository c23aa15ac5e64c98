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

#include "host_agent/serve/analyst.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define TURN_MS		50	/* of sleep between two looks at the file */
#define ALIVE_NS	500000000ULL
#define AT_ONCE		64u	/* turns of one file, before requests are answered */

struct analyst {
	const struct braid_analyst_options *o;
	struct braid_online *online;
	u32 number;		/* of the file that is followed, or was last; 0: none yet */
	bool follows;
	u64 skipped;		/* files that were removed before they were read */
	u64 alive_ns;		/* when it was last said */
	bool over;
};

u32 braid_analyst_number(const char *name)
{
	unsigned int number;
	int n = 0;

	return sscanf(name, "window-%u.braid%n", &number, &n) == 1 && n && !name[n] ? number : 0;
}

/* The first file after a number; 0: there is none. */
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
	bool later = analyst_after(a->o->directory, a->number);
	int ret = 1;
	u32 k;

	for (k = 0; k < AT_ONCE && ret == 1; k++)
		ret = braid_online_turn(a->online, false);
	/* Its recorder was killed: there is no end. */
	if (!ret && later)
		ret = braid_online_turn(a->online, true);
	if (ret == BRAID_ONLINE_END || ret < 0)
		a->follows = false;
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

	snprintf(m.guest, sizeof(m.guest), "%s", guest->name);
	snprintf(m.rule, sizeof(m.rule), "%s", rule->text);
	snprintf(m.what, sizeof(m.what), "%s", braid_rule_name(rule->what));
	snprintf(m.line, sizeof(m.line), "%s", line);
	analyst_send(a, &m);
}

/* Return: 0, or -ENOMEM with braid_fail(). */
static int analyst_check(struct analyst *a)
{
	const struct braid_online_guest *const *guests;
	struct braid_rules *rules = &a->o->conf->rules;
	struct braid_rule_guest g = { .now_ns = braid_online_totals(a->online)->now_ns };
	size_t nr, k;
	int err = 0;

	guests = braid_online_guests(a->online, &nr);
	for (k = 0; k < nr && g.now_ns && !err; k++) {
		g.guest = guests[k];
		g.silent_ns = braid_online_silent_ns(a->online, g.guest);
		g.wake_up_ns = braid_online_worst_ns(a->online, &g.guest->wakeups);
		err = braid_rules_check(rules, &g, analyst_fire, a);
	}
	braid_rules_forget(rules);
	return err;
}

/* The rules of another configuration; it was found valid already. */
static void analyst_take_conf(struct analyst *a)
{
	static char text[BRAID_ANALYST_CONF_BYTES];
	struct braid_conf conf;
	ssize_t n = recv(a->o->fd, text, sizeof(text) - 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	a->over = n <= 0;
	text[n > 0 ? n : 0] = 0;
	if (a->over || braid_conf_parse(&conf, text, "configuration"))
		return;
	braid_rules_clear(&a->o->conf->rules);
	a->o->conf->rules = conf.rules;
}

/* Turns ------------------------------------------------------------------------------------- */

static void analyst_write(void *arg, bool open, struct braid_text *out)
{
	(void)arg;
	(void)open;
	braid_text_puts(out, "# later\n");
}

static int analyst_turn(struct analyst *a)
{
	struct braid_analyst_message alive = {
		.kind = BRAID_ANALYST_ALIVE, .records = a->number,
	};
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
		analyst_send(a, &alive);
		a->alive_ns = now_ns;
	}
	fds[nr++] = (struct pollfd){ .fd = a->o->fd, .events = POLLIN };
	poll(fds, nr, TURN_MS);
	if (fds[nr - 1].revents)
		analyst_take_conf(a);
	braid_exporter_turn(a->o->exporter);
	return 0;
}

int braid_analyst_run(const struct braid_analyst_options *o)
{
	const struct braid_online_options options = { .max_culprits = o->conf->culprits };
	struct analyst a = { .o = o };
	int err = braid_online_begin(&a.online, &options);

	if (!err)
		err = o->confine();
	if (!err)
		err = braid_exporter_start(o->exporter, analyst_write, &a);
	while (!err && !a.over)
		err = analyst_turn(&a);
	braid_exporter_close(o->exporter);
	braid_online_end(a.online);
	return err;
}

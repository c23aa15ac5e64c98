// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes snapshots, a process for each. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <signal.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/serve/journal.h"
#include "host_agent/serve/shots.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

static bool shots_stores(const struct braid_shots *s)
{
	return *s->stream->run;
}

/* Never returns. */
static void shots_become(const struct braid_shots *s, const struct braid_analyst_message *m,
			 const char *name, int out, pid_t recorder)
{
	const struct braid_snapshot snapshot = {
		.conf = s->conf, .window = s->window, .recorder = recorder, .why = m,
		.program = s->program, .out = out, .stream = shots_stores(s) ? s->stream : NULL,
		.name = name,
	};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (braid_snapshot_take(&snapshot)) {
		braid_journal_say(LOG_ERR, braid_failure(), NULL);
		_exit(EXIT_FAILURE);
	}
	_exit(EXIT_SUCCESS);
}

/* Return: 0, or -errno with braid_fail(). */
static int shots_take(struct braid_shots *s, const struct braid_analyst_message *m,
		      const char *name, int out, pid_t recorder)
{
	s->began_ns = braid_monotonic_ns();
	fflush(NULL);
	s->pid = fork();
	if (!s->pid)
		shots_become(s, m, name, out, recorder);
	if (s->pid > 0)
		return 0;
	s->pid = 0;
	return braid_fail(-errno, "no snapshot is taken: no process can be made: %s", strerror(errno));
}

void braid_shots_name(const char *asked, char name[BRAID_FLEET_NAME])
{
	time_t now = time(NULL);
	u32 number = 0;
	struct tm tm;
	size_t n;

	if (braid_fleet_name_is_valid(asked)) {
		strcpy(name, asked);
		return;
	}
	gmtime_r(&now, &tm);
	n = strftime(name, BRAID_FLEET_NAME, "%Y%m%dT%H%M%SZ", &tm);
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = braid_monotonic_ns();
	snprintf(name + n, BRAID_FLEET_NAME - n, "-%08x", number);
}

void braid_shots_alarm(struct braid_shots *s, const struct braid_analyst_message *m,
		       const char *name, pid_t recorder)
{
	u64 now_ns = braid_monotonic_ns();
	char line[128];

	if (!*s->conf->directory && !*s->conf->hook && !shots_stores(s))
		return;
	if (s->pid || (s->began_ns && now_ns - s->began_ns < s->conf->apart_ns)) {
		s->suppressed++;
		return;
	}
	if (s->suppressed) {
		snprintf(line, sizeof(line), "no snapshot was taken of %llu alarms: the one before was not complete, or less than %g s old",
			 (unsigned long long)s->suppressed, s->conf->apart_ns / 1e9);
		braid_journal_say(LOG_NOTICE, line, NULL);
	}
	s->suppressed = 0;
	if (shots_take(s, m, name, -1, recorder))
		braid_journal_say(LOG_ERR, braid_failure(), NULL);
}

int braid_shots_can(const struct braid_shots *s)
{
	return *s->conf->directory || shots_stores(s) ? 0 :
	       braid_fail(-ENOENT, "no directory for snapshots is configured");
}

int braid_shots_watch(struct braid_shots *s, const struct braid_analyst_message *m,
		      const char *name, u32 number, int out, pid_t recorder)
{
	int err = braid_shots_can(s);

	if (!err && s->pid)
		err = braid_fail(-EBUSY, "a snapshot is being taken; try again");
	if (!err)
		err = shots_take(s, m, name, out, recorder);
	if (!err)
		s->asked = number;
	return err;
}

int braid_shots_ask(struct braid_shots *s, const struct braid_fleet_ask *ask, int out,
		    pid_t recorder)
{
	struct braid_analyst_message m = { .guest = "fleet" };
	char name[BRAID_FLEET_NAME];

	snprintf(m.what, sizeof(m.what), "%s", ask->number ? "asked" : "joined");
	snprintf(m.line, sizeof(m.line), "%.*s", (int)sizeof(m.line) - 1, ask->text);
	braid_shots_name(ask->name, name);
	if (!ask->number) {
		braid_shots_alarm(s, &m, name, recorder);
		return 0;
	}
	return braid_shots_watch(s, &m, name, ask->number, out, recorder);
}

int braid_shots_record(const struct braid_shots *s, const struct braid_fleet_ask *ask, int out,
		       pid_t recorder)
{
	char name[BRAID_FLEET_NAME];
	const struct braid_snapshot snapshot = {
		.window = s->window, .recorder = recorder, .out = out, .stream = s->stream,
		.name = name,
	};

	braid_shots_name(ask->name, name);
	return braid_snapshot_record(&snapshot, ask->record_s);
}

bool braid_shots_reap(struct braid_shots *s, bool *failed)
{
	int status;

	if (!s->pid || waitpid(s->pid, &status, WNOHANG) != s->pid)
		return false;
	*failed = status;
	s->taken += !status && *s->conf->directory;
	s->pid = 0;
	return true;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* Starts the process that speaks to the fleet's server, and those that answer its questions. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "host_agent/fleet/agent.h"
#include "host_agent/serve/child.h"
#include "host_agent/serve/expose.h"
#include "host_agent/serve/fleet.h"
#include "host_agent/serve/journal.h"
#include "host_agent/serve/snapshots.h"
#include "host_agent/serve/window.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"
#include "host_agent/util/monotonic.h"

#define MOST_BYTES	((rlim_t)128 << 20)	/* of a question's memory */
#define NICE		19
#define MOST_SECONDS	600u
#define STATE_NS	BRAID_SECOND_NS
#define WORDS		(BRAID_WINDOW_FILES + 12)

/* The window's files, for one question ------------------------------------------------------- */

static void fleet_folder(const struct braid_serve_fleet *f, size_t slot, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/question-%zu", f->directory, slot);
}

static void fleet_remove_folder(const struct braid_serve_fleet *f, size_t slot)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	fleet_folder(f, slot, path);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (braid_analyst_number(entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(path);
}

/* Links: the recorder may remove its files. Return: their number, or -errno with braid_fail(). */
static int fleet_link_files(const struct braid_serve_fleet *f, size_t slot,
			    char paths[BRAID_WINDOW_FILES][PATH_MAX])
{
	char from[PATH_MAX], folder[PATH_MAX];
	u32 numbers[BRAID_WINDOW_FILES];
	size_t left_out, k, files = braid_window_files(f->directory, numbers, &left_out);
	int nr = 0;

	fleet_remove_folder(f, slot);
	if (left_out)
		return braid_fail(-E2BIG, "its window has %zu files; a request reads at most %u", files + left_out,
				  BRAID_WINDOW_FILES);
	fleet_folder(f, slot, folder);
	if (mkdir(folder, 0700))
		return braid_fail(-errno, "the window cannot be read: %s", strerror(errno));
	for (k = 0; k < files; k++) {
		snprintf(from, sizeof(from), "%.*s/window-%u.braid", PATH_MAX - 32, f->directory, numbers[k]);
		snprintf(paths[nr], PATH_MAX, "%.*s/window-%u.braid", PATH_MAX - 32, folder, numbers[k]);
		nr += !link(from, paths[nr]);
	}
	return nr ? nr : braid_fail(-ENODATA, "nothing is recorded yet");
}

/* Questions ---------------------------------------------------------------------------------- */

static struct braid_serve_question *fleet_question(struct braid_serve_fleet *f, u32 number)
{
	size_t k;

	for (k = 0; k < BRAID_FLEET_ASKS; k++)
		if (f->questions[k].used && f->questions[k].number == number)
			return &f->questions[k];
	return NULL;
}

static void fleet_forget(struct braid_serve_fleet *f, struct braid_serve_question *q)
{
	if (q->program.pid)
		braid_program_kill(&q->program);
	if (q->pid) {
		kill(q->pid, SIGKILL);
		waitpid(q->pid, NULL, 0);
	}
	fleet_remove_folder(f, q - f->questions);
	*q = (struct braid_serve_question){ 0 };
}

void braid_serve_fleet_ended(struct braid_serve_fleet *f, u32 number, const char *failure)
{
	struct braid_fleet_answer answer = { .kind = BRAID_FLEET_ENDED, .number = number };
	struct braid_serve_question *q = fleet_question(f, number);

	answer.failed = failure;
	snprintf(answer.line, sizeof(answer.line), "%s", failure ?: "");
	if (q)
		fleet_forget(f, q);
	if (f->fd >= 0)
		send(f->fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* "-SECONDS" before now: a recording that goes on has no end yet. Return: false: all of the window. */
static bool fleet_since(const struct braid_fleet_ask *ask, char option[48])
{
	double seconds = strtod(ask->since, NULL);
	u64 now_ns = braid_clock_read_ns(CLOCK_MONOTONIC_RAW);

	if (!(seconds < 0 && seconds * -1e9 < now_ns))
		return false;
	now_ns += (s64)(seconds * 1e9);
	snprintf(option, 48, "--since=%llu.%09llu", (unsigned long long)(now_ns / BRAID_SECOND_NS),
		 (unsigned long long)(now_ns % BRAID_SECOND_NS));
	return true;
}

static int fleet_start_program(struct braid_serve_fleet *f, struct braid_serve_question *q,
			       const struct braid_fleet_ask *ask, int out)
{
	const struct rlimit memory = { MOST_BYTES, MOST_BYTES };
	/* Its time is up before; this is for one whose service stands still. */
	const rlim_t seconds = ask->seconds * sysconf(_SC_NPROCESSORS_ONLN) + 1;
	const struct rlimit cpu = { seconds, seconds };
	static char paths[BRAID_WINDOW_FILES][PATH_MAX], text[BRAID_FLEET_TEXT + 2];
	char since[48], top[32];
	const char *words[WORDS] = { "tracebraid" };
	size_t nr = 1;
	int files = fleet_link_files(f, q - f->questions, paths), k, err;

	if (files < 0)
		return files;
	if (ask->kind == BRAID_FLEET_SQL) {
		/* By its first character it is no file, and no command of the shell. */
		snprintf(text, sizeof(text), "\n%s;", ask->text);
		words[nr++] = "sql";
		words[nr++] = "--quote";
	} else {
		snprintf(text, sizeof(text), "%s", ask->text);
		words[nr++] = "analyze";
		words[nr++] = ask->folded ? "--folded" : "--csv";
		snprintf(top, sizeof(top), "--top=%llu", (unsigned long long)ask->top);
		if (ask->top)
			words[nr++] = top;
	}
	if (fleet_since(ask, since))
		words[nr++] = since;
	words[nr++] = "--";
	if (ask->kind == BRAID_FLEET_ANALYZE)
		words[nr++] = text;
	for (k = 0; k < files; k++)
		words[nr++] = paths[k];
	if (ask->kind == BRAID_FLEET_SQL)
		words[nr++] = text;
	err = braid_program_start(&q->program, f->program, words, out, -1);
	if (err)
		return err;
	prlimit(q->program.pid, RLIMIT_DATA, &memory, NULL);
	prlimit(q->program.pid, RLIMIT_CPU, &cpu, NULL);
	setpriority(PRIO_PROCESS, q->program.pid, NICE);
	braid_expose(q->program.pid, BRAID_EXPOSE_QUESTION);
	return 0;
}

/* In a process of its own, which reads no guest's bytes but to pass them on. Never returns. */
static void fleet_become_reader(struct braid_serve_fleet *f, const struct braid_fleet_ask *ask,
				int out)
{
	int fd, err;

	braid_serve_child_begin();
	close(f->fd);
	if (ask->kind == BRAID_FLEET_RECORD) {
		if (!f->record(f->arg, ask, out))
			_exit(EXIT_SUCCESS);
		braid_journal_say(LOG_ERR, braid_failure(), NULL);
		_exit(EXIT_FAILURE);
	}
	if (ask->kind == BRAID_FLEET_FILES)
		_exit(braid_snapshots_list(f->conf, out) ? EXIT_FAILURE : EXIT_SUCCESS);
	fd = braid_snapshots_open(f->conf, ask->text);
	err = fd < 0 ? fd : f->confine_reader();
	_exit(err || braid_snapshots_send(fd, ask->from, out) ? EXIT_FAILURE : EXIT_SUCCESS);
}

static int fleet_start_reader(struct braid_serve_fleet *f, struct braid_serve_question *q,
			      const struct braid_fleet_ask *ask, int out)
{
	q->records = ask->kind == BRAID_FLEET_RECORD;
	if (q->records && f->conf->fleet.streams == BRAID_FLEET_STREAMS_NOTHING)
		return braid_fail(-ENOENT, "'stream' is not set in [fleet]: nothing is stored");
	if (!q->records && !*f->conf->directory)
		return braid_fail(-ENOENT, "no directory for snapshots is configured");
	fflush(NULL);
	q->pid = fork();
	if (!q->pid)
		fleet_become_reader(f, ask, out);
	if (q->pid > 0)
		return 0;
	q->pid = 0;
	return braid_fail(-errno, "no process can be made: %s", strerror(errno));
}

static void fleet_ask(struct braid_serve_fleet *f, struct braid_fleet_ask *ask, int out)
{
	struct braid_serve_question *q = f->questions, *end = q + BRAID_FLEET_ASKS;
	int err;

	ask->since[sizeof(ask->since) - 1] = 0;
	if (ask->seconds > MOST_SECONDS)
		ask->seconds = MOST_SECONDS;
	while (q < end && q->used)
		q++;
	if (q == end)
		return braid_serve_fleet_ended(f, ask->number, "busy: too many requests");
	*q = (struct braid_serve_question){
		.used = true, .number = ask->number, .seconds = ask->seconds,
		.end_ns = braid_monotonic_ns() + ask->seconds * BRAID_SECOND_NS,
	};
	q->program.errors_fd = -1;
	switch (ask->kind) {
	case BRAID_FLEET_SQL:
	case BRAID_FLEET_ANALYZE:
		err = fleet_start_program(f, q, ask, out);
		break;
	case BRAID_FLEET_RECORD:
	case BRAID_FLEET_FILES:
	case BRAID_FLEET_READ:
		err = fleet_start_reader(f, q, ask, out);
		break;
	default:
		err = braid_fail(-EINVAL, "unknown request");
	}
	if (err)
		braid_serve_fleet_ended(f, ask->number, braid_failure());
}

static void fleet_take(struct braid_serve_fleet *f, struct braid_fleet_ask *ask, int out)
{
	struct braid_serve_question *q = fleet_question(f, ask->number);
	char why[BRAID_FLEET_LINE];
	int err = 0;

	ask->text[sizeof(ask->text) - 1] = ask->name[sizeof(ask->name) - 1] = 0;
	switch (ask->kind) {
	case BRAID_FLEET_CANCEL:
		if (q)
			fleet_forget(f, q);
		else
			f->watch(f->arg, ask, out);
		return;
	case BRAID_FLEET_SAY:
		braid_text_clean(ask->text);
		snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, ask->text);
		braid_journal_say(LOG_NOTICE, why, NULL);
		return;
	case BRAID_FLEET_SNAPSHOT:
		braid_text_clean(ask->text);
		err = f->snapshot(f->arg, ask, out);
		break;
	case BRAID_FLEET_WATCH:
	case BRAID_FLEET_TRIGGER:
		braid_text_clean(ask->text);
		err = f->watch(f->arg, ask, out);
		break;
	default:
		fleet_ask(f, ask, out);
	}
	if (err)
		braid_serve_fleet_ended(f, ask->number, braid_failure());
}

/* Turns -------------------------------------------------------------------------------------- */

/* Whether a question's process has ended; it is sent on then. */
static void fleet_watch(struct braid_serve_fleet *f, struct braid_serve_question *q)
{
	char line[BRAID_FLEET_LINE];
	siginfo_t info = { 0 };
	int status;

	if (q->pid && waitpid(q->pid, &status, WNOHANG) == q->pid) {
		q->pid = 0;
		return braid_serve_fleet_ended(f, q->number, !status ? NULL : q->records ?
					       "nothing is stored; the journal of the host has the reason" :
					       BRAID_FLEET_NO_FILE);
	}
	braid_program_listen(&q->program);
	if (q->program.pid && !waitid(P_PID, q->program.pid, &info, WEXITED | WNOHANG | WNOWAIT) &&
	    info.si_pid) {
		status = braid_program_wait(&q->program, 0);
		snprintf(line, sizeof(line), "%s", status ? braid_failure() : "");
		return braid_serve_fleet_ended(f, q->number, status ? line : NULL);
	}
	if (braid_monotonic_ns() < q->end_ns)
		return;
	snprintf(line, sizeof(line), "not finished after %llu s", (unsigned long long)q->seconds);
	braid_serve_fleet_ended(f, q->number, line);
}

void braid_serve_fleet_turn(struct braid_serve_fleet *f)
{
	static struct braid_fleet_ask ask;
	int out;
	size_t k;

	while (f->fd >= 0 &&
	       braid_receive_with(f->fd, &ask, sizeof(ask), &out, MSG_DONTWAIT) == sizeof(ask)) {
		fleet_take(f, &ask, out);
		if (out >= 0)
			close(out);
	}
	for (k = 0; k < BRAID_FLEET_ASKS; k++)
		if (f->questions[k].used)
			fleet_watch(f, &f->questions[k]);
}

void braid_serve_fleet_state(struct braid_serve_fleet *f, bool records, u32 guests,
			     const struct braid_feed_news *stream)
{
	const struct braid_fleet_answer answer = {
		.kind = BRAID_FLEET_STATE, .records = records, .guests = guests,
		.streams = stream, .stored = stream ? stream->stored : 0,
		.waiting = stream ? stream->waiting : 0, .lost = stream ? stream->lost : 0,
	};
	u64 now_ns = braid_monotonic_ns();

	if (f->fd < 0 || now_ns - f->said_ns < STATE_NS)
		return;
	f->said_ns = now_ns;
	send(f->fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void braid_serve_fleet_alarm(struct braid_serve_fleet *f, const struct braid_analyst_message *m,
			     const char *name)
{
	struct braid_fleet_answer answer = { .kind = BRAID_FLEET_ALARM, .watch = m->watch };

	if (f->fd < 0)
		return;
	snprintf(answer.guest, sizeof(answer.guest), "%s", m->guest);
	snprintf(answer.name, sizeof(answer.name), "%s", name);
	snprintf(answer.line, sizeof(answer.line), "%.*s", (int)sizeof(answer.line) - 1, m->line);
	send(f->fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Life --------------------------------------------------------------------------------------- */

/* Never returns. */
static void fleet_become(struct braid_serve_fleet *f, int fd)
{
	const struct braid_fleet_agent_options options = {
		.conf = &f->conf->fleet, .fd = fd, .confine = f->confine,
	};

	/* It has no connection to the analyst, or to a reader of metrics. */
	braid_serve_child_keep(fd);
	_exit(braid_fleet_agent_run(&options) ? EXIT_FAILURE : EXIT_SUCCESS);
}

int braid_serve_fleet_start(struct braid_serve_fleet *f)
{
	size_t k;
	int ret;

	for (k = 0; k < BRAID_FLEET_ASKS; k++)
		fleet_remove_folder(f, k);	/* of a process that was killed */
	f->said_ns = 0;
	ret = braid_serve_child_start(&f->pid, &f->fd);
	if (ret > 0)
		fleet_become(f, f->fd);
	return ret;
}

void braid_serve_fleet_stop(struct braid_serve_fleet *f)
{
	size_t k;

	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	if (f->pid > 0) {
		kill(f->pid, SIGKILL);
		waitpid(f->pid, NULL, 0);
	}
	f->pid = 0;
	for (k = 0; k < BRAID_FLEET_ASKS; k++)
		if (f->questions[k].used)
			fleet_forget(f, &f->questions[k]);
}

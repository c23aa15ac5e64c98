// SPDX-License-Identifier: GPL-2.0-or-later
/* Starts, watches and ends the processes of the service. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "host_agent/library/program.h"
#include "host_agent/serve/child.h"
#include "host_agent/serve/expose.h"
#include "host_agent/serve/fleet.h"
#include "host_agent/serve/journal.h"
#include "host_agent/serve/recorder.h"
#include "host_agent/serve/service.h"
#include "host_agent/serve/shots.h"
#include "host_agent/serve/stream.h"
#include "host_agent/serve/watches.h"
#include "host_agent/serve/window.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define TICK_MS		250
#define END_TICK_MS	20		/* while processes end */
#define RESTART_NS	1000000000ULL	/* the first wait; the next ones are longer ... */
#define RESTART_MOST_NS	60000000000ULL
#define STEADY_NS	60000000000ULL	/* ... until it has run for so long */
#define TELL_NS		1000000000ULL
#define HUNG_NS		20000000000ULL	/* an analyst that says nothing for so long */

/* The recorder, or the analyst. */
struct service_child {
	u64 due_ns;		/* when to start it; 0: it runs */
	u64 began_ns;
	u64 wait_ns;		/* after its next end */
};

struct service {
	const struct braid_service_options *o;
	struct braid_exporter exporter;
	struct braid_program recorder;
	struct braid_recorded recorded;
	struct service_child of_recorder, of_analyst, of_fleet, of_stream;
	struct braid_serve_fleet fleet;
	struct braid_serve_stream stream;
	pid_t analyst;
	int fd;			/* the socket to it; or -1 */
	u64 alive_ns;		/* when it was last alive */
	struct braid_shots shots;
	struct braid_watches watches;
	u64 told_ns;		/* when the analyst was last told about these */
	int signal_fd;
	u64 end_ns;		/* 0: not limited */
	u64 watchdog_ns;	/* when it is next to be told; 0: there is none */
	bool records;		/* a file of the recorder is there */
	u32 guests;		/* in it */
	bool ready, over;
	int failed;		/* -errno: of a command, whose recorder has not begun ... */
	char failure[1024];	/* ... and why */
};

/* Processes --------------------------------------------------------------------------------- */

static void service_ended(struct service_child *c, const char *name)
{
	u64 now_ns = braid_monotonic_ns();
	char line[256];

	if (now_ns - c->began_ns >= STEADY_NS || !c->wait_ns)
		c->wait_ns = RESTART_NS;
	snprintf(line, sizeof(line), "the %s has ended; it is started again in %llu s", name,
		 (unsigned long long)(c->wait_ns / 1000000000));
	braid_journal_say(LOG_ERR, line, NULL);
	c->due_ns = now_ns + c->wait_ns;
	c->wait_ns = c->wait_ns * 2 > RESTART_MOST_NS ? RESTART_MOST_NS : c->wait_ns * 2;
}

static bool service_is_due(const struct service_child *c)
{
	return c->due_ns && braid_monotonic_ns() >= c->due_ns;
}

static void service_began(struct service_child *c, pid_t pid)
{
	braid_expose(pid, BRAID_EXPOSE_CHILD);
	c->due_ns = 0;
	c->began_ns = braid_monotonic_ns();
}

static int service_start_recorder(struct service *s)
{
	int err = braid_recorder_start(&s->recorder, s->o->conf, s->o->directory, s->o->program,
				       &s->recorded);

	if (!err)
		service_began(&s->of_recorder, s->recorder.pid);
	return err;
}

/* In the analyst. Never returns. */
static void service_become_analyst(const struct service *s, int fd)
{
	const struct braid_analyst_options options = {
		.directory = s->o->directory, .conf = s->o->conf,
		.exporter = (struct braid_exporter *)&s->exporter, .fd = fd,
		.confine = s->o->confine,
	};

	close(s->fleet.fd);
	close(s->stream.fd);
	if (braid_analyst_run(&options)) {
		braid_journal_say(LOG_ERR, braid_failure(), NULL);
		_exit(EXIT_FAILURE);
	}
	_exit(EXIT_SUCCESS);
}

static int service_start_analyst(struct service *s)
{
	int ret = braid_serve_child_start(&s->analyst, &s->fd);

	if (ret > 0)
		service_become_analyst(s, s->fd);
	if (ret)
		return ret;
	service_began(&s->of_analyst, s->analyst);
	s->alive_ns = braid_monotonic_ns();
	braid_watches_tell(&s->watches, s->fd);
	return 0;
}

static void service_stop_analyst(struct service *s)
{
	braid_watches_tell(&s->watches, -1);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	if (s->analyst > 0) {
		kill(s->analyst, SIGKILL);
		waitpid(s->analyst, NULL, 0);
	}
	s->analyst = 0;
}

/* Alarms ------------------------------------------------------------------------------------ */

static int service_fleet_record(void *arg, const struct braid_fleet_ask *ask, int out)
{
	struct service *s = arg;

	return braid_shots_record(&s->shots, ask, out, s->recorder.pid);
}

static int service_fleet_snapshot(void *arg, const struct braid_fleet_ask *ask, int out)
{
	struct service *s = arg;

	return braid_shots_ask(&s->shots, ask, out, s->recorder.pid);
}

static int service_fleet_watch(void *arg, const struct braid_fleet_ask *ask, int out)
{
	struct service *s = arg;

	return braid_watches_ask(&s->watches, ask, out);
}

static void service_fire(struct service *s, struct braid_analyst_message *m)
{
	char fields[512], name[BRAID_FLEET_NAME];

	braid_analyst_clean(m);
	if (m->watch)
		return braid_watches_fire(&s->watches, m);
	snprintf(fields, sizeof(fields), "TRACEBRAID_GUEST=%s\nTRACEBRAID_RULE=%s\nTRACEBRAID_WHAT=%s\n",
		 m->guest, m->rule, m->what);
	if (s->o->fired)
		s->o->fired(s->o->arg, m);
	else
		braid_journal_say(LOG_WARNING, m->line, fields);
	braid_shots_name("", name);
	braid_serve_fleet_alarm(&s->fleet, m, name);
	braid_shots_alarm(&s->shots, m, name, s->recorder.pid);
}

static void service_listen(struct service *s)
{
	struct braid_analyst_message m;
	ssize_t n;

	while (s->fd >= 0 && (n = recv(s->fd, &m, sizeof(m), MSG_DONTWAIT)) == sizeof(m)) {
		s->alive_ns = braid_monotonic_ns();
		s->records |= m.records;
		if (m.kind == BRAID_ANALYST_ALIVE)
			s->guests = m.guests;
		else if (m.kind == BRAID_ANALYST_WATCHES)
			braid_watches_confirm(&s->watches, m.watch);
		else
			service_fire(s, &m);
	}
}

/* The fleet ---------------------------------------------------------------------------------- */

static void service_start_fleet(struct service *s)
{
	if (!braid_serve_fleet_start(&s->fleet))
		return service_began(&s->of_fleet, s->fleet.pid);
	braid_journal_say(LOG_ERR, braid_failure(), NULL);
	service_ended(&s->of_fleet, "process for the fleet");
}

/* Captures go into the fleet's store. */
static bool service_streams(const struct service *s)
{
	return *s->o->conf->fleet.server &&
	       s->o->conf->fleet.streams != BRAID_FLEET_STREAMS_NOTHING;
}

static void service_start_stream(struct service *s)
{
	if (!braid_stream_start(&s->stream))
		return service_began(&s->of_stream, s->stream.pid);
	braid_journal_say(LOG_ERR, braid_failure(), NULL);
	service_ended(&s->of_stream, "process for the fleet's store");
}

static void service_open_fleet(struct service *s)
{
	s->fleet = (struct braid_serve_fleet){
		.conf = s->o->conf, .directory = s->o->directory, .program = s->o->program,
		.confine = s->o->confine_fleet, .confine_reader = s->o->confine,
		.snapshot = service_fleet_snapshot, .record = service_fleet_record,
		.watch = service_fleet_watch, .arg = s,
		.fd = -1,
	};
	if (*s->o->conf->fleet.server)
		service_start_fleet(s);
	if (service_streams(s))
		service_start_stream(s);
}

/* Turns ------------------------------------------------------------------------------------- */

static void service_notify_state(const char *format, const char *text)
{
	char state[256];

	snprintf(state, sizeof(state), format, text);
	braid_journal_notify(state);
}

/* READY=1 would say that one that has not begun has. */
static void service_notify_reload(const struct service *s, bool begins)
{
	char state[64];

	if (!s->ready)
		return;
	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)(braid_monotonic_ns() / 1000));
	braid_journal_notify(begins ? state : "READY=1");
}

/* A valid text, for the analyst's rules. One that takes no message is started again, with them. */
static void service_send_rules(struct service *s, const char *text)
{
	if (s->fd < 0 || send(s->fd, text, strlen(text) + 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		return;
	service_stop_analyst(s);
	service_ended(&s->of_analyst, "analyst");
}

/* Another configuration: its rules and limits hold from now on. */
static int service_take_conf(struct service *s)
{
	braid_auto_free char *text = NULL;
	struct braid_conf conf;
	size_t k;
	int err = braid_conf_text(&text, s->o->path);

	if (!err)
		err = braid_conf_parse(&conf, text, s->o->path);
	if (err)
		return err;
	err = s->o->check ? s->o->check(&conf, s->o->path) : 0;
	if (err) {
		braid_rules_clear(&conf.rules);
		return err;
	}
	braid_rules_clear(&s->o->conf->rules);
	*s->o->conf = conf;
	service_send_rules(s, text);
	for (k = 0; k < s->o->conf->rules.nr; k++)
		if (braid_recorder_records(&s->recorded, &s->o->conf->rules.items[k]))
			braid_journal_say(LOG_WARNING, braid_failure(), NULL);
	return 0;
}

static void service_reload(struct service *s)
{
	char line[1024];

	if (!s->o->path)
		return;
	service_notify_reload(s, true);
	if (service_take_conf(s)) {
		snprintf(line, sizeof(line), "%s; the former configuration stays in force", braid_failure());
		braid_journal_say(LOG_ERR, line, NULL);
	} else {
		braid_journal_say(LOG_INFO, "the configuration was read again; settings of [record], [metrics] and [fleet] apply after a restart",
				  NULL);
	}
	service_notify_reload(s, false);
}

static void service_take_signals(struct service *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			service_reload(s);
		else if (info.ssi_signo != SIGCHLD)
			s->over = true;
	}
}

/* The recorder has failed. A command, unlike a service, ends if nothing is recorded yet. */
static void service_recorder_failed(struct service *s)
{
	if (s->o->path || s->records) {
		braid_journal_say(LOG_ERR, braid_failure(), NULL);
		return;
	}
	s->failed = -EIO;
	s->over = true;
	snprintf(s->failure, sizeof(s->failure), "%s", braid_failure());
}

static void service_reap(struct service *s)
{
	siginfo_t info = { 0 };
	bool failed;
	int status;

	if (braid_shots_reap(&s->shots, &failed)) {
		if (s->shots.asked)
			braid_serve_fleet_ended(&s->fleet, s->shots.asked, !failed ? NULL :
						 "the snapshot failed; the journal of the host has the reason");
		s->shots.asked = 0;
	}
	if (s->fleet.pid && waitpid(s->fleet.pid, &status, WNOHANG) == s->fleet.pid) {
		s->fleet.pid = 0;
		braid_watches_clear(&s->watches);
		braid_serve_fleet_stop(&s->fleet);
		service_ended(&s->of_fleet, "process for the fleet");
	}
	if (s->stream.pid && waitpid(s->stream.pid, &status, WNOHANG) == s->stream.pid) {
		s->stream.pid = 0;
		braid_stream_stop(&s->stream);
		service_ended(&s->of_stream, "process for the fleet's store");
	}
	if (s->analyst && waitpid(s->analyst, &status, WNOHANG) == s->analyst) {
		s->analyst = 0;
		service_stop_analyst(s);
		service_ended(&s->of_analyst, "analyst");
	}
	braid_program_listen(&s->recorder);
	if (s->recorder.pid &&
	    !waitid(P_PID, s->recorder.pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
		if (braid_program_wait(&s->recorder, 0))
			service_recorder_failed(s);
		if (!s->over)
			service_ended(&s->of_recorder, "recorder");
	}
}

static void service_feed_watchdog(struct service *s)
{
	u64 now_ns = braid_monotonic_ns();

	if (!s->watchdog_ns || now_ns < s->watchdog_ns)
		return;
	braid_journal_notify("WATCHDOG=1");
	s->watchdog_ns = now_ns + braid_journal_watchdog_ns() / 3;
}

/* What has ended is started again; an analyst that hangs is ended. */
static void service_keep_up(struct service *s)
{
	u64 now_ns = braid_monotonic_ns();

	service_reap(s);
	if (s->analyst && now_ns - s->alive_ns > HUNG_NS) {
		service_stop_analyst(s);
		service_ended(&s->of_analyst, "analyst");
	}
	if (service_is_due(&s->of_recorder) && service_start_recorder(s))
		service_ended(&s->of_recorder, "recorder");
	if (service_is_due(&s->of_analyst) && service_start_analyst(s))
		service_ended(&s->of_analyst, "analyst");
	if (service_is_due(&s->of_fleet))
		service_start_fleet(s);
	if (service_is_due(&s->of_stream))
		service_start_stream(s);
	if (!s->ready && s->records) {
		s->ready = true;
		braid_journal_notify("READY=1\nSTATUS=recording");
		if (!s->o->path)
			braid_journal_say(LOG_INFO, "watching; until Ctrl-C", NULL);
	}
	service_feed_watchdog(s);
}

/* Once a second. */
static void service_tell(struct service *s)
{
	const struct braid_feed_news *stream = braid_stream_news(&s->stream);
	const struct braid_analyst_news news = {
		.magic = BRAID_ANALYST_NEWS, .snapshots = s->shots.taken,
		.recorder = s->recorder.pid, .fleet = s->fleet.pid, .store = s->stream.pid,
		.streams = stream, .stored = stream ? stream->stored : 0,
		.waiting = stream ? stream->waiting : 0, .lost = stream ? stream->lost : 0,
	};
	u64 now_ns = braid_monotonic_ns();

	if (s->fd < 0 || now_ns - s->told_ns < TELL_NS)
		return;
	s->told_ns = now_ns;
	send(s->fd, &news, sizeof(news), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void service_turn(struct service *s)
{
	struct pollfd fds[] = {
		{ .fd = s->signal_fd, .events = POLLIN }, { .fd = s->fd, .events = POLLIN },
		{ .fd = s->fleet.fd, .events = POLLIN },
		{ .fd = s->stream.fd, .events = POLLIN },
		{ .fd = s->stream.watch_fd, .events = POLLIN },
	};

	poll(fds, 5, TICK_MS);
	service_take_signals(s);
	service_listen(s);
	braid_serve_fleet_turn(&s->fleet);
	braid_stream_turn(&s->stream);
	braid_serve_fleet_state(&s->fleet, s->records && s->recorder.pid, s->guests,
				braid_stream_news(&s->stream));
	service_keep_up(s);
	braid_watches_turn(&s->watches, s->recorder.pid);
	service_tell(s);
	if (s->end_ns && braid_monotonic_ns() >= s->end_ns)
		s->over = true;
}

/* Life -------------------------------------------------------------------------------------- */

static int service_open_signals(struct service *s)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	s->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
	return s->signal_fd < 0 ? braid_fail(-errno, "cannot create a signalfd: %s", strerror(errno)) : 0;
}

/* What a service that was killed has left is kept to be stored, or removed. */
static int service_open_window(struct service *s)
{
	int err = braid_window_make(s->o->directory);

	if (err)
		return err;
	s->stream.conf = &s->o->conf->fleet;
	s->stream.window = s->o->directory;
	s->stream.confine = s->o->confine_stream;
	s->shots = (struct braid_shots){
		.conf = s->o->conf, .window = s->o->directory, .program = s->o->program,
		.stream = &s->stream,
	};
	s->watches = (struct braid_watches){
		.shots = &s->shots, .fleet = &s->fleet, .recorded = &s->recorded, .fd = -1,
	};
	if (service_streams(s))
		err = braid_stream_keep(&s->stream);
	if (err)
		return err;
	braid_window_discard(s->o->directory);
	return service_streams(s) ? braid_stream_open(&s->stream) : 0;
}

/* Until a process has ended. It may take longer than the watchdog waits. */
static void service_await(struct service *s, pid_t pid)
{
	siginfo_t info = { 0 };

	while (!waitid(P_PID, pid, &info, WEXITED | WNOWAIT | WNOHANG) && !info.si_pid) {
		if (pid == s->recorder.pid)
			braid_program_listen(&s->recorder);
		service_feed_watchdog(s);
		poll(NULL, 0, END_TICK_MS);
	}
}

static void service_close(struct service *s)
{
	service_notify_state("STOPPING=1%s", "");
	if (s->recorder.pid) {
		kill(s->recorder.pid, SIGINT);
		service_await(s, s->recorder.pid);
		if (braid_program_wait(&s->recorder, 3) && !s->records)
			service_recorder_failed(s);
	}
	service_stop_analyst(s);
	braid_stream_finish(&s->stream);
	braid_serve_fleet_stop(&s->fleet);
	if (s->shots.pid) {
		service_await(s, s->shots.pid);
		waitpid(s->shots.pid, NULL, 0);
	}
	braid_exporter_close(&s->exporter);
	braid_window_empty(s->o->directory);
	rmdir(s->o->directory);
	close(s->signal_fd);
}

int braid_service_run(const struct braid_service_options *o)
{
	struct service s = {
		.o = o, .fd = -1, .recorder.errors_fd = -1, .fleet.fd = -1,
		.stream = { .fd = -1, .watch_fd = -1 },
	};
	int err;

	braid_journal_open(o->say);
	err = service_open_signals(&s);
	if (err)
		return err;
	if (*o->conf->directory && mkdir(o->conf->directory, 0750) && errno != EEXIST)
		err = braid_fail(-errno, "%s: cannot be created: %s", o->conf->directory, strerror(errno));
	if (!err)
		err = braid_exporter_listen(&s.exporter, o->conf);
	if (!err)
		err = service_open_window(&s);
	if (!err)
		err = service_start_recorder(&s);
	if (!err)
		err = service_start_analyst(&s);
	if (!err)
		service_open_fleet(&s);
	if (o->seconds > 0)
		s.end_ns = braid_monotonic_ns() + o->seconds * 1e9;
	if (braid_journal_watchdog_ns())
		s.watchdog_ns = braid_monotonic_ns();
	while (!err && !s.over)
		service_turn(&s);
	if (err) {
		s.failed = err;
		snprintf(s.failure, sizeof(s.failure), "%s", braid_failure());
	}
	service_close(&s);
	return s.failed ? braid_fail(s.failed, "%s", s.failure) : 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* Records, and prints what happens: on stderr, since stdout may be the capture. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/live_view.h"
#include "host_agent/cli/messages.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/record/record.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"
#include "host_agent/util/text.h"

/* --status-fd: JSON lines that never block; those that are not read in time are dropped and counted. */
struct record_status {
	int fd;			/* -1: not wanted, or its reader is gone: */
	bool gone;
	struct braid_text line;	/* what is left of it to write, from ... */
	size_t from;		/* ... on */
	u64 dropped;		/* lines since the last: not read in time */
};

/* What is on the terminal. */
struct record_show {
	bool terminal;		/* progress can be shown */
	bool line_open;		/* a progress line is shown */
	struct braid_progress search;	/* of VMs' memory */
	u64 shown_ns;		/* time of the last one */
	u64 *events;		/* of each guest then */
	size_t nr_events;
	struct record_status status;	/* for the program that has started us */
};

/* For the program that has started us --------------------------------------------------------- */

static int status_open(struct record_status *s, u64 fd)
{
	int flags;

	*s = (struct record_status){ .fd = -1 };
	if (!fd)
		return 0;
	flags = fd <= STDERR_FILENO || fd > INT32_MAX ? -1 : fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
		return braid_fail(-EBADF, "--status-fd=%llu: must be an open descriptor above 2, as in 'tracebraid record --status-fd 3 3>FILE'",
				  (unsigned long long)fd);
	s->fd = fd;
	return 0;
}

/* Writes what is left. Return: whether all is written. */
static bool status_give(struct record_status *s)
{
	ssize_t n = 0;

	while (s->fd >= 0 && s->from < s->line.bytes) {
		n = write(s->fd, s->line.data + s->from, s->line.bytes - s->from);
		if (n > 0) {
			s->from += n;
		} else if (errno == EAGAIN) {
			return false;
		} else if (errno != EINTR) {
			s->gone = errno == EPIPE;
			s->fd = -1;
		}
	}
	s->line.bytes = s->from = 0;
	return s->fd >= 0;
}

/* A line can begin: what was before it is written. */
static bool status_begin(struct record_status *s, const char *type)
{
	if (s->fd < 0)
		return false;
	if (!status_give(s)) {
		s->dropped++;
		return false;
	}
	braid_text_printf(&s->line, "{\"type\":\"%s\"", type);
	if (s->dropped)
		braid_text_printf(&s->line, ",\"dropped\":%llu", (unsigned long long)s->dropped);
	s->dropped = 0;
	return true;
}

static void status_end(struct record_status *s)
{
	braid_text_puts(&s->line, "}\n");
	if (s->line.failed) {
		braid_text_free(&s->line);
		s->line = (struct braid_text){ 0 };
		s->dropped++;
	}
	status_give(s);
}

static const char *phase_name(const struct braid_region_status *status)
{
	switch (status->phase) {
	case BRAID_PHASE_WAITING:
		return "waiting";
	case BRAID_PHASE_DOWN:
		return "down";
	case BRAID_PHASE_GONE:
		return "gone";
	default:
		return status->silent ? "silent" : "recording";
	}
}

static void status_put_guest(struct braid_text *t, const struct braid_record_guest *guest)
{
	struct braid_region_status status;

	status = braid_region_source_status(guest->source);
	braid_text_puts(t, "{");
	braid_text_member(t, "name", *guest->name ? guest->name : *status.name ? status.name : guest->path);
	braid_text_printf(t, ",\"state\":\"%s\",\"events\":%llu,\"lost\":%llu,\"bytes\":%llu,\"fill\":%.3f,\"confirmed\":%s}",
			  phase_name(&status), (unsigned long long)status.events,
			  (unsigned long long)status.lost, (unsigned long long)status.bytes,
			  braid_region_source_fill(guest->source) / 1000.0,
			  status.unconfirmed ? "false" : "true");
}

static void status_put(struct record_status *s, const char *type,
		       const struct braid_recording *r)
{
	u64 now_ns = r->end_ns ?: braid_host_clock_ns();
	struct braid_tracefs_status host;
	size_t k;

	if (!status_begin(s, type))
		return;
	braid_text_printf(&s->line, ",\"ns\":%llu,\"duration_ns\":%llu,\"bytes\":%llu,\"guests\":[",
			  (unsigned long long)now_ns, (unsigned long long)(now_ns - r->start_ns),
			  (unsigned long long)braid_record_bytes(r));
	for (k = 0; k < r->nr_guests; k++) {
		braid_text_puts(&s->line, k ? "," : "");
		status_put_guest(&s->line, &r->guests[k]);
	}
	braid_text_puts(&s->line, "]");
	if (r->host_source) {
		host = braid_tracefs_source_status(r->host_source);
		braid_text_printf(&s->line, ",\"host\":{\"bytes\":%llu,\"events\":%llu,\"lost\":%llu}",
				  (unsigned long long)host.bytes, (unsigned long long)host.events,
				  (unsigned long long)host.lost);
	}
	status_end(s);
}

static void status_say(struct record_status *s, const char *name, const char *text)
{
	if (!status_begin(s, "message"))
		return;
	if (name && *name)
		braid_text_member(&s->line, "guest", name);
	braid_text_member(&s->line, "text", text);
	status_end(s);
}

static bool status_gone(const struct record_status *s)
{
	struct pollfd p = { .fd = s->fd };

	return s->gone || (s->fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP));
}

/* For people ------------------------------------------------------------------------------------ */

static void close_line(struct record_show *show)
{
	if (show->line_open)
		fputs("\r\033[K", stderr);
	show->line_open = false;
}

static void record_show_say(void *arg, const char *name, const char *line)
{
	struct record_show *show = arg;

	close_line(show);
	if (show->status.fd >= 0) {
		status_say(&show->status, name, line);
		return;
	}
	fputs("tracebraid: ", stderr);
	if (name && *name)
		fprintf(stderr, "%s: ", braid_cli_clean(name));
	fprintf(stderr, "%s\n", braid_cli_clean(line));
}

static double megabytes(const struct braid_recording *r)
{
	return braid_record_bytes(r) / 1e6;
}

/* libvirt and QEMU make such files for everybody to read, and their guests' traces with them. */
static void warn_world_readable(struct record_show *show, const struct braid_recording *r)
{
	const struct braid_record_guest *first = NULL;
	char line[512];
	struct stat st;
	size_t nr = 0, k;

	for (k = 0; k < r->nr_guests; k++) {
		if (stat(r->guests[k].path, &st) || !S_ISREG(st.st_mode) || !(st.st_mode & 06))
			continue;
		first = first ? first : &r->guests[k];
		nr++;
	}
	if (!first)
		return;
	snprintf(line, sizeof(line), "every user of this host can read its trace%s; run chmod o-rw %s",
		 nr > 1 ? " and those of other guests" : "", first->path);
	record_show_say(show, first->name, line);
}

/* A guest of a socket has no name until it sends one. */
static const char *name_of(const struct braid_record_guest *guest,
			   const struct braid_region_status *status)
{
	if (*guest->name)
		return guest->name;
	return *status->name ? status->name : braid_cli_clean(guest->path);
}

/* Whether a guest has confirmed it; without guests, whether all are still expected. */
static bool is_confirmed(const struct braid_recording *r, size_t pattern)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++)
		if (braid_region_source_confirmed(r->guests[k].source, pattern))
			return true;
	return false;
}

/* The events that guests have confirmed. Guests without a driver are unknown yet. */
static void record_show_put_events(const struct braid_recording *r)
{
	const struct braid_pattern *p = r->o.events.items;
	struct braid_region_status status;
	bool any = false, some = false, read = false, asked;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		status = braid_region_source_status(r->guests[k].source);
		asked = r->o.domains.agents && *r->guests[k].domain;
		some |= status.phase == BRAID_PHASE_RECORDING && (!status.only_read || asked);
		read |= status.only_read && !asked;
	}
	if (read && !some && r->o.events.nr) {
		fputs(" the events that are enabled in the guest", stderr);
		return;
	}
	for (k = 0; k < r->o.events.nr; k++) {
		if (some && !is_confirmed(r, k))
			continue;
		fprintf(stderr, "%s %s%s%s", any ? "," : some ? " guest events" :
			" events of guests that start later", p[k].system, *p[k].event ? ":" : "",
			p[k].event);
		any = true;
	}
	if (!any && r->o.events.nr)
		fputs(" no guest has confirmed its events", stderr);
}

static void started(void *arg, const struct braid_recording *r)
{
	struct record_show *show = arg;
	struct braid_region_status status;
	size_t k;

	show->shown_ns = r->start_ns;
	status_put(&show->status, "started", r);
	if (r->o.quiet)
		return;
	close_line(show);
	fprintf(stderr, "Recording");
	for (k = 0; k < r->nr_guests; k++) {
		status = braid_region_source_status(r->guests[k].source);
		fprintf(stderr, "%s %s", k ? "," : "", name_of(&r->guests[k], &status));
	}
	if (r->host_source)
		fprintf(stderr, "%s the host", r->nr_guests ? " and" : "");
	if (!r->nr_guests && braid_record_expects(r))
		fprintf(stderr, "%s domains when they start or are attached", r->host_source ? " and" : "");
	if (r->nr_guests || braid_record_expects(r))
		fputs(";", stderr);
	if (r->nr_guests || braid_record_expects(r))
		record_show_put_events(r);
	if (r->o.seconds > 0)
		fprintf(stderr, "; for %g s\n", r->o.seconds);
	else if (r->command.argv)
		fprintf(stderr, "; until %s ends\n", r->command.argv[0]);
	else
		fputs("; until Ctrl-C\n", stderr);
	if (r->o.flight.wanted)
		fprintf(stderr, "Nothing is written until 'tracebraid snapshot %d -o FILE' requests it%s\n",
			(int)getpid(), r->o.flight.most ? ", or an automatic snapshot is due" : "");
	warn_world_readable(show, r);
	fflush(stderr);
}

static void append_guest(struct braid_text *line, const struct braid_record_guest *guest,
			 u64 *events, double seconds)
{
	struct braid_region_status status;
	char rate[16], lost[16];
	const char *phase;
	bool shown;
	u32 fill;

	status = braid_region_source_status(guest->source);
	phase = phase_name(&status);
	shown = strcmp(phase, "recording");
	fill = braid_region_source_fill(guest->source);
	braid_human(rate, sizeof(rate), (status.events - *events) / seconds);
	braid_human(lost, sizeof(lost), status.lost);
	*events = status.events;
	braid_text_printf(line, " | %s: %s%s%s/s, fill %u%%, lost %s", name_of(guest, &status),
			  shown ? phase : "", shown ? ", " : "", rate, (fill + 5) / 10, lost);
}

/* Guests are added during a recording. Without memory their rates are not shown. */
static bool know_events(struct record_show *show, size_t nr)
{
	u64 *events;

	if (nr <= show->nr_events)
		return true;
	events = reallocarray(show->events, nr, sizeof(*events));
	if (!events)
		return false;
	memset(events + show->nr_events, 0, (nr - show->nr_events) * sizeof(*events));
	show->events = events;
	show->nr_events = nr;
	return true;
}

static void record_show_searched(void *arg, u64 done, u64 total)
{
	struct record_show *show = arg;

	braid_progress_show(&show->search, BRAID_SEARCHING, done, total);
	if (done >= total)
		braid_progress_end(&show->search);
}

static void progress(void *arg, const struct braid_recording *r)
{
	struct record_show *show = arg;
	u64 now_ns = braid_host_clock_ns();
	double seconds = (now_ns - show->shown_ns) / 1e9;
	struct braid_tracefs_status host;
	struct winsize size = { 0 };
	struct braid_text line = { 0 };
	size_t k;

	show->shown_ns = now_ns;
	status_put(&show->status, "progress", r);
	if (status_gone(&show->status))
		raise(SIGINT);	/* the program that started the recording has ended: stop it */
	if (!show->terminal || r->o.quiet || !know_events(show, r->nr_guests))
		return;
	braid_text_printf(&line, "%llu s, %.1f MB",
			  (unsigned long long)((now_ns - r->start_ns) / BRAID_SECOND_NS), megabytes(r));
	for (k = 0; k < r->nr_guests; k++)
		append_guest(&line, &r->guests[k], &show->events[k], seconds);
	if (r->host_source) {
		host = braid_tracefs_source_status(r->host_source);
		braid_text_printf(&line, " | host: %.1f MB", host.bytes / 1e6);
	}
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20)
		size.ws_col = 80;
	braid_text_putc(&line, '\0');
	fprintf(stderr, "\r\033[K%.*s", size.ws_col - 1, line.failed ? "" : line.data);
	fflush(stderr);
	braid_text_free(&line);
	show->line_open = true;
}

static void guest_summary(const struct braid_record_guest *guest)
{
	struct braid_region_status status;

	status = braid_region_source_status(guest->source);
	fprintf(stderr, "  %-16s ", name_of(guest, &status));
	if (!status.nr_streams) {
		fputs("no driver was loaded\n", stderr);
		return;
	}
	fprintf(stderr, "%llu event%s, %llu lost", (unsigned long long)status.events,
		status.events == 1 ? "" : "s", (unsigned long long)status.lost);
	if (status.skipped)
		fprintf(stderr, "; %llu older event%s skipped", (unsigned long long)status.skipped,
			status.skipped == 1 ? "" : "s");
	if (status.refused)
		fputs("; refused some of what was asked", stderr);
	if (status.unconfirmed)
		fputs("; did not confirm its events", stderr);
	if (status.nr_streams > 1)
		fprintf(stderr, ", in %u parts (its driver restarted, or it was migrated)", status.nr_streams);
	fputc('\n', stderr);
}

/* The file, or the last one of several. */
static const char *record_show_file(const struct braid_recording *r)
{
	return r->rotation.nr_files ? r->rotation.path :
	       strcmp(r->o.file, "-") ? r->o.file : "standard output";
}

static void stopped(void *arg, const struct braid_recording *r)
{
	struct record_show *show = arg;
	struct braid_tracefs_status host;
	size_t k;

	close_line(show);
	status_put(&show->status, "stopped", r);
	if (r->o.quiet)
		return;
	if (r->o.flight.wanted) {
		fprintf(stderr, "%llu snapshot%s in %.2f s; the rings keep their events; read them with 'tracebraid record --backlog' or 'tracebraid recover'\n",
			(unsigned long long)r->flight.nr_taken, r->flight.nr_taken == 1 ? "" : "s",
			(r->end_ns - r->start_ns) / 1e9);
		return;
	}
	fprintf(stderr, "Recorded %.2f s, %.1f MB%s in ", (r->end_ns - r->start_ns) / 1e9,
		megabytes(r), r->o.compress ? " (before compression)" : "");
	if (r->rotation.nr_files > 1)
		fprintf(stderr, "%u files, ", r->rotation.nr_files);
	fprintf(stderr, "%s%s\n", r->rotation.nr_files > 1 ? "the last one " : "", record_show_file(r));
	for (k = 0; k < r->nr_guests; k++)
		guest_summary(&r->guests[k]);
	if (r->host_source) {
		host = braid_tracefs_source_status(r->host_source);
		fprintf(stderr, "  %-16s %llu event%s, %llu lost\n", "host",
			(unsigned long long)host.events, host.events == 1 ? "" : "s",
			(unsigned long long)host.lost);
	}
	if (strcmp(r->o.file, "-") && !r->viewer.in_memory)
		fprintf(stderr, "Next: tracebraid report %s\n", braid_cli_quoted(record_show_file(r)));
}

static void forked(void *arg)
{
	(void)arg;
	braid_messages_begin();
}

static int confine_writer(void)
{
	return braid_cli_confine(BRAID_CONFINE_FILES, NULL);
}

static int view(const char *path, int marks_fd, bool json)
{
	const struct braid_live_view v = { .path = path, .marks_fd = marks_fd, .json = json };

	return braid_live_view(&v);
}

int braid_record_show(struct braid_record_options *o, u64 status_fd,
		      struct braid_record_result *result)
{
	static const struct braid_record_ops ops = {
		.say = record_show_say,
		.forked = forked,
		.started = started,
		.searched = record_show_searched,
		.progress = progress,
		.stopped = stopped,
		.confine = braid_cli_confine,
		.confine_writer = confine_writer,
		.capture_head = braid_cli_capture_head,
		.view = view,
	};
	/* Lines of the live view and a progress line would be in each other's way. */
	struct record_show show = {
		.terminal = isatty(STDERR_FILENO) && !(o->live.wanted && isatty(STDOUT_FILENO)),
	};
	int err = status_open(&show.status, status_fd);

	braid_progress_begin(&show.search);
	show.search.terminal &= show.terminal && !o->quiet;
	if (!err)
		err = braid_record_session(o, &ops, &show, result);
	braid_progress_end(&show.search);
	braid_messages_end();
	if (err && show.line_open)
		fputc('\n', stderr);
	free(show.events);
	braid_text_free(&show.status.line);
	return err;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* Links the recording's files for the fleet's store, and starts the process that stores them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/fleet/store.h"
#include "host_agent/serve/analyst.h"
#include "host_agent/serve/child.h"
#include "host_agent/serve/journal.h"
#include "host_agent/serve/stream.h"
#include "host_agent/serve/window.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"
#include "host_agent/util/monotonic.h"
#include "host_agent/util/text.h"

#define FOLDER		"store"
#define RUN		"run"		/* the file with the name of the service's run */
#define MOST_LISTED	((u32)(BRAID_STORE_MOST_MARK / BRAID_FLEET_NAME))	/* of a mark */
#define MOST_MISSED	64u		/* notes of files that were not linked in time */
#define SAY_NS		(60 * BRAID_SECOND_NS)
#define FINISH_NS	(5 * BRAID_SECOND_NS)
#define TICK_MS		50

/* Files -------------------------------------------------------------------------------------- */

static void stream_path(const struct braid_serve_stream *s, u32 number, const char *suffix,
			char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/" FOLDER "/%s-%06u%s", s->window, s->run, number, suffix);
}

/* Files without even a note in the store: there was no space, or they were too many. */
static void stream_complain(u32 files)
{
	static u64 say_ns, missed;
	u64 now_ns = braid_monotonic_ns();
	char line[160];

	missed += files;
	if (!missed || now_ns < say_ns)
		return;
	snprintf(line, sizeof(line), "%llu files of the recording were removed before they were kept for the fleet's store, which does not even name them",
		 (unsigned long long)missed);
	braid_journal_say(LOG_WARNING, line, NULL);
	missed = 0;
	say_ns = now_ns + SAY_NS;
}

/* A file that the recorder has removed, or one that is about to be: there is a note of it. */
static void stream_miss(const struct braid_serve_stream *s, u32 number)
{
	char path[PATH_MAX];
	int fd;

	stream_path(s, number, BRAID_FEED_LOST, path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return stream_complain(1);
	close(fd);
}

/* @complete: the recorder writes a later one. */
static void stream_link_one(const struct braid_serve_stream *s, u32 number, bool complete)
{
	char from[PATH_MAX], to[PATH_MAX];

	snprintf(from, sizeof(from), "%s/window-%u.braid", s->window, number);
	stream_path(s, number, BRAID_FEED_CAPTURE, to);
	if (link(from, to) && errno != EEXIST)
		return stream_miss(s, number);
	if (complete)
		chmod(to, S_IRUSR);
}

static void stream_link_all(const struct braid_serve_stream *s, u32 from, u32 to, u32 *last,
			    bool ended)
{
	u32 numbers[BRAID_WINDOW_FILES], number;
	size_t nr = braid_window_files(s->window, numbers, NULL), k;

	for (k = 0; k < nr; k++) {
		if (numbers[k] < from || (to && numbers[k] > to))
			continue;
		number = *last ? *last + 1 : numbers[k];
		if (number < numbers[k] && numbers[k] - number > MOST_MISSED) {
			stream_complain(numbers[k] - number - MOST_MISSED);
			number = numbers[k] - MOST_MISSED;
		}
		for (; number < numbers[k]; number++)
			stream_miss(s, number);
		stream_link_one(s, numbers[k], ended || k + 1 < nr);
		if (numbers[k] > *last)
			*last = numbers[k];
	}
}

void braid_stream_link(const struct braid_serve_stream *s, u32 from, u32 to, u32 *last)
{
	stream_link_all(s, from, to, last, false);
}

u32 braid_stream_newest(const struct braid_serve_stream *s)
{
	u32 numbers[BRAID_WINDOW_FILES];
	size_t nr = braid_window_files(s->window, numbers, NULL);

	return nr ? numbers[nr - 1] : 0;
}

/* Those that were linked by a process that did not end as it should. */
static void stream_complete(const struct braid_serve_stream *s)
{
	u32 numbers[BRAID_WINDOW_FILES];
	size_t nr = braid_window_files(s->window, numbers, NULL), k;
	char path[PATH_MAX];

	for (k = 0; k + 1 < nr; k++) {
		stream_path(s, numbers[k], BRAID_FEED_CAPTURE, path);
		chmod(path, S_IRUSR);
	}
}

int braid_stream_mark(const struct braid_serve_stream *s, const char *name, u32 from, u32 to)
{
	char path[PATH_MAX], part[PATH_MAX];
	u32 numbers[BRAID_WINDOW_FILES], number = from;
	size_t nr = braid_window_files(s->window, numbers, NULL);
	FILE *f;

	if (!number)
		number = nr ? numbers[0] : to;
	if ((u64)to - number >= MOST_LISTED)
		return braid_fail(-E2BIG, "more than %u files: the fleet's store cannot list them under one name",
				  MOST_LISTED);
	snprintf(part, sizeof(part), "%s/" FOLDER "/%s.part", s->window, name);
	snprintf(path, sizeof(path), "%s/" FOLDER "/%s" BRAID_FEED_MARK, s->window, name);
	f = fopen(part, "we");
	if (!f)
		return braid_fail(-errno, "%s: %s", part, strerror(errno));
	fputs(BRAID_STORE_MARK "\n", f);
	for (; number <= to; number++)
		fprintf(f, "%s-%06u\n", s->run, number);
	if (fclose(f) || rename(part, path))
		return braid_fail(-errno, "%s: %s", path, strerror(errno));
	return 0;
}

/* Life --------------------------------------------------------------------------------------- */

static int stream_begin_run(struct braid_serve_stream *s, const char *path)
{
	u32 number = 0;
	time_t now = time(NULL);
	struct tm tm;
	size_t n;
	FILE *f;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return braid_fail(-errno, "no random number: %s", strerror(errno));
	gmtime_r(&now, &tm);
	n = strftime(s->run, sizeof(s->run), "%Y%m%dT%H%M%SZ", &tm);
	snprintf(s->run + n, sizeof(s->run) - n, "-%08x", number);
	f = fopen(path, "we");
	if (!f)
		return braid_fail(-errno, "%s: %s", path, strerror(errno));
	fprintf(f, "%s\n", s->run);
	return fclose(f) ? braid_fail(-errno, "%s: %s", path, strerror(errno)) : 0;
}

/* The name of the former service's run; "": there was none. */
static void stream_former_run(struct braid_serve_stream *s, const char *path)
{
	FILE *f = fopen(path, "re");

	*s->run = 0;
	if (!f)
		return;
	if (fscanf(f, "%39s", s->run) != 1 || !braid_fleet_name_is_valid(s->run))
		*s->run = 0;
	fclose(f);
}

/* Links of a service that was killed: their files grow no more. */
static int stream_complete_all(const char *folder)
{
	braid_auto_dir DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (strstr(entry->d_name, BRAID_FEED_CAPTURE) &&
		    fchmodat(dirfd(dir), entry->d_name, S_IRUSR, 0))
			return braid_fail(-errno, "%s/%s: its mode cannot be changed: %s", folder,
					  entry->d_name, strerror(errno));
	return dir ? 0 : braid_fail(-errno, "%s: %s", folder, strerror(errno));
}

int braid_stream_keep(struct braid_serve_stream *s)
{
	char folder[PATH_MAX], path[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s/" FOLDER, s->window);
	snprintf(path, sizeof(path), "%s/" FOLDER "/" RUN, s->window);
	if (mkdir(folder, 0700) && errno != EEXIST)
		return braid_fail(-errno, "%s: cannot be created: %s", folder, strerror(errno));
	stream_former_run(s, path);
	if (*s->run && s->conf->streams == BRAID_FLEET_STREAMS_ALL)
		stream_link_all(s, 1, 0, &s->last, true);
	return stream_complete_all(folder);
}

int braid_stream_open(struct braid_serve_stream *s)
{
	char path[PATH_MAX];

	s->last = 0;
	snprintf(path, sizeof(path), "%s/" FOLDER "/" RUN, s->window);
	return stream_begin_run(s, path);
}

static const struct braid_serve_stream *stream_own;	/* in the process that stores captures */
static const char *stream_own_folder;

static int stream_confine(void)
{
	return stream_own->confine(stream_own_folder);
}

/* Never returns. */
static void stream_become(struct braid_serve_stream *s, const char *folder, int fd)
{
	const struct braid_feed_options options = {
		.conf = s->conf, .folder = folder, .fd = fd, .confine = stream_confine,
	};

	braid_serve_child_keep(fd);
	stream_own = s;
	stream_own_folder = folder;
	_exit(braid_feed_run(&options) ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* A fast recorder removes files soon. Without the watch they are looked for in turns. */
static void stream_watch(struct braid_serve_stream *s)
{
	s->watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (s->watch_fd >= 0)
		inotify_add_watch(s->watch_fd, s->window, IN_CREATE);
}

int braid_stream_start(struct braid_serve_stream *s)
{
	char folder[PATH_MAX];
	int ret;

	snprintf(folder, sizeof(folder), "%s/" FOLDER, s->window);
	ret = braid_serve_child_start(&s->pid, &s->fd);
	if (ret > 0)
		stream_become(s, folder, s->fd);
	if (!ret && s->watch_fd < 0 && s->conf->streams == BRAID_FLEET_STREAMS_ALL)
		stream_watch(s);
	return ret;
}

static void stream_listen(struct braid_serve_stream *s)
{
	struct braid_feed_news news;

	while (s->fd >= 0 && recv(s->fd, &news, sizeof(news), MSG_DONTWAIT) == sizeof(news)) {
		s->news = news;
		news.line[sizeof(news.line) - 1] = 0;
		braid_text_clean(news.line);
		if (*news.line)
			braid_journal_say(LOG_WARNING, news.line, NULL);
	}
}

void braid_stream_turn(struct braid_serve_stream *s)
{
	char events[4096];

	if (!*s->run)
		return;
	if (s->watch_fd >= 0)
		while (read(s->watch_fd, events, sizeof(events)) > 0)
			;
	if (s->conf->streams == BRAID_FLEET_STREAMS_ALL)
		braid_stream_link(s, 1, 0, &s->last);
	else
		stream_complete(s);
	stream_listen(s);
	stream_complain(0);
}

const struct braid_feed_news *braid_stream_news(const struct braid_serve_stream *s)
{
	return *s->run ? &s->news : NULL;
}

void braid_stream_stop(struct braid_serve_stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	if (s->pid > 0) {
		kill(s->pid, SIGKILL);
		waitpid(s->pid, NULL, 0);
	}
	s->pid = 0;
}

void braid_stream_finish(struct braid_serve_stream *s)
{
	u64 end_ns = braid_monotonic_ns() + FINISH_NS;
	struct pollfd fd = { .fd = s->fd, .events = POLLIN };
	char folder[PATH_MAX], line[256];

	if (s->pid <= 0)
		return;
	if (s->conf->streams == BRAID_FLEET_STREAMS_ALL)
		stream_link_all(s, 1, 0, &s->last, true);
	snprintf(folder, sizeof(folder), "%s/" FOLDER, s->window);
	stream_complete_all(folder);
	send(s->fd, "", 1, MSG_NOSIGNAL);
	while (s->pid > 0 && braid_monotonic_ns() < end_ns) {
		poll(&fd, 1, TICK_MS);
		stream_listen(s);
		if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
			s->pid = 0;
	}
	if (s->pid > 0) {
		snprintf(line, sizeof(line), "the service ends, and the fleet's store lacks %llu bytes of captures, which remain in its runtime directory for as long as that is kept",
			 (unsigned long long)s->news.waiting);
		braid_journal_say(LOG_WARNING, line, NULL);
	}
	braid_stream_stop(s);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes snapshots: copies of the recording's files, and what is to be said of them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "host_agent/serve/journal.h"
#include "host_agent/serve/snapshots.h"
#include "host_agent/serve/window.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"
#include "host_agent/util/monotonic.h"

#define WAIT_STEP_NS	10000000L
#define WAIT_STEPS	500u		/* for the recorder's new file */
#define LINK_STEP_NS	100000000L	/* to link files before the recorder removes them */
#define COPY_BYTES	(1u << 20)
#define NAME_BYTES	160u		/* of a snapshot's folder */
#define FOLDER_BYTES	(BRAID_CONF_PATH + NAME_BYTES)
#define FILE_BYTES	(FOLDER_BYTES + 32u)

/* The recording's files ---------------------------------------------------------------------- */

/* Has the recorder finish its file. Return: its number, or -errno with braid_fail(). */
static int snapshot_rotate(const struct braid_snapshot *s)
{
	const struct timespec step = { .tv_nsec = WAIT_STEP_NS };
	u32 numbers[BRAID_WINDOW_FILES], last, k;
	size_t nr = braid_window_files(s->window, numbers, NULL);

	if (!nr)
		return braid_fail(-ENOENT, "%s: no file of the recording", s->window);
	last = numbers[nr - 1];
	if (s->recorder <= 0 || kill(s->recorder, SIGUSR1))
		return braid_fail(-ESRCH, "the recorder has ended");
	for (k = 0; k < WAIT_STEPS; k++) {
		nanosleep(&step, NULL);
		nr = braid_window_files(s->window, numbers, NULL);
		if (nr && numbers[nr - 1] > last)
			return last;
	}
	return braid_fail(-ETIMEDOUT, "the recorder has not begun another file in time");
}

static void snapshot_say(const char *format, u64 number)
{
	char line[128];

	snprintf(line, sizeof(line), format, (unsigned long long)number);
	braid_journal_say(LOG_WARNING, line, NULL);
}

static int snapshot_copy(const char *from, const char *to)
{
	braid_auto_free char *buffer = malloc(COPY_BYTES);
	braid_auto_fd int in = open(from, O_RDONLY | O_CLOEXEC);
	braid_auto_fd int out = in < 0 ? -1 :
				open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	ssize_t n;
	int err;

	if (!buffer)
		return braid_out_of_memory();
	if (out < 0)
		return braid_fail(-errno, "%s: cannot be copied to %s: %s", from, to, strerror(errno));
	for (;;) {
		n = read(in, buffer, COPY_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? braid_fail(-errno, "%s: %s", from, strerror(errno)) : 0;
		err = braid_write_all(out, buffer, n);
		if (err)
			return braid_fail(err, "%s: %s", to, strerror(-err));
	}
}

/* All complete files; one that the recorder has removed meanwhile is too old. */
static int snapshot_copy_all(const struct braid_snapshot *s, u32 last, const char *folder)
{
	u32 numbers[BRAID_WINDOW_FILES];
	char from[FILE_BYTES], to[FILE_BYTES];
	size_t left_out, nr = braid_window_files(s->window, numbers, &left_out), k;
	int err = 0, copied = 0;

	if (left_out)
		snapshot_say("the snapshot lacks the %llu oldest files of the window", left_out);
	for (k = 0; k < nr && !err; k++) {
		if (numbers[k] > last)
			break;
		snprintf(from, sizeof(from), "%s/window-%u.braid", s->window, numbers[k]);
		snprintf(to, sizeof(to), "%s/%u.braid", folder, numbers[k]);
		err = snapshot_copy(from, to);
		if (err && access(from, F_OK)) {
			unlink(to);
			err = 0;
			continue;
		}
		copied += !err;
	}
	return err || copied ? err : braid_fail(-ENOENT, "the recording's files were removed before they were copied");
}

/* Programs ----------------------------------------------------------------------------------- */

/* @out: its standard output; -1: ours. Return: its status; -1: it could not be run. */
static int snapshot_run(char *const words[], int out)
{
	pid_t pid = fork();
	sigset_t none;
	int status = -1;

	if (!pid) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGPIPE, SIG_DFL);
		if (out >= 0 && dup2(out, STDOUT_FILENO) < 0)
			_exit(127);
		execv(words[0], words);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* summary.txt, as 'tracebraid analyze summary' prints it. */
static void snapshot_analyze(const struct braid_snapshot *s, u32 last, const char *folder)
{
	char paths[BRAID_WINDOW_FILES][FILE_BYTES], summary[FILE_BYTES];
	char *words[BRAID_WINDOW_FILES + 8];
	size_t nr = 0, nr_paths = 0;
	u32 k;
	int out;

	words[nr++] = (char *)s->program;
	words[nr++] = "analyze";
	words[nr++] = "summary";
	if (*s->why->rule) {	/* else it was asked for, and is of no guest */
		words[nr++] = "--stream";
		words[nr++] = (char *)s->why->guest;
	}
	words[nr++] = "--";
	for (k = last >= BRAID_WINDOW_FILES ? last - BRAID_WINDOW_FILES + 1 : 1; k <= last; k++) {
		snprintf(paths[nr_paths], FILE_BYTES, "%s/%u.braid", folder, k);
		if (!access(paths[nr_paths], F_OK))
			words[nr++] = paths[nr_paths++];
	}
	words[nr] = NULL;
	snprintf(summary, sizeof(summary), "%s/summary.txt", folder);
	out = open(summary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	if (out < 0)
		return;
	snapshot_run(words, out);
	close(out);
}

static int snapshot_run_hook(const struct braid_snapshot *s, const char *folder)
{
	char *const words[] = {
		(char *)s->conf->hook, (char *)s->why->guest, (char *)s->why->rule, (char *)folder,
		NULL,
	};
	int status;

	if (!*s->conf->hook)
		return 0;
	setenv("TRACEBRAID_GUEST", s->why->guest, 1);
	setenv("TRACEBRAID_RULE", s->why->rule, 1);
	setenv("TRACEBRAID_WHY", s->why->line, 1);
	setenv("TRACEBRAID_SNAPSHOT", folder, 1);
	status = snapshot_run(words, -1);
	if (!status)
		return 0;
	return braid_fail(-EIO, status == 127 || status < 0 ? "the hook %s could not be run" :
			  "the hook %s ended with status %d", s->conf->hook, status);
}

/* Folders ------------------------------------------------------------------------------------ */

/* 20261128T055012.123Z-web1-stolen: they sort by time. */
static void snapshot_name(const struct braid_snapshot *s, char name[NAME_BYTES])
{
	struct timespec now;
	struct tm tm;
	char *c;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(name, NAME_BYTES, "%Y%m%dT%H%M%S", &tm);
	snprintf(name + n, NAME_BYTES - n, ".%03ldZ-%s-%s", now.tv_nsec / 1000000, s->why->guest,
		 s->why->what);
	for (c = name; *c; c++)		/* a guest's name is any text */
		if (*c == '/' || *c == ' ')
			*c = '_';
}

static bool snapshot_is_one(const char *name)
{
	int n = 0;

	sscanf(name, "%*8[0-9]T%*6[0-9].%*3[0-9]Z-%n", &n);
	return n == 21;
}

struct snapshot_folder {
	char name[NAME_BYTES];
	u64 bytes;
	time_t at;
};

static int snapshot_by_name(const void *a, const void *b)
{
	return strcmp(((const struct snapshot_folder *)a)->name,
		      ((const struct snapshot_folder *)b)->name);
}

/* The size of a folder's files; @remove: they are removed, and the folder. */
static u64 snapshot_size(const char *path, bool remove)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	struct stat st;
	u64 bytes = 0;

	while (dir && (entry = readdir(dir))) {
		if (*entry->d_name == '.' ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		bytes += st.st_size;
		if (remove)
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
	if (remove)
		rmdir(path);
	return bytes;
}

/* The oldest ones go, until all limits hold; the newest stays. */
static void snapshot_prune(const struct braid_conf *conf)
{
	DIR *dir = opendir(conf->directory);
	struct snapshot_folder *all = NULL, one;
	size_t nr = 0, capacity = 0, k;
	time_t now = time(NULL);
	struct dirent *entry;
	char path[FOLDER_BYTES + 1];
	struct stat st;
	u64 bytes = 0;

	while (dir && (entry = readdir(dir))) {
		if (!snapshot_is_one(entry->d_name) || strlen(entry->d_name) >= sizeof(one.name) ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISDIR(st.st_mode))
			continue;
		strcpy(one.name, entry->d_name);
		snprintf(path, sizeof(path), "%s/%s", conf->directory, one.name);
		one.bytes = snapshot_size(path, false);
		one.at = st.st_mtime;
		bytes += one.bytes;
		if (braid_array_push(all, nr, capacity, one))
			break;
	}
	if (dir)
		closedir(dir);
	if (nr)
		qsort(all, nr, sizeof(*all), snapshot_by_name);
	for (k = 0; k + 1 < nr; k++) {
		/* One of the future was taken before the clock was set back. */
		bool old = conf->max_age_ns && now > all[k].at &&
			   (u64)(now - all[k].at) > conf->max_age_ns / 1000000000;

		if (!old && (!conf->max_bytes || bytes <= conf->max_bytes))
			break;
		snprintf(path, sizeof(path), "%s/%s", conf->directory, all[k].name);
		bytes -= snapshot_size(path, true);
	}
	free(all);
}

static int snapshot_write_why(const struct braid_snapshot *s, const char *folder)
{
	char path[FILE_BYTES];
	FILE *f;

	snprintf(path, sizeof(path), "%s/why.txt", folder);
	f = fopen(path, "we");
	if (!f)
		return braid_fail(-errno, "%s: %s", path, strerror(errno));
	fprintf(f, "%s\n", s->why->line);
	return fclose(f) ? braid_fail(-errno, "%s: %s", path, strerror(errno)) : 0;
}

/* Half a snapshot is not kept. */
static int snapshot_keep(const struct braid_snapshot *s, u32 last, char folder[FOLDER_BYTES])
{
	char name[NAME_BYTES], failure[1024];
	int err;

	snapshot_name(s, name);
	snprintf(folder, FOLDER_BYTES, "%s/%s", s->conf->directory, name);
	if (mkdir(folder, 0750)) {
		err = braid_fail(-errno, "%s: %s", folder, strerror(errno));
		*folder = 0;
		return err;
	}
	err = snapshot_copy_all(s, last, folder);
	if (!err)
		err = snapshot_write_why(s, folder);
	if (err) {
		snprintf(failure, sizeof(failure), "%s", braid_failure());
		snapshot_size(folder, true);
		*folder = 0;
		return braid_fail(err, "%s", failure);
	}
	snapshot_analyze(s, last, folder);
	if (s->out >= 0)
		dprintf(s->out, "%s\n", name);
	return 0;
}

/* @from: the first file's number; 0: the first one that there is. @linked: the last one that is. */
static int snapshot_store(const struct braid_snapshot *s, u32 from, u32 last, u32 linked)
{
	braid_stream_link(s->stream, from, last, &linked);
	return braid_stream_mark(s->stream, s->name, from, last);
}

int braid_snapshot_record(const struct braid_snapshot *s, u64 seconds)
{
	const struct timespec step = { .tv_nsec = LINK_STEP_NS };
	u64 end_ns = braid_monotonic_ns() + seconds * BRAID_SECOND_NS;
	u32 from = braid_stream_newest(s->stream), linked = from ? from - 1 : 0;
	int last, err;

	if (!from)
		return braid_fail(-ENODATA, "nothing is recorded yet");
	while (braid_monotonic_ns() < end_ns) {
		braid_stream_link(s->stream, from, 0, &linked);
		nanosleep(&step, NULL);
	}
	last = snapshot_rotate(s);
	err = last < 0 ? last : snapshot_store(s, from, last, linked);
	if (!err)
		dprintf(s->out, "%s\n", s->name);
	return err;
}

int braid_snapshot_take(const struct braid_snapshot *s)
{
	char folder[FOLDER_BYTES] = "", failure[1024];
	bool keeps = *s->conf->directory;
	int last = 0, err = 0, hook_err;

	if (keeps || s->stream)
		last = snapshot_rotate(s);
	err = last < 0 ? last : 0;
	if (!err && s->stream)
		err = snapshot_store(s, 0, last, 0);
	if (!err && keeps)
		err = snapshot_keep(s, last, folder);
	if (!err && s->stream && s->out >= 0)
		dprintf(s->out, "%s%s\n", keeps ? "store " : "", s->name);
	if (err)
		snprintf(failure, sizeof(failure), "%s", braid_failure());
	if (keeps)
		snapshot_prune(s->conf);
	hook_err = snapshot_run_hook(s, folder);
	return err ? braid_fail(err, "no snapshot is kept: %s", failure) : hook_err;
}

/* What others read --------------------------------------------------------------------------- */

int braid_snapshots_list(const struct braid_conf *conf, int out)
{
	braid_auto_dir DIR *dir = opendir(conf->directory);
	struct dirent *entry, *file;
	struct stat st;
	DIR *folder;
	int fd;

	while (dir && (entry = readdir(dir))) {
		if (!snapshot_is_one(entry->d_name))
			continue;
		fd = openat(dirfd(dir), entry->d_name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		folder = fd < 0 ? NULL : fdopendir(fd);
		if (fd >= 0 && !folder)
			close(fd);
		while (folder && (file = readdir(folder)))
			if (*file->d_name != '.' && !strchr(file->d_name, '\n') &&
			    !fstatat(fd, file->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
			    S_ISREG(st.st_mode))
				dprintf(out, "%s/%s %lld\n", entry->d_name, file->d_name,
					(long long)st.st_size);
		if (folder)
			closedir(folder);
	}
	return dir ? 0 : braid_fail(-errno, "%s: %s", conf->directory, strerror(errno));
}

int braid_snapshots_open(const struct braid_conf *conf, const char *name)
{
	const char *slash = strchr(name, '/');
	char folder[FOLDER_BYTES];
	struct stat st;
	int fd;

	if (!slash || slash[1] == '.' || !slash[1] || strchr(slash + 1, '/') ||
	    slash - name >= (int)NAME_BYTES || !snapshot_is_one(name))
		return braid_fail(-EINVAL, "not the name of a snapshot's file");
	snprintf(folder, sizeof(folder), "%s/%.*s", conf->directory, (int)(slash - name), name);
	braid_auto_fd int dir = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	fd = dir < 0 ? -1 : openat(dir, slash + 1, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	if (fd >= 0)
		close(fd);
	return braid_fail(-ENOENT, "there is no such file of a snapshot");
}

int braid_snapshots_send(int fd, u64 from, int out)
{
	braid_auto_free char *buffer = malloc(COPY_BYTES);
	XXH3_state_t *state = XXH3_createState();
	char check[BRAID_SNAPSHOTS_CHECK + 1];
	u64 at = 0, skip;
	ssize_t n = 1;
	int err = 0;

	if (!buffer || !state) {
		XXH3_freeState(state);
		return braid_out_of_memory();
	}
	XXH3_64bits_reset(state);
	while (!err && n > 0) {
		n = braid_pread_all(fd, buffer, COPY_BYTES, at);
		err = n < 0 ? n : 0;
		if (err)
			break;
		XXH3_64bits_update(state, buffer, n);
		skip = from > at ? from - at : 0;
		if (skip < (u64)n)
			err = braid_write_all(out, buffer + skip, n - skip);
		at += n;
	}
	snprintf(check, sizeof(check), "%016llx", (unsigned long long)XXH3_64bits_digest(state));
	XXH3_freeState(state);
	if (!err)
		err = braid_write_all(out, check, BRAID_SNAPSHOTS_CHECK);
	return err ? braid_fail(err, "the file cannot be sent: %s", strerror(-err)) : 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Captures of the fleet's store among a command's operands: they are fetched into a private folder,
 * by a confined process, and the command runs with their files.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/fleet/fetch.h"
#include "host_agent/serve/conf.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

static char store_folder[PATH_MAX];
static volatile sig_atomic_t store_signal;
static volatile pid_t store_child;

struct store_words {
	char **words;
	size_t nr, capacity;
};

bool braid_is_of_store(const char *word)
{
	return !strncmp(word, "nats://", 7) || !strncmp(word, "tls://", 6);
}

static void store_stop(int signal)
{
	store_signal = signal;
	if (store_child > 0)
		kill(store_child, signal);
}

static void store_remove(void)
{
	DIR *dir = opendir(store_folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (*entry->d_name != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(store_folder);
}

static void store_say(const char *line)
{
	fprintf(stderr, "tracebraid: %s\n", braid_cli_clean(line));
}

static int store_confine(void)
{
	return braid_cli_confine_fleet(store_folder);
}

/* Credentials are those of the configuration; TRACEBRAID_CONF names another one than the usual. */
static int store_configure(struct braid_conf *conf, const char *word, const char **name)
{
	const char *path = getenv("TRACEBRAID_CONF"), *slash = strchr(strchr(word, ':') + 3, '/');
	int err = 0;

	if (!slash || !slash[1])
		return braid_fail(-EINVAL, "%s: expected nats://HOST:PORT/SNAPSHOT", word);
	braid_conf_default(conf);
	if (path || !access(BRAID_CONF_FILE, R_OK))
		err = braid_conf_read(conf, path ?: BRAID_CONF_FILE);
	if (err)
		return err;
	if (slash - word >= (int)sizeof(conf->fleet.server))
		return braid_fail(-ENAMETOOLONG, "%s: the name is too long", word);
	memcpy(conf->fleet.server, word, slash - word);
	conf->fleet.server[slash - word] = 0;
	*name = slash + 1;
	return 0;
}

/* In a process of its own, because it is confined otherwise than the command. Never returns. */
static void store_become(const char *word)
{
	static struct braid_conf conf;
	const struct braid_fetch_options o = {
		.conf = &conf.fleet, .folder = store_folder, .confine = store_confine,
		.say = store_say, .stop = &store_signal,
	};
	const char *name = "";
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ret = store_configure(&conf, word, &name);
	if (!ret)
		ret = braid_fetch_captures(&o, name);
	if (!ret)
		ret = braid_fail(-ENODATA, "%s: no capture of it is in the store", word);
	_exit(ret < 0 ? braid_complain() : EXIT_SUCCESS);
}

static int store_wait(void)
{
	int status;

	while (waitpid(store_child, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_FAILURE;
	store_child = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Return: 0, or the exit code of what failed, which has said so. */
static int store_fetch(const char *word)
{
	fflush(NULL);
	store_child = fork();
	if (!store_child)
		store_become(word);
	if (store_child > 0)
		return store_wait();
	braid_fail(-errno, "no process can be made: %s", strerror(errno));
	return braid_complain();
}

static int store_by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int store_push(struct store_words *w, char *word)
{
	if (word && !braid_array_push(w->words, w->nr, w->capacity, word))
		return 0;
	return braid_out_of_memory();
}

/* All files that were fetched. */
static int store_push_files(struct store_words *w)
{
	braid_auto_dir DIR *dir = opendir(store_folder);
	char path[PATH_MAX + 256];
	size_t first = w->nr;
	struct dirent *entry;
	int err = 0;

	while (dir && !err && (entry = readdir(dir))) {
		if (*entry->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", store_folder, entry->d_name);
		err = store_push(w, strdup(path));
	}
	if (w->nr > first)
		qsort(w->words + first, w->nr - first, sizeof(*w->words), store_by_name);
	return err;
}

/* The first operand of the store stands for all: what is fetched is one list. */
static int store_replace(struct store_words *w, int argc, char **argv)
{
	bool pushed = false;
	int k, err = 0;

	for (k = 0; k < argc && !err; k++) {
		if (!braid_is_of_store(argv[k]))
			err = store_push(w, argv[k]);
		else if (!pushed)
			err = store_push_files(w);
		pushed |= braid_is_of_store(argv[k]);
	}
	if (!err)
		err = braid_array_push(w->words, w->nr, w->capacity, NULL);
	return err;
}

static int store_run(const struct braid_cli_command *command, struct store_words *w)
{
	fflush(NULL);
	store_child = fork();
	if (!store_child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		signal(SIGHUP, SIG_DFL);
		exit(braid_cli_flushed(command->run(w->nr - 1, w->words)));
	}
	if (store_child > 0)
		return store_wait();
	braid_fail(-errno, "no process can be made: %s", strerror(errno));
	return braid_complain();
}

int braid_cli_run(const struct braid_cli_command *command, int argc, char **argv)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction action = { .sa_handler = store_stop };
	const char *parent = getenv("TMPDIR");
	struct store_words w = { 0 };
	int k, status = 0;

	for (k = 1; k < argc && !braid_is_of_store(argv[k]); k++)
		;
	if (k == argc || command == &braid_command_fleet)
		return braid_cli_flushed(command->run(argc, argv));
	for (k = 0; k < (int)(sizeof(signals) / sizeof(*signals)); k++)
		sigaction(signals[k], &action, NULL);
	snprintf(store_folder, sizeof(store_folder), "%s/tracebraid-XXXXXX",
		 parent && *parent == '/' ? parent : "/tmp");
	if (!mkdtemp(store_folder)) {
		braid_fail(-errno, "%s: cannot be created: %s", store_folder, strerror(errno));
		return braid_complain();
	}
	for (k = 1; k < argc && !status && !store_signal; k++)
		if (braid_is_of_store(argv[k]))
			status = store_fetch(argv[k]);
	if (!status && store_replace(&w, argc, argv))
		status = braid_complain();
	if (!status && !store_signal)
		status = store_run(command, &w);
	store_remove();
	free(w.words);
	return store_signal && !status ? 128 + store_signal : status;
}

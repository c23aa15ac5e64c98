// SPDX-License-Identifier: GPL-2.0-or-later
/* Fetches files of snapshots. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "host_agent/fleet/ask.h"
#include "host_agent/fleet/pull.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define MOST_FILES	(1u << 20)
#define MOST_TRIES	20u		/* of a file, without a byte between two */
#define CHECK_BYTES	16u		/* the checksum that follows a file's bytes */
#define STEP_BYTES	(1u << 20)
#define PAUSE_NS	250000000L	/* between two tries */

/* The list ----------------------------------------------------------------------------------- */

/* "SNAPSHOT/FILE", of names that are safe here. */
static bool pull_is_name(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash && slash != name && *name != '.' && slash[1] && slash[1] != '.' &&
	       !strchr(slash + 1, '/') && strlen(name) + strlen(".part") < BRAID_FLEET_FILE &&
	       braid_text_plain(name, strlen(name));
}

static int pull_add(struct braid_fleet_pull *p, size_t host, const char *line, size_t bytes)
{
	struct braid_fleet_file file = { .host = host };
	unsigned long long size;
	char text[BRAID_FLEET_FILE + 24];

	snprintf(text, sizeof(text), "%.*s", (int)bytes, line);
	if (bytes >= sizeof(text) || sscanf(text, "%255s %llu", file.name, &size) != 2 ||
	    !pull_is_name(file.name) || size > INT64_MAX || p->nr == MOST_FILES)
		return 0;	/* it is not a file of ours */
	file.bytes = size;
	return braid_array_push(p->files, p->nr, p->capacity, file) ? braid_out_of_memory() : 0;
}

static int pull_take_list(struct braid_fleet_pull *p, const struct braid_fleet_event *e)
{
	const char *at = e->message.body, *end = at + e->message.bytes, *feed;
	int err = 0;

	while (!err && at < end) {
		feed = memchr(at, '\n', end - at) ?: end;
		err = pull_add(p, e->host - p->client->hosts, at, feed - at);
		at = feed + (feed < end);
	}
	return err;
}

static int pull_by_name(const void *a, const void *b)
{
	const struct braid_fleet_file *one = a, *two = b;

	return braid_compare(one->host, two->host) ?: strcmp(one->name, two->name);
}

static size_t pull_snapshot_bytes(const struct braid_fleet_file *f)
{
	return strcspn(f->name, "/");
}

/* Of each host the files of its last snapshot: their names begin with their time. */
static void pull_keep_last(struct braid_fleet_pull *p)
{
	const struct braid_fleet_file *last;
	size_t k, next, kept = 0;

	for (k = 0; k < p->nr; k = next) {
		for (next = k; next < p->nr && p->files[next].host == p->files[k].host; next++)
			;
		last = &p->files[next - 1];
		for (; k < next; k++)
			if (pull_snapshot_bytes(&p->files[k]) == pull_snapshot_bytes(last) &&
			    !memcmp(p->files[k].name, last->name, pull_snapshot_bytes(last)))
				break;
		memmove(&p->files[kept], &p->files[k], (next - k) * sizeof(*p->files));
		kept += next - k;
	}
	p->nr = kept;
}

int braid_fleet_pull_list(struct braid_fleet_pull *p)
{
	static const struct braid_fleet_field none[] = { { 0 } };
	struct braid_fleet_event e;
	int ret = 1, err = braid_fleet_client_ask_all(p->client, "files", none, "");

	while (!err && (ret = braid_fleet_client_next(p->client, &e)) > 0) {
		if (!e.packet)
			continue;
		err = pull_take_list(p, &e);
		free(e.packet);
		if (!err)
			err = braid_fleet_client_grant(p->client, e.host);
	}
	if (p->nr)
		qsort(p->files, p->nr, sizeof(*p->files), pull_by_name);
	if (!p->all)
		pull_keep_last(p);
	return err ? err : ret;
}

/* Files -------------------------------------------------------------------------------------- */

static int pull_make_folder(int in, const char *name, size_t bytes)
{
	char path[BRAID_FLEET_FILE];
	int fd;

	snprintf(path, sizeof(path), "%.*s", (int)bytes, name);
	if (mkdirat(in, path, 0700) && errno != EEXIST)
		return braid_fail(-errno, "%s: cannot be created: %s", path, strerror(errno));
	fd = openat(in, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? braid_fail(-errno, "%s: %s", path, strerror(errno)) : fd;
}

/* The folder of a file. Return: a descriptor, or -errno with braid_fail(). */
static int pull_folder(struct braid_fleet_pull *p, const struct braid_fleet_file *f)
{
	const char *host = p->client->hosts[f->host].name;
	braid_auto_fd int above = pull_make_folder(p->folder, host, strlen(host));

	return above < 0 ? above : pull_make_folder(above, f->name, pull_snapshot_bytes(f));
}

/* Whether what is stored has the checksum that the host has sent. */
static bool pull_is_sound(int fd, const struct braid_fleet_file *f, const char check[CHECK_BYTES])
{
	braid_auto_free char *buffer = malloc(STEP_BYTES);
	XXH3_state_t *state = XXH3_createState();
	char text[CHECK_BYTES + 1] = "";
	u64 done = 0;
	ssize_t n = 1;

	if (state)
		XXH3_64bits_reset(state);
	while (buffer && state && done < f->bytes && n > 0) {
		n = braid_pread_all(fd, buffer, STEP_BYTES, done);
		if (n > 0)
			XXH3_64bits_update(state, buffer, n);
		done += n > 0 ? n : 0;
	}
	if (buffer && state && done == f->bytes)
		snprintf(text, sizeof(text), "%016llx", (unsigned long long)XXH3_64bits_digest(state));
	XXH3_freeState(state);
	return *text && !memcmp(text, check, CHECK_BYTES);
}

/* The bytes of a message: of the file, and behind its end the checksum. */
static int pull_store(struct braid_fleet_pull *p, int fd, struct braid_fleet_file *f,
		      const struct braid_fleet_message *m, char check[CHECK_BYTES], size_t *checked)
{
	u64 left = f->bytes - f->stored;
	size_t n = m->bytes < left ? m->bytes : left;
	int err = braid_write_all(fd, m->body, n);

	if (err)
		return braid_fail(err, "%s: %s", f->name, strerror(-err));
	f->stored += n;
	f->tries = n ? 0 : f->tries;
	if (m->bytes - n > CHECK_BYTES - *checked) {
		braid_fleet_client_fail(p->client, &p->client->hosts[f->host],
					"a file has more bytes than its host said");
		return 0;
	}
	memcpy(check + *checked, m->body + n, m->bytes - n);
	*checked += m->bytes - n;
	return 0;
}

/* Asks for what is missing, and stores it. Return: 0: all came; 1: not all; or -errno. */
static int pull_some(struct braid_fleet_pull *p, struct braid_fleet_file *f, int fd,
		     char check[CHECK_BYTES])
{
	struct braid_fleet_host *host = &p->client->hosts[f->host];
	char from[24];
	const struct braid_fleet_field fields[] = {
		{ "from", from }, { "seconds", "600" }, { 0 },
	};
	struct braid_fleet_event e;
	size_t checked = 0;
	int err, ret = 1;

	snprintf(from, sizeof(from), "%llu", (unsigned long long)f->stored);
	err = braid_fleet_client_ask(p->client, host, "pull", fields, f->name);
	while (!err && (ret = braid_fleet_client_next(p->client, &e)) > 0) {
		if (!e.packet)
			continue;
		err = pull_store(p, fd, f, &e.message, check, &checked);
		free(e.packet);
		if (!err)
			err = braid_fleet_client_grant(p->client, host);
	}
	if (err || ret < 0)
		return err ? err : ret;
	return !(host->state == BRAID_FLEET_DONE && f->stored == f->bytes &&
		 checked == CHECK_BYTES);
}

static int pull_file(struct braid_fleet_pull *p, struct braid_fleet_file *f)
{
	struct braid_fleet_host *host = &p->client->hosts[f->host];
	braid_auto_fd int folder = pull_folder(p, f);
	char part[BRAID_FLEET_FILE], check[CHECK_BYTES];
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	const char *name = strchr(f->name, '/') + 1;
	int ret = 1;

	snprintf(part, sizeof(part), "%.240s.part", name);
	if (folder < 0)
		return folder;
	braid_auto_fd int fd = openat(folder, part, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW |
				      O_CLOEXEC, 0600);

	if (fd < 0)
		return braid_fail(-errno, "%s: cannot be created: %s", part, strerror(errno));
	while (ret == 1) {
		if (f->tries)
			nanosleep(&pause, NULL);
		ret = pull_some(p, f, fd, check);
		if (ret == 1 && ++f->tries > MOST_TRIES)
			return 0;	/* the host says why */
		p->resumed += ret == 1;
		if (ret == 1 && !strcmp(host->why, BRAID_FLEET_NO_FILE))
			return 0;
	}
	if (ret)
		return ret;
	if (!pull_is_sound(fd, f, check)) {
		braid_fleet_client_fail(p->client, host, "a file has another checksum than its host said");
		return 0;
	}
	if (renameat(folder, part, folder, name))
		return braid_fail(-errno, "%s: %s", name, strerror(errno));
	f->complete = true;
	return 0;
}

int braid_fleet_pull_files(struct braid_fleet_pull *p)
{
	size_t k;
	int err = 0;

	for (k = 0; k < p->nr && !err; k++)
		err = pull_file(p, &p->files[k]);
	return err;
}

void braid_fleet_pull_free(struct braid_fleet_pull *p)
{
	free(p->files);
	p->files = NULL;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* Asks a flight recorder for a snapshot, through a socket that only its user may access. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "host_agent/transport/request.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"
#include "host_agent/util/text.h"

#define SUFFIX		".sock"
#define MAGIC		0x31544f4853534e53ULL	/* of these messages' form */
#define PATIENCE_NS	(1 * BRAID_SECOND_NS)	/* for a client that connects and sends nothing */
#define ANSWER_MS	120000

struct ask {
	u64 magic;
	char path[256];
};

struct answer {
	u64 magic;
	s32 err;
	char line[BRAID_REQUEST_LINE_BYTES - 4];
};

static int folder(char *path, size_t bytes)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	int n;

	if (!geteuid())
		n = snprintf(path, bytes, BRAID_ROOTS_FOLDER);
	else if (runtime && *runtime == '/')
		n = snprintf(path, bytes, "%s/tracebraid", runtime);
	else
		return braid_fail(-ENOENT, "no directory for the snapshot socket: run as root, or set XDG_RUNTIME_DIR");
	return n < (int)bytes ? 0 : braid_fail(-ENAMETOOLONG, "XDG_RUNTIME_DIR is too long");
}

/* The recorder's end -------------------------------------------------------------------- */

int braid_request_open(struct braid_request_endpoint *p)
{
	char path[sizeof(p->address.path) - 24];
	struct stat st;
	int err = folder(path, sizeof(path));

	*p = (struct braid_request_endpoint){ .fd = -1, .listener.fd = -1 };
	if (err)
		return err;
	if (mkdir(path, 0700) && errno != EEXIST)
		return braid_fail(-errno, "%s: cannot be created: %s", path, strerror(errno));
	if (lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
		return braid_fail(-EPERM, "%s: not a directory that only this user can access; remove it", path);
	p->address.group = -1;
	snprintf(p->address.path, sizeof(p->address.path), "%s/%d" SUFFIX, path, (int)getpid());
	err = braid_listener_open(&p->listener, &p->address);
	if (!err && chmod(p->address.path, 0600)) {
		err = braid_fail(-errno, "%s: %s", p->address.path, strerror(errno));
		braid_request_close(p);
	}
	return err;
}

static void hang_up(struct braid_request_endpoint *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	p->asked = false;
}

void braid_request_close(struct braid_request_endpoint *p)
{
	hang_up(p);
	braid_listener_close(&p->listener, &p->address);
	p->listener.fd = -1;
}

int braid_request_fd(const struct braid_request_endpoint *p)
{
	if (p->fd < 0)
		return p->listener.fd;
	return p->asked ? -1 : p->fd;
}

/* Receives the message and its file; -errno: none received. */
static int receive(int fd, struct ask *ask, int *file)
{
	ssize_t n = braid_receive_with(fd, ask, sizeof(*ask), file, MSG_DONTWAIT);

	if (n < 0)
		return n;
	return n == sizeof(*ask) && ask->magic == MAGIC ? 0 : -EPROTO;
}

/* A pipe without a reader would block the recording. */
static bool is_file(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	       (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

int braid_request_poll(struct braid_request_endpoint *p, struct braid_request *request)
{
	struct ask ask;
	pid_t pid;
	int err;

	if (p->listener.fd < 0 || p->asked)
		return 0;
	if (p->fd < 0) {
		p->fd = braid_listener_accept(&p->listener, &p->address, &pid);
		if (p->fd < 0) {
			p->fd = -1;
			return 0;
		}
		p->since_ns = braid_monotonic_ns();
	}
	err = receive(p->fd, &ask, &request->fd);
	if (err == -EAGAIN && braid_monotonic_ns() - p->since_ns < PATIENCE_NS)
		return 0;
	if (!err && is_file(request->fd)) {
		ask.path[sizeof(ask.path) - 1] = 0;
		snprintf(request->path, sizeof(request->path), "%s", ask.path);
		braid_text_clean(request->path);
		p->asked = true;
		return 1;
	}
	if (request->fd >= 0)
		close(request->fd);
	hang_up(p);
	return 0;
}

void braid_request_answer(struct braid_request_endpoint *p, int err, const char *line)
{
	struct answer answer = { .magic = MAGIC, .err = err };

	snprintf(answer.line, sizeof(answer.line), "%s", line);
	if (p->fd >= 0 && send(p->fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		errno = 0;	/* it did not wait: the file is there all the same */
	hang_up(p);
}

/* The client ------------------------------------------------------------------------------ */

static int try_connect(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (!connect(fd, (const struct sockaddr *)&address, sizeof(address)))
		return fd;
	err = errno;
	close(fd);
	return -err;
}

/* Finds the only recorder. */
static int connect_any(const char *path)
{
	char one[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int found = -1, nr = 0, fd;
	struct dirent *entry;
	braid_auto_dir DIR *dir = opendir(path);

	while (dir && (entry = readdir(dir))) {
		if (!strstr(entry->d_name, SUFFIX) ||
		    snprintf(one, sizeof(one), "%s/%s", path, entry->d_name) >= (int)sizeof(one))
			continue;
		fd = try_connect(one);
		if (fd == -ECONNREFUSED && kill(atoi(entry->d_name), 0) && errno == ESRCH)
			unlinkat(dirfd(dir), entry->d_name, 0);	/* one that was killed left it */
		if (fd < 0)
			continue;
		if (nr++)
			close(fd);
		else
			found = fd;
	}
	if (nr == 1)
		return found;
	if (!nr)
		return braid_fail(-ENOENT, "this user has no running flight recorder; 'tracebraid record --snapshot' starts one");
	close(found);
	return braid_fail(-EINVAL, "%d flight recorders are running; give the PID of one (see %s)", nr,
			  path);
}

int braid_request_connect(pid_t pid)
{
	char path[80], one[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int err = folder(path, sizeof(path)), fd;

	if (err)
		return err;
	if (!pid)
		return connect_any(path);
	snprintf(one, sizeof(one), "%s/%d" SUFFIX, path, (int)pid);
	fd = try_connect(one);
	return fd < 0 ? braid_fail(fd, "process %d is not a flight recorder of this user", (int)pid) : fd;
}

static int send_ask(int fd, int file, const char *path)
{
	struct ask ask = { .magic = MAGIC };

	snprintf(ask.path, sizeof(ask.path), "%s", path);
	return braid_send_with(fd, &ask, sizeof(ask), file, 0) == sizeof(ask) ? 0 :
	       braid_fail(-EPIPE, "the flight recorder no longer listens");
}

int braid_request_ask(int fd, int file, const char *path, char line[BRAID_REQUEST_LINE_BYTES])
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct answer answer;
	int err = send_ask(fd, file, path);

	if (err)
		return err;
	if (poll(&p, 1, ANSWER_MS) <= 0)
		return braid_fail(-ETIMEDOUT, "the flight recorder does not answer; is it stopped?");
	if (recv(fd, &answer, sizeof(answer), MSG_WAITALL) != sizeof(answer) ||
	    answer.magic != MAGIC)
		return braid_fail(-EPIPE, "the flight recorder ended before it was done");
	answer.line[sizeof(answer.line) - 1] = 0;
	braid_text_clean(answer.line);
	snprintf(line, BRAID_REQUEST_LINE_BYTES, "%s", answer.line);
	return answer.err ? braid_fail(answer.err < 0 ? answer.err : -EIO, "%s", line) : 0;
}

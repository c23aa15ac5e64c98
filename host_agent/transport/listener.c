// SPDX-License-Identifier: GPL-2.0-or-later
/* A UNIX socket that QEMUs connect to. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "host_agent/transport/listener.h"
#include "host_agent/transport/untrusted_fd.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"
#include "host_agent/util/text.h"

#define BACKLOG		4
#define FAULTS_AT_ONCE	8	/* then one per second, so that peers can't fill a capture with
				   them */

static int take_option(struct braid_socket_address *a, const char *text, const char *option,
		       size_t n)
{
	char value[sizeof(a->shm)];
	size_t key = strcspn(option, "=") + 1;
	const struct group *group;

	if (key > n || n - key >= sizeof(value))
		return braid_fail(-EINVAL, "%s: \"%.*s\" is not KEY=VALUE", text, (int)n, option);
	memcpy(value, option + key, n - key);
	value[n - key] = 0;
	if (!strncmp(option, "size=", key)) {
		if (braid_text_size(value, 1, &a->bytes))
			return 0;
		return braid_fail(-EINVAL, "%s: \"%s\" is not a size, such as 16M", text, value);
	}
	if (!strncmp(option, "shm=", key) && *value) {
		strcpy(a->shm, value);
		return 0;
	}
	if (!strncmp(option, "group=", key)) {
		group = getgrnam(value);
		if (!group)
			return braid_fail(-EINVAL, "%s: unknown group \"%s\"", text, value);
		a->group = group->gr_gid;
		return 0;
	}
	return braid_fail(-EINVAL, "%s: unknown option \"%.*s\"; expected size=, group= or (ivshmem-doorbell) shm=", text, (int)n, option);
}

int braid_socket_address_parse(struct braid_socket_address *a, const char *text)
{
	struct braid_socket_address parsed = { .group = (gid_t)-1 };
	size_t n = strcspn(text, ",");
	const char *at = text + n;
	int err;

	if (!n || n >= sizeof(parsed.path))
		return braid_fail(-EINVAL, "\"%s\": a socket's path has 1 to %zu characters", text,
				  sizeof(parsed.path) - 1);
	memcpy(parsed.path, text, n);
	while (*at) {
		n = strcspn(++at, ",");
		err = take_option(&parsed, text, at, n);
		if (err)
			return err;
		at += n;
	}
	*a = parsed;
	return 0;
}

static bool has_listener(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool has = fd < 0 || !connect(fd, (const struct sockaddr *)address, sizeof(*address)) ||
		   errno != ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return has;
}

/* Removes a socket's file that has no listener left. */
static void remove_stale(int folder, const struct sockaddr_un *address)
{
	const char *name = braid_folder_name(address->sun_path);
	struct stat st;

	if (!fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISSOCK(st.st_mode) &&
	    !has_listener(address))
		braid_folder_remove(folder, name, &st);
}

static int fail_bind(const char *path, int err)
{
	struct stat st;

	if (err != EADDRINUSE)
		return braid_fail(-err, "%s: cannot listen: %s", path, strerror(err));
	if (!lstat(path, &st) && !S_ISSOCK(st.st_mode))
		return braid_fail(-err, "%s: cannot listen: a file of that name exists", path);
	return braid_fail(-err, "%s: another process listens there; stop that first", path);
}

/* The socket's file that bind() made. */
static int find_made(struct braid_listener *l, const char *name)
{
	if (!fstatat(l->folder, name, &l->made, AT_SYMLINK_NOFOLLOW) && S_ISSOCK(l->made.st_mode))
		return 0;
	return -ESTALE;
}

/* Clients can't connect before listen(), and the group is set by then. */
static int bind_listen(struct braid_listener *l, const struct sockaddr_un *address, gid_t group)
{
	const char *name = braid_folder_name(address->sun_path);
	mode_t mask = umask(0117);
	int err = bind(l->fd, (const struct sockaddr *)address, sizeof(*address)) ? errno : 0;

	umask(mask);
	if (err)
		return fail_bind(address->sun_path, err);
	err = find_made(l, name);
	if (err)
		return braid_fail(err, "%s: cannot listen: its folder was exchanged", address->sun_path);
	if ((group == (gid_t)-1 || !fchownat(l->folder, name, -1, group, AT_SYMLINK_NOFOLLOW)) &&
	    !listen(l->fd, BACKLOG))
		return 0;
	err = errno;
	braid_folder_remove(l->folder, name, &l->made);
	return braid_fail(-err, "%s: cannot listen: %s", address->sun_path, strerror(err));
}

int braid_listener_open(struct braid_listener *l, const struct braid_socket_address *a)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int err;

	*l = (struct braid_listener){ .fd = -1 };
	strcpy(address.sun_path, a->path);
	l->folder = braid_folder_open(a->path);
	if (l->folder < 0)
		return braid_fail(l->folder, "%s: cannot listen: %s", a->path, strerror(-l->folder));
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd >= 0) {
		remove_stale(l->folder, &address);
		err = bind_listen(l, &address, a->group);
		if (!err)
			return 0;
		close(l->fd);
		l->fd = -1;
	} else {
		err = braid_fail(-errno, "cannot create a socket: %s", strerror(errno));
	}
	close(l->folder);
	return err;
}

void braid_listener_close(struct braid_listener *l, const struct braid_socket_address *a)
{
	int waiting;

	if (l->fd < 0)
		return;
	braid_folder_remove(l->folder, braid_folder_name(a->path), &l->made);
	close(l->folder);
	/* Descriptors sent by clients that still wait for accept() are closed in the same way. */
	shutdown(l->fd, SHUT_RDWR);
	do {
		waiting = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
		braid_untrusted_fd_hang_up(waiting);
	} while (waiting >= 0);
	close(l->fd);
}

/* Patience ------------------------------------------------------------------------------- */

void braid_listener_fault(struct braid_listener *l)
{
	if (l->nr_faults < FAULTS_AT_ONCE)
		l->nr_faults++;
	if (l->nr_faults == FAULTS_AT_ONCE)
		l->quiet_ns = braid_monotonic_ns() + BRAID_SECOND_NS;
}

void braid_listener_give_up(struct braid_listener *l)
{
	l->quiet_ns = ~0ULL;
}

bool braid_listener_quiet(const struct braid_listener *l)
{
	return l->quiet_ns && braid_monotonic_ns() < l->quiet_ns;
}

int braid_listener_accept(struct braid_listener *l, const struct braid_socket_address *a,
			  pid_t *pid)
{
	struct ucred cred = { 0 };
	socklen_t n = sizeof(cred);
	int c;

	if (braid_listener_quiet(l))
		return -EAGAIN;
	c = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (c < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return -EAGAIN;
	if (c < 0) {	/* waiting clients stay queued, and would keep waking us */
		l->nr_faults = FAULTS_AT_ONCE;
		braid_listener_fault(l);
		return braid_fail(-errno, "%s: cannot accept a connection: %s%s", a->path,
				  strerror(errno), errno == EMFILE ?
				  "; raise the limit (ulimit -Hn, or LimitNOFILE= of a systemd unit)" : "");
	}
	*pid = getsockopt(c, SOL_SOCKET, SO_PEERCRED, &cred, &n) ? 0 : cred.pid;
	return c;
}

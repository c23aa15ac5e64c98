// SPDX-License-Identifier: GPL-2.0-or-later
/* Kinds of ports, and the plainest: a file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/transport/port.h"
#include "host_agent/util/error.h"

/* The last one takes all addresses. */
static const struct braid_port_ops *const kinds[] = {
	&braid_doorbell_port_ops,
	&braid_vhost_user_port_ops,
	&braid_file_port_ops,
};

static const struct braid_port_ops *kind_of(const char *address)
{
	size_t k = 0;

	while (strncmp(address, kinds[k]->scheme, strlen(kinds[k]->scheme)))
		k++;
	return kinds[k];
}

bool braid_port_is_socket(const char *address)
{
	return kind_of(address) != &braid_file_port_ops;
}

int braid_port_open(struct braid_port **out, const char *address)
{
	const struct braid_port_ops *ops = kind_of(address);

	return ops->open(out, address + strlen(ops->scheme));
}

void braid_port_close(struct braid_port *p)
{
	if (p)
		p->ops->close(p);
}

int braid_port_map(struct braid_port *p, struct braid_mapping **out)
{
	return p->ops->map(p, out);
}

int braid_port_serve(struct braid_port *p)
{
	return p->ops->serve ? p->ops->serve(p) : 0;
}

size_t braid_port_fds(const struct braid_port *p, struct pollfd *fds)
{
	return p->ops->fds ? p->ops->fds(p, fds) : 0;
}

void braid_port_ring(struct braid_port *p)
{
	if (p->ops->ring)
		p->ops->ring(p);
}

u32 braid_port_doorbell(const struct braid_port *p)
{
	return p->ops->doorbell ? p->ops->doorbell(p) : 0;
}

/* A file ------------------------------------------------------------------------------------ */

struct file_port {
	struct braid_port port;
	char *path;
	bool mapped;		/* once, and then: */
	uid_t uid;		/* the file was this user's */
};

static int file_open(struct braid_port **out, const char *path)
{
	struct file_port *p = calloc(1, sizeof(*p));

	if (!p)
		return braid_fail(-ENOMEM, "out of memory");
	p->port.ops = &braid_file_port_ops;
	p->path = strdup(path);
	if (!p->path) {
		free(p);
		return braid_fail(-ENOMEM, "out of memory");
	}
	*out = &p->port;
	return 0;
}

static void file_close(struct braid_port *port)
{
	struct file_port *p = (struct file_port *)port;

	free(p->path);
	free(p);
}

/* A guest comes back in a file of the same user's, or of ours: no other takes its place. */
static int file_map(struct braid_port *port, struct braid_mapping **out)
{
	struct file_port *p = (struct file_port *)port;
	int err = braid_mapping_take(out, p->path);
	uid_t uid;

	if (err)
		return err;
	uid = (*out)->uid;
	if (p->mapped && uid != p->uid && uid && uid != geteuid()) {
		braid_mapping_close(*out);
		*out = NULL;
		return braid_fail(-EPERM, "%s: the file belongs to user %u now, and belonged to user %u: not used",
				  p->path, (unsigned int)uid, (unsigned int)p->uid);
	}
	p->mapped = true;
	p->uid = uid;
	return 0;
}

const struct braid_port_ops braid_file_port_ops = {
	.scheme = "",
	.open = file_open,
	.close = file_close,
	.map = file_map,
};

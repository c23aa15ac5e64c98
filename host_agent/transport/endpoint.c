// SPDX-License-Identifier: GPL-2.0-or-later
/* Kinds of endpoints, and the plainest: a file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/transport/endpoint.h"
#include "host_agent/transport/vm_memory.h"
#include "host_agent/util/error.h"

/* The last one takes all addresses. */
static const struct braid_endpoint_ops *const kinds[] = {
	&braid_doorbell_endpoint_ops,
	&braid_vhost_user_endpoint_ops,
	&braid_vm_endpoint_ops,
	&braid_file_endpoint_ops,
};

static const struct braid_endpoint_ops *kind_of(const char *address)
{
	size_t k = 0;

	while (strncmp(address, kinds[k]->scheme, strlen(kinds[k]->scheme)))
		k++;
	return kinds[k];
}

bool braid_endpoint_has_scheme(const char *address)
{
	return *kind_of(address)->scheme;
}

int braid_endpoint_open(struct braid_endpoint **out, const char *address)
{
	const struct braid_endpoint_ops *ops = kind_of(address);

	return ops->open(out, address + strlen(ops->scheme));
}

int braid_endpoint_allow(const struct braid_endpoint *p)
{
	return p->ops->allow ? p->ops->allow(p) : 0;
}

void braid_endpoint_close(struct braid_endpoint *p)
{
	if (p)
		p->ops->close(p);
}

int braid_endpoint_map(struct braid_endpoint *p, struct braid_mapping **out)
{
	return p->ops->map(p, out);
}

void braid_endpoint_leave(struct braid_endpoint *p)
{
	if (p->ops->leave)
		p->ops->leave(p);
}

void braid_endpoint_move(struct braid_endpoint *p, pid_t pid)
{
	if (p->ops->move)
		p->ops->move(p, pid);
}

int braid_endpoint_serve(struct braid_endpoint *p)
{
	return p->ops->serve ? p->ops->serve(p) : 0;
}

size_t braid_endpoint_fds(const struct braid_endpoint *p, struct pollfd *fds)
{
	return p->ops->fds ? p->ops->fds(p, fds) : 0;
}

void braid_endpoint_ring(struct braid_endpoint *p)
{
	if (p->ops->ring)
		p->ops->ring(p);
}

u32 braid_endpoint_doorbell(const struct braid_endpoint *p)
{
	return p->ops->doorbell ? p->ops->doorbell(p) : 0;
}

void braid_endpoint_settle(struct braid_endpoint *p)
{
	if (p->ops->settle)
		p->ops->settle(p);
}

void braid_endpoint_vouch(struct braid_endpoint *p, u64 since_ns)
{
	if (p->ops->vouch)
		p->ops->vouch(p, since_ns);
}

u64 braid_endpoint_unproven(const struct braid_endpoint *p)
{
	return p->ops->unproven ? p->ops->unproven(p) : 0;
}

u64 braid_endpoint_rest_ns(const struct braid_endpoint *p)
{
	return p->ops->rest_ns ? p->ops->rest_ns(p) : 0;
}

bool braid_endpoint_gather(struct braid_endpoint *p)
{
	return p->ops->gather && p->ops->gather(p);
}

void braid_endpoint_fetch(void)
{
	braid_vm_memory_fetch();
}

/* A file ------------------------------------------------------------------------------------ */

struct file_endpoint {
	struct braid_endpoint endpoint;
	char *path;
	bool mapped;		/* once, and then: */
	uid_t uid;		/* the file was this user's */
};

static int file_open(struct braid_endpoint **out, const char *path)
{
	struct file_endpoint *p = calloc(1, sizeof(*p));

	if (!p)
		return braid_out_of_memory();
	p->endpoint.ops = &braid_file_endpoint_ops;
	p->path = strdup(path);
	if (!p->path) {
		free(p);
		return braid_out_of_memory();
	}
	*out = &p->endpoint;
	return 0;
}

static void file_close(struct braid_endpoint *endpoint)
{
	struct file_endpoint *p = (struct file_endpoint *)endpoint;

	free(p->path);
	free(p);
}

/* A guest returns in a file owned by the same user or by us; no other file replaces it. */
static int file_map(struct braid_endpoint *endpoint, struct braid_mapping **out)
{
	struct file_endpoint *p = (struct file_endpoint *)endpoint;
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

const struct braid_endpoint_ops braid_file_endpoint_ops = {
	.scheme = "",
	.open = file_open,
	.close = file_close,
	.map = file_map,
};

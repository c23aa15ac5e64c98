// SPDX-License-Identifier: GPL-2.0-or-later
/* The endpoint of a region in a guest's own memory: "pid:PID", of its VMM. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "host_agent/transport/endpoint.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define LEAST_NS	500000000ULL	/* from one search to the next */

struct vm_endpoint {
	struct braid_endpoint endpoint;
	pid_t pid;
	char path[32];
	struct braid_vm_mirror *mirror;	/* without mapping: it was left, and the next one goes on */
	struct braid_mapping *mapping;	/* of the mirror, until it is closed */
	u64 due_ns;			/* of the next search */
	u64 turned_ns;			/* when the last turn ended */
};

static int vm_endpoint_open(struct braid_endpoint **out, const char *address)
{
	struct vm_endpoint *p;
	char *end;
	long pid;

	errno = 0;
	pid = strtol(address, &end, 10);
	if (end == address || *end || errno || pid <= 0 || pid > INT_MAX)
		return braid_fail(-EINVAL, "pid:%s: not a process: use pid:NUMBER, of the guest's VMM",
				  address);
	p = calloc(1, sizeof(*p));
	if (!p)
		return braid_out_of_memory();
	p->endpoint.ops = &braid_vm_endpoint_ops;
	p->pid = pid;
	snprintf(p->path, sizeof(p->path), "pid:%ld", pid);
	*out = &p->endpoint;
	return 0;
}

static void vm_endpoint_close(struct braid_endpoint *endpoint)
{
	struct vm_endpoint *p = (struct vm_endpoint *)endpoint;

	braid_vm_mirror_close(p->mirror);
	free(p);
}

static int vm_endpoint_map(struct braid_endpoint *endpoint, struct braid_mapping **out)
{
	struct vm_endpoint *p = (struct vm_endpoint *)endpoint;
	u64 now_ns = braid_monotonic_ns(), end_ns;
	struct braid_vm_mirror *former = p->mirror;
	int err;

	if (now_ns < p->due_ns)
		return braid_fail(-ENODATA, "%s: no region in the guest's memory", p->path);
	err = braid_vm_mirror_open(&p->mirror, p->pid, p->path, former);
	end_ns = braid_monotonic_ns();
	p->due_ns = end_ns + BRAID_VM_SEARCH_SHARE * (end_ns - now_ns);
	if (p->due_ns < end_ns + LEAST_NS)
		p->due_ns = end_ns + LEAST_NS;
	if (err)
		return err;
	braid_vm_mirror_close(former);
	p->mapping = *out = braid_vm_mirror_mapping(p->mirror);
	p->mapping->owner = &p->mapping;
	return 0;
}

/* Whoever drains the copy in several polls needs a turn for the first one only. */
static bool vm_endpoint_is_due(const struct vm_endpoint *p)
{
	return p->mapping &&
	       braid_monotonic_ns() - p->turned_ns >= braid_vm_mirror_rest_ns(p->mirror) / 2;
}

static void vm_endpoint_leave(struct braid_endpoint *endpoint)
{
	struct vm_endpoint *p = (struct vm_endpoint *)endpoint;

	if (p->mapping)
		braid_vm_mirror_leave(p->mirror);
}

static void vm_endpoint_move(struct braid_endpoint *endpoint, pid_t pid)
{
	struct vm_endpoint *p = (struct vm_endpoint *)endpoint;

	p->pid = pid;
	snprintf(p->path, sizeof(p->path), "pid:%ld", (long)pid);
	p->due_ns = 0;
}

static int vm_endpoint_serve(struct braid_endpoint *endpoint)
{
	struct vm_endpoint *p = (struct vm_endpoint *)endpoint;

	if (!vm_endpoint_is_due(p))
		return 0;
	p->turned_ns = braid_monotonic_ns();
	return braid_vm_mirror_pull(p->mirror);
}

static void vm_endpoint_settle(struct braid_endpoint *endpoint)
{
	struct vm_endpoint *p = (struct vm_endpoint *)endpoint;

	if (p->mapping)
		braid_vm_mirror_settle(p->mirror);
}

static void vm_endpoint_vouch(struct braid_endpoint *endpoint, u64 since_ns)
{
	struct vm_endpoint *p = (struct vm_endpoint *)endpoint;

	if (p->mapping)
		braid_vm_mirror_vouch(p->mirror, since_ns);
}

static u64 vm_endpoint_unproven(const struct braid_endpoint *endpoint)
{
	const struct vm_endpoint *p = (const struct vm_endpoint *)endpoint;

	return p->mapping ? braid_vm_mirror_unproven(p->mirror) : 0;
}

static bool vm_endpoint_gather(struct braid_endpoint *endpoint)
{
	struct vm_endpoint *p = (struct vm_endpoint *)endpoint;

	return vm_endpoint_is_due(p) && braid_vm_mirror_gather(p->mirror);
}

static u64 vm_endpoint_rest_ns(const struct braid_endpoint *endpoint)
{
	const struct vm_endpoint *p = (const struct vm_endpoint *)endpoint;

	return p->mapping ? braid_vm_mirror_rest_ns(p->mirror) : 0;
}

const struct braid_endpoint_ops braid_vm_endpoint_ops = {
	.scheme = BRAID_VM_SCHEME,
	.open = vm_endpoint_open,
	.close = vm_endpoint_close,
	.map = vm_endpoint_map,
	.leave = vm_endpoint_leave,
	.move = vm_endpoint_move,
	.serve = vm_endpoint_serve,
	.settle = vm_endpoint_settle,
	.vouch = vm_endpoint_vouch,
	.unproven = vm_endpoint_unproven,
	.rest_ns = vm_endpoint_rest_ns,
	.gather = vm_endpoint_gather,
};

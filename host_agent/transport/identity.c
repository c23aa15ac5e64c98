// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads a superblock that may be written at the same time, and says what it is. */
#include <errno.h>
#include <string.h>

#include "host_agent/transport/transport.h"
#include "host_agent/util/error.h"
#include "shared/region.h"

#define COPY_TRIES	16	/* a driver needs longer between two inits than we for a copy */

struct copy {
	const struct braid_mapping *m;
	struct braid_superblock *sb;
	bool blank;		/* the whole first page is 0 */
};

static bool all_zero(const u8 *bytes, size_t n)
{
	while (n--)
		if (bytes[n])
			return false;
	return true;
}

/* Copies until identity and state were the same before and after. */
static int copy_superblock(void *arg)
{
	struct copy *c = arg;
	const struct braid_superblock *shared = (const void *)c->m->base;
	int tries;

	for (tries = 0; tries < COPY_TRIES; tries++) {
		u32 state = braid_load_acquire(&shared->state);
		u64 incarnation = braid_load(&shared->incarnation);

		braid_fence();
		memcpy(c->sb, shared, sizeof(*shared));
		braid_fence();
		c->blank = !c->sb->magic && all_zero((const u8 *)c->sb, sizeof(*c->sb));
		if (c->sb->state == state && c->sb->incarnation == incarnation &&
		    braid_load(&shared->state) == state &&
		    braid_load(&shared->incarnation) == incarnation)
			return 0;
	}
	return braid_fail(-EAGAIN, "%s: its superblock does not stand still", c->m->path);
}

int braid_mapping_identify(const struct braid_mapping *m, struct braid_superblock *sb)
{
	struct braid_superblock copy;
	struct copy c = { .m = m, .sb = &copy };
	const char *why;
	int err;

	err = braid_guard_run(m->base, m->bytes, copy_superblock, &c);
	if (err)
		return err;
	if (c.blank)
		return braid_fail(-ENODATA, "%s: the driver is not loaded in its guest yet", m->path);
	if (copy.magic != BRAID_MAGIC)
		return braid_fail(-EMEDIUMTYPE, "%s: not a tracebraid region", m->path);
	if (copy.version_major != BRAID_VERSION_MAJOR)
		return braid_fail(-EPROTO,
				  "%s: version %u.%u, and this agent knows %u; use the agent that came with the guest's driver",
				  m->path, copy.version_major, copy.version_minor,
				  BRAID_VERSION_MAJOR);
	if (copy.state == BRAID_STATE_INIT)
		return braid_fail(-EAGAIN, "%s: its driver is starting", m->path);
	why = braid_region_check(&copy, m->bytes);
	if (why)
		return braid_fail(-EBADMSG, "%s: a broken region: %s", m->path, why);
	*sb = copy;
	return 0;
}

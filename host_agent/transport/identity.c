// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads and identifies a superblock that may be written at the same time. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "host_agent/transport/transport.h"
#include "host_agent/util/error.h"
#include "shared/region.h"

#define COPY_TRIES	16	/* a driver needs longer between two inits than we for a copy */
#define CHANGE_STEP_NS	1000000	/* delay between reads while the buffers change, which takes a guest
				   microseconds */
#define CHANGE_TRIES	16

struct copy {
	const struct braid_mapping *m;
	struct braid_superblock *sb;
	bool torn;		/* buffers that change are good enough */
	bool blank;		/* the superblock is 0, or the mark and 0 */
};

static bool all_zero(const u8 *bytes, size_t n)
{
	while (n--)
		if (bytes[n])
			return false;
	return true;
}

/* Copies until identity, state and buffers were the same before and after. */
static int copy_superblock(void *arg)
{
	struct copy *c = arg;
	const struct braid_superblock *shared = (const void *)c->m->base;
	int tries;

	for (tries = 0; tries < COPY_TRIES; tries++) {
		u32 seq = braid_load_acquire(&shared->buffers_seq);	/* (R3) */
		u32 state = braid_load_acquire(&shared->state);
		u64 incarnation = braid_load(&shared->incarnation);

		if (seq & 1 && state != BRAID_STATE_INIT && !c->torn)
			return braid_fail(-EINPROGRESS, "%s: its buffers are changing", c->m->path);
		braid_fence();
		memcpy(c->sb, shared, sizeof(*shared));
		braid_fence();
		c->blank = (!c->sb->magic || c->sb->magic == BRAID_MARK) &&
			   all_zero((const u8 *)c->sb + sizeof(c->sb->magic),
				    sizeof(*c->sb) - sizeof(c->sb->magic));
		if (c->sb->state == state && c->sb->incarnation == incarnation &&
		    c->sb->buffers_seq == seq && braid_load(&shared->state) == state &&
		    braid_load(&shared->incarnation) == incarnation &&
		    braid_load(&shared->buffers_seq) == seq)
			return 0;
	}
	return braid_fail(-EAGAIN, "%s: its superblock keeps changing", c->m->path);
}

int braid_mapping_probe(const struct braid_mapping *m, struct braid_superblock *sb, bool torn)
{
	struct braid_superblock copy;
	struct copy c = { .m = m, .sb = &copy, .torn = torn };
	const char *why;
	int err;

	err = braid_guard_run(m->base, m->bytes, copy_superblock, &c);
	if (err)
		return err;
	if (c.blank)
		return braid_fail(-ENODATA, "%s: no driver has used it yet%s", m->path,
				  copy.magic ? "" : ", and will not use a file that 'tracebraid create' has not marked");
	if (copy.magic != BRAID_MAGIC)
		return braid_fail(-EMEDIUMTYPE, "%s: not a tracebraid region", m->path);
	if (copy.version_major != BRAID_VERSION_MAJOR)
		return braid_fail(-EPROTO,
				  "%s: version %u.%u, but this agent supports %u; use the agent that came with the guest's driver",
				  m->path, copy.version_major, copy.version_minor,
				  BRAID_VERSION_MAJOR);
	if (copy.state == BRAID_STATE_INIT)
		return braid_fail(-EAGAIN, "%s: its driver is starting", m->path);
	why = braid_region_check(&copy, m->bytes);
	if (why)
		return braid_fail(-EBADMSG, "%s: invalid region: %s", m->path, why);
	*sb = copy;
	return 0;
}

bool braid_mapping_marked(const struct braid_mapping *m)
{
	u64 word;

	return !braid_guard_copy(m->base, m->bytes, &word, m->base, sizeof(word)) &&
	       word == BRAID_MARK;
}

int braid_mapping_identify(const struct braid_mapping *m, struct braid_superblock *sb)
{
	const struct timespec step = { .tv_nsec = CHANGE_STEP_NS };
	int tries, err = -EINPROGRESS;

	for (tries = 0; tries < CHANGE_TRIES && err == -EINPROGRESS; tries++) {
		if (tries)
			nanosleep(&step, NULL);
		err = braid_mapping_probe(m, sb, tries == CHANGE_TRIES - 1);
	}
	return err;
}

int braid_mapping_buffers(const struct braid_mapping *m, struct braid_superblock *sb)
{
	const struct braid_superblock *shared = (const void *)m->base;
	u32 seq = braid_load_acquire(&shared->buffers_seq);	/* (R3) */
	struct braid_superblock copy = *sb;
	const char *why;

	if (seq & 1)
		return -EAGAIN;
	copy.buffers_seq = seq;
	copy.nr_buffers = braid_load(&shared->nr_buffers);
	memcpy(copy.buffers, shared->buffers, sizeof(copy.buffers));
	braid_fence();
	if (braid_load(&shared->buffers_seq) != seq)
		return -EAGAIN;
	if (!braid_mapping_same(m, sb->incarnation))
		return -ESTALE;
	why = braid_region_check(&copy, m->bytes);
	if (why)
		return braid_fail(-EBADMSG, "%s", why);
	*sb = copy;
	return 0;
}

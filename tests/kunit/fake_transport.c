// SPDX-License-Identifier: GPL-2.0
/* Delivers vmalloc'ed memory to the client when a test requests it. */
#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/vmalloc.h>

#include "tests/kunit/fake_transport.h"

static const struct braid_transport_client *client;
static void ring(void *transport, u32 value);
static struct braid_range range = { .name = "fake", .ring = ring };
static bool plugged;
static atomic_t rings;
static u32 ring_value;

static void ring(void *transport, u32 value)
{
	WRITE_ONCE(ring_value, value);
	atomic_inc_return(&rings);	/* a full barrier */
}

int braid_fake_rung(u32 *value)
{
	int times = atomic_add_return(0, &rings);

	*value = READ_ONCE(ring_value);
	return times;
}

void braid_fake_ring(void)
{
	client->rang();
}

int braid_fake_make(u64 bytes)
{
	range.base = vzalloc(bytes);
	range.bytes = bytes;
	range.invited = true;
	atomic_set(&rings, 0);
	return range.base ? 0 : -ENOMEM;
}

void braid_fake_unmark(void)
{
	range.invited = false;
}

void braid_fake_free(void)
{
	braid_fake_unplug();
	vfree(range.base);
	range.base = NULL;
}

int braid_fake_plug(void)
{
	int err = client->attach(&range);

	if (!err)
		plugged = true;
	return err;
}

void braid_fake_unplug(void)
{
	if (plugged)
		client->detach();
	plugged = false;
}

void *braid_fake_memory(void)
{
	return range.base;
}

static int fake_init(const struct braid_transport_client *who)
{
	client = who;
	return 0;
}

static void fake_exit(void)
{
	braid_fake_free();
}

const struct braid_transport_ops braid_fake_ops = {
	.name = "fake",
	.init = fake_init,
	.exit = fake_exit,
};

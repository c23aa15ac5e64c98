// SPDX-License-Identifier: GPL-2.0
/* Hands vmalloc'ed memory to the client, when a test says so. */
#include <linux/errno.h>
#include <linux/vmalloc.h>

#include "tests/kunit/fake_transport.h"

static const struct braid_transport_client *client;
static struct braid_range range = { .name = "fake" };
static bool plugged;

int braid_fake_make(u64 bytes)
{
	range.base = vzalloc(bytes);
	range.bytes = bytes;
	return range.base ? 0 : -ENOMEM;
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

// SPDX-License-Identifier: GPL-2.0
/*
 * The test module after its suites have run: the driver's rooms with an event and a buffer, which
 * init.c checks as a user does. Under debugfs, tracebraid_kunit/:
 *   tick    write N: record the event "kunit:tick" N times
 *   event   write 1 or 0: register or unregister the event "kunit:fleeting"
 */
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/uaccess.h>

#include "tests/kunit/fake_transport.h"
#include "tests/kunit/rooms.h"
#include "tracebraid/event.h"

static const struct braid_event_desc tick = {
	.system = "kunit",
	.name = "tick",
	.fields = "\tfield:u64 n;\toffset:8;\tsize:8;\tsigned:0;\n",
	.print_fmt = "\"n=%llu\", REC->n",
};
static const struct braid_event_desc fleeting = { .system = "kunit", .name = "fleeting" };

static struct dentry *dir;
static struct braid_buffer *spare;
static int tick_id, fleeting_id;
static int up_error = -EAGAIN;

static int tick_set(void *unused, u64 times)
{
	static u64 n;
	int err = 0;

	while (times-- && !err) {
		n++;
		err = braid_record_event(NULL, tick_id, sizeof(n), &n);
	}
	return err;
}
DEFINE_DEBUGFS_ATTRIBUTE(tick_fops, NULL, tick_set, "%llu\n");

static int event_set(void *unused, u64 there)
{
	if (there) {
		fleeting_id = braid_register_event(NULL, 0, &fleeting);
		return min(fleeting_id, 0);
	}
	return braid_unregister_event(NULL, fleeting_id);
}
DEFINE_DEBUGFS_ATTRIBUTE(event_fops, NULL, event_set, "%llu\n");

static int __ref rooms_up(void)
{
	int err = braid_rooms_up();

	if (err)
		return err;
	err = braid_fake_make(BRAID_TEST_BYTES);
	if (!err)
		err = braid_fake_plug();
	if (err)
		goto err_rooms;
	spare = braid_buffer_alloc("spare", 16 << 10, BRAID_ALLOC_RAW, NULL);
	if (IS_ERR(spare)) {
		err = PTR_ERR(spare);
		goto err_rooms;
	}
	tick_id = braid_register_event(NULL, 0, &tick);
	if (tick_id < 0) {
		err = tick_id;
		goto err_spare;
	}
	dir = debugfs_create_dir("tracebraid_kunit", NULL);
	debugfs_create_file_unsafe("tick", 0200, dir, NULL, &tick_fops);
	debugfs_create_file_unsafe("event", 0200, dir, NULL, &event_fops);
	return 0;

err_spare:
	braid_buffer_free(spare);
err_rooms:
	braid_rooms_down();
	return err;
}

/*
 * KUnit runs a module's suites before its init function, and since 6.8 after it, when the module
 * becomes live: both are before this notifier, which is the last one, and __init code is still
 * present.
 */
static int __ref is_live(struct notifier_block *nb, unsigned long state, void *module)
{
	if (module == THIS_MODULE && state == MODULE_STATE_LIVE)
		up_error = rooms_up();
	return NOTIFY_DONE;
}

static struct notifier_block live_notifier = { .notifier_call = is_live, .priority = INT_MIN };

static int __init tracebraid_kunit_init(void)
{
	return register_module_notifier(&live_notifier);
}

static void __exit tracebraid_kunit_exit(void)
{
	unregister_module_notifier(&live_notifier);
	if (up_error)
		return;
	debugfs_remove(dir);
	braid_unregister_event(NULL, tick_id);
	braid_buffer_free(spare);
	braid_rooms_down();
}

module_init(tracebraid_kunit_init);
module_exit(tracebraid_kunit_exit);
MODULE_DESCRIPTION("Suites for the rooms of tracebraid");
MODULE_LICENSE("GPL");

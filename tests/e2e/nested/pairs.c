// SPDX-License-Identifier: GPL-2.0
/*
 * Causes an exit to the host between two events of the guest: records pairs:before, writes a
 * number to an unused I/O port, records pairs:after, all three with interrupts off. A
 * host on KVM sees the write as kvm_pio, with the number as its value.
 *
 *   echo N M T > /sys/kernel/debug/pairs/run      N pairs on this CPU; sleeps T us after each M
 *   cat /sys/kernel/debug/pairs/made              total of pairs with both events recorded
 *   echo CPU STEP > /sys/kernel/debug/pairs/step  adds STEP to that CPU's time stamp counter
 *
 * A number is @tag << 24 and a count: with a separate tag for each guest and each boot, all pairs
 * are distinct.
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/uaccess.h>
#include <asm/cpufeature.h>
#include <asm/msr.h>

#include "guest_driver/compat.h"
#include "tracebraid/event.h"

#define PORT		0x6660	/* unclaimed in QEMU's "pc": QEMU ignores the write */
#define PORT_BYTES	4
#define TAG_SHIFT	24

static u8 tag;
module_param(tag, byte, 0444);
MODULE_PARM_DESC(tag, "the upper 8 bits of all numbers");

enum half { BEFORE, AFTER, NR_HALVES };

#define FIELDS	"\tfield:u32 number;\toffset:8;\tsize:4;\tsigned:0;\n"
#define FORMAT	"\"number=0x%x\", REC->number"

static const struct braid_event_desc descs[NR_HALVES] = {
	[BEFORE] = { .system = "pairs", .name = "before", .fields = FIELDS, .print_fmt = FORMAT },
	[AFTER] = { .system = "pairs", .name = "after", .fields = FIELDS, .print_fmt = FORMAT },
};

static int event_ids[NR_HALVES];
static atomic_t count, made;
static struct dentry *dir;

static void make_pair(void)
{
	u32 counted = (u32)atomic_inc_return(&count) & ((1u << TAG_SHIFT) - 1);
	u32 number = (u32)tag << TAG_SHIFT | counted;
	unsigned long flags;
	int err;

	local_irq_save(flags);
	err = braid_record_event(NULL, event_ids[BEFORE], sizeof(number), &number);
	outl(number, PORT);
	if (braid_record_event(NULL, event_ids[AFTER], sizeof(number), &number))
		err = -ENODATA;
	local_irq_restore(flags);
	if (!err)
		atomic_inc(&made);
}

/* Parses up to three numbers of written text. Returns how many, or -errno. */
static int take_numbers(const char __user *from, size_t bytes, s64 *numbers)
{
	char text[64] = "";

	if (bytes >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, bytes))
		return -EFAULT;
	return sscanf(text, "%lld %lld %lld", &numbers[0], &numbers[1], &numbers[2]);
}

static ssize_t run_write(struct file *file, const char __user *from, size_t bytes, loff_t *at)
{
	s64 numbers[3], k;
	int nr = take_numbers(from, bytes, numbers);

	if (nr < 0)
		return nr;
	if (nr != 3 || numbers[1] <= 0 || numbers[2] < 0)
		return -EINVAL;
	for (k = 1; k <= numbers[0]; k++) {
		make_pair();
		if (k % numbers[1] == 0)
			usleep_range(numbers[2], numbers[2] + 1);
		if (signal_pending(current))
			return -EINTR;
	}
	return bytes;
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = run_write,
};

/*
 * Writes the counter itself, so it misses @step by the time that this takes. A guest with
 * IA32_TSC_ADJUST undoes the step the next time it is idle.
 */
static void step_here(void *arg)
{
	s64 *step = arg;

	braid_wrmsrq(MSR_IA32_TSC, rdtsc_ordered() + *step);
}

static ssize_t step_write(struct file *file, const char __user *from, size_t bytes, loff_t *at)
{
	s64 numbers[3];
	int nr = take_numbers(from, bytes, numbers), err;

	if (nr < 0)
		return nr;
	if (nr != 2)
		return -EINVAL;
	if (boot_cpu_has(X86_FEATURE_TSC_ADJUST))
		return -EOPNOTSUPP;
	err = smp_call_function_single(numbers[0], step_here, &numbers[1], 1);
	return err ?: bytes;
}

static const struct file_operations step_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = step_write,
};

static int made_show(struct seq_file *seq, void *unused)
{
	seq_printf(seq, "%d\n", atomic_read(&made));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(made);

static int __init pairs_init(void)
{
	int err = -EBUSY;

	if (!request_region(PORT, PORT_BYTES, "pairs"))
		return err;
	event_ids[BEFORE] = err = braid_register_event(NULL, 0, &descs[BEFORE]);
	if (err < 0)
		goto err_port;
	event_ids[AFTER] = err = braid_register_event(NULL, 0, &descs[AFTER]);
	if (err < 0)
		goto err_before;
	dir = debugfs_create_dir("pairs", NULL);
	debugfs_create_file("run", 0200, dir, NULL, &run_fops);
	debugfs_create_file("made", 0400, dir, NULL, &made_fops);
	debugfs_create_file("step", 0200, dir, NULL, &step_fops);
	return 0;

err_before:
	braid_unregister_event(NULL, event_ids[BEFORE]);
err_port:
	release_region(PORT, PORT_BYTES);
	return err;
}

static void __exit pairs_exit(void)
{
	debugfs_remove(dir);
	braid_unregister_event(NULL, event_ids[AFTER]);
	braid_unregister_event(NULL, event_ids[BEFORE]);
	release_region(PORT, PORT_BYTES);
}

module_init(pairs_init);
module_exit(pairs_exit);
MODULE_DESCRIPTION("Events of the guest around an exit to the host, for tests");
MODULE_LICENSE("GPL");

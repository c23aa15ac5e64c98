// SPDX-License-Identifier: GPL-2.0
/* Records which CPUs go offline and online. */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>

#include "guest_driver/event/event.h"
#include "guest_driver/event/online.h"

#define TELL_FIRST	(HZ / 10)
#define TELL_MOST	(10 * HZ)

struct online_record {
	struct braid_record head;
	u32 cpu;
	u32 online;
};

static void braid_online_synchronize(void)
{
}

static int braid_online_format(const struct braid_event *ev, u16 id, char *text, size_t bytes)
{
	int len = snprintf(text, bytes,
			   "name: %s\nID: %u\nformat:\n" BRAID_COMMON_FIELDS
			   "\tfield:unsigned int cpu;\toffset:8;\tsize:4;\tsigned:0;\n"
			   "\tfield:unsigned int online;\toffset:12;\tsize:4;\tsigned:0;\n"
			   "\nprint fmt: \"cpu=%%u %%s\", REC->cpu, REC->online ? \"online\" : \"offline\"\n",
			   ev->name, id);

	return len < bytes ? len : -ENOSPC;
}

static const struct braid_event_ops online_ops = {
	.synchronize = braid_online_synchronize,
	.format = braid_online_format,
};

static struct braid_event event;
static int hotplug_state;
static unsigned long next_tell, tell_after;	/* jiffies */

static void braid_online_write(u32 cpu, bool online)
{
	unsigned long pc = preempt_count();
	struct online_record *record;
	struct braid_slot slot;

	if (!READ_ONCE(event.listed))	/* no region, or its directory is full */
		return;
	preempt_disable_notrace();
	record = braid_event_reserve(&event, &slot, sizeof(*record), pc, false);
	if (record) {
		record->cpu = cpu;
		record->online = online;
		braid_event_commit(&slot);
	}
	preempt_enable_notrace();
}

static int braid_online_came(unsigned int cpu)
{
	braid_online_write(cpu, true);
	return 0;
}

static int braid_online_goes(unsigned int cpu)
{
	braid_online_write(cpu, false);
	return 0;
}

/*
 * Those that are not present have no vCPU. The thread that polls must not wait for a CPU that comes
 * or goes. Return: false then.
 */
static bool braid_online_tell(void)
{
	u32 cpu;

	if (!cpus_read_trylock())
		return false;
	for_each_present_cpu(cpu)
		if (!cpu_online(cpu))
			braid_online_write(cpu, false);
	cpus_read_unlock();
	return true;
}

void braid_online_renew(void)
{
	next_tell = jiffies;
	tell_after = TELL_FIRST;
}

void braid_online_poll(bool agent)
{
	if (!agent)
		braid_online_renew();
	else if (time_after_eq(jiffies, next_tell) && braid_online_tell()) {
		next_tell = jiffies + tell_after;
		tell_after = min_t(unsigned long, 2 * tell_after, TELL_MOST);
	}
}

int braid_online_init(void)
{
	int err;

	braid_online_renew();
	event = (struct braid_event){
		.buffer = braid_trace_buffer(), .system = "tracebraid", .name = "cpu_online",
		.ops = &online_ops,
	};
	err = braid_event_add(&event, 0);
	if (err < 0)
		return err;
	err = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "tracebraid:online", braid_online_came,
					braid_online_goes);
	if (err < 0) {
		braid_event_remove_all(&event, 1);
		return err;
	}
	hotplug_state = err;
	return 0;
}

void braid_online_exit(void)
{
	cpuhp_remove_state_nocalls(hotplug_state);
	braid_event_remove_all(&event, 1);
}

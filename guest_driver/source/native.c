// SPDX-License-Identifier: GPL-2.0
/* Adds the generated tracepoints to the registry. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/init.h>
#include <linux/slab.h>

#include "guest_driver/event/event.h"
#include "guest_driver/source/native.h"
#include "guest_driver/source/print.h"
#include "guest_driver/source/source.h"
#include "guest_driver/source/syscalls.h"

static struct braid_event *events;
static unsigned int nr_events;

static int braid_native_enable(struct braid_event *ev)
{
	return braid_source_enable(ev->source, ev);
}

static void braid_native_disable(struct braid_event *ev)
{
	braid_source_disable(ev->source);
}

static int braid_native_format(const struct braid_event *ev, u16 id, char *text, size_t bytes)
{
	return braid_source_format(ev->source, id, text, bytes);
}

static const struct braid_event_ops native_ops = {
	.enable = braid_native_enable,
	.disable = braid_native_disable,
	.synchronize = braid_source_synchronize,
	.format = braid_native_format,
	.filters = true,
};

static const struct braid_outputs native_outputs = {
	.trace = braid_print_native,
};

static int __init braid_native_add_all(void)
{
	const struct braid_tracepoint *tp = NULL;
	int id;

	while ((tp = braid_source_next(tp)) != NULL) {
		struct braid_event *ev = &events[nr_events];

		ev->buffer = braid_trace_buffer();
		ev->system = tp->system;
		ev->name = tp->name;
		ev->ops = &native_ops;
		ev->source = tp;
		ev->outputs = &native_outputs;
		id = braid_event_add(ev, 0);
		if (id < 0)
			return id;
		nr_events++;
	}
	return braid_syscalls_add(events, nr_events);
}

int __init braid_native_init(void)
{
	int err = braid_source_init();

	if (err)
		return err;
	err = braid_print_init();
	events = kvcalloc(braid_source_count(), sizeof(*events), GFP_KERNEL);
	if (!err)
		err = events ? braid_native_add_all() : -ENOMEM;
	if (err)
		braid_native_exit();
	else
		pr_info("%u native events (others in the trace headers: %u not in this kernel, %u omitted)\n",
			nr_events, braid_source_missing(), braid_source_left_out());
	return err;
}

void braid_native_exit(void)
{
	braid_event_remove_all(events, nr_events);
	nr_events = 0;
	kvfree(events);
	events = NULL;
	braid_syscalls_exit();
	braid_print_exit();
	braid_source_exit();
}

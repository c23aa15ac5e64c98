// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The stages from an interrupt to the task that it wakes: between which events, and what breaks
 * them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/analyze_text.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"

#define HLT		12
#define TIMER		236
#define DEVICE		0x25
#define HARDIRQ		0x08
#define SOFTIRQ		0x10
#define FLAGS_OFFSET	2	/* of common_flags */
#define JSON		((struct braid_analysis_options){ .form = BRAID_TABLE_JSON })
#define STAGE(name, count) "\"stage\":\"" name "\",\"count\":" count

static char *wake(struct braid_analysis_options wants)
{
	int err;
	char *text = analyze_with("wake", wants, &err);

	NEED(!err);
	return text;
}

static struct memory_event *vector_event(u32 ring, s64 ns, u16 id, s32 pid, u32 vector)
{
	struct memory_event *e = memory_add(ring, ns, id, pid);

	memory_put(e, 8, vector, 4);
	return e;
}

/* An interrupt for the vCPU whose APIC has the id 0. */
static struct memory_event *raise_for_0(u32 ring, s64 ns, s32 pid, u32 vector)
{
	struct memory_event *e = memory_add(ring, ns, MEMORY_RAISE, pid);

	memory_put(e, 16, vector, 1);
	return e;
}

static void halted(s64 ns, u64 duration, bool waited)
{
	struct memory_event *e = memory_add(0, ns, MEMORY_HALTED, 70);

	memory_put(e, 8, duration, 8);
	memory_put(e, 16, waited, 1);
}

static void wake_in(s64 ns, s32 pid, u32 flags)
{
	struct memory_event *e = memory_wakeup(2, ns, pid);

	memory_put(e, FLAGS_OFFSET, flags, 1);
}

/* The vCPU halts at 1200 and sleeps from 1300 on; the guest's task 40 sleeps. */
static void begin(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	memory_switch(2, 1100, 40, 1, 0);
	memory_exit(0, 1200, 70, HLT);
	memory_switch(0, 1300, 70, 1, 9);
}

/* It is woken at 2100 on the other CPU, and runs from 2400 on. */
static void wake_vcpu(void)
{
	memory_wakeup(1, 2100, 70);
	memory_switch(0, 2400, 9, 0, 70);
}

/* It enters the guest at 2500 with a timer's interrupt, whose handler wakes the task. */
static void handle(void)
{
	vector_event(0, 2450, MEMORY_INJECT, 70, TIMER);
	memory_entry(0, 2500, 70);
	vector_event(2, 2600, MEMORY_TIMER, 0, TIMER)->bound = 7;
	wake_in(2650, 40, HARDIRQ);
	vector_event(2, 2680, MEMORY_TIMER_END, 0, TIMER);
	memory_switch(2, 2800, 0, 0, 40);
	memory_switch(0, 4000, 70, 1, 9);
}

static void whole_chain(void)
{
	begin();
	raise_for_0(1, 2000, 5, TIMER);
	raise_for_0(1, 2050, 5, TIMER);		/* it is pending already */
	wake_vcpu();
	handle();
	text_has(wake(JSON),
		 STAGE("raised to vCPU woken", "1") ",\"p50_ns\":96,\"p99_ns\":96,\"worst_ns\":100,"
		 "\"worst_at_ns\":2000,\"bound_ns\":0,\"below_1us\":1,\"below_10us\":0,",
		 STAGE("vCPU woken to on CPU", "1") ",\"p50_ns\":288,\"p99_ns\":288,\"worst_ns\":300,"
		 "\"worst_at_ns\":2100,",
		 STAGE("on CPU to injected", "1") ",\"p50_ns\":48,\"p99_ns\":48,\"worst_ns\":50,",
		 STAGE("raised to injected", "1") ",\"p50_ns\":448,\"p99_ns\":448,\"worst_ns\":450,",
		 STAGE("injected to entry", "1") ",\"p50_ns\":48,\"p99_ns\":48,\"worst_ns\":50,",
		 STAGE("entry to handler", "1") ",\"p50_ns\":96,\"p99_ns\":96,\"worst_ns\":100,"
		 "\"worst_at_ns\":2500,\"bound_ns\":7,",
		 STAGE("handler to task woken", "1") ",\"p50_ns\":48,\"p99_ns\":48,\"worst_ns\":50,"
		 "\"worst_at_ns\":2600,",
		 STAGE("task woken to on CPU", "1") ",\"p50_ns\":144,\"p99_ns\":144,\"worst_ns\":150,", NULL);
	text_has(wake((struct braid_analysis_options){ .form = BRAID_TABLE_TEXT }),
		 "Stages from interrupt to task, with a histogram of their durations:\n",
		 "guest  entry to handler           1   96 ns   96 ns  100 ns  0.000002   7 ns     1", NULL);
}

/* Of a vCPU that executes the guest: nothing wakes it, and it is on its CPU already. */
static void running_vcpu(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	memory_switch(2, 1100, 40, 1, 33);
	memory_wakeup(1, 1200, 8);
	raise_for_0(1, 2000, 5, DEVICE);
	memory_exit(0, 2100, 70, 1);
	vector_event(0, 2200, MEMORY_INJECT, 70, DEVICE);
	memory_put(vector_event(0, 2250, MEMORY_INJECT, 70, DEVICE), 13, 1, 1);	/* the same again */
	memory_entry(0, 2300, 70);
	vector_event(2, 2350, MEMORY_TIMER, 33, TIMER);		/* not this one's handler */
	vector_event(2, 2360, MEMORY_TIMER_END, 33, TIMER);
	wake_in(2370, 40, HARDIRQ);		/* in a handler that is not recorded */
	vector_event(2, 2400, MEMORY_IRQ, 33, 11);
	wake_in(2410, 41, 0);			/* not by the handler */
	wake_in(2420, 42, SOFTIRQ);
	memory_add(2, 2430, MEMORY_IRQ_END, 33);
	memory_switch(0, 4000, 70, 1, 9);
	text_has(wake(JSON), STAGE("raised to vCPU woken", "0"), STAGE("vCPU woken to on CPU", "0"),
		 STAGE("on CPU to injected", "0"), STAGE("raised to injected", "1") ",\"p50_ns\":192,",
		 STAGE("injected to entry", "1") ",\"p50_ns\":96,",
		 STAGE("entry to handler", "1") ",\"p50_ns\":96,\"p99_ns\":96,\"worst_ns\":100,",
		 STAGE("handler to task woken", "0"), NULL);
}

/* An interrupt that was raised before the vCPU slept did not wake it. */
static void raised_before_sleep(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	memory_exit(0, 1100, 70, HLT);
	raise_for_0(1, 1150, 5, TIMER);
	memory_switch(0, 1200, 70, 1, 9);
	wake_vcpu();
	memory_entry(0, 2500, 70);
	memory_switch(0, 3000, 70, 1, 9);
	text_has(wake(JSON), STAGE("raised to vCPU woken", "0"), STAGE("vCPU woken to on CPU", "1"), NULL);
}

/* A handler that began just before the entry may be this one's: its time is not known. */
static void unsure_handler(u64 bound, const char *want)
{
	begin();
	raise_for_0(1, 2000, 5, TIMER);
	wake_vcpu();
	vector_event(2, 2440, MEMORY_TIMER, 0, TIMER)->bound = bound;
	vector_event(0, 2450, MEMORY_INJECT, 70, TIMER);
	memory_entry(0, 2500, 70);
	vector_event(2, 9000, MEMORY_TIMER, 0, TIMER)->bound = bound;
	memory_switch(0, 9500, 70, 1, 9);
	text_has(wake(JSON), want, NULL);
}

static void clocks_that_differ(void)
{
	unsure_handler(60, STAGE("entry to handler", "1"));
	unsure_handler(61, STAGE("entry to handler", "0"));
}

/* Losses -------------------------------------------------------------------------------------- */

/* The whole chain, with events lost before one of them; counts of the stages in their order. */
static void lost_before(u32 ring, u32 event, const u32 counts[8])
{
	static const char *const names[] = {
		"raised to vCPU woken", "vCPU woken to on CPU", "on CPU to injected",
		"raised to injected", "injected to entry", "entry to handler",
		"handler to task woken", "task woken to on CPU",
	};
	char want[96], *text;
	u32 k;

	begin();
	raise_for_0(1, 2000, 5, TIMER);
	wake_vcpu();
	handle();
	memory_rings[ring].events[event].lost = 1;
	text = wake(JSON);
	for (k = 0; k < 8; k++) {
		snprintf(want, sizeof(want), "\"stage\":\"%s\",\"count\":%u,", names[k], counts[k]);
		if (strstr(text, want))
			continue;
		fprintf(stderr, "lost before event %u of ring %u: no %s\n", event, ring, want);
		CHECK(!"a stage counts what is not known, or not what is");
	}
	free(text);
}

static void lost(void)
{
	/* The host's CPU 0: entry, exit, switch; switch, injection, entry. */
	lost_before(0, 4, (const u32[]){ 0, 0, 0, 0, 1, 1, 1, 1 });	/* before it runs again */
	lost_before(0, 5, (const u32[]){ 1, 1, 0, 0, 1, 1, 1, 1 });	/* before the injection */
	lost_before(0, 6, (const u32[]){ 1, 1, 1, 1, 0, 0, 1, 1 });	/* before the entry */
	lost_before(0, 7, (const u32[]){ 1, 1, 1, 1, 1, 0, 1, 1 });	/* from the entry on */
	lost_before(1, 1, (const u32[]){ 0, 0, 0, 0, 1, 1, 1, 1 });	/* before the wakeup */
	/* The guest. */
	lost_before(2, 1, (const u32[]){ 1, 1, 1, 1, 1, 0, 1, 1 });	/* before the handler */
	lost_before(2, 2, (const u32[]){ 1, 1, 1, 1, 1, 1, 0, 1 });	/* before the wakeup */
	lost_before(2, 4, (const u32[]){ 1, 1, 1, 1, 1, 1, 1, 0 });	/* before the task runs */
}

/* A loss reported when the vCPU has entered: a handler may be among what is missing. */
static void lost_handler(void)
{
	begin();
	wake_vcpu();
	vector_event(0, 2450, MEMORY_INJECT, 70, TIMER);
	memory_entry(0, 2500, 70);
	memory_wakeup(2, 2550, 5);
	vector_event(2, 2900, MEMORY_TIMER, 0, TIMER)->lost = 1;
	memory_switch(0, 4000, 70, 1, 9);
	text_has(wake(JSON), STAGE("entry to handler", "0"), STAGE("injected to entry", "1"), NULL);
}

/* Which guest --------------------------------------------------------------------------------- */

/* With another VM on the host, only what a vCPU itself sends is known to be for its guest. */
static void of_unknown_vm(s64 other_ns)
{
	begin();
	if (other_ns < 2000)
		memory_entry(1, other_ns, 99);
	raise_for_0(1, 2000, 5, TIMER);
	wake_vcpu();
	handle();
	if (other_ns > 2000)
		memory_entry(1, other_ns, 99);
	text_has(wake(JSON), STAGE("raised to vCPU woken", "0"), STAGE("raised to injected", "0"),
		 STAGE("injected to entry", "1"), NULL);
}

static void several_vms(void)
{
	of_unknown_vm(1500);
	of_unknown_vm(3000);
	memory_begin();
	memory_entry(1, 500, 99);
	memory_switch(0, 1000, 0, 0, 70);
	memory_entry(0, 1000, 70);
	memory_exit(0, 1100, 70, 1);
	vector_event(0, 1150, MEMORY_IPI, 70, 0x40000 | DEVICE);
	raise_for_0(0, 1160, 70, DEVICE);
	/* it sent another one */
	memory_put(raise_for_0(0, 1165, 70, TIMER), FLAGS_OFFSET, 0, 1);
	vector_event(0, 1170, MEMORY_INJECT, 70, DEVICE);
	vector_event(0, 1180, MEMORY_INJECT, 70, TIMER);
	memory_entry(0, 1200, 70);
	memory_exit(0, 1300, 70, 1);
	raise_for_0(0, 1310, 70, DEVICE);	/* it sent that before it entered the guest */
	vector_event(0, 1350, MEMORY_IPI, 70, DEVICE);
	/* not by the vCPU */
	memory_put(raise_for_0(0, 1360, 70, DEVICE), FLAGS_OFFSET, HARDIRQ, 1);
	vector_event(0, 1370, MEMORY_INJECT, 70, DEVICE);
	memory_entry(0, 1400, 70);
	memory_switch(0, 2000, 70, 1, 0);
	text_has(wake(JSON), STAGE("raised to injected", "1") ",\"p50_ns\":10,", NULL);
}

/* Halts --------------------------------------------------------------------------------------- */

static void halt_polling(void)
{
	begin();				/* 100 on its CPU before it sleeps */
	wake_vcpu();				/* 300 until it runs */
	halted(2410, 1200, true);
	memory_entry(0, 2500, 70);
	memory_exit(0, 2600, 70, HLT);
	halted(2680, 70, false);
	memory_entry(0, 2700, 70);
	memory_exit(0, 2800, 70, HLT);
	/* preempted while KVM polls: that takes no CPU time */
	memory_switch(0, 2810, 70, 0, 9);
	memory_switch(0, 2835, 9, 0, 70);
	halted(2850, 40, false);
	memory_entry(0, 2900, 70);
	memory_switch(0, 4000, 70, 0, 9);
	text_has(wake(JSON), "\"halt_polling\":[{\"vcpu\":\"guest/vCPU 0\",\"halts\":3,\"polled\":2,"
		 "\"polled_ns\":105,\"slept\":1,\"before_sleep_ns\":100,\"wakeup_p50_ns\":288,"
		 "\"saved_ns\":576}]", NULL);
	text_has(wake((struct braid_analysis_options){ .form = BRAID_TABLE_TEXT }), "\nHalt polling:\n",
		 NULL);
}

/* Any trace ----------------------------------------------------------------------------------- */

/* The sum of the weights at the ends of lines. */
static u64 weights(const char *text)
{
	u64 sum = 0;

	for (; *text; text = strchr(text, '\n') + 1) {
		const char *end = strchr(text, '\n');

		while (end[-1] != ' ')
			end--;
		sum += strtoull(end, NULL, 10);
	}
	return sum;
}

static u64 number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	NEED(at);
	return strtoull(at + strlen(key), NULL, 10);
}

static void make_any(u64 *random)
{
	s64 ns[3] = { 1000, 1000, 1000 };
	u32 k, ring;

	memory_begin();
	for (k = 0; k < MEMORY_EVENTS; k++) {
		struct memory_event *e;

		*random ^= *random << 13;
		*random ^= *random >> 7;
		*random ^= *random << 17;
		ring = *random % 3;
		ns[ring] += (*random >> 8) % 100;
		e = memory_add(ring, ns[ring], 1 + (*random >> 16) % MEMORY_FORMATS,
			       *random & 1 << 28 ? 70 : 3);
		memory_put(e, FLAGS_OFFSET, *random >> 30, 1);
		memory_put(e, 8, *random & 1ULL << 40 ? 70 : *random >> 32 & 0xff, 4);
		memory_put(e, 12, *random >> 42 & 3, 4);
		memory_put(e, 16, *random >> 44 & 0x1ff, 8);
		memory_put(e, 40, *random & 1ULL << 54 ? 70 : *random >> 55 & 3, 4);
		e->bound = *random >> 50 & 63;
		e->lost = *random >> 56 < 8;
	}
}

/* Whatever a trace says: nothing fails, and the stacks add up to the table. */
static void any_trace(void)
{
	u64 random = 88172645463325252ULL;
	u32 turn;
	int err;

	for (turn = 0; turn < 1000; turn++) {
		char *table, *stacks;

		make_any(&random);
		free(wake(JSON));
		table = analyze_with("exits", (struct braid_analysis_options){
			.form = BRAID_TABLE_JSON, .by_task = turn & 1,
		}, &err);
		stacks = analyze_with("exits", (struct braid_analysis_options){ .folded = true }, &err);
		/*
		 * Without switches in the guest, rows by task are refused, and stacks have no task.
		 */
		CHECK(stacks || !table);
		CHECK(table || !stacks || turn & 1);
		if (table && stacks)
			CHECK_EQ(weights(stacks), number_after(table, "\"total_ns\":"));
		free(table);
		free(stacks);
	}
}

/* What is missing ----------------------------------------------------------------------------- */

static void missing(void)
{
	begin();
	memory_switch(0, 4000, 9, 0, 70);
	text_has(wake((struct braid_analysis_options){ .form = BRAID_TABLE_TEXT }),
		 "# the host has no kvm_apic_accept_irq and kvm_inj_virq events",
		 "# the host has no kvm_vcpu_wakeup events", "# guest has no events of interrupts: record",
		 "guest  entry to handler           -    -    -", NULL);
	memory_rings[2].nr = 0;
	text_has(wake((struct braid_analysis_options){ .form = BRAID_TABLE_TEXT }),
		 "# guest recorded no event, so its interrupts are unknown\n", NULL);
	text_has(wake(JSON), STAGE("entry to handler", "null"), STAGE("vCPU woken to on CPU", "null"),
		 STAGE("task woken to on CPU", "null"), "\"halt_polling\":[]", NULL);
}

/* Of a stage that crosses a limit of the observation, the part within is of it. */
static void window(void)
{
	static struct braid_window recorded = { .start_ns = 2200, .stop_ns = 2550 };

	begin();
	raise_for_0(1, 2000, 5, TIMER);
	wake_vcpu();
	handle();
	memory_source.windows = &recorded;
	memory_source.nr_windows = 1;
	text_has(wake(JSON), STAGE("vCPU woken to on CPU", "1") ",\"p50_ns\":192,\"p99_ns\":192,"
		 "\"worst_ns\":200,\"worst_at_ns\":2200,", STAGE("on CPU to injected", "1"),
		 STAGE("injected to entry", "1"),
		 STAGE("entry to handler", "1") ",\"p50_ns\":48,\"p99_ns\":48,\"worst_ns\":50,",
		 STAGE("handler to task woken", "0"), NULL);
	memory_source.nr_windows = 0;
}

int main(void)
{
	RUN(whole_chain);
	RUN(running_vcpu);
	RUN(raised_before_sleep);
	RUN(clocks_that_differ);
	RUN(lost);
	RUN(lost_handler);
	RUN(several_vms);
	RUN(halt_polling);
	RUN(any_trace);
	RUN(missing);
	RUN(window);
	return VERDICT();
}

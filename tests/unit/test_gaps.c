// SPDX-License-Identifier: GPL-2.0-or-later
/* Switches that the host's kernel omits. */
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/span_text.h"

#define IO	30

/* The kernel may omit a switch and count no loss: the next event's task shows it. */
static void omitted_switches(void)
{
	memory_begin();
	memory_switch(0, 1000, 0, 0, 70);
	memory_add(0, 1500, MEMORY_WAKING, 70);
	memory_add(0, 2000, MEMORY_WAKING, 9);	/* 70 to 9 */
	memory_switch(0, 2500, 9, 0, 70);
	memory_switch(0, 3000, 70, 1, 0);
	memory_switch(0, 3500, 0, 0, 8);
	span_expect("1000-1500 running\n1500-2500 unknown\n2500-3000 running\n3000-3500 sleeping\n");
	memory_begin();				/* one who is in its way */
	memory_switch(0, 1000, 70, 0, 9);
	memory_irq(0, 1300, true, 11);
	memory_irq(0, 1400, false, 11);
	memory_switch(0, 2000, 8, 0, 7);	/* 9 to 8 */
	memory_switch(0, 2500, 7, 0, 70);
	memory_switch(0, 3000, 70, 1, 0);
	span_expect("1000-1300 stolen by task9[9]\n1300-1400 stolen by irq 11\n1400-2000 stolen by unknown\n"
		    "2000-2500 stolen by task7[7]\n2500-3000 running\n");
	memory_begin();				/* one to the vCPU */
	memory_switch(0, 1000, 70, 0, 9);
	memory_add(0, 1400, MEMORY_WAKING, 9);
	memory_entry(0, 2000, 70);
	memory_exit(0, 2500, 70, IO);
	memory_switch(0, 2700, 70, 1, 0);	/* to it and from it */
	memory_wakeup_on(1, 2800, 70, 0);
	memory_switch(0, 3000, 70, 1, 0);
	memory_switch(0, 3500, 0, 0, 9);
	span_expect("1000-1400 stolen by task9[9]\n1400-2000 unknown\n2000-2500 guest\n"
		    "2500-2700 hypervisor exit 30\n2700-3000 unknown\n3000-3500 blocked exit 30\n");
	memory_begin();				/* it ran on another CPU then */
	memory_switch(0, 1000, 0, 0, 9);
	memory_switch(1, 1000, 0, 0, 70);
	memory_switch(1, 1500, 70, 0, 0);
	memory_switch(0, 2000, 70, 1, 0);	/* 9 to 70 */
	memory_switch(0, 2500, 0, 0, 9);
	span_expect("1000-1500 running\n1500-2000 unknown\n2000-2500 sleeping\n");
}

/* Until the switch itself, events are of the task before. They are not the scheduler's. */
static void on_the_way_out(void)
{
	memory_begin();
	memory_switch(0, 1000, 9, 1, 70);
	memory_add(0, 1010, MEMORY_FLUSH, 9);
	memory_add(0, 1100, MEMORY_FLUSH, 70);
	memory_switch(0, 2000, 70, 0, 9);
	memory_add(0, 2010, MEMORY_FLUSH, 70);
	memory_switch(0, 3000, 9, 1, 70);
	memory_switch(0, 4000, 70, 1, 0);
	span_expect("1000-2000 running\n2000-3000 stolen by task9[9]\n3000-4000 running\n");
	memory_add(0, 4010, MEMORY_WAKING, 70);	/* it is back */
	memory_switch(0, 4500, 70, 1, 9);
	memory_add(0, 4600, MEMORY_FLUSH, 8);	/* 9 to 8 */
	memory_switch(0, 5000, 8, 0, 70);
	span_expect("1000-2000 running\n2000-3000 stolen by task9[9]\n3000-4000 running\n"
		    "4000-4010 unknown\n4010-4500 running\n4500-5000 sleeping\n");
}

int main(void)
{
	RUN(omitted_switches);
	RUN(on_the_way_out);
	span_free();
	return VERDICT();
}

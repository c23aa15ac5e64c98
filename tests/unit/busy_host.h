/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures of a busy host: three CPUs, on which vCPUs of two guests and other threads take turns,
 * at random but consistently. web1 has the driver and two vCPUs, web2 is a VM with two.
 */
#ifndef BRAID_TESTS_BUSY_HOST_H
#define BRAID_TESTS_BUSY_HOST_H

#include "host_agent/capture/capture.h"

#define BUSY_MARKS	4096u

struct busy_host {
	const char *path;
	char *const *next;	/* to which the recording goes on ... */
	u32 nr_next;		/* ... after equal times; marks are of the last one */
	u64 from_ns;		/* of the recording's start, after SYNTH_START_NS */
	u64 for_ns;
	u64 mark_ns;		/* from one mark to the next */
	bool no_migrations;	/* they have no event */
	bool no_guest_events;
	bool late_web2;		/* its stream begins in the middle; or in the next file */
	bool ends_web1;		/* its stream ends in the middle, of the first file */
	bool late_format;	/* an event type is defined in the middle */
	bool late_cpu;		/* nothing happens on one of the CPUs before */
	bool late_thread;	/* that of web2's vCPU 1 is found then */
	bool killed;		/* no end */
	bool sleeper;		/* web2's vCPU 1 sleeps from the end of the first file on */
	bool absurd;		/* it states wrong times of its completeness, too */
	u32 lose;		/* one of so many pages of the host follows a loss; 0: none */
	u32 wild;		/* one of so many values is random; 0: none */
	const char *web2;	/* its name; NULL: web2 */
	/* Set: */
	struct braid_capture_mark marks[BUSY_MARKS];
	u32 nr_marks;
	u64 host_events, host_lost, guest_events;
};

/* Writes the capture. */
void busy_host(struct busy_host *b);

#endif /* BRAID_TESTS_BUSY_HOST_H */

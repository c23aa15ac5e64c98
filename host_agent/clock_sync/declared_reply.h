/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What daemons and devices answer when they are asked for the time's error, in one form. Knows no
 * socket and reads no clock. An answer is checked, as it may be of any version or program.
 */
#ifndef BRAID_CLOCK_SYNC_DECLARED_REPLY_H
#define BRAID_CLOCK_SYNC_DECLARED_REPLY_H

#include <stdbool.h>
#include <sys/timex.h>

#include "host_agent/capture/chunk.h"
#include "shared/vmclock.h"

/* A clock was read between two readings of the host's. */
struct braid_declared_moment {
	u64 h1_ns;
	u64 h2_ns;
	u64 time_ns;
	u64 asked_ns;			/* the answer is not older than this */
};

/* What `pmc` prints. */
struct braid_declared_pmc {
	bool synchronized;
	bool hardware;			/* the clock is that of the network card: */
	char interface[16];
	bool utc;			/* it is a known number of seconds ahead of UTC: */
	s64 ahead_s;
	u64 measured_ns;		/* by that clock */
	u64 bound_ns;			/* 0: none is stated */
};

/* Each of these returns false if the answer is not one; @t is then unchanged. */

/** braid_declared_chrony - `chronyc -c tracking`; @m: of CLOCK_REALTIME, after the answer */
bool braid_declared_chrony(struct braid_declared_time *t, const char *reply,
			   const struct braid_declared_moment *m);

/**
 * braid_declared_kernel - adjtimex()
 * @t: filled; ->measured_ns is 0
 * @x: as the kernel has filled it
 * @state: its return value
 * @m: of CLOCK_REALTIME
 */
bool braid_declared_kernel(struct braid_declared_time *t, const struct timex *x, int state,
			   const struct braid_declared_moment *m);

/** braid_declared_read_pmc - the answers to the requests of BRAID_DECLARED_PMC */
bool braid_declared_read_pmc(struct braid_declared_pmc *p, const char *reply);

#define BRAID_DECLARED_PMC \
	"GET TIME_STATUS_NP", "GET CURRENT_DATA_SET", "GET PARENT_DATA_SET", \
	"GET TIME_PROPERTIES_DATA_SET", "GET PORT_PROPERTIES_NP"

/** braid_declared_ptp - of ptp4l; @m: of CLOCK_REALTIME, or of the network card's clock */
bool braid_declared_ptp(struct braid_declared_time *t, const struct braid_declared_pmc *p,
			const struct braid_declared_moment *m);

/** braid_declared_vmclock - of the hypervisor; @m: of the counter of @page's evaluation */
bool braid_declared_vmclock(struct braid_declared_time *t, const struct braid_vmclock_page *page,
			    const struct braid_vmclock *now, const struct braid_declared_moment *m);

/* What has disrupted the host's time. Zeroed at the beginning. */
struct braid_declared_trust {
	u64 disrupted_ns;		/* 0: nothing yet */
	bool has_marker;
	u64 marker;			/* of vmclock */
	u64 kernel_ns;			/* bound of the kernel, before */
	u64 kernel_measured_ns;
};

/** braid_declared_disrupted - the clock was set */
void braid_declared_disrupted(struct braid_declared_trust *trust, u64 now_ns);

/** braid_declared_marker - vmclock's marker is this */
void braid_declared_marker(struct braid_declared_trust *trust, u64 marker, u64 now_ns);

/** braid_declared_judge - distrust a source that has not measured since a disruption */
void braid_declared_judge(struct braid_declared_trust *trust, struct braid_declared_time *t);

#endif /* BRAID_CLOCK_SYNC_DECLARED_REPLY_H */

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event sample:cpu: what each vCPU executes, many times a second (docs/analyze.md, "profile").
 *
 * Invariants:
 * - Each online CPU has a timer while the event is on, and only then. It is pinned to the CPU, and
 *   expires in hard interrupt context.
 * - A period in which the timer could not expire, because interrupts were off or the vCPU did not
 *   execute, is counted in the next sample's "missed".
 */
#ifndef BRAID_SOURCE_SAMPLE_H
#define BRAID_SOURCE_SAMPLE_H

/** braid_sample_init - register the event. 0 or -errno */
int braid_sample_init(void);

/** braid_sample_exit - remove it; no timer is left */
void braid_sample_exit(void);

#endif /* BRAID_SOURCE_SAMPLE_H */

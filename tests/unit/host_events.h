/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of a host in a capture: its threads are the vCPUs of a guest. */
#ifndef BRAID_TESTS_HOST_EVENTS_H
#define BRAID_TESTS_HOST_EVENTS_H

#include "host_agent/capture/capture.h"

#define HOST_FIRST_TID	100

enum { HOST_SWITCH = 1, HOST_IRQ, HOST_IRQ_END };

/* A thread for each vCPU of stream 1, from @first_tid on, and the host as stream 2. */
void host_begin(struct braid_capture_writer *w, u32 nr_vcpus, s32 first_tid);

/* A page with one event of a task; @next: a switch's; @lost: there were others before it. */
void host_event(struct braid_capture_writer *w, u64 ns, u16 id, s32 task, s32 next, bool lost);

#endif /* BRAID_TESTS_HOST_EVENTS_H */

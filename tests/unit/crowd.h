/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Captures with many of something that analyses follow: the work for them must be linear. */
#ifndef BRAID_TESTS_CROWD_H
#define BRAID_TESTS_CROWD_H

#include "host_agent/capture/capture.h"

/* A guest with the given number of vCPUs and buffers. */
void crowd_guest(struct braid_capture_writer *w, u32 stream, u32 nr_vcpus, u32 nr_buffers);

void crowd_waiters(struct braid_capture_writer *w, u32 n);
void crowd_losses(struct braid_capture_writer *w, u32 n);
void crowd_culprits(struct braid_capture_writer *w, u32 n);
void crowd_lives(struct braid_capture_writer *w, u32 n);

/* One of many captures. */
void crowd_capture(struct braid_capture_writer *w, u32 number);

#endif /* BRAID_TESTS_CROWD_H */

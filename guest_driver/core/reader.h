/* SPDX-License-Identifier: GPL-2.0 */
/* Reading rings in the guest. */
#ifndef BRAID_CORE_READER_H
#define BRAID_CORE_READER_H

#include "guest_driver/core/buffer.h"

/** braid_reader_busy - whether a ring is mapped or being read. Must hold buffer->lock */
static inline bool braid_reader_busy(struct braid_buffer *buffer)
{
	return false;
}

/** braid_reader_forget - a ring goes: its readers find none. Must hold buffer->lock */
static inline void braid_reader_forget(struct braid_buffer *buffer, int cpu)
{
}

/** braid_reader_free - free what was needed to read a buffer that goes */
static inline void braid_reader_free(struct braid_buffer *buffer)
{
}

/** braid_reader_poll - wake those who wait for events. Return: whether anyone waits */
static inline bool braid_reader_poll(void)
{
	return false;
}

#endif /* BRAID_CORE_READER_H */

/* SPDX-License-Identifier: GPL-2.0 */
/* Trace headers of the io group: block devices and files. No guard: read once per pass. */
#include <trace/events/block.h>
#include <trace/events/writeback.h>
#include <trace/events/filelock.h>
#include <trace/events/io_uring.h>
#include <trace/events/swiotlb.h>

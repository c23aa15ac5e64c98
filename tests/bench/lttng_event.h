/* SPDX-License-Identifier: GPL-2.0-or-later */
/* LTTng-UST's event with the same 16 bytes of payload as ours. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER braid_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/bench/lttng_event.h"

#if !defined(BRAID_BENCH_LTTNG_EVENT_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BRAID_BENCH_LTTNG_EVENT_H

#include <stdint.h>
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(braid_bench, event,
	LTTNG_UST_TP_ARGS(uint64_t, first, uint64_t, second),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint64_t, first, first)
		lttng_ust_field_integer(uint64_t, second, second)
	)
)

#endif

#include <lttng/tracepoint-event.h>

// SPDX-License-Identifier: GPL-2.0-or-later
/* The chunks of tasks' starts. */
#include "host_agent/export/html/waits.h"

#define CHUNK_ROWS	(64u << 10)

enum { LANE, AT, WAITED, CALL, WOKEN, WAKER_LANE, WAKER };

static u64 since(s64 from_ns, s64 to_ns)
{
	return to_ns > from_ns ? (u64)to_ns - (u64)from_ns : 0;
}

int braid_html_waits_flush(struct braid_html_waits *w, u64 at_least)
{
	u64 rows = w->rows;

	if (rows < at_least)
		return 0;
	w->rows = 0;
	return braid_html_out_columns(w->out, "waits", rows, w->columns, BRAID_HTML_WAITS_COLUMNS);
}

int braid_html_waits_put(struct braid_html_waits *w, const struct braid_html_start *start,
			 u32 call, u32 waker)
{
	const struct braid_task_start *of = &start->of;
	bool woken = of->woken && start->waker_lane;

	if (!of->off && !woken)
		return 0;
	braid_html_put(&w->columns[LANE], start->lane);
	braid_html_put_signed(&w->columns[AT], (s64)((u64)of->ns - (u64)w->last_ns));
	braid_html_put(&w->columns[WAITED], of->off ? 2 * (since(of->off_ns, of->ns) + 1) +
						      of->preempted : 0);
	braid_html_put(&w->columns[CALL], of->off ? call : 0);
	braid_html_put(&w->columns[WOKEN], woken ? since(of->woken_ns, of->ns) + 1 : 0);
	if (woken) {
		braid_html_put(&w->columns[WAKER_LANE], start->waker_lane);
		braid_html_put(&w->columns[WAKER], waker);
	}
	w->last_ns = of->ns;
	w->rows++;
	return braid_html_waits_flush(w, CHUNK_ROWS);
}

void braid_html_waits_free(struct braid_html_waits *w)
{
	size_t k;

	for (k = 0; k < BRAID_HTML_WAITS_COLUMNS; k++)
		braid_text_free(&w->columns[k]);
}

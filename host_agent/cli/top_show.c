// SPDX-License-Identifier: GPL-2.0-or-later
/* Shows the samples of `tracebraid top`: a table, or JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/top.h"
#include "host_agent/util/text.h"

/* Order ------------------------------------------------------------------------------------- */

const char *braid_top_key_name(enum braid_top_key key)
{
	static const char *const names[BRAID_TOP_KEYS] = {
		[BRAID_TOP_NAME] = "name",
		[BRAID_TOP_EVENTS] = "events",
		[BRAID_TOP_BYTES] = "bytes",
		[BRAID_TOP_LOST] = "lost",
		[BRAID_TOP_FILL] = "fill",
		[BRAID_TOP_RUN] = "run",
		[BRAID_TOP_STEAL] = "steal",
		[BRAID_TOP_EXITS] = "exits",
	};

	return names[key];
}

static double value_of(const struct braid_top_guest *g, enum braid_top_key key)
{
	switch (key) {
	case BRAID_TOP_EVENTS:
		return g->rates.events;
	case BRAID_TOP_BYTES:
		return g->rates.bytes;
	case BRAID_TOP_LOST:
		return g->rates.lost;
	case BRAID_TOP_FILL:
		return g->fill_permille;
	case BRAID_TOP_RUN:
		return g->rates.run;
	case BRAID_TOP_STEAL:
		return g->rates.steal;
	case BRAID_TOP_EXITS:
		return g->rates.exits;
	default:
		return 0;
	}
}

static int by_key(const void *a, const void *b, void *arg)
{
	const struct braid_top_guest *x = a, *y = b;
	const enum braid_top_key *key = arg;
	double dx = value_of(x, *key), dy = value_of(y, *key);

	dx = isnan(dx) ? -1 : dx;
	dy = isnan(dy) ? -1 : dy;
	if (dx != dy)
		return dx > dy ? -1 : 1;
	return strcmp(x->name, y->name);
}

void braid_top_sort(struct braid_top *top, enum braid_top_key key)
{
	if (top->nr)
		qsort_r(top->guests, top->nr, sizeof(*top->guests), by_key, &key);
}

/* Table ------------------------------------------------------------------------------------- */

#define FIELD	16

static const char *amount(char to[FIELD], double value)
{
	return isnan(value) ? "-" : braid_human(to, FIELD, value);
}

static const char *percent(char to[FIELD], double value)
{
	if (isnan(value))
		return "-";
	snprintf(to, FIELD, "%.1f", value * 100);
	return to;
}

static void print_row(const char *name, const char *state, const struct braid_top_rates *r,
		      u64 lost, u32 fill_permille)
{
	char f[8][FIELD];

	printf("%-20.20s %-13s %8s %8s %8s %8s %8s %6s %6s %7s %8s\n", name, state,
	       amount(f[0], r->events), amount(f[1], r->bytes), amount(f[2], r->read),
	       amount(f[3], r->lost), amount(f[4], lost), percent(f[5], fill_permille / 1000.0),
	       percent(f[6], r->run), percent(f[7], r->steal),
	       isnan(r->exits) ? "-" : amount((char[FIELD]){ 0 }, r->exits));
}

static void print_guest(const struct braid_top_guest *g, u32 *rows)
{
	char state[32], vcpu[32];
	u32 k;

	if (!*rows)
		return;
	--*rows;
	snprintf(state, sizeof(state), "%s%s", braid_driver_state_name(g->state),
		 g->recorded ? ", rec" : "");
	print_row(g->name, state, &g->rates, g->lost, g->fill_permille);
	for (k = 0; k < g->nr_vcpus && *rows && g->sampled_ns; k++, --*rows) {
		snprintf(vcpu, sizeof(vcpu), "  vCPU %u", k);
		print_row(vcpu, "", &g->vcpus[k].rates, g->vcpus[k].lost,
			  g->vcpus[k].fill_permille);
	}
}

void braid_top_print(const struct braid_top *top, u32 rows, bool clear)
{
	time_t now = time(NULL);
	struct tm tm;
	char when[16];
	size_t k;

	strftime(when, sizeof(when), "%H:%M:%S", localtime_r(&now, &tm));
	if (clear)
		fputs("\033[?7l\033[H\033[J", stdout);	/* what is too long is cut, not wrapped */
	printf("%s, %zu guest%s%s\n", when, top->nr, top->nr == 1 ? "" : "s",
	       clear ? "; keys: order by n e b l f r s x, q quits" : "");
	printf("%-20s %-13s %8s %8s %8s %8s %8s %6s %6s %7s %8s\n", "GUEST", "STATE", "EVENTS/s",
	       "BYTES/s", "READ/s", "LOST/s", "LOST", "FILL%", "RUN%", "STEAL%", "EXITS/s");
	rows = rows > 3 ? rows - 3 : 1;
	for (k = 0; k < top->nr; k++)
		print_guest(&top->guests[k], &rows);
	if (clear)
		fputs("\033[?7h", stdout);
}

/* JSON -------------------------------------------------------------------------------------- */

static void put_number(struct braid_text *t, const char *key, double value)
{
	if (isnan(value))
		braid_text_printf(t, ",\"%s\":null", key);
	else
		braid_text_printf(t, ",\"%s\":%.3f", key, value);
}

static void put_rates(struct braid_text *t, const struct braid_top_rates *r)
{
	put_number(t, "events_per_s", r->events);
	put_number(t, "bytes_per_s", r->bytes);
	put_number(t, "read_per_s", r->read);
	put_number(t, "lost_per_s", r->lost);
	put_number(t, "run", r->run);
	put_number(t, "steal", r->steal);
	put_number(t, "exits_per_s", r->exits);
}

static void put_vcpu(struct braid_text *t, const struct braid_top_vcpu *v, u32 number)
{
	braid_text_printf(t, "%s{\"vcpu\":%u", number ? "," : "", number);
	if (v->tid)
		braid_text_printf(t, ",\"tid\":%d", (int)v->tid);
	put_rates(t, &v->rates);
	braid_text_printf(t, ",\"events\":%llu,\"lost\":%llu,\"fill_permille\":%u}",
			  (unsigned long long)v->events, (unsigned long long)v->lost,
			  v->fill_permille);
}

static void put_guest(struct braid_text *t, const struct braid_top_guest *g)
{
	const char *state = braid_driver_state_name(g->state);
	u32 k;

	braid_text_puts(t, "{\"guest\":");
	braid_text_json(t, g->name, strlen(g->name));
	braid_text_puts(t, ",\"region\":");
	braid_text_json(t, g->path, strlen(g->path));
	braid_text_puts(t, ",\"driver\":");
	braid_text_json(t, state, strlen(state));
	braid_text_printf(t, ",\"recorded\":%s", g->recorded ? "true" : "false");
	put_rates(t, &g->rates);
	braid_text_printf(t, ",\"lost\":%llu,\"fill_permille\":%u,\"vcpus\":[",
			  (unsigned long long)g->lost, g->fill_permille);
	for (k = 0; k < g->nr_vcpus && g->sampled_ns; k++)
		put_vcpu(t, &g->vcpus[k], k);
	braid_text_puts(t, "]}");
}

void braid_top_print_json(const struct braid_top *top)
{
	struct braid_text t = { 0 };
	struct timespec now;
	size_t k;

	clock_gettime(CLOCK_REALTIME, &now);
	braid_text_printf(&t, "{\"type\":\"top\",\"realtime_ns\":%llu,\"guests\":[",
			  (unsigned long long)now.tv_sec * 1000000000 + now.tv_nsec);
	for (k = 0; k < top->nr; k++) {
		if (k)
			braid_text_putc(&t, ',');
		put_guest(&t, &top->guests[k]);
	}
	braid_text_puts(&t, "]}\n");
	if (!t.failed)
		fwrite(t.data, 1, t.bytes, stdout);
	braid_text_free(&t);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* Shows the samples of `tracebraid top`: a table, or JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/top.h"
#include "host_agent/util/monotonic.h"
#include "host_agent/util/text.h"

/* Order ------------------------------------------------------------------------------------- */

/* What guests are sorted by; the word for --sort is BRAID_TOP_KEY_NAMES'. */
static const struct {
	const char *name;
	size_t rate;		/* in struct braid_top_rates */
} keys[BRAID_TOP_KEYS] = {
	[BRAID_TOP_NAME] = { .name = "name" },
	[BRAID_TOP_EVENTS] = { "events", offsetof(struct braid_top_rates, events) },
	[BRAID_TOP_BYTES] = { "bytes", offsetof(struct braid_top_rates, bytes) },
	[BRAID_TOP_LOST] = { "lost", offsetof(struct braid_top_rates, lost) },
	[BRAID_TOP_FILL] = { .name = "fill" },
	[BRAID_TOP_RUN] = { "run", offsetof(struct braid_top_rates, run) },
	[BRAID_TOP_STEAL] = { "steal", offsetof(struct braid_top_rates, steal) },
	[BRAID_TOP_EXITS] = { "exits", offsetof(struct braid_top_rates, exits) },
};

const char *braid_top_key_name(enum braid_top_key key)
{
	return keys[key].name;
}

static double top_show_value_of(const struct braid_top_guest *g, enum braid_top_key key)
{
	if (key == BRAID_TOP_NAME || key == BRAID_TOP_FILL)
		return key == BRAID_TOP_FILL ? g->fill_permille : 0;
	return *(const double *)((const char *)&g->rates + keys[key].rate);
}

static int by_key(const void *a, const void *b, void *arg)
{
	const struct braid_top_guest *x = a, *y = b;
	const enum braid_top_key *key = arg;
	double dx = top_show_value_of(x, *key), dy = top_show_value_of(y, *key);

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

#define FIELD		16
#define NAME_COLUMNS	20
#define STATE_COLUMNS	13
#define HEAD_ROWS	2

/* A figure's column. On a narrow terminal columns are dropped, highest @rank first. */
enum column { EVENTS, BYTES, READ, LOSING, LOST, FILL, RUN, STEAL, EXITS, NR_COLUMNS };

static const struct {
	const char *title;
	int columns;
	int rank;
} figures[NR_COLUMNS] = {
	[EVENTS] = { "EVENTS/s", 8, 0 },
	[BYTES] = { "BYTES/s", 8, 7 },
	[READ] = { "READ/s", 8, 6 },
	[LOSING] = { "LOST/s", 8, 5 },
	[LOST] = { "LOST", 8, 1 },
	[FILL] = { "FILL%", 6, 2 },
	[RUN] = { "RUN%", 6, 3 },
	[STEAL] = { "STEAL%", 7, 4 },
	[EXITS] = { "EXITS/s", 8, 8 },
};

/* The output state. */
struct table {
	const struct braid_top_screen *screen;
	bool shown[NR_COLUMNS];
	u64 row;		/* the next, of all rows */
	u64 end;		/* the first that does not fit any more */
};

static void choose_columns(struct table *t)
{
	int left = t->screen->columns < 1000 ? (int)t->screen->columns : 1000;
	int rank, k;

	left -= NAME_COLUMNS + 1 + STATE_COLUMNS;
	for (rank = 0; rank < NR_COLUMNS; rank++) {
		for (k = 0; figures[k].rank != rank; k++)
			;
		left -= 1 + figures[k].columns;
		if (left < 0)
			return;
		t->shown[k] = true;
	}
}

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

static void print_figures(const struct table *t, const char *const values[NR_COLUMNS])
{
	int k;

	for (k = 0; k < NR_COLUMNS; k++)
		if (t->shown[k])
			printf(" %*s", figures[k].columns, values[k]);
	putchar('\n');
}

/* One row, if it is one of those that fit. */
static void print_row(struct table *t, const char *name, const char *state,
		      const struct braid_top_rates *r, double lost, double fill)
{
	char f[NR_COLUMNS][FIELD];
	const char *const values[NR_COLUMNS] = {
		[EVENTS] = amount(f[EVENTS], r->events),
		[BYTES] = amount(f[BYTES], r->bytes),
		[READ] = amount(f[READ], r->read),
		[LOSING] = amount(f[LOSING], r->lost),
		[LOST] = amount(f[LOST], lost),
		[FILL] = percent(f[FILL], fill),
		[RUN] = percent(f[RUN], r->run),
		[STEAL] = percent(f[STEAL], r->steal),
		[EXITS] = amount(f[EXITS], r->exits),
	};
	u64 row = t->row++;

	if (row < t->screen->first || row >= t->end)
		return;
	printf("%-*.*s %-*s", NAME_COLUMNS, NAME_COLUMNS, name, STATE_COLUMNS, state);
	print_figures(t, values);
}

/* Whether its rings are there to be looked at. */
static bool has_rings(const struct braid_top_guest *g)
{
	return !g->bare && !g->captured;
}

static void print_guest(struct table *t, const struct braid_top_guest *g)
{
	bool rings = has_rings(g);
	char state[32], vcpu[32];
	u32 k;

	snprintf(state, sizeof(state), "%s%s", braid_driver_state_name(g->state),
		 g->recorded ? ", rec" : "");
	print_row(t, g->name, state, &g->rates, rings || g->counted ? g->lost : NAN,
		  rings ? g->fill_permille / 1000.0 : NAN);
	for (k = 0; k < g->nr_vcpus && g->sampled_ns; k++) {
		snprintf(vcpu, sizeof(vcpu), "  vCPU %u", k);
		print_row(t, vcpu, "", &g->vcpus[k].rates, rings ? g->vcpus[k].lost : NAN,
			  rings ? g->vcpus[k].fill_permille / 1000.0 : NAN);
	}
}

u64 braid_top_rows(const struct braid_top *top)
{
	u64 rows = 0;
	size_t k;

	for (k = 0; k < top->nr; k++)
		rows += 1 + (top->guests[k].sampled_ns ? top->guests[k].nr_vcpus : 0);
	return rows;
}

/* Rows that fit between the header and the line that reports further ones. */
u32 braid_top_page(const struct braid_top *top, const struct braid_top_screen *screen)
{
	u32 rows = screen->rows > HEAD_ROWS + 1 ? screen->rows - HEAD_ROWS - 1 : 1;

	return braid_top_rows(top) <= rows || rows == 1 ? rows : rows - 1;
}

static void print_keys(void)
{
	puts("Sort, largest first, by\n"
	     "  e  events per second\n"
	     "  b  bytes per second\n"
	     "  l  lost events per second\n"
	     "  f  fill of the fullest ring\n"
	     "  r  run time of vCPUs\n"
	     "  s  steal time of vCPUs\n"
	     "  x  exits\n"
	     "n  sort by name\n"
	     "space  next rows; wraps around\n"
	     "q  quit\n"
	     "any other key: back to the table");
}

static void print_head(const struct braid_top *top, const struct table *t)
{
	const char *titles[NR_COLUMNS];
	time_t now = time(NULL);
	struct tm tm;
	char when[16];
	int k;

	for (k = 0; k < NR_COLUMNS; k++)
		titles[k] = figures[k].title;
	strftime(when, sizeof(when), "%H:%M:%S", localtime_r(&now, &tm));
	if (t->screen->terminal)	/* long text is cut, not wrapped */
		printf("\033[?7l\033[H\033[J%s, %zu guest%s, by %s; ?: keys, q: quit\n", when,
		       top->nr, top->nr == 1 ? "" : "s", braid_top_key_name(t->screen->key));
	else
		printf("%s, %zu guest%s\n", when, top->nr, top->nr == 1 ? "" : "s");
	if (t->screen->keys)
		return;
	printf("%-*s %-*s", NAME_COLUMNS, "GUEST", STATE_COLUMNS, "STATE");
	print_figures(t, titles);
}

void braid_top_print(const struct braid_top *top, const struct braid_top_screen *screen)
{
	struct table t = { .screen = screen };
	size_t k;

	t.end = screen->first + (u64)braid_top_page(top, screen);
	choose_columns(&t);
	print_head(top, &t);
	if (screen->keys)
		print_keys();
	for (k = 0; k < top->nr && !screen->keys; k++)
		print_guest(&t, &top->guests[k]);
	if (screen->terminal && !screen->keys && (screen->first || t.row > t.end))
		printf("rows %llu to %llu of %llu; space: next rows\n",
		       (unsigned long long)screen->first + 1,
		       (unsigned long long)(t.end < t.row ? t.end : t.row),
		       (unsigned long long)t.row);
	if (screen->terminal)
		fputs("\033[?7h", stdout);
}

/* JSON -------------------------------------------------------------------------------------- */

static void top_show_put_number(struct braid_text *t, const char *key, double value)
{
	if (isnan(value))
		braid_text_printf(t, ",\"%s\":null", key);
	else
		braid_text_printf(t, ",\"%s\":%.3f", key, value);
}

static void put_rates(struct braid_text *t, const struct braid_top_rates *r)
{
	top_show_put_number(t, "events_per_s", r->events);
	top_show_put_number(t, "bytes_per_s", r->bytes);
	top_show_put_number(t, "read_per_s", r->read);
	top_show_put_number(t, "lost_per_s", r->lost);
	top_show_put_number(t, "run", r->run);
	top_show_put_number(t, "steal", r->steal);
	top_show_put_number(t, "exits_per_s", r->exits);
}

static void top_show_put_vcpu(struct braid_text *t, const struct braid_top_guest *g, u32 number)
{
	const struct braid_top_vcpu *v = &g->vcpus[number];

	braid_text_printf(t, "%s{\"vcpu\":%u", number ? "," : "", number);
	if (v->tid)
		braid_text_printf(t, ",\"tid\":%d", (int)v->tid);
	put_rates(t, &v->rates);
	if (has_rings(g))
		braid_text_printf(t, ",\"events\":%llu,\"lost\":%llu,\"fill_permille\":%u",
				  (unsigned long long)v->events, (unsigned long long)v->lost,
				  v->fill_permille);
	braid_text_putc(t, '}');
}

static void top_show_put_guest(struct braid_text *t, const struct braid_top_guest *g)
{
	u32 k;

	braid_text_putc(t, '{');
	braid_text_member(t, "guest", g->name);
	if (g->bare)
		braid_text_printf(t, ",\"qemu_pid\":%d", (int)g->qemu_pid);
	else if (!g->captured)
		braid_text_member(t, "region", g->path);
	braid_text_member(t, "driver", braid_driver_state_name(g->state));
	braid_text_printf(t, ",\"recorded\":%s", g->recorded ? "true" : "false");
	put_rates(t, &g->rates);
	if (has_rings(g) || g->counted)
		braid_text_printf(t, ",\"lost\":%llu", (unsigned long long)g->lost);
	if (has_rings(g))
		braid_text_printf(t, ",\"fill_permille\":%u", g->fill_permille);
	braid_text_puts(t, ",\"vcpus\":[");
	for (k = 0; k < g->nr_vcpus && g->sampled_ns; k++)
		top_show_put_vcpu(t, g, k);
	braid_text_puts(t, "]}");
}

void braid_top_print_json(const struct braid_top *top)
{
	struct braid_text t = { 0 };
	size_t k;

	braid_text_printf(&t, "{\"type\":\"top\",\"realtime_ns\":%llu,\"guests\":[",
			  (unsigned long long)braid_clock_read_ns(CLOCK_REALTIME));
	for (k = 0; k < top->nr; k++) {
		if (k)
			braid_text_putc(&t, ',');
		top_show_put_guest(&t, &top->guests[k]);
	}
	braid_text_puts(&t, "]}\n");
	if (!t.failed)
		fwrite(t.data, 1, t.bytes, stdout);
	braid_text_free(&t);
}

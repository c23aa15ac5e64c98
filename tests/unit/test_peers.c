// SPDX-License-Identifier: GPL-2.0-or-later
/* One thread pings all guests: no guest affects the others. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"
#include "tests/unit/truth.h"

#define LIMIT_NS	60000000000ULL	/* limit of a wait */
#define NR_DEAD		40

static char *dir, *paths[2], *captures[2];

static const struct fake_params usual = {
	.name = "fake", .bytes = 4 << 20, .nr_vcpus = 1, .subbuf_bytes = 4096, .nr_slots = 64,
	.rate = 6000, .always = true,
};

/* A guest, and the state of its pings. */
struct pinged {
	struct fake_guest *g;
	struct braid_mapping *m;
	struct braid_exchange_peer *peer;
	struct braid_clock_cells *cells;
};

static void open_pinged(struct pinged *p, struct braid_exchange *x, const char *path)
{
	struct braid_exchange_guest guest = { .nr_vcpus = 1 };
	struct braid_superblock sb;

	p->g = fake_guest_new(path, &usual);
	NEED(!braid_mapping_open(&p->m, path, true) && !braid_mapping_identify(p->m, &sb));
	p->cells = braid_mapping_section(p->m, &sb, BRAID_SECTION_CLOCK);
	guest.base = p->m->base;
	guest.bytes = p->m->bytes;
	guest.cells = p->cells;
	NEED(!braid_exchange_add(x, &guest, &p->peer));
}

static void close_pinged(struct pinged *p, struct braid_exchange *x)
{
	braid_exchange_remove(x, p->peer);
	braid_mapping_close(p->m);
	fake_guest_free(p->g);
}

/* The number of requests to a guest; each has a number of its own. */
static u64 asked(const struct pinged *p)
{
	return braid_load(&p->cells->burst);
}

/* A guest that never polls is not asked again before it does, and delays no other. */
static void a_silent_guest(void)
{
	struct braid_round_trip c[BRAID_EXCHANGE_BEST];
	struct pinged silent, lively;
	struct braid_exchange *x;
	u64 start_ns = braid_host_clock_ns();

	NEED(!braid_exchange_start(&x));
	open_pinged(&silent, x, paths[0]);
	while (asked(&silent) < 1 && braid_host_clock_ns() - start_ns < LIMIT_NS)
		braid_sleep_ns(100000);
	open_pinged(&lively, x, paths[1]);
	fake_guest_start_thread(lively.g);
	while (braid_exchange_bursts(x, lively.peer) < 6 &&
	       braid_host_clock_ns() - start_ns < LIMIT_NS)
		braid_sleep_ns(100000);
	CHECK(braid_exchange_bursts(x, lively.peer) >= 6);
	CHECK(braid_exchange_take(x, lively.peer, c, BRAID_EXCHANGE_BEST) > 0);
	CHECK_EQ(asked(&silent), 1);
	CHECK_EQ(braid_exchange_bursts(x, silent.peer), 0);
	CHECK_EQ(braid_exchange_take(x, silent.peer, c, BRAID_EXCHANGE_BEST), 0);
	/* It was stopped for a while. */
	fake_guest_start_thread(silent.g);
	while (!braid_exchange_bursts(x, silent.peer) &&
	       braid_host_clock_ns() - start_ns < LIMIT_NS)
		braid_sleep_ns(100000);
	CHECK(braid_exchange_bursts(x, silent.peer) >= 1);
	close_pinged(&silent, x);
	close_pinged(&lively, x);
	braid_exchange_stop(x);
}

/* Many dead guests take no time from live ones. */
static void many_dead_guests(void)
{
	static struct pinged dead[NR_DEAD];
	struct braid_exchange *x;
	u64 start_ns = braid_host_clock_ns();
	struct pinged lively;
	char path[64];
	int k;

	NEED(!braid_exchange_start(&x));
	for (k = 0; k < NR_DEAD; k++) {
		snprintf(path, sizeof(path), "%s/dead%d", dir, k);
		open_pinged(&dead[k], x, path);
	}
	open_pinged(&lively, x, paths[0]);
	fake_guest_start_thread(lively.g);
	while (braid_exchange_bursts(x, lively.peer) < 6 &&
	       braid_host_clock_ns() - start_ns < LIMIT_NS)
		braid_sleep_ns(100000);
	CHECK(braid_exchange_bursts(x, lively.peer) >= 6);
	for (k = 0; k < NR_DEAD; k++) {
		CHECK(asked(&dead[k]) <= 1);
		close_pinged(&dead[k], x);
	}
	close_pinged(&lively, x);
	braid_exchange_stop(x);
}

/* Arbitrary data in cells --------------------------------------------------------------------- */

struct scribbler {
	struct braid_clock_cells *cells;
	u32 stop;
};

/* The word that the agent waits for, almost that word, or any. */
static u64 arbitrary_word(struct braid_clock_cells *cells)
{
	switch (truth_below(6)) {
	case 0:
		return braid_load(&cells->ping) + truth_below(3) - 1;
	case 1:
		return braid_load(&cells->burst) + truth_below(3) - 1;
	case 2:
		return braid_load(&cells->host_ns) + truth_between(-1000000, 1000000);
	case 3:
		return truth_below(3) - 1;
	case 4:
		return FAKE_COUNTER_OFFSET + braid_host_clock_ns() + truth_between(-100000, 100000);
	default:
		return truth_random();
	}
}

static void *scribble(void *arg)
{
	struct scribbler *s = arg;
	struct braid_clock_cells *cells = s->cells;

	while (!braid_load(&s->stop)) {
		switch (truth_below(15)) {
		case 0:
			braid_store(&cells->pong_vcpu, (u32)arbitrary_word(cells));
			break;
		case 1:
			braid_store(&cells->pong_counter, arbitrary_word(cells));
			break;
		case 2:
			braid_store(&cells->ready, arbitrary_word(cells));
			break;
		case 3:
			braid_store(&cells->poll_seq, (u32)arbitrary_word(cells));
			break;
		case 4:
			braid_store(&cells->poll_vcpu, (u32)arbitrary_word(cells));
			break;
		case 5:
			braid_store(&cells->poll_host_ns, arbitrary_word(cells));
			break;
		case 6:
			braid_store(&cells->poll_counter, arbitrary_word(cells));
			break;
		case 7:
			braid_store(&cells->wall_seq, (u32)arbitrary_word(cells));
			break;
		case 8:
			braid_store(&cells->ping, arbitrary_word(cells));	/* of no vCPU */
			break;
		case 9:
			braid_store(&cells->poll_marker, arbitrary_word(cells));
			braid_store(&cells->poll_flags, (u32)arbitrary_word(cells));
			break;
		case 10:
			braid_store(&cells->vm_seq, (u32)arbitrary_word(cells));
			break;
		case 11:
			braid_store(&cells->vm_flags, (u32)arbitrary_word(cells));
			braid_store(&cells->vm_time_type, (u8)arbitrary_word(cells));
			braid_store(&cells->vm_status, (u8)arbitrary_word(cells));
			break;
		case 12:
			braid_store(&cells->vm_marker, arbitrary_word(cells));
			braid_store(&cells->vm_time_ns, arbitrary_word(cells));
			braid_store(&cells->vm_bound_ns, arbitrary_word(cells));
			break;
		default:
			braid_store(&cells->pong, arbitrary_word(cells));
		}
	}
	return NULL;
}

static bool done(struct session *s)
{
	return s->status.events > 10000;
}

/* Reads a capture to its end; checks that each event has its true time. */
static void check_capture(const char *path, bool true_times)
{
	char *names[] = { (char *)path };
	struct braid_source *source;
	struct braid_stream *stream;
	u64 events = 0;
	size_t k;

	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	NEED(source->nr_streams == 1);
	stream = source->streams[0];
	if (true_times) {
		CHECK_EQ(stream->clock.kind, BRAID_CLOCK_EXCHANGE);
		CHECK_EQ(braid_clock_epochs(&stream->clock), 1);
	}
	for (k = 0; k < stream->nr_rings; k++) {
		struct braid_ring *ring = stream->rings[k];

		while (braid_ring_next(ring) > 0) {
			struct braid_clock_time t = { ring->item.host_ns, ring->item.bound_ns, 0,
						      true };

			events += ring->item.kind == BRAID_ITEM_EVENT;
			if (!true_times || ring->item.kind != BRAID_ITEM_EVENT)
				continue;
			CHECK(t.bound_ns != BRAID_BOUND_UNKNOWN);
			if (!truth_holds(&t, ring->item.counter - FAKE_COUNTER_OFFSET)) {
				CHECK(!"the truth is within the bound");
				break;
			}
		}
	}
	CHECK(events >= 10000 || !true_times);
	braid_source_free(source);
}

static void a_hostile_guest(void)
{
	struct session hostile = { 0 }, honest = { 0 };
	struct scribbler scribbler = { 0 };
	struct braid_exchange *x;
	pthread_t thread;

	NEED(!braid_exchange_start(&x));
	hostile.exchange = honest.exchange = x;
	hostile.guest = fake_guest_new(paths[0], &usual);
	honest.guest = fake_guest_new(paths[1], &usual);
	scribbler.cells = (struct braid_clock_cells *)
		(hostile.guest->base + hostile.guest->sb.sections[BRAID_SECTION_CLOCK].offset);
	fake_guest_start_thread(hostile.guest);
	fake_guest_start_thread(honest.guest);
	NEED(!pthread_create(&thread, NULL, scribble, &scribbler));
	session_begin(&hostile, paths[0], captures[0], NULL);
	session_begin(&honest, paths[1], captures[1], NULL);
	do {
		CHECK(session_turn(&hostile) >= 0);
		CHECK(session_turn(&honest) >= 0);
		braid_sleep_ns(200000);
	} while (!done(&honest));
	session_end(&honest);
	session_end(&hostile);
	braid_store(&scribbler.stop, 1);
	pthread_join(thread, NULL);
	braid_exchange_stop(x);
	fake_guest_free(hostile.guest);
	fake_guest_free(honest.guest);
	check_capture(captures[0], false);
	check_capture(captures[1], true);
	CHECK_EQ(RUN_COMMAND(braid_cmd_clock, "clock", captures[0]), EXIT_SUCCESS);
	CHECK_EQ(RUN_COMMAND(braid_cmd_clock, "clock", "--json", captures[0]), EXIT_SUCCESS);
}

int main(void)
{
	dir = scratch(".");
	paths[0] = scratch("region0");
	paths[1] = scratch("region1");
	captures[0] = scratch("capture0");
	captures[1] = scratch("capture1");
	RUN(a_silent_guest);
	RUN(many_dead_guests);
	RUN(a_hostile_guest);
	return VERDICT();
}
